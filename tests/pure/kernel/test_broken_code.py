"""Kernels as they stand while somebody types: the walk has an answer for each of them."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index

PARAMETERS = {"named": "int n, int size", "without a name": "int n, int"}
BROKEN = {
    "before template arguments": "<kind, 4>",
    "of what is called": "<kind, 4>(n)",
    "of an operand": "n +",
}


@pytest.mark.parametrize("given", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("parameters", PARAMETERS.values(), ids=PARAMETERS.keys())
def test_a_name_that_is_missing(given: str, parameters: str) -> None:
    text = f"""
struct Plan {{
    int width, first, last;
    __device__ Plan(int width, int first, int last) : width(width), first(first), last(last) {{}}
}};
template <int kind> __device__ Plan plan({parameters}) {{
    if (n > 3) {{
        switch (n) {{
            case 1: return Plan(2, 3, load<kind, 4>);
            case 2: return Plan(2, {given}, load<kind, 4>);
            default: return Plan(1, 2, 3);
        }}
    }}
    return Plan(4, 5, 6);
}}
__global__ void k(int* out, int n) {{
    __shared__ int cells[64];
    const Plan chosen = plan<2>(n, 1);
    cells[threadIdx.x + chosen.first] = chosen.width;
    __syncthreads();
    out[threadIdx.x] = cells[chosen.first];
}}
void f(int* out, int n) {{ k<<<1, 64>>>(out, n); }}
"""
    index = Index(strict=True)
    index.put("k.cu", text.encode())
    index.analyse()
