"""A suppression comment silences nothing.

## What

A comment `stitchcuda: ignore[code]` covers a line on which nothing of that code is found. It covers its own line and, when it stands alone, the
next line of code.

It is reported only when the line was fully analysed and the rule behind the code ran: not for code that could not be parsed, that no entry of the
program reaches, that stands in an `#if` branch, or for codes that only a run on the GPU can find. A file that belongs to several programs must
have no use for the comment in any of them.

## Why

The hazard is gone, or the comment stands on the wrong line. Left there, it would silence the next hazard of this kind that someone brings to the line.

## Example

```cuda
cudaStreamWaitEvent(b, x_ready, 0);
consume<<<grid, block, 0, b>>>(x, y);  // stitchcuda: ignore[stream-race-raw] to be fixed
```

## Use instead

```cuda
cudaStreamWaitEvent(b, x_ready, 0);
consume<<<grid, block, 0, b>>>(x, y);
```

## Fix safety

The fix takes the code out of the list, and a comment without codes away. No finding changes by that.

## References

No Ordering row: this is about comments.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings.comment_edits import site, without_code, without_comment
from stitchcuda.analysis.findings.finding import CommentInput, CommentRule, Confidence, Finding, Fix, Group, Severity

CODE = "unused-suppression"


def check(given: CommentInput) -> Iterator[Finding]:
    for comment in given.suppressions:
        if comment.form:
            continue
        if not comment.codes:
            gone = Fix("Delete the comment", (without_comment(given.path, given.text, comment),), preferred=True)
            yield _finding(given, comment.mark, "this comment names no code, so it silences nothing", gone)
            continue
        here = {code for line in comment.covers for code in given.found.get(line, ())}
        for number, (code, place) in enumerate(zip(comment.codes, comment.places, strict=True)):
            if code in here or code not in given.codes or code == CODE:
                continue
            if not all(given.judged(code, line) for line in comment.covers):
                continue
            what = "Delete the comment" if len(comment.codes) == 1 else f"Take {code} out of the list"
            fix = Fix(what, (without_code(given.path, given.text, comment, number),), preferred=True)
            yield _finding(given, place, f"no `{code}` is found here, so this silences nothing", fix)


def _finding(given: CommentInput, place: tuple[int, int], message: str, fix: Fix) -> Finding:
    return Finding(
        RULE.code, RULE.group, RULE.severity, Confidence.LIKELY, site(given.path, place), message, fixes=(fix,)
    )


RULE = CommentRule(
    code=CODE,
    group=Group.STYLE,
    severity=Severity.HINT,
    summary="a suppression comment silences nothing",
    doc=__doc__,
    check=check,
    every_program=True,
)
