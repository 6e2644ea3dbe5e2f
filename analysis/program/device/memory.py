"""State of the device-code walk: locals, what guards say about indexes, and the accesses met so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from stitchcuda.analysis.order.symbolic import Poly, symbol
from stitchcuda.analysis.order.timeline import Certainty, Mode
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.environment import SCALARS, environment_of, is_scalar
from stitchcuda.analysis.program.device.values import (
    UNKNOWN,
    Place,
    Touch,
    Value,
    extreme,
    fold,
    fold_thread_index,
    launch_bounds,
)

STEPS = 60_000  # nodes walked for one kernel before the walk gives up and says so
FLOOR_STEPS = 8_000  # of a small one
STEPS_PER_BYTE = 1.5  # of the text of the functions that are walked: 99 of 100 kernels of public programs stay below 1
DEPTH = 12  # nested device calls

Location: TypeAlias = int | Place  # a local cell, or memory
Exit: TypeAlias = str  # "" falls through | "loop" | "function"; with "?" in front: on some paths


@dataclass
class Cell:
    type: ir.TypeRef
    array: bool = False  # its name decays to a pointer to it; writes to it are weak
    shared: bool = False


@dataclass
class Frame:
    function: ir.Function
    scopes: list[dict[str, int | tuple[Location, ...]]]
    this: Value
    returned: Value | None = None


@dataclass
class Bounds:
    """What guards say about inner symbols. A guard on a whole expression (`row * w + col < n`) gives the expression a
    symbol of its own, in `named`."""

    lower: dict[str, Poly]
    upper: dict[str, Poly]
    named: dict[Poly, str]

    def copy(self) -> Bounds:
        return Bounds(dict(self.lower), dict(self.upper), dict(self.named))

    def fold(self, poly: Poly) -> Poly:
        poly = fold_thread_index(poly)
        for pattern, name in self.named.items():
            poly = fold(poly, pattern, name)
        return poly


class Budget(Exception):
    """The walk took too many steps; `DeviceWalk.incomplete` is set."""


class DeviceMemory:
    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.touches: list[Touch] = []
        self.prints = False
        self.supplied = (
            False  # runs code or uses an address that a template argument, another file or a number supplies
        )
        self.calls_unknown = False
        self.incomplete = False
        self.visited: set[str] = set()  # functions that were looked at
        self._reached: set[str] = set()  # those that were walked
        self.lookups: dict[str, tuple[str, ...]] = {}  # names of functions asked for, and what they meant
        self.captured: dict[int, dict[str, int]] = {}  # by lambda that a launch supplies: cells of what it captured
        self._store: dict[int, Value] = {}
        self._cells: list[Cell] = []
        self._fields: dict[int, dict[str, int]] = {}  # cell of a struct -> cells of its members
        self._frames: list[Frame] = []
        self._steps = 0
        self._most = FLOOR_STEPS
        self._broken_off = 0  # calls of functions that are being walked already
        self._computed: dict[tuple[object, ...], Value] = {}  # of functions that only compute, by what they were given
        self._bounds = Bounds(*launch_bounds(), {})
        self._environment = environment_of(program)

    def _parameter(self, param: ir.Param) -> Value:
        root = f"p:{param.name}"
        if param.type.pointer or param.type.reference or param.type.dims:
            element = param.type.name + "*" * max(0, param.type.pointer - 1)
            return Value(places=frozenset({Place(root, element=element, const=param.type.const)}))
        value = Value(number=symbol(param.name))
        if not is_scalar(param.type):  # a struct, or a template or alias type that may be a pointer
            value = replace(value, places=frozenset({Place(root, value=True)}))
        return value

    def _new_cell(self, type_: ir.TypeRef, value: Value, *, array: bool = False, shared: bool = False) -> int:
        self._cells.append(Cell(type_, array or shared, shared))
        self._store[len(self._cells) - 1] = value
        return len(self._cells) - 1

    def _find(self, name: str) -> int | tuple[Location, ...] | None:
        for scope in reversed(self._frames[-1].scopes):
            if name in scope:
                return scope[name]
        return None

    def _member_cell(self, cell: int, name: str) -> int:
        members = self._fields.setdefault(cell, {})
        known = members.get(name)
        if known is None or known not in self._store:  # not seen yet, or only on another branch
            value = self._member_value(self._store.get(cell, UNKNOWN), name)
            kind = self._environment.fields.get(name)
            embedded = kind is not None and bool(kind.dims)
            if known is None:
                known = members[name] = self._new_cell(
                    kind or ir.TypeRef(""), value, array=embedded and not value.places
                )
            self._store[known] = value
        return known

    def _forget_cells(self, first: int, kept: Value) -> None:
        """The locals of a call that has returned: nothing reaches them but, perhaps, the value that it gave back."""
        held = {int(p.root[2:]) for p in kept.places if p.local}
        for cell in range(first, len(self._cells)):
            if cell not in held:
                self._store.pop(cell, None)
                self._fields.pop(cell, None)

    def _member_value(self, base: Value, name: str) -> Value:
        """A member of a struct held by value."""
        kind = self._environment.fields.get(name)
        places, symbolic = set(), None
        for place in base.places:
            if not place.value:
                places.add(place)  # some member of a local struct, which one is not tracked
                continue
            path = f"{place.member}.{name}".lstrip(".")
            symbolic = symbol(f"{place.root[2:]}.{path}")
            if kind is None or not is_scalar(kind):
                pointer = kind is not None and kind.pointer > 0 and not kind.dims
                element = kind.name if kind is not None and pointer else ""
                const = kind is not None and kind.const
                places.add(Place(place.root, path, element=element, const=const, value=not pointer))
        return Value(number=symbolic if len(base.places) == 1 else None, places=frozenset(places), data=base.data)

    def _touch(self, place: Place, mode: Mode) -> None:
        if place.local or place.value and not place.member:
            return
        folded = self._bounds.fold(place.offset) if place.offset is not None else None
        low = high = None
        if folded is not None:
            low = extreme(folded, self._bounds.lower, self._bounds.upper, highest=False)
            high = extreme(folded, self._bounds.lower, self._bounds.upper, highest=True)
        own = folded == symbol("@thread.x")
        field = f"{place.element}.{place.field}" if place.field and place.element else ""
        self.touches.append(Touch(place.root, place.member, mode, Certainty.MUST, place.element, own, low, high, field))

    def _read(self, location: Location) -> Value:
        if isinstance(location, int):
            cell = self._cells[location]
            value = self._store.get(location, UNKNOWN)
            for member_cell in self._fields.get(location, {}).values():
                member = self._store.get(member_cell, UNKNOWN)
                value = Value(value.number, value.places | member.places, value.data or member.data, value.thread)
            return replace(value, data=True, number=None) if cell.array else value
        if location.local:
            return replace(self._store.get(int(location.root[2:]), UNKNOWN), data=True, number=None)
        if location.value:  # an element of an array inside a struct parameter: a parameter, not memory
            kind = self._environment.fields.get(location.member.rsplit(".", 1)[-1])
            element = Place(location.root, location.member + "[]", value=True)
            if kind is not None and kind.pointer:
                element = replace(element, value=False, element=kind.name, const=kind.const)
            return Value(places=frozenset({element}), thread=True)
        self._touch(location, Mode.READ)
        if location.element and "*" not in location.element and location.element in SCALARS and not location.field:
            return Value(data=True)
        kind = self._environment.fields.get(location.field.rsplit(".", 1)[-1]) if location.field else None
        if kind is not None and is_scalar(kind):
            return Value(data=True)
        loaded = location.loaded()
        if kind is not None:
            loaded = replace(loaded, element=kind.name, const=kind.const)
        elif location.element.endswith("*"):
            loaded = replace(loaded, element=location.element[:-1])
        return Value(places=frozenset({loaded}), data=True)

    def _write(self, location: Location, value: Value) -> None:
        if isinstance(location, Place):
            if not location.local:
                self._touch(location, Mode.WRITE)
                return
            location = int(location.root[2:])
            self._store[location] = self._store.get(location, UNKNOWN).join(value)
            return
        weak = self._cells[location].array
        self._store[location] = self._store.get(location, UNKNOWN).join(value) if weak else value
        self._fields.pop(location, None)

    def _read_all(self, locations: Sequence[Location], flags: Value) -> Value:
        result: Value | None = None
        for location in locations:
            value = self._read(location)
            result = value if result is None else result.join(value)
        if result is None:
            return replace(UNKNOWN, data=True, thread=flags.thread)
        if (result.data or not flags.data) and (result.thread or not flags.thread):
            return result
        data, thread = result.data or flags.data, result.thread or flags.thread
        return Value(result.number, result.places, data, thread, result.function)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > self._most:
            raise Budget

    def _reach(self, function: ir.Function) -> None:
        """The function is walked: its text is worth some steps."""
        if function.uid not in self._reached:
            self._reached.add(function.uid)
            self.visited.add(function.uid)
            self._most = min(STEPS, int(self._most + STEPS_PER_BYTE * function.span[1]))

    def _member_location(self, location: Location, name: str) -> Location:
        if isinstance(location, int):
            cell = self._cells[location]
            if cell.array:
                return location
            return self._member_cell(location, name)
        if location.local:
            return location
        if location.value:
            return next(iter(self._member_value(Value(places=frozenset({location})), name).places), location)
        if location.element in SCALARS:  # v.x of a float4
            return location
        return replace(location, field=f"{location.field}.{name}".lstrip("."))

    def _field_locations(self, this: Value, name: str) -> tuple[Location, ...]:
        """A field named without `this->`."""
        return tuple(
            self._member_cell(int(p.root[2:]), name) if p.local else self._member_location(p, name) for p in this.places
        )

    def _targets(self, pointer: Value, by: Poly | None) -> tuple[Location, ...]:
        targets: list[Location] = []
        for place in pointer.places:
            kind = self._environment.fields.get(place.member.rsplit(".", 1)[-1]) if place.value else None
            if place.value and not (kind is not None and kind.dims):
                place = replace(place, value=False)  # used as a pointer, so it is one
            targets.append(place.moved(by))
        return tuple(targets)
