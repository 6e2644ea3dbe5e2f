"""Vectors of thrust: what they do on the device by themselves (O9)."""

from __future__ import annotations

from stitchcuda.analysis.order.cuda.thrust_effects import is_algorithm
from stitchcuda.analysis.order.timeline import Mode, Op
from stitchcuda.analysis.program.ir import ApiKind
from stitchcuda.analysis.program.link import THRUST

from tests.pure.order.programs import Run, run

VECTORS = '  int n = atoi(getenv("n"));\n  thrust::host_vector<float> h(n);\n'


def work(result: Run) -> list[tuple[str, dict[str, str]]]:
    def of(op: Op) -> dict[str, str]:
        modes: dict[str, str] = {}
        for access in op.accesses:
            name = result.timeline.buffers[access.buffer].name
            modes[name] = modes.get(name, "") + ("w" if access.mode is Mode.WRITE else "r")
        return modes

    return [(op.api, of(op)) for op in result.timeline.ops if op.kind is ApiKind.LIBRARY_CALL]


def test_a_vector_with_elements_is_filled() -> None:
    fill = [("thrust::device_vector", {"v": "w"})]
    assert work(run(VECTORS + "thrust::device_vector<float> v(n);")) == fill
    assert work(run(VECTORS + "thrust::device_vector<float> v(n, 1.0f);")) == fill
    assert work(run(VECTORS + "thrust::device_vector<float> v(h.begin(), h.end());")) == fill
    assert work(run(VECTORS + "thrust::device_vector<float> v;")) == []
    assert work(run(VECTORS + "thrust::device_vector<float> v; v.resize(n);")) == fill


def test_vectors_of_two_sides_are_copied_and_stay_two() -> None:
    made = "thrust::device_vector<float> v = h; thrust::sort(v.begin(), v.end()); h = v;"
    assert work(run(VECTORS + made)) == [
        ("thrust::copy", {"v": "w"}),
        ("thrust::sort", {"v": "rw"}),
        ("thrust::copy", {"v": "r"}),
    ]
    back = "thrust::device_vector<float> v(h); thrust::host_vector<float> g = v;"
    assert work(run(VECTORS + back)) == [("thrust::copy", {"v": "w"}), ("thrust::copy", {"v": "r"})]


def test_an_element_that_the_host_reads_is_copied() -> None:
    result = run(VECTORS + "thrust::device_vector<float> v(h); float first = v[0]; v[1] = first;")
    assert work(result)[1:] == [("thrust::copy", {"v": "r"}), ("thrust::copy", {"v": "w"})]


def test_its_address_is_not_a_look_into_it() -> None:
    result = run(VECTORS + "thrust::device_vector<float> v(h); a<<<1, 32>>>(thrust::raw_pointer_cast(&v[0]));")
    assert [api for api, _ in work(result)] == ["thrust::copy"]


def test_the_host_waits_until_a_vector_is_filled() -> None:
    stream = "cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);\n"
    result = run(VECTORS + stream + "thrust::device_vector<float> v(n); a<<<1, 32, 0, s>>>(v.data().get());")
    assert result.ordered("thrust::device_vector", "a")


def test_an_algorithm_finds_the_ranges_that_are_zipped() -> None:
    zipped = "thrust::generate(thrust::make_zip_iterator(thrust::make_tuple(v.begin(), w.begin())), e, f());"
    result = run(VECTORS + "thrust::device_vector<float> v(h), w(h);" + zipped)
    assert work(result)[-1] == ("thrust::generate", {"v": "w", "w": "w"})


def test_a_function_with_nothing_but_thrust_is_looked_into() -> None:
    before = (
        "template <class T> void sorted(int n) { thrust::device_vector<T> v(n); thrust::sort(v.begin(), v.end()); }\n"
    )
    result = run("sorted<float>(64);", before=before)
    assert [api for api, _ in work(result)] == ["thrust::device_vector", "thrust::sort"]
    assert all(name == "device_vector" or is_algorithm(f"thrust::{name}") for name in THRUST)


def test_an_algorithm_of_cub_runs_on_its_stream_once_it_has_memory() -> None:
    body = """cudaStream_t s; cudaStreamCreate(&s);
    void* temp = nullptr; size_t bytes = 0;
    cub::DeviceReduce::Sum(temp, bytes, x, y, 64, s);
    cudaMalloc(&temp, bytes);
    cub::DeviceReduce::Sum(temp, bytes, x, y, 64, s);
    a<<<1, 32, 0, s>>>(y);
    b<<<1, 32>>>(y);"""
    result = run(body)
    (call,) = (op for op in result.timeline.ops if op.kind is ApiKind.LIBRARY_CALL)
    assert call.stream == result.op("a").stream
    assert {result.timeline.buffers[a.buffer].name for a in call.accesses} == {"temp", "x", "y"}
    assert not call.waits


def test_the_size_that_cub_asks_for_is_never_none() -> None:
    body = """void* temp = nullptr; size_t bytes = 0;
    cub::DeviceReduce::Sum(temp, bytes, x, y, 64);
    if (bytes != 0) cudaMalloc(&temp, bytes);
    cub::DeviceReduce::Sum(temp, bytes, x, y, 64);
    if (temp != nullptr) cudaFree(temp);"""
    ops = run(body).timeline.ops[2:]
    assert [(op.kind, op.conditions) for op in ops] == [
        (ApiKind.ALLOC, ()), (ApiKind.LIBRARY_CALL, ()), (ApiKind.FREE, ())
    ]  # fmt: skip


def test_a_pointer_of_thrust_is_the_pointer_that_it_wraps() -> None:
    for made in ("thrust::device_ptr<float> p(x);", "const auto p = thrust::device_ptr<float>(x);",
                 "auto p = thrust::device_ptr<float>{x};", "auto p = thrust::device_pointer_cast(x);"):  # fmt: skip
        assert work(run(f"{made} float s = thrust::reduce(p, p + 4);")) == [("thrust::reduce", {"x": "r"})], made


def test_the_host_looks_at_the_first_or_last_element() -> None:
    looks = work(run(VECTORS + "thrust::device_vector<char> v(n); if (is_alpha(v.front()) && v.back() > 4) h[0] = 1;"))
    assert looks == [("thrust::device_vector", {"v": "w"}), ("thrust::copy", {"v": "r"}), ("thrust::copy", {"v": "r"})]


def test_an_iterator_that_is_made_of_others_leads_to_what_they_lead_to() -> None:
    before = """template <typename It> struct strided {
      typedef thrust::permutation_iterator<It, thrust::counting_iterator<int>> Permuted;
      It first, last; strided(It first, It last) : first(first), last(last) {}
      Permuted begin() const { return Permuted(first, thrust::counting_iterator<int>(0)); }
      Permuted end() const { return begin() + (last - first); }
    };
    """
    made = (
        "strided<thrust::device_ptr<float>> range(thrust::device_pointer_cast(x), thrust::device_pointer_cast(x) + 9);"
    )
    assert work(run(f"{made} float s = thrust::reduce(range.begin(), range.end());", before=before)) == [
        ("thrust::reduce", {"x": "r"})
    ]


def test_a_function_of_which_cub_is_the_only_work_is_followed() -> None:
    loops = "for (size_t i = 0; i < n; i++) look(i);" * 8  # too much to be followed for nothing
    for prefix, using in (("cub::", ""), ("::cub::", ""), ("", "using namespace cub;\n")):
        before = (
            f"{using}void sum(void* t, size_t n, float* p) {{ {prefix}DeviceReduce::Sum(t, n, p, p, 4); {loops} }}\n"
        )
        assert [api for api, _ in work(run("sum(y, 16, x);", before=before))] == [f"{prefix}DeviceReduce::Sum"]


def test_a_class_of_the_programs_own_is_not_cubs() -> None:
    before = "struct DeviceScan { static void run(void* t, size_t n) { a<<<1, 1>>>((float*)t); } };\n"
    result = run("DeviceScan::run(x, 4);", before=before)
    assert work(result) == [] and result.op("a")
