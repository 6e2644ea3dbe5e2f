"""A CUDA file of any length, always the same: kernels and host functions with streams, copies and a hazard here and there."""

from __future__ import annotations

UNIT = """\
__global__ void scale_{n}(const float *__restrict__ in, float *__restrict__ out, float factor, int count) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {{
    out[i] = in[i] * factor + {n}.0f;
  }}
}}

__global__ void reduce_{n}(const float *in, float *out, int count) {{
  __shared__ float part[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < count ? in[i] : 0.0f;
  __syncthreads();
  for (int step = blockDim.x / 2; step > 0; step /= 2) {{
    if (threadIdx.x < step) {{
      part[threadIdx.x] += part[threadIdx.x + step];
    }}
    __syncthreads();
  }}
  if (threadIdx.x == 0) {{
    out[blockIdx.x] = part[0];
  }}
}}

// Uploads a batch, scales it and brings the block sums back.
float stage_{n}(const float *host, int count) {{
  const int blocks = (count + 255) / 256;
  float *in = nullptr, *scaled = nullptr, *sums = nullptr, *staged = nullptr, *back = nullptr;
  CHECK(cudaMalloc(&in, count * sizeof(float)));
  CHECK(cudaMalloc(&scaled, count * sizeof(float)));
  CHECK(cudaMalloc(&sums, blocks * sizeof(float)));
  CHECK(cudaMallocHost(&staged, count * sizeof(float)));
  CHECK(cudaMallocHost(&back, blocks * sizeof(float)));
  memcpy(staged, host, count * sizeof(float));
  cudaStream_t copy, work;
  CHECK(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
  cudaEvent_t uploaded;
  CHECK(cudaEventCreateWithFlags(&uploaded, cudaEventDisableTiming));
  CHECK(cudaMemcpyAsync(in, staged, count * sizeof(float), cudaMemcpyHostToDevice, copy));
  CHECK(cudaEventRecord(uploaded, copy));
  {wait}CHECK(cudaStreamWaitEvent(work, uploaded, 0));
  scale_{n}<<<blocks, 256, 0, work>>>(in, scaled, 1.5f, count);
  reduce_{n}<<<blocks, 256, 0, work>>>(scaled, sums, count);
  CHECK(cudaMemcpyAsync(back, sums, blocks * sizeof(float), cudaMemcpyDeviceToHost, work));
  CHECK(cudaStreamSynchronize(work));
  float total = 0.0f;
  for (int i = 0; i < blocks; ++i) {{
    total += back[i];
  }}
  CHECK(cudaEventDestroy(uploaded));
  CHECK(cudaStreamDestroy(copy));
  CHECK(cudaStreamDestroy(work));
  CHECK(cudaFreeHost(back));
  CHECK(cudaFreeHost(staged));
  CHECK(cudaFree(sums));
  CHECK(cudaFree(scaled));
  CHECK(cudaFree(in));
  return total;
}}

"""
HEAD = """\
#include <cstring>
#include <cuda_runtime.h>

#define CHECK(call)               \\
  do {                            \\
    if ((call) != cudaSuccess) {  \\
      return 0.0f;                \\
    }                             \\
  } while (0)

"""
EDIT_AT = "1.5f"  # a number inside one host function is typed anew in each edit


def generated(lines: int) -> str:
    """About `lines` lines; every 25th stage lacks the wait that orders it."""
    parts, count, n = [HEAD], HEAD.count("\n"), 0
    while count < lines:
        part = UNIT.format(n=n, wait="// " if n % 25 == 24 else "")
        parts.append(part)
        count += part.count("\n")
        n += 1
    return "".join(parts)
