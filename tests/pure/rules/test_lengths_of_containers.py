"""Loops over containers that something was put into out of sight, or in braces: a wait in such a loop is one. Each program waits in a loop
before the host reads what was copied, and is right; without that loop it is wrong."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings.finding import Confidence, Severity
from stitchcuda.analysis.index import Index

HEAD = """#include <algorithm>
#include <array>
#include <cuda_runtime.h>
#include <iterator>
#include <map>
#include <utility>
#include <vector>
std::vector<int> make(int n);
void fill_in(std::vector<int>& v);
void fill_at(std::vector<int>* v);
bool fill_some(int n, std::vector<int>& v);
void show(const std::vector<int>& v);
struct Pool { std::vector<int> ids; void more(); };
void fill_pool(Pool& p);
struct Listed { std::vector<int> ids{0, 1}; };
struct Given { std::vector<int> ids; Given() : ids{0, 1} {} };
struct Kept { std::vector<int> ids; Kept(int n) { std::generate_n(std::back_inserter(ids), n, [] { return 1; }); } };
"""
# what puts something into `p.ids`
FILLED = {
    "swap": "auto all = make(n); std::swap(p.ids, all);",
    "its own swap": "auto all = make(n); p.ids.swap(all);",
    "an inserter": "auto all = make(n); std::copy(all.begin(), all.end(), std::back_inserter(p.ids));",
    "a generator": "std::generate_n(std::back_inserter(p.ids), n, [] { return 1; });",
    "a reference": "fill_in(p.ids);",
    "a second argument": "fill_some(n, p.ids);",
    "a pointer": "fill_at(&p.ids);",
    "a method": "p.more();",
    "its object": "fill_pool(p);",
    "a local": "std::vector<int> all; fill_in(all); p.ids = all;",
    "a lambda": "std::for_each(names, names + n, [&](char*) { p.ids.push_back(1); });",
    "a lambda, one way": "std::for_each(names, names + n, [&](char* c) { if (c) p.ids.emplace_back(1); });",
    "a list": "p.ids = std::vector<int>{0, 4};",
}
# a container `v`, of which each element waits for the stream
BRACES = {
    "vector": "std::vector<int> v{0, 1}; for (int x : v) cudaStreamSynchronize(s);",
    "a value": "auto v = std::vector<int>{0, 1}; for (int x : v) cudaStreamSynchronize(s);",
    "array": "std::array<int, 2> v{0, 1}; for (int x : v) cudaStreamSynchronize(s);",
    "array, twice": "std::array<cudaStream_t, 2> v{{t, s}}; for (auto x : v) cudaStreamSynchronize(x);",
    "streams": "std::vector<cudaStream_t> v{t, s}; for (auto x : v) cudaStreamSynchronize(x);",
    "a copy": "std::vector<cudaStream_t> w{t, s}, v{w}; for (auto x : v) cudaStreamSynchronize(x);",
    "map": "std::map<int, cudaStream_t> v{{0, t}, {1, s}}; for (auto& x : v) cudaStreamSynchronize(x.second);",
    "map of one": "std::map<int, cudaStream_t> v{{0, s}}; for (auto& x : v) cudaStreamSynchronize(x.second);",
    "a member": "Listed p; for (int x : p.ids) cudaStreamSynchronize(s);",
    "a member, constructed": "Given p; for (int x : p.ids) cudaStreamSynchronize(s);",
    "a member, generated": "Kept p(n); for (int x : p.ids) cudaStreamSynchronize(s);",
}


def errors(lines: str, before: str = "") -> set[str]:
    """The errors of a program that are certain; what stands `before` comes before the copy."""
    index = Index(strict=True)
    main = f"""int main(int n, char** names) {{
    float *h, *d; cudaMallocHost(&h, 1024); cudaMalloc(&d, 1024);
    cudaStream_t s, t; cudaStreamCreate(&s); cudaStreamCreate(&t);
    {before}
    cudaMemcpyAsync(h, d, 1024, cudaMemcpyDeviceToHost, s);
    {lines}
    return h[0] > 0;
}}"""
    index.put("a.cu", (HEAD + main).encode())
    found = (f for f in index.analyse().findings if f.confidence is Confidence.CERTAIN)
    return {f.code for f in found if f.severity is Severity.ERROR}


@pytest.mark.parametrize("filled", FILLED.values(), ids=FILLED)
def test_what_is_filled_out_of_sight_is_not_empty(filled: str) -> None:
    assert errors("for (int x : p.ids) cudaStreamSynchronize(s);", f"Pool p; {filled}") == set()
    assert errors("for (int x : p.ids) cudaStreamSynchronize(t);", f"Pool p; {filled}") == {"host-read-before-sync"}


@pytest.mark.parametrize("lines", BRACES.values(), ids=BRACES)
def test_what_stands_in_braces_is_an_element(lines: str) -> None:
    assert errors(lines) == set()
    assert errors(lines.partition("for ")[0]) == {"host-read-before-sync"}


def test_one_that_begins_empty_and_is_left_alone_has_no_rounds() -> None:
    assert errors("for (int x : p.ids) cudaStreamSynchronize(s);", "Pool p; show(p.ids);") == {"host-read-before-sync"}


def test_numbers_that_a_lambda_counts_are_not_known() -> None:
    counted = "int k = 0; std::for_each(names, names + n, [&](char*) { k++; });"
    assert errors("for (int i = 0; i < k; i++) cudaStreamSynchronize(s);", counted) == set()
    assert errors("for (int i = 0; i < k; i++) cudaStreamSynchronize(t);", counted) == {"host-read-before-sync"}


def test_what_is_swapped_is_in_the_other_one() -> None:
    held = "std::vector<cudaStream_t> v, w; v.push_back(s); w.push_back(t); v.swap(w);"
    assert errors(f"{held} for (auto x : w) cudaStreamSynchronize(x);") == set()
    assert errors(f"{held} for (auto x : v) cudaStreamSynchronize(x);") == {"host-read-before-sync"}
