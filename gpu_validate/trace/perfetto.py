"""A trace in the Chrome trace event format, which https://ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

from typing import Any

from stitchcuda.gpu_validate.trace.model import Call, DeviceOp, Trace

HOST, DEVICE = 1, 2  # process ids in the picture


def to_perfetto(trace: Trace) -> dict[str, Any]:
    """Host threads with their calls, device streams with their operations, and an arrow from each call to what it issued.
    Times are microseconds, as the format demands."""
    events: list[dict[str, Any]] = [_name("process_name", HOST, 0, "host")]
    events += [_name("thread_name", HOST, t, f"thread {t}") for t in sorted({c.thread for c in trace.calls})]
    if trace.ops:
        events.append(_name("process_name", DEVICE, 0, trace.device or "device"))
        events += [_name("thread_name", DEVICE, _row(s), _stream(s)) for s in sorted({o.stream for o in trace.ops})]
    if trace.context_end:
        events.append(
            {"ph": "I", "name": "context ready", "pid": HOST, "tid": 0, "ts": trace.context_end / 1e3, "s": "p"}
        )
    calls = {call.correlation: call for call in trace.calls}
    events += [_slice(call.api, HOST, call.thread, call.start, call.end, _call_details(call)) for call in trace.calls]
    for number, op in enumerate(trace.ops):
        name = op.name if op.kind == "kernel" else f"{op.kind} {op.copy_kind}".strip()
        events.append(_slice(name, DEVICE, _row(op.stream), op.start, op.end, _op_details(op)))
        call = calls.get(op.correlation)
        if call is not None:
            arrow = {"name": "issues", "cat": "issue", "id": number}
            events.append({**arrow, "ph": "s", "pid": HOST, "tid": call.thread, "ts": call.start / 1e3})
            events.append({**arrow, "ph": "f", "bp": "e", "pid": DEVICE, "tid": _row(op.stream), "ts": op.start / 1e3})
    return {"displayTimeUnit": "ns", "otherData": {"mode": trace.mode, "dropped": trace.dropped}, "traceEvents": events}


def _row(stream: int) -> int:
    return stream + 1  # -1 stands for a stream that is not known


def _stream(number: int) -> str:
    return {-1: "unknown stream", 0: "default stream"}.get(number, f"stream {number}")


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _slice(name: str, process: int, thread: int, start: int, end: int, details: dict[str, Any]) -> dict[str, Any]:
    times = {"ts": start / 1e3, "dur": (end - start) / 1e3}
    return {"ph": "X", "name": name, "pid": process, "tid": thread, **times, "args": details}


def _call_details(call: Call) -> dict[str, Any]:
    details: dict[str, Any] = {"index": call.index, "status": call.status}
    details.update({"stream": call.stream} if call.stream else {})
    details.update({"bytes": call.bytes} if call.bytes else {})
    details.update({"kernel": call.kernel, "grid": list(call.grid), "block": list(call.block)} if call.kernel else {})
    details.update({"captured": True} if call.captured else {})
    details.update({"line": f"{call.sites[0].path}:{call.sites[0].line}"} if call.sites else {})
    return details


def _op_details(op: DeviceOp) -> dict[str, Any]:
    details: dict[str, Any] = {"stream": op.stream, "correlation": op.correlation}
    details.update({"bytes": op.bytes} if op.bytes else {})
    details.update({"registers": op.registers} if op.registers else {})
    details.update({"graph_node": op.graph_node} if op.graph_node else {})
    return details
