"""Algorithms of thrust: which of what they are given they read and write, and where they run."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.order.cuda import thrust_effects
from stitchcuda.analysis.order.timeline import Mode
from stitchcuda.analysis.program.ir import ApiKind
from stitchcuda.analysis.program.link import THRUST

from tests.pure.order.programs import Run, run

VECTORS = "thrust::device_vector<int> p(8), q(8), r(16), s(8), t(16);\n"


def library_calls(result: Run) -> list[str]:
    return [
        op.api for op in result.timeline.ops if op.kind is ApiKind.LIBRARY_CALL and op.api != "thrust::device_vector"
    ]


def test_each_algorithm_is_work_that_can_be_reached() -> None:
    assert thrust_effects.names() <= THRUST


@pytest.mark.parametrize(
    ("call", "reads", "writes"),
    [
        ("set_union(p.begin(), p.end(), q.begin(), q.end(), r.begin())", "pq", "r"),
        (
            "merge_by_key(p.begin(), p.end(), q.begin(), q.end(), p.begin(), s.begin(), r.begin(), t.begin())",
            "pqs",
            "rt",
        ),
        ("lower_bound(p.begin(), p.end(), q.begin(), q.end(), s.begin())", "pq", "s"),
        ("lower_bound(p.begin(), p.end(), 4)", "p", ""),
        ("copy_if(p.begin(), p.end(), q.begin(), s.begin(), is_even())", "pq", "s"),
        ("copy_if(p.begin(), p.end(), s.begin(), is_even())", "p", "s"),
        ("transform_if(p.begin(), p.end(), q.begin(), s.begin(), negate(), is_even())", "pq", "s"),
        ("unique_copy(p.begin(), p.end(), s.begin())", "p", "s"),
        ("transform_inclusive_scan(p.begin(), p.end(), s.begin(), negate(), plus())", "p", "s"),
        ("equal(p.begin(), p.end(), q.begin())", "pq", ""),
    ],
)
def test_what_they_do_to_what_they_are_given(call: str, reads: str, writes: str) -> None:
    result = run(f"{VECTORS} thrust::{call};")
    made = {b.name: b.id for b in result.timeline.buffers}
    (op,) = [op for op in result.timeline.ops if op.api == f"thrust::{call.partition('(')[0]}"]
    for mode, expected in ((Mode.READ, reads), (Mode.WRITE, writes)):
        assert {a.buffer for a in op.accesses if a.mode is mode} == {made[name] for name in expected}


@pytest.mark.parametrize(
    ("call", "runs"),
    [
        (
            "thrust::transform_reduce(thrust::counting_iterator<int>(0), thrust::counting_iterator<int>(n), f(), 0, g())",
            True,
        ),
        ("thrust::reduce(thrust::make_counting_iterator(0), thrust::make_counting_iterator(0) + n)", True),
        ("thrust::counting_iterator<int> i(0); thrust::for_each(i, i + n, f())", True),
        ("thrust::for_each(thrust::device, first, last, f())", True),
        (
            "thrust::for_each(thrust::host, thrust::counting_iterator<int>(0), thrust::counting_iterator<int>(n), f())",
            False,
        ),
        ("std::vector<int> v(n); thrust::for_each(v.begin(), v.end(), f())", False),
        ("thrust::for_each(thrust::omp::par, x, x + n, f())", True),  # it is given memory of the device all the same
    ],
)
def test_where_they_run(call: str, runs: bool) -> None:
    assert len(library_calls(run(f"int n = 8; {call};"))) == runs


def test_a_template_that_looks_into_a_vector_is_followed() -> None:
    before = """template <typename V> void show(const V& v) { for (size_t i = 0; i < v.size(); i++) std::cout << v[i]; }
    template <typename T> void print(thrust::device_vector<T>& d) { thrust::host_vector<T> h = d; }
    template <typename V> void enlarge(V& v) { V more(v.size() + 4); thrust::copy(v.begin(), v.end(), more.begin()); }
    """
    for call, calls in (("show(p)", 1), ("print(p)", 1), ("enlarge(p)", 1)):
        assert len(library_calls(run(f"{VECTORS} {call};", before=before))) >= calls, call
    host = "std::vector<int> p(8);"
    for call in ("show(p)", "enlarge(p)"):
        assert library_calls(run(f"{host} {call};", before=before)) == [], call


def test_a_vector_by_its_other_name_and_a_policy_with_an_allocator() -> None:
    body = "Pool pool; thrust::cuda::vector<int> v(8); thrust::sort(thrust::cuda::par(pool), v.begin(), v.end());"
    result = run(body, before="struct Pool { char* allocate(long n); void deallocate(char* p, size_t n); };\n")
    assert [op.api for op in result.timeline.ops if op.kind is ApiKind.LIBRARY_CALL] == [
        "thrust::device_vector", "thrust::sort"
    ]  # fmt: skip
    assert {a.mode for a in result.op("thrust::sort").accesses} == {Mode.READ, Mode.WRITE}
