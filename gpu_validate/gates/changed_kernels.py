"""Which kernels two versions do not have in common: tools that look at nothing but kernels need not look at the others."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from stitchcuda.gpu_validate.building.model import Built
from stitchcuda.gpu_validate.trace.symbols import plain_name

_IDENTIFIER = re.compile(r"([A-Za-z_]\w*)(<.*>)?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ChangedKernels:
    """Names without arguments, as in traces. `before` are those of the original whose code the version does not have, `after` those
    of the version whose code is new, or that it launches in a new shape (grid, block, shared memory)."""

    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()


def changed_kernels(baseline: Built, candidate: Built, new_shapes: frozenset[str] | None) -> ChangedKernels | None:
    """None when it cannot be told: then all kernels count. `new_shapes` are the kernels that were seen to be launched otherwise,
    None when that was not seen."""
    if new_shapes is None or not baseline.device_code or not candidate.device_code:
        return None
    if baseline.compiles_at_run_time or candidate.compiles_at_run_time:
        return None
    one, other = baseline.resources, candidate.resources
    if not new_shapes <= {plain_name(k) for k in other}:
        return None  # a kernel that came from elsewhere
    if baseline.device_code == candidate.device_code:
        return ChangedKernels(new_shapes, new_shapes)  # of the same kernels
    if baseline.device_functions != candidate.device_functions:
        return None  # any kernel may call what changed
    before = {k for k, r in one.items() if k not in other or other[k].code != r.code}
    after = {k for k, r in other.items() if k not in one or one[k].code != r.code}
    if not before and not after:
        return None  # something else in the device code differs
    return ChangedKernels(
        frozenset(map(plain_name, before)) | new_shapes, frozenset(map(plain_name, after)) | new_shapes
    )


def filter_options(names: Collection[str], built: Built) -> tuple[str, ...] | None:
    """Options of compute-sanitizer that choose these kernels of a version, and perhaps more; () when it has none of them, None
    when they cannot be chosen by name."""
    chosen: dict[str, None] = {}
    for shown in sorted(built.resources):
        if plain_name(shown) not in names:
            continue
        if shown.startswith("_Z"):  # not demangled here
            return None
        found = _IDENTIFIER.search(plain_name(shown))
        if found is None:
            return None
        inside = f"{len(found[1])}{found[1]}" if shown.endswith(")") else found[1]  # extern "C": the name as it stands
        chosen[f"kernel_substring={inside}"] = None
    return tuple(word for one in chosen for word in ("--kernel-name", one))
