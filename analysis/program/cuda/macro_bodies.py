"""Macro definitions, and macro bodies as parsed fragments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.syntax.comments import without_comments
from stitchcuda.analysis.syntax.parse import parse_tree
from tree_sitter import Node, Tree

MAX_BODY = 8_000  # bytes of a macro body worth parsing


@dataclass(frozen=True, slots=True)
class MacroDef:
    """A `#define`. `body` has its continuation lines joined and comments removed."""

    name: str
    params: tuple[str, ...] | None  # None: object-like
    body: str
    variadic: bool = False
    offset: int = field(default=0, compare=False)  # where the name starts in the file that defines it

    @property
    def acts(self) -> bool:
        """Whether an object-like macro is more than a constant or a type: its name alone then calls or does something."""
        return _object_acts(self.body)

    @property
    def alias(self) -> str:
        """The single name the body consists of, or ""."""
        return self.body if _NAME_ONLY.match(self.body) else ""


# A name of CUDA that stands for one of another vendor: how a program is ported. Read as CUDA, it means what CUDA means by it.
_OF_CUDA = re.compile(r"(?:cuda|cu[A-Z]|cu(?:blas|dnn|fft|rand|solver|sparse)|nccl)\w*$|(?:CU|CUDA|CUBLAS|NCCL)_\w+$")
_OF_OTHERS = re.compile(
    r"(?i:hip|rccl|roc|miopen|musa|mccl)\w+$|mu[A-Z]\w*$|MU(?:BLAS)?_\w+$|mu(?:blas|fft|rand|sparse|solver)\w*$"
)
_NAME_ONLY = re.compile(r"[A-Za-z_]\w*$")
_OBJECT_ACTS = re.compile(
    r"\b[A-Za-z_]\w*\s*(?:<[^<>;]*>\s*)?(?:\(|<<<)|[;{}]|\b(?:return|goto|break|continue|throw)\b"
)
_CAST_ONLY = re.compile(
    r"(?:sizeof|alignof|static_cast|reinterpret_cast)\b|__attribute__|__declspec|__launch_bounds__|__align__"
)


@lru_cache(maxsize=4096)
def _object_acts(body: str) -> bool:
    return bool(_OBJECT_ACTS.search(body)) and not _CAST_ONLY.match(body)


# ---------------------------------------------------------------------------------------------------------- definitions

_DEFINE = re.compile(
    rb"^[ \t]*\#[ \t]*define[ \t]+([A-Za-z_]\w*)(\([^)\n]*\)|\((?:[^)\n\\]|\\\r?\n)*\))?((?:[^\n\\]|\\\r?\n|\\[^\n])*)",
    re.MULTILINE,
)
_JOIN = re.compile(r"\\\r?\n")


def _strip_comments(body: str) -> str:
    if "/" not in body:
        return body
    return without_comments(body)


def collect_macros(text: bytes) -> dict[str, MacroDef]:
    """All `#define`s of a file, in every `#if` branch. Of several definitions of one name the last non-empty one counts:
    the other is usually the release-build or other-platform stub."""
    found: dict[str, MacroDef] = {}
    if b"define" not in text:
        return found
    for match in _DEFINE.finditer(text):
        name = match.group(1).decode()
        body = _strip_comments(_JOIN.sub(" ", match.group(3).decode("utf-8", "replace"))).strip()
        params: tuple[str, ...] | None = None
        variadic = False
        if match.group(2) is not None:
            listed = _JOIN.sub(" ", match.group(2).decode("utf-8", "replace"))[1:-1]
            names = [p.strip() for p in listed.split(",")] if listed.strip() else []
            if names and names[-1].endswith("..."):
                variadic = True
                names[-1] = names[-1][:-3].strip() or "__VA_ARGS__"
            params = tuple(names)
        if not body and name in found:
            continue
        if _OF_CUDA.match(name) and _OF_OTHERS.match(body):
            continue
        found[name] = MacroDef(name, params, body, variadic, match.start(1))
    return found


# ------------------------------------------------------------------------------------------------------- parsed bodies

# Starts a string literal that stands for the text of a macro argument.
STRINGIFIED = "\x01"
HEAD_STATEMENT = b"void f(){"
HEAD_VALUE = b"void f(){return "
_STATEMENT_START = re.compile(
    r"(?:do|if|for|while|switch|return|goto|break|continue|throw|try|case|default|using|typedef|static)\b|[{;#]"
)
_STRINGIFY = re.compile(r"(?<!#)#(?!#)\s*([A-Za-z_]\w*)")
_VA_PASTE = re.compile(r",?\s*##\s*(?=__VA_ARGS__)")
_VA_OPT = re.compile(r"__VA_OPT__\s*\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Body:
    """A parsed macro body. `nodes` are its statements, or its one expression when `is_value`."""

    text: bytes
    tree: Tree
    nodes: tuple[Node, ...]
    is_value: bool
    has_error: bool


def parse_body(body: str) -> Body:
    source = body.encode()
    if not _STATEMENT_START.match(body) and ";" not in body:
        text = HEAD_VALUE + source + b"\n;}\n"
        tree = parse_tree(text)
        statements = _statements(tree)
        if not tree.root_node.has_error and len(statements) == 1:
            value = next((c for c in statements[0].named_children if c.kind_id != g.COMMENT), None)
            if value is not None:
                return Body(text, tree, (value,), True, False)
    text = HEAD_STATEMENT + source + b"\n;}\n"
    tree = parse_tree(text)
    statements = _statements(tree)
    if (
        len(statements) == 1
        and statements[0].kind_id == g.EXPRESSION_STATEMENT
        and statements[0].named_child_count == 1
    ):
        return Body(text, tree, (statements[0].named_children[0],), True, tree.root_node.has_error)
    return Body(text, tree, tuple(statements), False, tree.root_node.has_error)


def _statements(tree: Tree) -> list[Node]:
    """The statements of the function `f` around a fragment, empty ones left out."""
    for item in tree.root_node.named_children:
        if item.kind_id == g.FUNCTION_DEFINITION:
            body = item.child_by_field_id(g.F_BODY)
            if body is not None:
                return [
                    c
                    for c in body.named_children
                    if c.kind_id != g.COMMENT and not (c.kind_id == g.EXPRESSION_STATEMENT and c.named_child_count == 0)
                ]
    return []


@dataclass(frozen=True, slots=True)
class Template:
    """A macro body whose parameters can be bound; `body` is None when text must be substituted instead."""

    body: Body | None


# An identifier directly below one of these is a name, not a value.
_NOT_VALUES = frozenset(
    {
        g.INIT_DECLARATOR,
        g.PARAMETER,
        g.OPTIONAL_PARAMETER,
        g.POINTER_DECLARATOR,
        g.REFERENCE_DECLARATOR,
        g.ARRAY_DECLARATOR,
        g.FUNCTION_DECLARATOR,
        g.DECLARATION,
        g.LABELED,
        g.QUALIFIED,
        g.TEMPLATE_FUNCTION,
        g.TEMPLATE_ARGUMENTS,
    }
)


@lru_cache(maxsize=4096)
def template(macro: MacroDef) -> Template:
    """The parsed body of a macro, when binding its parameters is exact enough."""
    if len(macro.body) > MAX_BODY:
        return Template(None)
    text = _VA_PASTE.sub(", ", macro.body) if macro.variadic else macro.body
    text = _VA_OPT.sub(r"\1", text)
    text = _STRINGIFY.sub(rf'"{STRINGIFIED}\1"', text)
    if "##" in text:
        return Template(None)
    body = parse_body(text)
    if body.has_error:
        return Template(None)
    names = {p.encode() for p in macro.params or ()} | ({b"__VA_ARGS__"} if macro.variadic else set())
    if names:
        stack: list[tuple[Node, bool]] = [(n, False) for n in body.nodes]
        while stack:
            node, as_name = stack.pop()
            if node.child_count == 0:
                word = body.text[node.start_byte : node.end_byte]
                if word in names and node.type != "string_content" and (node.kind_id != g.IDENTIFIER or as_name):
                    return Template(None)
                continue
            kind = node.kind_id
            value = node.child_by_field_id(g.F_VALUE) if kind in (g.INIT_DECLARATOR, g.DECLARATION) else None
            size = node.child_by_field_id(g.F_SIZE) if kind == g.ARRAY_DECLARATOR else None
            for child in node.children:
                as_value = (value is not None and child == value) or (size is not None and child == size)
                stack.append((child, kind in _NOT_VALUES and not as_value))
    return Template(body)
