"""What a host stage may do: whatever no caller can tell but by the results."""

from __future__ import annotations

import pytest
from stitchcuda.agent import versions
from stitchcuda.agent.implementing import fits, placing
from stitchcuda.agent.implementing.strictest import caller_of
from stitchcuda.gpu_validate.verdict import GateResult, GateState

from tests.pure.implementing.host_programs import (
    ALLOCATED,
    HEAD,
    KERNELS,
    LEAKS,
    MAIN,
    MARK,
    OTHER_STREAM,
    RELEASED,
    RETURNS_EARLY,
    RIGHT,
    STAGE,
    WAITED,
    WORK,
    defined,
    program,
)
from tests.pure.implementing.programs import analysed, stage_of


def gate(definition: str, text: str = "") -> GateResult:
    text = text or program()
    stage, before = stage_of(text), analysed({"main.cu": text})
    edits = placing.edits_of(stage, text.encode(), text.encode(), definition.encode())
    after = versions.edited({"main.cu": text.encode()}, edits)["main.cu"].decode()
    return fits.gate(before, analysed({"main.cu": after}), stage, definition.encode())


FORKED = """\
    cudaStream_t side;
    cudaEvent_t event;
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(side, event, 0);
    doubled<<<(n + 255) / 256, 256, 0, side>>>(n, x, y);
    cudaEventRecord(event, side);
    cudaStreamWaitEvent(stream, event, 0);
    cudaMemcpyAsync(total, y, sizeof(float), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    cudaEventDestroy(event);
    cudaStreamDestroy(side);"""
ON_HOST = """\
    std::vector<float> found(n);
    doubled<<<std::max(1, (n + 255) / 256), 256, 0, stream>>>(n, x, y);
    cudaMemcpyAsync(found.data(), y, n * sizeof(float), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    total[0] = 0;
    for (float value : found) total[0] += value;"""


@pytest.mark.parametrize(
    "definition",
    [
        RIGHT,
        defined(FORKED),
        defined(ON_HOST),
        defined("    if (n <= 0) {\n        total[0] = 0;\n        return;\n    }\n" + ALLOCATED + WORK + RELEASED + WAITED),
        defined("    auto blocks = [](int m) { return (m + 255) / 256; };\n    doubled<<<blocks(n), 256, 0, stream>>>(n, x, y);\n    total[0] = 1;"),
        defined("    cudaDeviceSynchronize();\n    doubled<<<1, 256>>>(n, x, y);\n    cudaDeviceSynchronize();\n    total[0] = sizeof(*x);"),
    ],
)  # fmt: skip
def test_a_stage_that_keeps_to_its_declaration_passes(definition: str) -> None:
    found = gate(definition)
    assert (found.state, found.reason) == (GateState.PASSED, "")
    assert found.evidence["stage"] == "scale" and "write" in found.evidence["accesses"]["y"]


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (RETURNS_EARLY, "host-read-before-sync: "),
        (OTHER_STREAM, "stream-race-raw: "),
        (LEAKS, "it never releases `sum`, which it allocates"),
        (defined(FORKED.replace("    cudaStreamWaitEvent(stream, event, 0);\n", "")), "stream-race-raw: "),
        (defined(FORKED.replace("    cudaStreamWaitEvent(side, event, 0);\n", "")), "stream-race-raw: "),
        (defined(FORKED.replace("    cudaEventDestroy(event);\n", "")), "an event that it makes is never destroyed"),
        (defined(FORKED.replace("    cudaStreamDestroy(side);", "")), "a stream that it makes is never destroyed"),
        (defined(ON_HOST.replace(WAITED, "")), "pageable `found`"),
        (RIGHT.replace("doubled<<<", "cudaMemsetAsync((void *)x, 0, n, stream);\n    doubled<<<"), "it writes `x`, which is declared const"),
        (RIGHT.replace("y, sum);", "y, total);"), "`added` is given `total`, which is memory of the host"),
        (RIGHT.replace(RELEASED, RELEASED + "    total[0] = x[0];\n"), "the host uses `x`, which is memory of the device"),
        (RIGHT.replace(RELEASED, RELEASED + "    total[0] = *y;\n"), "the host uses `y`, which is memory of the device"),
        (RIGHT.replace("to[i] = ", "float unused = "), "it never writes `y`, an output of the stage"),
        (defined("    doubled<<<1, 256, 0, stream>>>(n, x, y);"), "it never writes `total`, an output"),
        (RIGHT.replace(WAITED, WAITED + "    cudaFree(y);\n"), "it releases `y`, which is its caller's"),
        (
            defined(
                "    float* sum;\n    if (cudaMallocAsync(&sum, 4, stream) != cudaSuccess) return;\n"
                "    doubled<<<1, 256, 0, stream>>>(n, x, y);\n    if (cudaGetLastError() != cudaSuccess) return;\n"
                + RELEASED
                + "    total[0] = 1;"
            ),
            "leak: ",
        ),
    ],
)  # fmt: skip
def test_what_its_callers_could_tell_fails(definition: str, said: str) -> None:
    found = gate(definition)
    assert found.state is GateState.FAILED, found
    assert any(said in f.what for f in found.findings), [f.what for f in found.findings]
    lines = program().count("\n", 0, program().index(STAGE)) + 1
    assert all(f.path == "main.cu" and lines < f.line <= lines + 40 for f in found.findings), "in what was written"
    assert "stitchcuda_" not in " ".join(f.what for f in found.findings)


@pytest.mark.parametrize(
    "body",
    [
        "    const float* p = x + 1;\n    total[0] = p[0];\n",
        "    auto first = [&] { return x[0]; };\n    total[0] = first();\n",
        "    std::memcpy(total, y, sizeof(float));\n",
        "    total[0] = std::accumulate(x, x + n, 0.0f);\n",
    ],
)
def test_memory_of_the_device_by_any_name_is_none_of_the_hosts(body: str) -> None:
    found = gate(defined(f"{body}    doubled<<<(n + 255) / 256, 256, 0, stream>>>(n, x, y);"))
    assert found.state is GateState.FAILED
    assert "which is memory of the device (host= names others)" in found.reason


@pytest.mark.parametrize(
    "body",
    [
        "    total[1] = 3;",
        "    total[-1] = 3;",
        "    std::memcpy(total, total + 1, 4);",
        "    cudaMemcpyAsync(total, y, 2 * sizeof(float), cudaMemcpyDeviceToHost, stream);\n" + WAITED,
    ],
)
def test_memory_of_the_host_has_the_elements_that_the_comment_says(body: str) -> None:
    found = gate(defined(ALLOCATED + WORK + RELEASED + WAITED + body))
    assert found.state is GateState.FAILED
    assert found.reason == "it reaches beyond `total`, which has 1 elements there (host=)"


@pytest.mark.parametrize(
    ("makes", "ends", "what"),
    [
        ("cudaGraph_t g; cudaGraphCreate(&g, 0);", "cudaGraphDestroy(g);", "a graph"),
        ("cudaMemPool_t p; cudaMemPoolProps of{}; cudaMemPoolCreate(&p, &of);", "cudaMemPoolDestroy(p);", "a memory pool"),
        ("auto r = (float*)std::malloc(8); cudaHostRegister(r, 8, 0);", "cudaHostUnregister(r); std::free(r);", "a registration of host memory"),
        ("cublasHandle_t h; cublasCreate(&h);", "cublasDestroy(h);", "a handle"),
        ("float* p = new float[4]; p[0] = 1;", "delete[] p;", "with `new`"),
    ],
)  # fmt: skip
def test_whatever_else_it_makes_it_ends(makes: str, ends: str, what: str) -> None:
    work = ALLOCATED + WORK + RELEASED + WAITED
    assert gate(defined(f"    {makes}\n{work}    {ends}")).state is GateState.PASSED
    found = gate(defined(f"    {makes}\n{work}"))
    assert found.state is GateState.FAILED
    assert what in found.reason and "never de" in found.reason


def test_memory_of_its_caller_is_pinned_by_its_caller() -> None:
    found = gate(
        defined(
            "    cudaHostRegister(total, 4, 0);\n"
            + ALLOCATED
            + WORK
            + RELEASED
            + WAITED
            + "    cudaHostUnregister(total);"
        )
    )
    assert found.state is GateState.FAILED
    assert (
        found.reason == "`cudaHostRegister` is given `total`, which its caller may have pinned already: do without it"
    )


def test_a_smart_pointer_ends_what_it_holds() -> None:
    assert (
        gate(
            defined(
                "    std::unique_ptr<float[]> p(new float[4]);\n    total[0] = 0;\n    doubled<<<1, 256, 0, stream>>>(n, x, y);"
            )
        ).state
        is GateState.PASSED
    )


def test_device_variables_of_the_program_are_nothing_that_it_was_given() -> None:
    text = program().replace("#include <cstdio>\n", "#include <cstdio>\n__device__ float factor;\n")
    found = gate(RIGHT.replace("2 * from[i]", "factor * from[i]"), text)
    assert found.state is GateState.FAILED and "it uses `factor`" in found.reason
    own = gate("__constant__ float two = 2;\n" + RIGHT.replace("2 * from[i]", "two * from[i]"))
    assert own.state is GateState.PASSED


def test_what_is_not_followed_is_no_pass() -> None:
    text = program(main="void other(float *y);\n" + MAIN).replace(
        "#include <cstdio>\n", "#include <cstdio>\nvoid other(float *y);\n"
    )
    found = gate(RIGHT.replace(WAITED, "    other(y);\n" + WAITED), text)
    assert found.state is GateState.UNTESTED and "`other(y)` calls code that is not known" in found.reason


def test_without_a_stream_it_is_the_default_stream() -> None:
    text = program(
        MARK.replace("host=total[1] ", ""),
        STAGE.replace(", float* total, cudaStream_t stream", ""),
        "void scale_cpu(int n, const float* x, float* y) {}\n",
        "int main() { scale(1, nullptr, nullptr); }\n",
    )
    head = "void scale(int n, const float* x, float* y) {\n"
    kernels = KERNELS.partition("\n\n")[0] + "\n"
    assert gate(kernels + head + "    doubled<<<1, 256>>>(n, x, y);\n}", text).state is GateState.PASSED
    side = "    cudaStream_t s;\n    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);\n    doubled<<<1, 256, 0, s>>>(n, x, y);\n    cudaStreamDestroy(s);\n"
    found = gate(kernels + head + side + "}", text)
    assert found.state is GateState.FAILED and "stream-race" in found.reason


def test_a_stage_that_only_uses_the_host_needs_no_device_pointers() -> None:
    text = program(
        MARK.replace("host=total[1]", "host=x[n],y[n]"),
        "cudaError_t scale(int n, const double* __restrict__ x, double y[]);",
        "void scale_cpu(int n, const double* x, double y[]) {}\n",
        "int main() { double x = 0, y; scale(1, &x, &y); }\n",
    )
    assert "double *x;" in caller_of(stage_of(text)) and "cudaMallocHost(&y, " in caller_of(stage_of(text))
    head = "cudaError_t scale(int n, const double* __restrict__ x, double y[]) {\n"
    body = (
        "    double* at;\n    cudaMalloc(&at, n * sizeof(double));\n    cudaMemcpyAsync(at, x, n * sizeof(double), cudaMemcpyHostToDevice, 0);\n"
        "    cudaMemcpyAsync(y, at, n * sizeof(double), cudaMemcpyDeviceToHost, 0);\n    {}    cudaFree(at);\n    return cudaSuccess;\n}}"
    )
    assert gate(head + body.format("cudaStreamSynchronize(0);\n"), text).state is GateState.PASSED
    changed = head + body.format("").replace("    cudaFree(at);\n", "    cudaFreeAsync(at, 0);\n").replace(
        "cudaMalloc(&at, n * sizeof(double))", "cudaMallocAsync(&at, n * sizeof(double), 0)"
    )
    early = gate(changed.replace("}}", "}"), text)
    assert early.state is GateState.FAILED and "host-" in early.reason


def test_whatever_else_changed_is_seen() -> None:
    text = program()
    stage, before = stage_of(text), analysed({"main.cu": text})
    edits = placing.edits_of(stage, text.encode(), text.encode(), RIGHT.encode())
    after = versions.edited({"main.cu": text.encode()}, edits)["main.cu"].decode().replace("4096, x, y", "409, x, y")
    found = fits.gate(before, analysed({"main.cu": after}), stage, RIGHT.encode())
    assert found.state is GateState.FAILED and "more than the definition of the host stage" in found.reason
    assert HEAD in RIGHT


SCALED = """\
    const float two = 2;
    cublasScopy(blas, n, x, 1, y, 1);
    cublasSscal(blas, n, &two, y, 1);
    cudaMemcpyAsync(total, y, sizeof(float), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
"""


def test_a_handle_is_bound_to_the_stream_by_its_callers() -> None:
    text = program(
        stage=STAGE.replace("(int n", "(cublasHandle_t blas, int n"),
        main=MAIN.replace("scale(4096", "scale(blas, 4096"),
    ).replace("int main() {", "int main() {\n    cublasHandle_t blas;\n    cublasCreate(&blas);")
    stage = stage_of(text)
    assert (stage.handles, stage.inputs) == (("blas",), ("n", "x"))
    assert [p.name for p in stage.given] == ["n", "x", "y", "total"]
    head = HEAD.replace("(int n", "(cublasHandle_t blas, int n")
    assert gate(head + SCALED + "}", text).state is GateState.PASSED
    other = gate(head + SCALED.replace("    const", "    cublasSetStream(blas, 0);\n    const") + "}", text)
    assert other.state is GateState.FAILED and "on the default stream" in other.reason
    early = gate(head + SCALED.replace(WAITED, "") + "}", text)
    assert early.state is GateState.FAILED and "the host reads" in early.reason
