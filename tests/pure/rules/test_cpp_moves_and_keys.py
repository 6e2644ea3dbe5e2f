"""Smart pointers that were moved away, maps that hold a key already, and objects that are copied: each program is wrong by one line, and right
without it, or is right as it is."""

from __future__ import annotations

import pytest

from tests.pure.rules.programs import hazards_in

HEAD = """#include <cuda_runtime.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>
__global__ void put(float* x) { x[threadIdx.x] = 1; }
struct Free { void operator()(float* p) const { cudaFree(p); } };
using Ptr = std::unique_ptr<float, Free>;
Ptr make() { float* x; cudaMalloc(&x, 128); return Ptr(x); }
struct Box { Ptr p; Box(Ptr q) : p(std::move(q)) {} void drop() { p.reset(); } };
void keep(Ptr p, std::vector<Ptr>& v) { v.push_back(std::move(p)); }
void drop(Ptr& p) { p.reset(); }
"""

MOVES = {
    "into a new one": "Ptr q = std::move(p); p.reset(); put<<<1, 32>>>(q.get());",
    "into one that is there": "Ptr q; q = std::move(p); p.reset(); put<<<1, 32>>>(q.get());",
    "into a vector": "std::vector<Ptr> v; v.push_back(std::move(p)); p.reset(); put<<<1, 32>>>(v[0].get());",
    "into a vector by a call": "std::vector<Ptr> v; keep(std::move(p), v); p.reset(); put<<<1, 32>>>(v[0].get());",
    "into a member": "Box c(std::move(p)); p.reset(); put<<<1, 32>>>(c.p.get());",
    "into a lambda": "auto f = [q = std::move(p)] { put<<<1, 32>>>(q.get()); }; p.reset(); f();",
    "and another one in": "float* raw = p.get(); Ptr q = std::move(p); p.reset(make().release()); put<<<1, 32>>>(raw);",
    "and reset by reference": "Ptr q = std::move(p); drop(p); put<<<1, 32>>>(q.get());",
    "out of a member": "Box c(make()); Ptr q = std::move(c.p); c.drop(); put<<<1, 32>>>(q.get());",
}

# In a program `m` is a map of streams, and `a` and `b` are streams; what it launches on is `a` where it is right.
KEYS = {
    "emplace": ("m.emplace(0, a); m.insert_or_assign(0, b);", "m.emplace(0, a); m.emplace(0, b);"),
    "insert": ("m.insert({0, b}); m.insert({0, a});", "m.insert({0, a}); m.insert({0, b});"),
    "try_emplace": ("m[0] = b; m.try_emplace(0, a);", "m[0] = a; m.try_emplace(0, b);"),
    "a hint": ("m[0] = b; m.emplace_hint(m.end(), 0, a);", "m[0] = a; m.emplace_hint(m.end(), 0, b);"),
    "another key": ("m.emplace(0, b); m.emplace(1, a);", "m.emplace(0, a); m.emplace(1, b);"),
    "written through": (
        "m[0] = b; auto [it, in] = m.emplace(0, a);",
        "m[0] = b; auto [it, in] = m.emplace(0, b); it->second = a;",
    ),
    "written through what is returned": ("m.emplace(0, a).first->second = b;", "m.emplace(0, b).first->second = a;"),
    "where it is new": (
        "if (auto [it, in] = m.emplace(0, a); in) it->second = b;",
        "if (auto [it, in] = m.emplace(0, b); in) it->second = a;",
    ),
    "where it is new, by a pair": (
        "auto r = m.insert({0, a}); if (r.second) r.first->second = b;",
        "auto r = m.insert({0, b}); if (r.second) r.first->second = a;",
    ),
    "with nothing at first": (
        "auto [it, in] = m.try_emplace(0); if (in) it->second = b;",
        "auto [it, in] = m.try_emplace(0); if (in) it->second = a;",
    ),
    "new only once": (
        "m.emplace(0, a); auto [it, in] = m.insert_or_assign(0, b); if (in) it->second = a;",
        "m.emplace(0, a); auto [it, in] = m.insert_or_assign(0, b); if (!in) it->second = a;",
    ),
    "where it is held already": (
        "m[0] = a; auto [it, in] = m.emplace(0, b); if (!in) it->second = b;",
        "m[0] = a; auto [it, in] = m.emplace(0, b); if (in) it->second = b;",
    ),
}

COPIED = {
    "counted": """struct Buf {
    float* p; int* n;
    Buf(size_t k) : n(new int(1)) { cudaMalloc(&p, k); }
    Buf(const Buf& o) : p(o.p), n(o.n) { ++*n; }
    ~Buf() { if (--*n == 0) { cudaFree(p); delete n; } }
};""",
    "each with its own": """struct Buf {
    float* p;
    Buf(size_t k) { cudaMalloc(&p, k); }
    Buf(const Buf& o) { cudaMalloc(&p, 128); cudaMemcpy(p, o.p, 128, cudaMemcpyDeviceToDevice); }
    ~Buf() { cudaFree(p); }
};""",
}
COPIES = {
    "a new one": "{ Buf y = x; put<<<1, 32>>>(y.p); }",
    "auto": "{ auto y = x; put<<<1, 32>>>(y.p); }",
    "constructed": "{ Buf y(x); put<<<1, 32>>>(y.p); }",
    "through a pointer": "{ Buf* q = &x; Buf y = *q; put<<<1, 32>>>(y.p); }",
    "a parameter": "use(x);",
    "a result": "{ Buf y = same(x); put<<<1, 32>>>(y.p); }",
}


def codes_in(text: str) -> set[str]:
    return hazards_in(HEAD + text)


@pytest.mark.parametrize("text", MOVES.values(), ids=MOVES)
def test_what_was_moved_away_is_not_released(text: str) -> None:
    assert codes_in(f"int main() {{ Ptr p = make(); {text} cudaDeviceSynchronize(); }}") == set()


def test_what_stays_is_released() -> None:
    text = (
        "int main() { Ptr p = make(); float* raw = p.get(); p.reset(); put<<<1, 32>>>(raw); cudaDeviceSynchronize(); }"
    )
    assert codes_in(text) == {"use-after-free"}


def with_map(lines: str, key: str = "0") -> str:
    return f"""int main(int n, char** names) {{
    float* d; cudaMalloc(&d, 128);
    cudaStream_t a, b; cudaStreamCreate(&a); cudaStreamCreate(&b);
    std::map<int, cudaStream_t> m; {lines}
    put<<<1, 32, 0, m[{key}]>>>(d); put<<<1, 32, 0, a>>>(d);
    cudaDeviceSynchronize(); cudaFree(d);
}}"""


@pytest.mark.parametrize(("wrong", "right"), KEYS.values(), ids=KEYS)
def test_what_a_map_holds_already_stays(wrong: str, right: str) -> None:
    assert codes_in(with_map(wrong)) == {"stream-race-waw"}
    assert codes_in(with_map(right)) == set()


def test_a_key_that_may_be_there_holds_what_is_not_known() -> None:
    assert codes_in(with_map("m[0] = a; m.emplace(n, b);", "n")) == set()
    assert codes_in(with_map("m.emplace(n, b);", "n")) == {"stream-race-waw"}


GONE = {
    "by its key": "m.erase(0);",
    "by its iterator": "auto old = m.find(0); m.erase(old);",
    "in a loop": "for (auto old = m.begin(); old != m.end();) old = m.erase(old);",
    "all": "m.clear();",
}


@pytest.mark.parametrize("gone", GONE.values(), ids=GONE)
def test_what_was_taken_out_of_a_map_is_not_held(gone: str) -> None:
    """`b` was destroyed; the stream that is made where the key is new is another one."""
    made = "auto r = m.emplace(0, nullptr); if (r.second) cudaStreamCreate(&r.first->second);"
    text = with_map(f"m.emplace(0, b); cudaStreamDestroy(b); {gone} {made}")
    assert codes_in(text) - {"stream-race-waw", "leak"} == set()
    assert "use-after-free" in codes_in(with_map(f"m.emplace(0, b); cudaStreamDestroy(b); {made}"))


@pytest.mark.parametrize("seen", ["restore(m);", "restore(&m);", ""])
def test_whether_a_key_is_new_is_known_of_maps_that_began_empty(seen: str) -> None:
    """Where nobody else had the map, the key is new and what follows is not reached."""
    lines = f"{seen} if (m.emplace(3, a).second) return 0; cudaFree(d);"
    text = "void restore(std::map<int, cudaStream_t>& m);\nvoid restore(std::map<int, cudaStream_t>* m);\n" + with_map(
        lines
    )
    assert codes_in(text) >= {"use-after-free"} if seen else not codes_in(text) & {"use-after-free"}


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("kind", COPIED.values(), ids=COPIED)
def test_copies_are_made_by_their_constructor(kind: str, copy: str) -> None:
    also = "void use(Buf y) { put<<<1, 32>>>(y.p); }\nBuf same(const Buf& x) { return x; }\n"
    right = f"int main() {{ Buf x(128); {copy} put<<<1, 32>>>(x.p); cudaDeviceSynchronize(); }}"
    assert codes_in(f"{kind}\n{also}{right}") == set()


@pytest.mark.parametrize("kind", COPIED.values(), ids=COPIED)
def test_the_last_copy_releases(kind: str) -> None:
    wrong = "int main() { float* r; { Buf x(128); Buf y = x; r = y.p; } put<<<1, 32>>>(r); cudaDeviceSynchronize(); }"
    assert codes_in(f"{kind}\n{wrong}") == {"use-after-free"}
