"""Objects and functions that are called through a variable, and lambdas that launches hand to kernels."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.program.ir import ApiKind

HEAD = """
template <typename F> __global__ void each(F f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) f(i);
}
int main() {
    int n = 1024;
    float *x, *y;
    cudaMallocManaged(&x, n * sizeof(float));
    cudaMallocManaged(&y, n * sizeof(float));
    auto work = [=] __host__ __device__(int i) { BODY };
    each<<<4, 256>>>(work, n);
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    cudaDeviceSynchronize();
    return sum > 0;
}
"""


def read_too_early(body: str) -> list[str]:
    index = Index(strict=True)
    index.put("a.cu", HEAD.replace("BODY", body).encode())
    return [f.confidence.value for f in index.analyse().findings if f.code == "host-read-before-sync"]


@pytest.mark.parametrize("body", ["x[i] = 2 * y[i];", "x[i] += 1;", "if (y[i] > 0) x[i] = 0;"])
def test_what_the_lambda_writes_is_written_by_the_launch(body: str) -> None:
    assert read_too_early(body) in (["certain"], ["likely"])


@pytest.mark.parametrize("body", ["y[i] = 2 * x[i];", "int x[1]; x[0] = i; y[i] = x[0];"])
def test_what_it_only_reads_is_not(body: str) -> None:
    assert read_too_early(body) == []


def test_a_lambda_beside_the_launch_is_the_same() -> None:
    index = Index(strict=True)
    text = HEAD.replace("auto work = [=] __host__ __device__(int i) { BODY };", "").replace(
        "each<<<4, 256>>>(work, n)", "each<<<4, 256>>>([=] __device__(int i) { x[i] = n; }, n)"
    )
    index.put("a.cu", text.encode())
    assert "host-read-before-sync" in [f.code for f in index.analyse().findings]


KERNEL = "__global__ void k(float* p) { p[threadIdx.x] = 1; }\n"
ESTIMATOR = """struct Estimator {
  int n; Estimator(int n) : n(n) {}
  float operator()() { float* p; cudaMalloc(&p, n); k<<<1, 1>>>(p); cudaFree(p); return 0; }
};
"""
IN_ALL = [ApiKind.ALLOC, ApiKind.LAUNCH, ApiKind.FREE]


def kinds(text: str) -> list[ApiKind]:
    index = Index(strict=True)
    index.put("a.cu", (KERNEL + text).encode())
    (timeline,) = index.analyse().timelines
    return [op.kind for op in timeline.ops]


@pytest.mark.parametrize(
    "text",
    [
        "void test(int n) { Estimator one(n); float r = one(); } int main() { test(4); }",
        "void test(Estimator& one) { one(); } int main() { Estimator it(4); test(it); }",
        "void test(Estimator* one) { (*one)(); } int main() { Estimator it(4); test(&it); }",
        "struct Test { Estimator one; Test() : one(4) {} void go() { one(); } }; int main() { Test test; test.go(); }",
        "struct Test { int n; void operator()() { Estimator one(n); one(); } }; int main() { Test test; test(); }",
    ],
)
def test_an_object_that_is_called_is_followed(text: str) -> None:
    assert kinds(ESTIMATOR + text) == IN_ALL


@pytest.mark.parametrize("call", ["f(p)", "(*f)(p)", "(**f)(p)"])
def test_a_function_that_is_handed_on_is_followed_however_it_is_called(call: str) -> None:
    functions = "template <int N> float one(float* p) { k<<<N, 1>>>(p); return 0; }\n"
    run = f"template <typename T> void run(T* p, float (*f)(T*)) {{ {call}; }}\n"
    main = "int main() { float* p; cudaMalloc(&p, 4); run<float>(p, one<4>); run<float>(p, one<8>); }"
    assert kinds(functions + run + main) == [ApiKind.ALLOC, ApiKind.LAUNCH, ApiKind.LAUNCH]


def test_methods_of_one_name_in_several_files_are_told_apart_by_their_class() -> None:
    index = Index(strict=True)
    index.put("parts.h", b"struct A { void run(); bool operator()(); }; struct B { void run(); bool operator()(); };\n")
    body = b"() { k<<<1, 1>>>(nullptr); return true; }\n"
    head = b'#include "parts.h"\n' + KERNEL.encode()
    index.put("a.cu", head + b"void A::run() { (*this)(); }\nbool A::operator()" + body)
    index.put("b.cu", head + b"void B::run() { (*this)(); }\nbool B::operator()" + body)
    index.put("main.cpp", b'#include "parts.h"\nint main() { A a; a.run(); B b; b(); b.run(); }\n')
    (timeline,) = index.analyse().timelines
    assert [op.function.rsplit("/")[-1] for op in timeline.ops] == [
        "a.cu::A::operator()", "b.cu::B::operator()", "b.cu::B::operator()"
    ]  # fmt: skip


@pytest.mark.parametrize("called", ["go(4)", "go.operator()(4)", "go.template operator()<true>(4)"])
def test_a_lambda_is_followed_however_it_is_called(called: str) -> None:
    go = (
        "auto go = [&]<bool B>(int n) { k<<<n, 1>>>(p); };"
        if "<" in called
        else "auto go = [&](int n) { k<<<n, 1>>>(p); };"
    )
    assert kinds(f"int main() {{ float* p; cudaMalloc(&p, 4); {go} {called}; }}") == [ApiKind.ALLOC, ApiKind.LAUNCH]
