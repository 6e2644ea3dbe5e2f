"""What algorithms of thrust do to what their iterators lead to, by position; the last entry stands for further ones."""

from __future__ import annotations

from stitchcuda.analysis.order.host import host_library
from stitchcuda.analysis.order.host.host_library import NONE, RW, R, W
from stitchcuda.analysis.order.timeline import Mode

Effects = tuple[tuple[Mode, ...], ...]

_EFFECTS: dict[str, Effects] = {
    "inclusive_scan": (R, NONE, W, NONE), "exclusive_scan": (R, NONE, W, NONE), "sequence": (W, NONE),
    "transform_inclusive_scan": (R, NONE, W, NONE), "transform_exclusive_scan": (R, NONE, W, NONE),
    "inclusive_scan_by_key": (R, NONE, R, W, NONE), "exclusive_scan_by_key": (R, NONE, R, W, NONE),
    "sort_by_key": (RW, NONE, RW, NONE), "stable_sort_by_key": (RW, NONE, RW, NONE), "is_sorted": (R, NONE),
    "is_sorted_until": (R, NONE), "unique": (RW, NONE), "unique_copy": (R, NONE, W, NONE), "unique_count": (R, NONE),
    "unique_by_key": (RW, NONE, RW, NONE), "unique_by_key_copy": (R, NONE, R, W, W, NONE),
    "reduce_by_key": (R, NONE, R, W, W, NONE), "transform_reduce": (R, NONE), "inner_product": (R, NONE, R, NONE),
    "equal": (R, NONE, R, NONE), "mismatch": (R, NONE, R, NONE), "tabulate": (W, NONE), "for_each_n": (RW, NONE),
    "remove": (RW, NONE), "remove_copy": (R, NONE, W, NONE), "replace": (RW, NONE), "replace_copy": (R, NONE, W, NONE),
    "gather": (R, NONE, R, W, NONE), "gather_if": (R, NONE, R, R, W, NONE), "scatter": (R, NONE, R, W, NONE),
    "scatter_if": (R, NONE, R, R, W, NONE), "adjacent_difference": (R, NONE, W, NONE), "generate": (W, NONE),
    "uninitialized_fill": (W, NONE), "uninitialized_fill_n": (W, NONE), "uninitialized_copy": (R, NONE, W),
    "uninitialized_copy_n": (R, NONE, W), "reverse_copy": (R, NONE, W), "shuffle_copy": (R, NONE, W, NONE),
    "swap_ranges": (RW, NONE, RW), "find_if": (R, NONE), "find_if_not": (R, NONE), "is_partitioned": (R, NONE),
    "partition_point": (R, NONE), "merge": (R, NONE, R, NONE, W, NONE),
    "merge_by_key": (R, NONE, R, NONE, R, R, W, W, NONE),
    "set_union": (R, NONE, R, NONE, W, NONE), "set_union_by_key": (R, NONE, R, NONE, R, R, W, W, NONE),
    "set_intersection": (R, NONE, R, NONE, W, NONE), "set_intersection_by_key": (R, NONE, R, NONE, R, W, W, NONE),
    "set_difference": (R, NONE, R, NONE, W, NONE), "set_difference_by_key": (R, NONE, R, NONE, R, R, W, W, NONE),
    "set_symmetric_difference": (R, NONE, R, NONE, W, NONE),
    "set_symmetric_difference_by_key": (R, NONE, R, NONE, R, R, W, W, NONE),
}  # fmt: skip
# Those that take another range when they are given more: up to so many arguments, and what they do then.
_BY_COUNT: dict[str, tuple[tuple[int, Effects], ...]] = {
    "transform": ((4, (R, NONE, W, NONE)), (99, (R, NONE, R, W, NONE))),
    "transform_if": ((5, (R, NONE, W, NONE)), (6, (R, NONE, R, W, NONE)), (99, (R, NONE, R, R, W, NONE))),
    "copy_if": ((4, (R, NONE, W, NONE)), (99, (R, NONE, R, W, NONE))),
    "remove_if": ((3, (RW, NONE)), (99, (RW, NONE, R, NONE))),
    "remove_copy_if": ((4, (R, NONE, W, NONE)), (99, (R, NONE, R, W, NONE))),
    "replace_if": ((4, (RW, NONE)), (99, (RW, NONE, R, NONE))),
    "replace_copy_if": ((5, (R, NONE, W, NONE)), (99, (R, NONE, R, W, NONE))),
    "partition": ((3, (RW, NONE)), (99, (RW, NONE, R, NONE))),
    "stable_partition": ((3, (RW, NONE)), (99, (RW, NONE, R, NONE))),
    "partition_copy": ((5, (R, NONE, W, W, NONE)), (99, (R, NONE, R, W, W, NONE))),
    "stable_partition_copy": ((5, (R, NONE, W, W, NONE)), (99, (R, NONE, R, W, W, NONE))),
    "lower_bound": ((4, (R, NONE)), (99, (R, NONE, R, NONE, W, NONE))),
    "upper_bound": ((4, (R, NONE)), (99, (R, NONE, R, NONE, W, NONE))),
    "binary_search": ((4, (R, NONE)), (99, (R, NONE, R, NONE, W, NONE))),
    "equal_range": ((4, (R, NONE)),),
}
ANYWHERE = frozenset(
    {"gather", "gather_if", "scatter", "scatter_if"}
) | {  # other ranges have other lengths than the first
    name for name in (*_EFFECTS, *_BY_COUNT) if name.startswith(("merge", "set_", "lower_", "upper_", "binary_"))
}


def effects_of(name: str, given: int) -> Effects | None:
    """That of an algorithm (without `thrust::`) for so many arguments behind the policy; None: it is none."""
    for most, effects in _BY_COUNT.get(name, ()):
        if given <= most:
            return effects
    return _EFFECTS.get(name) or host_library.EFFECTS.get(name)


def is_algorithm(name: str) -> bool:
    """Whether a function is one of thrust's that works on the device."""
    if not name.removeprefix("::").startswith("thrust::"):
        return False
    return effects_of(name.rpartition("::")[2], 0) is not None


def names() -> frozenset[str]:
    """Those that are thrust's own, or do something else than those of the host's library."""
    return frozenset(_EFFECTS) | frozenset(_BY_COUNT)
