"""Macros that tell their line: what they print changes when lines come or go."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import ProofState

from tests.pure.proof.twins import END, HEAD, MAIN, line_text, proof_of

TELL = '#define TELL(text) std::printf("%d %s", __LINE__, text)\n'
CASES = {
    "a log": (TELL, 'TELL("done");'),
    "a log through another macro": (TELL + '#define DONE() TELL("done")\n', "DONE();"),
    "a log behind a branch": (TELL, 'if (n > 3) TELL("done");'),
    "a log of calls": ("#define LOG(x) std::printf(\"%d %d\", __LINE__, (int)(x))\n", "LOG(cudaGetLastError());"),
}  # fmt: skip


@pytest.mark.parametrize(("macro", "use"), CASES.values(), ids=CASES.keys())
def test_a_line_that_is_told_moves(macro: str, use: str) -> None:
    body = f"""\
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
    {use}  //!
"""
    text = HEAD + macro + MAIN + body + END
    proof = proof_of(text)
    assert proof.state is ProofState.UNTESTED
    assert "//!" in line_text(text, proof.findings[0])


def test_a_check_may_tell_its_line() -> None:
    macro = "#define OK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { std::printf(\"%d\", __LINE__); std::exit(1); } } while (0)\n"  # fmt: skip
    body = """\
    fill<<<64,256>>>(a,n);
    OK(cudaDeviceSynchronize());  //-
    OK(cudaMemset(b,0,n));
    OK(cudaDeviceSynchronize());
"""
    proof = proof_of(HEAD + macro + MAIN + body + END)
    assert proof.state is ProofState.PROVED, proof.findings
