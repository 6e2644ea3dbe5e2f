"""What is read and lowered once for all programs of a process."""

import pytest
from stitchcuda.analysis.index import Index, index
from stitchcuda.analysis.index.shared import SharedFiles
from stitchcuda.analysis.program import cuda
from stitchcuda.analysis.program.ir import Module

HEADER = b"#define CHECK(x) check(x)\nvoid check(int);\ninline void done(cudaStream_t s) { CHECK(cudaStreamSynchronize(s)); }\n"
ONE = b'#include "shared.h"\nint main() { done(0); }\n'
OTHER = b'#include "shared.h"\nint main() { cudaStream_t s; cudaStreamCreate(&s); done(s); }\n'


@pytest.fixture
def shared() -> SharedFiles:
    return SharedFiles()


@pytest.fixture
def lowered(shared: SharedFiles, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of files that are lowered, in a process that has seen none yet."""
    paths: list[str] = []
    lowering = cuda.ModuleLowering

    def noting(path: str, *args: object, **options: object) -> cuda.ModuleLowering:
        paths.append(path)
        return lowering(path, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(index, "SHARED", shared)
    monkeypatch.setattr(cuda, "ModuleLowering", noting)
    return paths


def modules(files: dict[str, bytes]) -> dict[str, Module]:
    made = Index(strict=True)
    for path, text in files.items():
        made.put(path, text)
    return made.analyse().program.modules


def test_a_header_of_two_programs_is_lowered_once(lowered: list[str]) -> None:
    first = modules({"one.cu": ONE, "shared.h": HEADER})
    second = modules({"other.cu": OTHER, "shared.h": HEADER})
    assert lowered == ["one.cu", "shared.h", "other.cu"]
    assert second["shared.h"] is first["shared.h"]


def test_another_text_under_the_same_path_is_another_file(lowered: list[str]) -> None:
    modules({"one.cu": ONE, "shared.h": HEADER})
    second = modules({"one.cu": ONE, "shared.h": HEADER.replace(b"Stream", b"Event")})
    assert second["shared.h"] == cuda.lower_module("shared.h", HEADER.replace(b"Stream", b"Event"))


@pytest.mark.parametrize(
    "other", [b"#define WAIT(s) cudaDeviceSynchronize()\n", b"#define WAIT(s...) cudaStreamSynchronize(s)\n"]
)
def test_macros_of_an_included_file_count(lowered: list[str], other: bytes) -> None:
    header = b'#include "macros.h"\ninline void done(cudaStream_t s) { WAIT(s); }\n'
    macros = b"#define WAIT(s) cudaStreamSynchronize(s)\n"
    modules({"shared.h": header, "macros.h": macros})
    second = modules({"shared.h": header, "macros.h": other})
    assert lowered == ["shared.h", "macros.h", "shared.h", "macros.h"]
    assert second["shared.h"] == cuda.lower_module("shared.h", header, macros=cuda.collect_macros(other))


RICH = b"""#include "macros.h"
#define SIZE 16
struct Pair { int a; Pair(int b) : a(b) {} int sum() const { return a; } };
template <typename T> struct Buffer { T* data; ~Buffer() { cudaFree(data); } };
static int count = SIZE;
typedef float real;
enum Kind { FIRST, SECOND };
inline void done(cudaStream_t s) { struct Local { int x; }; WAIT(s); }
void declared(int, real* = nullptr);
void declared(int n, real* x) { )( }
"""
MACROS = b"#define WAIT(s) cudaStreamSynchronize(s)\n"


@pytest.mark.parametrize("other", ["b/shared.h", "a/other.h", "longer/path/to/it.cu", "c.c"])
def test_the_same_text_under_another_path_is_lowered_once(lowered: list[str], other: str) -> None:
    modules({"a/shared.h": RICH, "a/macros.h": MACROS})
    second = modules({other: RICH, "a/macros.h": MACROS, "main.cu": ONE})
    assert lowered == ["a/shared.h", "a/macros.h", "main.cu"]
    assert second[other] == cuda.lower_module(other, RICH, macros=cuda.collect_macros(MACROS))
    assert second[other].problems and all(p.path == other for p in second[other].problems)


def test_the_same_text_twice_in_a_program(lowered: list[str]) -> None:
    both = modules({"a/shared.h": RICH, "b/shared.h": RICH, "a/macros.h": MACROS})
    assert lowered == ["a/shared.h", "a/macros.h"]
    assert both["b/shared.h"] == cuda.lower_module("b/shared.h", RICH, macros=cuda.collect_macros(MACROS))


def test_macros_tell_the_same_text_under_other_paths_apart(lowered: list[str]) -> None:
    modules({"a/shared.h": RICH, "a/macros.h": MACROS})
    other = MACROS.replace(b"Stream", b"Event")
    second = modules({"b/shared.h": RICH, "b/macros.h": other})
    assert lowered == ["a/shared.h", "a/macros.h", "b/shared.h", "b/macros.h"]
    assert second["b/shared.h"] == cuda.lower_module("b/shared.h", RICH, macros=cuda.collect_macros(other))


def test_python_is_no_header_of_the_same_text(lowered: list[str]) -> None:
    text = b"import cupy\n"
    modules({"a.py": text})
    assert modules({"a.h": text})["a.h"] == cuda.lower_module("a.h", text) and lowered == ["a.h"]
    assert modules({"b.py": text})["b.py"].language == "python"


@pytest.mark.parametrize("first", [ONE, OTHER])
def test_findings_are_the_same_in_whichever_program_a_header_was_lowered(
    lowered: list[str], shared: SharedFiles, first: bytes
) -> None:
    def findings(folder: str, main: bytes) -> list[tuple[object, ...]]:
        made = Index(strict=True)
        made.put(f"{folder}/main.cu", main)
        made.put(f"{folder}/shared.h", HEADER)
        analysis = made.analyse()
        return [(f.code, f.message, f.confidence, analysis.program.locate(f.site).start) for f in analysis.findings]

    alone = findings("b", OTHER)
    shared.forget("b/main.cu")
    shared.forget("b/shared.h")
    findings("a", first)
    assert findings("b", OTHER) == alone and alone
    assert lowered.count("b/shared.h") == 1 and lowered.count("a/shared.h") == 1


def test_an_edit_goes_on_from_a_file_that_another_program_lowered(lowered: list[str]) -> None:
    modules({"one.cu": ONE, "shared.h": HEADER})
    second = Index(strict=True)
    second.put("other.cu", OTHER)
    second.put("shared.h", HEADER)
    second.analyse()
    edited = HEADER.replace(b"done(cudaStream_t s)", b"done(cudaStream_t stream)").replace(b"(s)", b"(stream)")
    second.put("shared.h", edited)
    assert second.analyse().program.modules["shared.h"] == cuda.lower_module("shared.h", edited)


def test_what_was_used_longest_ago_goes_first() -> None:
    shared = SharedFiles(most_bytes=20)
    kept = [shared.source(path, b"int x;\n\n\n") for path in ("a.h", "b.h")]
    assert shared.source("a.h", b"int x;\n\n\n") is kept[0]
    shared.source("c.h", b"int y;\n\n\n")
    assert shared.source("a.h", b"int x;\n\n\n") is kept[0]
    assert shared.source("b.h", b"int x;\n\n\n") is not kept[1]


def test_what_is_gone_is_found_under_no_other_path_either(lowered: list[str], shared: SharedFiles) -> None:
    shared.most_bytes = len(HEADER) + len(ONE)
    modules({"a.h": HEADER})
    modules({"b.h": HEADER.replace(b"done", b"over") + b"//" + b" " * len(ONE)})
    modules({"c.h": HEADER})
    assert lowered == ["a.h", "b.h", "c.h"]
    assert not shared.source("b.h", b"").text and shared.source("d.h", HEADER).text == HEADER
    for name in ("a.h", "b.h", "c.h", "d.h"):
        shared.forget(name)
    assert shared == SharedFiles(most_bytes=shared.most_bytes)  # nothing is left of them


def test_a_path_counts_once() -> None:
    shared = SharedFiles(most_bytes=20)
    kept = shared.source("a.h", b"int a;\n\n\n")
    for number in range(9):
        shared.source("b.h", b"int b%d;\n\n" % number)
    assert shared.source("a.h", b"int a;\n\n\n") is kept
