"""Files as read and as lowered, for all programs of a process: in a tree, most headers belong to many of them.

One version of each path, the latest; the files used longest ago go first. What a file is lowered to depends on its text,
its language and the macros of the files that it includes, and on nothing else: those make the key. Its path stands in the names of
what it holds only, so that a file that stands in several folders is lowered once, too.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from stitchcuda.analysis.program import cuda
from stitchcuda.analysis.program.ir import Module, Param
from stitchcuda.analysis.syntax.directives import directives

_MOST_BYTES = 4 * 1024 * 1024  # of text; what it is lowered to takes some fifty times as much
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^">\n]+)[">]', re.MULTILINE)

Signatures = dict[str, tuple[tuple[Param, ...], bytes]]
"""Digests of parameter lists by the function's uid, each with the list it is of."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """What a file's text alone says."""

    text: bytes
    digest: bytes
    macros: Mapping[str, cuda.MacroDef]
    defines: bytes  # digest of the macros; empty without any
    includes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoweredFile:
    """A lowered file, and digests of what it says to others."""

    key: bytes  # of what it was lowered from
    module: Module
    signatures: Signatures  # of its functions
    declared: bytes  # everything but function bodies: functions, records, globals, constants, aliases


@dataclass(slots=True)
class SharedFiles:
    """The files that were used last, by path."""

    most_bytes: int = _MOST_BYTES
    _kept: OrderedDict[str, tuple[SourceText, LoweredFile | None]] = field(default_factory=OrderedDict)
    _bytes: int = 0
    # A path that is kept, by digest of its text, and by what it was lowered from.
    _by_text: dict[tuple[bytes, bool], str] = field(default_factory=dict)
    _by_key: dict[bytes, str] = field(default_factory=dict)

    def source(self, path: str, text: bytes) -> SourceText:
        """What the text of a file says; the same object as long as it is the same text."""
        digest = hashlib.blake2b(text, digest_size=16).digest()
        known = self._kept.get(path)
        if known is not None and known[0].digest == digest:
            self._kept.move_to_end(path)
            return known[0]
        twin = self._kept.get(self._by_text.get((digest, is_python(path)), ""))
        made = _read(path, text, digest) if twin is None else twin[0]
        self._keep(path, made, None)
        return made

    def lowered(self, path: str, source: SourceText, key: bytes) -> LoweredFile | None:
        """What the file was lowered to, when it or one with another path was lowered from the same before."""
        known = self._kept.get(path)
        if known is not None and known[0] is source and known[1] is not None and known[1].key == key:
            return known[1]
        twin = self._kept.get(self._by_key.get(key, ""))
        if twin is None or twin[1] is None or is_python(path) or is_python(twin[1].module.path):
            return None
        made = _under(twin[1], path)
        self._keep(path, source, made)
        return made

    def keep(self, path: str, source: SourceText, lowered: LoweredFile) -> None:
        """The file was lowered. This replaces what its path was before."""
        self._keep(path, source, lowered)

    def forget(self, path: str) -> None:
        """The file is gone."""
        self._drop(path)

    def _drop(self, path: str) -> None:
        gone = self._kept.pop(path, None)
        if gone is None:
            return
        source, lowered = gone
        self._bytes -= len(source.text)
        if self._by_text.get((source.digest, is_python(path))) == path:
            del self._by_text[source.digest, is_python(path)]
        if lowered is not None and self._by_key.get(lowered.key) == path:
            del self._by_key[lowered.key]

    def _keep(self, path: str, source: SourceText, lowered: LoweredFile | None) -> None:
        self._drop(path)
        self._kept[path] = (source, lowered)
        self._bytes += len(source.text)
        self._by_text[source.digest, is_python(path)] = path
        if lowered is not None:
            self._by_key[lowered.key] = path
        while self._bytes > self.most_bytes:
            self._drop(next(iter(self._kept)))


SHARED = SharedFiles()


def is_python(path: str) -> bool:
    """Whether a file is lowered by the Python frontend."""
    return path.endswith((".py", ".pyi"))


def lowered_file(key: bytes, module: Module, before: Signatures) -> LoweredFile:
    """A module with its digests. Parameter lists that are the same objects as `before` keep theirs."""
    functions = (*module.functions, *((module.entry,) if module.entry is not None else ()))
    signatures: Signatures = {}
    hasher = hashlib.blake2b(digest_size=16)
    for function in sorted(functions, key=lambda f: f.uid):
        known = before.get(function.uid)
        if known is None or known[0] is not function.params:
            # Where they stand says nothing to others: who runs the function knows its own digest.
            listed = repr([(p.name, p.type, p.default) for p in function.params])
            known = (function.params, digest_of(listed.encode(errors="surrogateescape")))
        signatures[function.uid] = known
        hasher.update(f"{function.uid}|{function.body is None}|".encode(errors="surrogateescape"))
        hasher.update(known[1])
    parts = (module.path, module.records, module.globals, module.constants, module.aliases, module.includes)
    hasher.update(repr(parts).encode(errors="surrogateescape"))
    return LoweredFile(key, module, signatures, hasher.digest())


def _under(lowered: LoweredFile, path: str) -> LoweredFile:
    """The same for a file with another path."""
    before = len(lowered.module.path)
    signatures = {path + uid[before:]: each for uid, each in lowered.signatures.items()}
    return lowered_file(lowered.key, cuda.under(lowered.module, path), signatures)


def digest_of(*parts: bytes) -> bytes:
    """One digest of several byte strings."""
    hasher = hashlib.blake2b(digest_size=16)
    for part in parts:
        hasher.update(part)
        hasher.update(b"\0")
    return hasher.digest()


def _read(path: str, text: bytes, digest: bytes) -> SourceText:
    if is_python(path):
        return SourceText(text, digest, {}, b"", ())
    macros = cuda.collect_macros(text)
    defines = repr([(m.name, m.params, m.body, m.variadic) for m in macros.values()]).encode() if macros else b""
    includes = tuple(m[1].decode(errors="replace") for m in directives(_INCLUDE, b"include", text))
    return SourceText(text, digest, macros, digest_of(defines) if defines else b"", includes)
