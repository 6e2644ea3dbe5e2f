"""Places: what variables, fields and elements hold, what they are made of, and which host accesses matter."""

from __future__ import annotations

from dataclasses import replace

from stitchcuda.analysis.order import arithmetic
from stitchcuda.analysis.order.cuda.clocks import Clocks
from stitchcuda.analysis.order.host import aggregates, allocators, statics
from stitchcuda.analysis.order.host.host_ranges import both
from stitchcuda.analysis.order.host.names import (
    CONTAINERS,
    DEVICE_CONTAINERS,
    EVENT_TYPES,
    MAPS,
    NUMBERS,
    SMART_POINTERS,
    STREAM_TYPES,
    Names,
    plain,
)
from stitchcuda.analysis.order.machine import same_stream
from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ZERO, Poly, equal, integer, number, symbol
from stitchcuda.analysis.order.timeline import Access, Memory, Mode, Range, Shape, StreamKind
from stitchcuda.analysis.order.values import (
    MAX_OPTIONS,
    Code,
    Either,
    Handle,
    Identity,
    Instance,
    Num,
    Object,
    Place,
    Pointer,
    Reference,
    Step,
    Struct,
    Unknown,
    Value,
    either,
    pointee,
    size_of,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind, Expr, Program, Span, TypeRef

GAP = "+"  # ends the name of the unknown distance between two iterations
ADDRESS = "CUdeviceptr"  # a number to C++, an address to everyone
ANYWHERE = Range()
MAX_TABLE = 24  # functions of a table that are told apart
COUNTS = NUMBERS - {"float", "double", "bool"}
HOST_VISIBLE = frozenset({Memory.PINNED.value, Memory.MANAGED.value, Memory.MAPPED.value})


class Places(Clocks):
    """Reads and writes the memory of a group of paths. Evaluation is left to the layer above."""

    def __init__(self, program: Program, options: Options) -> None:
        super().__init__(program, options)
        self.names = Names.of(program)
        self._globals_by_declaration: dict[tuple[int, str], Place] = {}
        self._record_sizes: dict[tuple[str, int], tuple[ir.Record, Poly]] = {}

    def evaluate(self, expr: Expr, state: State) -> Value:
        raise NotImplementedError

    def size(self, type: TypeRef | None, depth: int = 0) -> Poly | None:
        """Bytes of a type, records included (without padding); None when not known."""
        resolved = self.names.resolve(self.bound_type(type))
        if resolved is None or depth > 6:
            return None
        if resolved.dims:
            one = self.size(pointee(resolved), depth + 1)
            first = resolved.dims[0]
            if one is None or first is None:
                return None
            count = self.evaluate(first, State())
            return one * count.value if isinstance(count, Num) else None
        plain_size = size_of(resolved)
        if plain_size is not None:
            return number(plain_size)
        record = self.names.record(resolved)
        if record is None or not record.fields:
            return None
        if self.frames and self.frames[-1].types:
            return self._size_of_record(record, depth)
        known = self._record_sizes.get((record.name, depth))
        if known is None or known[0] is not record:
            size = self._size_of_record(record, depth)
            literal = all(isinstance(d, ir.Const | None) for f in record.fields for d in f.type.dims)
            if not literal:
                return size
            known = self._record_sizes[record.name, depth] = (record, size)
        return known[1]

    def _size_of_record(self, record: ir.Record, depth: int) -> Poly:
        total = ZERO
        for declaration in record.fields:
            one = self.size(declaration.type, depth + 1)
            if one is None:
                return symbol(f"sizeof({record.name})")
            total = total + one
        return total

    def bound_type(self, type: TypeRef | None) -> TypeRef | None:
        """A type with the template parameters of the running call filled in."""
        if type is None or not self.frames or not self.frame.types:
            return type
        if type.name in self.frame.types:
            bound = self.frame.types[type.name]
            pointer, const, dims = bound.pointer + type.pointer, type.const or bound.const, type.dims or bound.dims
            return TypeRef(bound.name, bound.args, pointer, type.reference, const, dims)
        return statics.as_member(type, self.program, self.frame.function, self.frame.types)

    def cast(self, value: Value, type: TypeRef) -> Value:
        resolved = self.names.resolve(self.bound_type(type))
        if resolved is None or not resolved.pointer:
            return arithmetic.narrowed(value, resolved)
        if isinstance(value, Either):
            return Either(tuple(self.cast(option, resolved) for option in value.options))
        if not isinstance(value, Pointer):
            return value
        return self._object_behind(value, pointee(resolved)) or self.retype(value, pointee(resolved))

    def _object_behind(self, pointer: Pointer, target: TypeRef | None) -> Pointer | None:
        """`(Context*)user_data`: what an untyped pointer from outside leads to is the one object that it is cast to, when
        that is of a class with pointers or handles; plain numbers may as well be the elements of an array."""
        obj = self.objects[pointer.place.object]
        untyped = obj.type is None or (obj.type.name == "void" and not obj.type.pointer)
        if obj.identity.kind not in ("outside", "parameter") or pointer.place.path or not pointer.array:
            return None
        record = self.names.record(self.names.resolve(target)) if target is not None and not target.pointer else None
        if record is None or not (untyped or obj.type == target) or not any(_leads_on(f.type) for f in record.fields):
            return None
        obj.type = target
        return replace(pointer, array=False)

    def retype(self, pointer: Pointer, target: TypeRef | None) -> Pointer:
        """The pointer seen as one to elements of another type: its index is rescaled when the sizes allow it."""
        if target is None or (target.name == "void" and not target.pointer):
            return pointer
        size = self.size(target)
        new = size.constant if size is not None else None
        if new is None or new == pointer.element:
            return pointer
        index = pointer.index
        if pointer.element is not None and index is not None and index.terms:
            index = arithmetic.divide(index * number(pointer.element), number(new))
        return replace(pointer, element=new, index=index)

    def variable(self, name: str, template: tuple[Expr | TypeRef, ...] = ()) -> Place | None:
        """The place of a local variable, a member of `this`, a static member, or a global."""
        frame = self.frames[-1]
        for scope in reversed(frame.scopes):
            if name in scope:
                return scope[name]
        if frame.this is not None and (name == "this" or self._has_field(frame.this, name)):
            return frame.this if name == "this" else frame.this.field(name)
        found = self.names.global_seen_from(frame.function.path, name, frame.function.record)
        if found is None:
            return None
        which = statics.instantiation(found[1].name, template, self.program, frame.function, frame.types)
        return self._global(*found, which)

    def _has_field(self, place: Place, name: str) -> bool:
        record = self.names.record(self.names.resolve(self.type_of(place)))
        return record is not None and self.names.field_type(record, name) is not None

    def _global(self, path: str, declaration: ir.Declare, which: str = "") -> Place:
        key = (id(declaration), which)  # declarations of the program stay
        known = self._globals_by_declaration.get(key)
        if known is None:
            known = self._globals_by_declaration[key] = self._new_global(path, declaration, which)
        return known

    def _new_global(self, path: str, declaration: ir.Declare, which: str) -> Place:
        memory = {"device": Memory.SYMBOL, "constant": Memory.SYMBOL, "managed": Memory.MANAGED}.get(
            declaration.space, Memory.PAGEABLE
        )
        name = declaration.name + which
        identity = Identity("global", path, "", declaration.span[0], declaration.span[1], (), (), name)
        obj = self.object_for(
            identity, plain(declaration.name), type=declaration.type, origin="global", memory=memory,
            size=None if declaration.type.reference else self.size(declaration.type),
        )  # fmt: skip
        return Place(obj.id)

    def follow(self, state: State, place: Place) -> Place:
        """Through reference variables."""
        for _ in range(8):
            value = state.load(place)
            if not isinstance(value, Reference):
                return place
            place = value.place
        return place

    def place_of_value(self, value: Value) -> Place | None:
        match value:
            case Reference(place=place) | Struct(place=place):
                return place
            case Instance(object=obj):
                return Place(obj)
        return None

    def element_of(self, value: Value, index: Step, state: State) -> Place | None:
        if isinstance(index, str):  # a key, of a map
            return self.follow(state, Place(value.object, (index,))) if isinstance(value, Instance) else None
        match value:
            case Pointer(place=place, array=True, index=first):
                step = symbol(self.fresh("any")) if first is None else first + index
                return self.follow(state, place.element(step))
            case Pointer(place=place):
                return place if not index.terms else self.follow(state, place.element(index))
            case Instance(object=obj):
                return self.follow(state, Place(obj, (index,)))
            case Struct(place=place):
                return self.follow(state, place.element(index))
        return None

    def pointed(self, value: Value, state: State) -> Place | None:
        """`*value`."""
        match value:
            case Pointer():
                return self.element_of(value, ZERO, state)
            case Instance(object=obj):
                return Place(obj)
            case Reference(place=place) | Struct(place=place):
                return place
        return None

    def type_of(self, place: Place) -> TypeRef | None:
        """The declared type of what a place holds."""
        type = self.objects[place.object].type
        if type is not None and type.reference:
            type = TypeRef(type.name, type.args, type.pointer, False, type.const, type.dims)
        for position, step in enumerate(place.path):
            type = self.names.resolve(self.bound_type(type))
            if type is None:
                return None
            if isinstance(step, str):
                record = self.names.record(type)
                if record is None:
                    type = self._part_of(type, step)
                    continue
                field = self.names.field_type(record, step)
                if record.base_types and field is not None:
                    type, record = statics.declaring(type, record, step, self.program, self.names.record)
                whole = field is None or not (type.args or record.defaults)
                type = field if whole or field is None else self._as_given(record, field, type.args)
            elif type.dims or type.pointer:
                type = pointee(type)
            elif plain(type.name) in CONTAINERS | DEVICE_CONTAINERS and type.args:
                type = pointee_of_container(type)
            elif position == 0 and self.objects[place.object].identity.kind in ("new", "alloc", "outside"):
                continue  # the object's type is already that of its elements
            else:
                return None
        return type

    def _as_base(self, type: TypeRef | None, record: str) -> TypeRef | None:
        """The type of an object, seen as the base of it that a method belongs to."""
        own = self.names.record(TypeRef(type.name)) if type is not None else None
        if type is None or own is None or not record or not own.base_types or plain(own.name) == plain(record):
            return type
        return statics.as_base(type, lambda one: plain(one.name) == plain(record), self.program, self.names.record)

    def _part_of(self, type: TypeRef, name: str) -> TypeRef | None:
        """The type of a part of a pair, of what a map holds for a key."""
        if name.startswith("[") and plain(type.name) in MAPS:
            return pointee_of_container(type)
        return aggregates.part_type(type, name) if aggregates.is_aggregate(type) else None

    def _as_given(self, record: ir.Record, field: TypeRef, args: tuple[TypeRef, ...]) -> TypeRef:
        """The type of a field of a class template, for these arguments."""
        given = statics.arguments(record, statics.parameters_of(self.program, record), args)
        bound = given.get(field.name)
        if bound is None or not (field.pointer or field.dims):
            return field if bound is None else bound
        return replace(field, name=bound.name, args=bound.args, pointer=field.pointer + bound.pointer)

    def load(self, state: State, place: Place) -> Value:
        """What a place holds; made up on the spot when nothing was stored there."""
        value = state.load(place)
        if isinstance(value, Reference):
            place = self.follow(state, place)
            value = state.load(place)
        if value is not None:
            return value
        type = self.names.resolve(self.bound_type(self.type_of(place)))
        if type is not None and type.dims:
            size = self.size(pointee(type))
            return Pointer(place, True, ZERO, size.constant if size is not None else None)
        if (held := self._from_family(state, place)) is not None:
            return held
        whole = aggregates.is_aggregate(type) or self.names.record(type) is not None
        if whole or any(path for path, _ in state.below(place)):
            return Struct(place)
        return self._outside(state, place, type)

    def _from_family(self, state: State, place: Place) -> Value | None:
        """The value stored at another index of the same array, carried over to this index: what an earlier loop put at
        `a[i]` for every i stands, with i replaced, at `a[j]`."""
        entries = state.memory.get(place.object)
        if not entries or not any(isinstance(s, Poly) for s in place.path):
            return None
        fallback: Value | None = None
        others: list[Value] = []  # at constant indexes, while the one that is wanted is not known
        for path, value in reversed(entries.items()):  # what was stored last
            if len(path) != len(place.path):
                continue
            values = self._index_map(path, place.path)
            if values is None:
                continue
            if values:
                return self.substitute(value, values)
            fallback = fallback or self._generalised(path, place.path, value)
            others.append(value)
        if fallback is None and len(others) > MAX_OPTIONS and all(isinstance(o, Code) for o in others):
            return Either((*dict.fromkeys(others[-MAX_TABLE:]), *([Unknown("function")] if others[MAX_TABLE:] else [])))
        return fallback or (either(others) if others else None)

    @staticmethod
    def _index_map(stored: tuple[Step, ...], wanted: tuple[Step, ...]) -> dict[str, Poly] | None:
        """How to rename loop counters so that `stored` becomes `wanted`; {} when indexes differ in another way; None
        when they are different fields."""
        values: dict[str, Poly] = {}
        plainly = True
        for a, b in zip(stored, wanted, strict=True):
            if isinstance(a, str) or isinstance(b, str):
                if a != b:
                    return None
            elif a != b:
                if a.constant is not None:
                    if b.constant is not None:
                        return None
                    plainly = False
                elif equal(a, b) is False:
                    return None
                elif len(a.terms) == 1 and len(a.terms[0][0]) == 1 and a.terms[0][1] == 1:
                    values[a.terms[0][0][0]] = b
                else:
                    plainly = False
        return values if plainly else {}

    def _generalised(self, stored: tuple[Step, ...], wanted: tuple[Step, ...], value: Value) -> Value | None:
        """A value stored at constant index k and read at a symbolic one: when it was made in iteration k, it stands for
        the one made in iteration `wanted`."""
        constants = {
            a.constant: b
            for a, b in zip(stored, wanted, strict=True)
            if isinstance(a, Poly) and isinstance(b, Poly) and a.constant is not None and b.constant is None
        }
        if len(constants) != 1:
            return None
        ((k, index),) = constants.items()
        match value:
            case Handle() if (identity := self.handle_identity(value)) is not None:
                if any(p.constant == k for p in identity.instance):
                    moved = tuple(index if p.constant == k else p for p in identity.instance)
                    return self.twin_handle(value, replace(identity, instance=moved))
            case Pointer(place=place):
                obj = self.objects[place.object]
                if any(p.constant == k for p in obj.identity.instance):
                    moved = tuple(index if p.constant == k else p for p in obj.identity.instance)
                    twin = self.twin(obj, replace(obj.identity, instance=moved))
                    return replace(value, place=Place(twin.id, place.path))
        return None

    def display(self, place: Place) -> str:
        """A place in the user's words."""
        text = self.objects[place.object].name
        for step in place.path:
            text += (step if step.startswith("[") else f".{step}") if isinstance(step, str) else f"[{index_text(step)}]"
        return text

    def _outside(self, state: State, place: Place, type: TypeRef | None) -> Value:
        """The value of a variable that nothing in sight wrote. Parameters of an entry, fields of what they point to and
        globals come from outside; a local is just uninitialised."""
        obj = self.objects[place.object]
        name = self.display(place)
        outside = obj.origin in ("parameter", "global", "unknown") or obj.identity.kind in ("outside", "unknown")
        key = f"{name}@{place.object}"
        if type is not None and not type.pointer and not type.dims:
            if type.name in STREAM_TYPES and outside:
                identity = Identity("outside-stream", "", "", place.object, 0, (), (), name)
                made = Handle("stream", self.stream_for(identity, name, StreamKind.PARAMETER, None))
                state.store(place, made)
                return made
            if type.name in EVENT_TYPES and outside:
                identity = Identity("outside-event", "", "", place.object, 0, (), (), name)
                event = Handle("event", self.event_for(identity, name, None))
                state.store(place, event)
                return event
            if type.name == ADDRESS and outside:
                type = TypeRef("char", pointer=1)
            elif type.name in NUMBERS and type.name not in ("float", "double", "bool"):
                return Num(symbol(key))
            elif plain(type.name) in CONTAINERS | DEVICE_CONTAINERS:
                return self.container(state, place, type)
        if type is not None and type.pointer and not type.dims and obj.filled:
            memory_of_host = self.made_on_the_host(
                name, type, Identity("filled", "", "", place.object, 0, (), (), name)
            )
            state.store(place, memory_of_host)
            return memory_of_host
        if type is not None and outside and (type.pointer or plain(type.name) in SMART_POINTERS):
            target = pointee(type) if type.pointer else (type.args[0] if type.args else None)
            identity = Identity("outside", "", "", place.object, 0, (), (), name)
            memory = Memory.UNKNOWN
            behind = self.object_for(identity, name, type=target, origin="parameter", memory=memory)
            size = self.size(target)
            is_record = self.names.record(self.names.resolve(target)) is not None
            pointer = Pointer(Place(behind.id), not is_record, ZERO, size.constant if size is not None else None)
            state.store(place, pointer)
            return pointer
        return Unknown(key)

    def made_on_the_host(self, name: str, type: TypeRef, identity: Identity) -> Pointer:
        """What a pointer leads to that a host function of the program set without being looked into: host memory."""
        element = self.size(pointee(type))
        obj = self.object_for(identity, name, type=pointee(type), origin="alloc", memory=Memory.PAGEABLE)
        obj.filled = True
        return Pointer(Place(obj.id), True, ZERO, element.constant if element is not None else None)

    def container(self, state: State, place: Place, type: TypeRef, count: Poly | None = None) -> Instance:
        """The contents of a container variable, made on first sight."""
        obj = self.objects[place.object]
        extra = "".join(f".{s}" for s in place.path)
        on_device = plain(type.name) in DEVICE_CONTAINERS
        identity = replace(obj.identity, kind="container", extra=f"{obj.identity.kind}{obj.identity.extra}{extra}")
        if plain(type.name) == "array" and len(type.args) > 1 and count is None:
            count = self._array_count(type)
        element = self.size(pointee_of_container(type))
        made = self.object_for(
            identity,
            self.display(place),
            type=type,
            origin="local",
            memory=Memory.DEVICE if on_device else allocators.of_container(type, self.names),
            count=count or symbol(f"{self.display(place)}.size@{place.object}"),
        )
        if made.size is None and element is not None and made.count is not None:
            made.size = made.count * element
        value = Instance(made.id)
        self.containers[made.id] = place.object
        self.revive(state, ("memory", made.id, 0))
        state.store(place, value)
        return value

    def _array_count(self, type: TypeRef) -> Poly | None:
        name = type.args[1].name
        if (written := integer(name)) is not None:
            return number(written)
        value = self.evaluate(ir.Name((0, 0), name), State())
        return value.value if isinstance(value, Num) else None

    def store_value(self, state: State, place: Place, value: Value, type: TypeRef | None = None) -> None:
        """Assigns: records are copied, containers too, pointers take the element size of the variable's type."""
        type = self.names.resolve(self.bound_type(type or self.type_of(place)))
        match value:
            case Struct(place=source):
                if source != place:
                    self.objects[place.object].filled |= self.objects[source.object].filled
                    self.copy_record(state, source, place)
                return
            case Pointer() if type is not None and (type.pointer or plain(type.name) in SMART_POINTERS):
                value = self.retype(value, pointee(type) if type.pointer else (type.args[0] if type.args else None))
                self._name_after(value, place)
            case Either() if type is not None:
                value = self.cast(value, type)
            case Reference(place=target):
                value = self.load(state, target)
            case Unknown(key=key) if type is not None and not type.pointer and type.name in COUNTS:
                value = Num(symbol(key))  # an unknown whole number can still be compared and computed with
        if place.path == () or not isinstance(value, Struct):
            if self.names.record(type) is not None:
                state.clear_below(place)
            state.store(place, value)

    def awaits_name(self, obj: Object, stand_in: str) -> None:
        """An allocation that is an expression (`malloc`, `new`) is called `stand_in` until a variable holds it."""
        if obj.name == stand_in:
            obj.named_at = len(self.frame.calls) + 1

    def _name_after(self, pointer: Pointer, place: Place) -> None:
        """An allocation made by a helper is known by the variable that its caller keeps it in."""
        obj = self.objects[pointer.place.object]
        depth = len(self.frame.calls)
        if obj.origin == "alloc" and depth < obj.named_at and pointer.index == ZERO and not pointer.place.path:
            obj.name = self.display(place)
            obj.named_at = depth
            self.refresh_buffer(obj.id)

    def copy_record(self, state: State, source: Place, target: Place) -> None:
        """Copies a record's contents; containers in it are copied too, as far as they are known by name."""
        state.copy_below(source, target)
        if next(state.below(target), None) is not None:
            return
        n, entries = len(source.path), state.memory.get(source.object, {})
        fields = [p[n:] for p in entries if len(p) > n and self._index_map(p[:n], source.path) is not None]
        for rest in dict.fromkeys(fields):  # an element of an array at an index of its own
            held = self._from_family(state, Place(source.object, source.path + rest))
            if held is not None:
                state.store(Place(target.object, target.path + rest), held)

    def visible_to_device(self, state: State, obj: Object) -> bool:
        """Whether a host access to the object can matter to device work."""
        if obj.memory in HOST_VISIBLE:
            return True
        return obj.buffer is not None and obj.buffer in state.touched and obj.memory != Memory.DEVICE.value

    def touch(self, state: State, place: Place, mode: Mode, span: Span) -> None:
        """The host reads or writes what is stored at a place."""
        obj = self.objects[place.object]
        if not self.visible_to_device(state, obj):
            return
        self.host_access(state, place.object, mode, span, self.touched_range(place))

    def touched_range(self, place: Place) -> Range:
        """The bytes of its object that a place is, when it is an element of an array or in one."""
        first = place.path[0] if place.path else None
        if isinstance(first, Poly) and (len(place.path) == 1 or first != ZERO):
            element = self.size(self.type_of(Place(place.object, place.path[:1])))
            if element is not None and element.constant is not None:
                return Range(first * element, element, None, Shape.WHOLE)
        if any(isinstance(step, str) for step in place.path):  # a field of one record
            return Range(ZERO, member=tuple(step if isinstance(step, str) else f"[{step}]" for step in place.path))
        return Range()

    def host_access(
        self,
        state: State,
        object_id: int,
        mode: Mode,
        span: Span,
        where: Range = ANYWHERE,
        certain: bool = True,
        api: str = "",
    ) -> None:
        """Writes down a host access; consecutive ones to one buffer are one op."""
        if not self.options.include_host_access:
            return
        buffer = self.buffer_of(object_id)
        key = (buffer, mode.value)
        known = state.host_ops.get(key)
        if known is not None:
            op = self.ops[known]
            if op.accesses[0].range != where:
                where = both(op.accesses[0].range, where)
                self.ops[known] = replace(op, accesses=(replace(op.accesses[0], range=where),))
            if certain and not op.certain:
                self.ops[known] = replace(self.ops[known], certain=True)
            return
        kind = ApiKind.HOST_READ if mode is Mode.READ else ApiKind.HOST_WRITE
        access = Access(buffer, mode, where)
        state.host_ops[key] = self.emit_host(state, kind, api, span, accesses=(access,), certain=certain)

    def one_stream(self, a: Handle, b: Handle) -> bool | None:
        """Whether two handles are of one stream; None: not known, or none of streams."""
        return same_stream(self.streams[a.id], self.streams[b.id]) if a.kind == b.kind == "stream" else None

    def of_two_objects(self, left: Expr, right: Expr, first: Value, second: Value) -> bool:
        """Pointers to two variables or allocations. `this != &other`: nothing is assigned to itself."""
        if not isinstance(first, Pointer) or not isinstance(second, Pointer) or first.place == second.place:
            return False
        if any(isinstance(e, ir.Name) and e.name == "this" for e in (left, right)):
            return True
        one, other = self.objects[first.place.object], self.objects[second.place.object]
        made = one.origin in ("alloc", "local") and other.origin in ("alloc", "local")
        # what one place makes in different rounds may be one thing: which rounds, is not always known
        return made and replace(one.identity, instance=()) != replace(other.identity, instance=())


def _leads_on(type: TypeRef) -> bool:
    """A pointer, a handle or a container."""
    known = STREAM_TYPES | EVENT_TYPES | CONTAINERS | DEVICE_CONTAINERS | SMART_POINTERS
    return type.pointer > 0 or type.name in known or plain(type.name) in known


def pointee_of_container(type: TypeRef | None) -> TypeRef | None:
    if type is None:
        return None
    if type.args and plain(type.name) in CONTAINERS | DEVICE_CONTAINERS:
        return type.args[0] if plain(type.name) not in MAPS else type.args[1] if len(type.args) > 1 else None
    return pointee(type)


def index_text(index: Poly) -> str:
    """An index in the user's words: a later iteration's `i` is still called i."""
    names = [s.split("@")[0] for mono, _ in index.terms for s in mono]
    if any(name.endswith(GAP) for name in names):
        return next((name for name in names if not name.endswith(GAP)), names[0].removesuffix(GAP))
    parts = []
    for mono, coefficient in index.terms:
        factors = [s.split("@")[0] for s in mono]
        parts.append("*".join(([str(coefficient)] if coefficient != 1 or not mono else []) + factors))
    return "+".join(parts) or "0"
