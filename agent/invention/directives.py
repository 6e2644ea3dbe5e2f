"""What preprocessor directives bring in: includes, macros, conditions, pragmas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from stitchcuda.agent.invention.item import Item
from stitchcuda.agent.invention.known_names import (
    AMBIGUOUS,
    CONDITIONS,
    DENIED,
    KEYWORDS,
    allowed,
    include_allowed,
    standard,
)
from stitchcuda.agent.invention.surroundings import Surroundings, header_of, is_code
from stitchcuda.agent.invention.tokens import Token, tokens

_CONDITIONAL = ("if", "ifdef", "ifndef", "elif", "elifdef", "elifndef")
_SWITCH = re.compile(r"_|NDEBUG$|CUDA|CUB_|THRUST_|CCCL|LIBCUDACXX|NV_|NVCC|GLIBCXX|DEBUG$")


def defines(text: bytes | None) -> dict[str, str]:
    """The macros that a text defines, as they are written."""
    out = {}
    for line in _directives(tokens(text or b"")):
        if len(line) > 2 and line[1].text == "define":
            out[line[2].text] = _said(line)
    return out


def _directives(found: tuple[Token, ...]) -> list[list[Token]]:
    lines: dict[int, list[Token]] = {}
    for token in found:
        if token.headline >= 0:
            lines.setdefault(token.headline, []).append(token)
    return list(lines.values())


def _said(line: list[Token]) -> str:
    return " ".join(t.text for t in line)


def directive_items(
    found: tuple[Token, ...],
    fresh: bool,
    around: Surroundings,
    before: dict[str, str],
    on_device: Callable[[Token], bool],
) -> Iterator[Item]:
    """`fresh`: the file is new; `before` are the macros that its text defined; `on_device` tells tokens in device functions."""
    own = {line[2].text for line in _directives(found) if len(line) > 2 and line[1].text == "define"}
    guards = 0
    for line in _directives(found):
        head = line[1].text if len(line) > 1 else ""
        said, at = _said(line), line[0].line
        if head == "include":
            name = header_of(line)
            if not (name and _include(name, line[2].kind == "header", around)):
                yield Item(
                    "include",
                    said,
                    at,
                    f"`{said}` may not be included: only device headers of CUDA, cub, thrust, numbers and containers of the C++ library, and the program's own headers",
                )
        elif head == "pragma":
            rest = [t.text for t in line[2:]]
            if rest[:1] not in (["unroll"], ["once"]) or (rest[:1] == ["once"] and len(rest) > 1):
                yield Item("directive", said, at, f"`{said}`: no pragma but `#pragma unroll` and `#pragma once`")
        elif head == "define":
            if problem := _define(line, around, before):
                yield Item(problem[0], said, at, problem[1])
        elif head in _CONDITIONAL:
            words = {t.text for t in line[2:] if t.kind == "word"} - {"defined"}
            asks = words <= (CONDITIONS | around.words if on_device(line[0]) else CONDITIONS | own if fresh else set())
            if not (words and asks):
                what = f"`{said}`: no new conditions of the preprocessor but of macros that there are, inside of device code"
                yield Item("directive", said, at, what)
            elif fresh and not on_device(line[0]) and not head.startswith("elif"):
                guards += 1
        elif head in ("else", "endif"):
            continue
        elif head:
            yield Item("directive", said, at, f"`{said}`: this directive is not allowed")
    yield from _torn(found)
    # A branch without a condition of its own would switch code on or off that stands there already.
    for word in ("else", "endif"):
        lines = [
            line for line in _directives(found) if len(line) > 1 and line[1].text == word and not on_device(line[0])
        ]
        for line in lines[guards if word == "endif" else 0 :]:
            yield Item("directive", f"#{word}", line[0].line, f"`#{word}`: no new branches of the preprocessor")


def _torn(found: tuple[Token, ...]) -> Iterator[Item]:
    """Braces that a condition parts from each other: where a function ends would be another matter to the compiler than to us."""
    branches: list[list[Token]] = []  # those that are open: the directive, and the code so far
    for token in sorted(found, key=lambda token: token.start):
        if not token.directive:
            if branches:
                branches[-1].append(token)
        elif token.text == token.directive and token.directive in (*_CONDITIONAL, "else", "endif"):
            if not token.directive.startswith("if") and branches:
                branch = branches.pop()
                if not _closed(branch[1:]):
                    said = " ".join(t.text for t in branch[:12])
                    what = "a condition of the preprocessor stands around whole blocks: each brace with its other"
                    yield Item("directive", f"torn {said}", branch[0].line, what)
            if token.directive != "endif":
                branches.append([token])


def _closed(code: Sequence[Token]) -> bool:
    """Whether every bracket has its other here."""
    open_ = ""
    for token in code:
        if token.kind == "punct" and token.text in "([{":
            open_ += {"(": ")", "[": "]", "{": "}"}[token.text]
        elif token.kind == "punct" and token.text in ")]}":
            if open_[-1:] != token.text:
                return False
            open_ = open_[:-1]
    return not open_


def _include(name: str, system: bool, around: Surroundings) -> bool:
    if name in around.headers and ".." not in name:
        return True
    if name.startswith("/") or ".." in name.split("/") or "\\" in name:
        return False
    own = is_code(name) and any(path == name or path.endswith(f"/{name}") for path in around.paths)
    return include_allowed(name) or (own and not system)


def _define(line: list[Token], around: Surroundings, before: dict[str, str]) -> tuple[str, str] | None:
    """Kind and words when a macro may not be defined so."""
    if len(line) < 3 or line[2].kind != "word":
        return "macro", "this definition has no name"
    name, said = line[2].text, _said(line)
    if any(t.text in ("##", "%:%:") or t.kind == "odd" for t in line[3:]):
        return "macro", f"the macro {name} builds names with ##"
    if not _closed(line[3:]):
        return "macro", f"the macro {name} opens or closes a bracket without its other"
    if name in around.checks:
        return "check", f"the macro {name} checks errors: it stays as it is"
    if name in around.macros:
        old = before.get(name, "").split()[3:]
        new = [t.text for t in line[3:]]
        if old and new and _number(old) and _number(new):
            return None
        return "macro", f"the macro {name} is the program's own: it stays as it is"
    if _SWITCH.match(name):
        return "macro", f"a macro named {name} may switch something of CUDA or of the library"
    if (
        name in KEYWORDS
        or name in DENIED
        or name in AMBIGUOUS
        or allowed(name)
        or standard(name)
        or name in around.words
    ):
        return "macro", f"a macro named {name} would change what that name means elsewhere: `{said[:80]}`"
    return None


def _number(body: list[str]) -> bool:
    return all(re.fullmatch(r"[-+*/()]|\d[\w.]*|<<|>>", part) for part in body) and any(
        part[0].isdigit() for part in body
    )
