"""What other platforms have in place of what CUDA has: constants and functions in branches of `#if`."""

from __future__ import annotations

import pytest

from tests.pure.kernel.findings import shown

ROWS = """
__global__ void k(const int* a, int* out, int n) {
  int row = threadIdx.y;
  for (int i = row; i < a[row]; i += 8) out[i * 32 + threadIdx.x] = __shfl_xor_sync(0xffffffff, a[i], 1);
}
void run(int* a, int* out, int n) { k<<<1, dim3(WIDTH, 8)>>>(a, out, n); }
"""
WIDTHS = "#if %s\nconstexpr int WIDTH = 16;\n#else\nconstexpr int WIDTH = 32;\n#endif\n"
LATER = "#if !(%s)\nconstexpr int WIDTH = 32;\n#elif defined(__GFX9__)\nconstexpr int WIDTH = 16;\n#endif\n"


@pytest.mark.parametrize("text", [WIDTHS, LATER], ids=["else", "elif"])
@pytest.mark.parametrize("condition", ["defined(USE_ROCM)", "defined(__HIP_PLATFORM_AMD__)", "defined(MY_USING_SYCL)"])
def test_the_constant_of_another_platform_is_not_taken(text: str, condition: str) -> None:
    assert shown(text % condition + ROWS) == []


def test_a_constant_that_only_another_platform_has_is_taken() -> None:
    assert shown("#ifdef USE_ROCM\nconstexpr int WIDTH = 16;\n#endif\n" + ROWS) == ["bad-warp-mask"]


def test_the_smaller_constant_counts_where_it_is_that_of_cuda() -> None:
    assert shown(WIDTHS % "!defined(USE_ROCM)" + ROWS) == ["bad-warp-mask"]


OURS = """#if defined(USING_CUDA) || defined(USING_HIP)
__device__ int place() { return threadIdx.x; }
#endif
"""
THEIRS = """#if defined(USING_SYCL)
__device__ int place() { return item.get_local_linear_id(); }
#endif
"""
KERNEL = """
__global__ void k(int* out) {
  __shared__ int part[128];
  part[place()] = out[place()];
  // barrier
  out[place()] = part[place() OTHER];
}
void run(int* out) { k<<<1, 128>>>(out); }
"""


@pytest.mark.parametrize("text", [OURS + THEIRS, THEIRS + OURS], ids=["first", "last"])
def test_the_function_of_another_platform_is_not_called(text: str) -> None:
    assert shown(text + KERNEL.replace("OTHER", "")) == []
    assert shown(text + KERNEL.replace("OTHER", "^ 64")) == ["missing-syncthreads"]
    assert shown(text + KERNEL.replace("OTHER", "^ 64").replace("// barrier", "__syncthreads();")) == []
