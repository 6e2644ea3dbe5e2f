"""The finding codes: one rule a file, listed in one table."""

from __future__ import annotations

from stitchcuda.analysis.findings.finding import CommentRule, KernelRule, Measured, Rule
from stitchcuda.analysis.rules import (
    alloc_in_loop,
    bad_warp_mask,
    capture_unjoined,
    capture_unsafe,
    divergent_barrier,
    double_free,
    event_misuse,
    event_wait_before_record,
    event_wrong_stream,
    free_in_flight,
    host_read_before_sync,
    host_round_trip,
    host_write_before_copy_done,
    hostfunc_cuda_call,
    implicit_sync,
    invalid_grid_sync,
    invariant_transfer,
    latency_regression,
    launch_overhead,
    leak,
    missing_async_wait,
    missing_atomic,
    missing_grid_sync,
    missing_syncthreads,
    missing_syncwarp,
    missing_threadfence,
    pageable_async,
    redundant_sync,
    sanitizer,
    small_transfers,
    stream_race_raw,
    stream_race_war,
    stream_race_waw,
    sync_in_loop,
    timing_unsynced,
    unchecked_error,
    unknown_suppression,
    unused_suppression,
    use_after_free,
    use_before_alloc,
)

RULES: tuple[Rule, ...] = (
    stream_race_raw.RULE,
    stream_race_war.RULE,
    stream_race_waw.RULE,
    event_wrong_stream.RULE,
    event_wait_before_record.RULE,
    host_read_before_sync.RULE,
    host_write_before_copy_done.RULE,
    use_before_alloc.RULE,
    use_after_free.RULE,
    double_free.RULE,
    free_in_flight.RULE,
    capture_unsafe.RULE,
    capture_unjoined.RULE,
    hostfunc_cuda_call.RULE,
    event_misuse.RULE,
    timing_unsynced.RULE,
    leak.RULE,
    unchecked_error.RULE,
    invalid_grid_sync.RULE,
    redundant_sync.RULE,
    sync_in_loop.RULE,
    pageable_async.RULE,
    implicit_sync.RULE,
    alloc_in_loop.RULE,
    launch_overhead.RULE,
    small_transfers.RULE,
    host_round_trip.RULE,
    invariant_transfer.RULE,
)

# About device code: one kernel at a time.
KERNEL_RULES: tuple[KernelRule, ...] = (
    missing_syncthreads.RULE,
    divergent_barrier.RULE,
    missing_syncwarp.RULE,
    missing_async_wait.RULE,
    bad_warp_mask.RULE,
    missing_atomic.RULE,
    missing_threadfence.RULE,
    missing_grid_sync.RULE,
)

# About the comments that silence findings, once all others are known; a later one sees what those before it found.
COMMENT_RULES: tuple[CommentRule, ...] = (unknown_suppression.RULE, unused_suppression.RULE)

# What only a run on the GPU can find.
MEASURED: tuple[Measured, ...] = (latency_regression.CODE, sanitizer.CODE)

# What the source text alone can give.
_FROM_SOURCE: tuple[Rule | KernelRule | CommentRule, ...] = (*RULES, *KERNEL_RULES, *COMMENT_RULES)
BY_CODE = {rule.code: rule for rule in _FROM_SOURCE}
ALL_CODES: dict[str, Rule | KernelRule | CommentRule | Measured] = {**BY_CODE, **{code.code: code for code in MEASURED}}


def documentation(code: str) -> str:
    """The Markdown page of a code: what `explain` prints and `docs/rules/<code>.md` holds. KeyError when unknown."""
    rule = ALL_CODES[code]
    headline, _, rest = rule.doc.partition("\n")
    default = "" if rule.default else ", off by default"
    facts = f"Group *{rule.group}*, default severity *{rule.severity}*{default}."
    return f"# {rule.code}\n\n{headline.strip()}\n\n{facts}\n\n{rest.strip()}\n"
