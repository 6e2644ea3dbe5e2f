"""What the program has already, as far as new code is measured against it: its words, macros, headers, and its own ways out."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from stitchcuda.agent.invention.definitions import definitions
from stitchcuda.agent.invention.known_names import DENIED
from stitchcuda.agent.invention.tokens import Token, tokens
from stitchcuda.analysis.index.index import Analysis

CODE = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc", ".ipp", ".tpp")
_ERRORS = frozenset(
    [
        "cudaError_t",
        "cudaError",
        "cudaSuccess",
        "cudaGetErrorString",
        "cudaGetErrorName",
        "cudaGetLastError",
        "CUresult",
        "cublasStatus_t",
    ]
)
_REACHES = frozenset(["process", "network", "file", "environment", "loading", "signal", "thread", "output"])
_TO_ERRORS = frozenset(["stderr", "cerr", "perror", "fprintf", "vfprintf"])  # messages of programs that give up
_RESULT_WORDS = re.compile(
    r"(?:^|_)(?:reference|golden|verify|validate|self_?test|(?:check|compare)_(?:results?|outputs?|answers?))(?:_|$)"
)


@dataclass
class Surroundings:
    """`reaching` are functions and macros of the program by which code gets to files, processes, printing and the like, with the
    kind; `defined` are its functions, `called` the words that stand before a parenthesis; `checks` those that look at CUDA's errors; `pasting` macros that build names. `checked` counts the CUDA calls that stand in
    a check, by name. `values` are what the edited files declared before."""

    words: frozenset[str] = frozenset()
    macros: dict[str, tuple[str, ...]] = field(default_factory=dict)
    headers: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    reaching: dict[str, str] = field(default_factory=dict)
    checks: frozenset[str] = frozenset()
    pasting: frozenset[str] = frozenset()
    checked: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()
    called: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()


def is_code(path: str) -> bool:
    return path.endswith(CODE)


@dataclass(frozen=True)
class _File:
    """One text, as far as it counts here. `bodies` are the words in functions and macros; `given` the CUDA calls that stand as
    arguments, by what they are given to."""

    words: frozenset[str]
    headers: frozenset[str]
    macros: Mapping[str, tuple[str, ...]]
    bodies: Mapping[str, frozenset[str]]
    defined: frozenset[str]
    given: frozenset[tuple[str, str]]
    called: frozenset[str]


def surroundings_of(texts: Mapping[str, bytes], analysis: Analysis) -> Surroundings:
    """Of a program's texts, and of the paths of those files that are not among them."""
    files = [_file(text, _ranges(path, text, analysis)) for path, text in texts.items() if is_code(path)]
    macros = {name: body for file in files for name, body in file.macros.items()}
    bodies: dict[str, set[str]] = {}
    for file in files:
        for name, body in file.bodies.items():
            bodies.setdefault(name, set()).update(body)
    checks = frozenset(name for name, body in bodies.items() if body & _ERRORS and _gives_up(body))
    return Surroundings(
        frozenset().union(*(file.words for file in files)),
        macros,
        frozenset().union(*(file.headers for file in files)) - {""},
        frozenset((*texts, *analysis.sources)),
        _reaching(bodies, checks),
        checks,
        frozenset(_closed({name for name, body in macros.items() if "##" in body or "%:%:" in body}, macros)),
        frozenset(call for file in files for check, call in file.given if check in checks),
        frozenset().union(*(file.defined for file in files)),
        frozenset().union(*(file.called for file in files)),
    )


def _ranges(path: str, text: bytes, analysis: Analysis) -> tuple[tuple[str, int, int], ...]:
    """Names and ranges of the functions that a text defines; from the analysis where that read this text."""
    module = analysis.program.modules.get(path)
    if module is not None and analysis.sources.get(path) == text:
        return tuple((f.name, f.base, f.base + f.span[1]) for f in module.functions if f.body is not None)
    return tuple((d.name, d.start, d.end) for d in definitions(text))


@lru_cache(maxsize=2048)
def _file(text: bytes, ranges: tuple[tuple[str, int, int], ...]) -> _File:
    found = tokens(text)
    macros: dict[str, tuple[str, ...]] = {}
    bodies: dict[str, frozenset[str]] = {}
    for line in lines_of(found, "define"):
        if len(line) > 2:
            macros[line[2].text] = body = tuple(t.text for t in line[3:])
            bodies[line[2].text] = bodies.get(line[2].text, frozenset()) | frozenset(body)
    starts = [t.start for t in found]
    for name, start, end in ranges:
        if name != "main":
            inside = found[bisect_left(starts, start) : bisect_left(starts, end)]
            words = frozenset(t.text for t in inside if t.kind == "word")
            bodies[name] = bodies.get(name, frozenset()) | words - {name}
    given = frozenset(
        (a.text, c.text)
        for a, b, c in zip(found, found[1:], found[2:], strict=False)
        if b.text == "(" and c.text.startswith("cuda") and a.kind == "word"
    )
    return _File(
        frozenset(t.text for t in found if t.kind == "word"),
        frozenset(header_of(line) for line in lines_of(found, "include")),
        macros,
        bodies,
        frozenset(name for name, _, _ in ranges),
        given,
        frozenset(a.text for a, b in pairwise(found) if b.text in ("(", "<", "<<<", "{") and a.kind == "word"),
    )


def lines_of(found: Iterable[Token], directive: str) -> list[list[Token]]:
    """The directives of one kind, each with all its tokens."""
    lines: dict[int, list[Token]] = {}
    for token in found:
        if token.headline >= 0:
            lines.setdefault(token.headline, []).append(token)
    return [line for line in lines.values() if len(line) > 1 and line[1].text == directive]


def header_of(line: list[Token]) -> str:
    """The name in an include, "" when a macro supplies it."""
    if len(line) == 3 and line[2].kind in ("header", "string"):
        return line[2].text[1:-1]
    return ""


def checks_results(name: str) -> bool:
    """A function or file that says by its name that it judges results, or is what they are compared with."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return _RESULT_WORDS.search(re.sub(r"[^a-z0-9]+", "_", plain)) is not None


def _gives_up(body: set[str]) -> bool:
    return bool(body & {"exit", "abort", "throw", "return", "assert", "fprintf", "printf", "cerr", "runtime_error"})


def _reaching(bodies: Mapping[str, set[str]], checks: frozenset[str]) -> dict[str, str]:
    reaching: dict[str, str] = {}
    for name, body in bodies.items():
        if name in checks:
            continue
        kinds = sorted({DENIED[w] for w in body if w in DENIED and w not in _TO_ERRORS} & _REACHES)
        if kinds:
            reaching[name] = kinds[0]
    changed = True
    while changed:
        changed = False
        for name, body in bodies.items():
            if name in reaching or name in checks:
                continue
            through = next((reaching[word] for word in sorted(body) if word in reaching), None)
            if through is not None:
                reaching[name] = through
                changed = True
    return reaching


def _closed(names: set[str], macros: Mapping[str, tuple[str, ...]]) -> set[str]:
    """With the macros that use them."""
    while more := {name for name, body in macros.items() if name not in names and names & set(body)}:
        names |= more
    return names
