"""What is told apart only by a template argument, or by what a library or another device keeps."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import ProofState

from tests.pure.proof.twins import END, HEAD, MAIN, line_text, proof_of

CASES = {
    "a stream that a template argument picks": (
        """\
cudaStream_t lanes[2];
template <int K> void put(float* x, int n) {
    fill<<<64,256,0,lanes[K]>>>(x,n);  //!
}
""",
        """\
    CHECK(cudaStreamCreate(&lanes[0])); CHECK(cudaStreamCreate(&lanes[1]));
    put<0>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    put<1>(a,n);
    CHECK(cudaDeviceSynchronize());
""",
    ),
    "the workspace of a library": (
        "#include <cublas_v2.h>\n",
        """\
    cublasHandle_t handle; cublasCreate(&handle); void* space; CHECK(cudaMalloc(&space, 1 << 22));
    cublasSetWorkspace(handle, space, 1 << 22);
    float one = 1, zero = 0;
    CHECK(cudaFree(space));  //! //+
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 64, 64, 64, &one, a, 64, a, 64, &zero, b, 64);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(space));  //-
""",
    ),
    "a pool and a peer": (
        "",
        """\
    float* t;
    CHECK(cudaMalloc(&t, n*4));  //-
    CHECK(cudaMallocAsync(&t, n*4, 0));  //+
    fill<<<64,256>>>(t,n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(1)); CHECK(cudaDeviceEnablePeerAccess(0, 0));
    fill<<<64,256>>>(t,n);  //!
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(t));  //-
    CHECK(cudaFreeAsync(t, 0));  //+
""",
    ),
}


@pytest.mark.parametrize(("before", "body"), CASES.values(), ids=CASES.keys())
def test_what_is_not_told_apart(before: str, body: str) -> None:
    text = HEAD + before + MAIN + body + END
    proof = proof_of(text)
    assert proof.state is not ProofState.PROVED
    assert any("//!" in line_text(text, f) for f in proof.findings), proof.findings
