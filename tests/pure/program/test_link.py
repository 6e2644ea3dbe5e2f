"""Which definition a name means, who calls whom, and where a program starts."""

from __future__ import annotations

from stitchcuda.analysis.program.ir import Api, ApiKind, Call, Program, walk
from stitchcuda.analysis.program.link import link, resolve

from tests.pure.program.lowering import lower


def program(files: dict[str, str], targets: list[list[str]] | None = None) -> Program:
    return link([lower(text, path) for path, text in files.items()], targets=targets)


def found(prog: Program, path: str, name: str, argc: int, record: str | None = None) -> list[str]:
    return [f.uid for f in resolve(prog, path, name, argc, record)]


def test_own_file_then_includes_then_the_only_definition() -> None:
    prog = program(
        {
            "src/a.cu": '#include "b.cuh"\nvoid own() {}\nvoid twice() {}\n',
            "src/b.cuh": '#include "deep/c.h"\nvoid own() {}\nvoid near() {}\n',
            "inc/deep/c.h": "void deep() {}\n",
            "src/d.cu": "void far() {}\nstatic void secret() {}\nvoid twice() {}\n",
            "src/e.cu": "void twice() {}\n",
        }
    )
    assert found(prog, "src/a.cu", "own", 0) == ["src/a.cu::own"]
    assert found(prog, "src/a.cu", "near", 0) == ["src/b.cuh::near"]
    assert found(prog, "src/a.cu", "deep", 0) == ["inc/deep/c.h::deep"]
    assert found(prog, "src/a.cu", "far", 0) == ["src/d.cu::far"]
    assert found(prog, "src/a.cu", "secret", 0) == []
    assert found(prog, "src/b.cuh", "twice", 0) == []


def test_each_main_is_a_program_of_its_own() -> None:
    prog = program(
        {
            "a.cu": "void helper() { cudaFree(p); }\nint main() { helper(); }\n",
            "b.cu": "int main() { helper(); }\n",
            "c.cu": "void lib() { helper(); }\n",
        }
    )
    assert found(prog, "b.cu", "helper", 0) == []
    assert found(prog, "c.cu", "helper", 0) == ["a.cu::helper"]
    assert set(prog.entries) >= {"a.cu::main", "b.cu::main"}


def test_targets_say_what_is_linked() -> None:
    files = {"a.cu": "void f() { g(); }", "b.cu": "void g() {}", "c.cu": "void g() {}"}
    assert found(program(files), "a.cu", "g", 0) == []
    assert found(program(files, [["a.cu", "c.cu"], ["b.cu"]]), "a.cu", "g", 0) == ["c.cu::g"]


def test_overloads_by_argument_count() -> None:
    prog = program(
        {
            "a.h": "void run(int a, int b = 1);\n",
            "a.cu": '#include "a.h"\nvoid run(int a, int b) {}\nvoid run(int a, int b, int c) {}\nvoid log(const char* f, ...) {}\n'
            "template <class... T> void pack(T... args) {}\n",
        }
    )
    assert found(prog, "a.cu", "run", 1) == ["a.cu::run"]
    assert found(prog, "a.cu", "run", 2) == ["a.cu::run"]
    assert found(prog, "a.cu", "run", 3) == ["a.cu::run#2"]
    assert found(prog, "a.cu", "run", 4) == []
    assert found(prog, "a.cu", "log", 5) == ["a.cu::log"]
    assert found(prog, "a.cu", "pack", 3) == ["a.cu::pack"]


def test_methods_namespaces_and_bases() -> None:
    prog = program(
        {
            "a.cu": "namespace ns { struct Base { void go() {} }; struct Model : Base { void run() {} static void make() {} }; }\n"
            "struct Other { void run() {} };\nvoid run() {}\n"
        }
    )
    assert found(prog, "a.cu", "run", 0) == ["a.cu::run"]
    assert found(prog, "a.cu", "run", 0, "Model") == ["a.cu::ns::Model::run"]
    assert found(prog, "a.cu", "run", 0, "ns::Model") == ["a.cu::ns::Model::run"]
    assert found(prog, "a.cu", "go", 0, "ns::Model") == ["a.cu::ns::Base::go"]
    assert found(prog, "a.cu", "Model::make", 0) == ["a.cu::ns::Model::make"]
    assert found(prog, "a.cu", "::run", 0) == ["a.cu::run"]


def test_callers_entries_and_reach() -> None:
    prog = program(
        {
            "a.cu": """
struct Holder { Holder() { cudaMalloc(&p, 4); } ~Holder() { cudaFree(p); } };
static void worker(int n) { k<<<1, 1>>>(n); }
void indirect() { std::thread t(worker, 1); }
void holds() { Holder h; }
void idle() { printf("x"); }
__global__ void k(int n) {}
"""
        }
    )
    assert prog.callers["a.cu::worker"] == {"a.cu::indirect"}
    assert prog.callers["a.cu::Holder::Holder"] == {"a.cu::holds"}
    assert prog.callers["a.cu::Holder::~Holder"] == {"a.cu::holds"}
    assert set(prog.entries) == {"a.cu::indirect", "a.cu::holds"}
    assert "a.cu::indirect" in prog.reaches_cuda
    assert "a.cu::idle" not in prog.reaches_cuda


def test_a_function_named_like_cuda_in_another_file_is_a_call() -> None:
    files = {
        "a.cu": "void f() { cudaMyThing(x); cudaNobody(x); cublasMyGemm(x); }",
        "b.cu": "void cudaMyThing(int x) {} void cublasMyGemm(int x) {}",
    }
    prog = program(files)
    body = prog.functions["a.cu::f"].body
    assert body is not None
    assert [n.callee.name for n in walk(body) if isinstance(n, Call)] == ["cudaMyThing", "cublasMyGemm"]  # type: ignore[union-attr]
    assert [n.name for n in walk(body) if isinstance(n, Api) and n.kind is ApiKind.UNMODELLED] == ["cudaNobody"]
    assert prog.callers["b.cu::cudaMyThing"] == {"a.cu::f"}
