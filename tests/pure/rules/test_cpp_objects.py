"""Programs whose streams, events and memory are kept in objects of C++: each is wrong by one line, and right without it."""

from __future__ import annotations

import pytest

from tests.pure.rules.programs import halves, hazards_in

HEAD = """#include <cuda_runtime.h>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <future>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>
#define NB cudaStreamNonBlocking
__global__ void put(float* x) { x[threadIdx.x] = 1; }
__global__ void take(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void tally(const int* k, int* bins) { atomicAdd(&bins[k[threadIdx.x]], 1); }
struct Stream {
    cudaStream_t h = nullptr;
    Stream() { cudaStreamCreateWithFlags(&h, NB); }
    Stream(Stream&& o) noexcept : h(std::exchange(o.h, nullptr)) {}
    Stream& operator=(Stream&& o) noexcept {
        if (this != &o) { if (h) cudaStreamDestroy(h); h = std::exchange(o.h, nullptr); }
        return *this;
    }
    ~Stream() { if (h) cudaStreamDestroy(h); }
    operator cudaStream_t() const { return h; }
};
"""

# Lines that end in `//-` are in the wrong program only, those that end in `//+` in the right one only.
TWINS = {
    "an object that a function makes once": ("stream-race-raw", """
struct Context {
    static Context& get() { static Context one; return one; }
    Context() { cudaStreamCreateWithFlags(&a, NB); cudaStreamCreateWithFlags(&b, NB); cudaEventCreate(&e); }
    cudaStream_t a, b;
    cudaEvent_t e;
    void order() { cudaEventRecord(e, a); cudaStreamWaitEvent(b, e, 0); }
};
void f(float* x, float* y) {
    put<<<1, 32, 0, Context::get().a>>>(x);
    Context::get().order(); //+
    take<<<1, 32, 0, Context::get().b>>>(x, y);
}"""),
    "a static stream that is made once": ("stream-race-raw", """
static cudaStream_t copying() {
    static cudaStream_t s;
    static bool made;
    if (!made) { cudaStreamCreateWithFlags(&s, NB); made = true; }
    return s;
}
void f(float* x, float* y) {
    cudaStream_t other;
    cudaStreamCreateWithFlags(&other, NB);
    put<<<1, 32, 0, copying()>>>(x);
    take<<<1, 32, 0, other>>>(x, y); //-
    take<<<1, 32, 0, copying()>>>(x, y); //+
}"""),
    "parts of a pair": ("stream-race-raw", """
static std::pair<cudaStream_t, cudaEvent_t> lane() {
    cudaStream_t s;
    cudaEvent_t e;
    cudaStreamCreateWithFlags(&s, NB);
    cudaEventCreate(&e);
    return {s, e};
}
void f(float* x, float* y) {
    auto [a, done] = lane();
    auto [b, unused] = lane();
    put<<<1, 32, 0, a>>>(x);
    cudaEventRecord(done, a);
    cudaStreamWaitEvent(b, done, 0); //+
    take<<<1, 32, 0, b>>>(x, y);
}"""),
    "parts of a tuple": ("stream-race-raw", """
static auto lanes() {
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, NB);
    cudaStreamCreateWithFlags(&b, NB);
    return std::make_tuple(a, b);
}
void f(float* x, float* y) {
    const auto both = lanes();
    put<<<1, 32, 0, std::get<0>(both)>>>(x);
    take<<<1, 32, 0, std::get<1>(both)>>>(x, y); //-
    take<<<1, 32, 0, std::get<0>(both)>>>(x, y); //+
}"""),
    "a record that is returned in braces": ("stream-race-raw", """
struct Lane { cudaStream_t stream; cudaEvent_t done; };
static Lane lane() {
    cudaStream_t s;
    cudaEvent_t e;
    cudaStreamCreateWithFlags(&s, NB);
    cudaEventCreate(&e);
    return {s, e};
}
void f(float* x, float* y) {
    Lane a = lane();
    const auto [b, done] = lane();
    put<<<1, 32, 0, a.stream>>>(x);
    cudaEventRecord(a.done, a.stream);
    cudaStreamWaitEvent(b, a.done, 0); //+
    take<<<1, 32, 0, b>>>(x, y);
}"""),
    "streams by name": ("stream-race-raw", """
void f(float* x, float* y) {
    std::map<std::string, cudaStream_t> streams;
    for (const char* name : {"put", "take"}) {
        cudaStream_t s;
        cudaStreamCreateWithFlags(&s, NB);
        streams[name] = s;
    }
    put<<<1, 32, 0, streams["put"]>>>(x);
    for (auto& [name, s] : streams) cudaStreamSynchronize(s); //+
    take<<<1, 32, 0, streams.at("take")>>>(x, y);
}"""),
    "streams by number": ("stream-race-raw", """
struct Worker { cudaStream_t stream; cudaEvent_t done; };
void f(float* x, float* y) {
    std::unordered_map<int, Worker> workers;
    for (int id = 0; id < 2; ++id) {
        Worker w;
        cudaStreamCreateWithFlags(&w.stream, NB);
        cudaEventCreate(&w.done);
        workers.emplace(id, w);
    }
    put<<<1, 32, 0, workers[0].stream>>>(x);
    auto found = workers.find(0);
    if (found != workers.end()) cudaEventRecord(found->second.done, found->second.stream);
    cudaStreamWaitEvent(workers[1].stream, workers[0].done, 0); //+
    take<<<1, 32, 0, workers[1].stream>>>(x, y);
}"""),
    "an optional object": ("stream-race-raw", """
struct Event {
    cudaEvent_t e;
    Event() { cudaEventCreate(&e); }
    ~Event() { cudaEventDestroy(e); }
    void record(cudaStream_t s) { cudaEventRecord(e, s); }
    void block(cudaStream_t s) { cudaStreamWaitEvent(s, e, 0); }
};
void f(float* x, float* y) {
    Stream a, b;
    std::optional<Event> done;
    put<<<1, 32, 0, a>>>(x);
    done.emplace();
    done->record(a);
    done->block(b); //+
    take<<<1, 32, 0, b>>>(x, y);
}"""),
    "a pool that hands out streams": ("stream-race-waw", """
template <std::size_t N> class Pool {
public:
    Pool() { for (auto& s : streams_) cudaStreamCreateWithFlags(&s, NB); }
    cudaStream_t operator[](std::size_t i) const { return streams_[i % N]; }
private:
    std::array<cudaStream_t, N> streams_{};
};
void f(float* x) {
    Pool<4> pool;
    for (int c = 0; c < 8; ++c) {
        put<<<1, 32, 0, pool[c]>>>(x); //-
        put<<<1, 32, 0, pool[c]>>>(x + 32 * c); //+
    }
}"""),
    "a member of the type that a template is given": ("host-write-before-copy-done", """
template <class S> class Uploader {
public:
    Uploader() { cudaMallocHost(&stage_, 64); cudaMalloc(&dev_, 64); }
    void put(float v) {
        cudaStreamSynchronize(s_.h); //+
        stage_[0] = v;
        cudaMemcpyAsync(dev_, stage_, 64, cudaMemcpyHostToDevice, s_.h);
    }
private:
    S s_;
    float *stage_ = nullptr, *dev_ = nullptr;
};
void f() {
    Uploader<Stream> up;
    for (int k = 0; k < 4; ++k) up.put(k);
}"""),
    "a ring behind a method": ("host-read-before-sync", """
struct Frame { cudaEvent_t fence; float* dev; float* host; };
class Ring {
public:
    Ring() {
        for (Frame& f : frames_) {
            cudaEventCreate(&f.fence);
            cudaMalloc(&f.dev, 128);
            cudaMallocHost(&f.host, 128);
        }
    }
    float draw(int index) {
        Frame& f = frames_[index % 2];
        float last = 0;
        if (index >= 2) {
            cudaEventSynchronize(f.fence); //+
            last = f.host[0];
        }
        put<<<1, 32, 0, s_>>>(f.dev);
        cudaMemcpyAsync(f.host, f.dev, 128, cudaMemcpyDeviceToHost, s_);
        cudaEventRecord(f.fence, s_);
        return last;
    }
private:
    Stream s_;
    Frame frames_[2];
};
float run() {
    Ring r;
    float sum = 0;
    for (int i = 0; i < 60; ++i) sum += r.draw(i);
    return sum;
}"""),
    "an object that is assigned": ("use-after-free", """
void f(float* x) {
    Stream s;
    cudaStream_t raw = s;
    put<<<1, 32, 0, raw>>>(x);
    cudaStreamSynchronize(raw);
    s = Stream{};
    raw = s; //+
    put<<<1, 32, 0, raw>>>(x);
}"""),
    "a smart pointer with a deleter": ("free-in-flight", """
struct AsyncDeleter {
    cudaStream_t stream;
    void operator()(float* p) const { cudaFreeAsync(p, stream); }
};
using Memory = std::unique_ptr<float, AsyncDeleter>;
static Memory make(std::size_t n, cudaStream_t s) {
    float* p = nullptr;
    cudaMallocAsync(&p, n, s);
    return Memory(p, AsyncDeleter{s});
}
void f(float* y) {
    Stream a, b;
    Memory tmp = make(128, a);
    cudaStreamSynchronize(a);
    put<<<1, 32, 0, b>>>(tmp.get());
    cudaStreamSynchronize(b); //+
    tmp.reset();
}"""),
    "a move that leaves its source": ("double-free", """
struct Buffer {
    float* p = nullptr;
    int n = 0;
    explicit Buffer(int count) : n(count) { cudaMalloc(&p, n); }
    Buffer(Buffer&& o) noexcept : p(o.p), n(o.n) {
        o.n = 0;
        o.p = nullptr; //+
    }
    ~Buffer() { cudaFree(p); }
};
struct Field { Buffer store; explicit Field(Buffer&& b) : store(std::move(b)) {} };
void f() {
    Buffer raw(128);
    Field field(std::move(raw));
    put<<<1, 32, 0, 0>>>(field.store.p);
}"""),
    "a vector of pinned memory": ("pageable-async", """
template <class T> struct Pinned {
    using value_type = T;
    T* allocate(std::size_t n) { void* p; cudaMallocHost(&p, n * sizeof(T)); return static_cast<T*>(p); }
    void deallocate(T* p, std::size_t) { cudaFreeHost(p); }
};
int main() {
    const int n = 1 << 20;
    std::vector<float> h(n); //-
    std::vector<float, Pinned<float>> h(n); //+
    float* d;
    cudaMalloc(&d, n * sizeof(float));
    cudaStream_t s[4];
    for (auto& t : s) cudaStreamCreateWithFlags(&t, NB);
    for (int c = 0; c < 4; ++c) {
        float* part = d + c * (n / 4);
        cudaMemcpyAsync(part, h.data() + c * (n / 4), n, cudaMemcpyHostToDevice, s[c]);
        put<<<1, 32, 0, s[c]>>>(part);
        cudaMemcpyAsync(h.data() + c * (n / 4), part, n, cudaMemcpyDeviceToHost, s[c]);
    }
    for (auto t : s) cudaStreamSynchronize(t);
}"""),
    "an element that moves up": ("double-free", """
void f() {
    std::vector<float*> v;
    for (int i = 0; i < 3; ++i) { float* p; cudaMalloc(&p, 64); v.push_back(p); }
    cudaFree(v[2]);
    v.erase(v.begin()); //-
    cudaFree(v[1]);
}"""),
    "counts in managed memory": ("host-read-before-sync", """
int f(int* k) {
    int* bins;
    cudaMallocManaged(&bins, 128);
    tally<<<1, 32>>>(k, bins);
    cudaDeviceSynchronize(); //+
    int best = 0;
    for (int b = 0; b < 32; ++b) best = bins[b] > best ? bins[b] : best;
    return best;
}"""),
    "a thread that is joined": ("host-read-before-sync", """
float f(float* d) {
    float* h;
    cudaMallocHost(&h, 128);
    std::thread worker([&] {
        Stream s;
        put<<<1, 32, 0, s>>>(d);
        cudaMemcpyAsync(h, d, 128, cudaMemcpyDeviceToHost, s);
        cudaStreamSynchronize(s); //+
    });
    worker.join();
    return h[0];
}"""),
    "threads of a vector": ("stream-race-raw", """
void work(cudaStream_t s, float* part) {
    put<<<1, 32, 0, s>>>(part);
    cudaStreamSynchronize(s); //+
}
void f(float* x, float* y) {
    cudaStream_t s[3];
    for (auto& t : s) cudaStreamCreateWithFlags(&t, NB);
    std::vector<std::thread> pool;
    for (int w = 0; w < 2; ++w) pool.emplace_back(work, s[w], x + 32 * w);
    for (auto& t : pool) t.join();
    take<<<1, 64, 0, s[2]>>>(x, y);
}"""),
    "work that is awaited": ("host-read-before-sync", """
float f(float* d, cudaStream_t s) {
    float* h;
    cudaMallocHost(&h, 128);
    auto done = std::async(std::launch::async, [=] {
        cudaMemcpyAsync(h, d, 128, cudaMemcpyDeviceToHost, s);
        cudaStreamSynchronize(s); //+
    });
    done.get();
    return h[0];
}"""),
    "variables that are tied": ("stream-race-raw", """
static std::tuple<cudaStream_t, cudaStream_t> lanes() {
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, NB);
    cudaStreamCreateWithFlags(&b, NB);
    return {a, b};
}
void f(float* x, float* y) {
    cudaStream_t a, b;
    std::tie(a, b) = lanes();
    put<<<1, 32, 0, a>>>(x);
    cudaStreamSynchronize(a); //+
    take<<<1, 32, 0, b>>>(x, y);
}"""),
    "pairs in a vector": ("stream-race-raw", """
void f(float* x, float* y) {
    std::vector<std::pair<cudaStream_t, cudaEvent_t>> lanes;
    for (int k = 0; k < 2; ++k) {
        cudaStream_t s;
        cudaEvent_t e;
        cudaStreamCreateWithFlags(&s, NB);
        cudaEventCreate(&e);
        lanes.emplace_back(s, e);
    }
    for (auto& [s, e] : lanes) {
        put<<<1, 32, 0, s>>>(x);
        cudaEventRecord(e, s);
        cudaStreamSynchronize(s);
    }
    put<<<1, 32, 0, lanes[0].first>>>(x);
    cudaEventRecord(lanes[0].second, lanes[0].first);
    cudaStreamWaitEvent(lanes[1].first, lanes[0].second, 0); //+
    take<<<1, 32, 0, lanes[1].first>>>(x, y);
}"""),
    "objects that stand for pointers": ("host-read-before-sync", """
template <class T> struct Memory {
    T* p;
    explicit Memory(int n) { cudaMalloc(&p, n * sizeof(T)); }
    ~Memory() { cudaFree(p); }
    operator T*() const { return p; }
};
template <class T> struct Pinned {
    T* p;
    explicit Pinned(int n) { cudaMallocHost(&p, n * sizeof(T)); }
    ~Pinned() { cudaFreeHost(p); }
    T& operator[](int i) { return p[i]; }
};
float f(cudaStream_t s) {
    Memory<float> d(32);
    Pinned<float> h(32);
    put<<<1, 32, 0, s>>>(d);
    cudaMemcpyAsync(h.p, d, 128, cudaMemcpyDeviceToHost, s);
    cudaStreamSynchronize(s); //+
    float first = h[0];
    cudaStreamSynchronize(s);
    return first;
}"""),
    "a member that counts frames": ("stream-race-war", """
class Game {
public:
    static constexpr int slots = 2;
    Game() {
        for (int b = 0; b < slots; ++b) {
            cudaMalloc(&state_[b], 128);
            cudaEventCreate(&made_[b]);
            cudaEventCreate(&shown_[b]);
        }
        cudaMalloc(&image_, 128);
    }
    void tick() {
        const int slot = frame_ % slots;
        cudaStreamWaitEvent(make_, shown_[slot], 0); //+
        put<<<1, 32, 0, make_>>>(state_[slot]);
        cudaEventRecord(made_[slot], make_);
        cudaStreamWaitEvent(show_, made_[slot], 0);
        take<<<1, 32, 0, show_>>>(state_[slot], image_);
        cudaEventRecord(shown_[slot], show_);
        ++frame_;
    }
private:
    int frame_ = 0;
    Stream make_, show_;
    float *state_[slots], *image_;
    cudaEvent_t made_[slots], shown_[slots];
};
void run() {
    Game g;
    for (int i = 0; i < 600; ++i) g.tick();
}"""),
}  # fmt: skip

CLEAN = {
    "threads that wait for each other": """
#include <condition_variable>
#include <mutex>
struct Gate {
    std::mutex m; std::condition_variable cv; bool open = false;
    void wait() { std::unique_lock<std::mutex> l(m); cv.wait(l, [this] { return open; }); }
    void set() { { std::lock_guard<std::mutex> l(m); open = true; } cv.notify_all(); }
};
void f(float* x, float* y) {
    Stream a, b;
    cudaEvent_t e;
    cudaEventCreate(&e);
    Gate gate;
    std::thread reader([&] {
        gate.wait();
        cudaStreamWaitEvent(b, e, 0);
        take<<<1, 32, 0, b>>>(x, y);
        cudaStreamSynchronize(b);
    });
    std::thread writer([&] {
        put<<<1, 32, 0, a>>>(x);
        cudaEventRecord(e, a);
        gate.set();
    });
    writer.join();
    reader.join();
}""",
    "a thread that goes on": """
void f(float* x, float* y, cudaStream_t a, cudaStream_t b) {
    std::thread([=] { put<<<1, 32, 0, a>>>(x); }).detach();
    take<<<1, 32, 0, b>>>(x, y);
}""",
    "what a thread sets on its device": """
void f(float* x) {
    cudaSetDevice(1);
    cudaStream_t s;
    cudaStreamCreate(&s);
    std::thread t([] { cudaSetDevice(0); cudaDeviceSynchronize(); });
    t.join();
    cudaEvent_t e;
    cudaEventCreate(&e);
    cudaEventRecord(e, s);
}""",
    "a release that may have failed": """
int f() {
    cudaEvent_t e = nullptr;
    if (cudaEventCreate(&e) != cudaSuccess) goto fail;
    if (cudaEventDestroy(e) != cudaSuccess) goto fail;
    e = nullptr;
    return 0;
fail:
    if (e) cudaEventDestroy(e);
    return 1;
}""",
    "a status of a release that is kept": """
int f() {
    float* p = nullptr;
    if (cudaMalloc(&p, 4) != cudaSuccess) return 1;
    cudaError_t rc = cudaFree(p);
    if (rc != cudaSuccess) { cudaFree(p); return 1; }
    return 0;
}""",
    "a progress counter": """
void f(int* k) {
    int* bins;
    cudaMallocManaged(&bins, 128);
    tally<<<1, 32>>>(k, bins);
    while (bins[0] < 32) {}
    cudaDeviceSynchronize();
}""",
    "a buffer that is moved out and back": """
struct Buffer {
    float* p = nullptr;
    Buffer() { cudaMalloc(&p, 128); }
    Buffer(Buffer&& o) noexcept : p(std::exchange(o.p, nullptr)) {}
    ~Buffer() { cudaFree(p); }
};
void f() {
    Buffer a;
    Buffer b(std::move(a));
    Buffer c(std::move(b));
    put<<<1, 32, 0, 0>>>(c.p);
}""",
    "elements that move up": """
#include <deque>
void f() {
    std::vector<float*> v;
    std::deque<float*> q;
    for (int i = 0; i < 3; ++i) { float* p; cudaMalloc(&p, 64); v.push_back(p); }
    for (int i = 0; i < 2; ++i) { float* p; cudaMalloc(&p, 64); q.push_back(p); }
    cudaFree(v[1]);
    v.erase(v.begin() + 1);
    cudaFree(v[1]);
    cudaFree(v[0]);
    cudaFree(q.front());
    q.pop_front();
    cudaFree(q.front());
}""",
    "an optional that stays empty": """
struct Event { cudaEvent_t e; Event() { cudaEventCreate(&e); } ~Event() { cudaEventDestroy(e); } };
void f(float* x, bool timed) {
    std::optional<Event> e;
    if (timed) e.emplace();
    put<<<1, 1>>>(x);
    if (e) cudaEventRecord(e->e);
    cudaDeviceSynchronize();
}""",
    "a copy that counts its owners": """
struct Shared {
    float* p; int* refs;
    Shared() : refs(new int(1)) { cudaMalloc(&p, 128); }
    Shared(const Shared& o) : p(o.p), refs(o.refs) { ++*refs; }
    ~Shared() { if (--*refs == 0) cudaFree(p); }
};
void f() { Shared a; Shared b(a); put<<<1, 32, 0, 0>>>(b.p); }""",
}


def codes_in(text: str, also: str = "") -> set[str]:
    return hazards_in(HEAD + text, also)


@pytest.mark.parametrize(("code", "text"), TWINS.values(), ids=TWINS)
def test_one_line_makes_the_difference(code: str, text: str) -> None:
    wrong, right = halves(text)
    assert code in codes_in(wrong, code)
    assert codes_in(right, code) == set()


@pytest.mark.parametrize("text", CLEAN.values(), ids=CLEAN)
def test_a_clean_program_is_left_alone(text: str) -> None:
    assert codes_in(text) == set()
