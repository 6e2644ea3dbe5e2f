"""Whole-program transforms, one a file; the table of them is `TRANSFORMS`, in the order in which they enable each other."""

from __future__ import annotations

from stitchcuda.agent.transforms import hoist_allocation, keep_resident, remove_wait
from stitchcuda.agent.transforms.transform import Transform

TRANSFORMS: tuple[Transform, ...] = (hoist_allocation, remove_wait, keep_resident)
