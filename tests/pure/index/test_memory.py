"""What was analysed is forgotten with the text that it was about: a server sees thousands of texts in an afternoon."""

from __future__ import annotations

import gc
from collections import Counter

from stitchcuda.analysis.index import Index
from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.program.ir import Block, Evaluate, Function, Program

TEXT = """\
__global__ void scale(float* x, int n) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= {0}.0f; }}
void other(float* x) {{ cudaMemset(x, {1}, 4); }}
int main() {{
  float* x;
  cudaMalloc(&x, 4096);
  for (int k = 0; k < {0}; ++k) scale<<<16, 64>>>(x, {0});
  other(x);
  if (cudaDeviceSynchronize() != cudaSuccess) return {0};
  cudaFree(x);
}}
"""


class Thing:
    pass


def test_a_value_goes_with_its_object() -> None:
    kept: KeptWith[str] = KeptWith()
    one, other = Thing(), Thing()
    assert kept.get(one) is None and kept.keep(one, "a") == "a"
    kept.keep(other, "b")
    assert (kept.get(one), kept.get(other), len(kept)) == ("a", "b", 2)
    kept.keep(one, "c")
    assert kept.get(one) == "c" and len(kept) == 2
    del one
    gc.collect()
    assert len(kept) == 1 and kept.get(other) == "b"


def alive(index: Index) -> Counter[str]:
    gc.collect()
    kinds = (Block, Evaluate, Function, Program)
    return Counter(type(o).__name__ for o in gc.get_objects() if type(o) in kinds)


def test_edits_do_not_pile_up() -> None:
    """Each edit is another text of three functions; after the caches are full, one comes and one goes."""
    index = Index()
    counts = []
    for step in range(90):
        index.put("/a.cu", TEXT.format(step + 2, step % 7).encode())
        analysis = index.analyse(None)
        assert analysis.complete and not analysis.problems
        if step in (29, 89):
            counts.append(alive(index))
    before, after = counts
    assert before["Function"] >= 3
    for kind, count in after.items():
        assert count <= before[kind] + 2, f"{kind}: {before[kind]} after 30 edits, {count} after 90"


def test_a_file_that_is_gone_takes_what_is_known_of_it_along() -> None:
    index = Index()
    for step in range(40):
        path = f"/{step}.cu"
        index.put(path, TEXT.format(step + 2, 0).encode())
        index.analyse(None)
        index.drop(path)
        if step == 9:
            index.analyse(None)
            before = alive(index)
    index.analyse(None)
    after = alive(index)
    assert after["Function"] <= before["Function"] + 2 and after["Block"] <= before["Block"] + 4


WHOLE = """\
#define AREA(w, x) (2 * (w) + (x) - 1)
__device__ float half_of(float v) { return v * 0.5f; }
__device__ int half_of(int v) { return v / 2; }
__global__ void most(int* best, const int* x, float* y, int n) {
  struct Pair { int a, b; };
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (x[i] > *best) *best = x[i];
  if (i < n) y[i] = half_of(y[i]) + half_of(x[i]);
}
template <int DEPTH> struct Ring {
  float* slots[DEPTH];
  int next = 0;
  float* take() { return slots[next++ % DEPTH]; }
};
int main() {
  Ring<2> ring;
  struct Size { int n; };
  Size size;
  size.n = AREA(4, 5) * 256;
  int *best, *x, *host;
  float* y;
  cudaStream_t one, other;
  cudaStreamCreate(&one);
  cudaStreamCreate(&other);
  cudaMalloc(&best, 4);
  cudaMalloc(&x, 4096);
  cudaMalloc(&y, 4096);
  cudaMallocHost(&host, 4096);
  for (int k = 0; k < size.n; ++k) {
    cudaMemcpyAsync(x, host, 4096, cudaMemcpyHostToDevice, one);
    most<<<16, 64, 0, other>>>(best, x, y, size.n);
    cudaMemsetAsync(ring.take(), 0, 4, one);
    most<<<16, 64, 0, one>>>(best, x, y, size.n);
  }
  cudaDeviceSynchronize();
}
"""


def left_to_collections(index: Index, text: bytes) -> Counter[str]:
    """The kinds of the objects that an analysis leaves in cycles."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        index.put("/a.cu", text)
        analysis = index.analyse()
        assert {f.code for f in analysis.findings} >= {"stream-race-raw", "missing-atomic"}
        del analysis
        index.drop("/a.cu")
        index.analyse()
        gc.collect()
        return Counter(type(o).__name__ for o in gc.garbage if type(o).__module__.startswith("stitchcuda"))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_what_an_analysis_needs_no_more_goes_at_once() -> None:
    """No cycles: a collection would have to visit all that is alive to free them."""
    index = Index(strict=True)
    left_to_collections(index, WHOLE.encode())  # what is made once
    assert not left_to_collections(index, WHOLE.replace("4096", "8192").encode())
