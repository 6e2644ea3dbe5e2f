"""The comment that asks for a stage: what is read of it, and what is said about one that cannot be read."""

from __future__ import annotations

import pytest
from stitchcuda.agent.implementing.marker import HostBuffer, Marker, MarkerError, markers
from stitchcuda.analysis.contract.types import Tolerance
from stitchcuda.analysis.findings.suppressions import suppressions


def read(text: str) -> Marker:
    (found,) = markers("a.cu", text.encode())
    if isinstance(found, MarkerError):
        raise found
    return found


def test_all_that_a_marker_can_say() -> None:
    text = '\n// stitchcuda: implement reference=k::ref outputs=y,z inputs=n,x tolerance="rtol 1e-5" in=k/a.cu : y = a*x: fast\n'
    found = read(text)
    assert (found.path, found.line, found.reference, found.file) == ("a.cu", 2, "k::ref", "k/a.cu")
    assert (found.inputs, found.outputs) == (("n", "x"), ("y", "z"))
    assert found.tolerance == Tolerance("relative", rtol=1e-5)
    assert found.intent == "y = a*x: fast"
    assert text.encode()[found.start : found.word_end].endswith(b"implement")
    assert text.encode()[found.end :] == b"\n"


def test_a_reference_is_enough() -> None:
    found = read("// stitchcuda: implement reference=ref")
    assert (found.inputs, found.outputs, found.tolerance, found.file, found.intent) == (None, None, None, "", "")


@pytest.mark.parametrize(
    "text",
    [
        "// the sum of x\n// stitchcuda: implement reference=ref\n//     outputs=y : adds\n//     everything\n",
        "/* stitchcuda: implement reference=ref\n *     outputs=y : adds\n *     everything\n */",
        "/// stitchcuda: implement reference=ref outputs=y : adds everything",
        "//stitchcuda:implement reference=ref\r\n// outputs=y : adds\r\n// everything\r\n",
    ],
)
def test_a_comment_of_several_lines_is_one_marker(text: str) -> None:
    found = read(text)
    assert (found.reference, found.outputs, found.intent) == ("ref", ("y",), "adds everything")


@pytest.mark.parametrize(
    "text",
    [
        "// stitchcuda: implemented reference=ref outputs=y : it is there",
        "// stitchcuda: implementation notes",
        'const char *text = "// stitchcuda: implement reference=ref";',
        "// one may write `stitchcuda: implement reference=ref` above a kernel",
        'R"(\n// stitchcuda: implement reference=ref\n)"',
        "// stitchcuda: ignore[leak] it lives as long as the program",
    ],
)
def test_what_is_no_marker(text: str) -> None:
    assert markers("a.cu", text.encode()) == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "no reference: add reference=NAME"),
        ("outputs=y", "no reference"),
        ("reference=", "reference has no value"),
        ('reference=""', "reference has no value"),
        ("reference=a reference=b", "reference is given twice"),
        ("reference=a output=y", "unknown key 'output'; keys are reference, inputs, outputs, host, tolerance, in"),
        ("reference=a y = a*x", "'y' is not KEY=VALUE"),
        ("reference=a(int)", "'a(int)' is no name"),
        ("reference=a outputs=y,*z", "'*z' is no name"),
        ("reference=a tolerance=1e-5", 'write "rtol 1e-5"'),
        ('reference=a tolerance="rtol -1"', "is not understood"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(words: str, said: str) -> None:
    with pytest.raises(MarkerError) as error:
        read(f"int x;\n\n// stitchcuda: implement {words}\n")
    assert str(error.value).startswith("a.cu:3: ") and said in str(error.value)


def test_memory_of_the_host_with_its_elements() -> None:
    found = read("// stitchcuda: implement reference=r host=x,y[n],z[2*n+(k-1)] : adds")
    assert found.host == (HostBuffer("x"), HostBuffer("y", "n"), HostBuffer("z", "2*n+(k-1)"))
    assert read('// stitchcuda: implement reference=r host="x[ n * k ], y"').host == (
        HostBuffer("x", "n * k"),
        HostBuffer("y"),
    )


@pytest.mark.parametrize("value", ["*x", "x[]", "x[n", "x[f(n);]", "x[a[0]]"])
def test_what_is_no_memory_of_the_host(value: str) -> None:
    with pytest.raises(MarkerError, match=r"which is not understood; write NAME\[ELEMENTS\]"):
        read(f"// stitchcuda: implement reference=r host={value}")


def test_several_markers_of_which_one_is_wrong() -> None:
    found = markers("a.cu", b"// stitchcuda: implement reference=a\nint x;\n// stitchcuda: implement\n")
    assert [type(m) for m in found] == [Marker, MarkerError]


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("bitwise", Tolerance()),
        ("atol 0.5", Tolerance("absolute", atol=0.5)),
        ("rtol 1e-3", Tolerance("relative", rtol=1e-3)),
    ],
)
def test_tolerances(value: str, meant: Tolerance) -> None:
    assert read(f'// stitchcuda: implement reference=r tolerance="{value}"').tolerance == meant


def test_a_marker_is_no_suppression_and_leaves_them_alone() -> None:
    text = b"// stitchcuda: implement reference=r\n// stitchcuda: ignore[leak]\nf();\n"
    (one,) = suppressions(text, "a.cu")
    assert one.codes == ("leak",) and not one.form
    assert suppressions(b"// stitchcuda: implement reference=r\n", "a.cu") == ()
