"""Kernel effects from CUDA text. Each case is a kernel and what it does, one line an entry:

`name[.member] modes certainty shape element [first, extent)`; a leading `@` is a device symbol.
"""

from __future__ import annotations

import pytest
from stitchcuda.analysis.order.timeline import Certainty, Mode, Shape
from stitchcuda.analysis.program.cuda import lower_module
from stitchcuda.analysis.program.effects import KernelEffects, kernel_effects
from stitchcuda.analysis.program.ir import Program, Record
from stitchcuda.analysis.program.link import link


def effects_of(text: str, kernel: str = "k") -> KernelEffects:
    module = lower_module("a.cu", text.encode())
    by_name: dict[str, tuple[str, ...]] = {}
    for function in module.functions:
        by_name[function.name] = (*by_name.get(function.name, ()), function.uid)
    functions = {f.uid: f for f in module.functions}
    records: dict[str, Record] = {r.name: r for r in module.records}
    program = Program({"a.cu": module}, functions, by_name, records)
    return kernel_effects(program, by_name[kernel][0])


def shown(effects: KernelEffects) -> list[str]:
    lines = []
    for e in effects.params:
        letters = "".join(m.value[0] for m in (Mode.READ, Mode.WRITE, Mode.ATOMIC) if m in e.modes)
        name = f"{e.name}.{e.member}" if e.member else e.name
        lines.append(f"{name} {letters} {e.certainty.value} {e.shape.value} {e.element} [{e.first}, {e.extent})")
    lines += [f"@{name} {mode.value[0]}" for name, mode in effects.symbols]
    return lines


INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"

CASES = {
    "guard": (
        f"__global__ void k(const float* x, float* y, int n) {{ {INDEX} if (i < n) y[i] = 2.f * x[i]; }}",
        ["x r must thread float [0, n)", "y w must thread float [0, n)"],
    ),
    "early return": (
        f"__global__ void k(const float* x, float* y, int n) {{ {INDEX} if (i >= n) return; y[i] = x[i]; }}",
        ["x r must thread float [0, n)", "y w must thread float [0, n)"],
    ),
    "no guard": (
        f"__global__ void k(int* y) {{ {INDEX} y[i] = i; }}",
        ["y w must thread int [0, blockDim.x*gridDim.x)"],
    ),
    "compound assignment reads and writes": (
        f"__global__ void k(float* y, int n) {{ {INDEX} if (i < n) y[i] *= 2.f; }}",
        ["y rw must thread float [0, n)"],
    ),
    "grid-stride loop": (
        (
            "__global__ void k(const float* x, float* y, int n) {\n"
            "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = x[i]; }"
        ),
        ["x r must some float [0, n)", "y w must some float [0, n)"],
    ),
    "row alias and two dimensions": (
        (
            "__global__ void k(const float* x, float* out, int rows, int cols) {\n"
            "  int r = blockIdx.y * blockDim.y + threadIdx.y;\n"
            "  if (r >= rows) return;\n"
            "  const float* row = x + r * cols; float s = 0;\n"
            "  for (int c = 0; c < cols; ++c) s += row[c];\n"
            "  out[r] = s; }"
        ),
        ["x r must some float [0, cols*rows)", "out w must some float [0, rows)"],
    ),
    "offset": (
        f"__global__ void k(float* y, int n, int from) {{ {INDEX} if (i < n) y[from + i] = 0; }}",
        ["y w must some float [from, n)"],
    ),
    "data condition": (
        f"__global__ void k(const int* m, float* y, int n) {{ {INDEX} if (i < n && m[i]) y[i] = 0; }}",
        ["m r must thread int [0, n)", "y w may thread float [0, n)"],
    ),
    "both branches": (
        (
            f"__global__ void k(const float* x, float* y, int n) {{ {INDEX}\n"
            "  if (i < n) { if (x[i] > 0) y[i] = 1; else y[i] = 2; } }"
        ),
        ["x r must thread float [0, n)", "y w must thread float [0, n)"],
    ),
    "after a data return": (
        f"__global__ void k(const int* done, float* y) {{ {INDEX} if (*done) return; y[i] = 0; }}",
        ["done r must some int [0, 1)", "y w may thread float [0, blockDim.x*gridDim.x)"],
    ),
    "uniform option": (
        (
            f"__global__ void k(float* y, float* extra, int n, bool save) {{ {INDEX}\n"
            "  if (i < n) { y[i] = 0; if (save) extra[i] = 1; } }"
        ),
        ["y w must thread float [0, n)", "extra w may thread float [0, n)"],
    ),
    "null check": (
        (
            f"__global__ void k(float* y, const float* bias, int n) {{ {INDEX}\n"
            "  if (i < n) { float v = 0; if (bias != nullptr) v += bias[i]; y[i] = v; } }"
        ),
        ["y w must thread float [0, n)", "bias r must thread float [0, n)"],
    ),
    "one thread of a block": (
        (
            "__global__ void k(const float* x, float* out) {\n"
            "  __shared__ float s[256]; s[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x]; __syncthreads();\n"
            "  for (int w = blockDim.x / 2; w > 0; w >>= 1) { if (threadIdx.x < w) s[threadIdx.x] += s[threadIdx.x + w];\n"
            "    __syncthreads(); }\n"
            "  if (threadIdx.x == 0) out[blockIdx.x] = s[0]; }"
        ),
        ["x r must thread float [0, blockDim.x*gridDim.x)", "out w must some float [0, gridDim.x)"],
    ),
    "atomics": (
        f"__global__ void k(const int* x, int* bins, int n) {{ {INDEX} if (i < n) atomicAdd(&bins[x[i]], 1); }}",
        ["x r must thread int [0, n)", "bins a must some int [None, None)"],
    ),
    "atomic on a pointer sum": (
        "__global__ void k(int* total) { atomicMax(total + 3, 1); }",
        ["total a must some int [3, 1)"],
    ),
    "vector view": (
        (
            f"__global__ void k(const float* x, float* y, int n4) {{ {INDEX}\n"
            "  if (i < n4) reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i]; }"
        ),
        ["x r must thread float4 [0, n4)", "y w must thread float4 [0, n4)"],
    ),
    "vector view by name and member": (
        f"__global__ void k(float* y) {{ {INDEX} float4* v = (float4*)y; v[i].x = 1.f; }}",
        ["y w must thread float4 [0, blockDim.x*gridDim.x)"],
    ),
    "read-only load": (
        f"__global__ void k(const float* __restrict__ x, float* y) {{ {INDEX} y[i] = __ldg(&x[i]) + __ldg(x + i); }}",
        [
            "x r must thread float [0, blockDim.x*gridDim.x)",
            "y w must thread float [0, blockDim.x*gridDim.x)",
        ],
    ),
    "const cast away": (
        f"__global__ void k(const float* x) {{ {INDEX} float* w = const_cast<float*>(x); w[i] = 0; }}",
        ["x w must thread float [0, blockDim.x*gridDim.x)"],
    ),
    "device function": (
        (
            "__device__ float load(const float* p, int j) { return p[j]; }\n"
            "__device__ void store(float* p, int j, float v) { p[j] = v; }\n"
            f"__global__ void k(const float* x, float* y, int n) {{ {INDEX} if (i < n) store(y, i, load(x, i)); }}"
        ),
        ["x r must thread float [0, n)", "y w must thread float [0, n)"],
    ),
    "device function by reference": (
        (
            "__device__ void bump(float& v) { v += 1.f; }\n"
            f"__global__ void k(float* y, int n) {{ {INDEX} if (i < n) bump(y[i]); }}"
        ),
        ["y rw must thread float [0, n)"],
    ),
    "recursion": (
        (
            "__device__ void down(int* p, int d) { if (d == 0) return; p[d] = d; down(p, d - 1); }\n"
            "__global__ void k(int* p) { down(p, 8); }"
        ),
        ["p w may some int [8, 1)"],
    ),
    "struct by value": (
        (
            "struct Args { const float* in; struct { float* data; } out; int n; };\n"
            f"__global__ void k(Args a) {{ {INDEX} if (i < a.n) a.out.data[i] = a.in[i]; }}"
        ),
        ["a.in r must thread float [0, a.n)", "a.out.data w must thread  [0, a.n)"],
    ),
    "struct by pointer": (
        f"struct Node {{ float* data; int n; }};\n__global__ void k(Node* a) {{ {INDEX} a->data[i] = 0; }}",
        ["a r must some Node [0, 1)", "a.data w must thread float [0, blockDim.x*gridDim.x)"],
    ),
    "struct array element": (
        (
            "struct Body { float x, y; };\n"
            f"__global__ void k(Body* b, float dt, int n) {{ {INDEX} if (i < n) b[i].x += b[i].y * dt; }}"
        ),
        ["b r must thread Body [0, n)", "b w must thread Body [0, n)"],
    ),
    "array of pointers": (
        f"__global__ void k(float** rows, int n) {{ {INDEX} if (i < n) rows[blockIdx.y][i] = 0; }}",
        ["rows r must some float* [0, gridDim.y)", "rows.[] w must thread float [0, n)"],
    ),
    "pointers in a struct's array": (
        (
            "struct List { float* ptrs[4]; int n; };\n"
            f"__global__ void k(List l) {{ {INDEX} l.ptrs[blockIdx.y][i] = 0; }}"
        ),
        ["l.ptrs[] w must thread float [0, blockDim.x*gridDim.x)"],
    ),
    "pointer chosen": (
        f"__global__ void k(float* a, float* b, int n) {{ {INDEX} float* p = n > 4 ? a : b; p[i] = 0; }}",
        [
            "a w must thread float [0, blockDim.x*gridDim.x)",
            "b w must thread float [0, blockDim.x*gridDim.x)",
        ],
    ),
    "pointer that moves": (
        (
            "__global__ void k(const float* x, float* y, int n) {\n"
            "  const float* p = x; float s = 0; for (int j = 0; j < n; ++j) { s += *p; p += 4; } *y = s; }"
        ),
        ["x r must some float [None, None)", "y w must some float [0, 1)"],
    ),
    "symbols": (
        (
            "__constant__ float w[16]; __device__ int counter;\n"
            f"__global__ void k(float* y) {{ {INDEX} y[i] = w[i & 15]; atomicAdd(&counter, 1); }}"
        ),
        ["y w must thread float [0, blockDim.x*gridDim.x)", "@counter a", "@w r"],
    ),
    "lambda": (
        f"__global__ void k(float* y) {{ {INDEX} auto put = [&](int j) {{ y[j] = 1; }}; put(i); }}",
        ["y w must thread float [0, blockDim.x*gridDim.x)"],
    ),
    "local arrays are not memory of the caller": (
        f"__global__ void k(const float* x, float* y) {{ {INDEX} float t[4]; t[i & 3] = x[i]; y[i] = t[0]; }}",
        [
            "x r must thread float [0, blockDim.x*gridDim.x)",
            "y w must thread float [0, blockDim.x*gridDim.x)",
        ],
    ),
    "template element": (
        f"template <typename T> __global__ void k(const T* x, T* y, int n) {{ {INDEX} if (i < n) y[i] = x[i]; }}",
        ["x r must thread T [0, n)", "y w must thread T [0, n)"],
    ),
    "declared only": (
        "__global__ void k(const float* x, float* y, int n);",
        ["x r may some float [None, None)", "y rw may some float [None, None)"],
    ),
    "inline assembly": (
        (
            f"__global__ void k(const int* x, int* y) {{ {INDEX} int v;\n"
            '  asm volatile("ld.global.b32 %0, [%1];" : "=r"(v) : "l"(x + i)); y[i] = v; }'
        ),
        ["x r may some int [None, None)", "y w must thread int [0, blockDim.x*gridDim.x)"],
    ),
    "unknown function": (
        "__device__ void helper(float*, const float*);\n__global__ void k(float* y, const float* x) { helper(y, x); }",
        ["y rw may some float [None, None)", "x r may some float [None, None)"],
    ),
    "while with data": (
        (
            "__global__ void k(const int* next, float* y, int start) {\n"
            "  int j = start; while (next[j] >= 0) { y[j] = 0; j = next[j]; } }"
        ),
        ["next r must some int [None, None)", "y w may some float [None, None)"],
    ),
    "switch with default": (
        (
            f"__global__ void k(float* y, float* z, int mode) {{ {INDEX}\n"
            "  switch (mode) { case 0: y[i] = 0; break; case 1: y[i] = 1; z[i] = 1; break; default: y[i] = 2; } }"
        ),
        [
            "y w must thread float [0, blockDim.x*gridDim.x)",
            "z w may thread float [0, blockDim.x*gridDim.x)",
        ],
    ),
    "increment through a post-incremented pointer": (
        "__global__ void k(int* p) { int* q = p; *q++ = 1; *q = 2; }",
        ["p w must some int [0, 2)"],
    ),
    "a macro from a header not in sight that indexes a pointer": (
        ("__global__ void k(const float* img, float* out, int w) { int c = threadIdx.x; out[c] = img(0, c); }"),
        ["img r must some float [None, None)", "out w must some float [0, blockDim.x)"],
    ),
    "methods of elements": (
        (
            "struct P { float v; __device__ float get() const { return v; } __device__ void set(float x) { v = x; } };\n"
            f"__global__ void k(const P* in, P* out) {{ {INDEX} out[i].set(in[i].get()); }}"
        ),
        [
            "in r must thread P [0, blockDim.x*gridDim.x)",
            "out w must thread P [0, blockDim.x*gridDim.x)",
        ],
    ),
    "tiled product": (
        (
            "__global__ void k(const float* A, const float* B, float* C, int n) {\n"
            "  __shared__ float a[16][16], b[16][16];\n"
            "  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x; float acc = 0;\n"
            "  for (int t = 0; t < n / 16; ++t) {\n"
            "    a[threadIdx.y][threadIdx.x] = A[row * n + t * 16 + threadIdx.x];\n"
            "    b[threadIdx.y][threadIdx.x] = B[(t * 16 + threadIdx.y) * n + col]; __syncthreads();\n"
            "    for (int j = 0; j < 16; ++j) acc += a[threadIdx.y][j] * b[j][threadIdx.x]; __syncthreads(); }\n"
            "  if (row < n && col < n) C[row * n + col] = acc; }"
        ),
        [
            "A r must some float [0, None)",
            "B r must some float [0, None)",
            "C w must some float [0, n*n)",
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_effects(name: str) -> None:
    text, expected = CASES[name]
    assert shown(effects_of(text)) == expected


def test_printing_is_told() -> None:
    assert effects_of('__global__ void k(int* x) { printf("%d", *x); }').prints
    assert effects_of("__global__ void k(int* x) { assert(*x > 0); }").prints
    assert not effects_of("__global__ void k(int* x) { *x = 1; }").prints


def test_unknown_code_is_told() -> None:
    assert effects_of("__device__ void f(int*); __global__ void k(int* x) { f(x); }").calls_unknown
    assert not effects_of("__global__ void k(float* x) { *x = expf(*x) + __shfl_sync(~0u, *x, 0); }").calls_unknown


def test_cached_until_a_function_it_uses_changes() -> None:
    text = "__device__ void f(int* p) { *p = 1; } __global__ void k(int* x) { f(x); }"
    assert effects_of(text).params[0].modes == {Mode.WRITE}
    assert effects_of(text.replace("*p = 1", "int v = *p")).params[0].modes == {Mode.READ}


def test_broken_code_gives_what_is_known() -> None:
    effects = effects_of("__global__ void k(float* y, int n) { int i = threadIdx.x; y[i] = ; y[i] = n; }")
    assert all(e.certainty in Certainty and e.shape in Shape for e in effects.params)


def test_deep_code_ends_with_an_honest_answer() -> None:
    calls = "".join(f"__device__ void f{k}(float* p) {{ f{k + 1}(p); f{k + 1}(p); }}\n" for k in range(40))
    effects = effects_of(
        f"{calls}__device__ void f40(float* p) {{ *p = 1; }}\n__global__ void k(float* y) {{ f0(y); }}"
    )
    assert effects.calls_unknown
    assert {m for e in effects.of("y") for m in e.modes} == {Mode.READ, Mode.WRITE}


def test_overloads_that_call_their_own_name_are_not_walked_in_all_combinations() -> None:
    names = ("float", "int", "float2", "int2", "uint2", "float3", "int3", "uint3", "float4", "int4", "uint4")
    least = "".join(
        f"inline __device__ {t} least({t} a, {t} b) {{ return make_{t}(least(a.x, b.x), least(a.y, b.y)); }}\n"
        for t in names
    )
    effects = effects_of(
        f"{least}__global__ void k(const float4* x, float4* y, int n) {{"
        f" {INDEX} if (i < n) y[i] = least(least(x[i], x[i]), least(x[i], x[i])); }}"
    )
    assert shown(effects) == ["x r must thread float4 [0, n)", "y w must thread float4 [0, n)"]
    assert not effects.calls_unknown


def test_a_function_that_touches_memory_is_walked_whatever_it_returns() -> None:
    counted = "__device__ int calls;\n__device__ float f(float a) { calls = 1; return a; }\n"
    effects = effects_of(f"{counted}__global__ void k(float* y) {{ y[threadIdx.x] = f(1.f); }}")
    assert "@calls w" in shown(effects)
    printing = '__device__ float f(float a) { printf("%f", a); return a; }\n'
    assert effects_of(f"{printing}__global__ void k(float* y) {{ y[0] = f(1.f); }}").prints
    outside = "__device__ float g(float a);\n__device__ float f(float a) { return g(a); }\n"
    program = link([lower_module("a.cu", f"{outside}__global__ void k(float* y) {{ y[0] = f(1.f); }}".encode())])
    assert kernel_effects(program, program.by_name["k"][0]).supplied


def test_nested_loops_with_pointers_of_their_own_are_walked_to_the_end() -> None:
    depth = 7
    heads = "".join(f"for (int i{k} = 0; i{k} < n; ++i{k}) {{ float* p{k} = y + i{k}; " for k in range(depth))
    body = " ".join(f"p{k}[i{depth - 1}] = {k};" for k in range(depth))
    effects = effects_of(f"__global__ void k(float* y, int n) {{ {heads}{body}{'}' * depth} }}")
    assert [m for e in effects.of("y") for m in e.modes] == [Mode.WRITE]
    assert not effects.calls_unknown
