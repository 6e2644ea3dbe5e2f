"""Programs in which a value takes a way through C++'s own means before it reaches CUDA: operators, optionals, futures,
chains of calls. Each is wrong by one line, and right without it."""

from __future__ import annotations

import pytest

from tests.pure.rules.programs import halves, hazards_in

HEAD = """#include <cuda_runtime.h>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>
__global__ void put(float* x) { x[threadIdx.x] = 1; }
__global__ void fill(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
__global__ void take(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
"""
STREAMS = """cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking); cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
"""
MANAGED = """
template <class T> struct Managed {
    using value_type = T;
    T* allocate(size_t n) { T* p; cudaMallocManaged(&p, n * sizeof(T)); return p; }
    void deallocate(T* p, size_t) { cudaFree(p); }
};
struct Item { float x, y; };
using Items = std::vector<Item, Managed<Item>>;
__global__ void move(Item* p) { p[blockIdx.x * blockDim.x + threadIdx.x].x += 1; }
"""
STAGES = """
struct Stage { virtual ~Stage() {} virtual void run(float* h, float* d, cudaStream_t s) = 0; };
struct Up : Stage { void run(float* h, float* d, cudaStream_t s) override {
    cudaMemcpyAsync(d, h, 128, cudaMemcpyHostToDevice, s); } };
struct Down : Stage { void run(float* h, float* d, cudaStream_t s) override {
    cudaMemcpyAsync(h, d, 128, cudaMemcpyDeviceToHost, s);
    cudaStreamSynchronize(s); //+
} };
struct Chain {
    std::vector<std::shared_ptr<Stage>> stages;
    template <class S> Chain& add() { stages.push_back(std::make_shared<S>()); return *this; }
};
"""

TASKS = """
struct Queue {
    std::vector<std::function<void()>> tasks;
    template <class F> void now(F task) { task(); }
    void later(std::function<void()> task) { tasks.push_back(std::move(task)); }
    void all() { for (auto& task : tasks) task(); }
};
"""

# Lines that end in `//-` are in the wrong program only, those that end in `//+` in the right one only.
BLOCKS_IN_TURN = (
    """
struct Block { float* data; cudaEvent_t idle; };
struct Pool {
    CONTAINER<Block> free;
    explicit Pool(int n) {
        for (int i = 0; i < n; ++i) {
            Block b; cudaMalloc(&b.data, 4096); cudaEventCreate(&b.idle);
            free.push_back(b);
        }
    }
    Block take(cudaStream_t user) {
        Block b = free.front();
        TAKE_OUT;
        cudaStreamWaitEvent(user, b.idle, 0); //+
        return b;
    }
    void give(Block b, cudaStream_t last) { cudaEventRecord(b.idle, last); free.push_back(b); }
};
void f(float* y) {
    """
    + STREAMS
    + """
    cudaEvent_t done; cudaEventCreate(&done);
    Pool pool(COUNT);
    for (int i = 0; i < 50; ++i) {
        Block block = pool.take(a);
        fill<<<4, 256, 0, a>>>(block.data);
        cudaEventRecord(done, a);
        cudaStreamWaitEvent(b, done, 0);
        take<<<1, 32, 0, b>>>(block.data, y);
        pool.give(block, b);
    }
    cudaDeviceSynchronize();
}"""
)


def blocks_in_turn(container: str, take_out: str, count: int) -> str:
    """A container of blocks, of which the first is taken out and put back behind the others."""
    text = BLOCKS_IN_TURN.replace("CONTAINER", container).replace("TAKE_OUT", take_out)
    return text.replace("COUNT", str(count))


TWINS = {
    "what an arrow of the class's own leads to": ("host-read-before-sync", """
struct Report { int done; };
struct Mapped {
    Report *host, *device;
    Mapped() { cudaHostAlloc(&host, sizeof(Report), cudaHostAllocMapped); cudaHostGetDevicePointer(&device, host, 0); }
    ~Mapped() { cudaFreeHost(host); }
    const Report* operator->() const { return host; }
};
__global__ void tell(Report* r) { r->done = 1; }
int f(cudaStream_t s) {
    Mapped m;
    tell<<<1, 1, 0, s>>>(m.device);
    cudaStreamSynchronize(s); //+
    int n = m->done;
    cudaStreamSynchronize(s); //-
    return n;
}"""),
    "what a star of the class's own leads to": ("host-write-before-copy-done", """
struct Box { float x; };
struct Pinned {
    Box* p;
    Pinned() { cudaMallocHost(&p, sizeof(Box)); }
    ~Pinned() { cudaFreeHost(p); }
    Box& operator*() { return *p; }
};
void f(float* d, cudaStream_t s) {
    Pinned b;
    cudaMemcpyAsync(d, b.p, sizeof(Box), cudaMemcpyHostToDevice, s);
    cudaStreamSynchronize(s); //+
    (*b).x = 2;
    cudaStreamSynchronize(s);
}"""),
    "a stream that an option holds": ("stream-race-raw", """
struct Pass {
    std::optional<cudaStream_t> clear;
    cudaStream_t draw;
    void submit(float* x, float* y) {
        const cudaStream_t first = clear.value_or(draw);
        put<<<1, 32, 0, first>>>(x);
        take<<<1, 32, 0, draw>>>(x, y);
    }
};
void f(float* x, float* y) {
    """ + STREAMS + """
    Pass p;
    p.draw = b;
    p.clear = a; //-
    p.clear = b; //+
    p.submit(x, y);
    cudaDeviceSynchronize();
}"""),
    "a pointer that a future answers with": ("stream-race-raw", """
template <class T> using Device = std::unique_ptr<T, void (*)(T*)>;
Device<float> make() { float* p; cudaMalloc(&p, 128); return Device<float>(p, [](float* q) { cudaFree(q); }); }
void f(float* y) {
    """ + STREAMS + """
    auto x = make();
    std::future<float*> loading = std::async(std::launch::async, [&] {
        put<<<1, 32, 0, a>>>(x.get());
        cudaStreamSynchronize(a); //+
        return x.get();
    });
    float* loaded = loading.get();
    take<<<1, 32, 0, b>>>(loaded, y);
    cudaDeviceSynchronize();
}"""),
    "stages that one chain of calls made": ("host-read-before-sync", STAGES + """
float f(float* d, cudaStream_t s) {
    float* h; cudaMallocHost(&h, 128);
    Chain chain;
    chain.add<Up>().add<Down>();
    for (auto& stage : chain.stages) stage->run(h, d, s);
    float r = h[0];
    cudaStreamSynchronize(s); //-
    cudaFreeHost(h);
    return r;
}"""),
    "a container that a function looks through": ("host-read-before-sync", MANAGED + """
static float lowest(const Items& items) {
    float y = 1e30f;
    for (const Item& i : items) y = i.x < y ? i.x : y;
    return y;
}
float f() {
    Items items(32);
    move<<<1, 32>>>(items.data());
    cudaDeviceSynchronize(); //+
    float y = lowest(items);
    cudaDeviceSynchronize(); //-
    return y;
}"""),
    "a container whose elements a function counts through": ("host-read-before-sync", MANAGED + """
static float total(const Items& items) {
    float sum = 0;
    for (size_t i = 0; i < items.size(); ++i) { if (i > 4) sum += 1; sum += items[i].x; }
    for (int k = 0; k < 3; ++k) sum = sum * 2 > 100 ? 100 : sum * 2 + 1 * k;
    return sum;
}
float f() {
    Items items(32);
    move<<<1, 32>>>(items.data());
    cudaDeviceSynchronize(); //+
    float y = total(items);
    cudaDeviceSynchronize(); //-
    return y;
}"""),
    "a lambda that another object runs sees its own object": ("stream-race-raw", TASKS + """
struct Job {
    float *x, *y;
    cudaStream_t a, b;
    Queue queue;
    Job(float* p, float* q, cudaStream_t one, cudaStream_t other) : x(p), y(q), a(one), b(other) {}
    void go() {
        queue.now([this] { put<<<1, 32, 0, a>>>(x); });
        cudaStreamSynchronize(a); //+
        take<<<1, 32, 0, b>>>(x, y);
    }
};
void f(float* x, float* y) {
    """ + STREAMS + """
    Job j(x, y, a, b);
    j.go();
    cudaDeviceSynchronize();
}"""),
    "tasks that an object keeps for later": ("stream-race-raw", TASKS + """
void f(float* x, float* y) {
    """ + STREAMS + """
    Queue queue;
    queue.later([=] { put<<<1, 32, 0, a>>>(x); });
    queue.later([=] { cudaStreamSynchronize(a); }); //+
    queue.later([=] { take<<<1, 32, 0, b>>>(x, y); });
    queue.all();
    cudaDeviceSynchronize();
}"""),
    "tasks of an object in an object": ("stream-race-raw", TASKS + """
struct Job {
    float *x, *y;
    cudaStream_t a, b;
    Queue queue;
    Job(float* p, float* q, cudaStream_t one, cudaStream_t other) : x(p), y(q), a(one), b(other) {}
    void go() {
        queue.later([this] { put<<<1, 32, 0, a>>>(x); });
        queue.later([this] { cudaStreamSynchronize(a); }); //+
        queue.later([this] { take<<<1, 32, 0, b>>>(x, y); });
        queue.all();
    }
};
void f(float* x, float* y) {
    """ + STREAMS + """
    Job j(x, y, a, b);
    j.go();
    cudaDeviceSynchronize();
}"""),
    "a template's number in a lambda": ("stream-race-raw", """
template <int N> void one(float* x, float* y) {
    cudaStream_t s[2];
    for (auto& each : s) cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking);
    auto first = [&] { put<<<1, 32, 0, s[N]>>>(x); };
    first();
    take<<<1, 32, 0, s[0]>>>(x, y);
    cudaDeviceSynchronize();
}
void f(float* x, float* y) {
    one<1>(x, y); //-
    one<0>(x, y); //+
}"""),
    "a lambda that captured what a variable was": ("stream-race-raw", """
void f(float* x, float* y) {
    """ + STREAMS + """
    cudaStream_t s = a; //-
    cudaStream_t s = b; //+
    auto first = [=] { put<<<1, 32, 0, s>>>(x); };
    s = b; //-
    s = a; //+
    first();
    take<<<1, 32, 0, b>>>(x, y);
    cudaDeviceSynchronize();
}"""),
    "a lambda with a capture of its own": ("stream-race-raw", """
void f(float* x, float* y) {
    """ + STREAMS + """
    auto first = [x, s = a] { put<<<1, 32, 0, s>>>(x); }; //-
    auto first = [x, s = b] { put<<<1, 32, 0, s>>>(x); }; //+
    first();
    take<<<1, 32, 0, b>>>(x, y);
    cudaDeviceSynchronize();
}"""),
    "an assignment that leaves the other one its memory": ("double-free", """
struct Field {
    float* p = nullptr;
    Field() = default;
    explicit Field(int n) { cudaMalloc(&p, n); }
    Field(const Field&) = delete;
    Field& operator=(Field&& o) noexcept {
        if (this != &o) {
            if (p) cudaFree(p);
            p = o.p;
            o.p = nullptr; //+
        }
        return *this;
    }
    ~Field() { if (p) cudaFree(p); }
};
void f() {
    Field current;
    {
        Field first(128);
        current = std::move(first);
    }
    put<<<1, 32>>>(current.p); //+
    cudaDeviceSynchronize();
}"""),
    "more tasks than rounds are told apart of a loop": ("host-read-before-sync", TASKS + """
void f(float* x, float* y) {
    """ + STREAMS + """
    float* h; cudaMallocHost(&h, 128);
    Queue queue;
    queue.later([=] { cudaMemsetAsync(x, 0, 128, a); });
    queue.later([=] { put<<<1, 32, 0, a>>>(x); });
    queue.later([=] { take<<<1, 32, 0, a>>>(x, y); });
    queue.later([=] { cudaMemcpyAsync(h, y, 128, cudaMemcpyDeviceToHost, a); });
    queue.later([=] { cudaStreamSynchronize(b); });
    queue.later([=] { cudaStreamSynchronize(a); }); //+
    queue.all();
    h[1] = h[0];
    cudaDeviceSynchronize();
    cudaFreeHost(h);
}"""),
    "many stages by their numbers": ("host-read-before-sync", STAGES + """
struct None : Stage { void run(float* h, float* d, cudaStream_t s) override { put<<<1, 32, 0, s>>>(d); } };
float f(float* d, cudaStream_t s) {
    float* h; cudaMallocHost(&h, 128);
    Chain c;
    c.add<Up>().add<None>().add<None>().add<None>().add<Down>();
    for (size_t i = 0; i < c.stages.size(); ++i) c.stages[i]->run(h, d, s);
    float r = h[0];
    cudaStreamSynchronize(s); //-
    cudaFreeHost(h);
    return r;
}"""),
    "an element that a call answers with": ("stream-race-raw", """
void f(float* y) {
    """ + STREAMS + """
    std::vector<float*> v;
    for (int i = 0; i < 2; ++i) { float* p; cudaMalloc(&p, 128); v.push_back(p); }
    put<<<1, 32, 0, a>>>(v.at(1)); //-
    put<<<1, 32, 0, a>>>(v.at(0)); //+
    take<<<1, 32, 0, b>>>(v.back(), y);
    cudaDeviceSynchronize();
    for (float* p : v) cudaFree(p);
}"""),
    "a part of a tuple that a call is given": ("stream-race-raw", """
void f(float* x, float* y) {
    """ + STREAMS + """
    std::tuple<float*, cudaStream_t> first(x, a), second(x, b);
    put<<<1, 32, 0, std::get<1>(first)>>>(std::get<0>(first));
    cudaStreamSynchronize(std::get<1>(first)); //+
    take<<<1, 32, 0, std::get<1>(second)>>>(std::get<0>(second), y);
    cudaDeviceSynchronize();
}"""),
    "tuples that a loop puts into a container": ("stream-race-raw", """
void f(float* y) {
    """ + STREAMS + """
    std::vector<std::tuple<float*, int>> v;
    for (int i = 0; i < 6; ++i) { float* p; cudaMalloc(&p, 128); v.emplace_back(p, i); }
    auto [first, n] = v[0];
    put<<<1, 32, 0, a>>>(first);
    auto [again, m] = v[0]; //-
    auto [again, m] = v[1]; //+
    take<<<1, 32, 0, b>>>(again, y);
    cudaDeviceSynchronize();
    for (auto& t : v) cudaFree(std::get<0>(t));
}"""),
    "an algorithm that runs a lambda for each": ("free-in-flight", """
void f(float* y) {
    """ + STREAMS + """
    std::vector<float*> v;
    for (int i = 0; i < 3; ++i) { float* p; cudaMallocAsync(&p, 128, a); v.push_back(p); }
    cudaStreamSynchronize(a);
    for (size_t i = 0; i + 1 < v.size(); ++i) take<<<1, 32, 0, b>>>(v[i], v[i + 1]);
    cudaStreamSynchronize(b); //+
    std::for_each(v.rbegin(), v.rend(), [a](float* p) { cudaFreeAsync(p, a); });
    cudaDeviceSynchronize();
}"""),
    "a list of arguments that a template was given": ("stream-race-raw", """
template <class... Args> void node(cudaGraph_t g, cudaGraphNode_t* made, cudaGraphNode_t* after, void* fn, Args*... args) {
    void* given[] = {args...};
    cudaKernelNodeParams p{};
    p.func = fn; p.gridDim = dim3(1); p.blockDim = dim3(32); p.kernelParams = given;
    cudaGraphAddKernelNode(made, g, after, after ? 1 : 0, &p);
}
void f(float* x, float* y, cudaStream_t s) {
    cudaGraph_t g; cudaGraphCreate(&g, 0);
    cudaGraphNode_t first, second;
    node(g, &first, nullptr, (void*)put, &x);
    node(g, &second, nullptr, (void*)take, &x, &y); //-
    node(g, &second, &first, (void*)take, &x, &y); //+
    cudaGraphExec_t e; cudaGraphInstantiate(&e, g, 0);
    cudaGraphLaunch(e, s);
    cudaStreamSynchronize(s);
    cudaGraphExecDestroy(e); cudaGraphDestroy(g);
}"""),
    "a number of blocks that is converted by its type's name": ("host-write-before-copy-done", """
void f(float* x, float* y, size_t n, cudaStream_t s) {
    float* h; cudaMallocHost(&h, 4096);
    cudaMemcpyAsync(x, h, 4096, cudaMemcpyHostToDevice, s);
    take<<<unsigned((n + 31) / 32), 32, 0, s>>>(x, y);
    cudaStreamSynchronize(s); //+
    h[0] = 1;
    cudaStreamSynchronize(s);
    cudaFreeHost(h);
}"""),
    "numbers of a sequence": ("stream-race-waw", """
struct Lanes { float* out; cudaStream_t s[2]; };
template <size_t Lane> void one(Lanes& l) {
    float* part = l.out + Lane * 1024; //+
    float* part = l.out + Lane / 2 * 1024; //-
    fill<<<4, 256, 0, l.s[Lane]>>>(part);
}
template <size_t... I> void all(Lanes& l, std::index_sequence<I...>) { (one<I>(l), ...); }
void f(float* x) {
    Lanes l;
    l.out = x;
    for (auto& s : l.s) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    all(l, std::make_index_sequence<2>{});
    cudaDeviceSynchronize();
}"""),
    "template arguments that are listed": ("stream-race-waw", """
template <int... Parts> void all(float* x, cudaStream_t* s) { (fill<<<4, 256, 0, s[Parts]>>>(x + Parts * 1024), ...); } //+
template <int... Parts> void all(float* x, cudaStream_t* s) { (fill<<<4, 256, 0, s[Parts]>>>(x), ...); } //-
void f(float* x) {
    cudaStream_t s[2];
    for (auto& each : s) cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking);
    all<0, 1>(x, s);
    cudaDeviceSynchronize();
}"""),
    "blocks that are handed out in turn": ("stream-race-war", blocks_in_turn("std::deque", "free.pop_front()", 2)),
    "blocks that are handed out in turn, of a vector": (
        "stream-race-war", blocks_in_turn("std::vector", "free.erase(free.begin())", 3),
    ),
}  # fmt: skip

CLEAN = {
    "a function that may go before it looks at the container": MANAGED + """
static float total(const Items& items, bool ready) {
    float sum = 0;
    if (!ready) return sum;
    for (const Item& i : items) sum += i.x;
    for (int k = 0; k < 3; ++k) sum = sum * 2 > 100 ? 100 : sum * 2 + 1 * k;
    return sum;
}
float f(bool ready) {
    Items items(32);
    move<<<1, 32>>>(items.data());
    if (ready) cudaDeviceSynchronize();
    float y = total(items, ready);
    cudaDeviceSynchronize();
    return y;
}""",
    "a function that looks at the container on one side of an `&&` only": MANAGED + """
static bool positive(const Items& items, bool ready) {
    float sum = 0;
    for (int k = 0; k < 3; ++k) sum = sum * 2 > 100 ? 100 : sum * 2 + 1 * k;
    for (int k = 0; k < 5; ++k) sum = sum * 3 > 200 ? 200 : sum * 3 + 2 * k;
    return ready && items[0].x > sum;
}
bool f(bool ready) {
    Items items(32);
    move<<<1, 32>>>(items.data());
    if (ready) cudaDeviceSynchronize();
    bool y = positive(items, ready);
    cudaDeviceSynchronize();
    return y;
}""",
    "an option of a record that comes from outside": """
struct Config { std::optional<cudaStream_t> first; };
struct Pass {
    Config config;
    explicit Pass(Config c) : config(c) {}
    void submit(float* x, float* y, cudaStream_t last, cudaStream_t other) {
        put<<<1, 32, 0, other>>>(x);
        take<<<1, 32, 0, config.first.value_or(last)>>>(x, y);
    }
};
void f(const Config& c, float* x, float* y) {
    """ + STREAMS + """
    Pass p(c);
    p.submit(x, y, a, b);
    cudaDeviceSynchronize();
}""",
    "an assignment that counts its owners": """
struct Field {
    float* p = nullptr; int* owners = nullptr;
    explicit Field(int n) : owners(new int(1)) { cudaMalloc(&p, n); }
    Field(const Field&) = delete;
    Field& operator=(const Field& o) {
        drop();
        p = o.p;
        owners = o.owners;
        ++*owners;
        return *this;
    }
    void drop() { if (owners && --*owners == 0) { cudaFree(p); delete owners; } }
    ~Field() { drop(); }
};
void f() {
    Field current(64);
    {
        Field first(128);
        current = first;
    }
    put<<<1, 32>>>(current.p);
    cudaDeviceSynchronize();
}""",
    "what each number of a sequence allocates": """
struct Lanes { float* p[2]; cudaStream_t s[2]; };
template <size_t I> void make(Lanes& l) { float* q; cudaMalloc(&q, 4096); l.p[I] = q; }
template <size_t I> void one(Lanes& l) { fill<<<4, 256, 0, l.s[I]>>>(l.p[I]); }
template <size_t... I> void all(Lanes& l, std::index_sequence<I...>) { (make<I>(l), ...); (one<I>(l), ...); }
void f() {
    Lanes l;
    for (auto& s : l.s) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    all(l, std::make_index_sequence<2>{});
    cudaDeviceSynchronize();
    for (float* p : l.p) cudaFree(p);
}""",
}  # fmt: skip


@pytest.mark.parametrize(("code", "text"), TWINS.values(), ids=TWINS)
def test_one_line_makes_the_difference(code: str, text: str) -> None:
    wrong, right = halves(text)
    assert code in hazards_in(HEAD + wrong, code)
    assert hazards_in(HEAD + right, code) == set()


@pytest.mark.parametrize("text", CLEAN.values(), ids=CLEAN)
def test_a_clean_program_is_left_alone(text: str) -> None:
    assert hazards_in(HEAD + text) == set()


def test_a_wait_of_the_last_stage_is_no_wait_in_every_round() -> None:
    text = (
        STAGES.replace("//+", "")
        + """
float f(float* d, cudaStream_t s) {
    float* h; cudaMallocHost(&h, 128);
    Chain chain;
    chain.add<Up>().add<Down>();
    for (auto& stage : chain.stages) stage->run(h, d, s);
    float r = h[0];
    cudaFreeHost(h);
    return r;
}"""
    )
    assert hazards_in(HEAD + text, "sync-in-loop") == set()
