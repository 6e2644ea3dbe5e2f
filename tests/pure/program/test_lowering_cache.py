"""After an edit only what changed is lowered again."""

from __future__ import annotations

from stitchcuda.analysis.program.cuda import LoweringCache, lower_module

from tests.pure.program.lowering import function

FILE = """
#define CK(x) check(x)
struct S { int a; };
void first() { CK(cudaFree(p)); }
void second() { g(S(1)); }
void third() { h(); }
"""


def test_an_edit_in_one_function_keeps_the_others() -> None:
    cache = LoweringCache()
    before = lower_module("a.cu", FILE.encode(), cache=cache)
    cache.misses = 0
    after = lower_module("a.cu", FILE.replace("cudaFree(p)", "cudaFree(pointer)").encode(), cache=cache)
    assert cache.misses == 1
    for name in ("second", "third"):
        assert function(after, name).body is function(before, name).body
        assert function(after, name).digest == function(before, name).digest
        assert function(after, name).base == function(before, name).base + len("ointer")
    assert function(after, "first").body is not function(before, "first").body


def test_a_macro_edit_touches_its_users_only() -> None:
    cache = LoweringCache()
    before = lower_module("a.cu", FILE.encode(), cache=cache)
    after = lower_module("a.cu", FILE.replace("check(x)", "verify(x)").encode(), cache=cache)
    assert function(after, "first").body != function(before, "first").body
    assert function(after, "third").body is function(before, "third").body


def test_a_macro_used_through_another_macro_counts() -> None:
    text = "#define A(x) B(x)\n#define B(x) one(x)\nvoid f() { A(1); }\n"
    cache = LoweringCache()
    before = lower_module("a.cu", text.encode(), cache=cache)
    after = lower_module("a.cu", text.replace("one", "two").encode(), cache=cache)
    assert function(after, "f").body != function(before, "f").body


def test_one_cache_serves_files_whose_macros_differ() -> None:
    cache = LoweringCache()
    body = "void f() { CK(1); }\n"
    one = lower_module("a.cu", ("#define CK(x) one(x)\n" + body).encode(), cache=cache)
    two = lower_module("b.cu", ("#define CK(x) two(x)\n" + body).encode(), cache=cache)
    assert function(one, "f").body != function(two, "f").body


def test_the_result_does_not_depend_on_the_cache() -> None:
    cache = LoweringCache()
    lower_module("a.cu", FILE.encode(), cache=cache)
    edited = FILE.replace("h();", "h(2);").encode()
    assert lower_module("a.cu", edited, cache=cache) == lower_module("a.cu", edited)
