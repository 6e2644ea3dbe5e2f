"""Calls that come or go: what they end, overwrite or leave behind. Each was once said to be proved."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import ProofState

from tests.pure.proof.twins import END, HEAD, MAIN, line_text, proof_of

EVENT = """\
    cudaStream_t s, r; CHECK(cudaStreamCreate(&s)); CHECK(cudaStreamCreate(&r)); cudaEvent_t e;
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    fill<<<64,256,0,s>>>(a,n);
    CHECK(cudaEventRecord(e, s));
    CHECK(cudaStreamWaitEvent(r, e, 0));
    twice<<<64,256,0,r>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
"""
CREATE = "    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));\n"
WAIT = "    CHECK(cudaStreamWaitEvent(r, e, 0));\n"
CASES = {
    "a variable of the host is overwritten": """\
    int count = 5;
    CHECK(cudaGetDevice(&count));  //! //+
    std::printf("%d", count);
""",
    "an event is destroyed before it is waited for": EVENT.replace(
        WAIT, "    CHECK(cudaEventDestroy(e));  //! //+\n" + WAIT
    ),
    "an event is no longer made": EVENT.replace(CREATE, CREATE.rstrip() + "  //! //-\n"),
    "an event is made without times": """\
    cudaEvent_t x, y; float ms = 0;
    CHECK(cudaEventCreate(&x));  //! //-
    CHECK(cudaEventCreateWithFlags(&x, cudaEventDisableTiming));  //+
    CHECK(cudaEventCreate(&y));
    CHECK(cudaEventRecord(x)); fill<<<64,256>>>(a,n); CHECK(cudaEventRecord(y));
    CHECK(cudaEventSynchronize(y));
    cudaEventElapsedTime(&ms, x, y); std::printf("%f", ms);
""",
    "memory that nothing uses, in every round": """\
    float* t = nullptr;
    for (int i = 0; i < 9; ++i) {
    CHECK(cudaMalloc(&t, n*4));  //! //+
    fill<<<64,256>>>(a,n);
    }
    CHECK(cudaDeviceSynchronize());
""",
    "a wait where exceptions are handled": """\
    cudaStream_t s; CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    float* p; CHECK(cudaMallocHost(&p, n*4));
    CHECK(cudaMemcpyAsync(p,a,n*4,cudaMemcpyDeviceToHost,s));
    try { h.at(n) = 1;
    } catch (...) {
    CHECK(cudaStreamSynchronize(s));  //! //-
    std::printf("%f", p[0]); std::exit(1);
    }
    CHECK(cudaStreamSynchronize(s));
""",
    "cudaFree waited for a stream of its own": """\
    float* t; CHECK(cudaMalloc(&t, n*4));  //-
    float* t; CHECK(cudaMallocAsync(&t, n*4, 0));  //+
    cudaStream_t s; CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    fill<<<64,256,0,s>>>(a,n);
    CHECK(cudaFree(t));  //-
    CHECK(cudaFreeAsync(t, 0));  //+
    twice<<<64,256>>>(a,b,n);  //!
    CHECK(cudaDeviceSynchronize());
""",
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_what_a_call_ends_or_overwrites(body: str) -> None:
    text = HEAD + MAIN + body + END
    proof = proof_of(text)
    assert proof.state is not ProofState.PROVED
    assert any("//!" in line_text(text, f) for f in proof.findings), proof.findings


def test_an_event_of_the_change_alone() -> None:
    text = """\
    cudaStream_t s, r; CHECK(cudaStreamCreate(&s)); CHECK(cudaStreamCreate(&r));
    cudaEvent_t filled;  //+
    CHECK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));  //+
    fill<<<64,256,0,s>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    CHECK(cudaEventRecord(filled, s));  //+
    CHECK(cudaStreamWaitEvent(r, filled, 0));  //+
    twice<<<64,256,0,r>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventDestroy(filled));  //+
"""
    proof = proof_of(HEAD + MAIN + text + END)
    assert proof.state is ProofState.PROVED, proof.findings
