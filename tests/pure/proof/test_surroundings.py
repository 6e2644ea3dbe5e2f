"""What stands around the code that is compared and keeps a proof from holding. Each wait here was once said to be spare."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import ProofState

from tests.pure.proof.twins import END, HEAD, MAIN, line_text, proof_of

CLOCK = """\
#include <chrono>
#include <memory>
struct Clock {
    std::chrono::steady_clock::time_point start;
    Clock() { start = std::chrono::steady_clock::now(); }
    ~Clock() { std::printf("%f", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()); }
};
"""
TIMED = """\
    { DECLARED  //!
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    }
    CHECK(cudaDeviceSynchronize());
"""
CASES = {
    "a base that measures": (CLOCK + "struct Job : Clock { int id; };\n", TIMED.replace("DECLARED", "Job job;")),
    "a member that measures": (CLOCK + "struct Job { int id; Clock clock; };\n", TIMED.replace("DECLARED", "Job job;")),
    "another name of what measures": (CLOCK + "using Job = Clock;\n", TIMED.replace("DECLARED", "Job job;")),
    "a container of what measures": (CLOCK, TIMED.replace("DECLARED", "std::vector<Clock> clocks(1);")),
    "a pointer that owns what measures": (CLOCK, TIMED.replace("DECLARED", "auto clock = std::make_unique<Clock>();")),
    "a member that starts a clock": (
        "#include <chrono>\nstruct Job { std::chrono::steady_clock::time_point t = std::chrono::steady_clock::now(); };\n",
        TIMED.replace("DECLARED", "Job job;"),
    ),
    "a clock in assembly": (
        'inline unsigned tick() { unsigned t; asm volatile("rdtsc" : "=a"(t)); return t; }  //!\n',
        """\
    unsigned t0 = tick();
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    std::printf("%u", tick() - t0);
    CHECK(cudaDeviceSynchronize());
""",
    ),
    "memory of another process": (
        "#include <unistd.h>\n",
        """\
    cudaIpcMemHandle_t handle;
    CHECK(cudaIpcGetMemHandle(&handle, a));  //!
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    write(3, "go", 2);
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    ),
    "a handler after which the program goes on": (
        "void may_throw(int n) { if (n > 5) throw 3; }\n",
        """\
    cudaStream_t s; CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    try {
    fill<<<64,256,0,s>>>(a,n);
    CHECK(cudaStreamSynchronize(s));  //-
    may_throw(n);
    CHECK(cudaStreamSynchronize(s));
    } catch (int) { std::printf("goes on"); }  //!
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
""",
    ),
    "a parallel region within a macro": (
        '#define TOGETHER _Pragma("omp parallel for")  //!\n',
        """\
    cudaStream_t s[4];
    TOGETHER
    for (int k = 0; k < 4; ++k) {
    CHECK(cudaStreamCreate(&s[k]));
    fill<<<64,256,0,s[k]>>>(a,n);
    CHECK(cudaStreamSynchronize(s[k]));  //-
    }
    CHECK(cudaDeviceSynchronize());
""",
    ),
}


@pytest.mark.parametrize(("before", "body"), CASES.values(), ids=CASES.keys())
def test_what_is_not_followed_is_unknown(before: str, body: str) -> None:
    text = HEAD + before + MAIN + body + END
    proof = proof_of(text)
    assert proof.state is not ProofState.PROVED
    assert any("//!" in line_text(text, f) for f in proof.findings), proof.findings
