"""Host threads: those that nobody works beside are done where they start, of others nothing is known for certain."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.index import Index

HEAD = """#include <cuda_runtime.h>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>
__global__ void fill(float* p) { p[threadIdx.x] = 1; }
volatile bool ok;
std::mutex go;
struct Inbox { bool told; };
int nap(int n) { return n + 1; }
void note(int* p) { *p = 1; }
void tell(cudaStream_t s) { cudaStreamSynchronize(s); ok = true; }
void wait_for(Inbox* b) { for (int n = 0; !b->told; ++n) nap(n); }
"""

# What `second` does before its kernel, what `first` does behind its wait.
WAITS = {
    "a future": ("int k = ready.get();", "done.set_value(1);"),
    "a loop without a step": ("for (; !ok;) ;", "ok = true;"),
    "a loop that counts beside": ("for (int n = 0; !ok; ++n) nap(n);", "ok = true;"),
    "a loop for so long": ("for (int n = 0; n < 99999 && !ok; ++n) nap(n);", "ok = true;"),
    "a loop without an end": ("for (;;) { if (ok) break; }", "ok = true;"),
    "a loop that tests last": ("do { } while (!ok);", "ok = true;"),
    "a mutex": ("go.lock();", "go.unlock();"),
    "a mutex of POSIX": ("pthread_mutex_lock(&m);", "pthread_mutex_unlock(&m);"),
    "a function that waits": ("wait_for(&inbox);", "inbox.told = true;"),
}


def found_in(body: str) -> set[tuple[str, Confidence]]:
    index = Index(strict=True)
    index.put("a.cu", (HEAD + body).encode())
    return {(f.code, f.confidence) for f in index.analyse().findings if f.group == "correctness"}


def two_threads(waits: str, tells: str) -> str:
    return f"""
int main() {{
    float* d;
    cudaMalloc(&d, 128);
    cudaStream_t s, t;
    cudaStreamCreate(&s);
    cudaStreamCreate(&t);
    std::promise<int> done;
    auto ready = done.get_future();
    Inbox inbox;
    fill<<<1, 32, 0, s>>>(d);
    std::thread second([&] {{ {waits} fill<<<1, 32, 0, t>>>(d); cudaStreamSynchronize(t); }});
    std::thread first([&] {{ cudaStreamSynchronize(s); {tells} }});
    second.join();
    first.join();
    cudaFree(d);
}}"""


@pytest.mark.parametrize(("waits", "tells"), WAITS.values(), ids=WAITS)
def test_a_thread_that_waits_for_another(waits: str, tells: str) -> None:
    assert {c for _, c in found_in(two_threads(waits, tells))} <= {Confidence.POSSIBLE}


def one_thread(start: str, work: str, end: str) -> str:
    return f"""
int main() {{
    float* d;
    cudaMalloc(&d, 128);
    cudaStream_t s, t;
    cudaStreamCreate(&s);
    cudaStreamCreate(&t);
    std::vector<std::thread> pool;
    std::thread other;
    std::promise<int> told;
    auto ready = told.get_future();
    auto held = std::make_unique<int>(4);
    fill<<<1, 32, 0, s>>>(d);
    {start}([&] {{ {work} fill<<<1, 32, 0, t>>>(d); cudaStreamSynchronize(t); }});
    {end}
    cudaStreamSynchronize(s);
    cudaFree(d);
}}"""


@pytest.mark.parametrize(
    ("start", "work", "end"),
    [
        ("std::thread one", "", "one.join();"),
        ("std::thread one", "for (int n = 0; n < 9; ++n) nap(n);", "one.join();"),
        ("std::thread one", "note(held.get());", "one.join();"),
        ("auto one = std::async", "", "one.get();"),
        ("pool.emplace_back", "", "for (auto& one : pool) one.join();"),
        ("std::thread b([] { nap(1); }); b.join(); std::thread one", "", "one.join();"),
    ],
)
def test_a_thread_alone_is_done_where_it_starts(start: str, work: str, end: str) -> None:
    assert ("stream-race-waw", Confidence.CERTAIN) in found_in(one_thread(start, work, end))


@pytest.mark.parametrize(
    ("start", "work", "end"),
    [
        ("std::thread one", "", "std::thread b([&] { tell(s); }); one.join(); b.join();"),
        ("std::thread one", "", "auto b = std::async([&] { tell(s); }); one.join(); b.get();"),
        ("std::thread one", "", "pool.emplace_back(tell, s); one.join(); pool[0].join();"),
        ("std::thread one", "", "other = std::thread(tell, s); one.join(); other.join();"),
        ("std::thread b(tell, s); std::thread one", "", "one.join(); b.join();"),
        ("std::thread b(tell, s); other.join(); std::thread one", "", "one.join(); b.join();"),
        ("std::thread one", "", "other.join(); cudaStreamSynchronize(s); one.join();"),
        ("std::thread one", "int k = ready.get();", "told.set_value(1); one.join();"),
    ],
)
def test_a_thread_that_others_work_beside(start: str, work: str, end: str) -> None:
    assert {c for _, c in found_in(one_thread(start, work, end))} <= {Confidence.POSSIBLE}
