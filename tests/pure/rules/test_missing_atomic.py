"""Updates of several threads: which ones count, and which are left alone."""

from __future__ import annotations

import pytest

from tests.pure.kernel.findings import found, shown

HEAD = """struct Stats {{ float sum; int count; }};
struct Cell {{ int left; int right; }};
__device__ Cell cells[256];
__device__ int bins[64];
__global__ void k(const float* v, const int* key, float* out, int* count, Stats* stats, int n) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  {}
}}
void run(const float* v, const int* key, float* out, int* count, Stats* stats, int n) {{
  k<<<(n + 127) / 128, 128>>>(v, key, out, count, stats, n);
}}
"""


@pytest.mark.parametrize(
    "update",
    [
        "if (i < n && v[i] < *out) *out = v[i];",
        "*out = fmaxf(*out, v[i]);",
        "out[0] = v[i] < out[0] ? v[i] : out[0];",
        "const int old = *count; *count = old + 1;",
        "if (v[i] > 0.0f) { const int at = (*count)++; out[at] = v[i]; }",
        "stats->sum += v[i];",
        "Stats& s = *stats; s.count++;",
        "float& cell = out[key[i] & 63]; cell += v[i];",
        "const int k = key[i]; out[k] += v[i]; atomicAdd(&bins[k], 1);",
        "bins[key[i] & 63]++;",
        "const Cell cell = cells[i]; out[cell.left] += v[i]; atomicAdd(&bins[cell.left], 1);",
        "out[threadIdx.x % 8] += v[i];",
        "out[threadIdx.x] += v[i];",
        "out[blockIdx.x] -= v[i];",
        "if (threadIdx.x % 32 == 0) out[blockIdx.x] += v[i];",
        "auto add = [=](int at, float x) { out[at] += x; }; if (i < n) add(0, v[i]);",
    ],
)
def test_updates_that_several_threads_do(update: str) -> None:
    assert set(shown(HEAD.format(update))) == {"missing-atomic"}


@pytest.mark.parametrize(
    "update",
    [
        "if (i < n) out[i] += v[i];",
        "if (i == n - 1) *count += 1;",
        "if (i == 0) *count += 1;",
        "if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) *count += 1;",
        "const int at = atomicAdd(count, 1); out[at] += v[i];",
        "if (atomicCAS(&bins[key[i] & 63], 0, 1) == 0) out[key[i] & 63] += v[i];",
        "if (threadIdx.x == 0) { while (atomicCAS(count, 0, 1) != 0) {} *out += v[i]; __threadfence(); atomicExch(count, 0); }",
        "if (v[i] > 1.0f) *count |= 1;",
        "if (*count < 0) *count = 0;",
        "float mine[4] = {}; mine[key[i] & 3] += v[i]; out[i] = mine[0];",
        "float* row = out + i * 8; row[key[i] & 7] += v[i];",
        "out[key[i]] += v[i];",
        "const Cell cell = cells[i]; out[cell.left] += v[i];",
        "out[cells[i].left] += v[i];",
        "int at; at = key[i]; float& cell = out[at]; cell += v[at];",
        "for (int b = i; b < n; b += 8) { out += b * 64; const int at = (key[b] & 7) * 8; out[at]++; }",
        "for (int r : grid_range(n)) out[key[r] * n + threadIdx.y] += v[r];",
        "if (threadIdx.x == 0) out[blockIdx.x] += v[i];",
        "out[i / 4 * 4 + i % 4] += v[i];",
        "for (int r = 0; r < 4; ++r) if (i % 4 == r) out[i / 4] += v[i];",
    ],
)
def test_updates_that_one_thread_does(update: str) -> None:
    assert "missing-atomic" not in shown(HEAD.format(update))


def test_a_kernel_of_one_thread_is_left_alone() -> None:
    text = "__global__ void k(int* count, const int* v, int n) { for (int i = 0; i < n; ++i) count[v[i]]++; }\n"
    assert found(text) == []
    assert shown(text + "void run(int* c, const int* v, int n) { k<<<1, 1>>>(c, v, n); }\n") == []
    assert shown(text + "void run(int* c, const int* v, int n) { k<<<1, 32>>>(c, v, n); }\n") == ["missing-atomic"]


def test_a_macro_that_is_defined_twice_says_nothing() -> None:
    text = HEAD.format("out[AT(i)] += v[i];")
    assert shown("#define AT(k) 0\n" + text) == ["missing-atomic"]
    assert shown("#define AT(k) 0\n" + text + "#undef AT\n#define AT(k) (k)\n") == []


def test_a_place_that_all_have_read_before_a_barrier_may_be_set_by_all() -> None:
    text = """__global__ void k(const int* v, int n) {
  __shared__ int last[8];
  int at = last[n];
  while (at < v[n]) ++at;
  __syncthreads();
  last[n] = at;
}
void run(const int* v, int n) { k<<<1, 128>>>(v, n); }
"""
    assert "missing-atomic" not in shown(text)
    assert "missing-atomic" in shown(text.replace("  __syncthreads();\n", "").replace("= at;", "= at + 1;"))


def test_the_text_of_a_macro_is_not_an_update() -> None:
    text = """#define FIND(array, t, result, count) if (array[t + 1] > n && array[t] <= n) { *result = t + 1; *count = array[t]; }
__global__ void k(int* h, int n) {
  __shared__ int at, under;
  FIND(h, threadIdx.x, &at, &under);
  __syncthreads();
  h[threadIdx.x] = at + under;
}
void run(int* h, int n) { k<<<1, 128>>>(h, n); }
"""
    assert "missing-atomic" not in shown(text)
