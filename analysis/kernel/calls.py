"""Calls in a kernel: walked in place when the callee has a body, else by the table of CUDA's functions."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from stitchcuda.analysis.kernel import intrinsics as known
from stitchcuda.analysis.kernel.groups import GroupCalls
from stitchcuda.analysis.kernel.lanes import WARP, ZERO, Form, number
from stitchcuda.analysis.kernel.launches import constant
from stitchcuda.analysis.kernel.model import BarrierKind, Buffer, Mode, Uniformity
from stitchcuda.analysis.kernel.state import DEPTH, Binding, Frame, is_volatile
from stitchcuda.analysis.kernel.values import DATA, UNKNOWN, Cell, Closure, Location, Place, Value, is_float
from stitchcuda.analysis.order.timeline import Mode as HostMode
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.known_calls import ACCESSES, IDENTITIES, PRODUCTS, bare, is_atomic

_ASYNC_COPY = frozenset({"__pipeline_memcpy_async"})
_OPERAND = re.compile(rb"\"[^\"]*\"\s*\(\s*([A-Za-z_]\w*)\s*\)")
_CONSTRAINED = re.compile(rb"\"[^\"]*\"\s*\(\s*(\w*)\s*\)")
_REFERENCES = frozenset({"__cvta_generic_to_shared", "addressof", "__cvta_shared_to_generic", "launder"})


class Calls(GroupCalls, ABC):
    @abstractmethod
    def statement(self, node: ir.Stmt) -> None: ...

    def call(self, node: ir.Call) -> Value:
        callee = node.callee
        if isinstance(callee, ir.Member):
            return self._method(node, callee)
        if isinstance(callee, ir.Lambda):
            closure = self.closure_of(callee)
            return self._closure(closure, node.args, [self.value(a) for a in node.args], node.span)
        if not isinstance(callee, ir.Name):
            return self._object(node, self.value(callee))
        name = bare(callee.name)
        found = self.find(callee.name)
        if found is not None:
            return self._object(node, self.load(found, callee.span) if not isinstance(found, tuple) else UNKNOWN)
        candidates = self.functions(callee.name, len(node.args))
        if not candidates:
            listed = self._listed(name, node)
            if listed is not None:
                return listed
        values = self._arguments(node, candidates)
        if candidates:
            return self._chosen_function(candidates, node, values, callee.template)
        return self._unknown_call(name, node, values)

    def _arguments(self, node: ir.Call, candidates: Sequence[ir.Function]) -> list[Value]:
        """What is passed: by reference nothing is read."""
        values = []
        for k, argument in enumerate(node.args):
            kept = [f.params[k].type.reference for f in candidates if k < len(f.params)]
            events, marks, held = len(self.events), len(self.marks), dict(self._written)
            values.append(self.value(argument))
            if kept and all(kept) and isinstance(argument, ir.Name | ir.Member):
                del self.events[events:], self.marks[marks:]
                self._written = held
        return values

    def call_location(self, node: ir.Call) -> tuple[Location, ...]:
        """Of a call that gives a reference: `tile(i, j)`, `*p`, `get<0>(x)`."""
        held = self.call(node)
        return tuple(held.places) if held.group is None else ()

    # ---------------------------------------------------------------------------------------------- functions with bodies

    def functions(self, name: str, count: int) -> list[ir.Function]:
        short = bare(name)
        uids = self.lookups.setdefault(short, self.program.by_name.get(short, ()))
        found = [self.program.functions[uid] for uid in uids]
        usable = [f for f in found if f.body is not None and f.space != "host" and f.space != "global"]
        owner = name.rpartition("::")[0].rpartition("::")[2]
        this = self.frame.function.record
        plain = [f for f in usable if not f.record or f.record == this or owner and bare(f.record) == owner]
        plain = [f for f in plain if _accepts(f, count)]
        if name.startswith("::"):  # `::min` is CUDA's own, whatever namespaces have one
            plain = [f for f in plain if f.qualified.rpartition("::")[0] == name.rpartition("::")[0].removeprefix("::")]
        path = self.frame.function.path
        here = [f for f in plain if f.path == path]
        if here:
            return here
        visible = self.program.visible.get(path, frozenset())
        return [f for f in plain if f.path in visible] or plain

    def _methods(self, type_name: str, name: str, count: int) -> list[ir.Function]:
        record = bare(type_name)
        uids = self.lookups.setdefault(name, self.program.by_name.get(name, ())) if record else ()
        found = [self.program.functions[uid] for uid in uids]
        return [f for f in found if f.body is not None and bare(f.record) == record and _accepts(f, count)]

    def _chosen_function(
        self,
        candidates: list[ir.Function],
        node: ir.Call,
        values: list[Value],
        template: Sequence[ir.Expr | ir.TypeRef],
        this: tuple[Location, ...] = (),
    ) -> Value:
        """Overloads are told apart by their parameters' types where the arguments' are known; else the first stands for
        all, but what it does to memory is not certain."""
        if len(candidates) > 1:
            candidates = [f for f in candidates if _fits(f, values)] or candidates
        return self.inline(candidates[0], node.args, values, template, this, node.span)

    def inline(
        self,
        function: ir.Function,
        args: Sequence[ir.Expr],
        values: list[Value],
        template: Sequence[ir.Expr | ir.TypeRef],
        this: tuple[Location, ...],
        span: ir.Span,
    ) -> Value:
        self.visited.add(function.uid)
        self.reach(function)
        if len(self.frames) > DEPTH or any(f.function.uid == function.uid for f in self.frames):
            # recursion, or a type of the same name (`typedef cub::BlockReduce<..> BlockReduce;` in `BlockReduce`)
            if self._may_meet(function) or any(self.in_shared_memory(p) for v in values for p in v.places):
                self.barrier(BarrierKind.NAMED, function.name, span)
            return DATA
        bindings = self._template(function, template)
        scope: dict[str, Binding] = {}
        for k, param in enumerate(function.params):
            value = values[k] if k < len(values) else UNKNOWN
            if param.type.reference and k < len(args):
                found = self._quiet_locations(args[k])
                if found:
                    scope[param.name] = found if len(found) > 1 else found[0]
                    self._bind_dims(bindings, param.type, found)
                    continue
                if value.places and param.type.dims:
                    scope[param.name] = tuple(value.places)
                    continue
            if k >= len(values) and param.default is not None:
                value = self.value(param.default)
            scope[param.name] = cell = self.new_cell(self.resolved(param.type))
            if param.type.dims and value.places:
                cell.type = replace(cell.type, pointer=cell.type.pointer + 1, dims=())
            given = self._as_declared(value, param.type)
            if given.places and is_volatile(self.text(param.span, function)):
                given = replace(given, places=tuple(replace(p, volatile=True) for p in given.places))
            self.assign(cell, given)
        site = self.site(span)
        texts = dict(zip(function.template, map(self._as_given, template), strict=False))
        frame = Frame(function, [scope], this, bindings, guards=len(self.guards), given=texts)
        self.frames.append(frame)
        self.calls.append(site)
        entered = self.active
        try:
            assert function.body is not None
            if function.initializers and this:
                for member, init in function.initializers:
                    inner = self.member(this[0], member)
                    if inner is not None:
                        self.store(inner, self.value(init), span)
            self.statement(function.body)
        finally:
            self.calls.pop()
            self.frames.pop()
            del self.guards[frame.guards :]
            self.active = entered
        return frame.returned or UNKNOWN

    def _as_given(self, argument: ir.Expr | ir.TypeRef) -> str:
        if isinstance(argument, ir.Name | ir.TypeRef):
            return self.frame.given.get(argument.name, argument.name)
        return str(argument.value) if isinstance(argument, ir.Const) else str(argument)

    def _template(self, function: ir.Function, given: Sequence[ir.Expr | ir.TypeRef]) -> dict[str, Form | ir.TypeRef]:
        out: dict[str, Form | ir.TypeRef] = {}
        for name, argument in zip(function.template, given, strict=False):
            if isinstance(argument, ir.TypeRef):
                named = self.frame.bindings.get(argument.name) or self._counted(argument)
                out[name] = named if isinstance(named, Form) else self.resolved(argument)
                continue
            value = self.value(argument)
            if isinstance(argument, ir.Name) and value.number is not None and argument.name in value.number.symbols:
                out[name] = self.resolved(ir.TypeRef(argument.name))
            elif value.number is not None:
                out[name] = value.number
        return out

    def _counted(self, argument: ir.TypeRef) -> Form | None:
        """The number behind what reads like a type: `scan<THREADS>(..)`."""
        name = argument.name
        if argument.pointer or argument.args:
            return None
        if not isinstance(self.find(name), Cell) and constant(self.program, self.frame.function.path, name) is None:
            return None
        number = self.value(ir.Name((0, 0), name)).number
        return number if number is not None and number.constant is not None else None

    def _bind_dims(self, bindings: dict[str, Form | ir.TypeRef], type_: ir.TypeRef, found: Sequence[Location]) -> None:
        """`template <int N> f(float (&a)[N])`."""
        first = found[0]
        dims = first.dims if isinstance(first, Place | Cell) else ()
        for written, actual in zip(type_.dims, dims, strict=False):
            if isinstance(written, ir.Name):
                bindings.setdefault(written.name, actual)

    def _quiet_locations(self, node: ir.Expr) -> tuple[Location, ...]:
        """Without the accesses: they were recorded when the argument's value was taken."""
        before, marks, held = len(self.events), len(self.marks), dict(self._written)
        found = self.locations(node) if isinstance(node, ir.Name | ir.Member | ir.Index | ir.Deref) else ()
        del self.events[before:]
        del self.marks[marks:]
        self._written = held
        return found

    def _as_declared(self, value: Value, type_: ir.TypeRef) -> Value:
        """A pointer seen through the type of the variable that takes it."""
        if value.number is not None and is_float(self.type_name(type_)) and not type_.pointer:
            return Value(spread=self.spread_of(value))
        if not type_.pointer and not type_.dims or type_.name in ("auto", "void") or not value.places:
            return value
        element = self.type_name(replace(type_, pointer=type_.pointer or 1, dims=()))
        if not element:
            return value
        dims = self.dims(replace(type_, dims=type_.dims[1:])) if len(type_.dims) > 1 else None
        return replace(
            value,
            places=tuple(
                replace(p, element=element, dims=dims if dims is not None else () if p.element != element else p.dims)
                for p in value.places
            ),
        )

    def _closure(self, closure: Closure, args: Sequence[ir.Expr], values: list[Value], span: ir.Span) -> Value:
        if len(self.frames) > DEPTH:
            return DATA
        bindings = dict(closure.bindings)
        scope: dict[str, Binding] = {}
        for k, param in enumerate(closure.function.params):
            if param.type.reference and k < len(args) and (found := self._quiet_locations(args[k])):
                scope[param.name] = found if len(found) > 1 else found[0]
                continue
            scope[param.name] = cell = self.new_cell(self.resolved(param.type))
            self.assign(cell, self._as_declared(values[k] if k < len(values) else UNKNOWN, param.type))
        frame = Frame(closure.owner, [*closure.scopes, scope], closure.this, bindings, guards=len(self.guards))
        self.calls.append(self.site(span))
        self.frames.append(frame)
        entered = self.active
        try:
            self.statement(closure.function.body)
        finally:
            self.calls.pop()
            self.frames.pop()
            del self.guards[frame.guards :]
            self.active = entered
        return frame.returned or UNKNOWN

    # ------------------------------------------------------------------------------------------------- objects and methods

    def _object(self, node: ir.Call, held: Value) -> Value:
        """A call of a variable: a lambda, a functor, a function pointer, or an array that a macro indexes."""
        values = [self.value(a) for a in node.args]
        if held.closure is not None:
            return self._closure(held.closure, node.args, values, node.span)
        if held.function:
            candidates = self.functions(held.function, len(node.args))
            if candidates:
                return self._chosen_function(candidates, node, values, ())
        owner: tuple[Location, ...] = ()
        if isinstance(node.callee, ir.Name):
            found = self.locations(node.callee)
            owner = found
        if owner and isinstance(owner[0], Cell):
            methods = self._methods(owner[0].type.name, "operator()", len(node.args))
            if methods:
                return self._chosen_function(methods, node, values, (), owner)
        if isinstance(node.callee, ir.Construct):
            methods = self._methods(node.callee.type.name, "operator()", len(node.args))
            if methods:
                return self._chosen_function(methods, node, values, (), (Cell(node.callee.type, UNKNOWN, self.active),))
        if held.places:
            return Value(places=tuple(replace(p, offset=None) for p in held.places))
        return self._unknown_call("", node, values)

    def _method(self, node: ir.Call, callee: ir.Member) -> Value:
        storage = self.block_storage(callee.base)
        if storage:
            values = [self.value(a) for a in node.args]
            self.block_call(storage[0], callee.name, node.span)
            return replace(self._escaped(values, bool(node.args)), spread=Uniformity.DATA)
        owners = self.locations(callee.base)
        if not owners:
            held = self.value(callee.base)
        elif len(owners) == 1 and isinstance(owners[0], Cell):
            held = owners[0].value
        else:
            held = UNKNOWN
        if held.group is not None:
            return self.group_call(held.group, callee, node)
        values = [self.value(a) for a in node.args]
        type_name = ""
        if owners:
            first = owners[0]
            type_name = first.type.name if isinstance(first, Cell) else first.element
            if bound := self.frame.bindings.get(type_name):
                type_name = bound.name if isinstance(bound, ir.TypeRef) else type_name
        if "atomic" in type_name:
            return self._atomic_object(callee, node, owners, held, values)
        methods = self._methods(type_name, callee.name, len(node.args)) if type_name else []
        if methods:
            return self._chosen_function(methods, node, values, callee.template, owners)
        by_type = self.typed_group(type_name)
        if by_type is not None:
            return self.group_call(by_type, callee, node)
        shared = any(isinstance(x, Place) and self.in_shared_memory(x) for x in owners)
        if shared or any(self.in_shared_memory(p) for p in held.places):
            return self._may_synchronise(callee.name, node, [*values, held])
        return self._unknown_call(callee.name, node, [*values, held])

    def _atomic_object(
        self, callee: ir.Member, node: ir.Call, owners: tuple[Location, ...], held: Value, values: list[Value]
    ) -> Value:
        places = [x for x in owners if isinstance(x, Place)] or list(held.places)
        for place in places:
            self.access(replace(place, dims=()), Mode.ATOMIC, node.span, several=len(places) > 1, atomic=callee.name)
        return Value(self.math.fresh("~"), spread=Uniformity.DATA)

    def overloaded(self, owner: Location, name: str, args: Sequence[ir.Expr], span: ir.Span) -> Value | None:
        type_name = owner.type.name if isinstance(owner, Cell) else owner.element
        methods = self._methods(type_name, name, len(args))
        if not methods:
            return None
        values = [self.value(a) for a in args]
        return self.inline(methods[0], args, values, (), (owner,), span)

    def construct(self, type_: ir.TypeRef, args: Sequence[ir.Expr], span: ir.Span) -> Value:
        values = [self.value(a) for a in args]
        group = self.typed_group(type_.name)
        if group is not None:
            return Value(group=group)
        made = Cell(self.resolved(type_), UNKNOWN, self.active)
        methods = self._methods(type_.name, bare(type_.name), len(args)) if args else []
        if methods:
            self.inline(methods[0], args, values, (), (made,), span)
            return Value(record=made)
        if "atomic_ref" in type_.name:
            found = self._quiet_locations(args[0]) if args else ()
            return Value(places=tuple(x for x in found if isinstance(x, Place)))
        record = self.program.records.get(type_.name)
        if record is not None:
            for declared, value in zip(record.fields, values, strict=False):
                inner = self.member(made, declared.name)
                if isinstance(inner, Cell):
                    self.assign(inner, value)
            return Value(record=made)
        return self._escaped(values)

    # --------------------------------------------------------------------------------------------------- CUDA's functions

    def _listed(self, name: str, node: ir.Call) -> Value | None:
        if name in known.MEETINGS:
            return self._meeting(name, node)
        if name in known.FENCES:
            self.barrier(BarrierKind.FENCE, name, node.span, scope=known.FENCES[name])
            return UNKNOWN
        if name in known.COMMITS:
            self.barrier(BarrierKind.COMMIT, name, node.span)
            return UNKNOWN
        if name in known.WAITS:
            left = self.value(node.args[0]).number if node.args else ZERO
            self.barrier(BarrierKind.WAIT, name, node.span, pending=left.constant if left is not None else None)
            return UNKNOWN
        if is_atomic(name):
            return self._atomic(name, node)
        if name in _ASYNC_COPY:
            return self._async_copy(node)
        grouped = self.group_function(name, node)
        if grouped is not None:
            return grouped
        if name in PRODUCTS and len(node.args) == 2:
            return self.operate("*", self.value(node.args[0]), self.value(node.args[1]))
        if (name in ("min", "max", "umin", "umax") or name in ("imin", "imax")) and len(node.args) == 2:
            both = [self.value(node.args[0]), self.value(node.args[1])]
            a, b = both[0].number, both[1].number
            if a is not None and b is not None:
                return Value(self.math.least_and_most(name[-3:], a, b))
            return self.combined(both)
        if name in _REFERENCES or node.args and (name in IDENTITIES or f"std::{name}" in IDENTITIES):
            return self.value(node.args[0]) if node.args else UNKNOWN
        if name in ACCESSES:
            values = [self.value(a) for a in node.args]
            self._accesses(name, node, values)
            return self._result_of_load(values) if len(ACCESSES[name]) == 1 else UNKNOWN
        if name in known.PLACES:
            op, by = known.PLACES[name]
            return Value(self.math.binary(op, self.coordinates.get("threadIdx.x") or ZERO, number(by)))
        if name in known.THREAD_RESULTS:
            return Value(self.math.fresh("~"), spread=Uniformity.DATA)
        return None

    def _result_of_load(self, values: list[Value]) -> Value:
        for value in values:
            for place in value.places:
                if isinstance(place.target, Buffer):
                    return self._loaded(replace(place, dims=()))
        return self.unseen()

    def _accesses(self, name: str, node: ir.Call, values: list[Value]) -> None:
        whole = name in ("memcpy", "memmove", "memset") or "matrix_sync" in name
        for position, mode in ACCESSES[name]:
            places = values[position].places if position < len(values) else ()
            for place in places:
                if isinstance(place.target, Cell):
                    inner = self.element_cell(place)
                    if mode is not HostMode.READ and inner is not None:
                        self.assign(inner, DATA)
                    continue
                if whole:
                    place = replace(place, offset=None)
                what = Mode.READ if mode is HostMode.READ else Mode.WRITE
                self.access(replace(place, dims=()), what, node.span, several=len(places) > 1)

    def _meeting(self, name: str, node: ir.Call) -> Value:
        meeting = known.MEETINGS[name]
        values = [self.value(a) for a in node.args]
        mask = values[meeting.mask].number if 0 <= meeting.mask < len(values) else None
        kind = meeting.kind
        width = 32 if kind in (BarrierKind.WARP, BarrierKind.COLLECTIVE) else 0
        if kind is BarrierKind.NAMED and values and values[0].number == ZERO and len(values) == 1:
            kind = BarrierKind.BLOCK
        self.barrier(kind, name, node.span, width=width, mask=mask, mask_written=0 <= meeting.mask < len(values))
        if kind is BarrierKind.BLOCK:
            return Value(self.math.fresh("u"))
        if meeting.uniform:
            return Value(self.math.fresh("^" if self.width > 32 else "u"), spread=Uniformity.WARP)
        if not name.startswith("__shfl"):
            return Value(self.math.fresh("~"), spread=Uniformity.DATA)
        return self._shuffled(name, values[meeting.mask + 1 :])

    def _shuffled(self, name: str, values: list[Value]) -> Value:
        """What a shuffle gives: `values` are the variable, the lane or distance, and the width."""
        data = values[0] if values else UNKNOWN
        number = data.number
        if number is not None and number.same_on(self.active):
            return data
        lane = values[1].number if len(values) > 1 else None
        whole = len(values) < 3 or values[2].number is not None and values[2].number.constant == WARP
        if name in ("__shfl_sync", "__shfl") and whole and lane is not None and lane.same_on(self.active, WARP):
            given = self.unknown_number(Uniformity.WARP) if number is not None else None
            return Value(given, data.places, Uniformity.WARP)
        if number is None:
            return replace(DATA, places=data.places)
        return Value(self.math.fresh("~"), spread=Uniformity.DATA)

    def _atomic(self, name: str, node: ir.Call) -> Value:
        values = [self.value(a) for a in node.args]
        several = bool(values) and len(values[0].places) > 1
        for place in values[0].places if values else ():
            self.access(replace(place, dims=()), Mode.ATOMIC, node.span, several=several, atomic=name)
        return Value(self.math.fresh("~"), spread=Uniformity.DATA)

    def _async_copy(self, node: ir.Call) -> Value:
        values = [self.value(a) for a in node.args]
        count = values[2].number.constant if len(values) > 2 and values[2].number is not None else None
        self._copy(node.span, values[0].places if values else (), values[1].places if len(values) > 1 else (), count)
        return UNKNOWN

    def _copy(self, span: ir.Span, to: Sequence[Place], source: Sequence[Place], count: int | None) -> None:
        for place in source:
            self.access(replace(place, dims=()), Mode.READ, span, bytes=count, several=len(source) > 1)
        for place in to:
            mode = Mode.ASYNC_WRITE if self.in_shared_memory(place) else Mode.WRITE
            self.access(replace(place, dims=()), mode, span, bytes=count, several=len(to) > 1)

    def assembly(self, node: ir.Opaque) -> Value:
        texts = [p.value for p in node.children if isinstance(p, ir.Const) and isinstance(p.value, str)]
        text = " ".join(texts)
        kind = known.assembly_barrier(text)
        operands = [self.value(p) for p in node.children if not isinstance(p, ir.Const)]
        raw = self.text(node.span)
        for name in _OPERAND.findall(raw):
            found = self.find(name.decode(errors="replace"))
            if isinstance(found, Cell):
                operands.append(found.value)
        if kind is not None:
            width = 32 if kind is BarrierKind.WARP else 0
            pending = known.waits_for(text) if kind is BarrierKind.WAIT else 0
            if pending is None and (position := known.operand_of_wait(text)) is not None:
                pending = self._assembly_constant(node, raw, position)
            self.barrier(kind, "asm", node.span, width=width, pending=pending)
        shared = [p for v in operands for p in v.places if self.in_shared_memory(p)]
        if "cp.async" in text and "shared" in text and kind is None:
            match = re.search(r",\s*(\d{1,9})\s*[;,]", text)
            if "bulk" not in text:
                self._copy(node.span, shared[:1], (), int(match[1]) if match else None)
        elif shared and re.search(r"\b(ldmatrix|ld\.shared|ld\.volatile)", text):
            for place in shared:
                self.access(replace(place, dims=()), Mode.READ, node.span)
        elif re.search(r"\b(atom|red)\.", text):
            for place in (p for v in operands for p in v.places):
                self.access(replace(place, dims=()), Mode.ATOMIC, node.span, atomic="asm")
        for name in re.findall(rb"\"[=+][^\"]*\"\s*\(\s*([A-Za-z_]\w*)\s*\)", raw):
            found = self.find(name.decode(errors="replace"))
            if isinstance(found, Cell):
                if "%laneid" in text:
                    self.assign(found, Value(self.math.binary("%", self.linear, number(32))))
                else:
                    self.assign(found, Value(self.math.fresh("~"), spread=Uniformity.DATA))
        return DATA

    def _assembly_constant(self, node: ir.Opaque, raw: bytes, position: int) -> int | None:
        """An operand of inline PTX that is one name or number: `"n"(N)`."""
        written = _CONSTRAINED.findall(raw)
        if position >= len(written):
            return None
        text = written[position].decode(errors="replace")
        if text.isascii() and text.isdecimal() and len(text) < 10:
            return int(text)
        value = self.value(ir.Name(node.span, text)).number
        return value.constant if value is not None else None

    # ---------------------------------------------------------------------------------------------------- unknown functions

    def _unknown_call(self, name: str, node: ir.Call, values: list[Value]) -> Value:
        handed = any(self.in_shared_memory(p) for v in values for p in v.places)
        spoken = bool(name) and known.SYNCHRONISING.search(name) is not None and not name.startswith("__shfl")
        declared = name and any(
            self.program.functions[uid].space in ("device", "host_device")
            for uid in self.program.declarations.get(name, ())
        )
        if name not in known.NO_BARRIER and (handed or spoken or declared):
            return self._may_synchronise(name, node, values)
        return self._escaped(values, bool(node.args))

    def _may_synchronise(self, name: str, node: ir.Call, values: list[Value]) -> Value:
        """Nothing is known about the order of threads after it."""
        self.barrier(BarrierKind.NAMED, name, node.span)
        return replace(self._escaped(values, bool(node.args)), spread=Uniformity.DATA)

    def _escaped(self, values: list[Value], arguments: bool = True) -> Value:
        """The result of code that is not known; variables whose address it was given may have changed."""
        for value in values:
            for place in value.places:
                if isinstance(place.target, Cell):
                    inner = self.element_cell(place)
                    if inner is not None and not inner.fields:
                        self.assign(inner, Value(self.math.fresh("~"), spread=Uniformity.DATA))
        if not arguments:
            return self.unseen()
        spread = self.combined(values).spread
        return Value(self.unknown_number(spread, *values), spread=spread)

    def _may_meet(self, function: ir.Function) -> bool:
        assert function.body is not None
        return any(
            isinstance(n, ir.Call) and isinstance(n.callee, ir.Name) and known.SYNCHRONISING.search(n.callee.name)
            for n in ir.walk(function.body)
        )


def _fits(function: ir.Function, values: list[Value]) -> bool:
    """Whether values may be given to the parameters of an overload."""
    return all(_taken(p, v, function.template) for p, v in zip(function.params, values, strict=False))


def _taken(param: ir.Param, value: Value, template: tuple[str, ...]) -> bool:
    name, pointer = param.type.name, bool(param.type.pointer or param.type.dims)
    if not pointer:
        held = bool(value.places) and value.number is None and not param.type.reference
        return not held or name in (*template, "auto")
    if value.places:
        return name in (*template, "void") or any(not p.element or p.element == name for p in value.places)
    return value.number is None or value.number == ZERO


def _accepts(function: ir.Function, count: int) -> bool:
    required = sum(1 for p in function.params if p.default is None)
    return required <= count <= len(function.params)
