"""Which functions have to do with device functions that changed: those whose text leads to them by name.

A kernel's effects are read without executing it, so what an entry rests on is not only what it executed. A function's name
must be spelled for anything to come to it: in the text of what calls, launches or passes it on, or in a macro used there.
Where that is not so plain (methods, operators, names in declarations, pasted names) the answer is that anything may.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from stitchcuda.analysis.index.shared import SourceText, is_python
from stitchcuda.analysis.program.cuda import MacroDef
from stitchcuda.analysis.program.ir import Function, Program

_PLAIN = re.compile(r"[A-Za-z_]\w*\Z")
_PASTED = re.compile(r"(\w*)\s*##\s*(\w*)")
_DEFINE = re.compile(rb"[ \t]*#[ \t]*define[ \t]+(\w+)")
_MOST_NAMES = 200


def leading_to(changed: Iterable[Function], program: Program, files: Mapping[str, SourceText]) -> frozenset[str] | None:
    """The uids of functions from which the changed ones can be reached, and of these themselves; None: any."""
    functions: dict[str, list[Function]] = defaultdict(list)
    for function in program.functions.values():
        functions[function.path].append(function)
    found: set[str] = set()
    names: dict[str, None] = {}
    for function in changed:
        if not _is_plain(function):
            return None
        found.add(function.uid)
        names[function.name] = None
    pieces = [parts for file in files.values() for macro in file.macros.values() for parts in pasted(macro)]
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if len(names) > _MOST_NAMES or any(all(part in name for part in parts) for parts in pieces):
            return None
        for path, file in files.items():
            for at in places(file.text, name.encode()):
                holders = [f for f in functions[path] if f.base <= at < f.base + f.span[1]]
                more = _around(file, at) if not holders else [f.name for f in holders if f.space != "host"]
                if more is None or is_python(path) or not all(f.space == "host" or _is_plain(f) for f in holders):
                    return None
                found.update(f.uid for f in holders)
                waiting += [each for each in more if each not in names]
                names.update(dict.fromkeys(more))
    return frozenset(found)


def _is_plain(function: Function) -> bool:
    return not function.record and not is_python(function.path) and _PLAIN.match(function.name) is not None


def places(text: bytes, word: bytes) -> Iterator[int]:
    """Where a word stands."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not _in_word(text[at - 1 : at]) and not _in_word(text[end : end + 1]):
            yield at
        at = text.find(word, end)


def _in_word(byte: bytes) -> bool:
    return byte.isalnum() or byte == b"_"


def _around(file: SourceText, at: int) -> list[str] | None:
    """A place outside functions: in a comment nothing, in a macro that macro; in a declaration it may lead anywhere."""
    text = file.text
    start = text.rfind(b"\n", 0, at) + 1
    if text[start:at].lstrip().startswith(b"//") or _in_block_comment(text, at):
        return []
    while text[:start].endswith((b"\\\n", b"\\\r\n")):
        start = text.rfind(b"\n", 0, start - 1) + 1
    defines = _DEFINE.match(text, start)
    if defines is None:
        return None
    name = defines.group(1).decode()
    return [name] if name in file.macros else None


def _in_block_comment(text: bytes, at: int) -> bool:
    opening = text.rfind(b"/*", 0, at)
    if opening < 0 or text.find(b"*/", opening + 2, at) >= 0:
        return False
    before = text[text.rfind(b"\n", 0, opening) + 1 : opening]
    return b"//" not in before and b'"' not in before  # else it may open no comment at all


def pasted(macro: MacroDef) -> list[list[str]]:
    """The written pieces of the names that a macro pastes together: a parameter stands for anything."""
    if "##" not in macro.body:
        return []
    params = {*(macro.params or ()), "__VA_ARGS__"}
    found = _PASTED.findall(macro.body)
    real = [(before, after) for before, after in found if before or not (macro.variadic and after in params)]
    return [[part for part in parts if part and part not in params] for parts in real]
