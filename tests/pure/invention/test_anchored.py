"""Anchored edits become byte ranges: exactly what was meant, or nothing with words that help."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stitchcuda.agent import versions
from stitchcuda.agent.invention.anchored import Unplaced, place
from stitchcuda.agent.invention.definitions import definitions, named
from stitchcuda.agent.roles.answers import AnchoredEdit, CreateFile, ReplaceText, RewriteFunction
from stitchcuda.agent.units import TextEdit

SOURCE = b"""// two kernels
template <typename T>
__global__ void scale(T* a, T f, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = a[i] * f;
}

static __device__ float half_of(float x) { return x / 2; }
static __device__ double half_of(double x) { return x / 2; }

extern "C" void run(float* a, int n) {
  scale<<<n / 256, 256>>>(a, 2.0f, n);
  scale<<<n / 256, 256>>>(a, 3.0f, n);
}
"""


def after(edits: list[AnchoredEdit], texts: dict[str, bytes]) -> dict[str, bytes]:
    placed = place(edits, texts)
    assert not isinstance(placed, Unplaced), placed
    return {**texts, **versions.edited(texts, placed)}


def refused(edits: list[AnchoredEdit], texts: dict[str, bytes]) -> Unplaced:
    placed = place(edits, texts)
    assert isinstance(placed, Unplaced), placed
    return placed


def test_an_anchor_is_replaced_where_it_occurs_and_nothing_else_changes() -> None:
    out = after([ReplaceText("a.cu", "a[i] * f", "__fmul_rn(a[i], f)")], {"a.cu": SOURCE, "b.cu": b"a[i] * f"})
    assert out == {"a.cu": SOURCE.replace(b"a[i] * f", b"__fmul_rn(a[i], f)"), "b.cu": b"a[i] * f"}


def test_lines_that_stay_are_no_part_of_the_edit() -> None:
    anchor = "  scale<<<n / 256, 256>>>(a, 2.0f, n);\n  scale<<<n / 256, 256>>>(a, 3.0f, n);\n"
    placed = place([ReplaceText("a.cu", anchor, anchor.replace("3.0f", "4.0f"))], {"a.cu": SOURCE})
    line = b"  scale<<<n / 256, 256>>>(a, 3.0f, n);\n"
    start = SOURCE.index(line)
    assert placed == (TextEdit("a.cu", start, start + len(line), line.replace(b"3", b"4")),)


def test_line_ends_of_the_file_are_kept() -> None:
    text = SOURCE.replace(b"\n", b"\r\n")
    anchor = "  scale<<<n / 256, 256>>>(a, 2.0f, n);\n  scale<<<n / 256, 256>>>(a, 3.0f, n);\n"
    out = after([ReplaceText("a.cu", anchor, "  scale<<<n / 256, 256>>>(a, 6.0f, n);\n  // once\n")], {"a.cu": text})[
        "a.cu"
    ]
    assert out.replace(b"\r\n", b"").count(b"\n") == 0
    assert b"6.0f, n);\r\n  // once\r\n}\r\n" in out


def test_a_single_line_anchor_brings_many_lines_with_the_line_ends_of_the_file() -> None:
    out = after([ReplaceText("a.cu", "int b;", "int b;\nint c;")], {"a.cu": b"int a;\r\nint b;\r\n"})
    assert out["a.cu"] == b"int a;\r\nint b;\r\nint c;\r\n"


def test_blanks_before_line_ends_do_not_matter_and_stay_where_nothing_changed() -> None:
    text = b"void f() {  \n  g(); \t\n  h();\n}\n"
    out = after([ReplaceText("a.cu", "void f() {\n  g();\n  h();\n}", "void f() {\n  g();\n  k();\n}")], {"a.cu": text})
    assert out["a.cu"] == b"void f() {  \n  g(); \t\n  k();\n}\n"


def test_a_mark_at_the_start_and_bytes_that_are_no_text_stay() -> None:
    text = b"\xef\xbb\xbf// \xff\xfe caf\xe9\nvoid f() { g(); }\n"
    out = after([RewriteFunction("a.cu", "f", "void f() { h(); }")], {"a.cu": text})
    assert out["a.cu"] == text.replace(b"g()", b"h()")


@pytest.mark.parametrize(
    "anchor, count", [("nothing like this", 0), ("scale<<<n / 256, 256>>>", 2), ("x / 2", 2), ("a[i]*f", 0)]
)
def test_an_anchor_that_does_not_occur_once_is_told_with_its_count(anchor: str, count: int) -> None:
    found = refused([ReplaceText("a.cu", anchor, "x")], {"a.cu": SOURCE})
    assert found.times == {anchor: count}
    assert anchor in found.feedback and "Edit 1" in found.feedback


def test_overlapping_occurrences_count() -> None:
    assert refused([ReplaceText("a.cu", "ab\nab\n", "x")], {"a.cu": b"ab\nab\nab\n"}).times == {"ab\nab\n": 2}


def test_the_function_of_a_failed_anchor_is_named_and_what_is_most_like_it_is_shown() -> None:
    found = refused([ReplaceText("a.cu", "if (i <= n) a[i] = a[i] * f;", "x")], {"a.cu": SOURCE})
    assert found.functions == ("scale",)
    assert "from line 5" in found.feedback and "if (i < n) a[i] = a[i] * f;" in found.feedback


def test_one_edit_that_fails_stops_all_of_them() -> None:
    edits: list[AnchoredEdit] = [ReplaceText("a.cu", "a[i] * f", "f"), ReplaceText("a.cu", "not there at all", "f")]
    found = refused(edits, {"a.cu": SOURCE})
    assert "Edit 2" in found.feedback and "Edit 1" not in found.feedback and "No edit was made" in found.feedback


def test_edits_of_one_text_are_refused() -> None:
    whole = RewriteFunction("a.cu", "scale", "__global__ void scale(float* a, float f, int n) {}")
    narrow = ReplaceText("a.cu", "a[i] * f", "f")
    pairs: list[list[AnchoredEdit]] = [[whole, narrow], [narrow, narrow]]
    for pair in pairs:
        assert "edits 1 and 2 overlap" in refused(pair, {"a.cu": SOURCE}).reason


def test_edits_that_touch_keep_their_order_whatever_order_they_are_given_in() -> None:
    first, second = ReplaceText("a.cu", "one\n", "one\nA\n"), ReplaceText("a.cu", "two\n", "B\ntwo\n")
    for edits in ([first, second], [second, first]):
        assert after(list(edits), {"a.cu": b"one\ntwo\n"})["a.cu"] == b"one\nA\nB\ntwo\n"


def test_what_changes_nothing_is_told() -> None:
    edit = ReplaceText("a.cu", "a[i] * f", "a[i] * f")
    assert refused([edit], {"a.cu": SOURCE}).reason == "nothing is changed"
    assert refused([], {"a.cu": SOURCE}).reason == "nothing is changed"
    out = after([edit, ReplaceText("a.cu", "x / 2; }\nstatic", "x / 2; }\n\nstatic")], {"a.cu": SOURCE})
    assert out["a.cu"] == SOURCE.replace(b"}\nstatic", b"}\n\nstatic")


def test_an_empty_anchor_is_refused() -> None:
    for anchor in ("", " \n\t"):
        assert "empty" in refused([ReplaceText("a.cu", anchor, "x")], {"a.cu": SOURCE}).reason


def test_a_whole_function_is_replaced_with_its_template_and_linkage() -> None:
    new = "template <typename T>\n__global__ void scale(T* a, T f, int n) { a[0] = f; }"
    out = after([RewriteFunction("a.cu", "scale", new)], {"a.cu": SOURCE})["a.cu"]
    assert out.count(b"template") == 1 and out.startswith(
        b"// two kernels\ntemplate <typename T>\n__global__ void scale(T* a, T f"
    )
    out = after([RewriteFunction("a.cu", "run", 'extern "C" void run(float* a, int n) {}')], {"a.cu": SOURCE})["a.cu"]
    assert out.endswith(b'\n\nextern "C" void run(float* a, int n) {}\n') and out.count(b"extern") == 1


def test_overloads_are_told_apart_by_their_parameters_or_asked() -> None:
    out = after(
        [RewriteFunction("a.cu", "half_of", "static __device__ double half_of(double y) { return y; }")],
        {"a.cu": SOURCE},
    )
    assert (
        b"float half_of(float x) { return x / 2; }\nstatic __device__ double half_of(double y) { return y; }"
        in out["a.cu"]
    )
    found = refused(
        [RewriteFunction("a.cu", "half_of", "static __device__ int half_of(int y) { return y; }")], {"a.cu": SOURCE}
    )
    assert (
        "ambiguous" in found.reason and "half_of(float) at line 8" in found.feedback and found.functions == ("half_of",)
    )


def test_a_function_that_is_not_there_or_not_given_whole_is_told() -> None:
    found = refused([RewriteFunction("a.cu", "scael", "void scael() {}")], {"a.cu": SOURCE})
    assert "scale, half_of, run" in found.feedback
    found = refused([RewriteFunction("a.cu", "scale", "a[i] = f;")], {"a.cu": SOURCE})
    assert "whole definition" in found.feedback and found.functions == ("scale",)


def test_methods_go_by_qualified_names() -> None:
    text = b"struct A { void run() { f(); } };\nstruct B { void run() { f(); } };\nvoid g() {}\n"
    assert [d.qualified for d in named(definitions(text), "run")] == ["A::run", "B::run"]
    out = after([RewriteFunction("a.cu", "B::run", "void run() { g(); }")], {"a.cu": text})["a.cu"]
    assert out == text.replace(b"B { void run() { f();", b"B { void run() { g();")
    assert "ambiguous" in refused([RewriteFunction("a.cu", "run", "void run() { g(); }")], {"a.cu": text}).reason


def test_new_files() -> None:
    assert after([CreateFile("src/new.cuh", "#pragma once\n")], {"a.cu": SOURCE})["src/new.cuh"] == b"#pragma once\n"
    for path in (
        "a.cu",
        "A.cu",
        "/tmp/x.cu",
        "../x.cu",
        "x/../y.cu",
        "",
        ".",
        "a//b.cu",
        "b\\c.cu",
        "C:/x.cu",
        "x.cu/",
        "./x.cu",
        " x.cu",
    ):
        refused([CreateFile(path, "int a;\n")], {"a.cu": SOURCE})
    refused([CreateFile("b.cu", " \n")], {"a.cu": SOURCE})
    refused([CreateFile("b.cu", "x"), CreateFile("b.cu", "y")], {"a.cu": SOURCE})


def test_an_unknown_file_is_told_with_those_that_there_are() -> None:
    assert (
        "The files are a.cu, b.cu." in refused([ReplaceText("c.cu", "x", "y")], {"a.cu": b"x", "b.cu": b"x"}).feedback
    )


PIECES = st.sampled_from(["a", "b", " ", "\t", "{", "}", "\n", "\r\n", "\r", "é", "\u2028", "x = 1;\n", "\0"])
TEXTS = st.lists(PIECES, max_size=30).map("".join)


@settings(max_examples=400, deadline=None)
@given(TEXTS, TEXTS, st.data())
def test_an_edit_means_what_replacing_the_text_means(text: str, new: str, data: st.DataObject) -> None:
    """Of a file with plain line ends, the result is that of the obvious replacement; of any file, all but the range stays."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    anchor = text[start:end]
    placed = place([ReplaceText("a.cu", anchor, new)], {"a.cu": text.encode()})
    occurrences = sum(text.startswith(anchor, k) for k in range(len(text)))
    if not anchor.encode().strip() or occurrences > 1:
        assert isinstance(placed, Unplaced)
        return
    if isinstance(placed, Unplaced):
        assert placed.reason == "nothing is changed"
        return
    out = versions.edited({"a.cu": text.encode()}, placed)["a.cu"]
    assert out.startswith(text[:start].encode()) and out.endswith(text[end:].encode())
    if "\r" not in text + new and not any(f"{blank}\n" in text + new for blank in " \t"):
        assert out.decode() == text[:start] + new + text[end:]


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
def test_whatever_is_asked_for_all_edits_are_made_or_none(text: str, asked: list[tuple[str, str]]) -> None:
    texts = {"a.cu": text.encode()}
    placed = place([ReplaceText("a.cu", anchor, new) for anchor, new in asked], texts)
    if isinstance(placed, Unplaced):
        assert placed.reason and placed.feedback
    else:
        assert versions.edited(texts, placed)["a.cu"] != texts["a.cu"]
