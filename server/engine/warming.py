"""What the analysis process does before the first file is opened, while the editor still starts: it analyses a program of its own.

That loads grammars, queries and tables, and code that ran before runs faster. It gives way to every request.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from stitchcuda.analysis.internal_error import where
from stitchcuda.server.engine.messages import Partly, Result, pack

_PATH = "warm-up.cu"
# What programs do most, with hazards, so that findings are made, placed and sent. It is short: whoever opens a file meanwhile waits for a step.
PROGRAM = b"""\
#include <cuda_runtime.h>
#define CHECK(call) do { cudaError_t status = (call); if (status != cudaSuccess) { return 1; } } while (0)
constexpr int kThreads = 128;
struct Batch { float *in; float *out; int count; };

__global__ void fill(float *values, float value, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) { values[i] = value; }
}

__global__ void sum(const float *values, float *sums, int count) {
  __shared__ float part[kThreads];
  part[threadIdx.x] = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) { part[threadIdx.x] += values[i]; }
  __syncthreads();
  for (int step = blockDim.x / 2; step > 0; step >>= 1) {
    if (threadIdx.x < step) { part[threadIdx.x] += part[threadIdx.x + step]; }
    __syncthreads();
  }
  if (threadIdx.x == 0) { atomicAdd(&sums[blockIdx.x], part[0]); }
}

int run(const float *host, float *result, int count) {
  int blocks = (count + kThreads - 1) / kThreads;
  Batch batch{nullptr, nullptr, count};
  CHECK(cudaMalloc(&batch.in, count * sizeof(float)));
  CHECK(cudaMalloc(&batch.out, blocks * sizeof(float)));
  float *staged = nullptr;
  CHECK(cudaMallocHost((void **)&staged, count * sizeof(float)));
  cudaStream_t copy, work;
  CHECK(cudaStreamCreate(&copy));
  CHECK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
  cudaEvent_t done;
  CHECK(cudaEventCreate(&done));
  for (int i = 0; i < count; ++i) { staged[i] = host[i]; }
  CHECK(cudaMemcpyAsync(batch.in, staged, count * sizeof(float), cudaMemcpyHostToDevice, copy));
  fill<<<blocks, kThreads, 0, work>>>(batch.out, 0.0f, blocks);
  CHECK(cudaEventRecord(done, work));
  for (int round = 0; round < 3; ++round) { sum<<<blocks, kThreads, 0, work>>>(batch.in, batch.out, count); }
  CHECK(cudaMemcpyAsync(result, batch.out, blocks * sizeof(float), cudaMemcpyDeviceToHost, copy));
  CHECK(cudaStreamSynchronize(work));
  if (cudaGetLastError() != cudaSuccess) { return 2; }
  CHECK(cudaEventDestroy(done));
  CHECK(cudaStreamDestroy(copy));
  CHECK(cudaStreamDestroy(work));
  CHECK(cudaFreeHost(staged));
  CHECK(cudaFree(batch.out));
  CHECK(cudaFree(batch.in));
  return 0;
}
"""


def warm_up(index: Any, stop: Callable[[], bool]) -> bool:
    """Analyses the program with a new index; ends soon when `stop` is true. Returns whether it is done with."""
    try:
        return _analysed(index, stop)
    except Exception as error:  # noqa: BLE001 - nobody asked for it; what is wrong is met again, and told, with the user's files
        print(f"the warm-up failed: {where(error)}", file=sys.stderr)
        return True
    finally:
        index.drop(_PATH)


def _analysed(index: Any, stop: Callable[[], bool]) -> bool:
    from stitchcuda.server.engine.placing import Interrupted, place_findings, place_outline

    def tell(make: Callable[[], Any]) -> bool:
        known = make()
        return known is not None and bool(pack(Partly({_PATH: 0}, place_findings(known, [_PATH]))))

    index.put(_PATH, PROGRAM)
    analysis = index.analyse(stop, tell, _PATH)
    if not analysis.complete or stop():
        return False
    pack(Result(_PATH, {_PATH: 0}, place_findings(analysis, [_PATH]), True, 0.0))
    try:
        place_outline(analysis, [_PATH], {_PATH: PROGRAM}, lambda path: None, stop)
    except Interrupted:
        return False
    return True
