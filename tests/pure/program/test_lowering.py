"""One golden line or block for each construct that the C++ frontend lowers."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.program.show import show_expr, show_function, show_module, show_type

from tests.pure.program.lowering import function, lower, statements

EXPRESSIONS = [
    ("x = 1'000u;", "x = 1000"),
    ("x = 0x10; ", "x = 16"),
    ("x = 0b101;", "x = 5"),
    ("x = 017;", "x = 15"),
    ("x = 1.5e3f;", "x = 1500.0"),
    ("x = 'a';", "x = 97"),
    (r's = "a\n" "b";', r"s = 'a\nb'"),
    ('s = R"(a\\n)";', r"s = 'a\\n'"),
    ("p = nullptr, q = NULL;", "(p = null , q = null)"),
    ("b = true && !false;", "b = (true && !false)"),
    ("x = a + b * c - d;", "x = ((a + (b * c)) - d)"),
    ("x = 2 * (w) + (y) * 3;", "x = ((2 * w) + (y * 3))"),
    ("int w; x = (z) * (n) * (w) - (y) + (v);", "int w\nx = ((((z * n) * w) - y) + v)"),
    ("x = (float)-y;", "x = (float)-y"),
    ("x = -1;", "x = -1"),
    ("x = ~y | z << 2;", "x = (~y | (z << 2))"),
    ("x = a ? b : c;", "x = (a ? b : c)"),
    ("x += 2; y <<= 1;", "x += 2\ny <<= 1"),
    ("++x; x--;", "x += 1\nx -=(post) 1"),
    ("*p = a[i][j];", "*p = a[i][j]"),
    ("p->q.r = &s;", "p->q.r = &s"),
    ("this->run(1);", "this->run(1)"),
    ("x.template get<T>(1);", "x.get<T>(1)"),
    ("a.*m;", "?pointer-to-member(a)"),
    ("(float*)p;", "(float*)p"),
    ("static_cast<const float*>(p);", "(const float*)p"),
    ("x = float(n);", "x = (float)n"),
    ("x = unsigned((n + 255) / 256);", "x = (unsigned)((n + 255) / 256)"),
    ("x = uint(n); y = long(n);", "x = (uint)n\ny = (long)n"),
    ("x = std::size_t(n) * std::uint32_t(m);", "x = ((std::size_t)n * (std::uint32_t)m)"),
    ("x = std::get_t(n, m);", "x = std::get_t(n, m)"),
    ("sizeof(int); sizeof x; sizeof(x);", "sizeof(int)\nsizeof(x)\nsizeof(x)"),
    ("new float[n]; new T(1, 2); new T;", "new float[n]()\nnew T(1, 2)\nnew T()"),
    ("q = new float*[n];", "q = new float*[n]()"),
    ("delete p; delete[] q;", "delete p\ndelete[] q"),
    ("T{1, 2}; dim3(4);", "T{1, 2}\ndim3{4}"),
    ("std::make_unique<float[]>(n);", "std::make_unique<float[]>(n)"),
    ("ns::f<3, T>(x);", "ns::f<3, T>(x)"),
    ("s = {.a = 1, 2};", "s = {.a = 1, 2}"),
    ("g(args...);", "g(?pack-expansion(args))"),
    ("({ int z = 1; z; });", "[&]() { int z = 1 return z }()"),
    ("f = [=, &a, b, k = n + 1](int q) mutable { return q; };", "f = [=, &a, b, k = (n + 1)](int q) { return q }"),
    ("g([this] __device__ (int i) { });", "g([&this] device(int i) { })"),
    ("throw std::runtime_error(m);", "throw std::runtime_error{m}"),
]

DECLARATIONS = [
    ("const float *a = nullptr, **b, c[10][N];", "const float* a = null\nconst float** b\nconst float[10][N] c"),
    ("unsigned long long n = 5;", "unsigned long long n = 5"),
    ("auto& r = x; auto&& s = y;", "auto& r = x\nauto& s = y"),
    ("int x(3); int y{4};", "int x = int{3}\nint y = int{4}"),
    ("dim3 grid(a, b);", "dim3 grid = dim3{a, b}"),
    ("dim3 grid(a * b, c & d);", "dim3 grid = dim3{(a * b), (c & d)}"),
    ("dim3 grid((n + 31) / 32);", "dim3 grid = dim3{((n + 31) / 32)}"),
    ("Buffer b(n), c;", "Buffer b = Buffer{n}\nBuffer c"),
    ("std::vector<cudaStream_t> s(4);", "std::vector<cudaStream_t> s = std::vector<cudaStream_t>{4}"),
    ("std::unique_ptr<float[], D> p(q);", "std::unique_ptr<float[], D> p = std::unique_ptr<float[], D>{q}"),
    ("cudaStream_t s[2] = {a, b};", "cudaStream_t[2] s = {a, b}"),
    ("static __shared__ float t[32];", "static __shared__ float[32] t"),
    ("extern __shared__ float t[];", "__shared__ float[] t"),
    ("extern float t[];", ""),
    (
        "auto [p, q] = g();",
        "auto [p, q] = g()\nauto p = ?structured-binding([p, q], 0)\nauto q = ?structured-binding([p, q], 1)",
    ),
    ("void (*fp)(int) = g;", "function<void, int>* fp = g"),
    ("int helper(int); helper(1);", "helper(1)"),
    ("typename T::value_type v = x;", "T::value_type v = x"),
]

STATEMENTS = [
    ("if (a) b(); else if (c) d(); else { }", "if a\n  b()\nelse\n  if c\n    d()\n  else\n    {\n    }"),
    ("if (int e = g(); e) h();", "if int e = g(); e\n  h()"),
    ("if (auto p = q()) h();", "if auto p = q(); p\n  h()"),
    ("for (int i = 0, j = 1; i < n; i++, --j) g();", None),
    ("for (;;) ;", "for true\n  {-\n  }"),
    ("while (x) { break; }", "while x\n  {\n    break\n  }"),
    ("while (T e = next()) use(e);", "{\n  T e\n  while e = next()\n    use(e)\n}"),
    ("do { g(); } while (x);", "do x\n  {\n    g()\n  }"),
    ("do { g(); } while (0);", "{\n  g()\n}"),
    ("do { if (x) break; g(); } while (0);", "do 0\n  {\n    if x\n      break\n    g()\n  }"),
    ("for (auto& s : streams) g(s);", "range auto& s : streams\n  g(s)"),
    (
        "switch (m) { case 1: case A: g(); break; default: h(); }",
        "switch m\n  case 1:\n  case A:\n    g()\n    break\n  default:\n    h()",
    ),
    ("goto out; out: g(); return;", "goto out\nout:\ng()\nreturn"),
    (
        "try { g(); } catch (const E& e) { h(); } catch (...) { }",
        "try\n  {\n    g()\n  }\ncatch\n  {\n    const E& e\n    h()\n  }\ncatch\n  {\n  }",
    ),
    ("\n#if 0\n g();\n#else\n h();\n#endif\n", "h()"),
    (
        "\n#ifdef A\n g();\n#elif B > 1\n h();\n#else\n k();\n#endif\n",
        (
            "#if defined(A)\n  {-\n    g()\n  }\n#if !(defined(A)) && (B > 1)\n  {-\n    h()\n  }\n"
            "#if !(defined(A)) && !(B > 1)\n  {-\n    k()\n  }\n#end"
        ),
    ),
    ("\n#ifndef A\n g();\n#endif\n", "#if !defined(A)\n  {-\n    g()\n  }\n#end (open)"),
]

CUDA = [
    ("k<<<g, b>>>(x);", "launch k<<<g, b>>>(x)"),
    ("k<T, 3><<<dim3(1, 2), 256, sh, s>>>(x, n);", "launch k<T, 3><<<dim3{1, 2}, 256, sh, s>>>(x, n)"),
    ("ns::k<<<1, 1>>>();", "launch ns::k<<<1, 1>>>()"),
    ("(*fp)<<<1, 1>>>(0);", "launch *fp<<<1, 1>>>(0)"),
    (
        "cudaLaunchKernel((void*)k, g, b, args, 0, s);",
        "launch@cudaLaunchKernel k<<<g, b, 0, s>>>() packed args",
    ),
    (
        "cudaLaunchCooperativeKernel(k, g, b, args);",
        "launch@cudaLaunchCooperativeKernel cooperative k<<<g, b>>>() packed args",
    ),
    (
        "cudaLaunchKernelEx(&cfg, k, x, n);",
        "launch@cudaLaunchKernelEx k<<<cfg.gridDim, cfg.blockDim, cfg.dynamicSmemBytes, cfg.stream>>>(x, n)",
    ),
    (
        "cuLaunchKernel(fn, 1, 2, 3, 4, 5, 6, 0, s, args, 0);",
        "launch@cuLaunchKernel fn<<<dim3{1, 2, 3}, dim3{4, 5, 6}, 0, s>>>() packed args",
    ),
    (
        "cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, s);",
        "copy:cudaMemcpyAsync(dst=d, src=h, bytes=n, kind=cudaMemcpyHostToDevice, stream=s /async)",
    ),
    ("::cudaFree(p);", "free:cudaFree(ptr=p)"),
    ("cudaMalloc<float>(&p, n);", "alloc:cudaMalloc(out=&p, bytes=n)"),
    ("ck(cudaStreamSynchronize(s), 1);", "ck(stream_sync:cudaStreamSynchronize(stream=s), 1)"),
    ("checkCudaErrors(cudaFree(p));", "checkCudaErrors(free:cudaFree(ptr=p))"),
    ("if (cudaFree(p) != cudaSuccess) return;", "if (free:cudaFree(ptr=p) != cudaSuccess)\n  return"),
    ("cudaNoSuchThing(x, 1);", "unmodelled:cudaNoSuchThing(arg0=x, arg1=1)"),
    ("cudaCheck(x);", "cudaCheck(x)"),
    ("cuCadd(x, y);", "cuCadd(x, y)"),
    ("cublasSetStream(h, s);", "set_stream:cublasSetStream(handle=h, stream=s /library)"),
]


@pytest.mark.parametrize(("code", "expected"), [*EXPRESSIONS, *DECLARATIONS, *STATEMENTS, *CUDA])
def test_statement(code: str, expected: str | None) -> None:
    found = "\n".join(statements(code))
    if expected is None:
        expected = "for {- int i = 0 int j = 1 }; (i < n); (i +=(post) 1 , j -= 1)\n  g()"
    assert found == expected


def test_functions_of_every_kind() -> None:
    module = lower(
        """
template <typename T, int N> __global__ static void __launch_bounds__(128, 2) k(const T* __restrict__ a, int n = 3) {}
__device__ __host__ inline float d(float x) { return x; }
namespace a::b { extern "C" { void proto(int x, float y = 1); } static int* h(int (&r)[3], ...) { return 0; } }
auto tail() -> float* { return nullptr; }
void none(void) {}
namespace { void hidden() {} }
"""
    )
    found = {f.qualified: f for f in module.functions}
    assert show_function(found["k"]).splitlines()[0] == "global void k(const T* a, int n = 3)"
    assert found["k"].template == ("T", "N")
    assert [show_expr(b) for b in found["k"].launch_bounds] == ["128", "2"]
    assert found["k"].static
    assert found["d"].space == "host_device"
    assert found["a::b::proto"].body is None
    assert show_function(found["a::b::h"]).splitlines()[0] == "int* a::b::h(int&[3] r, ... ...)"
    assert show_type(found["tail"].returns) == "float*"
    assert found["none"].params == ()
    assert found["hidden"].static


def test_classes() -> None:
    module = lower(
        """
class Model : public Base, Mixin<int> {
  int n_ = 1, *p_;
  cudaStream_t s_{};
  Model(int n) : Base(n, 2), n_(n), p_{nullptr} { cudaStreamCreate(&s_); }
  ~Model();
  operator cudaStream_t() const { return s_; }
  float& operator[](int i) { return p_[i]; }
  void operator()(int) const;
  static void make();
  enum Mode { A, B = 4, C };
  struct Inner { int z; void run() {} };
  template <class T> void t(T x) {}
};
Model::~Model() { cudaStreamDestroy(s_); }
template <class T> void Outer<T>::m(int a) const {}
namespace ns { struct S { void g(); }; void S::g() {} }
"""
    )
    names = {f.qualified: f.record for f in module.functions if f.body is not None}
    assert names == {
        "Model::Model": "Model",
        "Model::operator cudaStream_t": "Model",
        "Model::operator[]": "Model",
        "Model::Inner::run": "Model::Inner",
        "Model::t": "Model",
        "Model::~Model": "Model",
        "Outer::m": "Outer",
        "ns::S::g": "ns::S",
    }
    model = next(r for r in module.records if r.name == "Model")
    assert model.bases == ("Base", "Mixin")
    assert [f"{show_type(f.type)} {f.name}" for f in model.fields] == ["int n_", "int* p_", "cudaStream_t s_"]
    assert [(n, show_expr(v)) for n, v in function(module, "Model").initializers] == [
        ("Base", "{n, 2}"),
        ("n_", "n"),
        ("p_", "null"),
    ]
    assert ("C", 5) in [(n, getattr(v, "value", None)) for n, v in module.constants]
    assert len(model.methods) == 7


def test_globals_aliases_constants_includes() -> None:
    module = lower(
        """
#ifndef GUARD
#define GUARD
#include <cuda_runtime.h>
#include "util/check.h"
#define N 1024
#define HALF (N / 2)
#define REAL double
typedef struct { float* p; } Slot;
typedef float4* Vec, Plain;
using Row = std::vector<float>;
__constant__ float coeff[16];
__device__ __managed__ int flag = 3;
static cudaStream_t streams[4], single;
enum class Color : int { Red = 1, Blue };
#endif
"""
    )
    assert show_module(module).splitlines() == [
        "include cuda_runtime.h",
        "include util/check.h",
        "const Red = 1",
        "const Color::Red = 1",
        "const Blue = 2",
        "const Color::Blue = 2",
        "const N = 1024",
        "const HALF = (N / 2)",
        "alias Vec = float4*",
        "alias Plain = float4",
        "alias Row = std::vector<float>",
        "alias REAL = double",
        "record Slot",
        "  float* p",
        "__constant__ float[16] coeff",
        "__managed__ int flag = 3",
        "static cudaStream_t[4] streams",
        "static cudaStream_t single",
    ]


def test_functions_in_every_branch_are_listed() -> None:
    module = lower("#ifdef A\nvoid f() { g(); }\n#else\nvoid f() { h(); }\n#endif\n")
    assert [f.uid for f in module.functions] == ["a.cu::f", "a.cu::f#2"]


def test_local_types_belong_to_the_file() -> None:
    module = lower("void f() { struct Job { cudaStream_t s; } job; using T = float; enum { X, Y }; }")
    assert [r.name for r in module.records] == ["Job"]
    assert [n for n, _ in module.aliases] == ["T"]
    assert [n for n, _ in module.constants] == ["X", "Y"]


def test_counts_only_what_does_something() -> None:
    module = lower("void f() { k<<<1, 1>>>(); cudaGetLastError(); cudaFree(p); }")
    assert function(module, "f").host_cuda_calls == 2
