"""A host function or callback on a stream calls a CUDA API.

## What

A function given to `cudaLaunchHostFunc`, `cudaStreamAddCallback` or a host node of a graph, or a function that it calls,
calls the CUDA runtime, the driver, or a library that does: it allocates, frees, copies, launches, waits, queries.
Reading the text of an error code (`cudaGetErrorString`) is not meant.

## Why

CUDA calls the function from a thread of its own, with the stream held up until it returns. No CUDA call is allowed in
there: it may fail with `cudaErrorNotPermitted`, which callbacks seldom look at, or wait for work that waits for the
callback, and never return.

## Example

```cuda
void CUDART_CB done(void* data) {
    cudaFree(static_cast<Job*>(data)->buffer);  // not allowed here
}
cudaLaunchHostFunc(stream, done, &job);
```

## Use instead

```cuda
cudaLaunchHostFunc(stream, done, &job);         // only tells the host that it is done
cudaFreeAsync(job.buffer, stream);              // the stream does the rest, in order
```

Let the callback signal another thread that makes the CUDA calls.

## Fix safety

There is no automatic fix: where the work belongs instead is a question of the program's design.

## References

Ordering rows H1, W5.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.captures import faults
from stitchcuda.analysis.findings.finding import Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.order.timeline import FaultKind

CODE = "hostfunc-cuda-call"


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    for fault, level in faults(line, frozenset({FaultKind.IN_HOST_FUNCTION})):
        op = line.ops[fault.other] if fault.other is not None else None
        via = f", which `{op.api}` gave to {wording.stream(line, op.stream)}," if op and op.stream is not None else ""
        message = f"`{fault.api}` is called in a host function{via} where no CUDA call is allowed: it may fail or never return"
        related = (*(() if op is None else (Related(op.site, "the function is given to the stream here"),)),)
        yield Finding(
            CODE,
            Group.CORRECTNESS,
            Severity.ERROR,
            level,
            fault.site,
            message,
            wording.distinct((*related, *wording.called_from(fault.calls)), fault.site),
            (),
            "",
        )


RULE = Rule(
    CODE,
    Group.CORRECTNESS,
    Severity.ERROR,
    "a host function on a stream calls a CUDA API",
    __doc__ or "",
    check,
)
