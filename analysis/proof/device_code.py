"""Device code that differs between two versions, which kernels that concerns, and what in it is beyond the analysis."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stitchcuda.analysis.findings.waits import last_name
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import Function
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.syntax.comments import COMMENT_OR_LITERAL_BYTES, bytes_without_comments

WORD = re.compile(rb"[A-Za-z_]\w*")
# What keeps values between launches, reaches memory by other ways than pointers, or asks for more than its arguments.
STRANGE = re.compile(
    r"^(asm|__asm__|__asm|clock|clock64|__clock|__clock64|globaltimer|__globaltimer|malloc|free|new|delete"
    r"|(tex|surf)([123]D|Cubemap)\w*|cuda[A-Z]\w*|__nanosleep|__brkpt)$"
)


def is_device(function: Function) -> bool:
    return function.space in ("global", "device")


@dataclass(frozen=True)
class DeviceChange:
    """Names of device functions and kernels. `touched`: what may compute otherwise, by its own text or by what it uses."""

    changed: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()  # all names of kernels in either version

    def concerns(self, kernel: str) -> bool:
        """A launch of a kernel of that name may compute otherwise."""
        return last_name(kernel).split("<")[0] in self.touched

    def listed(self) -> dict[str, list[str]]:
        """The kernels by what became of them."""
        return {
            "changed_kernels": sorted(self.kernels & self.touched - self.added - self.removed),
            "added_kernels": sorted(self.kernels & self.added),
            "removed_kernels": sorted(self.kernels & self.removed),
        }


def device_change(before: Analysis, after: Analysis, values: Iterable[str]) -> DeviceChange:
    """`values`: constants and macros that are new or have another value."""
    old, new = _texts(before), _texts(after)
    changed = {name for name in old.keys() & new.keys() if Counter(old[name]) != Counter(new[name])}
    added, removed = new.keys() - old.keys(), old.keys() - new.keys()
    touched = changed | added | removed
    named = set(values) | touched
    words = {
        name: frozenset().union(*(_words(text) for _, text in (*old.get(name, ()), *new.get(name, ()))))
        for name in old.keys() | new.keys()
    }
    while True:
        more = {name for name, used in words.items() if name not in touched and not named.isdisjoint(used)}
        if not more:
            break
        touched |= more
        named |= more
    kernels = {f.name for a in (before, after) for f in a.program.functions.values() if f.space == "global"}
    return DeviceChange(*map(frozenset, (changed, added, removed, touched, kernels)))


def _texts(analysis: Analysis) -> dict[str, list[tuple[str, bytes]]]:
    """Path and text of the definitions of each name, without comments and white space."""
    found: dict[str, list[tuple[str, bytes]]] = {}
    for function in analysis.program.functions.values():
        if is_device(function) and function.body is not None:
            found.setdefault(function.name, []).append((function.path, _plain(analysis, function)))
    return found


def _plain(analysis: Analysis, function: Function) -> bytes:
    text = analysis.sources[function.path][function.base : function.base + function.span[1]]
    return b" ".join(bytes_without_comments(text).split())


def _words(text: bytes) -> frozenset[str]:
    return frozenset(w.decode() for w in WORD.findall(text))


def strange_device_code(before: Analysis, after: Analysis, change: DeviceChange) -> Iterator[ProofFinding]:
    """What the changed version's own device code does and the analysis does not follow, or keeps between launches."""
    known = {text for texts in _texts(before).values() for _, text in texts}
    records = _records(after)
    for function in sorted(after.program.functions.values(), key=lambda f: (f.path, f.base)):
        if not is_device(function) or function.body is None or function.name not in change.touched:
            continue
        line = after.sources[function.path].count(b"\n", 0, function.base) + 1
        if _plain(after, function) in known and function.name not in change.changed | change.added:
            continue  # it uses something that changed
        if function.has_error:
            yield ProofFinding(f"`{function.qualified}` could not be parsed completely", function.path, line)
        if function.record:
            yield ProofFinding(f"`{function.qualified}` is a member of a class", function.path, line)
        for word, offset in _strange(after, function):
            at = after.sources[function.path].count(b"\n", 0, offset) + 1
            what = f"`{word}` in device code that changed: what it does is not followed"
            yield ProofFinding(what, function.path, at)
        if function.name in records:
            yield ProofFinding(f"`{function.qualified}` is also the name of a type", function.path, line)


def _records(analysis: Analysis) -> frozenset[str]:
    return frozenset(last_name(name) for name in analysis.program.records)


def _strange(analysis: Analysis, function: Function) -> Iterator[tuple[str, int]]:
    start, end = function.base, function.base + function.span[1]
    opening = start + (function.body.span[0] if function.body is not None else 0)
    text = analysis.sources[function.path][start:end]
    text = COMMENT_OR_LITERAL_BYTES.sub(lambda m: b" " * len(m[0]), text)
    if (launch := text.find(b"<<<")) >= 0:
        yield "<<<", start + launch
    for found in WORD.finditer(text):
        word, offset = found[0].decode(), start + found.start()
        if STRANGE.match(word) or (word == "static" and offset > opening and not _compile_time(text, found.end())):
            yield word, offset


def _compile_time(text: bytes, at: int) -> bool:
    return text[at:].lstrip().startswith((b"constexpr", b"_assert"))


def spread(values: Iterable[str], bodies: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The names whose definitions use one of `values`, directly or not, and these themselves."""
    found = set(values)
    while True:
        more = {name for name, used in bodies.items() if name not in found and not found.isdisjoint(used)}
        if not more:
            return frozenset(found)
        found |= more
