"""Programs with messages between processes, stencils, raw pointers given to thrust, lists that a constructor fills and events
that are recorded too late: each is wrong by one line, and right without it."""

from __future__ import annotations

import pytest

from tests.pure.rules.programs import halves, hazards_in

HEAD = """#include <cuda_runtime.h>
#include <mpi.h>
#include <vector>
#include <thrust/transform.h>
#include <thrust/execution_policy.h>
#define NB cudaStreamNonBlocking
__global__ void put(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = i; }
__global__ void take(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }
__global__ void smooth(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) y[i] = 0.25f * x[i - 1] + 0.5f * x[i] + 0.25f * x[i + 1];
}
__global__ void smooth2d(const float* x, float* y, int w, int h) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i > 0 && j > 0 && i < w - 1 && j < h - 1)
        y[j * w + i] = x[j * w + i] + x[(j - 1) * w + i] + x[(j + 1) * w + i] + x[j * w + i - 1] + x[j * w + i + 1];
}
struct Half { __host__ __device__ float operator()(float x) const { return x / 2; } };
"""

# Lines that end in `//-` are in the wrong program only, those that end in `//+` in the right one only.
TWINS = {
    "device memory goes into a message": ("host-read-before-sync", """
void f(float* x, cudaStream_t s, int to) {
    float* out;
    cudaMalloc(&out, 4096);
    put<<<4, 256, 0, s>>>(out, 1024);
    cudaStreamSynchronize(s); //+
    MPI_Send(out, 1024, MPI_FLOAT, to, 0, MPI_COMM_WORLD);
    cudaStreamSynchronize(s);
    cudaFree(out);
}"""),
    "an earlier call of MPI does not wait for the device": ("host-read-before-sync", """
void f(float* in, cudaStream_t s, int to) {
    float* out;
    MPI_Request r[2];
    cudaMalloc(&out, 4096);
    put<<<4, 256, 0, s>>>(out, 1024);
    MPI_Irecv(in, 1024, MPI_FLOAT, to, 0, MPI_COMM_WORLD, &r[0]);
    cudaStreamSynchronize(s); //+
    MPI_Isend(out + 512, 512, MPI_FLOAT, to, 0, MPI_COMM_WORLD, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    cudaStreamSynchronize(s);
    cudaFree(out);
}"""),
    "a message arrives in device memory that is still read": ("host-write-before-copy-done", """
void f(float* y, cudaStream_t s, int from) {
    float* in;
    cudaMalloc(&in, 4096);
    cudaMemset(in, 0, 4096);
    take<<<4, 256, 0, s>>>(in, y, 1024);
    cudaStreamSynchronize(s); //+
    MPI_Recv(in, 1024, MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    cudaStreamSynchronize(s);
    cudaFree(in);
}"""),
    "the inner points of a stencil feed another one": ("stream-race-raw", """
void f(const float* x, float* y, int n) {
    cudaStream_t a, b;
    cudaEvent_t e;
    float* t;
    cudaStreamCreateWithFlags(&a, NB); cudaStreamCreateWithFlags(&b, NB); cudaEventCreate(&e);
    cudaMalloc(&t, n * sizeof(float));
    smooth<<<n / 256, 256, 0, a>>>(x, t, n);
    cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e, 0); //+
    smooth<<<n / 256, 256, 0, b>>>(t, y, n);
}"""),
    "a stencil in two dimensions": ("stream-race-raw", """
void f(const float* x, float* y, int w, int h, dim3 g, dim3 t) {
    cudaStream_t a, b;
    cudaEvent_t e;
    float* m;
    cudaStreamCreateWithFlags(&a, NB); cudaStreamCreateWithFlags(&b, NB); cudaEventCreate(&e);
    cudaMalloc(&m, w * h * sizeof(float));
    smooth2d<<<g, t, 0, a>>>(x, m, w, h);
    cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e, 0); //+
    smooth2d<<<g, t, 0, b>>>(m, y, w, h);
}"""),
    "raw pointers to managed memory given to thrust": ("host-read-before-sync", """
float f(cudaStream_t s) {
    float *a, *b;
    const int n = 1000;
    cudaMallocManaged(&a, n * 4);
    cudaMallocManaged(&b, n * 4);
    for (int i = 0; i < n; ++i) a[i] = i;
    thrust::transform(thrust::cuda::par_nosync.on(s), a, a + n, b, Half{});
    cudaStreamSynchronize(s); //+
    return b[17];
}"""),
    "counts that cub adds up": ("stream-race-raw", """
__global__ void tally(const int* k, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[k[i]], 1);
}
void f(const int* k, int n, void* temp, size_t bytes) {
    cudaStream_t a, b;
    cudaEvent_t e;
    int *bins, *sums;
    cudaStreamCreateWithFlags(&a, NB); cudaStreamCreateWithFlags(&b, NB); cudaEventCreate(&e);
    cudaMalloc(&bins, 4096); cudaMalloc(&sums, 4096);
    tally<<<n / 256, 256, 0, a>>>(k, bins, n);
    cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e, 0); //+
    cub::DeviceScan::ExclusiveSum(temp, bytes, bins, sums, 1024, b);
    cudaDeviceSynchronize();
    cudaFree(bins); cudaFree(sums);
}"""),
    "buffers that a constructor puts into a list": ("stream-race-raw", """
struct Part { float* g; cudaEvent_t done; };
struct Parts {
    explicit Parts(int count) {
        cudaStreamCreateWithFlags(&a, NB);
        cudaStreamCreateWithFlags(&b, NB);
        for (int i = 0; i < count; ++i) {
            Part p;
            cudaMalloc(&p.g, 4096);
            cudaEventCreate(&p.done);
            all.push_back(p);
        }
    }
    void go(float* y) {
        for (auto& p : all) {
            put<<<4, 256, 0, a>>>(p.g, 1024);
            cudaEventRecord(p.done, a);
        }
        for (auto& p : all) {
            cudaStreamWaitEvent(b, p.done, 0); //+
            take<<<4, 256, 0, b>>>(p.g, y, 1024);
        }
    }
    cudaStream_t a, b;
    std::vector<Part> all;
};
void f(float* y) { Parts parts(3); parts.go(y); }"""),
    "a wait for the event of the next round": ("event-wait-before-record", """
void f() {
    const int parts = 3;
    cudaStream_t s[parts];
    cudaEvent_t ready[parts];
    float *x[parts], *y[parts];
    for (int p = 0; p < parts; ++p) {
        cudaStreamCreateWithFlags(&s[p], NB);
        cudaEventCreate(&ready[p]);
        cudaMalloc(&x[p], 4096);
        cudaMalloc(&y[p], 4096);
    }
    for (int p = 0; p < parts; ++p) {
        put<<<4, 256, 0, s[p]>>>(x[p], 1024);
        cudaEventRecord(ready[p], s[p]);
    } //+
    for (int p = 0; p < parts; ++p) { //+
        int next = (p + 1) % parts;
        cudaStreamWaitEvent(s[p], ready[next], 0);
        take<<<4, 256, 0, s[p]>>>(x[next], y[p], 1024);
    }
    cudaDeviceSynchronize();
}"""),
}  # fmt: skip

CLEAN = {
    "another part of the memory goes into the message": """
void f(cudaStream_t s, int to) {
    float* x;
    cudaMalloc(&x, 8192);
    put<<<4, 256>>>(x, 1024);
    cudaDeviceSynchronize();
    put<<<4, 256, 0, s>>>(x + 1024, 1024);
    MPI_Send(x, 1024, MPI_FLOAT, to, 0, MPI_COMM_WORLD);
    cudaStreamSynchronize(s);
}""",
    "a list that code elsewhere fills": """
struct Lane { cudaStream_t s; };
struct Lanes {
    Lanes();
    void open(int count);
    void wait() { for (auto& l : all) cudaStreamSynchronize(l.s); }
    std::vector<Lane> all;
};
struct Plain { std::vector<Lane> all; void open(int count); };
float f(float* h, float* d) {
    Plain lanes;
    lanes.open(2);
    cudaHostAlloc(&h, 4096, 0);
    for (auto& l : lanes.all) cudaMemcpyAsync(h, d, 4096, cudaMemcpyDeviceToHost, l.s);
    for (auto& l : lanes.all) cudaStreamSynchronize(l.s);
    return h[0];
}""",
    "a ring whose first rounds wait for nothing": """
void f(float* y, const float* h, int n) {
    cudaStream_t a, b;
    cudaEvent_t full[2], empty[2];
    float* x[2];
    cudaStreamCreateWithFlags(&a, NB); cudaStreamCreateWithFlags(&b, NB);
    for (int k = 0; k < 2; ++k) { cudaEventCreate(&full[k]); cudaEventCreate(&empty[k]); cudaMalloc(&x[k], 4096); }
    for (int i = 0; i < n; ++i) {
        cudaStreamWaitEvent(a, empty[i % 2], 0);
        cudaMemcpyAsync(x[i % 2], h + i * 1024, 4096, cudaMemcpyHostToDevice, a);
        cudaEventRecord(full[i % 2], a);
        cudaStreamWaitEvent(b, full[i % 2], 0);
        take<<<4, 256, 0, b>>>(x[i % 2], y, 1024);
        cudaEventRecord(empty[i % 2], b);
    }
    cudaDeviceSynchronize();
}""",
}


def codes_in(text: str) -> set[str]:
    return hazards_in(HEAD + text)


@pytest.mark.parametrize(("code", "text"), TWINS.values(), ids=TWINS)
def test_one_line_makes_the_difference(code: str, text: str) -> None:
    wrong, right = halves(text)
    assert code in codes_in(wrong)
    assert codes_in(right) == set()


@pytest.mark.parametrize("text", CLEAN.values(), ids=CLEAN)
def test_a_clean_program_is_left_alone(text: str) -> None:
    assert codes_in(text) == set()
