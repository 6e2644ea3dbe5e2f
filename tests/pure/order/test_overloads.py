"""Functions of one name: which one a call means is told by the types of what it is given."""

from __future__ import annotations

import pytest

from tests.pure.order.programs import run

SETUP = "double* d; cudaMalloc(&d, 8); void* v = malloc(4); float h[4]; const float ch[4] = {}; int n = 4;\n"


def launched(before: str, body: str) -> list[str]:
    return [op.kernel for op in run(SETUP + body, before=before).timeline.ops if op.kernel]


OVERLOADS = """void go(const double* p) { a<<<1, 1>>>((float*)p); }
void go(float* p) { b<<<1, 1>>>(p); }
void go(int p) { c<<<1, 1>>>(nullptr); }
"""
SPECIALISED = """template <typename T> void go(T* out, T const* in, size_t n) { a<<<1, 1>>>(nullptr); }
template <> void go<void>(void* out, void const* in, size_t n) { b<<<1, 1>>>(nullptr); }
"""
TEXTS = """void go(bool all) { a<<<1, 1>>>(nullptr); }
void go(const char* why) { b<<<1, 1>>>(nullptr); }
"""
OF_A_CLASS = """struct One { void go(double* p) { a<<<1, 1>>>(nullptr); } void go(float* p) { b<<<1, 1>>>(p); } };
struct Base {}; struct Left : Base {}; struct Right : Base {};
void turn(Left* l) { c<<<1, 1>>>(nullptr); }
void turn(Right* r) { d<<<1, 1>>>(nullptr); }
"""


@pytest.mark.parametrize(
    ("before", "body", "kernels"),
    [
        (OVERLOADS, "go(d); go(x); go(n); go(&h[0]); go(h); go(x + 4); go((double*)x);", "abcbbba"),
        (SPECIALISED, "go(h, x, n); go(v, (void*)x, n); go(d, d, n);", "aba"),
        (TEXTS, 'go("last"); go(true);', "ba"),
        (OF_A_CLASS, "One one; one.go(x); one.go(d);", "ba"),
        (OF_A_CLASS, "Right r; Left l; turn(&r); turn(&l);", "dc"),
    ],
)
def test_the_one_that_fits_is_followed(before: str, body: str, kernels: str) -> None:
    assert "".join(launched(before, body)) == kernels


def test_the_first_one_is_followed_where_nothing_tells() -> None:
    assert launched(OVERLOADS, "go(foo());") == ["a"]


def test_template_parameters_are_deduced() -> None:
    before = """template <typename T> void one(T* p) { if constexpr (std::is_same_v<T, double>) a<<<1, 1>>>(nullptr); }
    template <typename T> void go(const T* p, T last) { one(p); if (sizeof(T) == 4) b<<<1, 1>>>(nullptr); }
    """
    ops = run(SETUP + "go(x, 4.0f); go(d, 4.0);", before=before).timeline.ops
    assert [(op.kernel, op.conditions) for op in ops if op.kernel] == [("b", ()), ("a", ())]
