"""What an analysis under way has said for good: findings in functions that nothing left to be looked at comes to.

The findings of a program are those of its entries put together: another entry that comes to the same place may be surer, or may say
that what one reports is needed after all. A function is `open` while that can happen.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stitchcuda.analysis.findings.finding import Finding
from stitchcuda.analysis.index.merge import EntryFindings, merge
from stitchcuda.analysis.order.timeline import Timeline
from stitchcuda.analysis.program.ir import Program, Site
from stitchcuda.analysis.rules import COMMENT_RULES, KERNEL_RULES
from stitchcuda.analysis.syntax.comments import bytes_without_comments
from stitchcuda.analysis.syntax.differences import Difference, differences

_WORD = re.compile(rb"[A-Za-z_]\w*")
# To its end, over line ends that are continued or in a comment.
_DEFINE = re.compile(rb"#[ \t]*define\b(?:/\*.*?\*/|\\\r?\n|[^\n])*", re.DOTALL)


def leads_to(program: Program, roots: Iterable[str]) -> frozenset[str]:
    """The uids of functions that code comes to from these, and these."""
    callees: dict[str, list[str]] = {}
    for uid, callers in program.callers.items():
        for caller in callers:
            callees.setdefault(caller, []).append(uid)
    found = set(roots)
    waiting = list(found)
    while waiting:
        for uid in callees.get(waiting.pop(), ()):
            if uid not in found:
                found.add(uid)
                waiting.append(uid)
    return frozenset(found)


def words_between(text: bytes, spans: Iterable[tuple[int, int]]) -> set[bytes]:
    """The words of a file outside of its functions and of comments; a macro defined in a function is outside of it, since it can be used
    below. `spans` in order of their starts."""
    outside = _DEFINE.findall(text)
    end = 0
    for start, stop in [*spans, (len(text), len(text))]:
        if start > end:
            outside.append(text[end:start])
        end = max(end, stop)
    return {word for piece in outside for word in _WORD.findall(bytes_without_comments(piece))}


def loose(program: Program, sources: Mapping[str, bytes]) -> set[str]:
    """The uids of functions that code may come to without a function that names them: methods and operators, and what tables, macros
    and default arguments hold."""
    found = {uid for uid, f in program.functions.items() if f.record or not f.name.isidentifier()}
    spans: dict[str, list[tuple[int, int]]] = {path: [] for path in program.modules}
    for function in program.functions.values():
        spans[function.path].append((function.base, function.base + function.span[1]))
    for path, taken in spans.items():
        for word in words_between(sources.get(path, b""), sorted(taken)):
            if word != b"main":  # which nothing calls
                found.update(program.by_name.get(word.decode(errors="surrogateescape"), ()))
    return found


def unreached(program: Program, timelines: Iterable[Timeline]) -> set[str]:
    """The uids of functions with CUDA calls that are called and were not executed: they are looked at from their own start when an
    entry turns out to be too large (`beyond.py`)."""
    executed: set[str] = set()
    for timeline in timelines:
        executed |= timeline.functions
    return {uid for uid in program.reaches_cuda if uid not in executed and program.callers.get(uid)}


@dataclass(frozen=True, slots=True)
class Said:
    """The findings of the last complete analysis, the digests of the functions they were about, and the texts they were found in."""

    findings: tuple[Finding, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, bytes] = field(default_factory=dict)


def for_good(
    found: Sequence[EntryFindings],
    program: Program,
    sources: Mapping[str, bytes],
    host_open: Collection[str],
    device_open: Collection[str],
    said: Said,
) -> tuple[Finding, ...] | None:
    """What the entries and kernels looked at so far say of functions that are not open to others, and what was said before of those
    that are. None while that cannot be put together: what was said of a function whose text is another one now has no place yet.
    Comments are judged at the end: what was said of them stays with their text."""

    def is_open(finding: Finding) -> bool:
        return finding.site.function in (device_open if finding.code in _OF_KERNELS else host_open)

    def same(uid: str) -> bool:
        function = program.functions.get(uid)
        return function is not None and function.digest == said.digests.get(uid)

    earlier = []
    changes: dict[str, list[Difference]] = {}
    for finding in said.findings:
        uid = finding.site.function
        if finding.code in _OF_COMMENTS:
            path = finding.site.path
            if path not in sources:
                continue
            if path not in changes:
                changes[path] = differences(said.sources[path], sources[path])
            moved = _moved(finding, changes[path])
            if moved is None:
                return None
            earlier.append(moved)
            continue
        if uid not in program.functions:
            if not uid:
                return None  # of no function: nothing tells whether it still holds
            continue
        if not is_open(finding):
            continue
        if not same(uid):
            return None
        elsewhere = {site.function for site in _other_sites(finding)}
        if not all(same(each) for each in elsewhere):
            related = tuple(r for r in finding.related if same(r.site.function))
            finding = replace(finding, related=related, fixes=())
        earlier.append(finding)
    settled = [
        EntryFindings(tuple(f for f in each.findings if f.site.function and not is_open(f)), each.sites)
        for each in found
    ]
    return merge(settled, program, sources, None, earlier)


_OF_KERNELS = frozenset(rule.code for rule in KERNEL_RULES)
_OF_COMMENTS = frozenset(rule.code for rule in COMMENT_RULES)


def _moved(finding: Finding, changes: Sequence[Difference]) -> Finding | None:
    """A finding about a comment where that stands in the new text; None when it is among what changed. In a text that changed the fix,
    which may take the line along, is left to the end."""
    if not changes:
        return finding
    start, end = finding.site.span
    by = 0
    for each in changes:
        if each.start < end and start < each.end:
            return None
        if each.end <= start:
            by += each.new_end - each.new_start - (each.end - each.start)
    return replace(finding, site=replace(finding.site, span=(start + by, end + by)), fixes=())


def _other_sites(finding: Finding) -> Iterator[Site]:
    yield from (related.site for related in finding.related)
    yield from (edit.site for fix in finding.fixes for edit in fix.edits)
