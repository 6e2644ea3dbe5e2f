"""A trace in a few lines, for people."""

from __future__ import annotations

from collections import defaultdict

from stitchcuda.gpu_validate.trace.measures import calls_by_api, cuda_span, gpu_busy
from stitchcuda.gpu_validate.trace.model import NOT_RETURNED, Trace

MOST = 12  # rows of a table


def to_text(trace: Trace) -> str:
    """What ran, how long, and what went wrong."""
    lines = [f"{trace.device or 'no device used'}, {trace.mode} mode"]
    span, busy = cuda_span(trace), gpu_busy(trace)
    if span is not None:
        share = f", device busy {_ms(busy)} ({busy / span:.0%})" if busy is not None and span else ""
        lines.append(f"CUDA span {_ms(span)} (context ready after {_ms(trace.context_end)}){share}")
    digests = sum(1 for read in trace.reads if read.digest)
    if trace.reads:
        lines.append(f"{len(trace.reads)} copies to the host, {digests} of them read")
    lines += _table("calls", [(api, n, time) for api, (n, time) in calls_by_api(trace).items()])
    ops: dict[str, list[int]] = defaultdict(list)
    for op in trace.ops:
        ops[op.name if op.kind == "kernel" else f"{op.kind} {op.copy_kind}".strip()].append(op.end - op.start)
    lines += _table("device operations", [(name, len(times), sum(times)) for name, times in ops.items()])
    failed = [c for c in trace.calls if c.status not in (0, NOT_RETURNED)]
    for call in failed[:MOST]:
        place = f" at {call.sites[0].path}:{call.sites[0].line}" if call.sites else ""
        lines.append(f"failed: {call.api} (call {call.index}) with error {call.status}{place}")
    lines += [f"problem: {problem}" for problem in trace.problems]
    if trace.dropped:
        lines.append(f"problem: {trace.dropped} records were lost; nothing may be concluded from what is not here")
    return "\n".join(lines) + "\n"


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.3f} ms"


def _table(title: str, rows: list[tuple[str, int, int]]) -> list[str]:
    if not rows:
        return []
    rows.sort(key=lambda row: (-row[2], row[0]))
    lines = [f"{title}:"] + [f"  {count:>8}  {_ms(time):>14}  {name[:100]}" for name, count, time in rows[:MOST]]
    rest = rows[MOST:]
    if rest:
        lines.append(f"  {sum(r[1] for r in rest):>8}  {_ms(sum(r[2] for r in rest)):>14}  ({len(rest)} more)")
    return lines
