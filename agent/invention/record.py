"""The decisions of a run with a model, in its folder: `invention.json`, whole at every moment (docs/runs.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stitchcuda.agent.invention.handover import Invented, Start
from stitchcuda.agent.invention.machine import (
    Event,
    Halted,
    Judged,
    Phase,
    Planned,
    Refused,
    Shown,
    Unplaced,
    Unreadable,
    Violated,
    Written,
)
from stitchcuda.agent.invention.parts import Decision
from stitchcuda.agent.journal import INVENTION, Run
from stitchcuda.agent.outcome import Stop
from stitchcuda.analysis.contract.jsonread import Reader, SchemaError, text

_EVENTS: Mapping[str, type[Event]] = {
    "planned": Planned,
    "written": Written,
    "unreadable": Unreadable,
    "unplaced": Unplaced,
    "violated": Violated,
    "refused": Refused,
    "judged": Judged,
    "halted": Halted,
}
_NAMES = {kind: name for name, kind in _EVENTS.items()}


@dataclass(frozen=True)
class Recorded:
    """What stands in the file. `units` and `refused` are the numbers of units and refusals of the rules when the model
    began (None in older records: all refusals are), `files` are those whose texts may be sent.
    `traced`: whether the model was told of a trace, which no record keeps. `stop` and `offered` (digests of those that may be the answer) are there once it ended."""

    rounds: int
    rules: bool
    units: int
    best: tuple[str, ...] | None
    left_out: tuple[str, ...] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)
    traced: bool = False
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    stop: Stop | None = None
    offered: tuple[str, ...] = ()
    refused: int | None = None


@dataclass
class Recorder:
    """Writes what it hears. Every method raises JournalError."""

    run: Run
    rounds: int
    rules: bool
    _so_far: Recorded | None = field(default=None, init=False)

    def begin(self, start: Start, files: Sequence[str], capabilities: Mapping[str, Any]) -> None:
        best = None if start.best is None else start.best.units
        left_out = tuple(sorted(start.left_out))
        measured, traced = start.measured.measured, start.measured.trace is not None
        units, refused = len(start.proposed.units), len(start.refusals)
        began = Recorded(self.rounds, self.rules, units, best, left_out, measured, traced, capabilities, tuple(files))
        self._write(replace(began, refused=refused))

    def decided(self, decision: Decision) -> None:
        assert self._so_far is not None
        self._write(replace(self._so_far, decisions=(*self._so_far.decisions, decision)))

    def end(self, invented: Invented) -> None:
        assert self._so_far is not None
        offered = tuple(c.version.digest for c in invented.offered)
        self._write(replace(self._so_far, stop=invented.stop, offered=offered))

    def _write(self, recorded: Recorded) -> None:
        self._so_far = recorded
        self.run.write(INVENTION, to_json(recorded))


def to_json(recorded: Recorded) -> dict[str, Any]:
    return {
        "rounds": recorded.rounds,
        "rules": recorded.rules,
        "units": recorded.units,
        "best": None if recorded.best is None else list(recorded.best),
        "left_out": list(recorded.left_out),
        "measured": dict(recorded.measured),
        "traced": recorded.traced,
        "capabilities": dict(recorded.capabilities),
        "files": list(recorded.files),
        "decisions": [decision_to_json(d) for d in recorded.decisions],
        "stop": None if recorded.stop is None else recorded.stop.value,
        "offered": list(recorded.offered),
        "refused": recorded.refused,
    }


def decision_to_json(decision: Decision) -> dict[str, Any]:
    return {
        "round": decision.round,
        "phase": decision.phase.value,
        "event": _NAMES[type(decision.event)],
        **asdict(decision.event),
        "next": decision.next.value,
        "detail": dict(decision.detail),
    }


def from_json(value: object) -> Recorded:
    """Raises SchemaError."""
    known = ["schema", "rounds", "rules", "units", "best", "left_out", "measured", "traced", "capabilities", "files"]
    known += ["decisions", "stop", "offered", "refused"]
    reader = Reader(value, "", known)
    stop = reader.optional_text("stop")
    raw = dict(value) if isinstance(value, Mapping) else {}
    best = reader.items("best", text) if raw.get("best") is not None else None
    return Recorded(
        reader.integer("rounds", least=0),
        _truth(raw.get("rules"), "rules"),
        reader.integer("units", least=0),
        best,
        reader.items("left_out", text),
        reader.record("measured", _object),
        _truth(raw.get("traced"), "traced"),
        reader.record("capabilities", _object),
        reader.items("files", text),
        reader.items("decisions", _decision),
        None if stop is None else Stop(reader.choice("stop", [s.value for s in Stop])),
        reader.items("offered", text),
        reader.optional_integer("refused", least=0),
    )


def _decision(value: object, at: str) -> Decision:
    known = ("round", "phase", "event", "digest", "done", "shown", "stop", "next", "detail")
    reader = Reader(value, at, known)
    detail = reader.record("detail", _object)
    phases = [p.value for p in Phase]
    return Decision(
        reader.integer("round", least=0),
        Phase(reader.choice("phase", phases)),
        _event(reader, value),
        Phase(reader.choice("next", phases)),
        detail,
    )


def _event(reader: Reader, value: object) -> Event:
    match reader.choice("event", tuple(_EVENTS)):
        case "planned":
            done = value.get("done") if isinstance(value, Mapping) else None
            return Planned(reader.text("digest"), _truth(done, reader.path("done")))
        case "written":
            return Written(reader.text("digest"))
        case "judged":
            return Judged(Shown(reader.choice("shown", [s.value for s in Shown])))
        case "halted":
            return Halted(Stop(reader.choice("stop", [s.value for s in Stop])))
        case "unreadable":
            return Unreadable()
        case "unplaced":
            return Unplaced()
        case "violated":
            return Violated()
        case _:
            return Refused()


def _truth(value: object, at: str) -> bool:
    if not isinstance(value, bool):
        raise SchemaError(at, value, "true or false")
    return value


def _object(value: object, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SchemaError(at, value, "an object")
    return value
