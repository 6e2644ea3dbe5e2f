"""Functions that can be judged before the rest of the program is lowered.

What an entry gives depends on the functions that its text leads to by names, and on what stands outside functions. Where names say it
all (none is pasted together, there is one `main` at most) a few entries with what they lead to make a small program in which they give
what they give in the whole one, at a fraction of the time. What anything else may come to as well is `open` there.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stitchcuda.analysis.index.finality import leads_to, words_between
from stitchcuda.analysis.index.reach import pasted, places
from stitchcuda.analysis.index.shared import SourceText, is_python
from stitchcuda.analysis.program import cuda
from stitchcuda.analysis.program.ir import Module, Program
from stitchcuda.analysis.program.link import link

MOST_BYTES = 64 * 1024  # of functions that are lowered ahead of the rest
CHUNK_BYTES = (
    4 * 1024
)  # of functions, at most, between two looks at whether it is enough; the first few come one by one
SHARE = 3  # so many times as much text has to be left, or it is not worth it

_WORD = re.compile(rb"[A-Za-z_]\w*")
_PLAIN = re.compile(rb"[A-Za-z_]\w*\Z")
# A type declared in a function is one of the file's.
_DECLARES = (b"struct", b"class", b"union", b"enum", b"typedef", b"using")


@dataclass(frozen=True, slots=True)
class Part:
    """Some functions of a program, linked: `entries` are the uids of those of its entries that are asked about, and `open` those that
    functions outside of it may come to."""

    program: Program
    entries: tuple[str, ...]
    open: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Item:
    """A function as written."""

    name: bytes
    text: bytes  # what may name others
    defined: bool
    plain: bool  # nothing comes to it but by its name


@dataclass(slots=True)
class _File:
    text: bytes
    items: list[_Item]
    lowering: cuda.ModuleLowering | None
    module: Module | None
    spans: list[tuple[int, int]] = field(default_factory=list)  # of the items, in order of their starts
    at: dict[tuple[int, int], list[_Item]] = field(default_factory=dict)

    def part(self, names: set[bytes]) -> Module:
        if self.lowering is not None:
            return self.lowering.part([k for k, item in enumerate(self.items) if item.name in names])
        assert self.module is not None
        return self.module

    def around(self, place: int) -> list[_Item]:
        """The functions that hold a place: more than one when a macro defines them together."""
        k = bisect_right(self.spans, (place, len(self.text))) - 1
        return self.at[self.spans[k]] if k >= 0 and place < self.spans[k][1] else []


class Ahead:
    """The functions of all files by name."""

    def __init__(
        self,
        files: Mapping[str, SourceText],
        lowerings: Mapping[str, cuda.ModuleLowering],
        modules: Mapping[str, Module],
    ) -> None:
        """`lowerings` of the files that are to be lowered, `modules` of those that are."""
        self._files = {
            path: _lowering(source.text, lowerings[path]) if path in lowerings else _module(source.text, modules[path])
            for path, source in files.items()
        }
        self._by_name: dict[bytes, list[_Item]] = {}
        for file in self._files.values():
            for item in file.items:
                self._by_name.setdefault(item.name, []).append(item)
        self._macros: dict[bytes, bytes] = {}
        for source in files.values():
            for name, macro in source.macros.items():
                key = name.encode()
                self._macros[key] = self._macros.get(key, b"") + b" " + macro.body.encode(errors="surrogateescape")
        self._inside: set[bytes] = set()  # names of functions that only those of the part hold
        self.possible = not any(is_python(path) for path in files)
        self.possible &= not any(pasted(macro) for source in files.values() for macro in source.macros.values())
        self._mains = {p for p, f in self._files.items() if any(i.name == b"main" and i.defined for i in f.items)}
        self.possible &= len(self._mains) < 2 and all(i.plain for i in self._by_name.get(b"main", ()))

    def parts(self, first: str) -> Iterator[Part]:
        """Larger and larger parts, with entries of the file `first` from its top. Ends when a part would be too large."""
        if not self.possible or first not in self._files:
            return
        most = min(MOST_BYTES, sum(len(f.text) for f in self._files.values()) // (SHARE + 1))
        loose = self._loose()
        free = self._closure(loose)
        beside = self._declaring()
        names = set(free)
        seeds: set[bytes] = set()
        told = 0
        self._inside = set()
        for seed in self._seeds(first, names):
            seeds.add(seed)
            names |= self._closure({seed})
            size = self._size(names | beside)
            if size > most:
                return
            if size - told >= min(CHUNK_BYTES, told):
                told = size
                yield self._part(names, seeds, free, beside)
        if seeds and self._size(names | beside) > told:
            yield self._part(names, seeds, free, beside)

    def _part(self, names: set[bytes], seeds: set[bytes], free: set[bytes], beside: set[bytes]) -> Part:
        program = link([file.part(names | beside) for file in self._files.values()])
        self._inside |= {n for n in names - self._inside if n == b"main" or not self._named_outside(n, names)}
        open_names = free | (names - self._inside)
        roots = {uid for uid, f in program.functions.items() if f.name.encode(errors="surrogateescape") in open_names}
        entries = tuple(uid for uid in program.entries if program.functions[uid].name.encode() in seeds)
        return Part(program, entries, leads_to(program, roots))

    def _seeds(self, first: str, names: set[bytes]) -> Iterator[bytes]:
        """Names of functions of a file that nothing else names, in order."""
        if self._mains:
            yield b"main"
            return
        for item in self._files[first].items:
            if (
                item.defined
                and item.plain
                and item.name not in names
                and not self._named_outside(item.name, {item.name})
            ):
                yield item.name

    def _named_outside(self, name: bytes, names: set[bytes]) -> bool:
        """Whether a function that is not among `names` holds a name."""
        for file in self._files.values():
            for place in places(file.text, name):
                if any(item.name not in names for item in file.around(place)):
                    return True
        return False

    def _closure(self, names: set[bytes]) -> set[bytes]:
        """All functions that code comes to from these."""
        found: set[bytes] = set()
        seen: set[bytes] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self._macros:
                waiting += _WORD.findall(self._macros[name])
            if name in self._by_name:
                found.add(name)
                for item in self._by_name[name]:
                    waiting += {w for w in _WORD.findall(item.text) if w in self._by_name or w in self._macros}
        return found

    def _loose(self) -> set[bytes]:
        """Functions that code may come to without a function that names them: methods, operators, what tables hold."""
        loose = {name for name, items in self._by_name.items() if not all(item.plain for item in items)}
        for file in self._files.values():
            loose.update(word for word in words_between(file.text, file.spans) if word in self._by_name)
        loose.discard(b"main")
        return loose

    def _declaring(self) -> set[bytes]:
        """Functions that may declare types."""
        words = [*_DECLARES, *(m for m, body in self._macros.items() if any(w in body for w in _DECLARES))]
        return {
            item.name
            for file in self._files.values()
            for word in words
            for place in places(file.text, word)
            for item in file.around(place)
        }

    def _size(self, names: set[bytes]) -> int:
        return sum(len(item.text) for name in names for item in self._by_name[name])


def _lowering(text: bytes, lowering: cuda.ModuleLowering) -> _File:
    file = _File(text, [], lowering, None)
    for item, (name, scope, _, _) in lowering.functions:
        expansion = item.expansion.text if item.expansion is not None else b""
        known = name.encode(errors="surrogateescape")
        plain = not item.record and not scope and _PLAIN.match(known) is not None
        own = text[item.start : item.end]
        _add(file, (item.start, item.end), _Item(known, own + b" " + expansion, item.is_definition, plain))
    file.spans = sorted(file.at)
    return file


def _module(text: bytes, module: Module) -> _File:
    file = _File(text, [], None, module)
    for function in module.functions:
        name = function.name.encode(errors="surrogateescape")
        plain = not function.record and _PLAIN.match(name) is not None
        span = (function.base, function.base + function.span[1])
        # What macros put into it is among its mentions.
        words = " ".join(sorted(function.mentions)).encode(errors="surrogateescape")
        _add(file, span, _Item(name, text[span[0] : span[1]] + b" " + words, function.body is not None, plain))
    file.spans = sorted(file.at)
    return file


def _add(file: _File, span: tuple[int, int], item: _Item) -> None:
    file.items.append(item)
    file.at.setdefault(span, []).append(item)
