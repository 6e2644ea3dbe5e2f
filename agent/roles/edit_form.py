"""Edits as the coder and the repairer write them: their schema, its words, and the reader."""

from __future__ import annotations

from typing import Any

from stitchcuda.agent.roles.answers import AnchoredEdit, CreateFile, ReplaceText, RewriteFunction
from stitchcuda.analysis.contract.jsonread import Reader, SchemaError

MOST_EDITS = 40
MOST_TEXT = 200_000  # characters of one edit
_KINDS = ("replace", "function", "new_file")
_FIELDS = {"replace": ("anchor", "text"), "function": ("function", "text"), "new_file": ("text",)}


def _kind(name: str) -> dict[str, Any]:
    fields = ("path", *_FIELDS[name])
    return {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": [name]}, **{f: {"type": "string"} for f in fields}},
        "required": ["kind", *fields],
        "additionalProperties": False,
    }


SCHEMA: dict[str, Any] = {"type": "array", "items": {"anyOf": [_kind(name) for name in _KINDS]}}

WORDS = """`edits` is a list of at most 40 objects, all made together on the sources as shown, none overlapping another:
- {"kind": "replace", "path": "a.cu", "anchor": "exact text that occurs once in the file", "text": "what it becomes"}
- {"kind": "function", "path": "a.cu", "function": "name", "text": "the whole new definition, signature and body"}
- {"kind": "new_file", "path": "fused.cuh", "text": "all of it"}, where the scope allows new files: .cu or .cuh,
  beside those of the scope"""


def read_edits(reader: Reader) -> tuple[AnchoredEdit, ...]:
    """The field `edits` of an answer. Raises SchemaError."""
    edits = reader.items("edits", _edit)
    if not 1 <= len(edits) <= MOST_EDITS:
        raise SchemaError(reader.path("edits"), len(edits), f"1 to {MOST_EDITS} edits")
    return edits


def _edit(value: object, at: str) -> AnchoredEdit:
    kind = value.get("kind") if isinstance(value, dict) else None
    known = _FIELDS[kind] if isinstance(kind, str) and kind in _FIELDS else ("anchor", "function", "text")
    reader = Reader(value, at, ("kind", "path", *known))
    kind = reader.choice("kind", _KINDS)
    path, text = short(reader, "path", 300), short(reader, "text", MOST_TEXT)
    if not path:
        raise SchemaError(reader.path("path"), path, "the path of a file")
    if kind == "replace":
        anchor = short(reader, "anchor", MOST_TEXT)
        if not anchor.strip():
            raise SchemaError(reader.path("anchor"), anchor, "text of the file that occurs once")
        return ReplaceText(path, anchor, text)
    if not text.strip():
        raise SchemaError(reader.path("text"), text, "code")
    if kind == "function":
        return RewriteFunction(path, short(reader, "function", 300), text)
    return CreateFile(path, text)


def short(reader: Reader, name: str, most: int) -> str:
    """A text field of at most `most` characters. Raises SchemaError."""
    text = reader.text(name)
    if len(text) > most:
        raise SchemaError(reader.path(name), text, f"at most {most} characters, not {len(text)}")
    return text
