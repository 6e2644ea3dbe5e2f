"""Functions that launch kernels, called through a table."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.order.timeline import Certainty

from tests.pure.order.programs import run

FUNCTIONS = """
void one(float* p, int n) { a<<<1, n>>>(p); }
void two(float* p, int n) { b<<<1, n>>>(p); }
void three(float* p, int n) { c<<<1, n>>>(p); }
typedef void (*work)(float*, int);
"""
WRITTEN = (
    "void (*table[])(float*, int) = {one, two, three};\n",
    "static const work table[3] = {&one, &two, &three};\n",
    "work table[] = {one, two, three};\n",
)


def launched(table: str, body: str) -> set[str]:
    timeline = run(body, before=FUNCTIONS + table).timeline
    return {op.kernel for op in timeline.ops if op.kernel}


@pytest.mark.parametrize("table", WRITTEN)
def test_a_known_entry_of_a_table_is_called(table: str) -> None:
    assert launched(table, "table[1](x, 32);") == {"b"}


@pytest.mark.parametrize("table", WRITTEN)
def test_an_entry_that_is_not_known_may_be_any(table: str) -> None:
    assert launched(table, "table[rand()](x, 32);") == {"a", "b", "c"}


def test_an_entry_that_was_replaced_is_the_new_one() -> None:
    assert launched(WRITTEN[2], "table[1] = three; table[1](x, 32);") == {"c"}


def test_tables_have_rows() -> None:
    table = "work table[2][2] = {{one, two}, {three, one}};\n"
    assert launched(table, "table[1][0](x, 32);") == {"c"}


def test_functions_that_are_kept_elsewhere_first_are_followed() -> None:
    body = (
        '  int n = atoi(getenv("n")); work* chosen = (work*)malloc(n * sizeof(work));\n'
        "  for (int i = 0; i < n; i++) chosen[i] = table[rand() % 3];\n"
        "  for (int i = 0; i < n; i++) chosen[i](x, 32);"
    )
    assert launched(WRITTEN[0], body) == {"a", "b", "c"}


def test_all_of_a_long_table_is_followed() -> None:
    kernels = "".join(f"__global__ void k{i}(float* p) {{ p[threadIdx.x] = {i}; }}\n" for i in range(20))
    functions = "".join(f"void f{i}(float* p) {{ k{i}<<<1, 32>>>(p); }}\n" for i in range(20))
    table = "void (*table[])(float*) = {" + ", ".join(f"f{i}" for i in range(20)) + "};\n"
    found = launched(kernels + functions + table, "table[rand()](x);")
    assert found == {f"k{i}" for i in range(20)}


@pytest.mark.parametrize("row", ["auto row", "const auto& row", "std::pair<kernel, int> row"])
def test_an_element_that_is_copied_out_of_a_long_table_has_its_parts(row: str) -> None:
    rows = ", ".join(f"{{{name}, {k}}}" for k, name in enumerate("abcabcabc"))
    go = "void go(kernel f, float* p) { f<<<1, 32>>>(p); }\n"
    body = f"std::vector<std::pair<kernel, int>> rows = {{{rows}}}; for ({row} : rows) go(row.first, x);"
    timeline = run(body, before=f"using kernel = void (*)(float*);\n{go}").timeline
    launches = [op.launched for op in timeline.ops if op.launched is not None]
    assert {uid.rpartition("::")[2] for launch in launches for uid in launch.kernels} == {"a", "b", "c"}


def test_what_one_of_several_kernels_does_is_certain_when_each_of_them_does_it() -> None:
    before = """__global__ void fill(float* out, float* in) { out[threadIdx.x] = 0; }
    __global__ void scale(float* out, float* in) { out[threadIdx.x] = in[threadIdx.x]; }
    """
    before += "void (*table[])(float*, float*) = {fill, scale};\n"
    body = "float* z; cudaMalloc(&z, 4096); table[rand()]<<<1, 32>>>(x, y); table[0]<<<1, 32>>>(z, y);"
    timeline = run(body, before=before).timeline
    either, one = [op for op in timeline.ops if op.launched is not None]
    names = {b.id: b.name for b in timeline.buffers}
    assert {(names[a.buffer], a.mode.value, a.certainty is Certainty.MUST) for a in either.accesses} == {
        ("x", "write", True), ("y", "read", False)
    }  # fmt: skip
    assert {(names[a.buffer], a.mode.value) for a in one.accesses} == {("z", "write")}
