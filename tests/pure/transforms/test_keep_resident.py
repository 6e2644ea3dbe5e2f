"""keep-resident: what it rewrites, what it leaves alone, and the line it gives for that."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from stitchcuda.agent.transforms import keep_resident
from stitchcuda.agent.transforms.transform import Outcome, Situation, edits_overlap
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.program.ir import ApiKind
from stitchcuda.analysis.proof.model import ProofState
from stitchcuda.analysis.proof.prove import prove

STAGES_H = """\
#include <vector>

// Makes the halves.
std::vector<float> produce(const float* d_in, int n);
void consume(const std::vector<float>& half,
             float* d_out, int n);
"""
STAGES_CU = """\
#include "stages.h"
#define CHECK(x) do { if ((x) != cudaSuccess) std::exit(1); } while (0)
__global__ void halve(const float* in, float* out, int n) { int i = threadIdx.x; if (i < n) out[i] = in[i] / 2; }

std::vector<float> produce(const float* d_in, int n) {
    float* d_half = nullptr;
    CHECK(cudaMalloc(&d_half, n * sizeof(float)));
    halve<<<1, 256>>>(d_in, d_half, n);
    CHECK(cudaDeviceSynchronize());

    // Bring it home.
    std::vector<float> half(n);
    CHECK(cudaMemcpy(half.data(), d_half, n * sizeof(float), cudaMemcpyDeviceToHost));

    CHECK(cudaFree(d_half));  // done
    return half;
}

void consume(const std::vector<float>& half,
             float* d_out, int n) {
    const size_t bytes = n * sizeof(float);
    float* d_half = nullptr;
    CHECK(cudaMalloc(&d_half, bytes));
    CHECK(cudaMemcpy(d_half, half.data(), bytes, cudaMemcpyHostToDevice));
    halve<<<1, 256>>>(d_half, d_out, n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(d_half));
}
"""
MAIN_CU = """\
#include "stages.h"
int main(int argc, char** argv) {
    int n = argc;
    float *d_in, *d_out;
    cudaMalloc(&d_in, n * sizeof(float));
    cudaMalloc(&d_out, n * sizeof(float));
    for (int i = 0; i < 9; ++i) {
        std::vector<float> half = produce(d_in, n);
        consume(half, d_out, n);
    }
    cudaDeviceSynchronize();
    cudaFree(d_in);
    cudaFree(d_out);
    return 0;
}
"""
HANDOVER = {"stages.h": STAGES_H, "stages.cu": STAGES_CU, "main.cu": MAIN_CU}


def analysed(files: Mapping[str, str]) -> Analysis:
    index = Index(strict=True)
    for path, text in files.items():
        index.put(path, text.encode())
    return index.analyse()


def found(files: Mapping[str, str]) -> Outcome:
    return keep_resident.find(Situation(analysed(files)))


def rewritten(files: Mapping[str, str]) -> dict[str, str]:
    """The texts with every proposal applied."""
    outcome = found(files)
    assert outcome.proposals, outcome.refusals
    assert not edits_overlap(outcome.proposals)
    texts = {path: text.encode() for path, text in files.items()}
    for edit in sorted((e for p in outcome.proposals for e in p.edits), key=lambda e: -e.start):
        text = texts[edit.path]
        texts[edit.path] = text[: edit.start] + edit.text + text[edit.end :]
    return {path: text.decode() for path, text in texts.items()}


def copies(files: Mapping[str, str]) -> int:
    return sum(op.kind is ApiKind.COPY for t in analysed(files).timelines for op in t.ops)


def test_a_buffer_is_handed_on_across_functions_and_files() -> None:
    after = rewritten(HANDOVER)
    assert (
        after["stages.h"]
        == """\
#include <vector>

// Makes the halves.
float* produce(const float* d_in, int n);
void consume(float* d_half,
             float* d_out, int n);
"""
    )
    assert after["main.cu"] == MAIN_CU.replace("std::vector<float> half =", "float* d_half =").replace(
        "consume(half", "consume(d_half"
    )
    assert (
        after["stages.cu"][after["stages.cu"].index("float* produce") :]
        == """\
float* produce(const float* d_in, int n) {
    float* d_half = nullptr;
    CHECK(cudaMalloc(&d_half, n * sizeof(float)));
    halve<<<1, 256>>>(d_in, d_half, n);
    CHECK(cudaDeviceSynchronize());

    return d_half;
}

void consume(float* d_half,
             float* d_out, int n) {
    halve<<<1, 256>>>(d_half, d_out, n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(d_half));
}
"""
    )
    assert copies(HANDOVER) > 0 and copies(after) == 0
    assert found(after).proposals == ()


def test_line_ends_and_pointer_style_are_the_users() -> None:
    files = {path: text.replace("float* ", "float *").replace("\n", "\r\n") for path, text in HANDOVER.items()}
    after = rewritten(files)
    assert "\r\nfloat *produce(const float *d_in" in after["stages.h"]
    assert "consume(float *d_half,\r\n             float *d_out" in after["stages.cu"]
    assert all(text.count("\n") == text.count("\r\n") for text in after.values())


def test_a_name_that_the_caller_uses_already_is_avoided() -> None:
    taken = MAIN_CU.replace("int n = argc;", "int n = argc, d_half = 3;")
    assert (
        "float* d_half2 = produce(d_in, n);\n        consume(d_half2,"
        in rewritten({**HANDOVER, "main.cu": taken})["main.cu"]
    )


@pytest.mark.parametrize(
    ("path", "old", "new", "line"),
    [
        ("main.cu", "        consume(half", "        if (half.empty()) return 1;\n        consume(half", "if (half.empty"),
        ("main.cu", "        consume(half", "        float s = half[0];\n        consume(half", "float s = half"),
        ("main.cu", "        consume(half", "        if (n > 7) consume(half", "cudaMemcpy(d_half, half"),
        ("main.cu", "        consume(half", "        if (n > 7) break;\n        consume(half", "break;"),
        ("main.cu", "        consume(half, d_out, n);", "consume(half, d_out, n); consume(half, d_out, n);", "cudaMemcpy(d_half, half"),
        ("main.cu", "int main(int", "std::vector<float> (*f)(const float*, int) = produce;\nint main(int", "(*f)"),
        ("main.cu", "int main(int", "void other() { std::vector<float> v(9); consume(v, nullptr, 9); }\nint main(int", "void other"),
        ("main.cu", "        consume(half", "        may_fail();\n        consume(half", "may_fail();\n        consume"),
        ("stages.cu", "bytes, cudaMemcpyHostToDevice", "bytes / 2, cudaMemcpyHostToDevice", "bytes / 2"),
        ("stages.cu", "half.data(), d_half, n", "half.data(), d_half + 1, n", "d_half + 1"),
        ("stages.cu", "const size_t bytes = n * ", "const size_t bytes = half.size() * ", "half.size()"),
        ("stages.cu", "CHECK(cudaMalloc(&d_half, bytes))", "CHECK(cudaMalloc(&d_half, 2 * bytes))", "cudaMemcpy(d_half, half"),
        ("stages.cu", "CHECK(cudaMalloc(&d_half, bytes))", "CHECK(cudaMallocManaged(&d_half, bytes))", "cudaMemcpy(d_half, half"),
        ("stages.cu", "    return half;", "    half[0] = 1;\n    return half;", "half[0] = 1"),
        ("stages.cu", "    // Bring", "    if (n > 9) return {};\n    // Bring", "return {}"),
        ("stages.cu", "    // Bring", "    keep = d_half;\n    // Bring", "keep = d_half"),
        ("stages.cu", "    CHECK(cudaFree(d_half));  // done\n", "", "float* d_half"),
        ("stages.cu", "    CHECK(cudaFree(d_half));\n}", "}", "float* d_half = nullptr;\n    CHECK(cudaMalloc(&d_half, bytes"),
    ],
)  # fmt: skip
def test_refusals_give_the_line(path: str, old: str, new: str, line: str) -> None:
    assert old in HANDOVER[path]
    files = {**HANDOVER, path: HANDOVER[path].replace(old, new)}
    files["fail.cu"] = "void may_fail() { if (rand()) throw 1; }\n"
    outcome = found(files)
    assert outcome.proposals == ()
    where = next(p for p, text in files.items() if line in text)
    wanted = files[where].count("\n", 0, files[where].index(line)) + 1
    assert (where, wanted) in [(r.path, r.line) for r in outcome.refusals], outcome.refusals


def test_a_free_that_relies_on_the_download_keeps_it() -> None:
    """W8: `cudaFree` is no wait to rely on; without the download nothing says that the kernel has read `d_tmp`."""
    late = STAGES_CU.replace("    CHECK(cudaDeviceSynchronize());\n\n", "\n").replace(
        "    return half;", "    CHECK(cudaFree(d_tmp));\n    return half;"
    )
    late = late.replace("    halve<<<1, 256>>>(d_in, d_half, n);", "    float* d_tmp;\n    CHECK(cudaMalloc(&d_tmp, n * sizeof(float)));\n    halve<<<1, 256>>>(d_tmp, d_half, n);")  # fmt: skip
    outcome = found({**HANDOVER, "stages.cu": late})
    assert outcome.proposals == ()
    assert [late.splitlines()[r.line - 1].strip() for r in outcome.refusals] == ["CHECK(cudaFree(d_tmp));"]
    pooled = late.replace(
        "cudaMalloc(&d_tmp, n * sizeof(float))", "cudaMallocAsync(&d_tmp, n * sizeof(float), 0)"
    ).replace("cudaFree(d_tmp)", "cudaFreeAsync(d_tmp, 0)")
    assert found({**HANDOVER, "stages.cu": pooled}).proposals


def test_code_that_is_not_here_may_throw_where_somebody_catches() -> None:
    unknown = {
        **HANDOVER,
        "main.cu": MAIN_CU.replace("        consume(half", "        log_step(i);\n        consume(half"),
    }
    assert found(unknown).proposals
    unknown["catch.cu"] = "void run() { try { go(); } catch (...) {} }\n"
    assert [(r.path, r.line) for r in found(unknown).refusals] == [("main.cu", 9)]


def test_the_clock_and_a_printing_kernel_keep_the_download() -> None:
    unwaited = STAGES_CU.replace("    CHECK(cudaDeviceSynchronize());\n\n", "\n")
    assert found({**HANDOVER, "stages.cu": unwaited}).proposals
    timed = MAIN_CU.replace("        consume(half", "        double t = omp_get_wtime();\n        consume(half")
    assert found({**HANDOVER, "stages.cu": unwaited, "main.cu": timed}).proposals == ()
    loud = unwaited.replace("out[i] = in[i] / 2", 'printf("%d", i), out[i] = in[i] / 2')
    assert found({**HANDOVER, "stages.cu": loud}).proposals == ()


LOCAL = """\
__global__ void work(float* data) { data[threadIdx.x] += 1; }
int main() {
    float *d_a, *d_b;
    std::vector<float> h(256);
    cudaMalloc(&d_a, 1024);
    cudaMalloc(&d_b, 1024);
    cudaMemset(d_a, 0, 1024);
    work<<<1, 256>>>(d_a);
    cudaMemcpy(h.data(), d_a, 1024, cudaMemcpyDeviceToHost);
    %s
    cudaMemcpy(d_b, h.data(), 1024, cudaMemcpyHostToDevice);
    work<<<1, 256>>>(d_b);
    cudaDeviceSynchronize();
    %s
    cudaFree(d_b);
    return 0;
}
"""


def local(between: str, behind: str) -> str:
    return LOCAL % (between, behind)


def test_a_buffer_that_is_not_used_again_is_adopted() -> None:
    after = rewritten({"a.cu": local("cudaFree(d_a);", "")})["a.cu"]
    assert "    d_b = d_a;\n    work<<<1, 256>>>(d_b);" in after
    assert "&d_b" not in after and "cudaFree(d_a)" not in after and "cudaMemcpy(" not in after and " h(" not in after


def test_a_buffer_that_lives_on_is_copied_on_the_device() -> None:
    after = rewritten({"a.cu": local("", "work<<<1, 256>>>(d_a); cudaDeviceSynchronize(); cudaFree(d_a);")})["a.cu"]
    assert "cudaMemcpy(d_b, d_a, 1024, cudaMemcpyDeviceToDevice);" in after and "DeviceToHost" not in after
    read = local("", "use(h[0]); cudaFree(d_a);")
    after = rewritten({"a.cu": read})["a.cu"]  # the download stays for the host's sake
    assert "cudaMemcpy(d_b, d_a, 1024, cudaMemcpyDeviceToDevice);" in after and "DeviceToHost" in after


def test_an_upload_of_what_the_buffer_still_holds_goes() -> None:
    text = local("", "use(h[0]);").replace("d_b, h.data()", "d_a, h.data()")
    after = rewritten({"a.cu": text})["a.cu"]
    assert "HostToDevice" not in after and "DeviceToHost" in after


@pytest.mark.parametrize(
    "between",
    [
        "h[3] = 1;",
        "work<<<1, 256>>>(d_a);",
        "other(h.data());",
        "if (getenv(\"X\")) return 1;",
        "std::swap(d_a, d_b);",
        "cudaMemcpy(h.data(), d_b, 512, cudaMemcpyDeviceToHost);",
        "printf(\"%f\", h[0]); h.assign(256, 0.f);",
    ],
)  # fmt: skip
def test_what_happens_in_between_keeps_the_upload(between: str) -> None:
    outcome = found({"a.cu": local(between, "use(h[0]); cudaFree(d_a);")})
    assert outcome.proposals == () and outcome.refusals


def test_a_copy_within_one_allocation_stays_as_it_is() -> None:
    text = local("", "use(h[0]);").replace("d_b, h.data()", "d_a + 64, h.data()").replace("&d_a, 1024", "&d_a, 2048")
    assert found({"a.cu": text}).proposals == ()


def test_work_that_may_still_change_the_buffer_keeps_the_upload() -> None:
    """A download on one stream while another one still writes: what it brought is not what the buffer holds later."""
    text = local("", "use(h[0]);").replace("    cudaMemcpy(h.data(), d_a, 1024", "    work<<<1, 256, 0, other>>>(d_a);\n    cudaMemcpy(h.data(), d_a, 1024")  # fmt: skip
    text = text.replace(
        "int main() {",
        "int main() {\n    cudaStream_t other; cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);",
    )
    assert found({"a.cu": text}).proposals == ()


@pytest.mark.parametrize(
    "files",
    [
        HANDOVER,
        {"a.cu": local("cudaFree(d_a);", "")},
        {"a.cu": local("", "work<<<1, 256>>>(d_a); cudaDeviceSynchronize(); cudaFree(d_a);")},
        {"a.cu": local("", "use(h[0]);").replace("d_b, h.data()", "d_a, h.data()")},
        {"a.cu": local("", "").replace("d_b, h.data()", "d_a, h.data()")},
    ],
    ids=["handover", "adopt", "copy", "same", "both gone"],
)
def test_the_proof_finds_nothing_against_it(files: Mapping[str, str]) -> None:
    proof = prove(analysed(files), analysed(rewritten(files)), keep_resident.DECLARED)
    assert proof.state is not ProofState.FAILED, proof.findings
