"""What the grammar does not know is masked byte for byte, only where that helps, and launches survive it."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.program.ir import Api, Launch
from stitchcuda.analysis.syntax.parse import mask, parse_cuda

from tests.pure.program.lowering import cuda_nodes, function, lower

# Source and the number of error bytes left.
MASKED = [
    ("__global__ void k(){ __shared__ unsigned char __align__(8) s[4]; }", 0),
    ("__global__ void __block_size__((1,1,1)) k(float* a) { }", 0),
    ("__global__ void __cluster_dims__(2,1,1) k(float* a) { }", 0),
    ("__global__ void __maxnreg__(64) k(float* a) { }", 0),
    ('#ifdef __cplusplus\nextern "C" {\n#endif\nvoid f();\n#ifdef __cplusplus\n}\n#endif\n', 0),
    ("void f(){\n#if A\n if (x) {\n#else\n if (y) {\n#endif\n g(); }\n}", 0),
    ("MY_API MY_INLINE void f(int x) { g(x); }", 0),
    ("void f(){ g([=] __device__ (int i) { return i; }); }", 0),
    ("void f(){ auto l=[=] __host__ __device__ (int i) { return i; }; }", 0),
    ("void f(){ auto l=[] __device__ { return 1; }; }", 0),
    ("void f(){ g(); POP_RANGE\n double stop = t(); }", 0),
    ("auto f(){ return typename T::L{}; }", 0),
    ("void f(){ SWP(K, k0, k1, int, v0, v1); }", 0),
    ("typedef struct __align__(8) { int a; } S;", 0),
    ("bool f(){ return typeid(R) == typeid(double); }", 0),
    ("__global__ MY_ATTR void k(float* a) { a[0]=1; }", 0),
    ("template<int N> __global__ __launch_bounds__(N*32, (N>4)?1:2, 1) void k(float* a) { }", 0),
    ("void f(){ const float **p = new const float *[n]; }", 0),
    ("template <class... T> void f(T*... p) { (g(p), ...); }", 0),
    ("void f(){ CUTE_UNROLL\n for (int k = 0; k < K; ++k) { g(k); } }", 0),
    ("CUB_NAMESPACE_BEGIN\nnamespace detail { int x; }\nCUB_NAMESPACE_END\n", 0),
    ("using f4 = __attribute__((ext_vector_type(4))) float;", 0),
    ("void f(){ g(a,\n#ifdef X\n b\n#else\n c\n#endif\n ); }", 0),
    ("int limit = first\n#ifdef WIDE\n + second\n#endif\n;", 0),
    ('__device__ void get(int v){ asm volatile("ld." KIND " x" : "=r"(v)); }', 0),
    ('__device__ void get(int* p, int q){ asm volatile("x" :: ADDRESS(p), "r"(q)); }', 0),
]


@pytest.mark.parametrize(("source", "errors"), MASKED)
def test_masked(source: str, errors: int) -> None:
    syntax = parse_cuda(source.encode())
    assert syntax.masked
    assert syntax.error_bytes == errors


@pytest.mark.parametrize("source", [source for source, _ in MASKED])
def test_the_mask_keeps_lengths(source: str) -> None:
    assert len(mask(source.encode())) == len(source.encode())


def test_a_clean_file_is_never_masked() -> None:
    # The mask would blank MY_TYPE here.
    source = b"struct MY_TYPE { int x; };\nMY_TYPE v;\nvoid f() { k<<<1, 1>>>(); }\n"
    assert not parse_cuda(source).masked


def test_names_are_read_from_the_text_not_from_the_mask() -> None:
    module = lower(
        '#define REAL_API __attribute__((visibility("default")))\nREAL_API float* f(int n) { return new float*[n]; }'
    )
    assert function(module, "f").returns.name == "float"


def test_one_branch_of_a_split_statement_is_kept_the_one_with_cuda() -> None:
    module = lower(
        "void f() {\n#ifdef CPU\n  for (int i = 0; i < n; ++i) {\n#else\n  k<<<1, 1>>>(p);\n  if (n) {\n#endif\n  }\n}\n"
    )
    assert [type(n) for _, n in cuda_nodes(module)] == [Launch]


def test_branches_that_cut_through_braces_do_not_lose_the_file() -> None:
    module = lower(
        "int main() {\n#ifdef DUMP\n  for (a; b; c) {\n#else\n  for (d; e; f) {\n#endif\n"
        "#ifdef DUMP\n  print();\n#endif\n  cudaFree(p);\n  }\n}\n"
    )
    assert [n.name for _, n in cuda_nodes(module) if isinstance(n, Api)] == ["cudaFree"]


def test_what_could_not_be_parsed_is_told() -> None:
    module = lower("void good() {}\n\nvoid f() { x = = 3; }\n")
    assert [(p.line, p.what) for p in module.problems] == [(3, "part of f could not be parsed")]
    lost = lower("}} ) cudaFree ( << ( ] @ $ cudaMalloc( ;;; ]\n")
    assert lost.problems


def test_spaces_behind_attribute_macros() -> None:
    module = lower("#define HD __host__ __device__\nHD float g(float x) { return x; }\n")
    assert function(module, "g").space == "host_device"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"#",
        b"\xff\xfe\x00k<<<\x80>>>",
        b"void f() { " + b"(" * 10_000,
        b"void f() { x = " + b"(" * 10_000 + b"1" + b")" * 10_000 + b"; }",
        b"void f() { x = " + b"-" * 5_000 + b"1; }",
        b"void f() { x = a" + b" + a" * 5_000 + b"; }",
        b"void f() { x = a" + b"(a" * 3_000 + b")" * 3_000 + b"; }",
        b"void f() { " + b"{" * 5_000 + b"}" * 5_000 + b" }",
        b"void f() { " + b"if (a) " * 5_000 + b"; }",
        b"void f() { " + b"if (a) b(); else " * 3_000 + b"; }",
        b"void f(" + b"A<" * 3_000 + b"int" + b">" * 3_000 + b" x) { }",
        b"void f(" + b"a::" * 3_000 + b"b x) { a" + b"::a" * 3_000 + b"(); }",
        b"namespace a { " * 500,
        b"struct a { " * 500,
        b"#if A\n" * 500 + b"void f() {}\n" + b"#endif\n" * 500,
        b"void f() { g([] { " * 300,
        b"void (*" * 500 + b"f" + b")()" * 500 + b";",
        'void f() { s = "日本語"; k<<<1, 1>>>(p); }'.encode(),
    ],
)
def test_nothing_raises(text: bytes) -> None:
    from stitchcuda.analysis.program.cuda import lower_module

    lower_module("a.cu", text)


def test_only_the_conditionals_that_cut_through_a_statement_lose_their_branches() -> None:
    source = (
        "void f() {\n#ifdef MANAGED\n  cudaMallocManaged(&d, n);\n#else\n  cudaMalloc(&d, n);\n#endif\n"
        "  verify(d,\n#ifdef MANAGED\n  d,\n#else\n  h,\n#endif\n  n);\n}\n"
    )
    assert [n.name for _, n in cuda_nodes(lower(source)) if isinstance(n, Api)] == ["cudaMallocManaged", "cudaMalloc"]


def test_a_function_whose_head_is_written_twice() -> None:
    body = "\n  cudaMalloc(&d, n);\n" + "  g(d);\n" * 400 + "  cudaFree(d);\n}\n"
    source = (
        f"#ifdef STD\ndouble f(const std::vector<T> &a,\n#else\ndouble f(host_vector<T> &a,\n#endif\n  int n) {{{body}"
    )
    assert [n.name for _, n in cuda_nodes(lower(source)) if isinstance(n, Api)] == ["cudaMalloc", "cudaFree"]


def test_a_statement_macro_before_a_comment() -> None:
    source = "int f(int n) {\n  CUERR // check\n\n  if (n > 4) {\n    g();\n    return -1;\n  }\n  cudaFree(p); CUERR // check\n  return 0;\n}\n"
    assert parse_cuda(source.encode()).error_bytes == 0
    body = function(lower(source), "f").body
    assert body is not None and [type(s).__name__ for s in body.body] == [
        "Evaluate",
        "If",
        "Evaluate",
        "Evaluate",
        "Return",
    ]
