"""What variables and containers hold after a loop of many rounds."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.index import Index

from tests.pure.order.programs import KERNELS, SETUP, Run, run

ROUNDS = '  int n = atoi(getenv("n"));\n'
PAGEABLE = "  float h[1024];\n"
DOWNLOAD = " cudaMemcpy(h, x, 4096, cudaMemcpyDeviceToHost);"
SWAPS = ("std::swap(x, y);", "float* t = x; x = y; y = t;")


def names(result: Run, api: str) -> set[str]:
    """The device buffers that a call works on."""
    accesses = result.op(api).accesses
    return {result.timeline.buffers[a.buffer].name for a in accesses} - {"h"}


@pytest.mark.parametrize("swap", SWAPS)
def test_pointers_that_are_swapped_may_be_either_after_the_loop(swap: str) -> None:
    loop = f"for (int i = 0; i < n; i++) {{ a<<<1, 32>>>(x); {swap} }}"
    result = run(PAGEABLE + ROUNDS + loop + DOWNLOAD)
    assert names(result, "cudaMemcpy") == {"x", "y"}
    assert all(a.one_of for a in result.op("cudaMemcpy").accesses if a.via == "src")


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize(("trip", "held"), [(100, "x"), (101, "y")])
def test_pointers_that_are_swapped_in_a_known_number_of_rounds_are_known(swap: str, trip: int, held: str) -> None:
    loop = f"for (int i = 0; i < {trip}; i++) {{ a<<<1, 32>>>(x); {swap} }}"
    assert names(run(PAGEABLE + loop + DOWNLOAD), "cudaMemcpy") == {held}


@pytest.mark.parametrize(
    ("limit", "held"), [("i + 1 < 102", {"y"}), ("i + 1 < 101", {"x"}), ("i + i < 102", {"x", "y"})]
)
def test_a_counter_that_looks_ahead(limit: str, held: set[str]) -> None:
    loop = f"for (int i = 0; {limit}; i++) {{ a<<<1, 32>>>(x); std::swap(x, y); }}"
    assert names(run(PAGEABLE + loop + DOWNLOAD), "cudaMemcpy") == held


def test_a_slot_that_is_toggled_in_a_known_number_of_rounds_is_known() -> None:
    loop = "float* p[2] = {x, y}; int k = 0; for (int i = 0; i < 33; i++) { a<<<1, 32>>>(p[k]); k = 1 - k; }"
    copy = " cudaMemcpy(h, p[k], 4096, cudaMemcpyDeviceToHost);"
    assert names(run(PAGEABLE + loop + copy), "cudaMemcpy") == {"y"}


def test_a_loop_that_is_left_early_may_leave_either() -> None:
    loop = "for (int i = 0; i < 100; i++) { a<<<1, 32>>>(x); std::swap(x, y); if (rand() == 1) break; }"
    assert names(run(PAGEABLE + loop + DOWNLOAD), "cudaMemcpy") == {"x", "y"}


def confidences(body: str) -> set[Confidence]:
    index = Index(strict=True)
    index.put("a.cu", f"{KERNELS}int main() {{\n{SETUP}{body}\n  return 0;\n}}\n".encode())
    return {f.confidence for f in index.analyse().findings if f.code.startswith("stream-race")}


STREAM = "  cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);\n"


def test_a_race_is_certain_when_each_of_the_buffers_that_it_may_be_about_was_used() -> None:
    loop = "for (int i = 0; i < n; i++) { a<<<1, 32, 0, s>>>(x); std::swap(x, y); }"
    assert confidences(PAGEABLE + STREAM + ROUNDS + loop + DOWNLOAD) == {Confidence.CERTAIN}
    waited = loop + " cudaStreamSynchronize(s);"
    assert confidences(PAGEABLE + STREAM + ROUNDS + waited + DOWNLOAD) == set()


def test_a_race_is_not_certain_when_one_of_the_buffers_was_not_used() -> None:
    loop = "for (int i = 0; i < n; i++) { b<<<1, 32>>>(x); std::swap(x, y); } float* z; cudaMalloc(&z, 4096);\n"
    work = "a<<<1, 32, 0, s>>>(z); if (rand() == 1) x = z;"
    assert Confidence.CERTAIN not in confidences(PAGEABLE + STREAM + ROUNDS + loop + work + DOWNLOAD)


VECTOR = "  std::vector<float> v;\n"
UPLOAD = " cudaMemcpy(x, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice);"


def size_after(loop: str) -> str:
    """The bytes that are copied after a loop, as text."""
    result = run(VECTOR + ROUNDS + loop + UPLOAD)
    return str(result.op("cudaMemcpy").bytes)


@pytest.mark.parametrize(
    "loop",
    [
        "for (int i = 0; i < n; i++) if (rand() > i) v.push_back(i);",
        "while (rand() > 2) v.push_back(1.0f);",
        "v.resize(9); while (rand() > 2) v.pop_back();",
        "for (int i = 0; i < n; i++) { if (rand() == 7) break; v.push_back(i); }",
        "for (int i = 0; i < n; i++) { if (rand() == 7) continue; v.emplace_back(i); }",
        "for (int i = 0; i < n; i++) v.insert(v.end(), 2.0f);",
        "v.resize(9); for (int i = 0; i < n; i++) v.erase(v.begin());",
        "for (int i = 0; i < n; i++) { v.push_back(i); v.push_back(i); }",
        "for (int i = 0; i < n; i++) { a<<<1, 32>>>(x); if (rand() > i) v.push_back(i); }",
    ],
)
def test_how_much_a_loop_puts_into_a_container_is_not_made_up(loop: str) -> None:
    text = size_after(loop)
    assert not text.isdigit() and "atoi" not in text


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("for (int i = 0; i < 100; i++) v.push_back(i);", "400"),
        ("v.resize(10); for (int i = 5; i < 105; i++) v.push_back(i);", "440"),
        ("for (int i = 0; i < 100; i++) { a<<<1, 32>>>(x); v.push_back(i); }", "400"),
        ("for (int i = 0; i < n; i++) v.resize(64);", "256"),
    ],
)
def test_one_more_in_each_of_a_known_number_of_rounds_is_exact(loop: str, expected: str) -> None:
    assert size_after(loop) == expected


def test_one_more_in_each_round_is_as_many_as_there_are_rounds() -> None:
    push = run(VECTOR + ROUNDS + "for (int i = 0; i < n; i++) v.push_back(i);" + UPLOAD).op("cudaMemcpy")
    plain = run(VECTOR + ROUNDS + "v.resize(n);" + UPLOAD).op("cudaMemcpy")
    assert push.bytes == plain.bytes


def test_a_function_that_puts_something_in_counts_too() -> None:
    before = "void put(std::vector<float>& w, float* p) { a<<<1, 32>>>(p); w.push_back(1.0f); }\n"
    result = run(VECTOR + ROUNDS + "for (int i = 0; i < n; i++) put(v, x);" + UPLOAD, before=before)
    assert not str(result.op("cudaMemcpy").bytes).isdigit()


def test_streams_that_a_loop_made_from_another_start_are_a_family() -> None:
    made = "std::vector<cudaStream_t> v; for (int i = 1; i < n; i++) { cudaStream_t s; cudaStreamCreate(&s); v.push_back(s); }\n"
    work = "for (int i = 0; i < v.size(); i++) a<<<1, 32, 0, v[i]>>>(x);\n"
    result = run(ROUNDS + made + work + "for (auto& s : v) cudaStreamSynchronize(s); b<<<1, 32, 0, v[0]>>>(x);")
    first, second, after = result.op("a"), result.op("a", 1), result.op("b")
    assert first.stream is not None and second.stream is not None and first.stream != second.stream
    assert result.timeline.ordered(first.id, after.id) and result.timeline.ordered(second.id, after.id)
