"""Parsing Python with tree-sitter. Never raises: broken text gives a tree with error nodes."""

from __future__ import annotations

import tree_sitter_python
from tree_sitter import Language, Node, Parser

PYTHON = Language(tree_sitter_python.language())
_parser = Parser(PYTHON)


def parse_python(text: bytes) -> Node:
    """The root of the tree."""
    return _parser.parse(text).root_node


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def children_of(node: Node, field: str) -> list[Node]:
    return [child for child in node.children_by_field_name(field) if child.is_named]


def string_pieces(node: Node) -> list[tuple[int, bytes, bool]] | None:
    """The content of a string literal or of adjacent ones: (start byte, content as written, raw). None when it holds
    an interpolation, so that its value is not known."""
    parts = node.named_children if node.type == "concatenated_string" else [node]
    pieces: list[tuple[int, bytes, bool]] = []
    for part in parts:
        if part.type != "string":
            return None
        start = next((c for c in part.children if c.type == "string_start"), None)
        end = next((c for c in part.children if c.type == "string_end"), None)
        if start is None or end is None or any(c.type == "interpolation" for c in part.children):
            return None
        prefix = text_of(start).lower()
        if "f" in prefix:
            return None
        whole = part.text or b""
        content = whole[start.end_byte - part.start_byte : end.start_byte - part.start_byte]
        pieces.append((start.end_byte, content, "r" in prefix))
    return pieces
