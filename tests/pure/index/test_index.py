"""Caches, cancellation, robustness and merging of the index."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.findings.suppressions import suppressions
from stitchcuda.analysis.index import Analysis, CancelToken, Index
from stitchcuda.analysis.index import index as index_module
from stitchcuda.analysis.order.execute import execute_entry
from stitchcuda.analysis.rules import BY_CODE

KERNELS = b"""
__global__ void produce(float* out) { out[threadIdx.x] = 1; }
__global__ void consume(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
"""
HELPER = b"""
void run(float* x, float* y, cudaStream_t a, cudaStream_t b) {
    produce<<<1, 256, 0, a>>>(x);
    consume<<<1, 256, 0, b>>>(x, y);
}
"""
MAIN = b"""
int NAME() {
    float *x, *y;
    cudaStream_t a, b;
    cudaMalloc(&x, 1024); cudaMalloc(&y, 1024);
    cudaStreamCreate(&a); cudaStreamCreate(&b);
    run(x, y, a, b);
    cudaDeviceSynchronize();
    return 0;
}
"""


def entry(name: str) -> bytes:
    return MAIN.replace(b"NAME", name.encode())


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The entries that were executed, in order."""
    names: list[str] = []
    original = execute_entry

    def counted(program: object, uid: str, **more: object) -> object:
        names.append(uid.rsplit("::", 1)[-1])
        return original(program, uid, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(index_module, "execute_entry", counted)
    return names


def codes(analysis: Analysis) -> list[str]:
    """Of the default selection, at the default confidence."""
    return [f.code for f in analysis.findings if BY_CODE[f.code].default and f.confidence is not Confidence.POSSIBLE]


def test_one_finding_for_a_helper_that_several_entries_call() -> None:
    index = Index(strict=True)
    index.put("a.cu", KERNELS + HELPER + entry("first") + entry("second"))
    analysis = index.analyse()
    assert len(analysis.timelines) == 2
    assert codes(analysis) == ["stream-race-raw"]


def test_only_what_an_edit_touched_runs_again(executed: list[str]) -> None:
    index = Index(strict=True)
    text = (
        KERNELS
        + HELPER
        + entry("first")
        + entry("second").replace(b"run(", b"other(")
        + b"void other(float*, float*, cudaStream_t, cudaStream_t) {}\n"
    )
    index.put("a.cu", text)
    before = index.analyse()
    assert sorted(executed) == ["first", "second"]
    executed.clear()
    index.analyse()
    assert executed == []
    index.put("a.cu", text.replace(b"int first() {", b"int first() {\n    int unused = 1;"))
    after = index.analyse()
    assert executed == ["first"]
    executed.clear()
    index.put("a.cu", text.replace(b"(x);\n    consume", b"(y);\n    consume"))
    assert codes(index.analyse()) == ["stream-race-waw"], "now both write `y`"
    assert executed == ["first"]
    assert codes(before) == codes(after) == ["stream-race-raw"]


def test_places_move_with_the_text(executed: list[str]) -> None:
    index = Index(strict=True)
    text = KERNELS + HELPER + entry("main")
    index.put("a.cu", text)
    first = index.analyse()
    executed.clear()
    moved = b"// a comment\n" + text
    index.put("a.cu", moved)
    second = index.analyse()
    assert executed == []
    spans = []
    for analysis, source in ((first, text), (second, moved)):
        where = analysis.program.locate(analysis.findings[0].site)
        spans.append(source[where.start : where.end])
    assert spans[0] == spans[1] == b"consume<<<1, 256, 0, b>>>(x, y)"


def test_a_kernel_edit_reaches_its_callers() -> None:
    index = Index(strict=True)
    text = KERNELS + HELPER + entry("main")
    index.put("a.cu", text)
    assert codes(index.analyse()) == ["stream-race-raw"]
    index.put("a.cu", text.replace(b"out[threadIdx.x] = in[threadIdx.x]", b"out[threadIdx.x] = 2"))
    assert codes(index.analyse()) == []


def test_files_come_and_go() -> None:
    index = Index(strict=True)
    index.put("kernels.cuh", KERNELS)
    index.put("main.cu", b'#include "kernels.cuh"\n' + HELPER + entry("main"))
    assert codes(index.analyse()) == ["stream-race-raw"]
    index.drop("main.cu")
    assert index.analyse().timelines == ()
    index.drop("main.cu")


def test_macros_of_headers() -> None:
    index = Index(strict=True)
    index.put("check.h", b"#define LAUNCH(k, s, ...) k<<<1, 256, 0, s>>>(__VA_ARGS__)\n")
    main = HELPER.replace(b"consume<<<1, 256, 0, b>>>(x, y)", b"LAUNCH(consume, b, x, y)") + entry("main")
    index.put("main.cu", b'#include "check.h"\n' + KERNELS + main)
    assert codes(index.analyse()) == ["stream-race-raw"]


def test_cancel() -> None:
    index = Index(strict=True)
    index.put("a.cu", KERNELS + HELPER + entry("main"))
    token = CancelToken()
    token.cancel()
    assert not index.analyse(token).complete
    assert index.analyse().complete


def test_internal_errors_become_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(index_module, "execute_entry", broken)
    index = Index()
    index.put("a.cu", KERNELS + HELPER + entry("main"))
    (problem,) = index.analyse().problems
    assert problem.path == "a.cu" and problem.line > 0 and "KeyError" in problem.what
    strict = Index(strict=True)
    strict.put("a.cu", KERNELS + HELPER + entry("main"))
    with pytest.raises(KeyError):
        strict.analyse()


def test_findings_that_every_path_must_share() -> None:
    """A wait in a helper goes only when no caller needs it."""
    text = b"""
__global__ void k(float* v) { v[threadIdx.x] += 1; }
void step(float* v, cudaStream_t a, cudaStream_t b) {
    k<<<1, 64, 0, a>>>(v);
    cudaStreamSynchronize(a);
    k<<<1, 64, 0, b>>>(v);
}
int one_stream() {
    float *v, h[64];
    cudaMalloc(&v, 256);
    cudaStream_t a;
    cudaStreamCreate(&a);
    step(v, a, a);
    cudaMemcpy(h, v, 256, cudaMemcpyDeviceToHost);
    return h[0];
}
"""
    two = b"""
int two_streams() {
    float *v, h[64];
    cudaMalloc(&v, 256);
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    step(v, a, b);
    cudaMemcpy(h, v, 256, cudaMemcpyDeviceToHost);
    return h[0];
}
"""
    index = Index(strict=True)
    index.put("a.cu", text)
    assert codes(index.analyse()) == ["redundant-sync"]
    index.put("a.cu", text + two)
    assert codes(index.analyse()) == []


def test_suppression_comments() -> None:
    text = b"""int a;  // stitchcuda: ignore[one, two] because
// stitchcuda: ignore[three]
// another comment
int b;
/* stitchcuda: ignore[four] why */ int c;
"""
    found = suppressions(text)
    assert [(s.codes, s.reason, sorted(s.covers)) for s in found] == [
        (("one", "two"), "because", [0]),
        (("three",), "", [1, 3]),
        (("four",), "why", [4]),
    ]


def test_a_rule_that_asks_about_other_functions_is_asked_again_when_they_change() -> None:
    """Whether an event is recorded anywhere is no question about the entry that waits for it."""
    text = (
        b"void waits(cudaStream_t s) { cudaEvent_t e; cudaEventCreate(&e); cudaStreamWaitEvent(s, e, 0); cudaEventDestroy(e); }\n"
        b"struct Timer { cudaEvent_t e; void start(cudaStream_t s) { NOTE } };\n"
    )
    silent, recording = text.replace(b"NOTE", b"cudaEventQuery(e);"), text.replace(b"NOTE", b"cudaEventRecord(e, s);")
    index = Index(strict=True)
    counts = []
    for each in (silent, recording, silent):
        index.put("a.cu", each)
        counts.append(codes(index.analyse()).count("event-wait-before-record"))
    assert counts == [1, 0, 1]
