"""A suppression comment names a code that does not exist.

## What

A comment `stitchcuda: ignore[...]` names a code that no finding has, or has another form than this one. It silences nothing.

## Why

The hazard that it was written for is reported all the same. If it is not, the comment tells readers of a hazard that nobody looks for. The
usual reason is a slip in the code's name.

## Example

```cuda
// stitchcuda: ignore[stream-race-rw] only the first block reads, and it ran before
consume<<<grid, block, 0, b>>>(x, y);
```

## Use instead

```cuda
// stitchcuda: ignore[stream-race-raw] only the first block reads, and it ran before
consume<<<grid, block, 0, b>>>(x, y);
```

## Fix safety

Where a finding of a code with nearly that name stands on the line, the preferred fix writes that code: it silences the finding, as the comment
says it should. Otherwise the preferred fix takes the code out of the list, and a comment without codes away; that changes no finding.

## References

No Ordering row: this is about comments. `stitchcuda explain` lists all codes.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings.comment_edits import site, without_code, without_comment
from stitchcuda.analysis.findings.finding import (
    CommentInput,
    CommentRule,
    Confidence,
    Edit,
    Finding,
    Fix,
    Group,
    Severity,
)
from stitchcuda.analysis.findings.near import nearest


def check(given: CommentInput) -> Iterator[Finding]:
    for comment in given.suppressions:
        if comment.form:
            message = f"`{comment.form}` silences nothing; write `ignore[code]`"
            gone = Fix("Delete the comment", (without_comment(given.path, given.text, comment),), preferred=True)
            yield _finding(given, comment.mark, message, (gone,))
            continue
        here = {code for line in comment.covers for code in given.found.get(line, ())}
        for number, (code, place) in enumerate(zip(comment.codes, comment.places, strict=True)):
            if code in given.codes:
                continue
            near = nearest(code, given.codes)
            meant = [n for n in near if n in here]
            what = "Delete the comment" if len(comment.codes) == 1 else f"Take {code} out of the list"
            fixes = [Fix(what, (without_code(given.path, given.text, comment, number),), preferred=not meant)]
            for k, name in enumerate(meant or near[:1]):
                edit = Edit(site(given.path, place), name)
                fixes.insert(k, Fix(f"Write {name}", (edit,), preferred=bool(meant) and k == 0))
            hint = f"; did you mean `{(meant or near)[0]}`?" if near else ""
            yield _finding(
                given, place, f"no finding has the code `{code}`, so this silences nothing{hint}", tuple(fixes)
            )


def _finding(given: CommentInput, place: tuple[int, int], message: str, fixes: tuple[Fix, ...]) -> Finding:
    return Finding(
        RULE.code, RULE.group, RULE.severity, Confidence.CERTAIN, site(given.path, place), message, fixes=fixes
    )


RULE = CommentRule(
    code="unknown-suppression",
    group=Group.STYLE,
    severity=Severity.HINT,
    summary="a suppression comment names a code that does not exist",
    doc=__doc__,
    check=check,
)
