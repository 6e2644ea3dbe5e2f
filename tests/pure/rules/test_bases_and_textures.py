"""Class templates with a base, numbers that a template is given, textures, pointers that outlive their owner, callbacks that
run again: each program is wrong by one line, and right without it."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index

from tests.pure.rules.programs import halves, hazards_in

HEAD = """#include <cuda_runtime.h>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <vector>
#define NB cudaStreamNonBlocking
__global__ void put(float* x) { x[threadIdx.x] = 1; }
__global__ void add(float* x) { x[threadIdx.x] += 1; }
__global__ void look(cudaTextureObject_t t, float* y) { y[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x); }
struct Buffer {
    float* p;
    Buffer() { cudaMalloc(&p, 256); }
    ~Buffer() { cudaFree(p); }
};
"""

# Lines that end in `//-` are in the wrong program only, those that end in `//+` in the right one only.
TWINS = {
    "a constructor of the base, and a policy": ("stream-race-waw", """
struct Ones { static void on(float* x, cudaStream_t s) { put<<<1, 32, 0, s>>>(x); } };
template <class Self> struct Store {
    float* x;
    explicit Store(int n) { cudaMalloc(&x, n); }
    template <class How> void set(cudaStream_t s) { How::on(static_cast<Self*>(this)->all(), s); }
};
struct Grid : Store<Grid> { using Store::Store; float* all() { return x; } };
int main() {
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    Grid grid(256);
    grid.set<Ones>(a);
    grid.set<Ones>(b); //-
    grid.set<Ones>(a); //+
    cudaDeviceSynchronize();
    cudaFree(grid.x);
}
"""),
    "as many slots as the template says": ("stream-race-waw", """
template <int Slots> class Feed {
    std::array<float*, Slots> slot_{};
    std::array<cudaEvent_t, Slots> free_{};
    cudaEvent_t sent_;
    cudaStream_t up_, run_;
    int next_ = 0;
 public:
    Feed() {
        cudaStreamCreateWithFlags(&up_, NB);
        cudaStreamCreateWithFlags(&run_, NB);
        cudaEventCreate(&sent_);
        for (int k = 0; k < Slots; ++k) { cudaMalloc(&slot_[k], 256); cudaEventCreate(&free_[k]); }
    }
    void take(const float* h) {
        const int k = next_++ % Slots;
        cudaStreamWaitEvent(up_, free_[k]); //+
        cudaMemcpyAsync(slot_[k], h, 256, cudaMemcpyHostToDevice, up_);
        cudaEventRecord(sent_, up_);
        cudaStreamWaitEvent(run_, sent_);
        add<<<1, 32, 0, run_>>>(slot_[k]);
        cudaEventRecord(free_[k], run_);
    }
};
int main() {
    float* h;
    cudaMallocHost(&h, 256 * 50);
    Feed<3> feed;
    for (int i = 0; i < 50; ++i) feed.take(h + 64 * i);
    cudaDeviceSynchronize();
}
"""),
    "a texture of memory that is still being written": ("stream-race-raw", """
cudaTextureObject_t made(float* x) {
    cudaResourceDesc of = {};
    of.resType = cudaResourceTypeLinear;
    of.res.linear.devPtr = x;
    of.res.linear.sizeInBytes = 256;
    cudaTextureDesc how = {};
    cudaTextureObject_t t = 0;
    cudaCreateTextureObject(&t, &of, &how, nullptr);
    return t;
}
int main() {
    float *x, *y;
    cudaMalloc(&x, 256);
    cudaMalloc(&y, 256);
    cudaTextureObject_t t = made(x);
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    put<<<1, 32, 0, a>>>(x);
    cudaStreamSynchronize(a); //+
    look<<<1, 32, 0, b>>>(t, y);
    cudaDeviceSynchronize();
}
"""),
    "a pointer into what is given up on some paths": ("use-after-free", """
void run(int few, std::optional<Buffer>& held) {
    float* x = held->p;
    if (few) { cudaDeviceSynchronize(); held.reset(); }
    add<<<1, 32>>>(x); //-
    if (held) add<<<1, 32>>>(x); //+
}
int main(int argc, char**) {
    std::optional<Buffer> held;
    held.emplace();
    run(argc > 2, held);
    cudaDeviceSynchronize();
}
"""),
    "a copy that is asked for": ("double-free", """
struct Shared {
    float* p;
    Shared() { cudaMalloc(&p, 256); }
    Shared(const Shared&) = default; //-
    Shared(const Shared&) = delete; //+
    ~Shared() { cudaFree(p); }
};
void fill(Shared s) { put<<<1, 32>>>(s.p); cudaDeviceSynchronize(); } //-
void fill(Shared& s) { put<<<1, 32>>>(s.p); cudaDeviceSynchronize(); } //+
void f() { Shared s; fill(s); }
int main() { f(); }
"""),
    "a callback that gives back what it does not keep": ("hostfunc-cuda-call", """
struct Store {
    std::vector<void*> kept;
    void back(void* p) {
        if (kept.size() > 2) { cudaFreeHost(p); return; } //-
        kept.push_back(p);
    }
};
struct Note { Store* store; void* p; };
void done(void* about) {
    Note* note = static_cast<Note*>(about);
    note->store->back(note->p);
}
int main() {
    Store store;
    cudaStream_t s;
    cudaStreamCreate(&s);
    float* x;
    cudaMalloc(&x, 256);
    for (int i = 0; i < 20; ++i) {
        void* h;
        cudaMallocHost(&h, 256);
        cudaMemcpyAsync(x, h, 256, cudaMemcpyHostToDevice, s);
        cudaLaunchHostFunc(s, done, new Note{&store, h});
    }
    cudaStreamSynchronize(s);
}
"""),
    "a function of the host that looks at a record": ("host-read-before-sync", """
struct Pair { float *x, *y; int n; };
__global__ void half(Pair p) { int i = threadIdx.x; if (i < p.n) p.y[i] = 0.5f * p.x[i]; }
double total(const Pair& p) {
    double sum = 0, most = 0;
    for (int i = 0; i < p.n; ++i) { sum += p.y[i]; if (p.y[i] > most) most = p.y[i]; }
    for (int i = 0; i < p.n; ++i) sum -= p.y[i] > most / 2 ? most / 4 : p.y[i] * p.y[i] + p.y[i];
    return sum > most ? sum - most : sum + most;
}
int main() {
    Pair p;
    p.n = 32;
    cudaMallocManaged(&p.x, 128);
    cudaMallocManaged(&p.y, 128);
    for (int i = 0; i < 32; ++i) p.x[i] = i;
    half<<<1, 32>>>(p);
    cudaDeviceSynchronize(); //+
    printf("%f", total(p));
    cudaDeviceSynchronize();
}
"""),
}  # fmt: skip


@pytest.mark.parametrize("name", TWINS)
def test_the_wrong_program_is_told_from_the_right_one(name: str) -> None:
    code, text = TWINS[name]
    wrong, right = halves(HEAD + text)
    assert code in hazards_in(wrong)
    assert hazards_in(right) == set()


def test_a_pointer_that_is_tested_as_well() -> None:
    """What names memory that was released on some paths is left alone where a test says that it was not."""
    body = """
int main(int argc, char**) {
    float *x, *other;
    cudaMalloc(&x, 256);
    other = x;
    if (argc > 2) { cudaFree(x); x = nullptr; }
    if (argc <= 2) add<<<1, 32>>>(other);
    if (x == nullptr) cudaMalloc(&x, 256);
    add<<<1, 32>>>(x);
    cudaFree(x);
}
"""
    assert hazards_in(HEAD + body) == set()


def test_two_textures_of_two_buffers() -> None:
    body = """
int main() {
    float *x[2], *y;
    cudaMalloc(&y, 256);
    cudaTextureObject_t t[2];
    for (int i = 0; i < 2; ++i) {
        cudaMalloc(&x[i], 256);
        cudaResourceDesc of = {};
        of.resType = cudaResourceTypeLinear;
        of.res.linear.devPtr = x[i];
        cudaTextureDesc how = {};
        cudaCreateTextureObject(&t[i], &of, &how, nullptr);
    }
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    put<<<1, 32, 0, a>>>(x[0]);
    look<<<1, 32, 0, b>>>(t[1], y);
    cudaDeviceSynchronize();
}
"""
    assert hazards_in(HEAD + body) == set()


PART = """
__global__ void sometimes(cudaTextureObject_t t, float* y, int n) { if (n > 5) y[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x); }
__global__ void never(cudaTextureObject_t t, float* y, int n) { y[threadIdx.x] = n; }
void run(float* x, float* y, int n) {
    cudaTextureObject_t t;
    cudaResourceDesc of = {};
    of.resType = cudaResourceTypeLinear;
    of.res.linear.devPtr = x + FIRST;
    of.res.linear.sizeInBytes = 256;
    cudaTextureDesc how = {};
    cudaCreateTextureObject(&t, &of, &how, nullptr);
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaMemsetAsync(x, 0, 256, a);
    KERNEL<<<1, 32, 0, b>>>(t, y, n);
    cudaDeviceSynchronize();
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    cudaDestroyTextureObject(t);
}
"""


@pytest.mark.parametrize(
    ("kernel", "first", "expected"),
    [
        ("sometimes", "0", {"likely"}),
        ("sometimes", "64", set()),
        ("sometimes", "32", {"likely"}),
        ("never", "0", set()),
    ],
)
def test_a_texture_of_a_part_and_what_is_made_of_it(kernel: str, first: str, expected: set[str]) -> None:
    index = Index(strict=True)
    index.put("a.cu", (HEAD + PART.replace("FIRST", first).replace("KERNEL", kernel)).encode())
    found = [f for f in index.analyse().findings if f.code == "stream-race-raw"]
    assert {f.confidence.value for f in found} == expected


def test_a_destructor_runs_at_the_closing_brace() -> None:
    """The time that a local takes at the end of its life is told there."""
    text = (
        HEAD
        + """
struct Watch {
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    ~Watch() { std::printf("%f", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()); }
};
void work(float* x) {
    Watch watch;
    add<<<1, 32>>>(x);
}  // here
int main() { float* x; cudaMalloc(&x, 256); work(x); cudaDeviceSynchronize(); cudaFree(x); }
"""
    )
    index = Index(strict=True)
    index.put("a.cu", text.encode())
    (found,) = [f for f in index.analyse().findings if f.code == "timing-unsynced"]
    begins = text.index("void work")
    assert text[begins + found.site.span[0] :].startswith("}  // here")
