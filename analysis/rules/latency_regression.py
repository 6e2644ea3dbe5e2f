"""A launch or copy takes longer on the GPU than in the stored baseline.

## What

After a save the program was built and run, and every run showed one launch or copy slower than the slowest run of the baseline, by
more than 5 % of the device time of one operation. The message gives both times, how often it runs and how many runs stand
behind it.

## Why

A slower kernel is easy to miss: the program still prints the right results, and the time of a whole run varies more than
that. Times of single operations on the GPU depend neither on the host nor on what else it does.

## Example

```cuda
__global__ void scale(float* v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) v[i] = powf(v[i], 2.0f);  // reported on the line of scale<<<grid, block>>>(v, n)
}
```

## Use instead

```cuda
    if (i < n) v[i] = v[i] * v[i];
```

## Fix safety

There is no automatic fix. When the new time is wanted, `stitchcuda gate PATH --update-baseline` makes it the baseline. The
baseline is recorded by the first validation of a program, holds for one model of GPU, and is recorded anew on another.

## References

`stitchcuda gate`; CUPTI activity records of kernels, copies and memsets.
"""

from __future__ import annotations

from stitchcuda.analysis.findings.finding import Group, Measured, Severity

CODE = Measured(
    code="latency-regression",
    group=Group.PERFORMANCE,
    severity=Severity.WARNING,
    summary="A launch or copy takes longer on the GPU than in the stored baseline (on save)",
    doc=__doc__,
)
