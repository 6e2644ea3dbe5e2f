"""CUDA text in Python strings, lowered by the CUDA frontend with positions in the Python file."""

from __future__ import annotations

import re
from dataclasses import replace

from stitchcuda.analysis.program.cuda import lower_module as lower_cuda
from stitchcuda.analysis.program.ir import Declare, Function, Module, Record
from stitchcuda.analysis.syntax.python import string_pieces
from tree_sitter import Node

_ESCAPE = re.compile(rb"\\(\r?\n|x[0-9a-fA-F]{2}|[0-7]{1,3}|.)", re.DOTALL)
_SIMPLE = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\", b"'": b"'", b'"': b'"'}


def cuda_text(node: Node) -> tuple[int, bytes] | None:
    """(start byte, text) of a string that may be CUDA source. The text has one byte for each byte of the file from
    `start` on: an escape becomes its character behind blanks, and what lies between adjacent strings becomes blank, so that
    byte k of the text is byte `start + k` of the file. None when the value is not known."""
    pieces = string_pieces(node)
    if not pieces:
        return None
    start = pieces[0][0]
    out = bytearray()
    for position, content, raw in pieces:
        out += b" " * (position - start - len(out))
        out += content if raw else _ESCAPE.sub(_same_length, content)
    return start, bytes(out)


def _same_length(match: re.Match[bytes]) -> bytes:
    body = match[1]
    if body in (b"\n", b"\r\n"):
        value = b""  # a continued line
    elif body[:1] in b"01234567":
        value = bytes([int(body, 8) & 0xFF])
    elif len(body) == 3 and body[:1] == b"x":
        value = bytes([int(body[1:], 16)])
    else:
        value = _SIMPLE.get(body, match[0])
    return value.rjust(len(match[0]))


def looks_like_cuda(text: bytes) -> bool:
    return b"__global__" in text


def lower_source(path: str, start: int, text: bytes) -> Module:
    """The module of a CUDA string of the file `path`, its positions those of the file."""
    module = lower_cuda(path, text)
    names = {f.uid: f"{f.uid}@{start}" for f in module.functions}
    return replace(
        module,
        functions=tuple(_moved(f, start, names[f.uid]) for f in module.functions),
        records=tuple(_moved_record(r, start, names) for r in module.records),
        globals=tuple(_moved_global(g, start) for g in module.globals),
        problems=(),
    )


def _moved(function: Function, by: int, uid: str) -> Function:
    return replace(function, base=function.base + by, uid=uid)


def _moved_record(record: Record, by: int, names: dict[str, str]) -> Record:
    methods = tuple(names.get(uid, uid) for uid in record.methods)
    return replace(record, span=(record.span[0] + by, record.span[1] + by), methods=methods)


def _moved_global(declared: Declare, by: int) -> Declare:
    span = (declared.span[0] + by, declared.span[1] + by)
    return replace(declared, span=span, name_span=(declared.name_span[0] + by, declared.name_span[1] + by))
