"""Arrays and containers of objects that make something when they are constructed: streams, events, buffers."""

from __future__ import annotations

from functools import cached_property

from stitchcuda.analysis.order.host.construction import Construction
from stitchcuda.analysis.order.host.names import plain
from stitchcuda.analysis.order.host.places import GAP, pointee_of_container
from stitchcuda.analysis.order.recorder import LoopFrame
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ONE, ZERO, Poly, number, symbol
from stitchcuda.analysis.order.values import Instance, Num, Place, Pointer, Value, pointee
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Function, Span, TypeRef


class Elements(Construction):
    """Layer of the executor: elements are constructed as a loop would do it, each with its index."""

    def _new(self, expr: ir.New, state: State) -> Value:
        """The elements of `new T[n]` are constructed, too; `new T` of a class with an `operator new` of its own runs that."""
        own = self._allocator_of(expr.type, "operatornew") if expr.count is None else None
        if own is not None:
            return self._new_by(own, expr, state)
        made = super()._new(expr, state)
        if expr.count is not None and isinstance(made, Pointer):
            array = self.objects[made.place.object]
            count = Num(array.count) if array.count is not None else None
            self.construct_elements(made.place, array.type, count, state, expr.span)
        return made

    def _new_by(self, own: Function, expr: ir.New, state: State) -> Value:
        type = self.bound_type(expr.type) or expr.type
        size = ir.SizeOf(expr.span, type, None)
        memory = self.joined(self.enter(own, None, (size,), (), expr.span, state), state)
        if not isinstance(memory, Pointer):
            return memory
        place = Place(memory.place.object)
        self.objects[place.object].type = type
        self.construct(place, type, expr.args, state, expr.span)
        element = self.size(type)
        return Pointer(place, False, ZERO, element.constant if element is not None else None)

    def _allocator_of(self, type: TypeRef, name: str) -> Function | None:
        """An `operator new` or `delete` with CUDA in it, of a class or of one of its bases."""
        record = self.names.record(self.names.resolve(self.bound_type(type) or type))
        for _ in range(4):
            if record is None:
                return None
            for function in self._methods(record.name, name, 1):
                if function.body is not None and function.uid in self.program.reaches_cuda:
                    return function
            record = self.names.record(TypeRef(record.bases[0])) if record.bases else None
        return None

    def _delete(self, expr: ir.Delete, state: State) -> Value:
        own = self._own_delete(expr, state) if not expr.array else None
        if own is not None:
            self.delete(self.evaluate(expr.operand, state), False, expr.span, state)
            self.joined(self.enter(own, None, (expr.operand,), (), expr.span, state), state)
            return Num(ZERO)
        if expr.array:
            held = self.evaluate(expr.operand, state)
            if isinstance(held, Pointer) and held.place.object in self._with_elements:
                type = self.objects[held.place.object].type
                record = self.owns_objects(type) if type is not None else None
                if record is not None:
                    self._destroy_elements(Place(held.place.object), record, state, expr.span)
        return super()._delete(expr, state)

    def _own_delete(self, expr: ir.Delete, state: State) -> Function | None:
        held = self.evaluate(expr.operand, state)
        type = self.objects[held.place.object].type if isinstance(held, Pointer) else None
        return self._allocator_of(type, "operatordelete") if type is not None else None

    def construct_elements(
        self, place: Place, element: TypeRef | None, count: Value | None, state: State, span: Span
    ) -> None:
        record = self.owns_objects(element) if element is not None else None
        if record is None or element is None or not self._makes_something(record, set()):
            return
        self._with_elements.add(place.object)
        size = count.value.constant if isinstance(count, Num) else None
        for iteration, index in enumerate(self._indexes(size, span)):
            self.loop_stack.append(LoopFrame(-1, index, iteration, element=True))
            try:
                self.construct(place.element(index), element, (), state, span)
            finally:
                self.loop_stack.pop()

    def _destroy_elements(self, place: Place, record: ir.Record, state: State, span: Span) -> None:
        indexes = {path[0]: None for path, _ in state.below(place) if path and isinstance(path[0], Poly)}
        for index in reversed(list(indexes)):
            self.destroy_object(place.element(index), record, state, span)

    def destroy_contents(self, place: Place, type: TypeRef, state: State, span: Span) -> None:
        held = place.object
        if not type.dims:
            container = state.load(place)
            if not isinstance(container, Instance):
                return
            held = container.object
        element = pointee(type) if type.dims else pointee_of_container(type)
        record = self.owns_objects(element) if element is not None else None
        if record is not None and held in self._with_elements:
            self._destroy_elements(Place(held), record, state, span)

    def copy_container(self, state: State, source: int, target: int) -> None:
        self._with_elements.difference_update(
            (source, target)
        )  # which of the two owns what the elements hold is not known
        super().copy_container(state, source, target)

    @cached_property
    def _with_elements(self) -> set[int]:
        return set()

    def _indexes(self, size: int | None, span: Span) -> list[Poly]:
        """The elements that stand for all of them."""
        if size is not None and size <= self.options.unroll:
            return [number(k) for k in range(size)]
        key = (self.site(span), self.frame.calls, self.instance())
        number_ = self._arrays.setdefault(key, len(self._arrays))
        first = symbol(f"it@e{number_}")
        return [first, first + ONE + symbol(f"it{GAP}@e{number_}")]

    @cached_property
    def _arrays(self) -> dict[object, int]:
        return {}

    def _makes_something(self, record: ir.Record, seen: set[str]) -> bool:
        """Its default constructor, or that of a member, does something with the device."""
        if record.name in seen:
            return False
        seen.add(record.name)
        if any(f.uid in self.program.reaches_cuda for f in self._methods(record.name, plain(record.name), 0)):
            return True
        parts = [self.owns_objects(f.type) for f in record.fields]
        return any(part is not None and self._makes_something(part, seen) for part in parts)
