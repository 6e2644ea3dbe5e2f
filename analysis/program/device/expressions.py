"""Expressions of device code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from stitchcuda.analysis.order.symbolic import ZERO, Poly, number, symbol
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device import known_calls as calls
from stitchcuda.analysis.program.device.environment import is_scalar
from stitchcuda.analysis.program.device.guards import DeviceGuards
from stitchcuda.analysis.program.device.memory import Location
from stitchcuda.analysis.program.device.values import (
    UNKNOWN,
    Place,
    Value,
    combine,
)


class DeviceExpressions(DeviceGuards, ABC):
    @abstractmethod
    def _call(self, node: ir.Call) -> Value: ...

    @abstractmethod
    def _invoke(self, callee: ir.Expr, args: Sequence[ir.Expr], values: list[Value]) -> Value: ...

    @abstractmethod
    def _construct(self, type_: ir.TypeRef, args: Sequence[ir.Expr], values: list[Value]) -> Value: ...

    @abstractmethod
    def _escape(self, value: Value) -> None: ...

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
                if (declared := self._environment.symbols.get(calls.bare(name))) is not None:
                    return (Place(f"s:{declared.name}", element=declared.type.name),), UNKNOWN
                this = self._frames[-1].this
                if this.places and name in self._environment.fields:
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
                if self._dimensions_left(base):  # an array inside a struct
                    locations, flags = self._locations(base)
                    inside = tuple(element for x in locations for element in self._embedded(x))
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
            case ir.Call(callee=ir.Name(name=name), args=args) if self._is_pointer(name):
                # a macro named like a pointer that indexes it: `#define img(r, c) img[(r) * w + (c)]`
                given = [self._value(a) for a in args]
                return self._targets(self._value(node.callee), None), combine(given)
            case _:
                return (), UNKNOWN

    def _value(self, node: ir.Expr) -> Value:
        self._step()
        match node:
            case ir.Const(value=value):
                return Value(number(int(value))) if isinstance(value, int) else UNKNOWN
            case ir.Name(name="this"):
                return self._frames[-1].this
            case ir.Name(name=name):
                found = self._find(name)
                if isinstance(found, int) and not self._cells[found].array:
                    self._steps += 1  # it is located and read
                    return self._read(found)
                locations, flags = self._locations(node)
                if not locations:
                    return self._constant(name)
                if len(locations) == 1 and isinstance(cell := locations[0], int) and self._cells[cell].array:
                    return Value(places=frozenset({Place(f"c:{cell}", element=self._cells[cell].type.name)}))
                symbols = [x for x in locations if isinstance(x, Place) and x.root.startswith("s:")]
                if any(self._environment.symbols[x.root[2:]].type.dims and not x.member for x in symbols):
                    return Value(places=frozenset(symbols))
                return self._read_all(locations, flags)
            case ir.Member(base=ir.Name(name=base), name=name) if base in calls.COORDINATES:
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
                given = self._value(operand)
                if type_.pointer and not given.places and self._is_number(operand):
                    self.supplied = True  # an address that came as a number
                return self._cast(given, type_)
            case ir.Construct(type=type_, args=args):
                values = [self._value(a) for a in args]
                if len(values) == 1 and (is_scalar(type_) or type_.pointer):
                    return self._cast(values[0], type_)
                return self._construct(type_, args, values)
            case ir.InitList(items=items):
                values = [self._value(a) for a in items]
                return replace(combine(values), places=frozenset(p for v in values for p in v.places))
            case ir.Lambda():
                return Value(function=node)
            case ir.Call(callee=ir.Name(name=name)) if self._is_pointer(name):
                return self._read_all(*self._locations(node))
            case ir.Call():
                return self._call(node)
            case ir.Launch(kernel=kernel, args=args):  # dynamic parallelism
                values = [self._value(a) for a in args]
                return self._invoke(kernel, args, values)
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

    def _is_pointer(self, name: str) -> bool:
        found = self._find(name)
        if not isinstance(found, int) or self._cells[found].array:
            return False
        held = self._store.get(found, UNKNOWN)
        return held.function is None and any(not p.value and not p.local for p in held.places)

    def _dimensions_left(self, node: ir.Expr) -> int:
        """Of an array that is a struct's field: 2 for `s.m` of `float m[3][3]`, 1 for `s.m[0]`, 0 for an element."""
        if isinstance(node, ir.Index):
            return max(0, self._dimensions_left(node.base) - 1)
        kind = self._environment.fields.get(node.name) if isinstance(node, ir.Member) else None
        return len(kind.dims) if kind is not None else 0

    def _embedded(self, array: Location) -> tuple[Location, ...]:
        """An element of an array that is a struct's field, by where the field lies."""
        if isinstance(array, Place):
            return (replace(array, offset=None),)
        held = self._store.get(array, UNKNOWN).places  # a struct parameter's field is itself a parameter
        return tuple(p for p in held if p.value) or (array,)

    def _rank(self, place: Place) -> int:
        return len(self._cells[int(place.root[2:])].type.dims)

    def _fallback(self, node: ir.Expr) -> Value:
        if isinstance(node, ir.Member) and not isinstance(node.base, ir.Name):
            return self._member_value(self._value(node.base), node.name)
        return UNKNOWN

    def _constant(self, name: str) -> Value:
        """A name that is no variable: a macro constant or enumerator, else unknown but the same in every thread."""
        if (known := self._environment.constants.get(calls.bare(name))) is not None:
            return Value(number(known))
        return Value(symbol("warpSize")) if name == "warpSize" else UNKNOWN

    def _binary(self, node: ir.Binary) -> Value:
        if node.op in ("&&", "||"):
            test = self._value(node.left)
            bounds = self._bounds.copy()
            self._assume(node.left, node.op == "&&")
            touched, right = self._recorded(node.right)
            self._bounds = bounds
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
            total = arithmetic(node.op, left.number, right.number)
            return Value(total, moved, left.data or right.data, left.thread or right.thread)
        return combine([left, right], arithmetic(node.op, left.number, right.number))

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
                value = combine([old, value], arithmetic(node.op, old.number, value.number))
        for location in locations:
            if len(locations) > 1 and isinstance(location, int):
                value = value.join(self._store.get(location, UNKNOWN))
            self._write(location, value)
        return old if node.post else value

    def _is_number(self, node: ir.Expr) -> bool:
        """It names nothing that is or holds a pointer or an array, and at least one variable."""
        names = [n.name for n in ir.walk(node) if isinstance(n, ir.Name)]
        cells = [self._cells[c] for n in names if isinstance(c := self._find(n), int)]
        return bool(cells) and not any(c.array or c.type.pointer or not is_scalar(c.type) for c in cells)

    def _cast(self, value: Value, type_: ir.TypeRef) -> Value:
        if not type_.pointer:
            return value
        if type_.name in ("void", "auto"):
            const = type_.const
            return replace(value, places=frozenset(replace(p, const=const) for p in value.places))
        element = type_.name + "*" * (type_.pointer - 1)
        return replace(value, places=frozenset(p.viewed_as(element, type_.const) for p in value.places))


def arithmetic(op: str, a: Poly | None, b: Poly | None) -> Poly | None:
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


def _depth(node: ir.Expr) -> int:
    depth = 0
    while isinstance(node, ir.Index):
        depth, node = depth + 1, node.base
    return depth
