"""An allocation is not released on some path.

## What

On one way through a function an allocation is neither released nor handed on, while other ways release it or hand it on:

- an early return, mostly one for an error, skips the cleanup;
- a loop allocates in every round what is released once, or `continue` skips the release at the end of the round;
- a function releases some of its own allocations and forgets one that it made by the same call.

Memory, streams and events count. Nothing is reported when the program ends there (the return of `main`, `exit`), when
the pointer is returned, stored elsewhere or passed to code that may keep it, or when a function releases nothing of
the kind: then its owner is not seen.

## Why

Device memory is scarce, and what is lost is lost until the process ends: a server or a test run that meets the error often
runs out of memory on work that fits.

## Example

```cuda
if (cudaMalloc(&in, bytes) != cudaSuccess) return false;
if (cudaMalloc(&out, bytes) != cudaSuccess) return false;  // in is lost
...
cudaFree(in);
cudaFree(out);
```

## Use instead

```cuda
if (cudaMalloc(&in, bytes) != cudaSuccess) return false;
if (cudaMalloc(&out, bytes) != cudaSuccess) {
    cudaFree(in);
    return false;
}
```

An owner class that releases in its destructor does this on every path.

## Fix safety

There is no automatic fix: an owner class, one place for the cleanup, or a release here are all right, and work that is
still running may need a wait first.

## References

Ordering rows A1, A4, W6.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.ownership import Lost
from stitchcuda.analysis.findings.ways import ways_through
from stitchcuda.analysis.program.ir import Site

CODE = "leak"


def check(given: RuleInput) -> Iterator[Finding]:
    for uid in sorted(given.timeline.functions):
        places: dict[Site, list[Lost]] = {}
        found_here = sorted(ways_through(given.program, uid).lost, key=lambda lost: lost.at)
        checks = next((lost.at for lost in found_here if lost.hidden), None)
        for lost in found_here:  # a check that returns is told once, however many calls it checks
            places.setdefault(checks if lost.hidden and checks is not None else lost.at, []).append(lost)
        for site, found in places.items():
            yield _finding(site, found)


def _finding(site: Site, found: list[Lost]) -> Finding:
    names = [f"`{lost.name}`" for lost in found]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    verb = "is" if len(names) == 1 else "are"
    if all(lost.again for lost in found):
        message = f"{listed} {verb} allocated again although the allocation before was not released"
    elif all(lost.beside for lost in found):
        message = f"{listed} {verb} never released, although `{found[0].beside}` is"
    else:
        message = (
            f"{listed} {verb} not released on this path; other paths release {'it' if len(names) == 1 else 'them'}"
        )
    related = tuple(Related(lost.made, f"`{lost.name}` is made by `{lost.how}` here") for lost in found)
    return Finding(
        CODE, Group.RESOURCE, Severity.HINT, Confidence.LIKELY, site, message, wording.distinct(related, site)
    )


RULE = Rule(
    CODE,
    Group.RESOURCE,
    Severity.HINT,
    "an allocation is not released on some path",
    __doc__ or "",
    check,
)
