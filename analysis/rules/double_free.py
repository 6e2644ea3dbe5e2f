"""The same allocation is released twice.

## What

Two releases of one allocation on one path: a release before a cleanup label that releases again, a helper that frees
what its caller frees too, a free in a loop, a class that frees in its destructor and is copied member by member. A
stream, event or graph that is destroyed twice counts as well.

`cudaFree(nullptr)` does nothing (A4): a pointer that is set to null after its release may be released again.

## Why

The second release fails with `cudaErrorInvalidValue`, or releases what another part of the program was given in the
meantime; a handle that is destroyed twice may crash the program.

## Example

```cuda
    cudaFree(a);
    if (cudaMemcpy(host, b, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) goto out;
out:
    cudaFree(b);
    cudaFree(a);  // a second time
```

## Use instead

```cuda
    cudaFree(a);
    a = nullptr;
    if (cudaMemcpy(host, b, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) goto out;
out:
    cudaFree(b);
    cudaFree(a);
```

A class that frees in its destructor deletes its copy constructor and copy assignment, or makes real copies.

## Fix safety

When both releases stand in one function, the fix sets the pointer to null after the first one, so that the second does
nothing. Nothing else changes: between the two the pointer had no use. Across functions and for handles there is none.

## References

Ordering rows A4, W6.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.finding import Confidence, Finding, Fix, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.lifetimes import places, stale_uses, thing, under
from stitchcuda.analysis.findings.ways import ways_through
from stitchcuda.analysis.program.ir import Api, Name, Site

CODE = "double-free"


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    told: set[Site] = set()
    for stale, level in stale_uses(given, again=True):
        if level is not Confidence.POSSIBLE:
            told.add(stale.site)
        did = "destroyed" if stale.kind != "memory" else "released"
        message = f"`{stale.how}` releases {thing(line, stale)} again: it was {did} by `{stale.released.how}` before"
        yield Finding(
            CODE, Group.CORRECTNESS, Severity.ERROR, level, stale.site, message, places(line, stale),
            _fixes(given, stale.released.site, stale.site), under(stale.conditions),
        )  # fmt: skip
    for uid in sorted(line.functions):
        for again in ways_through(given.program, uid).released_twice:
            if again.site not in told:
                message = f"`{again.how}` releases `{again.name}` again on the path that an error takes"
                first = Related(again.first, f"`{again.name}` is released here first")
                yield Finding(
                    CODE, Group.CORRECTNESS, Severity.ERROR, Confidence.LIKELY, again.site, message, (first,),
                    _fixes(given, again.first, again.site),
                )  # fmt: skip


def _fixes(given: RuleInput, first: Site, again: Site) -> tuple[Fix, ...]:
    """The pointer is set to null behind its first release."""
    body = edits.body_of(given, first.function)
    if body is None or first.function != again.function or first == again:
        return ()
    one, two = edits.call_at(body, first.span), edits.call_at(body, again.span)
    if not isinstance(one, Api) or not isinstance(two, Api):
        return ()
    released, later = one.role("ptr"), two.role("ptr")
    if not isinstance(released, Name) or not isinstance(later, Name) or released.name != later.name:
        return ()
    if released.template or later.template:  # `Pool<float>::first`: the name alone would not do
        return ()
    around = edits.statements(body, first.span)
    if not around or not edits.sole(body, around[-1][0], first.span):
        return ()
    null = "NULL" if body.function.language == "c" else "nullptr"
    edit = edits.after(body, around[-1][0].span, [f"{released.name} = {null};"])
    return (Fix(f"Set `{released.name}` to null after its first release", (edit,), preferred=True),)


RULE = Rule(
    CODE,
    Group.CORRECTNESS,
    Severity.ERROR,
    "the same allocation is released twice",
    __doc__ or "",
    check,
)
