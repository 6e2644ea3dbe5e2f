"""Forms of the findings about lifetimes, statuses and times that the fixtures do not hold: one function each."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings.finding import Confidence, Finding
from stitchcuda.analysis.index import Index

CODES = {"use-before-alloc", "use-after-free", "double-free", "leak", "event-misuse", "timing-unsynced"}
HEAD = """#include <cuda_runtime.h>
#include <chrono>
#include <memory>
#include <vector>
__global__ void k(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }
struct Owner { float* p; Owner(size_t n) { cudaMalloc(&p, n); } ~Owner() { cudaFree(p); } };
struct Stream { cudaStream_t s; Stream() { cudaStreamCreate(&s); } ~Stream() { cudaStreamDestroy(s); }
                operator cudaStream_t() const { return s; } };
struct Pair { float* a; float* b; };
struct Job { int* count; };
void bump(void* p) {}
using Clock = std::chrono::steady_clock;
double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }
float* other();
cudaStream_t current();
void ask(bool& left);
static bool upload(float* d, int n) { if (n > 9) { cudaFree(d); return false; } return true; }
static float* make(size_t n) { float* p = nullptr; if (cudaMalloc(&p, n) != cudaSuccess) return nullptr; return p; }
void by_value(Owner o) { k<<<1, 1>>>(o.p, 1); }
"""

FOUND = {
    "a helper frees what its caller frees": (
        "double-free", "float* d; cudaMalloc(&d, n); if (!upload(d, n)) { cudaFree(d); return; } cudaFree(d);"),
    "a free in a loop": ("double-free", "float* d; cudaMalloc(&d, n); for (int i = 0; i < n; ++i) cudaFree(d);"),
    "an owner is passed by value": ("double-free", "Owner o(4); by_value(o);"),
    "two names of one record": (
        "double-free", "Pair a; cudaMalloc(&a.a, n); Pair b = a; cudaFree(a.a); cudaFree(b.a);"),
    "all elements, twice": (
        "double-free", ("std::vector<float*> v(n); for (int i = 0; i < n; ++i) cudaMalloc(&v[i], 4);"
        "for (int i = 0; i < n; ++i) cudaFree(v[i]); for (float* p : v) cudaFree(p);")),
    "the same of two": (
        "double-free", ("float *a, *b; cudaMalloc(&a, 4); cudaMalloc(&b, 4); float* c = n % 2 ? a : b;"
        "float* d = c == a ? a : b; cudaFree(c); cudaFree(d);")),
    "a flag that is not set": (
        "double-free", ("float* d; cudaMalloc(&d, 4); bool gone = false; for (int i = 0; i < n; ++i) {"
        "if (i == 7) { cudaFree(d); break; } k<<<1, 1>>>(d, 1); } if (!gone) cudaFree(d);")),
    "a flag that a function sets": (
        "double-free", ("float* d; cudaMalloc(&d, 4); bool left = false; ask(left); cudaFree(d);"
        "if (left) cudaFree(d);")),
    "an alias": ("use-after-free", "float* p; cudaMalloc(&p, n); float* q = p; cudaFree(p); k<<<1, 1>>>(q, 1);"),
    "streams of a vector": (
        "use-after-free", ("std::vector<cudaStream_t> s(n); for (auto& t : s) cudaStreamCreate(&t);"
        "for (auto& t : s) cudaStreamDestroy(t); for (int i = 0; i < n; ++i) cudaStreamSynchronize(s[i]);")),
    "a payload of an inner scope": (
        "use-after-free", "int c = 0; if (n) { Job job{&c}; cudaLaunchHostFunc(s, bump, &job); } cudaStreamSynchronize(s);"),
    "a payload of a round": (
        "use-after-free", "for (int i = 0; i < n; ++i) { Job job{nullptr}; cudaLaunchHostFunc(s, bump, &job); }"),
    "the stream of an owner": (
        "use-after-free", "cudaStream_t t; { Stream owner; t = owner.s; } k<<<1, 1, 0, t>>>(x, 1);"),
    "one of two streams": (
        "use-before-alloc", ("cudaStream_t t[2]; for (int i = 0; i < 2; ++i)"
        "cudaStreamCreateWithFlags(&t[i], cudaStreamNonBlocking); float* p; cudaMallocAsync(&p, 64, t[0]);"
        "k<<<1, 1, 0, t[1]>>>(p, 0);")),
    "members of a record": (
        "leak", ("Pair c; if (cudaMalloc(&c.a, n) != cudaSuccess) return; if (cudaMalloc(&c.b, n) != cudaSuccess) return;"
        "cudaFree(c.a); cudaFree(c.b);")),
    "a local and another stream than the one that is asked for": (
        "use-after-free", ("float h[4]; cudaStream_t t; cudaStreamCreate(&t); cudaMemcpyAsync(x, h, 16, cudaMemcpyHostToDevice, t);"
        "cudaStreamSynchronize(s); cudaStreamDestroy(t);")),
    "a local and a wait that comes first": (
        "use-after-free", ("float h[4]; cudaStreamSynchronize(current());"
        "cudaMemcpyAsync(x, h, 16, cudaMemcpyHostToDevice, current());")),
    "helpers that allocate": (
        "leak", "float* a = make(n); if (!a) return; float* b = make(n); if (!b) return; cudaFree(a); cudaFree(b);"),
    "after loops in loops": (
        "leak", "float* a; cudaMalloc(&a, n);" + "for (int i = 0; i < n; ++i) {" * 40 + "n /= 2;" + "}" * 40 + "if (n) return; cudaFree(a);"),
    "an exception": ("leak", "float* a; cudaMalloc(&a, n); if (n < 0) throw 1; cudaFree(a);"),
    "the last status, after two": (
        "leak", ("float *a, *b; cudaMalloc(&a, n); cudaMalloc(&b, n); if (cudaGetLastError() != cudaSuccess) return;"
        "cudaFree(a); cudaFree(b);")),
    "the last status, after a kernel": (
        "leak", "float* a; cudaMalloc(&a, n); k<<<1, 1>>>(a, 1); if (cudaGetLastError() != cudaSuccess) return; cudaFree(a);"),
    "a second one where the first was made": (
        "leak", "float* a; cudaMalloc(&a, n); if (cudaGetLastError() == cudaSuccess) cudaMalloc(&a, n); cudaFree(a);"),
    "a case that returns": (
        "leak", "float* a; cudaMalloc(&a, n); switch (n) { case 0: break; case 1: return; } cudaFree(a);"),
    "a label that releases half": (
        "leak", ("float *a = nullptr, *b = nullptr; if (cudaMalloc(&a, n)) goto end; if (cudaMalloc(&b, n)) goto end;"
        "cudaFree(a); a = nullptr; end: cudaFree(b);")),
    "the wrong stream is waited for": (
        "timing-unsynced", ("cudaStream_t t; cudaStreamCreate(&t); auto b = Clock::now(); k<<<1, 1, 0, t>>>(x, 1);"
        "cudaStreamSynchronize(s); x[0] = seconds(Clock::now() - b);")),
    "a sum of rounds": (
        "timing-unsynced", ("double sum = 0; for (int i = 0; i < n; ++i) { auto b = Clock::now(); k<<<1, 1>>>(x, 1);"
        "sum += seconds(Clock::now() - b); } cudaDeviceSynchronize();")),
    "a non-blocking stream beside a blocking copy": (
        "timing-unsynced", ("cudaStream_t t; cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking); float h, *d;"
        "cudaMalloc(&d, 4); auto b = Clock::now(); k<<<1, 1, 0, t>>>(x, 1);"
        "cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost); h = seconds(Clock::now() - b);")),
}  # fmt: skip

CLEAN = {
    "an owner by reference": "Owner o(4); Owner& p = o; { Owner& q = p; k<<<1, 1>>>(q.p, 1); } k<<<1, 1>>>(p.p, 1);",
    "reset in between": "float* p; cudaMalloc(&p, n); if (n > 2) { cudaFree(p); p = nullptr; } if (p) cudaFree(p);",
    "made again": "float* p; for (int i = 0; i < n; ++i) { cudaMalloc(&p, 4); k<<<1, 1>>>(p, 1); cudaFree(p); }",
    "swapped": "float *a, *b; cudaMalloc(&a, 4); cudaMalloc(&b, 4); for (int i = 0; i < n; ++i) std::swap(a, b);"
    "cudaFree(a); cudaFree(b);",
    "elements that come from outside": "float** v = new float*[n]; for (int i = 0; i < n; ++i) cudaMalloc(&v[i], 4);"
    "for (int i = 0; i < n; ++i) { k<<<1, 1>>>(v[i], 1); cudaFree(v[i]); } delete[] v;",
    "all elements, made again": "std::vector<float*> v(n); for (auto& p : v) cudaMalloc(&p, 4);"
    "for (auto p : v) cudaFree(p); for (auto& p : v) cudaMalloc(&p, 8); for (auto p : v) cudaFree(p);",
    "a local that is waited for": "float h[4]; cudaMemcpyAsync(x, h, 16, cudaMemcpyHostToDevice, s);"
    "cudaStreamSynchronize(s);",
    "a local that is waited for on a stream that is asked for": "float h[4];"
    "cudaMemcpyAsync(x, h, 16, cudaMemcpyHostToDevice, current()); cudaStreamSynchronize(current());",
    "a local that an event of such a stream is waited for": "float h[4]; cudaEvent_t e; cudaEventCreate(&e);"
    "cudaMemcpyAsync(x, h, 16, cudaMemcpyHostToDevice, current()); cudaEventRecord(e, current()); cudaEventSynchronize(e);"
    "cudaEventDestroy(e);",
    "a vector that is given away": "auto v = std::make_unique<std::vector<float>>(n);"
    "cudaMemcpyAsync(x, v->data(), n, cudaMemcpyHostToDevice, s); cudaStreamSynchronize(s);",
    "a copy that waits": "float h; auto b = Clock::now(); k<<<1, 1>>>(x, 1); cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost);"
    "h = seconds(Clock::now() - b);",
    "the last of several events": "std::vector<cudaEvent_t> e(n + 1); for (auto& t : e) cudaEventCreate(&t);"
    "for (int i = 0; i <= n; ++i) { k<<<1, 1>>>(x, 1); cudaEventRecord(e[i]); } cudaEventSynchronize(e[n]);"
    "float ms; for (int i = 0; i < n; ++i) cudaEventElapsedTime(&ms, e[i], e[i + 1]);",
    "the other of two": "float *a, *b; cudaMalloc(&a, 4); cudaMalloc(&b, 4); float* c = n % 2 ? a : b;"
    "float* d = c == a ? b : a; cudaFree(c); cudaFree(d);",
    "the other of two, in the end": "float *a, *b, *c = nullptr; cudaMalloc(&a, 4); cudaMalloc(&b, 4);"
    "for (int i = 0; i < n; ++i) c = i % 2 ? a : b; float* d; if (c == a) d = b; else d = a;"
    "k<<<1, 1>>>(d, 1); cudaFree(c ? c : b); cudaFree(d);",
    "a flag": "float* d; cudaMalloc(&d, 4); bool gone = false; for (int i = 0; i < n; ++i) {"
    "if (i == 7) { cudaFree(d); gone = true; break; } k<<<1, 1>>>(d, 1); } if (!gone) cudaFree(d);",
    "a flag on two sides": "float* d; cudaMalloc(&d, 4); cudaFree(d); bool again = true;"
    "if (n > 3) d = other(); else again = false; if (again) cudaFree(d);",
    "held here or there": "float *q, *a = nullptr, *b = nullptr; cudaMalloc(&q, 4); if (n) a = q; else b = q;"
    "cudaFree(a); cudaFree(b);",
    "held here, there, or nowhere": "float *q, *a = nullptr, *b = nullptr; cudaMalloc(&q, 4); switch (n) {"
    "case 1: a = q; break; case 2: b = q; break; default: cudaFree(q); return; } if (n == 1) cudaFree(a); cudaFree(b);",
    "tried again with less": "float* a; cudaMalloc(&a, n); while (cudaGetLastError() != cudaSuccess && n > 4) {"
    "n /= 2; cudaMalloc(&a, n); } cudaFree(a);",
    "tried again with less, and given up": "float* a; cudaMalloc(&a, n); while (cudaGetLastError() != cudaSuccess) {"
    "n /= 2; if (n < 4) return; cudaMalloc(&a, n); } cudaFree(a);",
    "the last status, kept": "float* a; cudaMalloc(&a, n); cudaError_t e = cudaGetLastError();"
    "if (e != cudaSuccess) return; cudaFree(a);",
    "an exception that is caught": "float* a; cudaMalloc(&a, n); try { if (n < 0) throw 1; } catch (...) {} cudaFree(a);",
}  # fmt: skip


# With `other()` in place of `p` on some paths, what is said of `p` does not hold on all of them.
DOUBTFUL = {
    "released before": ("double-free", "float* p; cudaMalloc(&p, 4); cudaFree(p); {} cudaFree(p);"),
    "released through another name": ("double-free", "float* q; cudaMalloc(&q, 4); float* p = q; {} cudaFree(p); cudaFree(q);"),
    "released and used": ("use-after-free", "float* p; cudaMalloc(&p, 4); cudaFree(p); {} k<<<1, 1>>>(p, 1);"),
    "used through another name": (
        "use-after-free", "float* q; cudaMalloc(&q, 4); float* p = q; {} cudaFree(q); k<<<1, 1>>>(p, 1);"),
}  # fmt: skip


def findings_in(body: str) -> list[Finding]:
    index = Index(strict=True)
    index.put("a.cu", f"{HEAD}void f(float* x, int n, cudaStream_t s) {{\n{body}\n}}\n".encode())
    return [f for f in index.analyse().findings if f.code in CODES]


def codes_in(body: str) -> set[str]:
    return {f.code for f in findings_in(body) if f.confidence is not Confidence.POSSIBLE}


@pytest.mark.parametrize(
    ("first", "last", "codes"),
    [
        ("one || two", "!one && !two", set()),
        ("one || two", "!(two || one)", set()),
        ("two || one", "!one && !two && !one", set()),
        ("!(!two && !one)", "!(one || two)", set()),
        ("one || two && n", "!one && !(n && two)", set()),
        ("one || two", "!one || !two", {"use-after-free"}),
        ("one && two", "!one && !two", set()),
        ("one && two", "!one || two", {"use-after-free"}),
        ("one || two && n", "!one || !(n || two)", {"use-after-free"}),
    ],
)
def test_a_choice_of_conditions_is_the_same_however_it_is_written(first: str, last: str, codes: set[str]) -> None:
    """`h` is what `cudaFree` releases where the first holds; the last one asks whether it is memory of its own."""
    body = f"""bool one = other(), two = other(); float *d, *h; cudaMallocManaged(&d, 64);
      if ({first}) h = d; else h = (float*)malloc(64);
      k<<<1, 1>>>(d, 1); cudaDeviceSynchronize(); cudaFree(d); if ({last}) free(h);"""
    assert codes_in(body) - {"leak"} == codes


def test_the_host_itself_uses_what_was_released() -> None:
    (found,) = findings_in("float* h; cudaMallocHost(&h, 4); cudaFreeHost(h); h[0] = 1;")
    assert found.message == "the host uses `h`, which was released by `cudaFreeHost`"


@pytest.mark.parametrize(("code", "body"), FOUND.values(), ids=FOUND)
def test_a_form_is_found(code: str, body: str) -> None:
    assert codes_in(body) == {code}


@pytest.mark.parametrize("body", CLEAN.values(), ids=CLEAN)
def test_a_clean_form_is_left_alone(body: str) -> None:
    assert codes_in(body) == set()


@pytest.mark.parametrize(("code", "body"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_what_a_name_holds_on_some_paths_only_is_not_certain(code: str, body: str) -> None:
    always = findings_in(body.replace("{}", ""))
    sometimes = findings_in(body.replace("{}", "if (n) p = other();"))
    assert [(f.code, f.confidence) for f in always] == [(code, Confidence.CERTAIN)]
    assert [(f.code, f.confidence) for f in sometimes] == [(code, Confidence.LIKELY)]


VERSIONS = """struct Body { virtual void update() = 0; };
struct OnHost : Body { float h[8]; void update() override { HOST } };
struct OnDevice : Body { float* d; OnDevice() { cudaMalloc(&d, 128); } void update() override { k<<<1, 32>>>(d, 8); } };
double run(Body* body, bool host, int n) {
  cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
  Clock::time_point t; float ms = 0;
  if (host) t = Clock::now(); else { START }
  for (int i = 0; i < n; ++i) body->update();
  if (host) ms = seconds(Clock::now() - t);
  else { STOP }
  return ms;
}
int main(int n, char** names) {
  OnHost one; OnDevice two;
  Body* body;
  if (n % 2) body = &one; else body = &two;
  if (n > 3) return run(body, true, n);
  return run(body, false, n);
}
"""
EVENTS = {
    "START": "cudaEventRecord(a);",
    "STOP": "cudaEventRecord(b); cudaEventSynchronize(b); cudaEventElapsedTime(&ms, a, b);",
}


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        ({"HOST": "h[0] += 1;", **EVENTS}, []),
        ({"HOST": "h[0] += 1;", "START": "", "STOP": ""}, ["timing-unsynced"]),
        ({"HOST": "k<<<1, 1>>>(h, 8);", **EVENTS}, ["timing-unsynced"]),
    ],
    ids=["one for each version", "no other time", "both work on the device"],
)
def test_the_time_of_a_version_that_works_on_the_host(given: dict[str, str], codes: list[str]) -> None:
    text = VERSIONS
    for word, code in given.items():
        text = text.replace(word, code)
    index = Index(strict=True)
    index.put("a.cu", (HEAD + text).encode())
    found = [f for f in index.analyse().findings if f.confidence is not Confidence.POSSIBLE]
    assert [f.code for f in found if f.code == "timing-unsynced"] == codes


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        *[(name, []) for name in ("measure_cpu_only", "time_without_sync", "launch_time", "LaunchTimeDiff")],
        *[(name, ["timing-unsynced"]) for name in ("measure", "LaunchTimed", "launch_time_step", "pack_ghost_only")],
    ],
)
def test_a_class_is_named_after_the_asking_that_it_measures(name: str, codes: list[str]) -> None:
    text = f"""
struct Timer {{ Clock::time_point a, b; void start() {{ a = Clock::now(); }} void stop() {{ b = Clock::now(); }}
  double length() {{ return seconds(b - a); }} }};
template <class F> struct {name} {{ F work; double all = 0;
  void run() {{ Timer t; work(t); all += t.length(); }} }};
void g(float* x) {{ auto work = [&](auto& t) {{ t.start(); k<<<1, 1>>>(x, 1); t.stop(); }};
  {name}<decltype(work)> m{{work}}; m.run(); cudaDeviceSynchronize(); }}
"""
    index = Index(strict=True)
    index.put("a.cu", (HEAD + text).encode())
    found = [f for f in index.analyse().findings if f.confidence is not Confidence.POSSIBLE]
    assert [f.code for f in found if f.code == "timing-unsynced"] == codes
