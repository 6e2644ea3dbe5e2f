"""Units, refusals and what changes declare, as JSON (docs/runs.md). `units_from_json` gives back exactly what was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stitchcuda.agent.transforms.transform import Refusal
from stitchcuda.agent.units import Obligation, TextEdit, Unit, leaves
from stitchcuda.analysis.contract.jsonread import Reader, SchemaError, integer, text
from stitchcuda.analysis.proof.model import Declared, May

_MAY = tuple(m.value for m in May)


def unit_to_json(unit: Unit) -> dict[str, Any]:
    """A value for `json.dumps`. Bytes of a text that are no UTF-8 become lone surrogates (PEP 383)."""
    return {
        "id": unit.id,
        "parents": list(unit.parents),
        "transform": unit.transform,
        "why": unit.why,
        "edits": [
            {"path": e.path, "start": e.start, "end": e.end, "text": e.text.decode(errors="surrogateescape")}
            for e in unit.edits
        ],
        "declared": declared_to_json(unit.declared),
        "proof": [{"what": o.what, "shown_by": o.shown_by} for o in unit.obligations],
        "serves": list(unit.serves),
        **({} if unit.on is None else {"on": list(unit.on)}),
    }


def declared_to_json(declared: Declared) -> dict[str, Any]:
    return {
        "transforms": list(declared.transforms),
        "waits": declared.waits.value,
        "copies": declared.copies.value,
        "allocations": declared.allocations.value,
        "launches": declared.launches.value,
        "device": declared.device.value,
    }


def refusals_to_json(refusals: Sequence[Refusal]) -> list[dict[str, Any]]:
    return [{"transform": r.transform, "path": r.path, "line": r.line, "reason": r.reason} for r in refusals]


def units_from_json(values: Sequence[object], at: str) -> tuple[Unit, ...]:
    """Reads decoded JSON values. Raises `SchemaError`."""
    return tuple(_unit(value, f"{at}[{k}]") for k, value in enumerate(values))


def refusal_from_json(value: object, at: str) -> Refusal:
    """Raises `SchemaError`."""
    reader = Reader(value, at, ("transform", "path", "line", "reason"))
    return Refusal(
        reader.text("transform"), reader.text("path"), reader.integer("line", least=0), reader.text("reason")
    )


def _unit(value: object, at: str) -> Unit:
    reader = Reader(value, at, ("id", "parents", "transform", "why", "edits", "declared", "proof", "serves", "on"))
    return Unit(
        id=reader.text("id"),
        parents=reader.items("parents", text),
        transform=reader.text("transform"),
        why=reader.text("why"),
        edits=reader.items("edits", _edit),
        declared=reader.record("declared", _declared),
        obligations=reader.items("proof", _obligation),
        serves=reader.items("serves", text),
        on=reader.items("on", text) if reader.has("on") else None,
    )


def _edit(value: object, at: str) -> TextEdit:
    reader = Reader(value, at, ("path", "start", "end", "text"))
    start = reader.integer("start", least=0)
    end = integer(reader.integer("end", least=0), reader.path("end"), start)
    path = reader.text("path")
    if leaves(path):
        raise SchemaError(reader.path("path"), path, "a path within the program's folder")
    return TextEdit(path, start, end, reader.text("text").encode(errors="surrogateescape"))


def _declared(value: object, at: str) -> Declared:
    reader = Reader(value, at, ("transforms", "waits", "copies", "allocations", "launches", "device"))
    return Declared(
        reader.items("transforms", text),
        waits=May(reader.choice("waits", _MAY)),
        copies=May(reader.choice("copies", _MAY)),
        allocations=May(reader.choice("allocations", _MAY)),
        launches=May(reader.choice("launches", _MAY)),
        device=May(reader.choice("device", _MAY, May.SAME.value)),  # runs of earlier versions do not name it
    )


def _obligation(value: object, at: str) -> Obligation:
    reader = Reader(value, at, ("what", "shown_by"))
    return Obligation(reader.text("what"), reader.text("shown_by"))
