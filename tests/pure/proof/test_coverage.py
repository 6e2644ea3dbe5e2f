"""What is said of a buffer that changed kernels write: whether all of it is written is shown for the common shape, told when it is not,
and a part that surely is not written and surely read is a failure."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.coverage import plainly_written
from stitchcuda.analysis.proof.model import Proof, ProofState

from tests.pure.proof.recomposing import FUSED, KERNELS, NEW, OLD, OPENING, added, program, proof_of
from tests.pure.proof.twins import HEAD, analysed

HALVES = "__device__ void halve(int& k) { k /= 2; }\n"
GUARD = "if (i < n) {"
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
SYMBOLIC = (
    OPENING,
    OPENING.replace("main() {", "main(int argc, char** argv) {").replace("1 << 20", "std::atoi(argv[1])"),
)
AGAIN = "    CHECK(cudaMemset(y, 0, n * 4));\n"
KERNELS_OF = ("bias", "gelu", "pair", "copy")
STRIDED = """\
__global__ void bias_gelu(const float* x, const float* b, float* y, int n) {
    for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) {
        float t = x[i] + b[i]; y[i] = 0.5f * t * (1.0f + erff(t * 0.70710678f));
    }
}
"""
EARLY = FUSED.replace("if (i < n) { float", "if (i >= n) return;\n    float").replace("; }\n}", ";\n}")


def fused(kernel: str = FUSED, launch: str = NEW, *, symbolic: bool = True) -> Proof:
    text = program(OLD + launch, kernels=KERNELS + added(kernel))
    return proof_of(text.replace(*SYMBOLIC) if symbolic else text)


def coverage(proof: Proof) -> list[str]:
    return [f.what for f in proof.findings if "coverage" in f.what]


SHOWN = {
    "a guard": (FUSED, NEW),
    "an early return": (EARLY, NEW),
    "a loop over the grid": (STRIDED, NEW.replace("blocks_for(n, THREADS)", "80")),
    "more than enough blocks": (FUSED, NEW.replace("blocks_for(n, THREADS)", "n / THREADS + 1")),
    "an index of its own type": (FUSED.replace("int i =", "const unsigned int i ="), NEW),
    "the compiler's type": (FUSED.replace("int i =", "const auto i ="), NEW),
    "casts": (FUSED.replace(INDEX, "size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;"), NEW),
}
NOT_SHOWN = {
    "half of the elements": (FUSED.replace(GUARD, "if (i < n / 2) {"), NEW),
    "a size of its own": (FUSED.replace(GUARD, "if (i < 1000) {"), NEW),
    "too few blocks": (FUSED, NEW.replace("blocks_for(n, THREADS)", "n / THREADS")),
    "another block": (FUSED, NEW.replace(", THREADS>>>", ", 128>>>")),
    "every other thread": (FUSED.replace(GUARD, "if (i % 2) return;\n    if (i < n) {"), NEW),
    "another index": (FUSED.replace("y[i] =", "y[i / 2] ="), NEW),
    "a bound that changes": (FUSED.replace(INDEX, INDEX + "\n    n = n / 2;"), NEW),
    "an index that changes": (FUSED.replace(INDEX, INDEX + "\n    i = i / 2;"), NEW),
    "an index that is too narrow": (FUSED.replace("int i =", "short i ="), NEW),
    "an index that is cut": (FUSED.replace("y[i] =", "y[(unsigned char)i] ="), NEW),
    "an index that is a truth value": (FUSED.replace("int i =", "bool i ="), NEW),
    "a bound that is cut": (FUSED.replace("i < n", "i < (short)n"), NEW),
    "a bound that is too narrow": (FUSED.replace("float* y, int n", "float* y, unsigned char n"), NEW),
    "a bound that a function changes": (HALVES + FUSED.replace(INDEX, INDEX + "\n    halve(n);"), NEW),
    "a bound that a reference changes": (FUSED.replace(INDEX, INDEX + "\n    int& m = n; m = m / 2;"), NEW),
    "sizes of its own name": (FUSED.replace(INDEX, "dim3 blockDim(1);\n    " + INDEX), NEW),
    "a narrow loop": (STRIDED.replace("for (int i", "for (short i"), NEW),
    "a step that is cut": (STRIDED.replace("+= blockDim.x * gridDim.x", "+= (short)(blockDim.x * gridDim.x)"), NEW),
    "a grid that is too narrow": (FUSED, "    unsigned char g = blocks_for(n, THREADS); //+\n" + NEW.replace("blocks_for(n, THREADS)", "g")),
    "a grid that is cut": (FUSED, NEW.replace("blocks_for", "(unsigned char)blocks_for")),
    "an argument that is cut": (FUSED, NEW.replace("y, n)", "y, (short)n)")),
}  # fmt: skip

REFUSED = {
    "another condition": (FUSED.replace(GUARD, "if (i < n && x[i] > 0) {"), NEW),
    "a loop that begins later": (STRIDED.replace("int i = threadIdx.x", "int i = 1 + threadIdx.x"), NEW),
    "a loop that leaves": (STRIDED.replace("float t", "if (x[i] < 0) break;\n        float t"), NEW),
}


@pytest.mark.parametrize("name", SHOWN)
def test_coverage_of_the_common_shape_is_shown(name: str) -> None:
    proof = fused(*SHOWN[name])
    assert proof.state is ProofState.KEPT, proof.reason
    assert coverage(proof) == []


@pytest.mark.parametrize("name", NOT_SHOWN)
def test_what_is_not_shown_is_told_and_left_to_the_results(name: str) -> None:
    proof = fused(*NOT_SHOWN[name])
    assert proof.state is ProofState.KEPT, proof.reason
    (told,) = coverage(proof)
    assert told == "coverage of `y` is not shown: whether all that `gelu` wrote is written is left to the results"


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_leave_something_out_is_not_accepted(name: str) -> None:
    proof = fused(*REFUSED[name])
    assert proof.state is ProofState.UNTESTED
    assert proof.reason == "`bias_gelu` may leave `y` unwritten, which `gelu` wrote and others read"


def test_parts_add_up() -> None:
    halves = (
        "    copy<<<n / 512, 256>>>(x, y, n / 2); //+\n    copy<<<n / 512, 256>>>(x + n / 2, y + n / 2, n / 2); //+\n"
    )
    proof = proof_of(program("    copy<<<n / 256, 256>>>(x, y, n); //-\n" + halves))
    assert proof.state is ProofState.KEPT and coverage(proof) == []


def test_a_part_that_is_not_written_and_is_read_fails() -> None:
    proof = fused(launch=NEW.replace("blocks_for(n, THREADS)", "n / 512"), symbolic=False)
    assert proof.state is ProofState.FAILED
    assert proof.reason == "`bias_gelu` leaves the end of `y` unwritten, which `gelu` wrote and others read"


def test_a_part_that_held_values_before_is_left_to_the_results() -> None:
    launch = "    CHECK(cudaMemset(y, 0, n * 4));\n" + OLD + NEW.replace("blocks_for(n, THREADS)", "n / 512")
    proof = proof_of(program(launch, kernels=KERNELS + added(FUSED)))
    assert proof.state is ProofState.KEPT, proof.reason
    assert len(coverage(proof)) == 1


def test_the_name_of_an_inner_block_ends_with_it() -> None:
    inner = FUSED.replace(INDEX, f"{{ {INDEX} if (x[0] > 5) y[0] = i; }}").replace("int n)", "int n, int i)")
    kernel = next(
        f
        for f in analysed(HEAD + inner + "int main() { return 0; }\n").program.functions.values()
        if f.name == "bias_gelu"
    )
    assert plainly_written(analysed(HEAD).program, kernel) == {}


def test_a_part_that_nobody_reads_may_be_left_out() -> None:
    text = program(OLD + NEW.replace("blocks_for(n, THREADS)", "n / 512"), kernels=KERNELS + added(FUSED))
    proof = proof_of(text.replace("r.data(), y, n * 4", "r.data(), y, n"))
    assert proof.state is ProofState.KEPT and len(coverage(proof)) == 1


def test_a_part_that_is_written_again_may_be_left_out() -> None:
    text = program(OLD + NEW.replace("blocks_for(n, THREADS)", "n / 512") + AGAIN, kernels=KERNELS + added(FUSED))
    proof = proof_of(text)
    assert proof.state is ProofState.KEPT, proof.reason
    assert len(coverage(proof)) == 1


def test_what_the_kernels_write_plainly() -> None:
    program_ = analysed(HEAD + KERNELS + "int main() { return 0; }\n").program
    found = {f.name: plainly_written(program_, f) for f in program_.functions.values() if f.name in KERNELS_OF}
    assert {name: {p: str(w.bound) for p, w in plain.items()} for name, plain in found.items()} == {
        "bias": {"t": "n"},
        "gelu": {"y": "n"},
        "pair": {"u": "n", "v": "n"},
        "copy": {"b": "n"},
    }
