"""compute-sanitizer reported this line on the real GPU.

## What

After a save the program was built and run under compute-sanitizer's memcheck, which reported an access at this line: out of bounds, misaligned,
before the memory was allocated or after it was freed on another stream, or a call that failed.

## Why

Such an access may give the right result today and another one with a different allocator, size or GPU.

## Example

```cuda
__global__ void shift(float* v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    v[i] = v[i + 1];  // Invalid __global__ read of size 4 bytes
}
```

## Use instead

```cuda
    if (i + 1 < n) v[i] = v[i + 1];
```

## Fix safety

There is no automatic fix: what the program should do there is not known.

## References

compute-sanitizer manual, memcheck, `--track-stream-ordered-races all`.
"""

from __future__ import annotations

from stitchcuda.analysis.findings.finding import Group, Measured, Severity

CODE = Measured(
    code="sanitizer",
    group=Group.CORRECTNESS,
    severity=Severity.ERROR,
    summary="compute-sanitizer reported this line on the real GPU (on save)",
    doc=__doc__,
)
