"""Where functions are defined in one text: the bytes of a whole definition, from `template` or `extern "C"` to its brace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from stitchcuda.agent.invention.declared import declared
from stitchcuda.agent.invention.tokens import tokens
from stitchcuda.analysis.program import cuda
from stitchcuda.analysis.program.ir import Space

MARK = b"\xef\xbb\xbf"
_EXTERN_C = re.compile(rb'\bextern\s*"C(?:\+\+)?"\s*$')


@dataclass(frozen=True, slots=True)
class Definition:
    """`[start, end)` in bytes of the text. `types` are those of its parameters as the parser spells them. `plain` is false when
    a macro wrote it: then the bytes are those of the macro's use."""

    name: str
    qualified: str
    start: int
    end: int
    name_start: int
    space: Space
    types: tuple[str, ...]
    plain: bool = True
    body: bool = True
    member: bool = False
    static: bool = False

    @property
    def shown(self) -> str:
        return f"{self.qualified}({', '.join(self.types)})"


def definitions(text: bytes) -> tuple[Definition, ...]:
    """All functions that CUDA or C++ text defines, in order. Never raises."""
    return tuple(d for d in _functions(text) if d.body)


def prototypes(text: bytes) -> tuple[Definition, ...]:
    """All functions that it only declares; the range ends before the semicolon or behind it."""
    return tuple(d for d in _functions(text) if not d.body)


@lru_cache(maxsize=1024)
def _functions(text: bytes) -> tuple[Definition, ...]:
    shift = len(MARK) if text.startswith(MARK) else 0
    found = []
    for function in cuda.lower_module("", text[shift:]).functions:
        start, end = function.base + shift, function.base + function.span[1] + shift
        before = _EXTERN_C.search(text, max(0, start - 80), start)
        start = before.start() if before else start
        types = tuple(f"{p.type.name}{'*' * p.type.pointer}" for p in function.params)
        name_start = function.base + function.name_span[0] + shift
        plain = b"{" in text[start:end] and text[name_start:end].startswith(function.name.split("(")[0][:1].encode())
        found.append(
            Definition(
                function.name,
                function.qualified,
                start,
                end,
                name_start,
                function.space,
                types,
                plain,
                body=function.body is not None,
                member=bool(function.record),
                static=function.static,
            )
        )
    return tuple(found)


def host_values(text: bytes) -> frozenset[str]:
    """The variables and the like that stand outside of functions that run on the device only."""
    device = [(d.start, d.end) for d in definitions(text) if d.space in ("global", "device")]
    words = {t.text for t in tokens(text) if t.kind == "word" and not any(a <= t.start < b for a, b in device)}
    return frozenset(words & declared(text).values)


def named(found: Sequence[Definition], name: str) -> tuple[Definition, ...]:
    """Those that a name means: `run`, `Model::run` or `ns::Model::run`; with `(` what follows is the types of parameters."""
    plain = re.sub(r"\s+", "", name.partition("(")[0]).removeprefix("::")
    return tuple(d for d in found if d.qualified == plain or d.qualified.endswith(f"::{plain}"))
