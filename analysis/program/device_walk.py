"""Abstract walk over device code: which memory each pointer parameter reaches, and how it is touched.

Locals hold `Value`s; calls of functions with a body are walked in place (bounded); branches are walked one by one and
joined. An access is `must` when only guards on the thread's coordinates stand before it (`if (i < n)`): some thread is
assumed to pass them. Behind a condition on memory content or on a parameter it is `may`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from stitchcuda.analysis.order.symbolic import ONE, ZERO, Poly, number, symbol
from stitchcuda.analysis.order.timeline import Certainty, Mode
from stitchcuda.analysis.program import device_calls as calls
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device_values import (
    UNKNOWN,
    Place,
    Touch,
    Value,
    combine,
    extreme,
    fold_thread_index,
    launch_bounds,
)

STEPS = 60_000  # nodes walked for one kernel before the walk gives up and says so
DEPTH = 12  # nested device calls

SCALARS = frozenset(
    ("bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed", "size_t", "ssize_t", "ptrdiff_t")
    + ("int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t")
    + ("half", "__half", "half2", "__half2", "__nv_bfloat16", "uint", "uchar", "ushort", "ulong")
    + tuple(
        f"{base}{width}" for base in ("char", "uchar", "short", "int", "uint", "float", "double") for width in "1234"
    )
)


def is_scalar(type_: ir.TypeRef) -> bool:
    return not type_.pointer and type_.name.removeprefix("std::").split(" ")[0] in SCALARS


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
    """What guards say about inner symbols, and about whole index expressions (`exact`: its largest value)."""

    lower: dict[str, Poly]
    upper: dict[str, Poly]
    exact: dict[Poly, Poly]

    def copy(self) -> Bounds:
        return Bounds(dict(self.lower), dict(self.upper), dict(self.exact))


class Budget(Exception):
    """The walk took too many steps; `DeviceWalk.incomplete` is set."""


class DeviceWalk:
    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.touches: list[Touch] = []
        self.prints = False
        self.calls_unknown = False
        self.incomplete = False
        self.visited: set[str] = set()
        self._store: dict[int, Value] = {}
        self._cells: list[Cell] = []
        self._fields: dict[tuple[int, str], int] = {}
        self._frames: list[Frame] = []
        self._steps = 0
        self._bounds = Bounds(*launch_bounds(), {})
        self._field_kinds = _field_kinds(program)
        self._symbols = _device_symbols(program)

    # ------------------------------------------------------------------------------------------------------- entry

    def kernel(self, function: ir.Function) -> None:
        self.visited.add(function.uid)
        scope: dict[str, int | tuple[Location, ...]] = {}
        for param in function.params:
            scope[param.name] = self._new_cell(param.type, self._parameter(param))
        self._frames.append(Frame(function, [scope], UNKNOWN))
        try:
            assert function.body is not None
            self._statement(function.body)
        except (Budget, RecursionError):
            self.incomplete = self.calls_unknown = True
        finally:
            self._frames.pop()

    def _parameter(self, param: ir.Param) -> Value:
        root = f"p:{param.name}"
        if param.type.pointer or param.type.reference or param.type.dims:
            element = param.type.name + "*" * max(0, param.type.pointer - 1)
            return Value(places=frozenset({Place(root, element=element, const=param.type.const)}))
        value = Value(number=symbol(param.name))
        if not is_scalar(param.type):  # a struct, or a template or alias type that may be a pointer
            value = replace(value, places=frozenset({Place(root, value=True)}))
        return value

    # ------------------------------------------------------------------------------------------------------- cells

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
        known = self._fields.get((cell, name))
        if known is None:
            value = self._member_value(self._store.get(cell, UNKNOWN), name)
            kind = self._field_kinds.get(name)
            embedded = kind is not None and bool(kind.dims)
            known = self._new_cell(kind or ir.TypeRef(""), value, array=embedded and not value.places)
            self._fields[(cell, name)] = known
        return known

    def _member_value(self, base: Value, name: str) -> Value:
        """A member of a struct held by value."""
        kind = self._field_kinds.get(name)
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

    # ------------------------------------------------------------------------------------------------ reads, writes

    def _touch(self, place: Place, mode: Mode) -> None:
        if place.local or place.value and not place.member:
            return
        folded = fold_thread_index(place.offset) if place.offset is not None else None
        low = high = None
        if folded is not None:
            low = extreme(folded, self._bounds.lower, self._bounds.upper, highest=False)
            high = self._bounds.exact.get(folded)
            if high is not None:
                high = extreme(high, self._bounds.lower, self._bounds.upper, highest=True)
            if high is None:
                high = extreme(folded, self._bounds.lower, self._bounds.upper, highest=True)
        own = folded == symbol("@thread.x")
        self.touches.append(Touch(place.root, place.member, mode, Certainty.MUST, place.element, own, low, high))

    def _read(self, location: Location) -> Value:
        if isinstance(location, int):
            cell = self._cells[location]
            value = self._store.get(location, UNKNOWN)
            members = [self._store[c] for (owner, _), c in self._fields.items() if owner == location]
            for member in members:
                value = Value(value.number, value.places | member.places, value.data or member.data, value.thread)
            return replace(value, data=True, number=None) if cell.array else value
        if location.local:
            return replace(self._store.get(int(location.root[2:]), UNKNOWN), data=True, number=None)
        if location.value:  # an element of an array inside a struct parameter: a parameter, not memory
            return Value(places=frozenset({replace(location, member=location.member + "[]", offset=ZERO)}), thread=True)
        self._touch(location, Mode.READ)
        if location.element and "*" not in location.element and location.element in SCALARS and not location.field:
            return Value(data=True)
        kind = self._field_kinds.get(location.field.rsplit(".", 1)[-1]) if location.field else None
        if kind is not None and is_scalar(kind):
            return Value(data=True)
        loaded = location.loaded()
        if location.element.endswith("*"):
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
        for key in [k for k in self._fields if k[0] == location]:
            del self._fields[key]

    def _read_all(self, locations: Sequence[Location], flags: Value) -> Value:
        result: Value | None = None
        for location in locations:
            value = self._read(location)
            result = value if result is None else result.join(value)
        if result is None:
            return replace(UNKNOWN, data=True, thread=flags.thread)
        data = any(isinstance(x, Place) for x in locations) and result.data
        return replace(result, data=result.data or data or flags.data, thread=result.thread or flags.thread)

    # -------------------------------------------------------------------------------------------------- expressions

    def _locations(self, node: ir.Expr) -> tuple[tuple[Location, ...], Value]:
        """Where an lvalue lies, and the flags (data, thread) of what chose the place."""
        self._step()
        match node:
            case ir.Name(name=name):
                found = self._find(name)
                if isinstance(found, int):
                    return (found,), UNKNOWN
                if found is not None:
                    return found, UNKNOWN
                if (declared := self._symbols.get(calls.bare(name))) is not None:
                    return (Place(f"s:{declared.name}", element=declared.type.name),), UNKNOWN
                this = self._frames[-1].this
                if this.places and name in self._field_kinds:
                    return self._field_locations(this, name), UNKNOWN
                return (), UNKNOWN
            case ir.Member(base=base, name=name):
                locations, flags = self._locations(base)
                if not locations:
                    value = self._value(base)
                    member = self._member_value(value, name)
                    return tuple(p for p in member.places), combine([value])
                return tuple(self._member_location(x, name) for x in locations), flags
            case ir.Index(base=base, index=index):
                by = self._value(index)
                kind = self._field_kinds.get(base.name) if isinstance(base, ir.Member) else None
                if kind is not None and kind.dims:  # an array inside a struct in memory
                    locations, flags = self._locations(base)
                    inside = tuple(replace(x, offset=None) if isinstance(x, Place) else x for x in locations)
                    return inside, combine([by, flags])
                pointer = self._value(base)
                return self._targets(pointer, by.number), combine([by, pointer])
            case ir.Deref(operand=ir.Name(name="this")):
                return tuple(self._frames[-1].this.places), UNKNOWN
            case ir.Deref(operand=operand):
                pointer = self._value(operand)
                return self._targets(pointer, ZERO), combine([pointer])
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                test = self._value(condition)
                first, _ = self._locations(then)
                second, _ = self._locations(otherwise)
                return first + second, combine([test])
            case ir.Cast(type=type_, operand=operand) if type_.reference:
                locations, flags = self._locations(operand)
                cast = tuple(x.viewed_as(type_.name, type_.const) if isinstance(x, Place) else x for x in locations)
                return cast, flags
            case ir.Assign(target=target):
                self._value(node)
                return self._locations(target)
            case ir.Binary(op=",", left=left, right=right):
                self._value(left)
                return self._locations(right)
            case _:
                return (), UNKNOWN

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
            kind = self._field_kinds.get(place.member.rsplit(".", 1)[-1]) if place.value else None
            if place.value and not (kind is not None and kind.dims):
                place = replace(place, value=False)  # used as a pointer, so it is one
            targets.append(place.moved(by))
        return tuple(targets)

    def _value(self, node: ir.Expr) -> Value:
        self._step()
        match node:
            case ir.Const(value=value):
                return Value(number(int(value))) if isinstance(value, int) else UNKNOWN
            case ir.Name(name="this"):
                return self._frames[-1].this
            case ir.Name(name=name):
                locations, flags = self._locations(node)
                if not locations:
                    return self._constant(name)
                if len(locations) == 1 and isinstance(cell := locations[0], int) and self._cells[cell].array:
                    return Value(places=frozenset({Place(f"c:{cell}", element=self._cells[cell].type.name)}))
                if any(isinstance(x, Place) and x.root.startswith("s:") for x in locations):
                    declared = self._symbols[calls.bare(name)]
                    if declared.type.dims:
                        return Value(places=frozenset(x for x in locations if isinstance(x, Place)))
                return self._read_all(locations, flags)
            case ir.Member(base=ir.Name(name=base), name=name) if base in calls.THREAD_WORDS | calls.DIMENSION_WORDS:
                return Value(symbol(f"{base}.{name}"), thread=base in calls.THREAD_WORDS)
            case ir.Member() | ir.Index() | ir.Deref():
                locations, flags = self._locations(node)
                if not locations:
                    return replace(self._fallback(node), data=True)
                if len(locations) == 1 and isinstance(cell := locations[0], int) and self._cells[cell].array:
                    if isinstance(node, ir.Member):
                        return Value(places=frozenset({Place(f"c:{cell}")}))
                    if isinstance(node, ir.Index) and self._cells[cell].type.dims[1:]:
                        return Value(places=frozenset({Place(f"c:{cell}")}))
                local = [x for x in locations if isinstance(x, Place) and x.local]
                if isinstance(node, ir.Index) and local and self._rank(local[0]) > _depth(node):
                    return Value(places=frozenset(replace(x, offset=None) for x in local))
                return self._read_all(locations, flags)
            case ir.AddressOf(operand=operand):
                locations, flags = self._locations(operand)
                places = frozenset(Place(f"c:{x}") if isinstance(x, int) else x for x in locations)
                return Value(places=places, data=flags.data, thread=flags.thread)
            case ir.Unary(op=op, operand=operand):
                inner = self._value(operand)
                negated = -inner.number if op == "-" and inner.number is not None else None
                return combine([inner], inner.number if op == "+" else negated)
            case ir.Binary():
                return self._binary(node)
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                test = self._value(condition)
                first, a = self._recorded(then)
                second, b = self._recorded(otherwise)
                self._merge(first, second, test, condition)
                joined = a.join(b)
                return replace(joined, data=joined.data or test.data, thread=joined.thread or test.thread)
            case ir.Assign():
                return self._assign(node)
            case ir.Cast(type=type_, operand=operand):
                return self._cast(self._value(operand), type_)
            case ir.Construct(type=type_, args=args):
                values = [self._value(a) for a in args]
                if len(values) == 1 and (is_scalar(type_) or type_.pointer):
                    return self._cast(values[0], type_)
                found = self._constructor(type_)
                if found is not None and any(v.places for v in values):
                    return self._inline(found, args, values, UNKNOWN)
                joined = combine(values)
                return replace(joined, places=frozenset(p for v in values for p in v.places))
            case ir.InitList(items=items):
                values = [self._value(a) for a in items]
                return replace(combine(values), places=frozenset(p for v in values for p in v.places))
            case ir.Lambda():
                return Value(function=node)
            case ir.Call():
                return self._call(node)
            case ir.Launch(kernel=kernel, args=args):  # dynamic parallelism
                values = [self._value(a) for a in args]
                return self._invoke(kernel, args, values, ir.Call(node.span, kernel, args))
            case ir.SizeOf():
                return UNKNOWN
            case ir.Opaque(children=parts):  # inline assembly among others: pointers given to it may be used
                for part in parts:
                    self._escape(self._value(part))
                return replace(UNKNOWN, data=True, thread=True)
            case ir.Api(roles=roles):
                for _, part in roles:
                    self._escape(self._value(part))
                return UNKNOWN
            case ir.New() | ir.Delete():
                return UNKNOWN
        return UNKNOWN

    def _rank(self, place: Place) -> int:
        return len(self._cells[int(place.root[2:])].type.dims)

    def _fallback(self, node: ir.Expr) -> Value:
        if isinstance(node, ir.Member) and not isinstance(node.base, ir.Name):
            return self._member_value(self._value(node.base), node.name)
        return UNKNOWN

    def _constant(self, name: str) -> Value:
        """A name that is no variable: a macro constant or enumerator, else unknown but the same in every thread."""
        for module in self.program.modules.values():
            for known, expr in module.constants:
                if known == name and isinstance(expr, ir.Const) and isinstance(expr.value, int):
                    return Value(number(int(expr.value)))
        return Value(symbol("warpSize")) if name == "warpSize" else UNKNOWN

    def _binary(self, node: ir.Binary) -> Value:
        if node.op in ("&&", "||"):
            test = self._value(node.left)
            touched, right = self._recorded(node.right)
            self._merge(touched, [], test, node.left)
            return combine([test, right])
        left, right = self._value(node.left), self._value(node.right)
        if node.op == ",":
            return right
        if node.op in ("+", "-") and (left.places or right.places):
            pointer, by = (left, right) if left.places else (right, left)
            if left.places and right.places:  # a difference of pointers, or structs that are perhaps numbers
                return combine([left, right])
            step = by.number if node.op == "+" or by.number is None else -by.number
            moved = frozenset(p if p.value else p.moved(step) for p in pointer.places)
            total = _arithmetic(node.op, left.number, right.number)
            return Value(total, moved, left.data or right.data, left.thread or right.thread)
        return combine([left, right], _arithmetic(node.op, left.number, right.number))

    def _assign(self, node: ir.Assign) -> Value:
        value = self._value(node.value)
        locations, flags = self._locations(node.target)
        if not locations:
            return value
        old = UNKNOWN
        if node.op:
            old = self._read_all(locations, flags)
            if node.op in ("+", "-") and old.places and not value.places:
                step = value.number if node.op == "+" or value.number is None else -value.number
                moved = frozenset(p.moved(step) for p in old.places)
                value = Value(None, moved, old.data or value.data, old.thread or value.thread)
            else:
                value = combine([old, value], _arithmetic(node.op, old.number, value.number))
        for location in locations:
            if len(locations) > 1 and isinstance(location, int):
                value = value.join(self._store.get(location, UNKNOWN))
            self._write(location, value)
        return old if node.post else value

    def _cast(self, value: Value, type_: ir.TypeRef) -> Value:
        if not type_.pointer:
            return value
        if type_.name in ("void", "auto"):
            const = type_.const
            return replace(value, places=frozenset(replace(p, const=const) for p in value.places))
        element = type_.name + "*" * (type_.pointer - 1)
        return replace(value, places=frozenset(p.viewed_as(element, type_.const) for p in value.places))

    # -------------------------------------------------------------------------------------------------------- calls

    def _call(self, node: ir.Call) -> Value:
        callee = node.callee
        if isinstance(callee, ir.Name):
            known = self._known_call(callee.name, node)
            if known is not None:
                return known
        values = [self._value(a) for a in node.args]
        return self._invoke(callee, node.args, values, node)

    def _known_call(self, name: str, node: ir.Call) -> Value | None:
        bare = calls.bare(name)
        if self._find(name) is not None:
            return None
        if bare in calls.PRINTS:
            self.prints = True
            for arg in node.args:
                self._value(arg)
            return UNKNOWN
        if calls.is_atomic(bare) or bare in calls.ACCESSES or bare in calls.COPY_CALLS:
            values = [self._value(a) for a in node.args]
            flags = combine(values)
            if calls.is_atomic(bare):
                accesses: tuple[tuple[int, Mode], ...] = ((0, Mode.ATOMIC),)
            elif bare in calls.ACCESSES:
                accesses = calls.ACCESSES[bare]
            else:
                pointers = [k for k, v in enumerate(values) if v.places]
                accesses = tuple(zip(pointers, (Mode.WRITE, Mode.READ), strict=False))
            single = bare.startswith(("__ld", "__st")) or calls.is_atomic(bare)
            for position, mode in accesses:
                for place in values[position].places if position < len(values) else ():
                    spot = replace(place, value=False) if single else replace(place, offset=None, value=False)
                    if spot.local and mode is not Mode.READ:
                        self._write(spot, replace(flags, data=True))
                    self._touch(spot, mode)
            return Value(data=True, thread=True)
        if bare in calls.PRODUCTS and len(node.args) == 2:
            a, b = self._value(node.args[0]), self._value(node.args[1])
            return combine([a, b], _arithmetic("*", a.number, b.number))
        if bare in calls.PURE_POINTER_CALLS or name in calls.IDENTITIES:
            values = [self._value(a) for a in node.args]
            return values[0] if values and name in calls.IDENTITIES else combine(values)
        return None

    def _invoke(self, callee: ir.Expr, args: Sequence[ir.Expr], values: list[Value], node: ir.Call) -> Value:
        if isinstance(callee, ir.Name):
            found = self._find(callee.name)
            if isinstance(found, int) and (function := self._store.get(found, UNKNOWN).function) is not None:
                return self._inline_lambda(function, values)
            if isinstance(found, int):
                this = Value(places=frozenset({Place(f"c:{found}")}))
                method = self._methods(self._cells[found].type.name, "operator()", len(args))
                if method:
                    return self._alternatives(method, args, values, this)
            candidates = self._functions(callee.name, len(args))
            if candidates:
                return self._alternatives(candidates, args, values, UNKNOWN)
        elif isinstance(callee, ir.Lambda):
            return self._inline_lambda(callee, values)
        elif isinstance(callee, ir.Member):
            return self._method_call(callee, args, values)
        else:
            values = [*values, self._value(callee)]
        if isinstance(callee, ir.Name) and calls.bare(callee.name).startswith(calls.CURAND_STATE_PREFIX):
            for place in (p for v in values[:1] for p in v.places):
                self._touch(place, Mode.READ)
                self._touch(place, Mode.WRITE)
            return Value(data=True, thread=True)
        for value in values:
            self._escape(value)
        flags = combine(values)
        return replace(flags, thread=flags.thread or not values, data=flags.data)

    def _method_call(self, callee: ir.Member, args: Sequence[ir.Expr], values: list[Value]) -> Value:
        locations, flags = self._locations(callee.base)
        base_type = ""
        if len(locations) == 1 and isinstance(locations[0], int):
            base_type = self._cells[locations[0]].type.name
        this = Value(places=frozenset(Place(f"c:{x}") if isinstance(x, int) else x for x in locations))
        methods = self._methods(base_type, callee.name, len(args))
        if methods:
            return self._alternatives(methods, args, values, this)
        bound = self._read_all([x for x in locations if isinstance(x, int)], flags) if locations else UNKNOWN
        if base_type.endswith("atomic_ref") or callee.name.startswith("fetch_"):
            for place in bound.places | frozenset(x for x in locations if isinstance(x, Place)):
                self._touch(place, Mode.ATOMIC)
            return Value(data=True, thread=True)
        if callee.name in ("thread_rank", "block_rank", "meta_group_rank"):
            return Value(thread=True)
        for value in [bound, *values]:
            self._escape(value)
        return replace(combine([bound, *values]), data=True, thread=True)

    def _escape(self, value: Value) -> None:
        """A pointer reaches code that is not known: it may be read there, and written unless its target is const."""
        for place in value.places:
            if place.local or place.value:
                continue
            self.calls_unknown = True
            start = len(self.touches)
            self._touch(replace(place, offset=None), Mode.READ)
            if not place.const:
                self._touch(replace(place, offset=None), Mode.WRITE)
            self.touches[start:] = [replace(t, certainty=Certainty.MAY) for t in self.touches[start:]]

    def _functions(self, name: str, count: int) -> list[ir.Function]:
        found = [self.program.functions[uid] for uid in self.program.by_name.get(calls.bare(name), ())]
        usable = [f for f in found if f.body is not None and f.space != "host" and not f.record and _accepts(f, count)]
        here = [f for f in usable if f.path == self._frames[-1].function.path]
        return here or usable

    def _methods(self, type_name: str, name: str, count: int) -> list[ir.Function]:
        record = calls.bare(type_name)
        if not record:
            return []
        found = [self.program.functions[uid] for uid in self.program.by_name.get(name, ())]
        return [f for f in found if f.body is not None and calls.bare(f.record) == record and _accepts(f, count)]

    def _constructor(self, type_: ir.TypeRef) -> ir.Function | None:
        found = self._methods(type_.name, calls.bare(type_.name), 0)
        return found[0] if len(found) == 1 else None

    def _alternatives(
        self, functions: Sequence[ir.Function], args: Sequence[ir.Expr], values: list[Value], this: Value
    ) -> Value:
        """Overloads that arguments alone do not tell apart: each may be the one."""
        if len(functions) == 1:
            return self._inline(functions[0], args, values, this)
        result: Value | None = None
        recorded: list[list[Touch]] = []
        for function in functions[:6]:
            outer, self.touches = self.touches, []
            value = self._inline(function, args, values, this)
            result = value if result is None else result.join(value)
            recorded.append(self.touches)
            self.touches = outer
        self.touches.extend(_either(recorded))
        return result or UNKNOWN

    def _inline(self, function: ir.Function, args: Sequence[ir.Expr], values: list[Value], this: Value) -> Value:
        self.visited.add(function.uid)
        if any(f.function.uid == function.uid for f in self._frames):  # recursion: its first round showed the accesses
            return Value(data=True, thread=True)
        if len(self._frames) > DEPTH:
            self.calls_unknown = self.incomplete = True
            return UNKNOWN
        scope: dict[str, int | tuple[Location, ...]] = {}
        for k, param in enumerate(function.params):
            value = values[k] if k < len(values) else UNKNOWN
            if param.type.reference and k < len(args):
                start = len(self.touches)
                locations, _ = self._locations(args[k])
                del self.touches[start:]
                if locations:
                    scope[param.name] = locations
                    continue
            if param.type.pointer and param.type.name != "void":
                value = replace(value, places=frozenset(_typed(p, param.type) for p in value.places))
            scope[param.name] = self._new_cell(param.type, value)
        frame = Frame(function, [scope], this)
        self._frames.append(frame)
        try:
            assert function.body is not None
            self._statement(function.body)
        finally:
            self._frames.pop()
        return frame.returned or UNKNOWN

    def _inline_lambda(self, function: ir.Lambda, values: list[Value]) -> Value:
        frame = self._frames[-1]
        if len(frame.scopes) > 40 or len(self._frames) > DEPTH:
            return UNKNOWN
        scope: dict[str, int | tuple[Location, ...]] = {
            p.name: self._new_cell(p.type, values[k] if k < len(values) else UNKNOWN)
            for k, p in enumerate(function.params)
        }
        inner = Frame(frame.function, [*frame.scopes, scope], frame.this)
        self._frames.append(inner)
        try:
            self._statement(function.body)
        finally:
            self._frames.pop()
        return inner.returned or UNKNOWN

    # --------------------------------------------------------------------------------------------------- statements

    def _step(self) -> None:
        self._steps += 1
        if self._steps > STEPS:
            raise Budget

    def _statement(self, node: ir.Stmt) -> Exit:
        self._step()
        match node:
            case ir.Declare():
                self._declare(node)
            case ir.Evaluate(expr=expr):
                self._value(expr)
            case ir.Block(body=body, scope=scope):
                if scope:
                    self._frames[-1].scopes.append({})
                bounds = self._bounds.copy()
                try:
                    return self._sequence(body)
                finally:
                    if scope:
                        self._frames[-1].scopes.pop()
                        self._bounds = bounds
            case ir.If():
                return self._if(node)
            case ir.Loop():
                return self._loop(node)
            case ir.Switch(subject=subject, cases=cases):
                return self._switch(subject, cases)
            case ir.Return(value=value):
                if value is not None:
                    frame = self._frames[-1]
                    result = self._value(value)
                    frame.returned = result if frame.returned is None else frame.returned.join(result)
                return "function"
            case ir.Break() | ir.Continue():
                return "loop"
            case ir.Goto():
                return "?function"
            case ir.PreprocIf(branches=branches, complete=complete):
                recorded = []
                for _, block in branches:
                    outer, self.touches = self.touches, []
                    self._sequence(block.body)
                    recorded.append(self.touches)
                    self.touches = outer
                if not complete:
                    recorded.append([])
                self.touches.extend(_either(recorded))
            case ir.Try(body=body):
                return self._statement(body)
            case ir.Throw() | ir.Label():
                pass
        return ""

    def _sequence(self, body: Sequence[ir.Stmt]) -> Exit:
        """Statements in order. What follows a statement that may have left on a data condition is `may`."""
        for k, statement in enumerate(body):
            left = self._statement(statement)
            if left.startswith("?"):
                outer, self.touches = self.touches, []
                rest = self._sequence(body[k + 1 :])
                self.touches = outer + [replace(t, certainty=Certainty.MAY) for t in self.touches]
                return "?function" if "function" in left + rest else "?loop"
            if left:
                return left
        return ""

    def _declare(self, node: ir.Declare) -> None:
        scope = self._frames[-1].scopes[-1]
        init = node.init
        if node.space in ("shared", "constant", "device", "managed"):
            scope[node.name] = self._new_cell(node.type, UNKNOWN, shared=True)
            return
        if node.type.reference and init is not None:
            locations, _ = self._locations(init)
            if locations:
                scope[node.name] = locations
                return
        value = UNKNOWN
        if init is not None:
            if isinstance(init, ir.Construct) and init.type.name.endswith("atomic_ref") and init.args:
                locations, _ = self._locations(init.args[0])
                value = Value(places=frozenset(x for x in locations if isinstance(x, Place)))
            else:
                value = self._value(init)
            if node.type.pointer and not node.type.dims and node.type.name != "auto":
                value = replace(value, places=frozenset(_typed(p, node.type) for p in value.places))
        scope[node.name] = self._new_cell(node.type, value, array=bool(node.type.dims))

    def _if(self, node: ir.If) -> Exit:
        self._frames[-1].scopes.append({})
        if node.init is not None:
            self._statement(node.init)
        test = self._value(node.condition)
        if isinstance(node.condition, ir.Const):  # `if constexpr` on a literal
            chosen = node.then if node.condition.value else node.otherwise
            return self._statement(chosen) if chosen is not None else ""
        start, fields = dict(self._store), dict(self._fields)
        bounds = self._bounds.copy()
        self._assume(node.condition, True)
        first, exit_then = self._recorded_statement(node.then)
        after_then, self._store = self._store, dict(start)
        self._bounds = bounds.copy()
        self._fields = fields
        second: list[Touch] = []
        exit_else = ""
        self._assume(node.condition, False)
        if node.otherwise is not None:
            second, exit_else = self._recorded_statement(node.otherwise)
        self._frames[-1].scopes.pop()
        self._merge(first, second, test, node.condition)
        leaves_then, leaves_else = _leaves(exit_then), _leaves(exit_else)
        if not leaves_then:
            self._bounds = bounds.copy()
            if leaves_else:
                self._assume(node.condition, True)
                self._store = after_then
            else:
                self._store = _join_stores(self._store, after_then)
        if leaves_then and leaves_else:
            return exit_then if exit_then == exit_else else "function"
        partial = next((e for e in (exit_then, exit_else) if e), "")
        if not partial:
            return ""
        if test.thread and not test.data and _leaves(partial):
            return ""  # `if (i >= n) return;`: the threads that stay are the ones meant
        return "?" + partial.lstrip("?")

    def _switch(self, subject: ir.Expr, cases: Sequence[ir.Case]) -> Exit:
        self._value(subject)
        start, ends, recorded = dict(self._store), [], []
        exits: list[Exit] = []
        for case in cases:
            self._store = dict(start)
            outer, self.touches = self.touches, []
            exits.append(self._sequence(case.body))
            ends.append(self._store)
            recorded.append(self.touches)
            self.touches = outer
        if not any(not c.labels for c in cases):
            ends.append(start)
            recorded.append([])
        self.touches.extend(_either(recorded))
        self._store = start
        for end in ends:
            self._store = _join_stores(self._store, end)
        return "?function" if any("function" in e for e in exits) else ""

    def _loop(self, node: ir.Loop) -> Exit:
        bounds = self._bounds.copy()
        self._frames[-1].scopes.append({})
        if node.init is not None:
            self._statement(node.init)
        if node.iterable is not None:
            self._value(node.iterable)
        if node.target is not None:
            self._declare(replace(node.target, init=None))
        heads = self._loop_heads(node)
        test = UNKNOWN
        touched: list[Touch] = []
        left = ""
        for _ in range(3):
            self._store.update({c: v for c, v in heads.items() if not self._store.get(c, UNKNOWN).places})
            before = dict(self._store)
            if node.condition is not None:
                test = self._value(node.condition)
                self._assume(node.condition, True)
            seen, left = self._recorded_statement(node.body)
            outer, self.touches = self.touches, seen
            if node.step is not None:
                self._value(node.step)
            touched.extend(self.touches)
            self.touches = outer
            self._store = _join_stores(before, self._store)
            if all(_same_places(before.get(c, UNKNOWN), v) for c, v in self._store.items()):
                break
        if node.form != "do" and test.data:
            touched = [replace(t, certainty=Certainty.MAY) for t in touched]
        self.touches.extend(touched)
        for cell in heads:
            value = self._store.get(cell, UNKNOWN)
            self._store[cell] = replace(value, number=None, data=value.data or test.data)
        self._frames[-1].scopes.pop()
        self._bounds = bounds
        return "?function" if "function" in left else ""

    def _loop_heads(self, node: ir.Loop) -> dict[int, Value]:
        """What the variables that a loop changes hold at the start of any round. An integer becomes a symbol of its own:
        it is bounded below by its start when the loop only adds to it, and above by the loop's condition."""
        changed: dict[str, bool] = {}  # name -> only grows
        for part in (node.condition, node.body, node.step):
            if part is None:
                continue
            for inner in ir.walk(part):
                if isinstance(inner, ir.Assign) and isinstance(inner.target, ir.Name):
                    name = inner.target.name
                    changed[name] = changed.get(name, True) and inner.op in ("+", "*", "<<")
        heads: dict[int, Value] = {}
        for name, grows in changed.items():
            cell = self._find(name)
            if not isinstance(cell, int):
                continue
            start = self._store.get(cell, UNKNOWN)
            if start.places:
                loose = frozenset(replace(p, offset=None) for p in start.places)
                self._store[cell] = replace(start, places=loose, number=None)
                continue
            if start.number is None and not is_scalar(self._cells[cell].type):
                continue
            head = f"@{name}{len(self._bounds.lower)}"
            if grows and start.number is not None:
                lowest = extreme(fold_thread_index(start.number), self._bounds.lower, self._bounds.upper, highest=False)
                if lowest is not None:
                    self._bounds.lower[head] = lowest
            else:
                self._bounds.lower.pop(head, None)
            heads[cell] = Value(symbol(head), data=start.data, thread=start.thread)
        return heads

    # ------------------------------------------------------------------------------------------ branches and guards

    def _recorded(self, node: ir.Expr) -> tuple[list[Touch], Value]:
        outer, self.touches = self.touches, []
        value = self._value(node)
        recorded, self.touches = self.touches, outer
        return recorded, value

    def _recorded_statement(self, node: ir.Stmt) -> tuple[list[Touch], Exit]:
        outer, self.touches = self.touches, []
        left = self._statement(node)
        recorded, self.touches = self.touches, outer
        return recorded, left

    def _merge(self, first: list[Touch], second: list[Touch], test: Value, condition: ir.Expr) -> None:
        """Accesses of two branches. A guard on the thread's coordinates keeps them; a null check keeps those through the
        pointer it checks."""
        if test.thread and not test.data:
            self.touches.extend(first + second)
            return
        merged = _either([first, second])
        checked = {p.root for e in _null_checked(condition) for p in self._quiet(e).places}
        self.touches.extend(replace(t, certainty=Certainty.MUST) if t.root in checked else t for t in merged)

    def _quiet(self, node: ir.Expr) -> Value:
        outer, self.touches = self.touches, []
        value = self._value(node)
        self.touches = outer
        return value

    def _assume(self, node: ir.Expr, holds: bool) -> None:
        """Takes bounds from a guard: `a < b` bounds `a`, conjunctions both sides, a negated disjunction likewise."""
        if not isinstance(node, ir.Binary):
            if isinstance(node, ir.Unary) and node.op == "!":
                self._assume(node.operand, not holds)
            elif isinstance(node, ir.Cast):
                self._assume(node.operand, holds)
            return
        if node.op == ("&&" if holds else "||"):
            self._assume(node.left, holds)
            self._assume(node.right, holds)
            return
        flipped = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
        op = node.op if holds else flipped.get(node.op, "")
        if op not in ("<", "<=", ">", ">=", "=="):
            return
        left, right = self._quiet(node.left).number, self._quiet(node.right).number
        if left is None or right is None:
            return
        if op in (">", ">="):
            left, right, op = right, left, {">": "<", ">=": "<="}[op]
        self._bound(fold_thread_index(left), right - ONE if op == "<" else right, self._bounds.upper)
        self._bound(fold_thread_index(right), left + ONE if op == "<" else left, self._bounds.lower)
        if op == "==":
            self._bound(fold_thread_index(left), right, self._bounds.lower)

    def _bound(self, subject: Poly, bound: Poly, side: dict[str, Poly]) -> None:
        bound = fold_thread_index(bound)
        if len(subject.terms) == 1 and len(subject.terms[0][0]) == 1 and subject.terms[0][1] == 1:
            name = subject.terms[0][0][0]
            if name.startswith(("@", "threadIdx.", "blockIdx.")) and name not in bound.symbols:
                side[name] = bound
        elif side is self._bounds.upper and any(s.startswith(("@", "threadIdx", "blockIdx")) for s in subject.symbols):
            self._bounds.exact[subject] = bound


# ------------------------------------------------------------------------------------------------------ free functions


def _arithmetic(op: str, a: Poly | None, b: Poly | None) -> Poly | None:
    if a is None or b is None:
        return None
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "<<" if b.constant is not None and 0 <= b.constant < 31:
            return a * number(1 << b.constant)
        case "/" if a.constant is not None and b.constant:
            return number(a.constant // b.constant)
        case "%" if a.constant is not None and b.constant:
            return number(a.constant % b.constant)
    return None


def _typed(place: Place, type_: ir.TypeRef) -> Place:
    """A place seen through a declared pointer type. A template parameter says nothing about the element."""
    element = type_.name + "*" * max(0, type_.pointer - 1)
    if place.element in ("", "void") or place.element == element:
        return replace(place, element=element if place.value is False else "", const=place.const or type_.const)
    return replace(place, const=place.const or type_.const)


def _accepts(function: ir.Function, count: int) -> bool:
    required = sum(1 for p in function.params if p.default is None)
    return required <= count <= len(function.params) or count == 0


def _leaves(status: Exit) -> bool:
    return bool(status) and not status.startswith("?")


def _depth(node: ir.Expr) -> int:
    depth = 0
    while isinstance(node, ir.Index):
        depth, node = depth + 1, node.base
    return depth


def _either(branches: Sequence[list[Touch]]) -> list[Touch]:
    """Accesses of which one branch's happen: `must` only where every branch must."""
    shared: set[tuple[str, str, Mode]] | None = None
    for touches in branches:
        keys = {t.key for t in touches if t.certainty is Certainty.MUST}
        shared = keys if shared is None else shared & keys
    return [
        t if t.key in (shared or ()) else replace(t, certainty=Certainty.MAY) for touches in branches for t in touches
    ]


def _same_places(a: Value, b: Value) -> bool:
    return a.places == b.places and a.function == b.function


def _join_stores(a: dict[int, Value], b: dict[int, Value]) -> dict[int, Value]:
    joined = dict(a)
    for cell, value in b.items():
        joined[cell] = value.join(a[cell]) if cell in a else value
    return joined


def _null_checked(condition: ir.Expr) -> Iterator[ir.Expr]:
    """The expressions that a condition tests as pointers: `p`, `p != nullptr`, and conjunctions of them."""
    match condition:
        case ir.Name() | ir.Member():
            yield condition
        case ir.Binary(op="!=", left=left, right=ir.Const(value=None | 0)):
            yield left
        case ir.Binary(op="&&", left=left, right=right):
            yield from _null_checked(left)
            yield from _null_checked(right)


def _field_kinds(program: ir.Program) -> dict[str, ir.TypeRef]:
    """The type of a field by its name alone, where all records of the program agree on its shape."""
    kinds: dict[str, ir.TypeRef] = {}
    clashing: set[str] = set()
    for record in program.records.values():
        for field in record.fields:
            known = kinds.setdefault(field.name, field.type)
            if (known.pointer, len(known.dims), is_scalar(known)) != (
                field.type.pointer,
                len(field.type.dims),
                is_scalar(field.type),
            ):
                clashing.add(field.name)
    return {name: kind for name, kind in kinds.items() if name not in clashing}


def _device_symbols(program: ir.Program) -> dict[str, ir.Declare]:
    return {
        declared.name: declared
        for module in program.modules.values()
        for declared in module.globals
        if declared.space in ("device", "constant", "managed")
    }
