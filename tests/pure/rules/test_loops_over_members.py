"""Two loops over one family of streams, buffers and events: nothing between them waits, or something waits for each member."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.index import Index

HEAD = """#include <cuda_runtime.h>
#include <thread>
#include <vector>
__global__ void put(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
__global__ void take(const float* x, float* y) { y[blockIdx.x * blockDim.x + threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x]; }
float f(int n) {
  DECLARED
  float *all, *back;
  cudaMalloc(&all, N * 4096); cudaMallocHost(&back, N * 4096);
  for (int l = 0; l < N; ++l) {
    cudaMalloc(&d[l], 4096); cudaMalloc(&y[l], 4096); cudaMallocHost(&h[l], 4096);
    cudaEventCreate(&e[l]);
    cudaStreamCreateWithFlags(&s[l], cudaStreamNonBlocking); cudaStreamCreateWithFlags(&t[l], cudaStreamNonBlocking);
  }
  cudaDeviceSynchronize();
  float sum = 0;
  BODY
  cudaDeviceSynchronize();
  return sum;
}
"""
ARRAYS = "const int N = {}; cudaStream_t s[N], t[N]; cudaEvent_t e[N]; float *d[N], *y[N], *h[N];"
VECTORS = "const int N = n; std::vector<cudaStream_t> s(N), t(N); std::vector<cudaEvent_t> e(N); std::vector<float*> d(N), y(N), h(N);"
FAMILIES = [ARRAYS.format(8), ARRAYS.format(16), VECTORS]

LOOP = "for (int l = 0; l < N; ++l)"
PUT = "put<<<4, 256, 0, s[l]>>>(d[l]);"
TAKE = "take<<<4, 256, 0, t[l]>>>(d[l], y[l]);"
COPY = "cudaMemcpyAsync(h[l], d[l], 4096, cudaMemcpyDeviceToHost, s[l]);"
CHUNK = "cudaMemcpyAsync(back + l * 1024, all + l * 1024, 4096, cudaMemcpyDeviceToHost, s[l]);"
PARTIAL = CHUNK.replace("4096", "l + 1 < N ? 4096 : 40")
SYNC = "cudaStreamSynchronize(s[l]);"


def shown(declared: str, body: str) -> set[str]:
    index = Index(strict=True)
    index.put("a.cu", HEAD.replace("DECLARED", declared).replace("BODY", body).encode())
    found = (f for f in index.analyse().findings if f.confidence is not Confidence.POSSIBLE)
    return {f.code for f in found if f.group == "correctness" and f.code != "leak"}


@pytest.mark.parametrize("declared", FAMILIES)
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (f"{LOOP} {PUT} {LOOP} {TAKE}", "stream-race-raw"),
        (f"{LOOP} {{ {PUT} cudaEventRecord(e[l], s[l]); }} {LOOP} {TAKE}", "stream-race-raw"),
        (f"{LOOP} {PUT} for (int k = 0; k < N; k++) take<<<4, 256, 0, t[k]>>>(d[k], y[k]);", "stream-race-raw"),
        (f"{LOOP} {TAKE} {LOOP} {PUT}", "stream-race-war"),
        (f"{LOOP} {PUT} {LOOP} cudaMemsetAsync(d[l], 0, 4096, t[l]);", "stream-race-waw"),
        (f"{LOOP} {COPY} {LOOP} sum += h[l][0];", "host-read-before-sync"),
        (f"{LOOP} {PUT} {LOOP} cudaFreeAsync(d[l], t[l]);", "free-in-flight"),
        (f"{LOOP} {CHUNK} {LOOP} sum += back[l * 1024];", "host-read-before-sync"),
    ],
)
def test_nothing_between_waits(declared: str, body: str, code: str) -> None:
    assert code in shown(declared, body)


@pytest.mark.parametrize("declared", FAMILIES)
@pytest.mark.parametrize(
    "body",
    [
        f"{LOOP} {PUT} {LOOP} {SYNC} {LOOP} {TAKE}",
        f"{LOOP} {PUT} {LOOP} {{ {SYNC} {TAKE} }}",
        f"{LOOP} {{ {PUT} {SYNC} }} {LOOP} {TAKE}",
        f"{LOOP} {PUT} cudaDeviceSynchronize(); {LOOP} {TAKE}",
        f"{LOOP} {{ {PUT} cudaEventRecord(e[l], s[l]); }} {LOOP} {{ cudaStreamWaitEvent(t[l], e[l], 0); {TAKE} }}",
        f"{LOOP} {{ {PUT} cudaEventRecord(e[l], s[l]); cudaStreamWaitEvent(t[l], e[l], 0); }} {LOOP} {TAKE}",
        f"{LOOP} {{ {PUT} cudaEventRecord(e[l], s[l]); }} {LOOP} cudaEventSynchronize(e[l]); {LOOP} {TAKE}",
        f"{LOOP} {PUT} {LOOP} take<<<4, 256, 0, s[l]>>>(d[l], y[l]);",
        f"{LOOP} {{ {PUT} take<<<4, 256, 0, s[l]>>>(d[l], y[l]); }} {LOOP} {SYNC}",
        f"{LOOP} {COPY} {LOOP} {{ while (cudaStreamQuery(s[l]) == cudaErrorNotReady) {{}} sum += h[l][0]; }}",
        f"{LOOP} {COPY} for (int l = N - 1; l >= 0; --l) {{ {SYNC} sum += h[l][0]; }}",
        f"{LOOP} {COPY} {LOOP} {SYNC} {LOOP} cudaStreamDestroy(s[l]); {LOOP} sum += h[l][0];",
        f"{LOOP} {CHUNK} {LOOP} {SYNC} {LOOP} sum += back[l * 1024];",
        f"{LOOP} {PARTIAL} {LOOP} {{ {SYNC} sum += back[l * 1024]; }}",
        f"for (int l = 0; l < N; l += 2) {PUT} for (int l = 1; l < N; l += 2) {TAKE}",
        f"{LOOP} put<<<4, 256, 0, s[l]>>>(d[l]); {LOOP} take<<<4, 256, 0, t[l]>>>(y[l], h[l]);",
        f"{LOOP} put<<<4, 256, 0, s[l % N]>>>(d[l % N]); {LOOP} take<<<4, 256, 0, s[l % N]>>>(d[l % N], y[l % N]);",
        f"{LOOP} {{ if (l >= 4) cudaStreamSynchronize(s[l - 4]); {COPY} }} {LOOP} {{ {SYNC} sum += h[l][0]; }}",
        f"{LOOP} {COPY} for (auto& each : s) cudaStreamSynchronize(each); {LOOP} sum += h[l][0];",
        f"{LOOP} {COPY} {LOOP} cudaStreamSynchronize(t[l]); cudaStreamSynchronize(0); {LOOP} {SYNC} {LOOP} sum += h[l][0];",
        f"{LOOP} {PUT} {LOOP} cudaFreeAsync(d[l], s[l]);",
        f"{LOOP} {PUT} {LOOP} {{ {SYNC} cudaFreeAsync(d[l], t[l]); }}",
        f"{LOOP} {PUT} {LOOP} cudaFree(y[l]); {LOOP} {SYNC} {LOOP} cudaFreeAsync(d[l], t[l]);",
        f"{LOOP} {COPY} {LOOP} cudaLaunchHostFunc(s[l], arrived, &sum); wait_until(arrivals); {LOOP} sum += h[l][0];",
        f"{LOOP} {COPY} while (((volatile float*)back)[0] == 0) {{}} {LOOP} sum += h[l][0];",
        f"std::thread w([&] {{ {LOOP} {SYNC} }}); {LOOP} {COPY} w.join(); {LOOP} sum += h[l][0];",
        f"{LOOP} {COPY} std::thread w([&] {{ {LOOP} {SYNC} }}); w.join(); {LOOP} sum += h[l][0];",
        f"{LOOP} {PUT} put<<<4, 256>>>(all); {LOOP} cudaEventRecord(e[l]); cudaEventSynchronize(e[N - 1]); {LOOP} {SYNC} {LOOP} {TAKE}",
        f"{LOOP} {COPY} cudaFree(all); cudaDeviceSynchronize(); {LOOP} sum += h[l][0];",
        f"{LOOP} {{ {COPY} }} {LOOP} finish(s[l]); {LOOP} sum += h[l][0];",
    ],
)
def test_each_member_is_waited_for(declared: str, body: str) -> None:
    assert not shown(declared, body) & {
        "stream-race-raw",
        "stream-race-war",
        "stream-race-waw",
        "host-read-before-sync",
        "free-in-flight",
    }
