"""Which files and which parts of them edits touch, and whether the scope holds these."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stitchcuda.agent.differences import differences
from stitchcuda.agent.invention.declared import Declared
from stitchcuda.agent.invention.definitions import Definition, definitions, named, prototypes
from stitchcuda.agent.invention.known_names import AMBIGUOUS, DENIED, INCLUDES, STANDARD, is_of_c, is_of_cuda
from stitchcuda.agent.invention.surroundings import CODE, Surroundings, checks_results, is_code
from stitchcuda.agent.invention.tokens import Token, between, tokens
from stitchcuda.agent.roles.situation import Scope
from stitchcuda.agent.units import leaves
from stitchcuda.analysis.syntax.text import LineIndex

NEW_FILES = (".cu", ".cuh")  # a new .h could be found in place of one of the system's
_BUILD = re.compile(
    r"(?:^|/)(?:cmakelists\.txt|(?:gnu)?makefile[^/]*|[^/]*\.(?:cmake|mk|ninja|toml|cfg|ini|json|ya?ml|sh|bash|bat|ps1|bazel|bzl|gradle|lock|in)"
    r"|dockerfile[^/]*|build|workspace|sconstruct|meson\.build|configure[^/]*|setup\.py|conftest\.py|\.[^/]*)$",
    re.IGNORECASE,
)
_TESTS = re.compile(
    r"(?:^|/)(?:tests?|testing|ci|\.github|scripts|tools|cmake)/|(?:^|/)(?:test_[^/]*|[^/]*_tests?)\.[^/.]*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Outside:
    """Something outside of the scope. `line` counts in the text after the edits, 0 for the file."""

    kind: str
    line: int
    what: str


def file_outside(path: str, scope: Scope, before: Mapping[str, bytes], around: Surroundings) -> Outside | None:
    """Why a file may not be edited or made, None when it may."""
    plain = path.replace("\\", "/")
    if leaves(path) or plain != path or posixpath.normpath(path) != path:
        return Outside("scope", 0, f"{path!r} is no path below the program's folder")
    if _BUILD.search(path):
        return Outside("file", 0, f"{path} says how the program is built or run: it is not edited")
    if _TESTS.search(path):
        return Outside("file", 0, f"{path} belongs to tests or tools: it is not edited")
    if not is_code(path):
        return Outside("file", 0, f"{path} is no CUDA or C++ source: only those are edited ({', '.join(CODE)})")
    if checks_results(posixpath.basename(path).partition(".")[0]):
        return Outside("file", 0, f"{path} is what results are compared with: it is not edited")
    if path in scope.files and path in before:
        return None
    if path in around.paths:
        return Outside("scope", 0, f"{path} is not in the scope, which is {', '.join(scope.files)}")
    return _new_file(path, scope, around)


def _new_file(path: str, scope: Scope, around: Surroundings) -> Outside | None:
    if not scope.may_add_files:
        return Outside("scope", 0, f"the scope allows no new files such as {path}")
    if not path.endswith(NEW_FILES):
        return Outside("file", 0, f"a new file ends in one of {', '.join(NEW_FILES)}, not {path}")
    folders = sorted({posixpath.dirname(file) for file in scope.files})
    if posixpath.dirname(path) not in folders:
        return Outside(
            "scope", 0, f"a new file stands beside those of the scope (in {', '.join(f or '.' for f in folders)})"
        )
    name = posixpath.basename(path)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,80}", name):
        return Outside("file", 0, f"{name!r} is no plain name for a file")
    if name in INCLUDES or name.partition(".")[0] in STANDARD or name.startswith(("cuda", "std", "sys", "bits")):
        return Outside("file", 0, f"a file named {name} would be found in place of a header of CUDA or C++")
    if name.casefold() in {posixpath.basename(known).casefold() for known in around.paths}:
        return Outside("file", 0, f"a file named {name} would be found in place of the program's own")
    return None


# --------------------------------------------------------------------------------------------------- parts of one file


def parts_outside(before: bytes, after: bytes, scope: Scope, around: Surroundings) -> Iterator[Outside]:
    """What changes in a file beside what may change."""
    lines = LineIndex.of(after)
    old, new = definitions(before), definitions(after)
    mine = {d for name in scope.functions for d in named(old, name)}
    kept = {d for d in old if (scope.functions and d not in mine) or _stays(d, before, around)}
    there = Counter(_key(d, after) for d in new)
    for definition in sorted(kept, key=lambda d: d.start):
        key = _key(definition, before)
        if there[key]:
            there[key] -= 1
            continue
        line = next((lines.line_at(d.start) + 1 for d in new if d.qualified == definition.qualified), 0)
        if _stays(definition, before, around):
            yield Outside("check", line, f"{definition.qualified} checks errors or results: it stays as it is")
        else:
            yield Outside(
                "scope", line, f"{definition.qualified} is not in the scope, which is {', '.join(scope.functions)}"
            )
    yield from _entry(old, new, before, after, lines)
    yield from _conditions(old, new, before, after, lines)
    known = {_head(d, before) for d in old}
    fresh = [d for d in new if _head(d, after) not in known]
    yield from interposed(fresh, lines)
    if scope.functions:
        names = {d.name for d in kept}
        classes = {_owner(d) for d in mine if d.member}
        for definition in fresh:
            line = lines.line_at(definition.start) + 1
            owner = _owner(definition)
            if definition.member and owner not in classes and owner.rpartition("::")[2] in around.words:
                yield Outside("scope", line, f"{owner} is not in the scope: it gets no new members")
            elif definition.name in names and not definition.member:
                what = f"another {definition.name} beside the one that is not in scope would be called in its place"
                yield Outside("scope", line, what)
        yield from _between(before, after, mine, fresh, around)


def _owner(definition: Definition) -> str:
    """The class of a member."""
    return definition.qualified.rpartition("::")[0]


def interposed(fresh: Sequence[Definition], lines: LineIndex) -> Iterator[Outside]:
    """New functions that would be called in place of those of CUDA, C or the system. A kernel's name is none of C's."""
    for definition in fresh:
        name = definition.name
        # Also as a kernel or a member: a later version could hide the system's behind it.
        others = name in AMBIGUOUS or (
            not definition.member
            and (name in DENIED or is_of_cuda(name) or (definition.space != "global" and is_of_c(name)))
        )
        if others:
            what = f"a function named {name} would be called in place of another one: give it another name"
            yield Outside("interpose", lines.line_at(definition.start) + 1, what)


def shadowed(before: Declared, after: Declared) -> Iterator[Outside]:
    """New names that hide CUDA's own from the code around them."""
    for name in sorted((after.values | after.prototypes) - before.values - before.prototypes):
        if is_of_cuda(name) and not name.startswith("__"):
            yield Outside("interpose", 0, f"{name} is CUDA's own name: nothing else may be named so")


def _stays(definition: Definition, text: bytes, around: Surroundings) -> bool:
    """Functions that check errors or results stay as they are, whatever the scope is."""
    if definition.space == "global" or definition.name == "main":
        return False
    if checks_results(definition.name):
        return True
    return definition.name in around.checks and any("cudaError" in t or "CUresult" in t for t in definition.types)


def _key(definition: Definition, text: bytes) -> tuple[str, tuple[str, ...]]:
    return definition.qualified, tuple(t.text for t in between(text, definition.start, definition.end))


def _head(definition: Definition, text: bytes) -> tuple[str, tuple[str, ...]]:
    """A function's name and all that stands before its body."""
    qualified, inside = _key(definition, text)
    return qualified, inside[: inside.index("{")] if "{" in inside else inside


def _entry(
    old: Sequence[Definition], new: Sequence[Definition], before: bytes, after: bytes, lines: LineIndex
) -> Iterator[Outside]:
    """The parameters of main stay: what it is given is how it is run."""

    def heads(found: Sequence[Definition], text: bytes) -> list[tuple[str, tuple[str, ...]]]:
        return [_head(d, text) for d in found if d.name == "main" and not d.member]

    if heads(old, before) != heads(new, after):
        line = next((lines.line_at(d.start) + 1 for d in new if d.name == "main"), 0)
        yield Outside("scope", line, "main and its parameters stay as they are")


def _conditions(
    old: Sequence[Definition], new: Sequence[Definition], before: bytes, after: bytes, lines: LineIndex
) -> Iterator[Outside]:
    """A function that stays under the conditions of the preprocessor under which it stood."""

    def under(found: Sequence[Definition], text: bytes) -> dict[tuple[str, tuple[str, ...]], list[tuple[str, ...]]]:
        out: dict[tuple[str, tuple[str, ...]], list[tuple[str, ...]]] = {}
        stacks = _stacks(text)
        for d in found:
            out.setdefault((d.qualified, d.types), []).append(next(s for at, s in reversed(stacks) if at <= d.start))
        return out

    were = under(old, before)
    for key, now in under(new, after).items():
        if len(were.get(key, ())) == len(now) and were[key] != now:
            yield Outside("directive", 0, f"{key[0]} stays under the preprocessor conditions under which it stands")


def _stacks(text: bytes) -> list[tuple[int, tuple[str, ...]]]:
    """From which byte on which conditions hold."""
    out: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    lines: dict[int, list[Token]] = {}
    for token in tokens(text):
        if token.headline >= 0:
            lines.setdefault(token.headline, []).append(token)
    stack: tuple[str, ...] = ()
    for line in lines.values():
        head = line[1].text if len(line) > 1 else ""
        said = " ".join(t.text for t in line)
        if head in ("if", "ifdef", "ifndef"):
            stack = (*stack, said)
        elif head in ("else", "elif", "elifdef", "elifndef"):
            stack = (*stack[:-1], f"{stack[-1] if stack else ''} {said}")
        elif head == "endif":
            stack = stack[:-1]
        else:
            continue
        out.append((line[-1].end, stack))
    return out


# ------------------------------------------------------------------------------------------------ between the functions


def _between(
    before: bytes, after: bytes, mine: set[Definition], fresh: Sequence[Definition], around: Surroundings
) -> Iterator[Outside]:
    """With functions in scope, what stands between functions stays; new declarations and definitions may stand beside it."""
    names = {d.name for d in mine} | {d.name for d in fresh}
    old, new = _rest(before, names), _rest(after, names)
    for i, j, k, m in differences([t.text for t in old], [t.text for t in new]):
        at = new[min(k, len(new) - 1)].line if new else 0
        if i != j:
            gone = " ".join(t.text for t in old[i:j])[:80]
            yield Outside("scope", at, f"`{gone}` is not in the scope: it stays as it is")
            continue
        for a, b in pairwise(new[k:m]):
            if a.text in ("struct", "class", "union", "enum") and b.text in around.words:
                yield Outside("scope", a.line, f"another {b.text} would stand in for the one that there is")
        if not any(_stands_alone(new, a, b) for a, b in _slides(new, k, m)):
            said = " ".join(t.text for t in new[k:m])[:80]
            yield Outside(
                "scope",
                at,
                f"`{said}` changes what stands outside of the scope: only whole declarations may stand beside it",
            )


def _rest(text: bytes, names: set[str]) -> list[Token]:
    """What stands outside of all functions, without the declarations of some."""
    found = tokens(text)
    ranges = [(d.start, d.end) for d in definitions(text)]
    for prototype in prototypes(text):
        if prototype.name in names:
            behind = between(text, prototype.end - 1, len(text))
            ranges.append((prototype.start, next((t.end for t in behind if t.text == ";"), prototype.end)))
    out: list[Token] = []
    at = 0
    for start, end in sorted(ranges):
        out += between(text, at, start)
        at = max(at, end)
    return [*out, *between(text, at, len(text))] if found else []


def _slides(found: Sequence[Token], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The same insertion, wherever it can be said to stand: `; B` after A is `B ;` before the next."""
    yield start, end
    a, b = start, end
    while b < len(found) and found[a].text == found[b].text:
        a, b = a + 1, b + 1
        yield a, b
    a, b = start, end
    while a > 0 and found[a - 1].text == found[b - 1].text:
        a, b = a - 1, b - 1
        yield a, b


def _stands_alone(found: Sequence[Token], start: int, end: int) -> bool:
    """Whole declarations or directives between others, in no class, initialiser or other braces than those of a namespace."""
    depth: list[bool] = []
    for k in range(start):
        if found[k].text == "{" and not found[k].directive:
            depth.append(_transparent(found, k))
        elif found[k].text == "}" and not found[k].directive and depth:
            depth.pop()
    if not all(depth):
        return False
    if start and not (found[start - 1].text in (";", "}", "{") or found[start - 1].directive):
        return False
    if start and found[start - 1].directive and found[start - 1].headline == found[start].headline:
        return False
    last = found[end - 1]
    if not (last.text in (";", "}") or last.directive):
        return False
    if last.directive and end < len(found) and found[end].headline == last.headline:
        return False
    level = 0
    for token in found[start:end]:
        if not token.directive:
            level += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(token.text, 0)
        if level < 0:
            return False
    return level == 0


def _transparent(found: Sequence[Token], k: int) -> bool:
    """The brace of a namespace or of `extern "C"`."""
    back = [found[j].text for j in range(max(0, k - 6), k)]
    head = back[max((j + 1 for j, text in enumerate(back) if text in (";", "}", "{")), default=0) :]
    return "namespace" in head or (head[-2:-1] == ["extern"] and head[-1].startswith('"'))
