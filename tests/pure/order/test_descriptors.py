"""Descriptors of cuSPARSE: work on them is work on the memory that they were made of."""

from __future__ import annotations

from stitchcuda.analysis.program.ir import ApiKind

from tests.pure.order.programs import Run, run

MADE = """float *values, *in, *out; int *rows, *columns; void* buffer;
cudaMalloc(&values, 64); cudaMalloc(&in, 64); cudaMalloc(&out, 64); cudaMalloc(&rows, 64); cudaMalloc(&columns, 64);
cudaMalloc(&buffer, 64);
cusparseHandle_t handle; cusparseCreate(&handle); cusparseSpMatDescr_t A; cusparseDnVecDescr_t X, Y;
cusparseCreateCsr(&A, 4, 4, 16, rows, columns, values, I, I, B, T);
cusparseCreateDnVec(&X, 4, in, T); cusparseCreateDnVec(&Y, 4, out, T);
float one = 1, none = 0;
"""


def uses(result: Run, which: int = 0) -> dict[str, str]:
    """What the call of the library reads and writes."""
    call = [op for op in result.timeline.ops if op.kind is ApiKind.LIBRARY_CALL][which]
    found: dict[str, str] = {}
    for access in call.accesses:
        name = result.timeline.buffers[access.buffer].name
        found[name] = found.get(name, "") + access.mode.value[0]
    return found


def test_the_last_one_is_written_and_the_others_are_read() -> None:
    call = "cusparseSpMV(handle, OP, &one, A, X, &none, Y, T, ALG, buffer);"
    assert uses(run(MADE + call)) == {
        "rows": "r", "columns": "r", "values": "r", "in": "r", "out": "rw", "buffer": "rw"
    }  # fmt: skip


def test_what_only_prepares_writes_none() -> None:
    call = "cusparseSpMV_preprocess(handle, OP, &one, A, X, &none, Y, T, ALG, nullptr);"
    assert set(uses(run(MADE + call)).values()) == {"r"}


def test_other_memory_may_be_given() -> None:
    call = "cusparseDnVecSetValues(Y, x); cusparseSpMV(handle, OP, &one, A, X, &none, Y, T, ALG, nullptr);"
    assert uses(run(MADE + call)) == {"rows": "r", "columns": "r", "values": "r", "in": "r", "x": "rw"}


def test_one_that_is_handed_on_or_kept_is_the_same() -> None:
    before = """struct Kept { cusparseDnVecDescr_t y; };
    void work(cusparseHandle_t h, cusparseSpMatDescr_t A, cusparseDnVecDescr_t X, Kept& k) {
      float one = 1; cusparseSpMV(h, OP, &one, A, X, &one, k.y, T, ALG, nullptr);
    }
    """
    result = run(MADE + "Kept kept; kept.y = Y; work(handle, A, X, kept);", before=before)
    assert uses(result)["out"] == "rw"
