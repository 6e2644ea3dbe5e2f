"""Records given and assigned as lists, memory that a smart pointer owns and somebody else frees, records that a kernel is given
and indexes that a device function is given: each program is wrong by one line, and right without it."""

from __future__ import annotations

import pytest

from tests.pure.rules.programs import halves, hazards_in

HEAD = """#include <cuda_runtime.h>
#include <memory>
#include <mutex>
#include <vector>
#define NB cudaStreamNonBlocking
struct Field { int w, h; float* cells; };
__global__ void put(float* x) { x[threadIdx.x] = 1; }
__global__ void take(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void fill(Field f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < f.w) f.cells[i] = i;
}
struct Freed { void operator()(void* p) const noexcept { cudaFree(p); } };
template <class T> using Owned = std::unique_ptr<T[], Freed>;
template <class T> Owned<T> made(int n) { void* p; cudaMalloc(&p, n * sizeof(T)); return Owned<T>(static_cast<T*>(p)); }
"""

# Lines that end in `//-` are in the wrong program only, those that end in `//+` in the right one only.
TWINS = {
    "slots that are assigned as lists": ("host-read-before-sync", """
struct Slot { cudaStream_t s; float* h; };
float f(const float* d) {
    std::vector<Slot> slots(2);
    for (int i = 0; i < 2; ++i) {
        cudaStream_t s;
        float* h;
        cudaStreamCreateWithFlags(&s, NB);
        cudaMallocHost(&h, 128);
        slots[i] = {s, h};
    }
    for (auto& slot : slots) cudaMemcpyAsync(slot.h, d, 128, cudaMemcpyDeviceToHost, slot.s);
    cudaStreamSynchronize(slots[0].s); //-
    cudaStreamSynchronize(slots[1].s); //+
    return slots[1].h[0];
}"""),
    "what a callback is given is assigned as a list": ("hostfunc-cuda-call", """
struct Pool {
    std::mutex m;
    std::vector<float*> all;
    void trim() { std::lock_guard<std::mutex> l(m); for (float* p : all) cudaFree(p); }
};
struct Ticket { Pool* pool; int step; };
static int done;
void told(void* p) {
    Ticket* t = static_cast<Ticket*>(p);
    t->pool->trim(); //-
    done = t->step; //+
}
void f(Pool& pool, cudaStream_t s, float* x) {
    static Ticket tickets[2];
    for (int i = 0; i < 2; ++i) {
        put<<<1, 32, 0, s>>>(x);
        tickets[i] = {&pool, i};
        cudaLaunchHostFunc(s, told, &tickets[i]);
    }
    cudaStreamSynchronize(s);
}"""),
    "nodes of a graph that a list names": ("stream-race-raw", """
static cudaGraphNode_t add(cudaGraph_t g, const std::vector<cudaGraphNode_t>& after, void* kernel, void** args) {
    cudaKernelNodeParams p = {};
    p.func = kernel;
    p.gridDim = dim3(1);
    p.blockDim = dim3(32);
    p.kernelParams = args;
    cudaGraphNode_t node;
    cudaGraphAddKernelNode(&node, g, after.data(), after.size(), &p);
    return node;
}
void f(cudaStream_t s) {
    float *x, *y;
    cudaMalloc(&x, 128); cudaMalloc(&y, 128);
    cudaGraph_t g;
    cudaGraphExec_t e;
    cudaGraphCreate(&g, 0);
    void* first[] = {&x};
    void* second[] = {&x, &y};
    cudaGraphNode_t a = add(g, {}, (void*)put, first);
    add(g, {a}, (void*)take, second); //+
    add(g, {}, (void*)take, second); //-
    cudaGraphInstantiate(&e, g, 0);
    cudaGraphLaunch(e, s);
    cudaStreamSynchronize(s);
    cudaFree(x); cudaFree(y);
}"""),
    "a member that owns its memory": ("double-free", """
struct Table {
    Owned<int> keys;
    explicit Table(int n) : keys(made<int>(n)) {}
    void drop() {
        cudaFree(keys.get()); //-
        keys.reset(); //+
    }
};
void f() { Table t(100); t.drop(); }"""),
    "what a function gives, in a variable of type auto": ("double-free", """
void f() {
    auto keys = made<int>(100);
    cudaFree(keys.get()); //-
    keys.reset(); //+
}"""),
    "a pack of pointers that is folded": ("double-free", """
inline void must(cudaError_t e) { if (e != cudaSuccess) throw e; }
template <class... T> void free_all(T*... p) { (must(cudaFree(p)), ...); }
void f() {
    float *x, *y;
    cudaMalloc(&x, 128); cudaMalloc(&y, 128);
    free_all(x, y, x); //-
    free_all(x, y); //+
}"""),
    "a slot by the size of its container, read by a method without calls": ("host-read-before-sync", """
class Slot {
    cudaStream_t s;
    float* host;
    bool busy = false;
public:
    Slot() { cudaStreamCreateWithFlags(&s, NB); cudaMallocHost(&host, 4096); }
    void fetch(const float* d) { cudaMemcpyAsync(host, d, 4096, cudaMemcpyDeviceToHost, s); busy = true; }
    void wait() { cudaStreamSynchronize(s); }
    float sum() {
        float total = 0;
        if (!busy) return total;
        for (int i = 0; i < 1024; ++i) total += host[i];
        busy = false;
        return total;
    }
};
float f(const float* d, int n) {
    std::vector<std::unique_ptr<Slot>> ring(3);
    for (auto& r : ring) r = std::make_unique<Slot>();
    float total = 0;
    for (int i = 0; i < n; ++i) {
        Slot& slot = *ring[i % ring.size()];
        slot.wait(); //+
        total += slot.sum();
        slot.fetch(d);
    }
    for (auto& r : ring) {
        r->wait();
        total += r->sum();
    }
    return total;
}"""),
    "sizes that a kernel finds in a record": ("host-write-before-copy-done", """
void f() {
    Field f{1000, 1, nullptr};
    cudaMallocManaged(&f.cells, 1000 * sizeof(float));
    fill<<<4, 256>>>(f);
    cudaDeviceSynchronize(); //+
    f.cells[17] = 2;
    cudaDeviceSynchronize();
    cudaFree(f.cells);
}"""),
    "an index that a device function is given": ("missing-atomic", """
struct Edges { const int* to; int count; };
__device__ void bump(int* degree, int v) {
    degree[v] += 1; //-
    atomicAdd(&degree[v], 1); //+
}
__global__ void degrees(Edges e, int* degree) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < e.count; i += gridDim.x * blockDim.x) bump(degree, e.to[i]);
}
void f(Edges e, int* degree) { degrees<<<64, 128>>>(e, degree); }"""),
}  # fmt: skip

CLEAN = {
    "a member that is moved on": """
struct Table {
    Owned<int> keys;
    explicit Table(int n) : keys(made<int>(n)) {}
    Owned<int> take() { return std::move(keys); }
};
void f() {
    Table t(100);
    int* p = t.take().release();
    cudaFree(p);
}""",
    "an object that is moved": """
struct Table {
    Owned<float> x;
    explicit Table(int n) : x(made<float>(n)) {}
};
void f() {
    Table a(100);
    Table b(std::move(a));
    put<<<1, 32>>>(b.x.get());
    cudaDeviceSynchronize();
}""",
    "an object that a function returns": """
struct Table {
    Owned<float> x;
    explicit Table(int n) : x(made<float>(n)) {}
};
Table built(int n) { Table t(n); put<<<1, 32>>>(t.x.get()); cudaDeviceSynchronize(); return t; }
void f() {
    Table t = built(100);
    std::vector<Table> all;
    all.push_back(built(200));
    put<<<1, 32>>>(t.x.get());
    put<<<1, 32>>>(all[0].x.get());
    cudaDeviceSynchronize();
}""",
    "a wait where one stage hands over to another stream": """
struct Stage { cudaStream_t s; float* from; float* to; };
void f(float* x, float* y, float* z) {
    cudaStream_t a, b;
    cudaEvent_t e;
    cudaStreamCreateWithFlags(&a, NB); cudaStreamCreateWithFlags(&b, NB); cudaEventCreate(&e);
    std::vector<Stage> stages;
    stages.push_back({a, x, y});
    stages.push_back({a, y, z});
    stages.push_back({b, z, x});
    cudaStream_t last = nullptr;
    for (auto& stage : stages) {
        if (last && last != stage.s) {
            cudaEventRecord(e, last);
            cudaStreamWaitEvent(stage.s, e, 0);
        }
        take<<<1, 32, 0, stage.s>>>(stage.from, stage.to);
        last = stage.s;
    }
    cudaDeviceSynchronize();
}""",
    "two halves of what a record names": """
void f() {
    Field f{500, 1, nullptr};
    cudaMallocManaged(&f.cells, 1000 * sizeof(float));
    fill<<<4, 256>>>(f);
    f.cells[700] = 2;
    cudaDeviceSynchronize();
    cudaFree(f.cells);
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
