"""From what debug information says to the user's lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.trace.model import CallSite
from stitchcuda.gpu_validate.trace.sites import Address, Place, ask_addr2line, read_answers, resolve

SOURCE = """\
#include <cuda_runtime.h>
__global__ void step(int* p) {}
template <class T>
void launch(T* p) {
    step<<<1,
           1>>>(p);
}
int main() {
    int* p;
    cudaMalloc(&p,
               4);
    launch(p);
}
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "program.cu"
    path.write_text(SOURCE)
    return str(path)


def sites(api: str, kernel: str, *stack: Sequence[Place]) -> tuple[CallSite, ...]:
    def ask(module: str, offsets: Sequence[int]) -> dict[int, tuple[Place, ...]]:
        return {offset: tuple(stack[offset]) for offset in offsets}

    return resolve({1: [Address("program", i) for i in range(len(stack))]}, {1: (api, kernel)}, ask)[1]


def test_wrappers_and_stubs_are_left_out(source: str) -> None:
    found = sites(
        "cudaLaunchKernel",
        "step",
        [Place("cudaLaunchKernel<char>(char const*)", "/usr/local/cuda/include/cuda_runtime.h", 216)],
        [Place("__device_stub__Z4stepPi(int*)", "/tmp/tmpxft_00_00-6_program.cudafe1.stub.c", 12)],
        [Place("step(int*)", source, 2)],
        [
            Place("void launch<int>(int*)", source, 6),
            Place("void launch<int>(int*)", source, 4),
            Place("main", source, 12),
        ],
        [Place("__libc_start_call_main", "??", 0)],
    )
    assert found == (CallSite(source, 5, "launch<int>"), CallSite(source, 12, "main"))


def test_a_line_inside_a_call_is_put_on_its_name(source: str) -> None:
    assert sites("cudaMalloc", "", [Place("main", source, 11)]) == (CallSite(source, 10, "main"),)


def test_the_line_of_a_static_kernel_is_that_of_its_only_launch(source: str) -> None:
    stub = Place("launch<int>(int*)", source, 2)  # the stub was put into its caller and keeps the kernel's line
    assert [site.line for site in sites("cudaLaunchKernel", "step", [stub], [Place("main", source, 12)])] == [
        5,
        12,
    ]
    Path(source).write_text(SOURCE + 'void told() { printf("\\"step<<<1, 1>>>"); }\n')
    assert [site.line for site in sites("cudaLaunchKernel", "step", [stub])] == [5]
    Path(source).write_text(SOURCE + "void again(int* p) { step<<<2, 1>>>(p); }\n")
    assert [site.line for site in sites("cudaLaunchKernel", "step", [stub])] == [2]


def test_the_stub_of_a_kernel_with_a_cast_in_its_name_is_left_out(source: str) -> None:
    stub = [Place("step<float, (Phase)0>", source, 2)]  # without parameters, as debug information names it
    found = sites("cudaLaunchKernel", "step<float, (Phase)0>", stub, [Place("launch<int>(int*)", source, 5)])
    assert [(site.line, site.function) for site in found] == [(5, "launch<int>")]


def test_a_line_of_a_macro_stays_where_it_is(source: str) -> None:
    """Its statement has no call of that name, and the next one has nothing to do with it."""
    assert sites("cudaMalloc", "", [Place("main", source, 9)]) == (CallSite(source, 9, "main"),)
    assert sites("cudaLaunchKernel", "other", [Place("main", source, 12)]) == (CallSite(source, 12, "main"),)


def test_an_inline_wrapper_in_the_users_file_is_left_out(source: str) -> None:
    inlined = [Place("cudaMalloc<int>(int**, unsigned long)", source, 7), Place("main", source, 10)]
    assert sites("cudaMalloc", "", inlined) == (CallSite(source, 10, "main"),)


def test_an_intermediate_file_stands_for_its_source(source: str) -> None:
    made = "/tmp/tmpxft_000001c6_00000000-6_program.cudafe1.cpp"
    found = sites("cudaLaunchKernel", "step", [Place("void launch<int>(int*)", made, 5)], [Place("main", source, 12)])
    assert found == (CallSite(source, 5, "launch<int>"), CallSite(source, 12, "main"))
    # a library's template in that file is no line of the user's
    inside = [Place("void thrust::fill<int>(int*)", made, 3), Place("main", source, 12)]
    assert sites("cudaLaunchKernel", "other", inside) == (CallSite(source, 12, "main"),)


def test_sources_that_are_not_here_are_left_out(source: str) -> None:
    assert sites("cudaMalloc", "", [Place("alloc", "/build/lib/alloc.cpp", 5)], [Place("main", source, 10)]) == (
        CallSite(source, 10, "main"),
    )


def test_recursion_is_kept(source: str) -> None:
    found = sites("cudaFree", "", [Place("walk", source, 12)], [Place("walk", source, 13)])
    assert [site.line for site in found] == [12, 13]


def test_answers_of_addr2line() -> None:
    text = "0x0000000000001234\nf(int)\n/a/b.cu:7 (discriminator 3)\nmain\n/a/b.cu:9\n0x0000000000005678\n??\n??:0\n"
    assert read_answers(text) == [(Place("f(int)", "/a/b.cu", 7), Place("main", "/a/b.cu", 9)), (Place("??", "", 0),)]


def test_a_file_that_the_program_names_is_never_waited_for(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    for strange in (pipe, "/dev/zero", "no\0name", str(tmp_path), ""):
        assert ask_addr2line(strange, [1, 2]) == {}
        assert sites("cudaMalloc", "", [Place("main", strange, 1)]) == ()


def test_a_damaged_program_has_no_lines(tmp_path: Path) -> None:
    head = b"\x7fELF\x02\x01" + bytes(26) + b"\xff" * 32
    for made in (head, head[:54] + bytes(10), head[:40]):
        (tmp_path / "program").write_bytes(made)
        assert ask_addr2line(str(tmp_path / "program"), [1]) == {}


def test_another_version_at_the_same_path_has_its_own_lines(source: str) -> None:
    place = Place("main", source, 11)
    assert sites("cudaMalloc", "", [place])[0].line == 10
    Path(source).write_text("\n" + SOURCE)
    assert sites("cudaMalloc", "", [Place("main", source, 12)])[0].line == 11
