"""Host writes that running device work is meant to see: flags that tell a kernel to go on or to stop (C12)."""

from __future__ import annotations

import re

from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.race import Race
from stitchcuda.analysis.order.alias import SCALAR
from stitchcuda.analysis.order.timeline import Memory
from stitchcuda.analysis.program.ir import ApiKind

_WATCHES = re.compile(rb"\b(volatile|atomic\w*|\w*atomic_ref|while|do|__nanosleep|asm|__threadfence_system|__ldcv)\b")


def signals(given: RuleInput, race: Race) -> bool:
    """The host writes what a kernel may be watching: a few bytes, or anything that the kernel holds to be volatile."""
    shared = (Memory.MAPPED, Memory.MANAGED, Memory.PINNED)
    if race.earlier.kind is not ApiKind.LAUNCH or race.buffer.memory not in shared:
        return False
    name = race.earlier.kernel.rsplit("::", 1)[-1].split("<")[0]
    functions = [given.program.functions[uid] for uid in given.program.by_name.get(name, ())]
    texts = [given.sources[f.path][f.base : f.base + f.span[1]] for f in functions if f.path in given.sources]
    size = race.buffer.size.constant if race.buffer.size is not None else None
    field = bool(race.conflict.second.range.member)  # one field of a record
    if field or (size is not None and size <= SCALAR):
        return not texts or any(_WATCHES.search(text) for text in texts)
    return any(b"volatile" in text for text in texts)
