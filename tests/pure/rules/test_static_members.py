"""Static members of class templates: one variable an instantiation, which is the same one wherever it is named."""

import pytest
from stitchcuda.analysis.index import Index

from tests.pure.rules.test_fixtures import shown

SCRATCH = b"""
#include <cuda_runtime.h>
template <typename T> struct Scratch {
    static T *kept;
    static void open(int n) { cudaMalloc(&kept, n * sizeof(T)); }
    static void close() { release(); }
    static void release() { cudaFree(kept); }
};
template <typename T> T *Scratch<T>::kept = nullptr;
"""

MANAGER = b"""
#include <cuda_runtime.h>
template <typename T> class Manager {
public:
    static void create() { only = new Manager; }
    static void destroy() { only->drop(); delete only; }
    void drop() { if (this == only) cudaFree(values); }

private:
    Manager() { cudaMalloc(&values, 4096); }
    static Manager *only;
    T *values;
};
template <typename T> Manager<T> *Manager<T>::only = nullptr;
"""


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        (SCRATCH, b"Scratch<float>::close(); Scratch<double>::close();", []),
        (SCRATCH, b"Scratch<float>::close(); Scratch<float>::close();", ["double-free"]),
        (SCRATCH, b"Scratch<float>::close(); cudaFree(Scratch<double>::kept);", []),
        (SCRATCH, b"Scratch<float>::close(); cudaFree(Scratch<float>::kept);", ["double-free"]),
        (SCRATCH, b"Scratch<int *>::close(); Scratch<int>::close();", []),
    ],
)
def test_each_instantiation_has_its_own(text: bytes, body: bytes, expected: list[str]) -> None:
    types = [b"float", b"double", b"int", b"int *"]
    opened = b" ".join(b"Scratch<%s>::open(64);" % each for each in types)
    found = shown("program.cu", text + b"int main() { " + opened + body + b" return 0; }\n")
    assert [r.code for r in found if r.group == "correctness"] == expected


@pytest.mark.parametrize(("second", "expected"), [(b"double", []), (b"float", ["double-free"])])
def test_methods_of_an_object_made_within_the_class_see_its_instantiation(second: bytes, expected: list[str]) -> None:
    made = b"Manager<float>::create(); Manager<double>::create(); Manager<float>::destroy(); "
    found = shown("program.cu", MANAGER + b"int main() { " + made + b"Manager<%s>::destroy(); return 0; }\n" % second)
    assert [r.code for r in found if r.group == "correctness"] == expected


def test_a_static_member_of_the_own_class_is_no_part_of_each_object() -> None:
    """Two of them would double the work at each level (AMReX's `IntVectND`)."""
    index = Index(strict=True)
    text = b"""#include <cuda_runtime.h>
    struct Pool { float *kept; Pool() { cudaMalloc(&kept, 64); } ~Pool() { cudaFree(kept); } static const Pool one, two; };
    int main() { Pool pool; return 0; }
    """
    index.put("a.cu", text)
    (timeline,) = index.analyse().timelines
    assert [op.api for op in timeline.ops] == ["cudaMalloc", "cudaFree"]
