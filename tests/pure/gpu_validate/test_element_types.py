"""What the source says that a buffer holds which is copied to the host."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index.index import Index
from stitchcuda.gpu_validate.element_types import element_types
from stitchcuda.gpu_validate.trace.model import Call, CallSite, HostRead, Trace

HEAD = """#include <vector>
#define CHECK(x) do { if ((x) != cudaSuccess) return 1; } while (0)
using real = double;
typedef unsigned short half;
struct Pair { float* h; };
struct Held { std::vector<int> v; double one; };
template <class T> struct Box { T* h; };
float table[64];
float* d;
"""


def told(
    body: str, copy: str = "cudaMemcpy(h, d, 64, cudaMemcpyDeviceToHost);", head: str = HEAD, tail: str = ""
) -> str | None:
    """The type at the last copy of the text."""
    text = f"{head}int main() {{\n{body}\n{copy}\n}}\n{tail}"
    index = Index(strict=True)
    index.put("main.cu", text.encode())
    line = text[: text.rindex("cudaMemcpy")].count("\n") + 1
    call = Call(3, "cudaMemcpy", 0, 1, sites=(CallSite("main.cu", line, "main"),))
    trace = Trace("full", 0, 0, 1, calls=(call,), reads=(HostRead(3, 64, "a"), HostRead(9, 64, "b")))
    found, other = element_types(trace, index.analyse())
    assert other is None  # its call is not known
    return found.name if found is not None else None


def at(pointer: str) -> str:
    return f"cudaMemcpy({pointer}, d, 64, cudaMemcpyDeviceToHost);"


@pytest.mark.parametrize(
    ("body", "copy", "expected"),
    [
        ("float* h = (float*)malloc(64);", at("h"), "float32"),
        ("float* h = (float*)malloc(64);", at("(void*)(h + 4)"), "float32"),
        ("real h[8];", at("h"), "float64"),
        ("int count;", at("&count"), "int32"),
        ("std::vector<int64_t> v(8);", at("v.data()"), "int64"),
        ("std::vector<float> v(8);", f"CHECK({at('&v[2]')[:-1]});", "float32"),
        ("std::vector<std::complex<float>> v(8);", at("v.data()"), "float32"),
        ("", at("table"), "float32"),
        ("float4 h[4];", "cudaMemcpy(h,\n  d,\n  64, cudaMemcpyDeviceToHost);", "float32"),
        ("void* h;", at("h"), None),
        ("unsigned char* h;", at("h"), None),  # stores anything
        ("half* h;", at("h"), None),  # the program's own name, of a type that stores anything
        ("auto h = d;", at("h"), None),
        ("float** h;", at("h"), None),
        ("float* h[4];", at("h"), None),
        ("std::vector<float> v;", at("&v"), None),
        ("Pair p;", at("p.h"), "float32"),
        ("Pair* p;", at("p->h"), "float32"),
        ("Held p;", at("p.v.data()"), "int32"),
        ("Held p;", at("&p.one"), "float64"),
        ("Box<float> b;", at("b.h"), None),
        ("Unseen u;", at("u.h"), None),
        ("float* h; { int* h; }", at("h"), None),  # two of the name
        ("float table[2]; { int table[3]; }", at("table"), None),
        ("Pair* h;", at("h"), None),
    ],
)
def test_what_is_declared_plainly_is_told(body: str, copy: str, expected: str | None) -> None:
    assert told(body, copy) == expected


def test_a_type_that_depends_on_the_build_is_not_told() -> None:
    either = HEAD + "#ifdef WIDE\ntypedef double number;\n#else\ntypedef float number;\n#endif\n"
    assert told("number* h;", head=either) is None
    assert told("T* h;") is None
    template = "template <class T> void back(T* h) { cudaMemcpy(h, d, 4, cudaMemcpyDeviceToHost); }\n"
    assert told("", "", HEAD + "using T = float;\n", template) is None
    assert (
        told("", "", HEAD + "using U = float;\n", template.replace("class T", "int N").replace("T*", "U*")) == "float32"
    )


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ("struct Model { int* h;", "int32"),
        ("struct Base { int* h; }; struct Model : Base {", None),  # hides the global, too
    ],
)
def test_a_member_hides_a_global_of_its_name(record: str, expected: str | None) -> None:
    member = f"{record} void get() {{ cudaMemcpy(h, d, 4, cudaMemcpyDeviceToHost); }} }};"
    text = f"float* d;\nfloat* h;\n{member}\nint main() {{ Model m; m.get(); }}\n"
    index = Index(strict=True)
    index.put("main.cu", text.encode())
    call = Call(0, "cudaMemcpy", 0, 1, sites=(CallSite("main.cu", 3, "Model::get"),))
    trace = Trace("full", 0, 0, 1, calls=(call,), reads=(HostRead(0, 4, "a"),))
    (found,) = element_types(trace, index.analyse())
    assert (found.name if found else None) == expected


def test_copies_on_one_line_must_agree() -> None:
    two = "cudaMemcpy(a, d, 4, cudaMemcpyDeviceToHost); cudaMemcpy(b, d, 4, cudaMemcpyDeviceToHost);"
    assert told("float* a; float* b;", two) == "float32"
    assert told("float* a; int* b;", two) is None
