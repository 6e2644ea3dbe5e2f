"""The ordering rows about barriers inside kernels: one test a statement of a row in docs/ordering.md."""

from __future__ import annotations

import pytest

from tests.pure.kernel.findings import found, shown

LAUNCH = "void run(float* a, float* b, int n, int m) { k<<<64, 128>>>(a, b, n, m); }\n"


def kernel(body: str, launch: str = LAUNCH) -> str:
    return f"__global__ void k(float* a, float* b, int n, int m) {{\n  __shared__ float s[128];\n{body}\n}}\n{launch}"


def test_d1_what_another_thread_wrote_needs_a_barrier() -> None:
    assert found(kernel("  s[threadIdx.x] = a[threadIdx.x];\n  b[threadIdx.x] = s[127 - threadIdx.x];")) == [
        ("missing-syncthreads", "certain", 4)
    ]
    fine = "  s[threadIdx.x] = a[threadIdx.x];\n  __syncthreads();\n  b[threadIdx.x] = s[127 - threadIdx.x];"
    assert shown(kernel(fine)) == []


def test_one_place_may_read_two_arrays() -> None:
    text = """  __shared__ float r[128];
  r[127 - threadIdx.x] = a[threadIdx.x];
  __syncwarp();
  float total = 0;
  for (int i = 0; i < 2; ++i) total += (i ? r : s)[threadIdx.x];
  b[threadIdx.x] = total;"""
    assert shown(kernel(text)) == ["missing-syncthreads"]
    assert shown(kernel(text.replace("__syncwarp", "__syncthreads"))) == []


def test_d1_the_next_round_must_not_overwrite_what_is_read() -> None:
    loop = """  for (int i = 0; i < m; ++i) {{
    s[threadIdx.x] = a[i * 128 + threadIdx.x];
    __syncthreads();
    b[i * 128 + threadIdx.x] = s[127 - threadIdx.x];
    {}
  }}"""
    assert found(kernel(loop.format(""))) == [("missing-syncthreads", "certain", 4)]
    assert shown(kernel(loop.format("__syncthreads();"))) == []


def test_d1_two_buffers_need_one_barrier_a_round() -> None:
    text = """  __shared__ float p[2][128];
  for (int i = 0; i < m; ++i) {
    p[i & 1][threadIdx.x] = a[i * 128 + threadIdx.x];
    __syncthreads();
    b[i * 128 + threadIdx.x] = p[i & 1][127 - threadIdx.x];
  }"""
    assert shown(kernel(text)) == []
    assert shown(kernel(text.replace("i & 1", "0"))) == ["missing-syncthreads"]


@pytest.mark.parametrize(
    "index",
    ["threadIdx.x", "threadIdx.x ^ 0", "(threadIdx.x + 128) % 128", "threadIdx.x / 32 * 32 + threadIdx.x % 32"],
)
def test_d1_an_element_of_its_own_needs_no_barrier(index: str) -> None:
    assert shown(kernel(f"  s[threadIdx.x] = a[threadIdx.x];\n  b[threadIdx.x] = s[{index}];")) == []


def test_d1_the_halves_of_a_tree_are_disjoint() -> None:
    text = """  s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  for (int h = blockDim.x / 2; h > 0; h >>= 1) {
    if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
    __syncthreads();
  }
  if (threadIdx.x == 0) b[blockIdx.x] = s[0];"""
    assert shown(kernel(text)) == []
    assert shown(kernel(text.replace("    __syncthreads();\n  }", "  }"))) == ["missing-syncthreads"]


def test_what_is_loaded_is_an_index_into_the_part_of_its_own_pointer() -> None:
    text = """__global__ void k(unsigned* a, unsigned* b) {
  extern __shared__ unsigned s[];
  unsigned* codes = s;
  unsigned* sums = s + 256;
  codes[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  unsigned char mine = a[threadIdx.x] >> 8;
  unsigned code = codes[mine];
  sums[threadIdx.x] = code;
  __syncthreads();
  b[threadIdx.x] = sums[255 - threadIdx.x];
}
void run(unsigned* a, unsigned* b) { k<<<64, 256, 2048>>>(a, b); }
"""
    assert shown(text) == []
    assert found(text.replace("  sums[threadIdx.x] = code", "  codes[threadIdx.x] = code")) == [
        ("missing-syncthreads", "likely", 9)
    ]


def test_d1_other_barriers_of_the_block_count() -> None:
    for barrier in (
        'asm volatile("bar.sync 0;");',
        "__syncthreads_or(0);",
        "cooperative_groups::this_thread_block().sync();",
    ):
        text = f"  s[threadIdx.x] = a[threadIdx.x];\n  {barrier}\n  b[threadIdx.x] = s[127 - threadIdx.x];"
        assert shown(kernel(text)) == []


def test_d1_a_barrier_in_the_other_branch_does_not_help() -> None:
    text = """  s[threadIdx.x] = a[threadIdx.x];
  if (m) { __syncthreads(); b[threadIdx.x] = s[127 - threadIdx.x]; }
  else { b[threadIdx.x] = s[126 - threadIdx.x % 64]; }"""
    assert found(kernel(text)) == [("missing-syncthreads", "likely", 5)]


def test_d1_an_unknown_shape_is_not_certain() -> None:
    text = "  s[threadIdx.x] = a[threadIdx.x];\n  b[threadIdx.x] = s[127 - threadIdx.x];"
    launch = "void run(float* a, float* b, int n, int m) { k<<<64, m>>>(a, b, n, m); }\n"
    assert found(kernel(text, launch)) == [("missing-syncthreads", "likely", 4)]


def test_d1_atomics_on_both_sides_need_none() -> None:
    text = "  atomicAdd(&s[threadIdx.x % 8], 1.0f);\n  atomicAdd(&s[threadIdx.x % 4], 1.0f);"
    assert shown(kernel(text)) == []


def test_d2_some_threads_do_not_come() -> None:
    text = "  if (threadIdx.x < 40) { __syncthreads(); a[threadIdx.x] = 1; }\n  __syncthreads();"
    assert found(kernel(text)) == [("divergent-barrier", "certain", 3)]


@pytest.mark.parametrize(
    "condition", ["blockIdx.x < 3", "n > m", "a[blockIdx.x] > 0", "blockDim.x > 64", "threadIdx.x < 128"]
)
def test_d2_uniform_conditions_are_fine(condition: str) -> None:
    text = f"  if ({condition}) {{ __syncthreads(); a[threadIdx.x] = 1; }}\n  __syncthreads();"
    assert shown(kernel(text)) == []


def test_d2_a_scalar_that_was_shared_is_uniform() -> None:
    text = """  __shared__ int go;
  if (threadIdx.x == 0) go = a[0] > 0;
  __syncthreads();
  while (go) {
    __syncthreads();
    if (threadIdx.x == 0) go = a[blockIdx.x] > 1;
    __syncthreads();
  }"""
    assert shown(kernel(text)) == []


def test_d2_what_each_thread_loads_is_not_uniform() -> None:
    text = "  if (a[threadIdx.x] > 0) { __syncthreads(); }\n  __syncthreads();"
    assert found(kernel(text)) == [("divergent-barrier", "likely", 3)]


def test_d2_an_early_return_is_tolerated() -> None:
    text = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n  __syncthreads();\n  a[i] = 1;"
    assert found(kernel(text)) == [("divergent-barrier", "possible", 5)]


def test_d2_a_loop_is_left_after_different_rounds() -> None:
    text = "  for (int i = threadIdx.x; i < 200; i += blockDim.x) { a[i] = 1; __syncthreads(); }\n  b[threadIdx.x] = 1;"
    assert [f[:2] for f in found(kernel(text))] == [("divergent-barrier", "likely")]
    assert shown(kernel(text.replace("200", "256"))) == []


def test_d3_exchange_within_a_warp_needs_syncwarp() -> None:
    text = "  s[threadIdx.x] = a[threadIdx.x];\n  {}\n  b[threadIdx.x] = s[threadIdx.x ^ 1];"
    assert found(kernel(text.replace("{}", ""))) == [("missing-syncwarp", "likely", 5)]
    assert shown(kernel(text.replace("{}", "__syncwarp();"))) == []
    assert shown(kernel(text.replace("{}", "__syncthreads();"))) == []


def test_d3_code_from_before_volta_is_possible_only() -> None:
    text = kernel("  s[threadIdx.x] = a[threadIdx.x];\n  b[threadIdx.x] = s[threadIdx.x ^ 1];")
    assert found(text.replace("__shared__ float", "__shared__ volatile float")) == [("missing-syncwarp", "possible", 4)]


def test_d3_a_tile_is_smaller_than_a_warp() -> None:
    text = """  auto tile = cooperative_groups::tiled_partition<8>(cooperative_groups::this_thread_block());
  s[threadIdx.x] = a[threadIdx.x];
  tile.sync();
  b[threadIdx.x] = s[threadIdx.x ^ 4];"""
    assert shown(kernel(text)) == []
    assert shown(kernel(text.replace("^ 4", "^ 8"))) == ["missing-syncwarp"]


def test_d4_a_copy_is_waited_for_by_who_issued_it() -> None:
    text = """  __pipeline_memcpy_async(&s[threadIdx.x], &a[threadIdx.x], sizeof(float));
  __pipeline_commit();
  {}
  __syncthreads();
  b[threadIdx.x] = s[127 - threadIdx.x];"""
    assert found(kernel(text.replace("{}", ""))) == [("missing-async-wait", "certain", 7)]
    assert shown(kernel(text.replace("{}", "__pipeline_wait_prior(1);"))) == ["missing-async-wait"]
    assert shown(kernel(text.replace("{}", "__pipeline_wait_prior(0);"))) == []


def test_d4_after_the_wait_comes_the_barrier() -> None:
    text = """  __pipeline_memcpy_async(&s[threadIdx.x], &a[threadIdx.x], sizeof(float));
  __pipeline_commit();
  __syncthreads();
  __pipeline_wait_prior(0);
  b[threadIdx.x] = s[127 - threadIdx.x];"""
    assert shown(kernel(text)) == ["missing-syncthreads"]


def test_d6_what_one_thread_initialises_is_published_by_a_barrier() -> None:
    text = "  __shared__ int c;\n  if (threadIdx.x == 0) c = 0;\n  {}\n  atomicAdd(&c, 1);"
    assert found(kernel(text.replace("{}", ""))) == [("missing-syncthreads", "certain", 6)]
    assert shown(kernel(text.replace("{}", "__syncthreads();"))) == []


@pytest.mark.parametrize(
    ("guard", "bad"),
    [
        ("threadIdx.x % 32 < 16", True),
        ("threadIdx.x % 2 == 0", True),
        ("a[threadIdx.x] > 0.0f", True),
        ("blockIdx.x * 128 + threadIdx.x < n", True),
        ("threadIdx.x < 32", False),
        ("threadIdx.x / 32 == m", False),
        ("blockIdx.x < n", False),
        ("a[threadIdx.x / 32] > 0.0f", False),
    ],
)
def test_d3_a_mask_names_the_lanes_that_execute_the_call(guard: str, bad: bool) -> None:
    text = f"  if ({guard}) b[threadIdx.x] = __shfl_xor_sync(0xffffffff, a[threadIdx.x], 1);"
    assert shown(kernel(text)) == (["bad-warp-mask"] if bad else [])
    assert shown(kernel(text.replace("0xffffffff", "__activemask()"))) == []


def test_d5_blocks_add_to_one_place_with_atomics() -> None:
    assert found(kernel("  if (threadIdx.x == 0) b[0] += a[blockIdx.x];")) == [("missing-atomic", "certain", 3)]
    assert shown(kernel("  if (threadIdx.x == 0) atomicAdd(&b[0], a[blockIdx.x]);")) == []
    alone = LAUNCH.replace("64", "1")
    assert shown(kernel("  if (threadIdx.x == 0) b[0] += a[blockIdx.x];", alone)) == []


def test_d5_a_barrier_of_the_block_does_not_order_blocks() -> None:
    text = """  b[blockIdx.x * 128 + threadIdx.x] = 1.0f;
  __syncthreads();
  a[blockIdx.x * 128 + threadIdx.x] = b[blockIdx.x * 128 + threadIdx.x + 1];"""
    assert shown(kernel(text)) == ["missing-grid-sync"]
    assert shown(kernel(text, LAUNCH.replace("64", "1"))) == []
    assert shown(kernel(text.replace("__syncthreads()", "cooperative_groups::this_grid().sync()"), "")) == []


def test_d5_what_is_published_by_an_atomic_needs_a_fence() -> None:
    text = """  __shared__ bool last;
  if (threadIdx.x == 0) {
    a[blockIdx.x] = 1.0f;
    {}
    last = atomicAdd((int*)b, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last) for (int i = 0; i < gridDim.x; ++i) s[threadIdx.x] += a[i];"""
    assert found(kernel(text.replace("{}", ""))) == [("missing-threadfence", "likely", 7)]
    assert shown(kernel(text.replace("{}", "__threadfence_block();"))) == ["missing-threadfence"]
    assert shown(kernel(text.replace("{}", "__threadfence();"))) == []


def test_d5_the_grid_meets_in_cooperative_launches_only() -> None:
    assert found(kernel("  cooperative_groups::this_grid().sync();")) == [("invalid-grid-sync", "certain", 5)]
    launch = """void run(float* a, float* b, int n, int m) {
  void* args[] = {&a, &b, &n, &m};
  cudaLaunchCooperativeKernel((void*)k, {}, 128, args);
}"""
    text = kernel("  cooperative_groups::this_grid().sync();", launch)
    assert shown(text.replace("{}", "64")) == []
    assert shown(text.replace("{}", "1 << 20")) == ["invalid-grid-sync"]


def test_a_constant_that_another_platform_has_on_the_device_is_a_constant() -> None:
    text = """#ifdef OTHER
constexpr __device__ int kWarp = other::width();
#else
constexpr int kWarp = 32;
#endif
__global__ void k(const int* in, int* out, int n) {
  long i = threadIdx.x % kWarp;
  long limit = n / kWarp * kWarp;
  int c = 0;
  for (; i < limit; i += kWarp) c += __any_sync(0xffffffff, in[i] > 0);
  out[threadIdx.x] = c;
}
void run(const int* a, int* b, int n) { k<<<1, 128>>>(a, b, n); }
"""
    assert shown(text) == []
    assert shown(text.replace("n / kWarp * kWarp", "n")) == []  # written for an n that fits
    assert shown(text.replace("n / kWarp * kWarp", "in[i]")) == ["bad-warp-mask"]


def test_lanes_of_groups_whose_width_is_not_known_may_leave_together() -> None:
    text = """template <class T> __global__ void k(const int* in, int* out) {
  int lane = threadIdx.x % T::width;
  int c = 0;
  for (int i = lane; i < T::columns; i += T::width) c += __shfl_xor_sync(0xffffffff, in[i], 1);
  out[threadIdx.x] = c;
}
"""
    assert shown(text) == []
    assert shown(text.replace("i < T::columns", "i < in[i]")) == ["bad-warp-mask"]


def test_a_name_that_begins_with_colons_is_not_one_of_a_namespace() -> None:
    text = """namespace mine {
__device__ uchar2 min(const uchar2& a, const uchar2& b) { return Traits<uchar2>::make(::min(a.x, b.x), ::min(a.y, b.y)); }
}
__global__ void k(float* a, int n) {
  __shared__ float s[128];
  int end = ::min(64, n);
  for (int i = 0; i < end; ++i) {
    __syncthreads();
    s[threadIdx.x] = a[i];
    __syncthreads();
    a[i] = s[127 - threadIdx.x];
  }
}
void run(float* a, int n) { k<<<64, 128>>>(a, n); }
"""
    assert shown(text) == []


@pytest.mark.parametrize(
    ("condition", "codes"),
    [
        ("__CUDA_ARCH__ >= 300", []),
        ("defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 350)", []),
        ("CUDA_VERSION >= 9000", []),
        ("!defined(USE_ROCM) || defined(__gfx90a__)", []),
        ("!(defined(ON_HIP) && (defined(__GFX9__) || defined(__GFX8__)))", []),
        ("__CUDA_ARCH__ > 300 && !(__HIPCC__ > 2)", ["missing-syncwarp"]),
        ("defined(__HIP_PLATFORM_NVIDIA__)", ["missing-syncwarp"]),
        ("!defined(CHIP)", ["missing-syncwarp"]),
        ("__CUDA_ARCH__ >= 700", ["missing-syncwarp"]),
        ("__CUDA_ARCH__ < 300", ["missing-syncwarp"]),
    ],
)
def test_code_for_devices_that_are_no_longer_there_does_not_count(condition: str, codes: list[str]) -> None:
    text = f"""
#if {condition}
  b[threadIdx.x] = __shfl_up_sync(0xffffffff, a[threadIdx.x], 1);
#else
  s[threadIdx.x] = a[threadIdx.x];
  b[threadIdx.x] = s[threadIdx.x ^ 1];
#endif
"""
    assert shown(kernel(text)) == codes


@pytest.mark.parametrize(("condition", "codes"), [("defined(USE_HIP)", []), ("defined(OLD)", ["missing-syncwarp"])])
def test_what_is_not_compiled_does_not_count_beside_what_may_be(condition: str, codes: list[str]) -> None:
    text = f"""
#if {condition}
  s[threadIdx.x] = a[threadIdx.x];
  b[threadIdx.x] = s[threadIdx.x ^ 1];
#elif __CUDA_ARCH__ >= 800
  b[threadIdx.x] = __shfl_xor_sync(0xffffffff, a[threadIdx.x], 1);
#else
  b[threadIdx.x] = a[threadIdx.x];
#endif
"""
    assert shown(kernel(text)) == codes


def test_a_bound_of_one_warp_that_a_function_returns() -> None:
    text = """constexpr __device__ int width() {
#if defined(USE_HIP) && defined(__GFX9__)
  return 64;
#else
  return 32;
#endif
}
__launch_bounds__(width(), 1) __global__ void k(int* a) {
  extern __shared__ int s[];
  s[threadIdx.x] = a[threadIdx.x];
  int sum = __shfl_down_sync(0xffffffff, a[threadIdx.x], 1);
  a[threadIdx.x] = s[threadIdx.x ^ 1] + sum;
}
__launch_bounds__(width()) __global__ void reversed(int* a) {
  extern __shared__ int s[];
  s[threadIdx.x] = a[threadIdx.x];
  a[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
void run(int* a, int n) { k<<<1, n, 4 * n>>>(a); reversed<<<1, n, 4 * n>>>(a); }
"""
    assert shown(text) == ["missing-syncwarp"]
    assert shown(text.replace("return 32", "return 128")) == ["missing-syncthreads"]
    assert shown(text.replace("return 32", "return rows()")) == ["missing-syncthreads"]  # not known


@pytest.mark.parametrize(
    ("bound", "codes"), [("n", []), ("1000", ["divergent-barrier"] * 2), ("in[i]", ["divergent-barrier"])]
)
def test_a_loop_that_is_left_by_break_may_be_written_for_bounds_that_fit(bound: str, codes: list[str]) -> None:
    text = f"""__global__ void k(const int* in, int* out, int n) {{
  __shared__ int s[256];
  for (int i = threadIdx.x; ; i += 256) {{
    if (i >= {bound}) break;
    s[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = s[255 - threadIdx.x];
    __syncthreads();
  }}
}}
void run(int* a, int* b, int n) {{ k<<<1, 256>>>(a, b, n); }}
"""
    assert shown(text) == codes


SEARCH = """__global__ void k(const int* keys, const float* in, float* out, int wanted, int n) {
  __shared__ float found;
  // repeated
  for (int i = threadIdx.x; i < 4096; i += 128) {
    int key = keys[i];
    if (key == wanted) found = in[i];
    __syncthreads();
    if (key > wanted) out[i] = in[i] * found;
  }
}
void run(int* a, float* b, float* c, int n) { k<<<64, 128>>>(a, b, c, n, n); }
"""


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("", "", []),
        ("key > wanted", "in[i] > 0", ["missing-syncthreads"]),
        ("key == wanted", "threadIdx.x == i / 64", ["missing-syncthreads"]),
        ("// repeated", "for (int r = 0; r < n; ++r)", ["missing-syncthreads"]),
        ("    __syncthreads();\n", "", ["missing-syncthreads"]),
    ],
    ids=["found once", "read by others", "written by place", "searched again", "no barrier"],
)
def test_what_is_found_once_is_written_once(old: str, new: str, codes: list[str]) -> None:
    assert shown(SEARCH.replace(old, new, 1)) == codes
