"""Kernels and library functions whose code is not here: that they use what they are given is a safe guess, how much of it is not."""

from __future__ import annotations

from stitchcuda.analysis.order.alias import alias, covers_all
from stitchcuda.analysis.order.symbolic import ZERO
from stitchcuda.analysis.order.timeline import Access, Certainty, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import RELEASES, ApiKind, Program

_RUNS = (ApiKind.LAUNCH, ApiKind.LIBRARY_CALL)


def meets_what_is_unseen(
    program: Program, timeline: Timeline, op: Op, access: Access, other: Op, clash: Access
) -> bool:
    """`op` is such a call that is given the start of a buffer, all of which `other` writes or releases: whatever part is
    used is part of that. Where it would write as well as read, the read is what is told. Of a traced run nothing is guessed: there,
    code is missing because the program's text was not given."""
    if (
        timeline.source != "static"
        or not is_unseen(program, op)
        or access.certainty is not Certainty.MAY
        or access.one_of
    ):
        return False
    if clash.mode is not Mode.WRITE or clash.certainty is not Certainty.MUST or clash.one_of or access.range.member:
        return False
    buffer = timeline.buffers[clash.buffer]
    if alias(timeline.buffers[access.buffer], buffer) is not True:
        return False
    if other.kind in RELEASES:
        return True
    return access.mode is Mode.READ and access.range.offset == ZERO and covers_all(clash.range, buffer)


def is_unseen(program: Program, op: Op) -> bool:
    """A launch of a kernel that no file of the program holds, or a library function without roles of its own."""
    if op.kind not in _RUNS or not any(a.certainty is Certainty.MAY for a in op.accesses):
        return False
    name = op.kernel.rsplit("::", 1)[-1].split("<")[0]
    return op.kind is ApiKind.LIBRARY_CALL or not program.by_name.get(name)
