"""Updates at the places that a list names: what tells that it names a place several times."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.index import Index

from tests.pure.kernel.findings import shown

EDGES = """struct Edge {{ int a; int b; }};
__global__ void k(const Edge* edges, const int* row, const int* col, const float* v, const float* x, float* y, int n, int from) {{
  for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x) {{
    {}
  }}
}}
void run(const Edge* edges, const int* row, const int* col, const float* v, const float* x, float* y, int n) {{
  {};
}}
"""
LAUNCH = "k<<<8, 128>>>(edges, row, col, v, x, y, n, 0)"
MATRIX = "y[row[k]] += v[k] * x[col[k]];"


@pytest.mark.parametrize(
    "update",
    [
        MATRIX,
        "const float p = v[k] * x[col[k]]; y[row[k]] += p;",
        "const int r = row[k], c = col[k]; y[r] = y[r] + v[k] * x[c];",
        "const int a = row[2 * k], b = row[2 * k + 1]; y[a] += v[k]; y[b] -= v[k];",
        "y[edges[k].a] += v[k]; y[edges[k].b] -= v[k];",
        "const Edge e = edges[k]; y[e.a] += v[k]; y[e.b] -= v[k];",
    ],
)
def test_an_entry_of_a_matrix_or_a_pair(update: str) -> None:
    assert set(shown(EDGES.format(update, LAUNCH))) == {"missing-atomic"}


@pytest.mark.parametrize(
    "update",
    [
        "y[row[k]] += x[col[k]];",  # rows moved from places to places
        "y[row[k]] += v[k] * x[k];",
        "y[row[k]] += v[k] * x[row[k]];",
        "if (row[k] != row[k + 1]) y[row[k]] += v[k] * x[col[k]];",  # the last of its run
        "if (col[k] == from) { y[edges[k].a] += v[k]; y[edges[k].b] -= v[k]; }",  # those of one colour
        "const int j = k + from; y[edges[j].a] += v[j]; y[edges[j].b] -= v[j];",
        "y[edges[k].a] += v[k]; y[edges[k].a] -= x[k];",
        "y[edges[k].a] += v[k] * x[edges[k].a];",
    ],
)
def test_other_lists(update: str) -> None:
    assert shown(EDGES.format(update, LAUNCH)) == []


@pytest.mark.parametrize(
    "launch",
    [
        "for (int c = 0; c < 8; ++c) k<<<8, 128>>>(edges + c * n, row, col, v, x, y, n, 0)",
        "for (int c = 0; c < 8; ++c) { const int* part = row + c * n; k<<<8, 128>>>(edges, part, col, v, x, y, n, 0); }",
        "k<<<8, 128>>>(edges, &row[n], col, v, x, y, n, 0)",
        "",
    ],
)
def test_a_list_that_is_launched_in_parts(launch: str) -> None:
    assert shown(EDGES.format(MATRIX, launch)) == []


SUMS = """#include <thrust/device_vector.h>
#define CHECK(x) do {{ cudaError_t e = (x); if (e != cudaSuccess) throw e; }} while (0)
__global__ void sum(const int* key, const float* v, float* y, int n) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[key[i]] += v[i];
}}
__global__ void other(float* y, int n) {{ y[threadIdx.x] += 1; }}
void run(const int* key, const float* v, float* y, float* z, int n) {{
  {}
}}
"""


@pytest.mark.parametrize(
    "before",
    [
        "cudaMemset(y, 0, n * sizeof(float)); sum<<<8, 128>>>(key, v, y, n);",
        "CHECK(cudaMemsetAsync(y, 0x0, n * sizeof(float), 0)); sum<<<8, 128>>>(key, v, y, n); other<<<1, 32>>>(y, n);",
        "for (int k = 0; k < 8; ++k) { cudaMemset(y, 0, n * sizeof(float)); sum<<<8, 128>>>(key, v, y, n); }",
        "cudaMemset(y, 0, 4); if (cudaGetLastError() == cudaSuccess) sum<<<8, 128>>>(key, v, y, n);",
        "thrust::device_vector<float> t(n); sum<<<8, 128>>>(key, v, thrust::raw_pointer_cast(t.data()), n);",
        "thrust::device_vector<float> t(n, 0.0f); float* p = thrust::raw_pointer_cast(&t[0]); sum<<<8, 128>>>(key, v, p, n);",
        "thrust::fill(thrust::device, y, y + n, 0.0f); sum<<<8, 128>>>(key, v, y, n);",
    ],
)
def test_a_target_that_was_filled_with_zero(before: str) -> None:
    assert shown(SUMS.format(before)) == ["missing-atomic"]


@pytest.mark.parametrize(
    "before",
    [
        "sum<<<8, 128>>>(key, v, y, n);",
        "cudaMemset(y, 1, n); sum<<<8, 128>>>(key, v, y, n);",
        "cudaMemset(z, 0, n); sum<<<8, 128>>>(key, v, y, n);",
        "cudaMemset(y, 0, n); for (int k = 0; k < 8; ++k) sum<<<8, 128>>>(key, v, y, n);",  # each round brings a part
        "cudaMemset(y, 0, n); sum<<<8, 128>>>(key, v, y, n); sum<<<8, 128>>>(key + n, v + n, y, n);",
        "cudaMemset(y, 0, n); cudaMemcpy(y, z, n, cudaMemcpyDeviceToDevice); sum<<<8, 128>>>(key, v, y, n);",
        "if (n > 8) cudaMemset(y, 0, n); sum<<<8, 128>>>(key, v, y, n);",
        "cudaMemset(y, 0, n); sum<<<8, 128>>>(key, v, y, n); sum<<<8, 128>>>(key, v, z, n);",
        "thrust::device_vector<float> a(n), t(a); sum<<<8, 128>>>(key, v, thrust::raw_pointer_cast(t.data()), n);",
        "cudaMemset(y, 0, n); sum<<<8, 128>>>(key, v, y + n, n);",
    ],
)
def test_a_target_that_holds_something(before: str) -> None:
    assert "missing-atomic" not in shown(SUMS.format(before))


def test_the_last_of_a_run_stores_the_sum_of_it() -> None:
    text = SUMS.format("cudaMemset(y, 0, n * sizeof(float)); sum<<<8, 128>>>(key, v, y, n);")
    assert shown(text) == ["missing-atomic"]
    assert shown(text.replace("if (i < n)", "if (i + 1 < n && key[i] != key[i + 1])")) == []


def test_a_fill_that_comes_later_is_seen() -> None:
    index = Index(strict=True)
    levels = []
    for fill in ("", "cudaMemset(y, 0, n * sizeof(float)); ", ""):
        index.put("k.cu", SUMS.format(f"{fill}sum<<<8, 128>>>(key, v, y, n);").encode())
        levels.append(
            [f.confidence for f in index.analyse().findings if f.code == "missing-atomic" and "key[i]" in f.message]
        )
    assert levels == [[Confidence.POSSIBLE], [Confidence.LIKELY], [Confidence.POSSIBLE]]
