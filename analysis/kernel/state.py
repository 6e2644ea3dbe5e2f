"""State of the walk over one kernel: lanes, guards, local variables, memory, and the events that are recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stitchcuda.analysis.kernel.arithmetic import LOADED, MAYBE, Arithmetic, comes_from_unseen
from stitchcuda.analysis.kernel.lanes import WARP, ZERO, Form, mask_where, number, per_lane, select, symbol
from stitchcuda.analysis.kernel.model import (
    Access,
    Barrier,
    BarrierKind,
    BlockShape,
    Buffer,
    Event,
    Guard,
    Mark,
    Mask,
    Memory,
    Mode,
    Uniformity,
)
from stitchcuda.analysis.kernel.values import (
    DATA,
    UNKNOWN,
    Cell,
    Decision,
    Location,
    Place,
    Value,
    component,
    is_float,
    size_form,
    size_of,
    wider,
    wrapped,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.environment import environment_of
from stitchcuda.analysis.program.ir import Program, Site

STEPS = 5_000  # IR nodes walked for one kernel and one shape of its block; large blocks count more
EVENTS = 4_000
ROOM = 800  # for events of rounds that are not walked, of a small kernel
ROOM_PER_BYTE = 0.5  # of the text of the functions that are walked
DEPTH = 10  # nested device calls
NO_TYPE = ir.TypeRef("")

Binding = Location | tuple[Location, ...]


class Budget(Exception):
    """The walk took too many steps."""


@dataclass
class Exits:
    """Lanes that left a frame, the loop at hand, or its round."""

    done: Mask = 0
    broken: Mask = 0
    continued: Mask = 0


@dataclass
class Frame:
    function: ir.Function
    scopes: list[dict[str, Binding]]
    this: tuple[Location, ...]
    bindings: dict[str, Form | ir.TypeRef]  # template parameters
    exits: Exits = field(default_factory=Exits)
    returned: Value | None = None
    returned_lanes: Mask = 0
    guards: int = 0  # how many guards stood around the call
    given: dict[str, str] = field(
        default_factory=dict
    )  # the template arguments as written, those of the callers put in


class BlockState:
    def __init__(self, program: Program, sources: Mapping[str, bytes], shape: BlockShape) -> None:
        self.program = program
        self.sources = sources
        self.shape = shape
        self.width = shape.threads
        self.math = Arithmetic(self.width)
        self.full: Mask = self.math.full
        self.active: Mask = self.full
        self.events: list[Event] = []
        self.guards: list[Guard] = []
        self.loops: list[tuple[Site, int]] = []
        self.calls: list[Site] = []
        self.frames: list[Frame] = []
        self.visited: set[str] = set()
        self.lookups: dict[str, tuple[str, ...]] = {}
        self._aliases: dict[tuple[str, str], ir.TypeRef | None] = {}  # by file and name
        self._shared_names: dict[tuple[str, str], ir.Declare | None] = {}  # of shared memory outside of functions
        self.uses_locks = False
        self.given: dict[str, int] = {}  # parameters for which all launches that are seen pass this constant
        self.sizes: dict[str, int] = {}  # parameters that are the block's size at all launches, and what goes with it
        self.looping = False  # the condition of a loop is being looked at
        self.outside = False
        self.left_early = False
        self.marks: list[Mark] = []
        self.arrays: list[Cell] = []  # local ones, as they come
        self.filled: list[Cell] = []  # those of which an element was named for the first time
        self.commits = 0
        self._steps = 0
        self._text = 0  # bytes of the functions that are walked
        self._reached: set[str] = set()
        self._weight = 1 + self.width // 512
        self._written: dict[str, int] = {}
        self._log: dict[Cell, Value] | None = None
        self._environment = environment_of(program)
        linear = range(self.width)
        self.coordinates = {
            "threadIdx.x": per_lane(tuple(k % shape.x for k in linear)),
            "threadIdx.y": per_lane(tuple(k // shape.x % shape.y for k in linear)),
            "threadIdx.z": per_lane(tuple(k // (shape.x * shape.y) for k in linear)),
            "blockDim.x": number(shape.x),
            "blockDim.y": number(shape.y),
            "blockDim.z": number(shape.z),
        }
        self.linear = per_lane(tuple(linear))

    # ----------------------------------------------------------------------------------------------------- positions

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def site(self, span: ir.Span) -> Site:
        function = self.frames[-1].function
        return Site(function.uid, function.path, span)

    def text(self, span: ir.Span, function: ir.Function | None = None) -> bytes:
        function = function or self.frames[-1].function
        source = self.sources.get(function.path, b"")
        return source[function.base + span[0] : function.base + span[1]]

    def step(self) -> None:
        self._steps += self._weight
        if self._steps > STEPS or len(self.events) > EVENTS:
            raise Budget

    def reach(self, function: ir.Function) -> None:
        """The function is walked."""
        if function.uid not in self._reached:
            self._reached.add(function.uid)
            self._text += function.span[1]

    @property
    def room(self) -> int:
        """How many more events of rounds that are not walked are written down: they grow with the text, and those of a
        large block cost more."""
        most = min(EVENTS * 3 // 4, int(ROOM + ROOM_PER_BYTE * self._text)) // self._weight
        return max(0, most - len(self.events))

    # -------------------------------------------------------------------------------------------------------- events

    def access(
        self,
        place: Place,
        mode: Mode,
        span: ir.Span,
        value: Form | None = None,
        *,
        several: bool = False,
        **more: object,
    ) -> None:
        """Records what all active lanes do to a place in memory; local variables are nobody else's."""
        if not isinstance(place.target, Buffer) or not self.active:
            return
        size = size_of(place.element)
        if isinstance(given := more.pop("bytes", None), int):
            size = given
        elif place.offset is None:
            size = None  # nobody knows which part of the memory
        offset = place.offset if place.offset is not None else self.math.fresh("~")
        lanes = self.active & ~place.outside
        if place.row is not None and size is not None and self.kept_away():
            inside = (offset - place.row[0]).exact
            if inside is not None and not isinstance(inside, int):
                last = place.row[1] - size
                lanes &= inside.reaching(0) & ~inside.reaching(last + 1)
        if place.target.bytes is not None and size is not None:
            lanes &= ~self._out_of_bounds(offset, place.target.bytes - size)
        if not lanes:
            return
        event = Access(
            len(self.events),
            self.site(span),
            place.target,
            mode,
            lanes,
            offset,
            size,
            tuple(self.guards),
            place.field,
            value,
            tuple(self.calls),
            not several,
            volatile=place.volatile or place.target.volatile,
            loops=tuple(self.loops),
            group=self.commits if mode is Mode.ASYNC_WRITE else -1,
            part=place.part,
            **more,  # type: ignore[arg-type]
        )
        self.events.append(event)
        if mode is not Mode.READ:
            self._written[place.target.name] = event.at

    def _out_of_bounds(self, offset: Form, last: int) -> Mask:
        """The lanes that would touch memory beyond an array's end: a condition that is not known keeps them away. When
        there is none, the shape of the block is not the one that the kernel is written for."""
        exact = offset.exact
        if exact is None:
            return 0
        if isinstance(exact, int):
            bad = 0 if 0 <= exact <= last else self.active
        elif exact.within(0, last):
            return 0
        else:
            bad = self.active & ~(exact.reaching(0) & ~exact.reaching(last + 1))
        kept_away = self.kept_away()
        if bad and not (kept_away and self.shape.known == "launch"):
            self.outside = True
        return bad if kept_away else 0

    def _row(self, location: Place) -> tuple[Form, int] | None:
        total: Form | None = size_form(location.element)
        for dim in location.dims:
            total = total * dim if total is not None else None
        size = total.constant if total is not None else None
        return (location.offset, size) if size and location.offset is not None else None

    def kept_away(self) -> bool:
        """Some lanes may not be here although the walk takes them along."""
        return any(g.uniformity is not Uniformity.BLOCK for g in self.guards)

    def barrier(self, kind: BarrierKind, name: str, span: ir.Span, **more: object) -> None:
        if not self.active:
            return
        root = self.frames[0]
        event = Barrier(
            len(self.events),
            self.site(span),
            kind,
            name,
            self.active,
            self.full & ~root.exits.done,
            tuple(self.guards),
            calls=tuple(self.calls),
            loops=tuple(self.loops),
            left_early=self.left_early,
            **more,  # type: ignore[arg-type]
        )
        self.events.append(event)
        if kind is BarrierKind.COMMIT:
            self.commits += 1

    def mark(self, span: ir.Span) -> None:
        """Remembers who gets to a statement, and when."""
        self.marks.append(
            Mark(
                len(self.events),
                self.frames[-1].function,
                span,
                self.active,
                self.full & ~self.frames[0].exits.done,
                tuple(self.guards),
                tuple(self.calls),
                tuple(self.loops),
                self.left_early,
            )
        )

    # ------------------------------------------------------------------------------------------------ local variables

    def new_cell(self, type_: ir.TypeRef, value: Value = UNKNOWN) -> Cell:
        return Cell(type_, value, self.active)

    def find(self, name: str) -> Binding | None:
        for scope in reversed(self.frames[-1].scopes):
            if name in scope:
                return scope[name]
        return None

    def assign(self, cell: Cell, value: Value) -> None:
        """Writes the active lanes of a variable."""
        if self._log is not None:
            self._log.setdefault(cell, cell.value)
        if value.number is not None and not cell.type.pointer:
            kept = wrapped(value.number, cell.type.name)
            if kept is not value.number:
                value = replace(value, number=kept)
        if cell.lanes & ~self.active & self.full:
            value = self.chosen(self.active, value, cell.value)
        cell.value = value
        if value.record is not None and value.record is not cell:
            for name, inner in value.record.fields.items():
                self.assign(cell.fields.setdefault(name, Cell(inner.type, UNKNOWN, cell.lanes)), inner.value)
            for position, inner in value.record.elements.items():
                self.assign(cell.elements.setdefault(position, Cell(inner.type, UNKNOWN, cell.lanes)), inner.value)

    def chosen(self, lanes: Mask, value: Value, other: Value) -> Value:
        """`value` in these lanes and `other` elsewhere."""
        if value == other:
            return value
        merged: Form | None = None
        spread = wider(value.spread, other.spread, Uniformity.THREAD)
        if value.decision is not None or other.decision is not None:
            first, second = self._as_decision(value), self._as_decision(other)
            if first is not None and second is not None:
                return Value(spread=spread, decision=first.where(lanes, second))
        if value.number is not None and other.number is not None:
            merged = select(lanes, value.number, other.number, self.width)
        elif value.number is not None and other == UNKNOWN:
            merged = value.number  # the others hold nothing yet
        places = tuple(dict.fromkeys((*value.places, *other.places)))
        if len(places) > 1:
            places = self._one_place(lanes, value.places, other.places) or places
        return Value(
            merged,
            places,
            spread,
            value.closure or other.closure,
            value.group or other.group,
            value.record or other.record,
            None,
        )

    def _as_decision(self, value: Value) -> Decision | None:
        if value.decision is not None:
            return value.decision
        exact = value.number.exact if value.number is not None else None
        if exact is None:
            return None
        yes = mask_where(exact, self.width)
        return Decision(yes, self.full & ~yes)

    def _one_place(self, lanes: Mask, a: tuple[Place, ...], b: tuple[Place, ...]) -> tuple[Place, ...]:
        """Pointers into one buffer at different offsets stay one pointer."""
        if len(a) != 1 or len(b) != 1 or a[0].offset is None or b[0].offset is None:
            return ()
        if replace(a[0], offset=ZERO) != replace(b[0], offset=ZERO):
            return ()
        return (replace(a[0], offset=select(lanes, a[0].offset, b[0].offset, self.width)),)

    def joined(self, a: Value, b: Value, guard: Guard | None) -> Value:
        """One of two values, nobody knows which, decided as the guard says."""
        if a == b:
            return a
        spread = wider(a.spread, b.spread, guard.uniformity if guard is not None else Uniformity.BLOCK)
        merged: Form | None = None
        if a.number is not None and b.number is not None:
            if a.number == b.number:
                merged = a.number
            else:
                decided = guard.uniformity if guard is not None else Uniformity.BLOCK
                merged = self.unknown_number(wider(decided, self.spread_of(a), self.spread_of(b)), a, b)
        elif guard is None or guard.guessed or guard.uniformity is not Uniformity.DATA:
            varying = [x.number for x in (a, b) if self.spread_of(x) is Uniformity.DATA]
            if varying and all(n is not None and comes_from_unseen(n) for n in varying):
                merged = self.math.fresh("~")
        places = tuple(dict.fromkeys((*a.places, *b.places)))
        return Value(merged, places, spread, a.closure or b.closure, a.group or b.group, a.record or b.record, None)

    def unknown_number(self, spread: Uniformity, *made_of: Value) -> Form:
        """A number of which only is known how it varies, and what it was made of."""
        if spread is Uniformity.DATA:
            symbols = [s for v in made_of if v.number is not None for s in v.number.symbols if s[0] == "~"]
            for kind in (MAYBE, LOADED):
                if symbols and all(s.startswith(kind) for s in symbols):
                    return self.math.fresh(kind)
            return self.math.fresh("~" if symbols else LOADED)
        return self.math.fresh({Uniformity.BLOCK: "u", Uniformity.WARP: "^"}.get(spread, "~"))

    def unseen(self) -> Value:
        """What comes from code or memory that is not seen: whether it differs between lanes nobody knows."""
        return Value(self.math.fresh("~"), spread=Uniformity.DATA)

    def spread_of(self, value: Value) -> Uniformity:
        """How a value varies among the active lanes."""
        if value.number is None:
            return value.spread
        if value.number.same_on(self.active):
            return Uniformity.BLOCK
        if value.number.same_on(self.active, 32):
            return Uniformity.WARP
        return Uniformity.DATA if value.number.unknown else Uniformity.THREAD

    def combined(self, values: Sequence[Value]) -> Value:
        return Value(spread=wider(*(self.spread_of(v) for v in values)))

    # --------------------------------------------------------------------------------------------------------- memory

    def load(self, location: Location, span: ir.Span, *, several: bool = False) -> Value:
        """What a location holds; an array gives a pointer to its first element."""
        if isinstance(location, Cell):
            if location.array:
                return Value(places=(Place(location, ZERO, location.type.name, location.dims[1:]),))
            if location.fields or location.parameter:
                return location.value.of_record(location)
            return location.value
        if location.dims:
            return Value(places=(replace(location, dims=location.dims[1:], row=self._row(location)),))
        if isinstance(location.target, Cell):
            inner = self.element_cell(location)
            return self.load(inner, span) if inner is not None else self._smashed(location.target)
        self.access(location, Mode.READ, span, several=several)
        return self._loaded(location)

    def _loaded(self, place: Place) -> Value:
        assert isinstance(place.target, Buffer)
        element = place.element
        if element.endswith("*"):
            inner = Buffer(Memory.GLOBAL, f"{place.target.name}[]", element[:-1].strip())
            return Value(places=(Place(inner, self.math.fresh("~"), inner.element),))
        uniform = place.offset is not None and place.offset.same_on(self.active)
        warp = place.offset is not None and place.offset.same_on(self.active, WARP)
        if is_float(element):
            return UNKNOWN if uniform else Value(spread=Uniformity.WARP) if warp else DATA
        if not uniform:
            if warp:
                return Value(self.math.fresh("^"), spread=Uniformity.WARP)
            return Value(self.math.fresh(LOADED), spread=Uniformity.DATA)
        written = self._written.get(place.target.name, "")
        return Value(symbol(f"{place.target.name}.{place.field}[{place.offset}]{written}"))

    def element_cell(self, place: Place) -> Cell | None:
        """The element of a local array or variable that a pointer names, when it is the same in all lanes."""
        cell = place.target
        assert isinstance(cell, Cell)
        if not cell.array:
            return cell
        size = size_of(place.element) or 1
        at = place.offset.constant if place.offset is not None else None
        if at is None:
            return None
        if at // size not in cell.elements:
            inner = Cell(replace(cell.type, dims=()), cell.value, cell.lanes)
            cell.elements[at // size] = inner
            self.filled.append(cell)
        return cell.elements[at // size]

    def _smashed(self, cell: Cell) -> Value:
        values = [c.value for c in cell.elements.values()] or [cell.value]
        places = tuple(dict.fromkeys(p for v in values for p in v.places))
        if is_float(cell.type.name) and not cell.type.pointer:
            return self.combined(values)
        return Value(self.math.fresh("~") if not places else None, places, Uniformity.DATA)

    def store(self, location: Location, value: Value, span: ir.Span, *, several: bool = False, **more: object) -> None:
        if isinstance(location, Cell):
            self.assign(location, value)
            return
        if isinstance(location.target, Cell):
            inner = self.element_cell(location)
            if inner is not None:
                self.assign(inner, value)
            else:
                for element in location.target.elements.values():
                    self.assign(element, self.joined(element.value, value, None))
                self.assign(location.target, self.joined(location.target.value, value, None))
            return
        self.access(location, Mode.WRITE, span, value.number, several=several, **more)

    def member(self, location: Location, name: str) -> Location | None:
        """A member of a struct, wherever it lies."""
        if isinstance(location, Cell):
            known = location.fields.get(name)
            if known is None:
                known = location.fields[name] = self._field_cell(location, name)
            return known
        if isinstance(location.target, Cell):
            inner = self.element_cell(location)
            return self.member(inner, name) if inner is not None else None
        part = component(location.element, name)
        if part is not None:
            return replace(location.moved(number(part[1])), element=part[0])
        kind = self.field_type(location.element, name)
        path = f"{location.field}.{name}".lstrip(".")
        if kind is None:
            return replace(location, element="", field=path, dims=())
        return replace(location, element=_element(kind), field=path, dims=self.dims(kind))

    def _field_cell(self, owner: Cell, name: str) -> Cell:
        kind = self.field_type(owner.type.name, name) or NO_TYPE
        if owner.parameter:
            made = self.parameter_cell(kind, f"{owner.parameter}.{name}")
        else:
            made = Cell(kind, owner.value if not owner.value.places else UNKNOWN, owner.lanes)
            if owner.value.number is not None:
                made.value = Value(self.unknown_number(self.spread_of(owner.value), owner.value))
        if kind.dims:
            made.array, made.dims = True, self.dims(kind)
            self.arrays.append(made)
        return made

    def field_type(self, owner: str, name: str) -> ir.TypeRef | None:
        for record in (self.program.records.get(owner), self.program.records.get(owner.rsplit("::", 1)[-1])):
            for declared in record.fields if record is not None else ():
                if declared.name == name:
                    return declared.type
        return self._environment.fields.get(name)

    def parameter_cell(self, type_: ir.TypeRef, name: str) -> Cell:
        """A kernel parameter, or a member of one."""
        if type_.pointer or type_.dims and type_.reference is False:
            element = _element(type_)
            buffer = Buffer(Memory.GLOBAL, name, element)
            return Cell(type_, Value(places=(Place(buffer, ZERO, element),)), self.full)
        held = Value(symbol(name)) if name else self.unseen()
        return Cell(type_, held, self.full, parameter=name)

    def dims(self, type_: ir.TypeRef) -> tuple[Form, ...]:
        """The dimensions of an array type; an unknown one is a symbol."""
        out = []
        for position, dim in enumerate(type_.dims):
            value = self.evaluate(dim).number if dim is not None else None
            if value is None:
                value = symbol(f"dim{position}({type_.name})") if dim is not None else ZERO
            out.append(value)
        return tuple(out)

    def evaluate(self, node: ir.Expr) -> Value:
        raise NotImplementedError

    def stride(self, place: Place) -> Form:
        """Bytes from one pointee to the next."""
        total: Form | None = size_form(place.element)
        for dim in place.dims:
            total = total * dim if total is not None else None
        return total if total is not None else self.math.fresh("u")

    def stepped(self, place: Place, index: Form | None) -> Place:
        if index is None:
            return replace(place, offset=None)
        by = index * self.stride(place)
        return place.moved(by)


def _element(type_: ir.TypeRef) -> str:
    return type_.name + "*" * max(0, type_.pointer - (0 if type_.dims else 1))


_VOLATILE = re.compile(rb"\bvolatile\b")


def is_volatile(text: bytes) -> bool:
    return _VOLATILE.search(text) is not None
