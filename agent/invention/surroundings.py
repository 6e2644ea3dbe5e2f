"""What the program has already, as far as new code is measured against it: its words, macros, headers, and its own ways out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stitchcuda.agent.invention.definitions import definitions
from stitchcuda.agent.invention.known_names import DENIED
from stitchcuda.agent.invention.tokens import Token, tokens

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
    kind; `checks` those that look at CUDA's errors; `pasting` macros that build names. `checked` counts the CUDA calls that stand in
    a check, by name."""

    words: frozenset[str] = frozenset()
    macros: dict[str, tuple[str, ...]] = field(default_factory=dict)
    headers: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    reaching: dict[str, str] = field(default_factory=dict)
    checks: frozenset[str] = frozenset()
    pasting: frozenset[str] = frozenset()
    checked: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()


def is_code(path: str) -> bool:
    return path.endswith(CODE)


def surroundings_of(texts: Mapping[str, bytes], others: Iterable[str]) -> Surroundings:
    """Of a program's texts; `others` are paths of files whose text is not among them."""
    words: set[str] = set()
    headers: set[str] = set()
    macros: dict[str, tuple[str, ...]] = {}
    bodies: dict[str, set[str]] = {}
    checked: set[str] = set()
    defined: set[str] = set()
    for path, text in texts.items():
        if not is_code(path):
            continue
        found = tokens(text)
        words |= {t.text for t in found if t.kind == "word"}
        headers |= {header_of(line) for line in lines_of(found, "include")}
        for line in lines_of(found, "define"):
            if len(line) > 2:
                macros[line[2].text] = tuple(t.text for t in line[3:])
                bodies.setdefault(line[2].text, set()).update(t.text for t in line[3:])
        for definition in definitions(text):
            defined.add(definition.name)
            inside = {t.text for t in found if definition.start <= t.start < definition.end and t.kind == "word"}
            if definition.name != "main":
                bodies.setdefault(definition.name, set()).update(inside - {definition.name})
    checks = frozenset(name for name, body in bodies.items() if body & _ERRORS and _gives_up(body))
    for path, text in texts.items():
        if is_code(path):
            checked |= _checked(tokens(text), checks)
    return Surroundings(
        frozenset(words),
        macros,
        frozenset(headers - {""}),
        frozenset((*texts, *others)),
        _reaching(bodies, checks),
        checks,
        frozenset(_closed({name for name, body in macros.items() if "##" in body or "%:%:" in body}, macros)),
        frozenset(checked),
        frozenset(defined),
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


def _checked(found: tuple[Token, ...], checks: frozenset[str]) -> set[str]:
    """CUDA calls that stand as an argument of a check."""
    out = set()
    for k in range(len(found) - 2):
        if found[k].text in checks and found[k + 1].text == "(" and found[k + 2].text.startswith("cuda"):
            out.add(found[k + 2].text)
    return out


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
