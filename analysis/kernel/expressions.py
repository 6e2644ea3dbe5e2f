"""Expressions of a kernel in all lanes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from stitchcuda.analysis.kernel.arithmetic import COMPARISONS
from stitchcuda.analysis.kernel.deciding import Deciding
from stitchcuda.analysis.kernel.lanes import ONE, WARP, ZERO, Form, number, per_lane, symbol
from stitchcuda.analysis.kernel.launches import constant
from stitchcuda.analysis.kernel.model import Access, Buffer, Memory, Mode, Uniformity
from stitchcuda.analysis.kernel.state import NO_TYPE, Binding, is_volatile
from stitchcuda.analysis.kernel.values import (
    UNKNOWN,
    Cell,
    Closure,
    Location,
    Place,
    Value,
    is_float,
    size_form,
    wrapped,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.environment import is_scalar
from stitchcuda.analysis.program.device.known_calls import bare

_WORDS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_READ = (ir.Member, ir.Index, ir.Deref)


class Expressions(Deciding, ABC):
    @abstractmethod
    def call(self, node: ir.Call) -> Value: ...

    @abstractmethod
    def call_location(self, node: ir.Call) -> tuple[Location, ...]: ...

    @abstractmethod
    def assembly(self, node: ir.Opaque) -> Value: ...

    @abstractmethod
    def construct(self, type_: ir.TypeRef, args: Sequence[ir.Expr], span: ir.Span) -> Value: ...

    @abstractmethod
    def overloaded(self, owner: Location, name: str, args: Sequence[ir.Expr], span: ir.Span) -> Value | None: ...

    def evaluate(self, node: ir.Expr) -> Value:
        return self.value(node)

    # ------------------------------------------------------------------------------------------------------- locations

    def locations(self, node: ir.Expr) -> tuple[Location, ...]:
        """Where an lvalue lies; several when it is not known which, none when nothing is known."""
        self.step()
        match node:
            case ir.Name(name="this"):
                return ()
            case ir.Name(name=name):
                return self._named(name)
            case ir.Member(base=base, name=name):
                return self._members(base, name)
            case ir.Index(base=base, index=index):
                by = self.value(index)
                return tuple(self._indexed(base, by, node.span))
            case ir.Deref(operand=ir.Name(name="this")):
                return self.frame.this
            case ir.Deref(operand=operand):
                return tuple(self.value(operand).places)
            case ir.Cast(type=type_, operand=operand) if type_.reference:
                element = self.type_name(type_)
                return tuple(
                    replace(x, element=element, dims=()) if isinstance(x, Place) else x for x in self.locations(operand)
                )
            case ir.Cast(operand=operand, type=type_) if not type_.pointer:
                return ()
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                decision = self.decide(condition)
                if decision.no == self.active:
                    return self.locations(otherwise)
                if decision.yes == self.active:
                    return self.locations(then)
                return self.locations(then) + self.locations(otherwise)
            case ir.Assign(target=target):
                self.value(node)
                return self.locations(target)
            case ir.Binary(op=",", left=left, right=right):
                self.value(left)
                return self.locations(right)
            case ir.Call():
                return self.call_location(node)
            case _:
                return ()

    def _named(self, name: str) -> tuple[Location, ...]:
        found: Binding | None = self.find(name)
        if found is not None:
            return found if isinstance(found, tuple) else (found,)
        for owner in self.frame.this:
            record = self.frame.function.record
            kind = self.field_type(record, name) if record else self._environment.fields.get(name)
            if kind is not None and (inner := self.member(owner, name)) is not None:
                return (inner,)
        declared = self._environment.symbols.get(bare(name))
        if declared is not None:
            buffer = Buffer(Memory.GLOBAL, declared.name, self.type_name(declared.type), symbol=True)
            return (Place(buffer, ZERO, buffer.element, self.dims(declared.type)),)
        shared = self._global_shared(bare(name))
        return (shared,) if shared is not None else ()

    def _global_shared(self, name: str) -> Place | None:
        key = (self.frame.function.path, name)
        if key not in self._shared_names:
            self._shared_names[key] = self._declared_shared(*key)
        declared = self._shared_names[key]
        return self.shared(declared, dynamic=not any(declared.type.dims)) if declared is not None else None

    def _declared_shared(self, path: str, name: str) -> ir.Declare | None:
        for other in (path, *sorted(self.program.visible.get(path, ()))):
            module = self.program.modules.get(other)
            for declared in module.globals if module is not None else ():
                if declared.name == name and declared.space == "shared":
                    return declared
        return None

    def shared(self, node: ir.Declare, *, dynamic: bool = False) -> Place:
        """The memory of a `__shared__` variable."""
        element = self.type_name(node.type)
        dims = self.dims(node.type)
        dynamic = dynamic or any(d is None for d in node.type.dims)
        total: Form | None = size_form(element)
        for dim in dims:
            total = total * dim if total is not None else None
        size = total.constant if total is not None and not dynamic else None
        buffer = Buffer(
            Memory.SHARED,
            node.name,
            element,
            size,
            dynamic,
            is_volatile(self._declaration(node)),
            declared=self.site(node.name_span) if self.frames else None,
            instance=",".join(self.frame.given.values()) if self.frames and not dynamic else "",
        )
        return Place(buffer, ZERO, element, dims)

    def _declaration(self, node: ir.Declare) -> bytes:
        """The words of a declaration that stand before the name."""
        start = max(0, node.span[0] - 160)
        before = self.text((start, node.name_span[0]))
        cut = max(before.rfind(b";"), before.rfind(b"{"), before.rfind(b"}"))
        return before[cut + 1 :]

    def _members(self, base: ir.Expr, name: str) -> tuple[Location, ...]:
        owners = self.locations(base)
        if not owners:
            held = self.value(base)
            if held.record is not None:
                owners = (held.record,)
            elif held.number is None and not held.places:
                return (Cell(NO_TYPE, held, self.active),)
        out = []
        for owner in owners:
            if isinstance(owner, Cell) and owner.value.record is not None and owner.value.record is not owner:
                owner = owner.value.record if not owner.fields else owner
            inner = self.member(owner, name)
            if inner is not None:
                out.append(inner)
        return tuple(out)

    def _indexed(self, base: ir.Expr, by: Value, span: ir.Span) -> list[Location]:
        out: list[Location] = []
        arrays = self.locations(base)
        variable = bool(arrays) and all(isinstance(array, Cell) for array in arrays)
        pointers: list[Place] = []
        for array in arrays:
            held = self.load(array, base.span).places
            outside = self._beyond(array, by.number) if isinstance(array, Place) and array.dims else 0
            pointers.extend([replace(p, outside=p.outside | outside) for p in held] if outside else held)
        if not arrays:
            pointers.extend(self.value(base).places)
        index = by.number
        for pointer in pointers:
            if index is None:
                index = self.unknown_number(by.spread)
            place = self.stepped(pointer, index)
            if variable and isinstance(place.target, Buffer) and place.target.memory is Memory.SHARED:
                place = replace(place, part=pointer.offset)
            out.append(place)
        return out

    def _beyond(self, array: Place, index: Form | None) -> int:
        """The lanes whose index is beyond a row, where a condition that is not known keeps such lanes away."""
        extent, exact = array.dims[0].constant, index.exact if index is not None else None
        if exact is None or not extent or isinstance(exact, int) or not self.kept_away():
            return 0
        return self.full & ~(exact.reaching(0) & ~exact.reaching(extent))

    # ---------------------------------------------------------------------------------------------------------- values

    def value(self, node: ir.Expr) -> Value:
        self.step()
        # What most nodes are comes first: a kernel is walked node by node, and each asks here.
        if isinstance(node, ir.Name):
            if node.name == "this":
                return Value(places=tuple(x if isinstance(x, Place) else Place(x, ZERO) for x in self.frame.this))
            return self._name(node)
        if isinstance(node, ir.Const):
            if isinstance(node.value, int):
                return Value(number(int(node.value)))
            return Value(ZERO) if node.value is None else UNKNOWN
        if isinstance(node, ir.Binary):
            return self._binary(node)
        if isinstance(node, _READ):
            return self._read(node)
        if isinstance(node, ir.Assign):
            return self._assign(node)
        if isinstance(node, ir.Call):
            return self.call(node)
        match node:
            case ir.AddressOf(operand=operand):
                places = []
                for x in self.locations(operand):
                    places.append(x if isinstance(x, Place) else Place(x, ZERO, x.type.name))
                return Value(places=tuple(places))
            case ir.Unary(op="!"):
                return self._truth_value(node)
            case ir.Unary(op=op, operand=operand):
                return self._unary(op, self.value(operand))
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                return self._conditional(condition, then, otherwise)
            case ir.Cast(type=type_, operand=operand):
                held = self._cast(self.value(operand), type_)
                if held.places and is_volatile(self.text((node.span[0], operand.span[0]))):
                    held = replace(held, places=tuple(replace(p, volatile=True) for p in held.places))
                return held
            case ir.Construct(type=type_, args=args):
                if len(args) == 1 and (is_scalar(type_) or type_.pointer):
                    return self._cast(self.value(args[0]), type_)
                return self.construct(type_, args, node.span)
            case ir.InitList(items=items):
                return self._list(items)
            case ir.Lambda():
                for _, inner in node.init_captures:
                    self.value(inner)
                return Value(closure=self.closure_of(node))
            case ir.SizeOf(type=type_, operand=operand):
                return self._size(type_, operand)
            case ir.Opaque(what="asm"):
                return self.assembly(node)
            case ir.Opaque(children=parts):
                return replace(self.combined([self.value(p) for p in parts]), spread=Uniformity.DATA)
            case ir.Api(roles=roles):
                for _, part in roles:
                    self.value(part)
                return UNKNOWN
        return UNKNOWN

    def _binary(self, node: ir.Binary) -> Value:
        op = node.op
        if op == ",":
            self.value(node.left)
            return self.value(node.right)
        if op in ("&&", "||") or op in COMPARISONS:
            return self._truth_value(node)
        return self.operate(op, self.value(node.left), self.value(node.right))

    def _name(self, node: ir.Name) -> Value:
        name = node.name
        self.step()
        found = self._named(name)
        if len(found) == 1:
            return self.load(found[0], node.span)
        if found:
            return self._any_of(found, node.span)
        if (bound := self.frame.bindings.get(name)) is not None:
            return Value(bound) if isinstance(bound, Form) else UNKNOWN
        if name in self.frame.function.template:
            return Value(symbol(f"<{name}>"))
        if name == "warpSize":
            return Value(number(WARP))
        if name in _WORDS:
            cell = Cell(ir.TypeRef("dim3"), UNKNOWN, self.full)
            for axis in "xyz":
                held = Value(self.coordinates.get(f"{name}.{axis}") or symbol(f"{name}.{axis}"))
                cell.fields[axis] = Cell(ir.TypeRef("unsigned"), held, self.full)
            return Value(record=cell)
        defined = constant(self.program, self.frame.function.path, name)
        if defined is not None and len(self.frames) < 60:
            if isinstance(defined, ir.Const) and isinstance(defined.value, float):
                return UNKNOWN
            if isinstance(defined, ir.Name) and defined.name == name:
                return Value(symbol(name))
            if any(isinstance(part, ir.Opaque) for part in ir.walk(defined)):
                return Value(symbol(name))  # a constant all the same
            return self.value(defined)
        if self.program.by_name.get(bare(name)):
            return Value(function=name)
        return Value(symbol(name)) if name else self.unseen()  # a name that is missing in broken code

    def _any_of(self, found: Sequence[Location], span: ir.Span) -> Value:
        held = self.load(found[0], span, several=True)
        for other in found[1:]:
            held = self.joined(held, self.load(other, span, several=True), None)
        return held

    def _read(self, node: ir.Member | ir.Index | ir.Deref) -> Value:
        if isinstance(node, ir.Member):
            if isinstance(node.base, ir.Name) and (base := node.base.name) in _WORDS and self.find(base) is None:
                return Value(self.coordinates.get(f"{base}.{node.name}") or symbol(f"{base}.{node.name}"))
        elif isinstance(node, ir.Index):
            owners = self.locations(node.base)
            if len(owners) == 1 and isinstance(owners[0], Cell) and not owners[0].array and not owners[0].value.places:
                overload = self.overloaded(owners[0], "operator[]", (node.index,), node.span)
                if overload is not None:
                    return overload
        found = self.locations(node)
        if len(found) == 1:
            return self.load(found[0], node.span)
        if found:
            return self._any_of(found, node.span)
        return self.unseen()

    def _unary(self, op: str, inner: Value) -> Value:
        if inner.number is None:
            return self.combined([inner])
        if op == "-":
            return Value(-inner.number)
        if op == "~":
            return Value(-inner.number - ONE)
        return inner

    def closure_of(self, node: ir.Lambda) -> Closure:
        """A lambda that is written here."""
        frame = self.frame
        return Closure(node, tuple(frame.scopes), frame.function, frame.this, frame.bindings)

    def operate(self, op: str, left: Value, right: Value) -> Value:
        if op in ("+", "-") and (left.places or right.places):
            if left.places and right.places:
                return self.combined([left, right]) if op == "-" else left
            pointer, by = (left, right) if left.places else (right, left)
            index = by.number
            if index is None:
                index = self.unknown_number(by.spread)
            if op == "-":
                index = -index
            return Value(places=tuple(self.stepped(p, index) for p in pointer.places))
        if left.number is not None and right.number is not None:
            return Value(self.math.binary(op, left.number, right.number))
        return self.combined([left, right])

    def _truth_value(self, node: ir.Expr) -> Value:
        decision = self.decide(node)
        if decision.yes | decision.no == self.active:
            if not decision.no:
                return Value(ONE)
            if not decision.yes:
                return Value(ZERO)
            return Value(per_lane(tuple([decision.yes >> k & 1 for k in range(self.width)])))
        spread = max((g.uniformity for g in decision.when_true), key=list(Uniformity).index, default=Uniformity.DATA)
        return Value(spread=spread, decision=decision)

    def _conditional(self, condition: ir.Expr, then: ir.Expr, otherwise: ir.Expr) -> Value:
        decision = self.decide(condition)
        found: list[Value] = []
        self.fork(decision, lambda: found.append(self.value(then)), lambda: found.append(self.value(otherwise)))
        if len(found) == 1:
            return found[0]
        if not found:
            return UNKNOWN
        if decision.yes | decision.no == self.active:
            return self.chosen(decision.yes, found[0], found[1])
        guard = max(decision.when_true, key=lambda g: list(Uniformity).index(g.uniformity), default=None)
        merged = self.joined(found[0], found[1], guard)
        if decision.yes or decision.no:
            merged = self.chosen(decision.yes, found[0], self.chosen(decision.no, found[1], merged))
        return merged

    def _assign(self, node: ir.Assign) -> Value:
        value = self.value(node.value)
        read = self.events[-1] if self.events and not node.op else None
        targets = self.locations(node.target)
        if not targets:
            if isinstance(node.target, ir.Index | ir.Deref):
                self.value(node.target)
            return value
        several = len(targets) > 1
        old = UNKNOWN
        for target in targets:
            if node.op:
                old = self.load(target, node.target.span, several=several)
                result = self.operate(node.op, old, value)
            else:
                result = value
            if several and isinstance(target, Cell):
                result = self.joined(result, target.value, None)
            update = bool(node.op) or _mentions(node.value, node.target)
            if isinstance(target, Cell):
                self.assign(target, self._fitted(result, target))
            else:
                active = self.active
                self.active &= ~self._kept(target, read, node.value.span)
                if self.active:
                    self.store(target, result, node.target.span, several=several, update=update)
                self.active = active
        return old if node.post else result

    def _kept(self, target: Place, read: object, span: ir.Span) -> int:
        """The lanes that write back what an element holds: `row[first + lane] = row[lane]` where `first` is 0."""
        if not isinstance(read, Access) or read.mode is not Mode.READ or read.site.span != span:
            return 0
        if read.buffer != target.target or read.field != target.field or read.part != target.part:
            return 0
        return self.math.zero(read.offset - target.offset)[0] if target.offset is not None else 0

    def _fitted(self, value: Value, target: Cell) -> Value:
        """A number in a variable of floating point type is not followed."""
        if value.number is not None and is_float(target.type.name) and not target.type.pointer:
            return Value(spread=self.spread_of(value))
        return value

    def _cast(self, value: Value, type_: ir.TypeRef) -> Value:
        name = self.type_name(type_)
        if type_.pointer:
            if type_.name in ("void", "auto"):
                return value
            return replace(
                value,
                places=tuple(
                    replace(p, element=name, dims=(), row=None)
                    if isinstance(p.target, Buffer)
                    else replace(p, element=name)
                    for p in value.places
                ),
            )
        if is_float(name):
            return Value(spread=self.spread_of(value))
        if value.number is not None:
            return replace(value, number=wrapped(value.number, name))
        if name in ("int", "unsigned", "unsigned int", "long", "size_t", "uint32_t", "int32_t") and not value.places:
            if value.decision is not None:
                return value
            uniform = value.spread is Uniformity.BLOCK
            return Value(self.math.fresh("u" if uniform else "~"))
        return value

    def _list(self, items: Sequence[ir.Expr]) -> Value:
        cell = Cell(ir.TypeRef(""), UNKNOWN, self.active, array=True)
        for k, item in enumerate(items):
            cell.elements[k] = Cell(NO_TYPE, self.value(item), self.active)
        return Value(record=cell)

    def _size(self, type_: ir.TypeRef | None, operand: ir.Expr | None) -> Value:
        if type_ is not None:
            return Value(size_form(self.type_name(replace(type_, pointer=type_.pointer + 1))))
        if isinstance(operand, ir.Name):
            for x in self.locations(operand):
                if isinstance(x, Place):
                    total: Form | None = size_form(x.element)
                    for dim in x.dims:
                        total = total * dim if total is not None else None
                    return Value(total)
                return Value(size_form(x.type.name))
            return Value(size_form(self.type_name(ir.TypeRef(operand.name, pointer=1))))  # it is a type
        return Value(self.math.fresh("u"))

    # ----------------------------------------------------------------------------------------------------------- types

    def resolved(self, type_: ir.TypeRef) -> ir.TypeRef:
        """Template parameters and aliases looked through."""
        for _ in range(6):
            bound = self.frame.bindings.get(type_.name) if self.frames else None
            if isinstance(bound, ir.TypeRef) and bound.name != type_.name:
                type_ = replace(
                    bound, pointer=bound.pointer + type_.pointer, dims=type_.dims, reference=type_.reference
                )
                continue
            alias = self.alias(type_.name)
            if alias is None or alias.name == type_.name:
                break
            type_ = replace(
                alias,
                pointer=alias.pointer + type_.pointer,
                dims=(*type_.dims, *alias.dims),
                reference=type_.reference or alias.reference,
            )
        return type_

    def alias(self, name: str) -> ir.TypeRef | None:
        key = (self.frame.function.path if self.frames else "", name)
        if key not in self._aliases:
            self._aliases[key] = self._alias(*key)
        return self._aliases[key]

    def _alias(self, path: str, name: str) -> ir.TypeRef | None:
        module = self.program.modules.get(path)
        for known, target in module.aliases if module is not None else ():
            if known == name:
                return target
        for other in self.program.visible.get(path, ()):
            module = self.program.modules.get(other)
            for known, target in module.aliases if module is not None else ():
                if known == name:
                    return target
        return None

    def type_name(self, type_: ir.TypeRef) -> str:
        """The element's type: one `*` less than written for a pointer, none for an array."""
        type_ = self.resolved(type_)
        stars = type_.pointer - (0 if type_.dims else 1) if type_.pointer else 0
        return type_.name + "*" * max(0, stars)


def _mentions(value: ir.Expr, target: ir.Expr) -> bool:
    """`x = x + 1`: the value reads what it is stored to, as far as the spelling tells."""
    wanted = _spelled(target)
    return any(_spelled(n) == wanted for n in ir.walk(value) if type(n) is type(target))


def _spelled(node: object) -> object:
    if isinstance(node, ir.Name):
        return node.name
    if isinstance(node, ir.Const):
        return node.value
    if isinstance(node, ir.Member):
        return ("m", _spelled(node.base), node.name)
    if isinstance(node, ir.Index):
        return ("i", _spelled(node.base), _spelled(node.index))
    if isinstance(node, ir.Deref | ir.Cast):
        return ("d", _spelled(node.operand))
    if isinstance(node, ir.Binary):
        return (node.op, _spelled(node.left), _spelled(node.right))
    return node
