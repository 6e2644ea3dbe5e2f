"""What a definition may do: only what its declaration says, and nothing to the code around it."""

from __future__ import annotations

import pytest
from stitchcuda.agent import versions
from stitchcuda.agent.implementing import fits, forms, placing
from stitchcuda.gpu_validate.verdict import GateResult, GateState

from tests.pure.implementing.programs import MAIN, RIGHT, analysed, program, stage_of

HEAD = "__global__ void saxpy(int n, float a, const float* x, float* y) {\n"


def form(definition: str, text: str = "") -> str:
    text = text or program()
    return forms.wrong_form(stage_of(text), definition.encode(), analysed({"main.cu": text}))


def gate(definition: str, *, beside: tuple[str, str] = ("", "")) -> GateResult:
    text = program()
    stage, before = stage_of(text), analysed({"main.cu": text})
    edits = placing.edits_of(stage, text.encode(), text.encode(), definition.encode())
    after = versions.edited({"main.cu": text.encode()}, edits)["main.cu"].decode()
    return fits.gate(
        before, analysed({"main.cu": after.replace(*beside) if beside[0] else after}), stage, definition.encode()
    )


HELPERS = """\
constexpr int BLOCK = 256;
__constant__ float factors[2] = {1, 2};
struct Pair { float one, other; };
template <int N> __device__ __forceinline__ float times(float v) { return N * v; }
struct Ops { static __device__ float id(float v) { return v; } };
static __device__ float mad(float p, float q, float r) { return p * q + r; }
"""

BOUNDED = """\
// one thread per element
__global__ void __launch_bounds__(256) saxpy(const int n, const float a, const float *__restrict__ from, float *to) {
    to[threadIdx.x] = from[threadIdx.x];
}"""


@pytest.mark.parametrize(
    "definition",
    [
        RIGHT,
        HELPERS
        + HEAD
        + "    #pragma unroll\n    for (int i = threadIdx.x; i < n; i += BLOCK) y[i] = mad(a, x[i], times<2>(factors[0]));\n}",
        HEAD
        + "    extern __shared__ float s[];\n    s[threadIdx.x] = x[threadIdx.x];\n    __syncthreads();\n    atomicAdd(&y[0], s[0]);\n}",
        BOUNDED,
    ],
)
def test_a_definition_that_fits(definition: str) -> None:
    assert form(definition) == ""
    found = gate(definition)
    assert (found.state, found.reason) == (GateState.PASSED, "")
    assert found.evidence["stage"] == "saxpy"
    *_, (_, modes) = found.evidence["accesses"].items()
    assert {"write", "atomic"} & set(modes)


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ("", "is missing"),
        (HEAD + "y[0] = 1; } }", "could not be read"),
        ("#define N 4\n" + RIGHT, "`#define N 4`: no directives"),
        ("#include <thrust/sort.h>\n" + RIGHT, "no directives"),
        (HEAD + "\n#if 1\n y[0] = 1;\n#endif\n}", "no directives"),
        (HEAD + "char c = '\"'; asm volatile(\"trap;\"); char d = '\"'; y[0] = c + d; }", "`asm` is not allowed"),
        (HEAD + 'const char* c = R"(")"; asm volatile("trap;"); y[0] = c[0]; }', "`asm` is not allowed"),
        (HEAD + "y[0] = 1; // '\\\n asm\n cl\\\nock64(); }", "`clock64` is not allowed"),
        (HEAD + "y[0] = 1; %:pragma unroll\n}", "hides what the code says"),
        ("using F = float;\n" + RIGHT, "`using F = float;`: only the kernel"),
        ("namespace k {\n" + RIGHT + "\n}", "only the kernel"),
        (
            RIGHT.replace("float a", "double a"),
            "must begin `__global__ void saxpy(int n, float a, const float* x, float* y)`",
        ),
        (RIGHT.replace("const float* x", "float* x"), "are not those that are declared"),
        (RIGHT + "\n" + RIGHT.replace("saxpy", "saxpy2"), "Define the kernel `saxpy` once"),
        (RIGHT.replace("__global__", "__device__"), "Define the kernel"),
        ("template <int N>\n" + RIGHT, "not as a template"),
        ("int host() { return 1; }\n" + RIGHT, "`host` is no device function"),
        ("__host__ __device__ int both() { return 1; }\n" + RIGHT, "`both` is no device function"),
        ("__device__ float first(float v) { return v; }\n" + RIGHT, "The name `first` is used in the program already"),
        ("__device__ int counter;\n" + RIGHT, "`counter` would keep its value"),
        ("int counter;\n" + RIGHT, "`counter` would keep its value"),
        (HEAD + "    static int launches; y[0] = ++launches; }", "`static` would keep a value between launches"),
        ('const int one = 1, evil = std::system("x");\n' + RIGHT, "`evil` must start from a plain value"),
        ('const int evil = [] { return std::system("x"); }();\n' + RIGHT, "`evil` must start from a plain value"),
        ('const int table[2] = {1, std::system("x")};\n' + RIGHT, "`table` must start from a plain value"),
        ('struct Q { int v = std::system("x"); };\n__constant__ Q q;\n' + RIGHT, "`v` must start from a plain value"),
        ('struct Q { Q() { std::system("x"); } };\nconst Q q;\n' + RIGHT, "`Q` has functions of the host"),
        ("struct Q { friend int hostish() { return 1; } };\n" + RIGHT, "`hostish` is no device function"),
        ('template <class T> const T v = std::system("x");\n' + RIGHT, "only the kernel"),
        ('template <class T> struct W { T v = std::system("x"); };\n' + RIGHT, "only the kernel"),
        ("__attribute__((constructor)) void start() {}\n" + RIGHT, "`start` is no device function"),
        ('_Pragma("once")\n' + RIGHT, "`_Pragma` is not allowed"),
        ('asm("nop");\n' + RIGHT, "only the kernel"),
        ("__device__ float __fadd_rn(float p, float q) { return p; }\n" + RIGHT, "`__fadd_rn` is reserved"),
        (HEAD + '    asm volatile("");\n y[0] = 1; }', "`asm` is not allowed"),
        (HEAD + '    printf("%f", a);\n y[0] = 1; }', "`printf` is not allowed"),
        (HEAD + "    float *p = new float[3]; y[0] = p[0]; }", "`new` is not allowed"),
        (HEAD + "    y[0] = clock64(); }", "`clock64` is not allowed"),
    ],
)
def test_what_is_no_definition_of_the_stage(definition: str, said: str) -> None:
    assert said in form(definition)


def test_words_of_comments_and_texts_are_no_names_of_the_program() -> None:
    text = program(
        main='// helper: prints\nint main() { printf("helper"); saxpy<<<1, 1>>>(1, 1, nullptr, nullptr); }\n'
    )
    assert form("__device__ float helper(float v) { return v; }\n" + RIGHT, text) == ""


@pytest.mark.parametrize(
    ("body", "state", "said"),
    [
        ("", GateState.FAILED, "it never writes `y`, an output of the kernel"),
        ("((float *)x)[0] = 1; y[0] = 1;", GateState.FAILED, "it writes through `x`, which is declared const"),
        ('printf("x"); y[0] = 1;', GateState.FAILED, "it prints"),
        ("y[0] = unknown_thing(x, y);", GateState.UNTESTED, "code that is not known"),
    ],
)
def test_accesses_that_do_not_fit_the_declaration(body: str, state: GateState, said: str) -> None:
    found = gate(HEAD + body + "\n}")
    assert (found.state, said in found.reason) == (state, True), found.reason
    assert found.findings and found.findings[0].path == "main.cu"


def test_device_variables_of_the_program_are_nothing_that_it_was_given() -> None:
    text = program(main="__device__ float total;\n" + MAIN).replace(
        "#include <cstdio>\n", "#include <cstdio>\n__device__ float sum;\n"
    )
    stage, before = stage_of(text), analysed({"main.cu": text})
    definition = (HEAD + "sum += x[0]; y[0] = sum; }").encode()
    edits = placing.edits_of(stage, text.encode(), text.encode(), definition)
    after = versions.edited({"main.cu": text.encode()}, edits)["main.cu"].decode()
    found = fits.gate(before, analysed({"main.cu": after}), stage, definition)
    assert found.state is GateState.FAILED and "it uses `sum`" in found.reason


def test_whatever_else_changed_is_seen() -> None:
    found = gate(RIGHT, beside=("4096, 2.0f", "4096, 3.0f"))
    assert found.state is GateState.FAILED and "more than the definition" in found.reason
