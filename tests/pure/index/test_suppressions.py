"""Comments that silence findings: where they are found, what they cover, and what is left when one is taken out."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stitchcuda.analysis.findings.comment_edits import without_code, without_comment
from stitchcuda.analysis.findings.finding import Edit
from stitchcuda.analysis.findings.near import nearest
from stitchcuda.analysis.findings.suppressions import suppressions


def found(text: str, path: str = "a.cu") -> list[tuple[tuple[str, ...], list[int]]]:
    """Codes and the lines that they cover, from 0."""
    return [(s.codes, sorted(s.covers)) for s in suppressions(text.encode(), path)]


MARK = "stitchcuda: ignore[a]"


@pytest.mark.parametrize(
    ("text", "covers"),
    [
        (f"f(); // {MARK}", [0]),
        (f"f(); /* {MARK} */ g();", [0]),
        (f"// {MARK}\nf();", [0, 1]),
        (f"// {MARK}\n// more\n/* and more */\nf();", [0, 3]),
        (f"// {MARK}\n\nf();", [0, 1]),
        (f"/* one\n   {MARK}\n*/\nf();", [0, 1, 2, 3]),
        (f"f(); /* one\n   {MARK} */\ng();", [0, 1]),
        (f"/* {MARK} */ f();\ng();", [0]),
        (f"// {MARK}\r\nf();\r\n", [0, 1]),
        (f"// {MARK}\rf();\r", [0, 1]),
        (f"// {MARK}", [0]),
        (f"f(); // see below: {MARK}", [0]),
        (f"char c = '\"'; f(); // {MARK}", [0]),
        (f"int n = 1'000; // don't {MARK}", [0]),
        (f"//\\\n {MARK}\nf();", [0, 1, 2]),
        (f"/** {MARK} */ f();", [0]),
        (f"f(); // {MARK} never closed /*\ng();", [0]),
        (f"f(); /* {MARK} never closed", [0]),
    ],
)
def test_what_a_comment_covers(text: str, covers: list[int]) -> None:
    assert found(text) == [(("a",), covers)]


@pytest.mark.parametrize(
    "text",
    [
        f'puts("// {MARK}");',
        f'puts("\\" // {MARK}");',
        f'puts(R"(\n// {MARK}\n)");',
        f'puts(R"x()" // {MARK} )x");',
        f"# {MARK}",  # no comment in C
        "// stitchcuda: ignorance[a]"[:26],
        "// write stitchcuda: ignore when needed",
        f"// {MARK}".replace("stitchcuda", "xstitchcuda"),
    ],
)
def test_what_is_none(text: str) -> None:
    assert [s for s in suppressions(text.encode(), "a.cu") if s.codes] == []


def test_python() -> None:
    assert found(f"f()  # {MARK}\n", "a.py") == [(("a",), [0])]
    assert found(f"x = 7 // 2  # {MARK}\n", "a.py") == [(("a",), [0])]
    for text in (f"'''# {MARK}'''", f'"""\n# {MARK}\n"""', f"s = '# {MARK}'", f"x = 8 // stitchcuda({MARK!r})"):
        assert found(text, "a.py") == []
    kernel = f'K = """\n__global__ void k(int* p) {{\n  p[0] = 1;  // {MARK}\n}}\n"""\n'
    assert found(kernel, "a.py") == [(("a",), [2])]


def test_codes_places_and_reason() -> None:
    text = b"f(); // stitchcuda: ignore[ one,two , three ] because of it */"
    (one,) = suppressions(text, "a.cu")
    assert [text[a:b] for a, b in one.places] == [b"one", b"two", b"three"]
    assert (one.codes, one.reason) == (("one", "two", "three"), "because of it")
    assert [s.form for s in suppressions(b"// stitchcuda: ignore-file[x]\n// stitchcuda: ignore\n")] == [
        "ignore-file[x]",
        "ignore",
    ]


# ------------------------------------------------------------------------------------------------------------- taking out


def applied(text: str, edit: Edit) -> str:
    start, end = edit.site.span
    data = text.encode()
    return (data[:start] + edit.text.encode() + data[end:]).decode()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"    f();  // {MARK} why\n    g();\n", "    f();\n    g();\n"),
        (f"    // {MARK} why\n    g();\n", "    g();\n"),
        (f"    // {MARK} why\r\n    g();\r\n", "    g();\r\n"),
        (f"    /* {MARK} */ g();\n", "    g();\n"),
        (f"f(); /* {MARK} */ g();\n", "f(); g();\n"),
        (f"f();  // note; {MARK} why\n", "f();  // note;\n"),
        (f"/* note\n   {MARK} why\n   more */\n", "/* note\n   more */\n"),
        (f"f(); // {MARK}", "f();"),
        (f"// {MARK}", ""),
        (f"#define M f() /* {MARK} */ \\\n  + 1\n", "#define M f() \\\n  + 1\n"),
    ],
)
def test_a_comment_is_taken_out(text: str, left: str) -> None:
    (comment,) = suppressions(text.encode(), "a.cu")
    assert applied(text, without_comment("a.cu", text.encode(), comment)) == left


@pytest.mark.parametrize(("number", "left"), [(0, "[b,c]"), (1, "[a, c]"), (2, "[a, b]")])
def test_a_code_is_taken_out_of_its_list(number: int, left: str) -> None:
    text = "f();  // stitchcuda: ignore[a, b,c] why\n"
    (comment,) = suppressions(text.encode(), "a.cu")
    assert (
        applied(text, without_code("a.cu", text.encode(), comment, number))
        == f"f();  // stitchcuda: ignore{left} why\n"
    )


PIECES = st.lists(
    st.sampled_from(
        ["f();", " ", "\n", "\r\n", "/*", "*/", "//", '"', "'", "\\", 'R"(', ')"', MARK, "stitchcuda: ignore[a, b]",
         "stitchcuda: ignore", "#", "größe", "\t"]
    ),
    max_size=24,
)  # fmt: skip


@given(PIECES, st.sampled_from(["a.cu", "a.py"]))
def test_any_text(pieces: list[str], path: str) -> None:
    """Places are inside the text and name the codes; taking a comment out leaves one less, and all other text."""
    text = "".join(pieces).encode()
    known = suppressions(text, path)
    for comment in known:
        assert [text[a:b].decode() for a, b in comment.places] == list(comment.codes)
        assert comment.own[0] <= comment.mark[0] < comment.mark[1] <= comment.own[1] <= len(text)
        for edit in [
            without_comment(path, text, comment),
            *(without_code(path, text, comment, k) for k in range(len(comment.codes))),
        ]:
            start, end = edit.site.span
            assert 0 <= start <= end <= len(text) and edit.text == ""
            outside = (
                text[start:end].replace(text[comment.own[0] : comment.own[1]], b"") if start < comment.own[0] else b""
            )
            assert not outside.strip()


def test_long_text_takes_no_time() -> None:
    began = time.process_time()
    for piece in ("\r\n", 'R"(', "/* ", '"', "'", "// x\r\n", "'''", "stitchcuda: ignore["):
        for path in ("a.cu", "a.py"):
            suppressions((f"/*{piece * 20000} stitchcuda: ignore[a] */").encode(), path)
            suppressions((f"{piece * 20000} // stitchcuda: ignore[a]").encode(), path)
    assert time.process_time() - began < 20


def test_the_nearest_code() -> None:
    codes = ["stream-race-raw", "stream-race-war", "free-in-flight", "leak"]
    assert nearest("Stream_Race_RAW", codes) == ["stream-race-raw"]
    assert nearest("free-in-fligth", codes)[0] == "free-in-flight"
    assert nearest("flight", codes) == ["free-in-flight"]
    assert nearest("bugprone-x", codes) == []
