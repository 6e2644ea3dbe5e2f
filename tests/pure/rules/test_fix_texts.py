"""Where fixes write, and how: indentation, the user's own check, declarations, unbraced branches, loops, line ends."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.rules import BY_CODE
from stitchcuda.server.cli.autofix import apply, fix
from stitchcuda.server.report.rows import rows

HEAD = """\
#define CHECK(x) do { if ((x) != cudaSuccess) return 1; } while (0)
cudaError_t ok(cudaError_t e, const char* what, int line);
__global__ void fill(float* v) { v[threadIdx.x] = 1; }
__global__ void use(const float* v, float* w) { w[threadIdx.x] = v[threadIdx.x]; }
"""
SETUP = """\
    float *h, *d, *e;
    cudaStream_t a, b;
    cudaMallocHost(&h, 256);
    cudaMalloc(&d, 256);
    cudaMalloc(&e, 256);
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
"""


def fixed(body: str, code: str) -> str:
    """The body of `main` behind the set-up, after the preferred fix of the first finding of that code."""
    text = (HEAD + "int main() {\n" + SETUP + body + "}\n").encode()
    index = Index(strict=True)
    index.put("a.cu", text)
    found = [r for r in rows(index.analyse()) if r.code == code]
    after = apply({"a.cu": text}, found[0].fixes[0].edits)
    assert after is not None
    index.put("a.cu", after["a.cu"])
    assert [r for r in rows(index.analyse()) if r.code == code and r.confidence != "possible"] == []
    return after["a.cu"].decode().partition("cudaStreamCreate(&b);\n")[2].removesuffix("}\n")


COPY = "    cudaMemcpyAsync(h, d, 256, cudaMemcpyDeviceToHost, a);\n"
WAIT = "    cudaStreamSynchronize(a);\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    float x = h[0];\n    return x;\n", WAIT + "    float x = h[0];\n    return x;\n"),
        ("    float w = 2, x = h[0];\n    return x;\n", WAIT + "    float w = 2, x = h[0];\n    return x;\n"),
        ("    if (h[0] > 1)\n        return 2;\n", WAIT + "    if (h[0] > 1)\n        return 2;\n"),
        ("    if (d)\n        return h[0];\n", WAIT + "    if (d)\n        return h[0];\n"),
        ("    { int y = 1; y += h[2]; }\n", WAIT + "    { int y = 1; y += h[2]; }\n"),
        (
            "    float s = 0;\n    for (int i = 0; i < 9; ++i) {\n        s += h[i];\n    }\n",
            "    float s = 0;\n" + WAIT + "    for (int i = 0; i < 9; ++i) {\n        s += h[i];\n    }\n",
        ),
        ("    return h[0];\n", WAIT + "    return h[0];\n"),
        ("    /* first */ return h[0];\n", "    /* first */ cudaStreamSynchronize(a); return h[0];\n"),
    ],
)
def test_wait_before_a_host_read(before: str, after: str) -> None:
    assert fixed(COPY + before, "host-read-before-sync") == COPY + after


@pytest.mark.parametrize(
    ("call", "wait"),
    [
        ("CHECK({});", "CHECK(cudaStreamSynchronize(a));"),
        ("ok({}, \"copy\", __LINE__);", 'ok(cudaStreamSynchronize(a), "cudaStreamSynchronize", __LINE__);'),
        ("cudaError_t status = {};", "cudaStreamSynchronize(a);"),
        ("if ({} != cudaSuccess) return 1;", "cudaStreamSynchronize(a);"),
    ],
)  # fmt: skip
def test_the_users_own_check(call: str, wait: str) -> None:
    copy = "    " + call.format("cudaMemcpyAsync(h, d, 256, cudaMemcpyDeviceToHost, a)") + "\n"
    assert fixed(copy + "    return h[0];\n", "host-read-before-sync") == copy + f"    {wait}\n    return h[0];\n"


def test_event_in_a_loop_is_made_outside() -> None:
    body = """\
    for (int i = 0; i < 100; ++i) {
        fill<<<1, 64, 0, a>>>(d);  // produce
        use<<<1, 64, 0, b>>>(d, e);
        cudaDeviceSynchronize();
    }
"""
    assert (
        fixed(body, "stream-race-raw")
        == """\
    cudaEvent_t d_ready;
    cudaEventCreateWithFlags(&d_ready, cudaEventDisableTiming);
    for (int i = 0; i < 100; ++i) {
        fill<<<1, 64, 0, a>>>(d);  // produce
        cudaEventRecord(d_ready, a);
        cudaStreamWaitEvent(b, d_ready, 0);
        use<<<1, 64, 0, b>>>(d, e);
        cudaDeviceSynchronize();
    }
    cudaEventDestroy(d_ready);
"""
    )


def test_event_name_is_fresh_and_default_stream_is_zero() -> None:
    body = """\
    cudaStream_t d_ready;
    cudaStreamCreateWithFlags(&d_ready, cudaStreamNonBlocking);
    fill<<<1, 64>>>(d);
    use<<<1, 64, 0, d_ready>>>(d, e);
    cudaDeviceSynchronize();
"""
    got = fixed(body, "stream-race-raw")
    assert "    cudaEventRecord(d_ready2, 0);\n    cudaStreamWaitEvent(d_ready, d_ready2, 0);\n" in got


def test_free_goes_to_the_using_stream() -> None:
    body = """\
    float* t;
    cudaMallocAsync(&t, 256, a);
    fill<<<1, 64, 0, a>>>(t);
    cudaFreeAsync(t, b);
    cudaDeviceSynchronize();
"""
    assert fixed(body, "free-in-flight") == body.replace("cudaFreeAsync(t, b)", "cudaFreeAsync(t, a)")


def test_free_behind_two_streams_waits_for_an_event() -> None:
    body = """\
    float* t;
    cudaMallocAsync(&t, 256, a);
    fill<<<1, 64, 0, a>>>(t);
    cudaStreamSynchronize(a);
    use<<<1, 64, 0, b>>>(t, e);
    cudaFreeAsync(t, a);
    cudaDeviceSynchronize();
"""
    got = fixed(body, "free-in-flight")
    assert (
        "    cudaEventRecord(t_ready, b);\n    cudaStreamWaitEvent(a, t_ready, 0);\n    cudaFreeAsync(t, a);\n" in got
    )


def test_needless_wait_goes_with_its_line() -> None:
    body = "    fill<<<1, 64, 0, a>>>(d);\n    CHECK(cudaStreamSynchronize(a));  // wait\n    use<<<1, 64, 0, a>>>(d, e);\n    CHECK(cudaStreamSynchronize(a));\n    return 0;\n"
    got = fixed(body, "redundant-sync")
    assert got == body.replace("    CHECK(cudaStreamSynchronize(a));  // wait\n", "")


@pytest.mark.parametrize(
    "producer",
    [
        "    {\n        cudaStream_t s = a;\n        cudaMemcpyAsync(h, d, 256, cudaMemcpyDeviceToHost, s);\n    }\n",
        (
            "    cudaStream_t both[2] = {a, b};\n    for (int i = 0; i < 2; ++i)\n"
            "        cudaMemcpyAsync(h + 32 * i, d + 32 * i, 128, cudaMemcpyDeviceToHost, both[i]);\n"
        ),
    ],
)
def test_a_stream_without_a_name_at_the_read_is_waited_for_with_the_device(producer: str) -> None:
    got = fixed(producer + "    return h[0];\n", "host-read-before-sync")
    assert got == producer + "    cudaDeviceSynchronize();\n    return h[0];\n"


@pytest.mark.parametrize(
    "line",
    [
        "    if (!e) throw std::runtime_error(cudaGetErrorString(cudaErrorUnknown));\n",
        "    if (!e) throw Failure(cudaFree(e));\n",
        "    if (!e) exit(cudaGetLastError());\n",
        "    if (!e) puts(cudaGetErrorName(cudaErrorUnknown));\n",
    ],
)
def test_not_a_check(line: str) -> None:
    assert (
        fixed(line + COPY + "    return h[0];\n", "host-read-before-sync") == line + COPY + WAIT + "    return h[0];\n"
    )


def test_a_pragma_stays_with_its_loop() -> None:
    loop = "#pragma omp parallel for\n    for (int i = 0; i < 9; ++i) d[i] = h[i];\n"
    assert fixed(COPY + loop, "host-read-before-sync") == COPY + WAIT + loop


@pytest.mark.parametrize(
    "statement",
    [
        "if (n > 2) { fill<<<1, 64, 0, a>>>(e); }\n    else cudaStreamSynchronize(a);",
        "cudaStreamSynchronize(a), n = 3;",
    ],
)
def test_a_wait_within_a_larger_statement_is_not_removed(statement: str) -> None:
    body = f"    int n = 2;\n    fill<<<1, 64, 0, a>>>(d);\n    cudaStreamSynchronize(a);\n    {statement}\n"
    index = Index(strict=True)
    index.put("a.cu", (HEAD + "int main() {\n" + SETUP + body + "    return n;\n}\n").encode())
    for row in rows(index.analyse()):
        assert row.code != "redundant-sync" or row.fixes == ()


def test_a_wait_on_a_stream_of_the_loop_does_not_leave_it() -> None:
    body = "    for (int i = 0; i < 9; ++i) {\n        cudaStream_t s = a;\n        fill<<<1, 64, 0, s>>>(d);\n        cudaStreamSynchronize(s);\n    }\n"
    index = Index(strict=True)
    index.put("a.cu", (HEAD + "int main() {\n" + SETUP + body + "    return 0;\n}\n").encode())
    (row,) = [r for r in rows(index.analyse()) if r.code == "sync-in-loop"]
    assert row.fixes == ()


def test_no_event_that_only_the_last_round_records() -> None:
    body = """\
    cudaStream_t both[2] = {a, b}, other;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    for (int i = 0; i < 2; ++i) {
        fill<<<1, 64, 0, both[i]>>>(d + 64 * i);
    }
    use<<<1, 64, 0, other>>>(d, e);
    cudaDeviceSynchronize();
"""
    index = Index(strict=True)
    index.put("a.cu", (HEAD + "int main() {\n" + SETUP + body + "    return 0;\n}\n").encode())
    found = [r for r in rows(index.analyse()) if r.code == "stream-race-raw"]
    assert found
    assert all(r.fixes == () for r in found)


def test_a_repair_is_kept_although_a_later_wait_becomes_needless() -> None:
    text = (
        HEAD + "int main() {\n" + SETUP + COPY + "    float x = h[0];\n" + WAIT + "    return x + h[1];\n}\n"
    ).encode()
    index = Index(strict=True)
    index.put("a.cu", text)
    done = fix(index, {"a.cu": text}, lambda row: row.code == "host-read-before-sync", lambda path: True)
    assert len(done.done) == 1
    shown = [r.code for r in done.rows if r.confidence != "possible" and BY_CODE[r.code].default]
    assert shown == ["redundant-sync"]
