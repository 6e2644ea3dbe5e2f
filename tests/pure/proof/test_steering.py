"""Errors that a wait would have brought up, and on which the program acts: a fallback, another try, a status handed on."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import ProofState

from tests.pure.proof.twins import END, HEAD, MAIN, line_text, proof_of

RETURNS = "#define RET(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) return e_; } while (0)\n"
RUN = (
    RETURNS
    + """\
cudaError_t run(float* a, int n, int block) {
    fill<<<64,block>>>(a,n);
    RET(cudaDeviceSynchronize());  //! //-
AGAIN    return cudaSuccess;
}
"""
)
TRIES = """\
    if (run(a, n, 1024) != cudaSuccess) { std::printf("again"); run(a, n, 128); }
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
"""
ASKS = """\
    fill<<<64,256>>>(a,n);
    cudaDeviceSynchronize();  //-
    if (cudaGetLastError() != cudaSuccess) BRANCH  //!
    std::printf("%f", h[0]);
    CHECK(cudaDeviceSynchronize());
"""
CASES = {
    "a status for the caller": (RUN.replace("AGAIN", ""), TRIES),
    "a question with a fallback": ("", ASKS.replace("BRANCH", "{ h[0] = 1; }")),
    "a question with two ways": ("", ASKS.replace("BRANCH", "return 1; else h[0] = 1;")),
}


@pytest.mark.parametrize(("before", "body"), CASES.values(), ids=CASES.keys())
def test_the_program_acts_on_the_status(before: str, body: str) -> None:
    text = HEAD + before + MAIN + body + END
    proof = proof_of(text)
    assert proof.state is not ProofState.PROVED
    assert any("//!" in line_text(text, f) for f in proof.findings), proof.findings


@pytest.mark.parametrize(
    ("before", "body"),
    [
        (RUN.replace("AGAIN", "    twice<<<64,block>>>(a,a,n);\n    RET(cudaDeviceSynchronize());\n"), TRIES),
        ("", ASKS.replace("BRANCH", "return 1;")),
    ],
    ids=["the same function says it later", "the program ends"],
)
def test_the_status_comes_to_the_same(before: str, body: str) -> None:
    proof = proof_of(HEAD + before + MAIN + body + END)
    assert proof.state is ProofState.PROVED, proof.findings
