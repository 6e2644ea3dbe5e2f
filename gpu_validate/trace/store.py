"""Traces as JSON (docs/json.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from stitchcuda.gpu_validate.trace.model import SCHEMA, Call, CallSite, DeviceOp, HostRead, Trace, TracedStream

T = TypeVar("T")


class BadTrace(ValueError):
    """The text says what is wrong with a value that should be a trace."""


def to_json(trace: Trace) -> dict[str, Any]:
    """The trace as plain JSON values. Members of calls, ops and streams that have their default are left out, and the sites
    of calls stand once in `sites`."""
    sites: dict[tuple[CallSite, ...], int] = {}
    calls = []
    for call in trace.calls:
        value = _sparse(call)
        value.pop("sites", None)
        if call.sites:
            value["sites"] = sites.setdefault(call.sites, len(sites))
        calls.append(value)
    return {
        "schema": SCHEMA,
        "mode": trace.mode,
        "device": trace.device,
        "start": trace.start,
        "context_end": trace.context_end,
        "end": trace.end,
        "dropped": trace.dropped,
        "problems": list(trace.problems),
        "streams": [_sparse(stream) for stream in trace.streams],
        "calls": calls,
        "ops": [_sparse(op) for op in trace.ops],
        "reads": [_sparse(read) for read in trace.reads],
        "sites": [[_sparse(site) for site in group] for group in sites],
    }


def from_json(value: Any) -> Trace:
    """The trace behind what `to_json` gave. Raises BadTrace."""
    if not isinstance(value, Mapping) or value.get("schema") != SCHEMA:
        raise BadTrace(f'not a trace: an object with "schema": {SCHEMA} is expected')
    try:
        groups = [tuple(_made(CallSite, site) for site in group) for group in _list(value, "sites")]
        calls = []
        for entry in _list(value, "calls"):
            number = entry.get("sites")
            call = _made(Call, {name: item for name, item in entry.items() if name != "sites"})
            calls.append(call if number is None else dataclasses.replace(call, sites=groups[number]))
        return Trace(
            value["mode"],
            value["start"],
            value["context_end"],
            value["end"],
            tuple(calls),
            tuple(_made(DeviceOp, entry) for entry in _list(value, "ops")),
            tuple(_made(HostRead, entry) for entry in _list(value, "reads")),
            value.get("device", ""),
            value.get("dropped", 0),
            tuple(_list(value, "problems")),
            tuple(_made(TracedStream, entry) for entry in _list(value, "streams")),
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise BadTrace(f"not a trace: {type(error).__name__}: {error}") from None


def _sparse(item: Any) -> dict[str, Any]:
    result = {}
    for field in dataclasses.fields(item):
        if not field.metadata.get("json", True):
            continue
        value = getattr(item, field.name)
        if value != field.default:
            result[field.name] = list(value) if isinstance(value, tuple) else value
    return result


def _made(kind: type[T], entry: Mapping[str, Any]) -> T:
    if "contents" in entry:
        raise TypeError("contents are never part of it")
    return kind(**{name: tuple(item) if isinstance(item, list) else item for name, item in entry.items()})


def _list(value: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = value.get(name, [])
    if not isinstance(found, list):
        raise TypeError(f"{name} is not a list")
    return found
