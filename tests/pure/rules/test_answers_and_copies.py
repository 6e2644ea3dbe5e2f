"""Answers of queries that are kept, returned or asked for by whoever is handed the query, containers that are copied into pairs,
tuples and records, and macros that leave a test: each program is wrong by one line, and right without it."""

from __future__ import annotations

import pytest

from tests.pure.rules.programs import halves, hazards_in

HEAD = """#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>
struct Both { std::vector<float> a; std::vector<int> b; };
template <typename Query, typename Object> void until_done(Query query, Object object) {
    cudaError_t answer;
    while (true) {
        answer = query(object);
        if (answer != cudaErrorNotReady) break;
        std::this_thread::yield();
    }
    if (answer != cudaSuccess) throw 1;
}
bool busy(cudaStream_t s) {
    cudaError_t answer = cudaStreamQuery(s);
    return answer == cudaErrorNotReady;
}
"""

UPLOAD = """
void f(float* d, int n, cudaStream_t s, cudaStream_t t) {
    std::vector<float> h(n);
    cudaMemcpyAsync(d, h.data(), n * sizeof(float), cudaMemcpyHostToDevice, s);
    WAIT
}"""

DOWNLOAD = """
RETURNS downloaded(const float* d, int k, cudaStream_t s) {
    std::vector<float> a(k);
    cudaMemcpyAsync(a.data(), d, k * sizeof(float), cudaMemcpyDeviceToHost, s);
    cudaStreamSynchronize(s);
    std::vector<int> b(k);
    return MADE;
}
int f(const float* d, cudaStream_t s) {
    auto [a, b] = downloaded(d, 100, s);
    for (int i = 0; i < 3; ++i)
        if (a[i] > 0 && b[i] == 0) return 1;
    return 0;
}"""

# Lines that end in `//-` are in the wrong program only, those that end in `//+` in the right one only.
WAITS = {
    "a query that is handed on": """
        until_done(cudaStreamQuery, t); //-
        until_done(cudaStreamQuery, s); //+
    """,
    "an answer that a loop keeps": """
        cudaError_t answer;
        do {
            answer = cudaStreamQuery(t); //-
            answer = cudaStreamQuery(s); //+
        } while (answer == cudaErrorNotReady);
    """,
    "a loop that goes on until success": """
        cudaError_t answer = cudaErrorNotReady;
        while (answer != cudaSuccess) {
            answer = cudaStreamQuery(t); //-
            answer = cudaStreamQuery(s); //+
        }
    """,
    "a loop that is left by the answer": """
        for (;;) {
            cudaError_t answer = cudaStreamQuery(s);
            if (answer == cudaErrorNotReady) break; //-
            if (answer == cudaSuccess) break; //+
        }
    """,
    "an answer that is returned": """
        while (busy(t)) std::this_thread::yield(); //-
        while (busy(s)) std::this_thread::yield(); //+
    """,
    "an answer from before there was more work": """
        cudaError_t answer = cudaStreamQuery(s); //-
        std::vector<float> more(n);
        cudaMemcpyAsync(d + n, more.data(), n * sizeof(float), cudaMemcpyHostToDevice, s);
        cudaError_t answer = cudaStreamQuery(s); //+
        if (answer != cudaSuccess) cudaStreamSynchronize(s);
    """,
    "a returned answer from before there was more work": """
        bool wait = busy(s); //-
        std::vector<float> more(n);
        cudaMemcpyAsync(d + n, more.data(), n * sizeof(float), cudaMemcpyHostToDevice, s);
        bool wait = busy(s); //+
        if (wait) cudaStreamSynchronize(s);
    """,
    "a loop that goes on with more work": """
        std::vector<float> more(n);
        cudaError_t answer = cudaErrorNotReady; //-
        while (answer == cudaErrorNotReady) { //-
            answer = cudaStreamQuery(s); //-
        while (busy(s)) { //+
            cudaMemcpyAsync(d + n, more.data(), n * sizeof(float), cudaMemcpyHostToDevice, s);
        }
    """,
    "a loop with a step that asks": """
        std::vector<float> more(n);
        for (cudaError_t answer = cudaErrorNotReady; answer == cudaErrorNotReady;) { //-
            answer = cudaStreamQuery(s); //-
        for (cudaError_t answer = cudaErrorNotReady; answer == cudaErrorNotReady; answer = cudaStreamQuery(s)) { //+
            cudaMemcpyAsync(d + n, more.data(), n * sizeof(float), cudaMemcpyHostToDevice, s);
        }
    """,
    "one of two conditions": """
        bool stop = n < 5;
        for (;;) {
            cudaError_t answer = cudaStreamQuery(s);
            if (answer == cudaSuccess || stop) break; //-
            if (answer == cudaSuccess && !stop) break; //+
        }
    """,
    "a wait that a variable holds": """
        auto wait = cudaStreamSynchronize;
        wait(t); //-
        wait(s); //+
    """,
}

COPIES = {
    "make_tuple": ("auto", "std::make_tuple(a, b)"),
    "make_tuple, moved": ("auto", "std::make_tuple(std::move(a), std::move(b))"),
    "make_pair": ("auto", "std::make_pair(a, b)"),
    "a tuple of what it is given": ("auto", "std::tuple{a, b}"),
    "a pair, one part moved": ("auto", "std::pair(std::move(a), b)"),
    "a list": ("std::tuple<std::vector<float>, std::vector<int>>", "{a, b}"),
    "a record": ("Both", "Both{a, b}"),
    "a record, as a list": ("Both", "{a, std::move(b)}"),
}

LEAVES = """
bool supported(int);
TEST(Some, Thing) {
    cudaStream_t s;
    cudaStreamCreate(&s);
    if (!supported(1)) {
        cudaStreamDestroy(s);
        LEAVE
    }
    cudaStreamSynchronize(s);
    cudaStreamDestroy(s);
}"""


@pytest.mark.parametrize("name", WAITS)
def test_what_an_answer_says_is_learned_where_it_is_tested(name: str) -> None:
    wrong, right = halves(HEAD + UPLOAD.replace("WAIT", WAITS[name]))
    assert hazards_in(wrong) == {"use-after-free"}
    assert hazards_in(right) == set()


@pytest.mark.parametrize("name", COPIES)
def test_what_a_function_returns_several_of_is_not_its_own_variables(name: str) -> None:
    returns, made = COPIES[name]
    text = HEAD + DOWNLOAD.replace("RETURNS", returns).replace("MADE", made)
    assert hazards_in(text) == set()
    if "moved" not in name:
        assert hazards_in(text.replace("cudaStreamSynchronize(s);", "")) == {"use-after-free"}


@pytest.mark.parametrize("leave", ['GTEST_SKIP() << "no";', 'FAIL() << "no";', 'SKIP("no");'])
def test_macros_of_test_frameworks_leave_the_test(leave: str) -> None:
    assert hazards_in(HEAD + LEAVES.replace("LEAVE", leave)) == set()
    assert hazards_in(HEAD + LEAVES.replace("LEAVE", 'ADD_FAILURE() << "no";')) == {"use-after-free", "double-free"}
