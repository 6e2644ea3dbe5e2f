"""Host stages: what the declaration and the comment say, what stands for one, and what an answer may be."""

from __future__ import annotations

import pytest
from stitchcuda.agent import versions
from stitchcuda.agent.implementing import forms, placing
from stitchcuda.agent.implementing.assumed import assumed_texts
from stitchcuda.agent.implementing.marker import HostBuffer, MarkerError
from stitchcuda.agent.implementing.parameters import pointee
from stitchcuda.agent.implementing.reference import Written, prelude, reference_texts, stand_in
from stitchcuda.gpu_validate.element_types import element_types
from stitchcuda.gpu_validate.gates.g0_structure import g0
from stitchcuda.gpu_validate.trace.model import Call, CallSite, HostRead, Trace
from stitchcuda.gpu_validate.verdict import GateState

from tests.pure.implementing.host_programs import (
    HEAD,
    KERNELS,
    MAIN,
    MARK,
    REFERENCE,
    RETURNS_EARLY,
    RIGHT,
    STAGE,
    WAITED,
    defined,
    program,
)
from tests.pure.implementing.programs import analysed, stage_of


def wrong(text: str | dict[str, str]) -> str:
    with pytest.raises(MarkerError) as error:
        stage_of(text)
    return str(error.value)


# ---------------------------------------------------------------------------------------------------------- the contract


def test_a_host_stage_with_all_that_is_known_of_it() -> None:
    stage = stage_of(program())
    assert (stage.what, stage.name, stage.stream, stage.host) == (
        "host stage",
        "scale",
        "stream",
        (HostBuffer("total", "1"),),
    )
    assert (stage.inputs, stage.outputs) == (("n", "x"), ("y", "total"))
    assert [p.name for p in stage.given] == ["n", "x", "y", "total"]
    assert stage.signature == STAGE.rstrip(";")
    (call,) = stage.launches
    assert call.text == "scale(4096, x, y, &total, stream)"
    assert program().splitlines()[call.line - 1].strip() == f"{call.text};"


def test_defaults_statuses_and_no_stream() -> None:
    stage = stage_of(program(stage=STAGE.replace("void", "cudaError_t").replace("stream)", "stream = 0)")))
    assert stage.signature == STAGE.rstrip(";").replace("void", "cudaError_t")
    assert placing.stub(stage).endswith(b"    return cudaSuccess;\n}")
    plain = stage_of(
        program(stage=STAGE.replace(", cudaStream_t stream", ""), main=MAIN.replace("&total, stream", "&total"))
    )
    assert plain.stream == "" and "nullptr);" in stand_in(plain, 0)


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (STAGE.replace("void", "int"), "returns int: a host stage returns nothing or a cudaError_t"),
        (STAGE.replace("void", "template <class T> void"), "is a template: declare it for the types that are used"),
        (STAGE.replace("int n", "cudaStream_t other, int n"), "takes several streams"),
        (STAGE.replace("int n", "cudaEvent_t n"), "`n` is a `cudaEvent_t`, which no function of the host can follow"),
        (STAGE.replace("int n", "curandGenerator_t n"), "`n` is a `curandGenerator_t`"),
        (STAGE.replace("float* y", "float** y"), "`y` points to pointers"),
        (STAGE.replace("int n", "int& n"), "`n` is a reference"),
        (STAGE.replace("int n, ", ""), "it takes 4 parameters, `scale` takes 3 beside its stream and handles"),
        (STAGE.replace(";", " {}"), "`scale` is defined already"),
        (f"{STAGE}\nvoid scale(int n, const float* x, float* y, float* total, cudaStream_t stream) {{}}", "is defined already, at main.cu:14"),
        ("struct S { " + STAGE + " };", "no declaration follows"),
    ],
)  # fmt: skip
def test_what_can_be_a_host_stage(stage: str, said: str) -> None:
    assert said in wrong(program(stage=stage))


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("total", "how many elements are written there is needed to compare them; write host=total[ELEMENTS]"),
        ("n", "host names `n`, which is no pointer"),
        ("other", "host names 'other', which `scale` does not take"),
        ("total[1],total[1]", "host names `total` twice"),
        ("total[y]", "`y` is no parameter that is a number"),
        ("total[many]", "`many` is no parameter that is a number"),
    ],
)
def test_memory_of_the_host_must_be_told_so_that_it_can_be_compared(host: str, said: str) -> None:
    assert said in wrong(program(MARK.replace("total[1]", host)))


def test_a_host_stage_that_nothing_calls_cannot_be_shown_to_be_right() -> None:
    assert "nothing calls `scale`" in wrong(program(main="int main() {}\n"))


def test_a_header_names_the_file_of_the_definition() -> None:
    header = f"#pragma once\nvoid scale_cpu(int n, const float* x, float* y, float* total);\nnamespace a {{\n{MARK}\n{STAGE}\n}}\n"
    main = f'#include "s.cuh"\nusing namespace a;\n{MAIN}'
    files = {"s.cuh": header, "s.cu": f'#include "s.cuh"\n{REFERENCE}', "main.cu": main}
    assert "`scale` is declared in a header" in wrong(files)
    files["s.cuh"] = header.replace("host=", "in=s.cu host=")
    stage = stage_of(files)
    assert stage.file == "s.cu"
    texts = {path: text.encode() for path, text in files.items()}
    made = reference_texts(texts, [stage])
    assert set(made) == {"s.cu"}, "the header stays as it is"
    assert b"namespace a {\nvoid scale(int n, " in made["s.cu"] and made["s.cu"].endswith(b"}\n\n#line 9\n")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("const float* x", "float"),
        ("float const *__restrict__ x", "float"),
        ("unsigned long long x[]", "unsigned long long"),
        ("const ns::Pair *x", "ns::Pair"),
        ("const void* x", "void"),
    ],
)
def test_what_a_pointer_points_to(text: str, kind: str) -> None:
    assert pointee(text) == kind


# --------------------------------------------------------------------------------------------------- what stands for it


def test_the_stand_in_of_a_host_stage() -> None:
    assert stand_in(stage_of(program()), 3) == (
        "void scale(int n, const float* x, float* y, float* total, cudaStream_t stream) { "
        '::stitchcuda_stand_in::Launch stitchcuda_launch("scale", 3, stream); '
        "scale_cpu(n, stitchcuda_launch.host(x), stitchcuda_launch.host(y), stitchcuda_launch.own(total)); "
        "stitchcuda_launch.done(); "
        '::stitchcuda_stand_in::shown("scale", total, static_cast<size_t>(1)); }'
    )


def test_lines_stay_in_the_reference_version() -> None:
    text = program()
    made = reference_texts({"main.cu": text.encode()}, [stage_of(text)])["main.cu"].decode()
    assert made.startswith(prelude().decode())
    rest = made.removeprefix(prelude().decode() + "#line 1\n")
    line = text[: text.index(STAGE)].count("\n") + 1
    before, after = text.split(STAGE)
    assert rest.startswith(f"{before}{STAGE}\n#line {line}\nvoid scale(")
    assert rest.endswith(f"\n#line {line}\n{after}")


def written(definition: str = RIGHT) -> str:
    text = program()
    stage = stage_of(text)
    edits = placing.edits_of(stage, text.encode(), text.encode(), definition.encode())
    after = versions.edited({"main.cu": text.encode()}, edits)
    return reference_texts(after, [], Written(stage, definition.encode()))["main.cu"].decode()


def test_what_is_written_runs_between_marks_under_another_name() -> None:
    text, made = program(), written()
    line = text[: text.index(STAGE)].count("\n") + 1
    body = f"#define scale stitchcuda_own_scale\n#line {line + 2}\n{RIGHT}\n#undef scale\n#line {line}\n"
    assert body in made
    around = made.partition(body)[2].partition("\n")[0]
    assert around == (
        "void scale(int n, const float* x, float* y, float* total, cudaStream_t stream) { "
        '{ ::stitchcuda_stand_in::Span stitchcuda_span("scale", 0); stitchcuda_own_scale(n, x, y, total, stream); } '
        '::stitchcuda_stand_in::shown("scale", total, static_cast<size_t>(1)); }'
    )
    after = line + 2 + RIGHT.count("\n")
    assert f"{around}\n#line {after}\n\n\nint main" in made, "what follows keeps its lines in the version"


def test_the_program_around_it_is_read_with_what_it_promises() -> None:
    """Nothing of the program is held against a definition, and what the definition does wrong is new."""
    text = program()
    stage, texts = stage_of(text), {"main.cu": text.encode()}
    before = analysed({"main.cu": assumed_texts(texts, [stage])["main.cu"].decode()})
    assert not [f for f in before.findings if f.group.value == "correctness"]

    def found(definition: str) -> GateState:
        edits = placing.edits_of(stage, texts["main.cu"], texts["main.cu"], definition.encode())
        return g0(before, analysed({"main.cu": versions.edited(texts, edits)["main.cu"].decode()})).state

    assert found(RIGHT) is GateState.PASSED
    late = MAIN.replace("scale(4096, x, y, &total, stream);", "scale(4096, x, y, &total, stream);\n    total += 1;")
    assert "total += 1" in late
    other = program(
        main=MAIN.replace(
            "&first, y, sizeof(float), cudaMemcpyDeviceToHost, stream",
            "&first, y, sizeof(float), cudaMemcpyDeviceToHost, 0",
        )
    )
    own = analysed({"main.cu": assumed_texts({"main.cu": other.encode()}, [stage_of(other)])["main.cu"].decode()})
    assert [f.code for f in own.findings if f.group.value == "correctness"], "a hazard of the program's own is in both"


def test_what_it_shows_has_a_type() -> None:
    text = program()
    stage = stage_of(text)
    assumed = assumed_texts({"main.cu": text.encode()}, [stage])["main.cu"].decode()
    assert assumed.count("\n") == text.count("\n")
    line = text[: text.index(STAGE)].count("\n") + 1
    shown = Call(0, "cudaMemcpyAsync", 0, 1, copy_kind="d2h", bytes=4, sites=(CallSite("main.cu", line, "scale"),))
    (kind,) = element_types(
        Trace("full", 0, 0, 1, (shown,), (), (HostRead(0, 4, "d"),)), analysed({"main.cu": assumed})
    )
    assert kind is not None and kind.name == "float32"


@pytest.mark.parametrize("end", ["", "\n"])
def test_it_has_one_in_a_file_of_its_own_too(end: str) -> None:
    header = f"#pragma once\nvoid scale_cpu(int n, const float* x, float* y, float* total);\nnamespace a {{\n{MARK}\n{STAGE}\n}}\n"
    files = {
        "s.cuh": header.replace("host=", "in=s.cu host="),
        "s.cu": f'#include "s.cuh"\n{REFERENCE.rstrip()}{end}',
        "main.cu": f'#include "s.cuh"\nusing namespace a;\n{MAIN}',
    }
    stage, texts = stage_of(files), {path: text.encode() for path, text in files.items()}
    assumed = {path: text.decode() for path, text in {**texts, **assumed_texts(texts, [stage])}.items()}
    edits = placing.edits_of(stage, texts["s.cu"], texts["s.cuh"], RIGHT.encode())
    after = versions.edited(texts, edits)
    for made in (
        reference_texts(texts, [stage])["s.cu"].decode(),
        reference_texts(after, [], Written(stage, RIGHT.encode()))["s.cu"].decode(),
    ):
        before, _, rest = made.partition('stitchcuda_stand_in::shown("scale"')
        assert rest
        _, _, own = before.rpartition("\n#line ")
        line = int(own.partition("\n")[0]) + own.count("\n") - 1
        shown = Call(0, "cudaMemcpyAsync", 0, 1, copy_kind="d2h", bytes=4, sites=(CallSite("s.cu", line, "a::scale"),))
        (kind,) = element_types(Trace("full", 0, 0, 1, (shown,), (), (HostRead(0, 4, "d"),)), analysed(assumed))
        assert kind is not None and kind.name == "float32"


# -------------------------------------------------------------------------------------------------------------- answers


def form(definition: str, text: str = "") -> str:
    text = text or program()
    return forms.wrong_form(stage_of(text), definition.encode(), analysed({"main.cu": text}))


def test_a_definition_with_kernels_of_its_own() -> None:
    assert form(RIGHT) == "" and form(RETURNS_EARLY) == "", "what it does is judged by what a caller sees"
    assert (
        form(
            defined(
                "    static constexpr int block = 256;\n    doubled<<<1, block, 0, stream>>>(n, x, y);\n    float* p = new float[1];\n    delete[] p;"
            )
        )
        == ""
    )


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ("", "The definition of `scale` is missing"),
        (RIGHT.replace("void scale", "int scale"), f"does not return what is declared. The definition must begin `{STAGE.rstrip(';')}`"),
        (RIGHT.replace("int n, const float* x, float* y, float* total", "long n, const float* x, float* y, float* total"), "The parameters of `scale` are not those"),
        (KERNELS, "Define the host stage `scale` once"),
        ("static int half(int n) { return n / 2; }\n" + RIGHT, "`half` is no device function: only the host stage, kernels and `__device__` functions"),
        ("__host__ __device__ int half(int n) { return n / 2; }\n" + RIGHT, "`half` is no device function"),
        ("struct Side { cudaStream_t s; Side() { cudaStreamCreate(&s); } ~Side() { cudaStreamDestroy(s); } };\n" + RIGHT, "`Side` has functions of the host: write what they do into the host stage itself"),
        (defined("    static float* kept = nullptr;\n    total[0] = 1;"), "`static` would keep a value between calls"),
        (defined("    thread_local int calls = 0;\n    total[0] = ++calls;"), "`thread_local` would keep a value"),
        ("struct Kept { static inline float* room = nullptr; };\n" + RIGHT, "`static` would keep a value between calls"),
        (RIGHT.replace("    if (i < n)", "    static int launches;\n    if (i < n)"), "`static` would keep a value between calls"),
        ("float* kept;\n" + RIGHT, "`kept` would keep its value between calls: only constants are allowed beside the host stage"),
        ("__device__ float kept;\n" + RIGHT, "`kept` would keep its value between calls"),
        (defined("    scale_cpu(n, x, y, total);"), "`scale_cpu` is the reference on the CPU: have the device compute it"),
        (defined("    cudaMemcpy(total, total, 4099, cudaMemcpyHostToHost);"), "`cudaMemcpyHostToHost` is not allowed here"),
        (defined("    stitchcuda_stand_in::mark(0, 1);"), "`stitchcuda_stand_in` is not allowed here"),
        (defined('    asm volatile("");'), "`asm` is not allowed here"),
        (RIGHT.replace("2 * from[i]", "clock64()"), "`clock64` is not allowed here: what a kernel computes"),
        (RIGHT.replace("to[i] = ", "doubled<<<1, 1>>>(n, from, to); to[i] = "), "`<<<` is not allowed here: what a kernel computes"),
        ("#define N 4\n" + RIGHT, "no directives are allowed beside the host stage"),
        (RIGHT.replace("doubled", "first"), "The name `first` is used in the program already"),
        ("using F = float;\n" + RIGHT, "only the host stage, kernels, device functions"),
    ],
)  # fmt: skip
def test_what_is_no_definition_of_the_stage(definition: str, said: str) -> None:
    assert said in form(definition)


def test_device_code_that_is_given_again_takes_the_place_of_the_earlier() -> None:
    again = KERNELS.replace("2 * from[i]", "from[i] + from[i]")
    constant = "__constant__ float two = 2;\nstruct Pair { float a, b; };\n"
    kept = "__device__ float half(float v) { return v / 2; }\n\n"
    over = "__device__ float half(int v) { return v / 2; }\n"
    found = forms.last_of_each((constant + kept + KERNELS + constant + over + again + defined("", "")).encode())
    assert found.decode() == kept + constant + over + again + defined("", "")
    assert forms.last_of_each(RIGHT.encode()) == RIGHT.encode()
    assert forms.last_of_each(b"void f( {") == b"void f( {"


def test_variables_of_the_program_are_nothing_that_it_is_given() -> None:
    text = program().replace(
        "#include <cstdio>\n",
        "#include <cstdio>\nfloat *pool;\nconst int block = 256;\nstruct Pool { static float* room; };\nfloat* Pool::room;\n",
    )
    assert "`pool` is a variable of the program" in form(RIGHT.replace(WAITED, "    total = pool;\n" + WAITED), text)
    assert "`room` is a variable of the program" in form(RIGHT.replace("&sum", "&Pool::room"), text)
    assert form(RIGHT.replace("256, 0", "block, 0"), text) == ""
    assert HEAD in RIGHT
