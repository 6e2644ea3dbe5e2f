"""Which kernel a marker means, what its reference must be, and what is said when they do not fit."""

from __future__ import annotations

import pytest
from stitchcuda.agent.implementing.marker import MarkerError
from stitchcuda.agent.implementing.stages import find_stages

from tests.pure.implementing.programs import KERNEL, MAIN, MARK, REFERENCE, analysed, program, stage_of


def wrong(text: str | dict[str, str]) -> str:
    with pytest.raises(MarkerError) as error:
        stage_of(text)
    return str(error.value)


def test_a_stage_with_all_that_is_known_of_it() -> None:
    stage = stage_of(program())
    assert (stage.name, stage.path, stage.file) == ("saxpy", "main.cu", "main.cu")
    assert program()[stage.start : stage.end] == KERNEL
    assert stage.texts == ("int n", "float a", "const float* x", "float* y")
    assert (stage.inputs, stage.outputs) == (("n", "a", "x"), ("y",))
    assert not stage.declare and stage.reference.name == "saxpy_cpu"
    (launch,) = stage.launches
    assert (
        launch.text == "saxpy<<<16, 256>>>(4096, 2.0f, x, y)"
        and program().splitlines()[launch.line - 1].strip() == f"{launch.text};"
    )


def test_without_outputs_what_is_not_const_is_written() -> None:
    assert stage_of(program(MARK.replace(" outputs=y", ""))).outputs == ("y",)


def test_parameters_without_names_get_some() -> None:
    stage = stage_of(
        program(MARK.replace(" outputs=y", ""), "__global__ void saxpy(int, float a, const float*, float[]);")
    )
    assert stage.texts == ("int parameter1", "float a", "const float* parameter3", "float parameter4[]")


def test_a_reference_below_the_declaration_is_declared() -> None:
    text = f"#include <cstdio>\n{MARK}\n{KERNEL}\n{REFERENCE}\n{MAIN}"
    assert stage_of(text).declare


def test_a_header_names_the_file_of_the_definition() -> None:
    header = f"#pragma once\nvoid saxpy_cpu(int n, float a, const float* x, float* y);\n{MARK}\n{KERNEL}\n"
    files = {
        "k/saxpy.cuh": header,
        "k/saxpy.cu": f'#include "saxpy.cuh"\n{REFERENCE}',
        "main.cu": f'#include "k/saxpy.cuh"\n{MAIN}',
    }
    assert "add in=FILE.cu" in wrong(files)
    named = {**files, "k/saxpy.cuh": header.replace("outputs=y", "outputs=y in=saxpy.cu")}
    assert stage_of(named).file == "k/saxpy.cu"
    assert "has no such file" in wrong({**files, "k/saxpy.cuh": header.replace("outputs=y", "in=other.cu")})
    blind = {**named, "k/saxpy.cu": REFERENCE}
    assert "does not include k/saxpy.cuh" in wrong(blind)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("reference=nowhere", "reference=nowhere: that function is not defined"),
        (
            "reference=saxpy_cpu outputs=z",
            "outputs names 'z', which `saxpy` does not take; its parameters are n, a, x, y",
        ),
        ("reference=saxpy_cpu outputs=x", "outputs names `x`, which `saxpy` cannot write: it is const"),
        ("reference=saxpy_cpu outputs=n", "it is no pointer"),
        ("reference=saxpy_cpu inputs=q", "inputs names 'q'"),
        ("reference=saxpy_cpu in=other.cu", "the program has no such file"),
        ("reference=saxpy_cpu host=y[n]", "host is for host stages: a kernel such as `saxpy`"),
    ],
)
def test_what_a_marker_may_name(mark: str, said: str) -> None:
    text = wrong(program(f"// stitchcuda: implement {mark}"))
    assert text.startswith("main.cu:7: ") and said in text


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("void saxpy_cpu(int n, float a, const float* x)", "takes 3 parameters, `saxpy` takes 4"),
        (
            "void saxpy_cpu(int n, double a, const float* x, float* y)",
            "parameter 2 is `double a`, that of `saxpy` is `float a`",
        ),
        (
            "void saxpy_cpu(int n, float a, float* x, float* y)",
            "parameter 3 is `float* x`, that of `saxpy` is `const float* x`",
        ),
        ("void saxpy_cpu(int n, float a, const float* y, float* x)", "the order differs"),
        ("int saxpy_cpu(int n, float a, const float* x, float* y)", "it returns int"),
        ("__device__ void saxpy_cpu(int n, float a, const float* x, float* y)", "no function of the host"),
        ("template <int B> void saxpy_cpu(int n, float a, const float* x, float* y)", "is a template"),
    ],
)
def test_a_reference_must_take_what_the_kernel_takes(signature: str, said: str) -> None:
    assert said in wrong(program(reference=signature + " {}\n"))


def test_types_by_another_name_and_values_by_reference_are_the_same() -> None:
    alias = "typedef float real;\nvoid saxpy_cpu(const int n, const float& a, const real *from, real to[]) {}\n"
    assert stage_of(program(reference=alias)).reference.name == "saxpy_cpu"


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (KERNEL.replace(";", " {}"), "`saxpy` is defined already: remove the comment, or write `implemented`"),
        ("int other;", "no declaration follows"),
        ("template <class T> __global__ void saxpy(int n, T a, const T* x, T* y);", "is a template"),
        ("__device__ void saxpy(int n, float a, const float* x, float* y);", "is a device function"),
        (KERNEL.replace("float a", "cudaStream_t a"), "`a` is a stream"),
        (f"{KERNEL}\n{KERNEL.replace(';', ' {}')}", "is defined already, at main.cu:9"),
        (f"{KERNEL}\n{KERNEL}", "is declared again at main.cu:9"),
        ("__global__ void saxpy(int n, float a, const float* x, float** y);", "`y` points to pointers"),
        ("struct B { float* p; };\n__global__ void saxpy(int n);", "no declaration follows"),
        (KERNEL.replace("float a", "float a = 1"), "`a` has a default argument"),
        ("__global__ void saxpy(int n, float a, cudaTextureObject_t x, float* y);", "`x` is a texture"),
    ],
)
def test_what_can_be_a_stage(kernel: str, said: str) -> None:
    assert said in wrong(program(kernel=kernel))


def test_a_record_that_holds_a_pointer_hides_memory() -> None:
    records = "struct In { float* data; };\nstruct Out { In in; };\nvoid saxpy_cpu(Out o, float* y) {}\n"
    text = wrong(program(kernel="__global__ void saxpy(Out o, float* y);", reference=records))
    assert "is a `Out`, which holds the pointer `in.data`" in text


def test_a_kernel_that_nothing_launches_cannot_be_shown_to_be_right() -> None:
    assert "nothing launches `saxpy`" in wrong(program(main="int main() {}\n"))


def test_another_way_to_launch_it_is_refused_with_its_line() -> None:
    main = "int main() { void *a[1]; cudaLaunchKernel((void *)saxpy, 1, 1, a, 0, 0); }\n"
    assert "main.cu:10 launches `saxpy` by cudaLaunchKernel" in wrong(program(main=main))


def test_a_reference_that_cannot_be_seen() -> None:
    files = {"main.cu": program(reference=""), "ref.cpp": REFERENCE}
    assert "declare it above `saxpy`; its definition is at ref.cpp" in wrong(files)
    declared = program(reference="void saxpy_cpu(int n, float a, const float* x, float* y);\n")
    assert not stage_of({**files, "main.cu": declared}).declare
    assert "is declared and not defined" in wrong(declared)


def test_stages_come_in_order_and_each_with_its_own_error() -> None:
    two = program() + f"\n{MARK.replace('saxpy_cpu', 'nowhere')}\n{KERNEL.replace('saxpy', 'other')}\n"
    found = find_stages(analysed({"main.cu": two}))
    assert [isinstance(f, MarkerError) for f in found] == [False, True]
