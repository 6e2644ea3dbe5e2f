"""The texts of a reference version."""

from __future__ import annotations

from stitchcuda.agent.implementing.reference import BEGIN, END, prelude, reference_texts, stand_in
from stitchcuda.agent.implementing.stages import Stage, find_stages

from tests.pure.implementing.programs import KERNEL, MAIN, MARK, REFERENCE, analysed, program, referred, stage_of


def test_the_stand_in_of_a_kernel() -> None:
    assert stand_in(stage_of(program()), 3) == (
        "static void stitchcuda_stand_in_saxpy(int n, float a, const float* x, float* y) { "
        '::stitchcuda_stand_in::Launch stitchcuda_launch("saxpy", 3); '
        "saxpy_cpu(n, a, stitchcuda_launch.host(x), stitchcuda_launch.host(y)); "
        "stitchcuda_launch.done(); } "
        "static __attribute__((unused)) void (*saxpy)(int n, float a, const float* x, float* y) = stitchcuda_stand_in_saxpy;"
    )


def test_a_reference_below_is_declared_as_it_will_be_defined() -> None:
    below = f"{MARK}\n{KERNEL}\nstatic {REFERENCE.replace('float a', 'const float& a', 1)}\n{MAIN}"
    declared = (
        "static void saxpy_cpu(int n, const float& a, const float* x, float* y); static void stitchcuda_stand_in_saxpy("
    )
    assert stand_in(stage_of(below), 0).startswith(declared)


def test_all_else_stays_with_its_line() -> None:
    text = program()
    made = referred({"main.cu": text})["main.cu"]
    head, mark, rest = made.partition("#line 1\n")
    assert mark and head.encode() == prelude()
    line = text[: text.index(KERNEL)].count("\n") + 1
    before, after = text.split(KERNEL)
    stand = stand_in(stage_of(text), 0)
    assert rest == f"{before}\n#line {line}\n{stand}\n#line {line}\n{after}"


def test_a_byte_order_mark_stays_in_front() -> None:
    stages = [s for s in find_stages(analysed({"main.cu": program()})) if isinstance(s, Stage)]
    made = reference_texts({"main.cu": b"\xef\xbb\xbf" + program().encode()}, stages)["main.cu"]
    assert made.startswith(b"\xef\xbb\xbf" + prelude()) and made.count(b"\xef\xbb\xbf") == 1


def test_the_marks_of_the_traces_are_those_of_the_stand_ins() -> None:
    assert f"BEGIN = {BEGIN}, END = {END};" in prelude().decode()
