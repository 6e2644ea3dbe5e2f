"""The status of a CUDA call is dropped.

## What

- A call of the CUDA runtime or driver API stands as a statement of its own, and neither a wrapper of any name nor a later
  `cudaGetLastError` or `cudaPeekAtLastError` in the function, or in what it calls, looks at how it went.
- A status is kept in a variable and overwritten, or never read.
- A kernel is launched and nothing looks at an error afterwards.

Calls in destructors, and calls whose status is cast to `void`, are left out. The code is off by default: `--select all` or
the setting turns it on.

## Why

CUDA reports errors of asynchronous work at later calls. A dropped status hides where something went wrong, and the
program goes on with memory that is not there or results that were never computed.

## Example

```cuda
cudaMalloc(&x, bytes);  // out of memory goes unnoticed
```

## Use instead

```cuda
CHECK(cudaMalloc(&x, bytes));
```

## Fix safety

The fix wraps the call in the check that the function uses for its other calls. What the check does on an error then
happens here too, mostly ending the program. There is none when the function has no such check.

## References

Ordering row O2.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.finding import Confidence, Finding, Fix, Group, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.statuses import Dropped, dropped_in
from stitchcuda.analysis.program.ir import Api, Site

CODE = "unchecked-error"


def check(given: RuleInput) -> Iterator[Finding]:
    for uid in sorted(given.timeline.functions):
        for dropped in dropped_in(given.program, uid):
            yield _finding(given, uid, dropped)


def _finding(given: RuleInput, uid: str, dropped: Dropped) -> Finding:
    site = Site(uid, given.program.functions[uid].path, dropped.span)
    if dropped.how == "launch":
        message = f"nothing looks at an error of the launch of `{dropped.name}`"
    elif dropped.how == "variable":
        message = f"the status of `{dropped.name}` is kept in `{dropped.variable}` but never read"
    else:
        message = f"the status of `{dropped.name}` is dropped"
    return Finding(
        CODE, Group.RESOURCE, Severity.HINT, Confidence.LIKELY, site, message, fixes=_fixes(given, site, dropped)
    )


def _fixes(given: RuleInput, site: Site, dropped: Dropped) -> tuple[Fix, ...]:
    body = edits.body_of(given, site.function)
    call = edits.call_at(body, site.span) if body is not None else None
    around = edits.statements(body, site.span) if body is not None else []
    if body is None or dropped.how != "statement" or not isinstance(call, Api) or not around:
        return ()
    written = body.slice(site.span)
    wrapped = edits.checked(body, written, site.span[0])
    if wrapped == f"{written};" or not edits.sole(body, around[-1][0], site.span):
        return ()
    edit = edits.replace(body, site.span, wrapped.removesuffix(";"))
    return (Fix(f"Check the status of `{dropped.name}` like the other calls", (edit,), preferred=True),)


RULE = Rule(
    CODE,
    Group.RESOURCE,
    Severity.HINT,
    "the status of a CUDA call is dropped",
    __doc__ or "",
    check,
    default=False,
)
