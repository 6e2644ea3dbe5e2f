"""What goes on without end ends with an error that is caught, in compiled code too, and what seems to need not be."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.order.cuda.queries import decisive_query
from stitchcuda.analysis.program import ir

from tests.pure.order.programs import run


def test_a_text_nested_beyond_all_limits_raises() -> None:
    node: ir.Expr = ir.Name((0, 0), "done")
    for _ in range(300_000):
        node = ir.Unary((0, 0), "!", node)
    with pytest.raises(RecursionError):
        decisive_query(node)


@pytest.mark.parametrize(
    "main",
    [
        "int main() { float* x; dim3 block(block); k<<<1, block>>>(x); }",  # a shape made of itself
        "int main() { float* x; int n = n + 1; k<<<1, n>>>(x); }",
        "#define CHECK(e) f(e, __FILE__)\nint main() {\n  float* x;\n  cudaFree(x);\n  CHECK(\n    ;(x, 4));",  # no end of the list
    ],
)
def test_broken_text_is_analysed(main: str) -> None:
    kernel = "__global__ void k(float* x) { __shared__ float s[64]; s[threadIdx.x] = 1; x[threadIdx.x] = s[threadIdx.x ^ 1]; }\n"
    index = Index(strict=True)
    index.put("a.cu", (kernel + main).encode())
    assert index.analyse().timelines


@pytest.mark.parametrize(
    "aliases",
    [
        "typedef thrust::device_vector<float>::iterator Iterator; typedef thrust::permutation_iterator<Iterator, int> iterator;",
        "using Iterator = std::optional<Iterator>;",
        "using Iterator = std::vector<Other>; using Other = std::vector<n::Iterator>;",
    ],
)
def test_an_alias_that_seems_to_be_made_of_itself(aliases: str) -> None:
    timeline = run(
        "  for (int i = 0; i < 9; ++i) { range<Iterator> r(i); Iterator it; r.go(x); }",
        before=aliases + "template <typename It> struct range { range(int) {} void go(float* p) { a<<<1, 1>>>(p); } };",
    ).timeline
    assert not timeline.cuts and {op.kernel for op in timeline.ops} >= {"a"}
