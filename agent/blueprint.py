"""The blueprint: the structure a stitched version is to have, before any text is edited (docs/json.md).

Ops are named by the node ids of the execution graph it was made from. `blueprint_from_json` checks every field and the
ids across fields, and raises `SchemaError` naming the field and the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stitchcuda.analysis.contract.jsonread import Reader, SchemaError, text
from stitchcuda.analysis.contract.types import METRIC_UNITS

SCHEMA = 1
SPACES = ("device", "pinned", "pageable", "managed", "mapped", "symbol")


@dataclass(frozen=True, slots=True)
class Lane:
    """What runs on one stream, in order."""

    stream: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventEdge:
    """An event recorded after one op and waited for before another."""

    record_after: str
    wait_before: str


@dataclass(frozen=True, slots=True)
class Residency:
    """A buffer stays in a memory space from one op to another, both included."""

    buffer: str
    space: str
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Reuse:
    """Buffers that share one allocation, because their lives do not overlap."""

    buffers: tuple[str, ...]
    bytes_saved: int


@dataclass(frozen=True, slots=True)
class Waits:
    """Host waits by node id."""

    kept: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaptureRegion:
    """Ops that become one CUDA graph."""

    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Predicted:
    """What the blueprint is expected to change, in the metric's unit."""

    metric: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Blueprint:
    """See the module docstring and docs/json.md for the fields."""

    lanes: tuple[Lane, ...] = ()
    events: tuple[EventEdge, ...] = ()
    residency: tuple[Residency, ...] = ()
    reuse: tuple[Reuse, ...] = ()
    waits: Waits = Waits()
    captures: tuple[CaptureRegion, ...] = ()
    critical_path: tuple[str, ...] = ()
    predicted: Predicted | None = None


FIELDS = ("schema", "lanes", "events", "residency", "reuse", "waits", "captures", "critical_path", "predicted")


def blueprint_from_json(value: object) -> Blueprint:
    """Reads a decoded JSON value. Raises `SchemaError`."""
    reader = Reader(value, "", FIELDS)
    reader.schema(SCHEMA)
    blueprint = Blueprint(
        lanes=reader.items("lanes", _lane, ()),
        events=reader.items("events", _event, ()),
        residency=reader.items("residency", _residency, ()),
        reuse=reader.items("reuse", _reuse, ()),
        waits=reader.record("waits", _waits) if reader.has("waits") else Waits(),
        captures=reader.items("captures", _capture, ()),
        critical_path=reader.items("critical_path", text, ()),
        predicted=reader.optional_record("predicted", _predicted),
    )
    _check_lanes(blueprint)
    return blueprint


def _check_lanes(blueprint: Blueprint) -> None:
    """An op runs once, on one stream; a wait is kept or removed, not both."""
    seen: dict[str, str] = {}
    for k, lane in enumerate(blueprint.lanes):
        for j, op in enumerate(lane.ops):
            if op in seen:
                raise SchemaError(f"lanes[{k}].ops[{j}]", op, f"an op that {seen[op]} does not hold already")
            seen[op] = f"lanes[{k}]"
    for k, wait in enumerate(blueprint.waits.removed):
        if wait in blueprint.waits.kept:
            raise SchemaError(f"waits.removed[{k}]", wait, "a wait that waits.kept does not name")


def _lane(value: object, at: str) -> Lane:
    reader = Reader(value, at, ("stream", "ops"))
    return Lane(reader.text("stream"), reader.items("ops", text))


def _event(value: object, at: str) -> EventEdge:
    reader = Reader(value, at, ("record_after", "wait_before"))
    return EventEdge(reader.text("record_after"), reader.text("wait_before"))


def _residency(value: object, at: str) -> Residency:
    reader = Reader(value, at, ("buffer", "space", "from", "to"))
    space = reader.choice("space", SPACES)
    return Residency(reader.text("buffer"), space, reader.text("from"), reader.text("to"))


def _reuse(value: object, at: str) -> Reuse:
    reader = Reader(value, at, ("buffers", "bytes_saved"))
    buffers = reader.items("buffers", text)
    if len(set(buffers)) < 2:
        raise SchemaError(reader.path("buffers"), list(buffers), "two different buffers or more")
    return Reuse(buffers, reader.integer("bytes_saved", least=0))


def _waits(value: object, at: str) -> Waits:
    reader = Reader(value, at, ("kept", "removed"))
    return Waits(reader.items("kept", text, ()), reader.items("removed", text, ()))


def _capture(value: object, at: str) -> CaptureRegion:
    return CaptureRegion(Reader(value, at, ("ops",)).items("ops", text))


def _predicted(value: object, at: str) -> Predicted:
    reader = Reader(value, at, ("metric", "before", "after"))
    metric = reader.choice("metric", METRIC_UNITS)
    return Predicted(metric, reader.number("before", least=0), reader.number("after", least=0))


def blueprint_to_json(blueprint: Blueprint) -> dict[str, Any]:
    """A value for `json.dumps`, which `blueprint_from_json` reads back to the same blueprint."""
    predicted = blueprint.predicted
    return {
        "schema": SCHEMA,
        "lanes": [{"stream": lane.stream, "ops": list(lane.ops)} for lane in blueprint.lanes],
        "events": [{"record_after": e.record_after, "wait_before": e.wait_before} for e in blueprint.events],
        "residency": [
            {"buffer": r.buffer, "space": r.space, "from": r.start, "to": r.end} for r in blueprint.residency
        ],
        "reuse": [{"buffers": list(r.buffers), "bytes_saved": r.bytes_saved} for r in blueprint.reuse],
        "waits": {"kept": list(blueprint.waits.kept), "removed": list(blueprint.waits.removed)},
        "captures": [{"ops": list(c.ops)} for c in blueprint.captures],
        "critical_path": list(blueprint.critical_path),
        "predicted": None
        if predicted is None
        else {"metric": predicted.metric, "before": predicted.before, "after": predicted.after},
    }
