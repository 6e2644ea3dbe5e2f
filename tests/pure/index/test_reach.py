"""After an edit of device code only the entries that lead to it run again; a cancelled analysis is gone on with."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.index import index as index_module
from stitchcuda.analysis.order.execute import execute_entry
from stitchcuda.analysis.order.timeline import Timeline

FILE = b"""
#define LAUNCH(k, ...) k<<<1, 256>>>(__VA_ARGS__)
#define START_SUM(x) sum<<<1, 256>>>(x)
__device__ float half_of(float x) { return x / 2; }
__device__ float quarter_of(float x) { return half_of(half_of(x)); }
// copy is the plain one
__global__ void copy(float* out, const float* in) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void scale(float* x) { x[threadIdx.x] = quarter_of(x[threadIdx.x]); }
__global__ void sum(float* x) { atomicAdd(x, x[threadIdx.x]); }
void copies(float* a, float* b) { copy<<<1, 256>>>(a, b); cudaDeviceSynchronize(); }
void scales(float* a) { LAUNCH(scale, a); cudaDeviceSynchronize(); }
void sums(float* a) { START_SUM(a); cudaDeviceSynchronize(); }
void waits() { cudaDeviceSynchronize(); }
"""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []

    def noting(program: object, uid: str, **options: object) -> Timeline:
        names.append(uid.rpartition("::")[2])
        return execute_entry(program, uid, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(index_module, "execute_entry", noting)
    return names


def after(ran: list[str], old: bytes, new: bytes, text: bytes = FILE) -> list[str]:
    """The entries that run when one piece of the text becomes another."""
    assert text.count(old) == 1
    index = Index(strict=True)
    index.put("a.cu", text)
    index.analyse()
    ran.clear()
    index.put("a.cu", text.replace(old, new))
    again = index.analyse()
    seen = list(ran)
    fresh = Index(strict=True)
    fresh.put("a.cu", text.replace(old, new))
    assert again.findings == fresh.analyse().findings
    return seen


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"= in[threadIdx.x]", b"= in[0]", ["copies"]),
        (b"x / 2", b"x / 3", ["scales"]),  # through two device functions and a macro's argument
        (b"atomicAdd(x, x[threadIdx.x])", b"atomicAdd(x, 1)", ["sums"]),  # named in the macro only
        (b"void waits() { ", b"void waits() { cudaGetLastError(); ", ["waits"]),
    ],
)
def test_entries_that_lead_to_it_run_again(ran: list[str], old: bytes, new: bytes, expected: list[str]) -> None:
    assert after(ran, old, new) == expected


@pytest.mark.parametrize(
    "more",
    [
        b"__device__ float (*chosen)(float) = half_of;\n",  # named in a declaration
        b"#define NAMED(a, b) a##b\n",  # pasted names are written nowhere
        b"#define KIND(b) half##b\n",
        b"struct Op { __device__ float operator()(float x) { return half_of(x); } };\n",
    ],
)
def test_where_a_name_does_not_say_it_all_entries_run(ran: list[str], more: bytes) -> None:
    everyone = ["copies", "scales", "sums", "waits"]
    assert sorted(after(ran, b"x / 2", b"x / 3", FILE + more)) == everyone


def test_a_pasted_name_of_another_kind_does_not_count(ran: list[str]) -> None:
    more = b"#define KIND(b) third##b\n#define SAY(f, ...) printf(f, ##__VA_ARGS__)\n/* half_of */\n"
    assert after(ran, b"x / 2", b"x / 3", FILE + more) == ["scales"]


def test_a_cancelled_analysis_is_gone_on_with(ran: list[str]) -> None:
    index = Index(strict=True)
    index.put("a.cu", FILE)
    assert not index.analyse(lambda: len(ran) > 2).complete
    begun = list(ran)
    ran.clear()
    assert index.analyse().complete
    assert begun == ["copies", "scales", "sums"]
    assert ran == ["sums", "waits"]  # the one that was cancelled in the middle is not known


def test_a_brace_that_was_missing_for_a_moment_costs_nothing_afterwards(ran: list[str]) -> None:
    index = Index(strict=True)
    index.put("a.cu", FILE)
    before = index.analyse()
    index.put("a.cu", FILE.replace(b"void copies(float* a, float* b) {", b"void copies(float* a, float* b) { if (a) {"))
    assert len(index.analyse().program.functions) < len(before.program.functions)
    ran.clear()
    index.put("a.cu", FILE)
    again = index.analyse()
    assert ran == []
    assert again.findings == before.findings
