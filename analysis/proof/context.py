"""The first call of the CUDA runtime creates the context, which takes longer than most waits do."""

from __future__ import annotations

from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind

# What never reaches the device, or is no call of the runtime at all.
_IDLE = frozenset({ApiKind.HOST_READ, ApiKind.HOST_WRITE, ApiKind.NEUTRAL, ApiKind.QUERY, ApiKind.UNMODELLED})


def may_create_context(line: Timeline, call: Op) -> bool:
    """Whether this may be the first call that needs the context: no other one is sure to come before it. Programs make such
    a call on purpose, so that none of the work that is timed later pays for the context."""
    around = set()
    loop = call.loop
    while loop is not None:
        around.add(loop)
        loop = line.loops[loop].parent
    return not any(
        op.kind not in _IDLE
        and op.certain
        and line.earlier[call.id] >> op.id & 1
        and (op.loop is None or op.loop in around)
        and set(op.conditions) <= set(call.conditions)
        and op.site != call.site
        for op in line.ops
    )
