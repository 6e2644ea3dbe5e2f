"""`cub::CachingDeviceAllocator`: the memory that it hands out is memory of the device."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.order.timeline import Memory

from tests.pure.order.programs import run

POOL = "cub::CachingDeviceAllocator pool(true);\n"


@pytest.mark.parametrize("out", ["(void**)&p, 64", "(void **)&p, sizeof(float) * 16, stream", "0, (void**)&p, 64"])
def test_what_it_hands_out_is_told_apart(out: str) -> None:
    body = f"""cudaStream_t stream; cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); float* p = NULL; float* q = NULL;
    check(pool.DeviceAllocate({out})); check(pool.DeviceAllocate((void**)&q, 64));
    a<<<1, 8, 0, stream>>>(p); b<<<1, 8>>>(q); cudaMemset(p, 0, 64); if (p) check(pool.DeviceFree(p)); check(pool.DeviceFree(q));"""
    result = run(body, before="int check(int status);\n" + POOL)
    first, second, filled = result.op("a"), result.op("b"), result.op("cudaMemset")
    of = [{a.buffer for a in op.accesses} for op in (first, second, filled)]
    assert len(of[0]) == len(of[1]) == 1 and of[0] != of[1] and of[2] == of[0]
    assert {b.memory for b in result.timeline.buffers if b.id in of[0] | of[1]} == {Memory.DEVICE}
    assert not result.timeline.ordered(first.id, filled.id)
