"""Macro expansion: what invocations become and where their parts are said to stand."""

from __future__ import annotations

from stitchcuda.analysis.program.cuda import collect_macros, lower_module
from stitchcuda.analysis.program.ir import Api, Binary, Call, Declare, Evaluate, Name, walk

from tests.pure.program.lowering import cuda_nodes, function, lower, statements

CHECK = """
#define CHECK(call)                             \\
    do {                                        \\
        cudaError_t err_ = (call); /* why */    \\
        if (err_ != cudaSuccess) {              \\
            printf("%s", #call); exit(1);       \\
        }                                       \\
    } while (0)
"""


def text_of(source: str, base: int, span: tuple[int, int]) -> str:
    return source.encode()[base + span[0] : base + span[1]].decode()


def test_check_macro_becomes_a_block() -> None:
    assert statements("CHECK(cudaFree(p));", CHECK) == [
        "{",
        "  cudaError_t err_ = free:cudaFree(ptr=p)",
        "  if (err_ != cudaSuccess)",
        "    {",
        "      printf('%s', 'cudaFree(p)')",
        "      exit(1)",
        "    }",
        "}",
    ]


def test_positions_inside_arguments_are_the_written_ones() -> None:
    source = CHECK + "void f() {\n  CHECK(cudaMemcpyAsync(dst + 1, src, n, kind, stream));\n}\n"
    module = lower(source)
    ((owner, node),) = cuda_nodes(module)
    assert text_of(source, owner.base, node.span) == "cudaMemcpyAsync(dst + 1, src, n, kind, stream)"
    assert isinstance(node, Api)
    assert text_of(source, owner.base, node.name_span) == "cudaMemcpyAsync"
    dst = node.role("dst")
    assert dst is not None
    assert text_of(source, owner.base, dst.span) == "dst + 1"
    declare = next(n for n in walk(owner.body) if isinstance(n, Declare))  # type: ignore[arg-type]
    assert text_of(source, owner.base, declare.span).startswith("CHECK(")


def test_substituted_text_keeps_argument_positions() -> None:
    # A type argument cannot be bound to an expression: the text is substituted.
    source = (
        "#define NEW(T, name, n) T* name; cudaMalloc(&name, sizeof(T) * (n))\n"
        "void f() {\n  NEW(float, d_x, count + 1);\n}\n"
    )
    module = lower(source)
    ((owner, node),) = cuda_nodes(module)
    size = node.role("bytes")  # type: ignore[union-attr]
    assert isinstance(size, Binary)
    assert text_of(source, owner.base, size.right.span) == "count + 1"
    assert text_of(source, owner.base, node.span) == "NEW(float, d_x, count + 1)"
    assert statements("NEW(float, d_x, count + 1);", source.splitlines()[0]) == [
        "float* d_x",
        "alloc:cudaMalloc(out=&d_x, bytes=(sizeof(float) * (count + 1)))",
    ]


def test_macro_as_value() -> None:
    before = "#define DIV(a, b) (((a) + (b) - 1) / (b))\n#define OK(c) ok((c), __LINE__)"
    assert statements("x = DIV(n, 32);", before) == ["x = (((n + 32) - 1) / 32)"]
    assert statements("int r = OK(cudaFree(p));", before) == ["int r = ok(free:cudaFree(ptr=p), __LINE__)"]
    assert statements("x = DIV(DIV(n, 2), 4);", before) == ["x = ((((((n + 2) - 1) / 2) + 4) - 1) / 4)"]


def test_statement_macro_where_a_value_is_wanted() -> None:
    assert statements("x = (STEP(1), 2);", "#define STEP(n) { cudaDeviceSynchronize(); g(n); }") == [
        "x = ([&]() { { device_sync:cudaDeviceSynchronize() g(1) } }() , 2)"
    ]


def test_launch_in_a_macro_body() -> None:
    before = "#define RUN(k, g, ...) k<<<g, 256, 0, s>>>(__VA_ARGS__)\n#define ONE(T) kern<T><<<1, 1>>>(p)"
    assert statements("RUN(saxpy, 4, x, n);", before) == ["launch saxpy<<<4, 256, 0, s>>>(x, n)"]
    assert statements("ONE(float);", before) == ["launch kern<float><<<1, 1>>>(p)"]
    module = lower(before + "\nvoid f() { RUN(saxpy, 4, x, n); }")
    assert function(module, "f").host_cuda_calls == 1


def test_object_macros() -> None:
    before = "#define SYNC cudaDeviceSynchronize()\n#define KERNEL saxpy\n#define gpuFree cudaFree\n#define NOTHING\n#define N 4"
    assert statements("SYNC;", before) == ["device_sync:cudaDeviceSynchronize()"]
    assert statements("KERNEL<<<N, 1>>>(x);", before) == ["launch saxpy<<<N, 1>>>(x)"]
    assert statements("gpuFree(p); NOTHING;", before) == ["free:gpuFree(ptr=p)"]


def test_missing_semicolons_and_loop_heads() -> None:
    before = CHECK + "#define EACH(i, n) for (int i = 0; i < (n); ++i)\n"
    assert statements("CHECK(cudaFree(p)) g();", before)[-1] == "g()"
    assert statements("EACH(i, 3) { cudaFree(p[i]); }", before) == [
        "for int i = 0; (i < 3); i += 1",
        "  {",
        "    free:cudaFree(ptr=p[i])",
        "  }",
    ]
    assert statements("EACH(i, 3) g(i);", before)[-1] == "  g(i)"


def test_macro_in_front_of_a_statement() -> None:
    before = "#define CUERR { if (cudaGetLastError()) return; }"
    assert (
        statements("CUERR // checked\n cudaMemset(p, 0, n);", before)[-1]
        == "memset:cudaMemset(dst=p, value=0, bytes=n)"
    )


def test_case_macros() -> None:
    before = "#define NAME(x) case x: return #x"
    assert statements("switch (e) { NAME(A); NAME(B); default: return 0; }", before) == [
        "switch e",
        "  case A:",
        "    return 'A'",
        "  case B:",
        "    return 'B'",
        "  default:",
        "    return 0",
    ]


def test_recursion_ends() -> None:
    assert statements("A(1);", "#define A(x) B(x)\n#define B(x) A(x)") == ["A(1)"]
    deep = "\n".join(f"#define M{i}(x) M{i + 1}(x) + M{i + 1}(x)" for i in range(40))
    assert len(str(statements("y = M0(1);", deep))) < 100_000


def test_unknown_macros_are_calls() -> None:
    assert statements("gpuErrchk(cudaFree(p));") == ["gpuErrchk(free:cudaFree(ptr=p))"]


def test_definitions_from_headers_and_their_precedence() -> None:
    header = collect_macros(b"#define STEP(s) cudaStreamSynchronize(s)\n#define OWN(x) g(x)\n")
    module = lower_module("a.cu", b"#define OWN(x) h(x)\nvoid f() { STEP(q); OWN(1); }", macros=header)
    body = function(module, "f").body
    assert body is not None
    assert [n.name for _, n in cuda_nodes(module) if hasattr(n, "name")] == ["cudaStreamSynchronize"]
    last = body.body[-1]
    assert isinstance(last, Evaluate)
    assert isinstance(last.expr, Call)
    assert isinstance(last.expr.callee, Name)
    assert last.expr.callee.name == "h"


def test_the_definition_that_does_something_wins() -> None:
    found = collect_macros(b"#ifdef DEBUG\n#define CK(x) check(x)\n#else\n#define CK(x)\n#endif\n")
    assert found["CK"].body == "check(x)"


def test_body_that_parses_only_after_expansion() -> None:
    before = "#define SWITCH_TYPE(id, T, ...) if (id == 0) { using T = float; __VA_ARGS__ }"
    module = lower(before + "\nvoid f() { SWITCH_TYPE(dt, T, int x = 1; k<T><<<g, b, 0, s>>>(p); ); }\n")
    assert [type(n).__name__ for _, n in cuda_nodes(module)] == ["Launch"]
    assert not function(module, "f").has_error


def test_functions_defined_by_macros() -> None:
    source = """
#define SCALE(T) __global__ void scale_##T(T* x) { x[0] *= 2; } \\
  void run_##T(T* x) { scale_##T<<<1, 1>>>(x); cudaDeviceSynchronize(); }
#define KERNEL(name) template <class T> __global__ void name(T* x)
SCALE(float)
SCALE(double);
KERNEL(fill) {
  x[0] = 1;
}
int after() { return 0; }
"""
    module = lower(source)
    found = {f.name: f for f in module.functions}
    assert list(found) == ["scale_float", "run_float", "scale_double", "run_double", "fill", "after"]
    assert found["fill"].space == "global"
    assert found["run_double"].host_cuda_calls == 2
    run = found["run_float"]
    assert text_of(source, run.base, run.span).startswith("SCALE(float)")
    assign = next(n for n in walk(found["fill"].body) if isinstance(n, Evaluate))  # type: ignore[arg-type]
    assert text_of(source, found["fill"].base, assign.span) == "x[0] = 1"


def test_names_of_cuda_that_a_port_gives_to_another_vendor_mean_what_cuda_means_by_them() -> None:
    ports = (
        "#if defined(USE_HIP)\n#define cudaFree hipFree\n#define cudaStream_t hipStream_t\n#define cublasSgemm hipblasSgemm\n"
        "#elif defined(USE_MUSA)\n#define cudaFree musaFree\n#define CUBLAS_OP_N MUBLAS_OP_N\n#define cuMemCreate muMemCreate\n#endif\n"
    )
    assert not collect_macros(ports.encode())
    assert statements("cudaFree(p);", ports) == ["free:cudaFree(ptr=p)"]
    wrapped = "#define cudaFree tracked_free\n#define cudaHostRegisterReadOnly 0\n#define cudaCheck hipCheck(1)\n"
    assert sorted(collect_macros(wrapped.encode())) == ["cudaCheck", "cudaFree", "cudaHostRegisterReadOnly"]


def test_a_macro_that_is_a_list_of_arguments_is_several() -> None:
    macros = "#define COPY dst, src + 1, \\\n  f(a, b)\n#define PAIR (a, b)\n#define PASS(x) take(x, COPY)\n"
    assert statements("cudaMemcpyAsync(COPY, cudaMemcpyDefault, stream);", macros) == [
        "copy:cudaMemcpyAsync(dst=dst, src=(src + 1), bytes=f(a, b), kind=cudaMemcpyDefault, stream=stream /async)"
    ]
    assert statements("take(1, COPY); take(PAIR);", macros) == ["take(1, dst, (src + 1), f(a, b))", "take(PAIR)"]
    assert statements("PASS(7);", macros) == ["take(7, dst, (src + 1), f(a, b))"]
