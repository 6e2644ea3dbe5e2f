"""Containers and smart pointers of the C++ standard library (and thrust's vectors): contents, sizes, element access."""

from __future__ import annotations

from stitchcuda.analysis.order.cuda.operations import Operations
from stitchcuda.analysis.order.host import aggregates, threads
from stitchcuda.analysis.order.host.names import CONTAINERS, NUMBERS, plain
from stitchcuda.analysis.order.host.places import pointee_of_container
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ONE, ZERO, Poly, number, symbol
from stitchcuda.analysis.order.timeline import Mode
from stitchcuda.analysis.order.values import SIZE, Instance, Num, Place, Pointer, Reference, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr, Span, TypeRef

# methods that change how many elements there are
ONE_MORE = frozenset({"push_back", "emplace_back", "append"})
RESIZES = ONE_MORE | frozenset(
    {
        "pop_back", "push_front", "emplace_front", "pop_front", "insert", "emplace", "erase", "resize", "assign", "clear",
        "swap", "extend", "pop", "remove",
    }
)  # fmt: skip


class Containers(Operations):
    """Layer of the executor: the C++ library's containers and smart pointers."""

    def start_thread(self, values: list[Value], ends: frozenset[str], span: Span, state: State) -> Value:
        """A host thread begins, which ends by a call of one of these methods; its result. A layer above does."""
        raise NotImplementedError

    def count_of(self, state: State, obj: int) -> Poly:
        held = state.load(Place(obj, (SIZE,)))
        if isinstance(held, Num):
            return held.value
        known = self.objects[obj].count
        return known if known is not None else symbol(f"{self.objects[obj].name}.size@{obj}")

    def set_count(self, state: State, obj: int, count: Poly) -> None:
        state.store(Place(obj, (SIZE,)), Num(count))
        target = self.objects[obj]
        element = self.size(pointee_of_container(target.type))
        if element is not None and target.buffer is None:
            target.size = count * element

    def fill_container(self, state: State, instance: Instance, args: tuple[Expr, ...], span: Span) -> None:
        """`vector(n)`, `vector(n, value)`, `vector{a, b}`, `vector(first, last)`, `vector(other)`."""
        obj = instance.object
        if len(args) == 1 and isinstance(args[0], ir.InitList):
            args = self.expanded(args[0].items)
            listed = True
        else:
            listed = False
        element = self.names.resolve(pointee_of_container(self.objects[obj].type))
        parts = self.names.record(element) is not None or aggregates.is_aggregate(element)
        if listed and element is not None and parts and all(isinstance(a, ir.InitList) for a in args):
            for k, item in enumerate(args):
                self.construct(Place(obj, (number(k),)), element, (item,), state, span)
            self.set_count(state, obj, number(len(args)))
            return
        values = [self.evaluate(a, state) for a in args]
        listed = listed and _are_elements(values, element)
        if not values:
            type = self.objects[obj].type
            if type is None or plain(type.name) != "array":  # std::array has its elements from the start
                self.set_count(state, obj, ZERO)
            return
        if listed:
            for k, value in enumerate(values):
                self.store_value(state, Place(obj, (number(k),)), value)
            self.set_count(state, obj, number(len(values)))
            return
        first = values[0]
        if isinstance(first, Instance):
            self.copy_container(state, first.object, obj)
            return
        if isinstance(first, Pointer):
            self.read_through(state, first, span)
            self.set_count(state, obj, symbol(self.fresh("count")))
            return
        count = first.value if isinstance(first, Num) else symbol(self.fresh("count"))
        self.set_count(state, obj, count)

    def copy_container(self, state: State, source: int, target: int) -> None:
        if source == target:
            return
        if self.objects[source].memory != self.objects[target].memory:
            self.machine.may_have_waited(state.order)  # thrust copies between host and device
        state.clear_below(Place(target))
        state.copy_below(Place(source), Place(target))
        self.set_count(state, target, self.count_of(state, source))

    def read_through(self, state: State, pointer: Pointer, span: Span, modes: tuple[Mode, ...] = (Mode.READ,)) -> None:
        """The host walks over what a pointer points to."""
        obj = self.objects[pointer.place.object]
        if self.visible_to_device(state, obj):
            for mode in modes:
                self.host_access(state, obj.id, mode, span)

    def container_method(
        self, state: State, instance: Instance, name: str, args: tuple[Expr, ...], span: Span
    ) -> Value | None:
        """None when the method is not a container's."""
        obj = instance.object
        match name:
            case "data" | "begin" | "cbegin":
                return self._at(obj, ZERO)
            case "end" | "cend":
                return self._at(obj, self.count_of(state, obj))
            case "size" | "length":
                return Num(self.count_of(state, obj))
            case "empty":
                from_size = self.count_of(state, obj)
                if from_size.constant is not None:
                    return Num(ONE if from_size.constant == 0 else ZERO)
                return Unknown(f"{from_size}.empty")
            case "at" | "operator[]":
                index = self.evaluate(args[0], state) if args else Num(ZERO)
                step = index.value if isinstance(index, Num) else symbol(self.fresh("any"))
                return Reference(self.follow(state, Place(obj, (step,))))
            case "front":
                return Reference(self.follow(state, Place(obj, (ZERO,))))
            case "back":
                return Reference(self.follow(state, Place(obj, (self.count_of(state, obj) - ONE,))))
            case "push_back" | "emplace_back" | "append":
                self._push(state, obj, name, args, span)
                return Num(ZERO)
            case "resize" | "assign":
                values = [self.evaluate(a, state) for a in args]
                count = values[0].value if values and isinstance(values[0], Num) else symbol(self.fresh("count"))
                self.set_count(state, obj, count)
                return Num(ZERO)
            case "reserve" | "shrink_to_fit" | "fill":
                for a in args:
                    self.evaluate(a, state)
                return Num(ZERO)
            case "clear":
                state.clear_below(Place(obj))
                self.set_count(state, obj, ZERO)
                return Num(ZERO)
            case "pop_front" | "erase" | "push_front" | "emplace_front" | "insert" | "emplace":
                values = [self.evaluate(a, state) for a in args]
                self._moved_up(state, obj, name, values)
                return Unknown(self.fresh(name))
            case "pop_back":
                self.set_count(state, obj, self.count_of(state, obj) - ONE)
                return Num(ZERO)
            case "swap" if len(args) == 1:
                self._exchanged(state, obj, self.evaluate(args[0], state))
                return Num(ZERO)
        return None

    def _exchanged(self, state: State, obj: int, other: Value) -> None:
        """Two containers exchange what they hold."""
        if not isinstance(other, Instance):
            state.clear_below(Place(obj))
            self.set_count(state, obj, symbol(self.fresh("count")))
            return
        mine, count = list(state.below(Place(obj))), self.count_of(state, obj)
        self.copy_container(state, other.object, obj)
        state.clear_below(Place(other.object))
        for path, value in mine:
            state.store(Place(other.object, path), value)
        self.set_count(state, other.object, count)

    def _moved_up(self, state: State, obj: int, name: str, values: list[Value]) -> None:
        """The elements behind one that is taken out or put in have other indexes: known ones where one is taken out at a
        known place, and otherwise nobody knows."""
        first = values[0] if values else None
        gone = 0 if name == "pop_front" else None
        if name == "erase" and len(values) == 1 and isinstance(first, Pointer) and first.place == Place(obj):
            gone = first.index.constant if first.index is not None else None
        less = name in ("pop_front", "erase")
        count = self.count_of(state, obj) - ONE if less else self.count_of(state, obj) + ONE
        held = [(path, value) for path, value in state.below(Place(obj)) if path and path[0] != SIZE]
        state.clear_below(Place(obj))
        known = gone is not None and all(isinstance(p[0], Poly) and p[0].constant is not None for p, _ in held)
        for path, value in held if known else ():
            step = path[0]
            at = step.constant if isinstance(step, Poly) else None
            if at is not None and gone is not None and at != gone:
                state.store(Place(obj, (number(at - 1 if at > gone else at), *path[1:])), value)
        self.set_count(state, obj, count if known else symbol(self.fresh("count")))

    def _at(self, obj: int, index: Poly) -> Pointer:
        element = self.size(pointee_of_container(self.objects[obj].type))
        return Pointer(Place(obj), True, index, element.constant if element is not None else None)

    def _push(self, state: State, obj: int, name: str, args: tuple[Expr, ...], span: Span) -> None:
        """Appends: in a loop the new element's index is the loop's, so that later loops find it by theirs."""
        count = self.count_of(state, obj)
        index = count
        if self.loop_stack and count.constant is None:
            index = self.loop_stack[-1].index
        place = Place(obj, (index,))
        element = self.names.resolve(pointee_of_container(self.objects[obj].type))
        nested = element is not None and not element.pointer and plain(element.name) in CONTAINERS
        record = self.names.record(element) is not None or aggregates.is_aggregate(element)
        listed = len(args) == 1 and isinstance(args[0], ir.InitList)
        if element is not None and (nested or record) and (name == "emplace_back" or not args or listed):
            self.construct(place, element, args, state, span)
        elif name == "emplace_back" and threads.is_thread(element):
            self.start_thread([self.evaluate(a, state) for a in args], threads.JOINS, span, state)
        else:
            for a in args[:1]:
                value = self.evaluate(a, state)
                if isinstance(value, Instance) and nested and element is not None:  # a copy of its contents
                    self.read_through(state, Pointer(Place(value.object), True), span)
                    self.copy_container(state, value.object, self.container(state, place, element).object)
                else:
                    self.store_value(state, place, value, element)
            for a in args[1:]:
                self.evaluate(a, state)
        self.set_count(state, obj, count + ONE)

    def smart_pointer_method(self, state: State, place: Place, name: str, args: tuple[Expr, ...]) -> Value | None:
        held = state.load(place)
        match name:
            case "get" | "operator->":
                return held if held is not None else self.load(state, place)
            case "release":
                state.store(place, Num(ZERO))
                return held if held is not None else Unknown(self.fresh("released"))
            case "reset":
                values = [self.evaluate(a, state) for a in args]
                state.store(place, values[0] if values else Num(ZERO))
                return Num(ZERO)
        return None


def _are_elements(values: list[Value], element: TypeRef | None) -> bool:
    """What stands in braces are elements when they may be ones: not `std::vector<cudaStream_t>{n}`, `std::vector<int>{other}`."""
    if element is None:
        return True
    number_ = element.name in NUMBERS and not element.pointer
    if any(isinstance(v, Instance) for v in values) or (number_ and any(isinstance(v, Pointer) for v in values)):
        return False
    first = values[0] if values else None
    return number_ or not isinstance(first, Num) or first.value.constant == 0
