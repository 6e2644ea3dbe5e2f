"""Waits that come earlier: kernels that wait for the host or for other work would never end."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import ProofState

from tests.pure.proof.twins import END, HEAD, MAIN, line_text, proof_of

KERNELS = """\
__global__ void consume(volatile int* flag, float* out) { while (*flag == 0) {} out[threadIdx.x] = 1; }
__global__ void raise(int* flag) { *flag = 1; }
"""
FLAG = """\
    int* flag; CHECK(cudaHostAlloc(&flag, 4, cudaHostAllocMapped)); *flag = 0;
    float* t; CHECK(cudaMalloc(&t, n*4));
    consume<<<1,32>>>(flag, a);
"""
CASES = {
    "a wait before the host lets the kernel go on": FLAG
    + """\
    CHECK(cudaDeviceSynchronize());  //+
    *flag = 1;  //!
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(t));
""",
    "a free before the host lets the kernel go on": FLAG
    + """\
    CHECK(cudaFree(t));  //+
    *flag = 1;  //!
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(t));  //-
""",
    "an order before the kernel that lets it go on": """\
    int* flag; CHECK(cudaMalloc(&flag, 4)); CHECK(cudaMemset(flag, 0, 4));
    cudaStream_t s, r;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&r, cudaStreamNonBlocking));
    cudaEvent_t up;  //+
    CHECK(cudaEventCreateWithFlags(&up, cudaEventDisableTiming));  //+
    CHECK(cudaDeviceSynchronize());
    consume<<<1,1,0,s>>>(flag, a);
    CHECK(cudaEventRecord(up, s));  //+
    CHECK(cudaStreamWaitEvent(r, up, 0));  //+
    raise<<<1,1,0,r>>>(flag);  //!
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventDestroy(up));  //+
""",
    "a wait before a clock": """\
    clock_t t0 = clock();
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //+
    clock_t t1 = clock();  //!
    CHECK(cudaDeviceSynchronize());
    printf("%ld", (long)(t1-t0));
""",
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_a_wait_that_comes_earlier(body: str) -> None:
    text = HEAD + KERNELS + MAIN + body + END
    proof = proof_of(text)
    assert proof.state is not ProofState.PROVED
    assert any("//!" in line_text(text, f) for f in proof.findings), proof.findings


def test_a_wait_more_between_kernels_that_count() -> None:
    body = "    fill<<<64,256>>>(a,n);\n    CHECK(cudaDeviceSynchronize());  //+\n    twice<<<64,256>>>(a,b,n);\n"
    proof = proof_of(HEAD + MAIN + body + "    CHECK(cudaDeviceSynchronize());\n" + END)
    assert proof.state is ProofState.PROVED, proof.findings
