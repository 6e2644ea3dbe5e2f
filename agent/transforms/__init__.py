"""Whole-program transforms, one a file; the table of them is `TRANSFORMS`, in the order in which they enable each other, and
what each may alter is in `DECLARED`, by its id."""

from __future__ import annotations

from stitchcuda.agent.transforms import hoist_allocation, keep_resident, remove_wait
from stitchcuda.agent.transforms.transform import Transform
from stitchcuda.analysis.proof.model import Declared

TRANSFORMS: tuple[Transform, ...] = (hoist_allocation, remove_wait, keep_resident)
DECLARED: dict[str, Declared] = {
    hoist_allocation.ID: hoist_allocation.DECLARED,
    remove_wait.ID: remove_wait.DECLARED,
    keep_resident.ID: keep_resident.DECLARED,
}
