"""Branches on what a type is: the C++ library's type traits."""

from __future__ import annotations

import pytest

from tests.pure.order.programs import run

GO = """template <typename T> void go(float* x) {
  if constexpr (IS(double)) a<<<1, 1>>>(x);
  else if constexpr (IS(float)) b<<<1, 1>>>(x);
  else c<<<1, 1>>>(x);
}
"""


def launched(before: str, body: str) -> list[tuple[str, bool]]:
    """The kernels, and whether a condition decides."""
    ops = run(body, before=before).timeline.ops
    return [(op.kernel, bool(op.conditions)) for op in ops if op.kernel]


@pytest.mark.parametrize(
    "test", ["std::is_same_v<T, {}>", "std::is_same<T, {}>::value", "is_same_v<{}, T>", "std::is_same<T, {}>()"]
)
def test_each_instance_takes_the_branch_of_its_type(test: str) -> None:
    before = GO.replace("IS(double)", test.format("double")).replace("IS(float)", test.format("float"))
    assert launched(before, "go<__half>(x); go<float>(x); go<double>(x);") == [("c", False), ("b", False), ("a", False)]


@pytest.mark.parametrize(
    ("test", "type", "kernel"),
    [
        ("std::is_floating_point<T>::value", "double", "a"), ("std::is_floating_point_v<T>", "int", "b"),
        ("std::is_integral_v<T>", "uint32_t", "a"), ("std::is_integral_v<T>", "float", "b"),
        ("std::is_arithmetic_v<T>", "unsigned", "a"), ("std::is_arithmetic_v<T>", "float*", "b"),
        ("std::is_pointer_v<T>", "float*", "a"), ("std::is_pointer_v<T>", "float", "b"),
        ("std::is_void_v<T>", "void", "a"), ("std::is_void_v<T>", "int", "b"),
        ("std::is_same_v<T, unsigned int>", "uint32_t", "a"), ("std::is_same_v<T, float*>", "float", "b"),
    ],
)  # fmt: skip
def test_what_a_type_is(test: str, type: str, kernel: str) -> None:
    go = f"template <typename T> void go(float* x) {{ if ({test}) a<<<1, 1>>>(x); else b<<<1, 1>>>(x); }}\n"
    assert launched(go, f"go<{type}>(x);") == [(kernel, False)]


@pytest.mark.parametrize("test", ["std::is_same_v<T, Other>", "Traits<T>::wide", "std::is_same_v<T, int64_t>"])
def test_what_is_not_known_is_a_condition_of_that_type_alone(test: str) -> None:
    go = f"template <typename T> void go(float* x) {{ if ({test}) a<<<1, 1>>>(x); else b<<<1, 1>>>(x); }}\n"
    found = launched(go, "go<One>(x); go<long long>(x);")
    assert found == [("a", True), ("b", True)] * 2


OWN = {
    "a specialised one": "template <typename T> struct is_floating_point {};\n"
    "template <> struct is_floating_point<__half> { static constexpr bool value = true; };\n",
    "in a namespace": "namespace my { template <typename T> struct is_floating_point {}; } using namespace my;\n",
}


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_a_template_of_the_programs_own_is_not_the_librarys(own: str) -> None:
    test = "my::is_floating_point<T>::value" if "my" in own else "is_floating_point<T>::value"
    go = f"{own}template <typename T> void go(float* x) {{ if ({test}) a<<<1, 1>>>(x); else b<<<1, 1>>>(x); }}\n"
    assert launched(go, "go<__half>(x);") == [("a", True), ("b", True)]


@pytest.mark.parametrize("param", ["T&& v", "T& v"])
def test_a_reference_does_not_say_what_its_type_is(param: str) -> None:
    """`T&&` is given an lvalue: T is a reference, and no `int`. What one call is does not decide about another."""
    test = "std::is_same_v<T, int>"
    go = f"template <typename T> void go({param}, float* x) {{ if ({test}) a<<<1, 1>>>(x); else b<<<1, 1>>>(x); }}\n"
    found = launched(go, "int i = 0; float f = 0; go(i, x); go(f, x);")
    assert found == [("a", True), ("b", True)] * 2
