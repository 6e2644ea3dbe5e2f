"""Variables come and go: locals, constructors, initialisers, destructors, conversions of wrapper classes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from stitchcuda.analysis.order.host import aggregates, statics, threads
from stitchcuda.analysis.order.host.deleters import Deleters, is_nothing, member_by_member
from stitchcuda.analysis.order.host.names import (
    CONTAINERS,
    DEVICE_CONTAINERS,
    EVENT_TYPES,
    NUMBERS,
    OPTIONALS,
    SMART_POINTERS,
    STREAM_TYPES,
    holds_things,
    plain,
)
from stitchcuda.analysis.order.host.places import pointee_of_container
from stitchcuda.analysis.order.recorder import Frame
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ZERO, number
from stitchcuda.analysis.order.values import (
    Instance,
    Num,
    Place,
    Pointer,
    Reference,
    Struct,
    Value,
    pointee,
    solid,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr, Function, Site, Span, TypeRef

Outcome = tuple[State, Value]
_PLAIN = frozenset(NUMBERS) | STREAM_TYPES | EVENT_TYPES
_COPIED = "#copied"  # the name that a copy constructor's argument goes by


class Construction(Deleters):
    def enter(
        self,
        function: Function,
        this: Place | None,
        args: tuple[Expr, ...],
        keywords: tuple[tuple[str, Expr], ...],
        span: Span,
        state: State,
        template: tuple[Expr | TypeRef, ...] = (),
    ) -> list[Outcome]:
        """Executes a function of the program; the layer above does."""
        raise NotImplementedError

    def construct_elements(
        self, place: Place, element: TypeRef | None, count: Value | None, state: State, span: Span
    ) -> None:
        """Default construction of the elements of an array or container; a layer above does."""
        raise NotImplementedError

    def new_local(self, name: str, type: TypeRef, span: Span, state: State) -> Place:
        """The place of a new local variable, empty."""
        frame = self.frame
        place = Place(self.local_object(name, type, span))
        frame.scopes[-1][name] = place
        frame.own[place.object] = None
        state.clear_below(place)
        if state.released or state.families:
            self.revive(state, ("memory", place.object, 0))
        self.moved.discard(place)
        return place

    def bind_local(
        self, name: str, type: TypeRef, span: Span, value: Value, state: State, moved: bool = False
    ) -> Place:
        """A new local variable (or parameter) holding a value; a container is copied unless it is `moved` in."""
        if type.name == "auto" and not type.pointer:
            if isinstance(value, Struct):
                type = self.type_of(value.place) or type
            elif isinstance(value, Instance):
                type = self.objects[value.object].type or type
        place = self.new_local(name, type, span, state)
        self.member_copies.discard(place)
        if isinstance(value, Struct) and not type.pointer and not type.reference:
            if self._copy_constructed(place, type, value.place, state, span):
                return place
            self.copied(place, value.place)
            if not moved:
                self.member_copies.add(place)  # which of the two owns what its members hold is not known
        if isinstance(value, Instance) and not type.pointer and not moved:
            fresh = self.container(state, place, self.objects[value.object].type or type)
            self.copy_container(state, value.object, fresh.object)
        else:
            self.store_value(state, place, value, type)
        return place

    def construct(self, place: Place, type: TypeRef, args: tuple[Expr, ...], state: State, span: Span) -> None:
        """Initialises a variable of class type, or a plain one, from constructor arguments."""
        if type.name in OPTIONALS and (not args or is_nothing(args[0])):
            return
        resolved = self.names.resolve(self.bound_type(type))
        if resolved is None:
            for a in args:
                self.evaluate(a, state)
            return
        bare = plain(resolved.name)
        if not resolved.pointer and bare in CONTAINERS | DEVICE_CONTAINERS and not resolved.dims:
            instance = self.container(state, place, resolved)
            state.clear_below(Place(instance.object))
            only = args[0].items if len(args) == 1 and isinstance(args[0], ir.InitList) else ()
            record = self.names.record(self.names.resolve(pointee_of_container(resolved))) if len(only) == 1 else None
            if record is not None and isinstance(only[0], ir.Const):  # `std::vector<Stream>{4}`: so many, not one
                args = only
            self.fill_container(state, instance, args, span)
            if (bare == "array" and not args) or (len(args) == 1 and not isinstance(args[0], ir.InitList)):
                count = Num(self.count_of(state, instance.object))
                self.construct_elements(Place(instance.object), pointee_of_container(resolved), count, state, span)
            return
        if bare == "dim3" and not resolved.pointer:
            for axis, arg in zip("xyz", args, strict=False):
                state.store(place.field(axis), self.evaluate(arg, state))
            for axis in "xyz"[len(args) :]:
                state.store(place.field(axis), Num(number(1)))
            return
        if resolved.dims and not resolved.pointer and not args:
            size = self.evaluate(resolved.dims[0], state) if resolved.dims[0] is not None else None
            self.construct_elements(place, pointee(resolved), size, state, span)
            return
        record = self.names.record(resolved)
        if record is None and aggregates.is_aggregate(resolved) and args:
            self._aggregate(place, resolved, args, state)
            return
        if record is None:
            values = [self.evaluate(a, state) for a in args]
            owner = bare in SMART_POINTERS and not resolved.pointer
            if threads.is_thread(resolved):
                self.start_thread(values, threads.JOINS, span, state)
            elif not owner:
                self.call_backs(values, span, state)
            if bare.endswith("_iterator") and len(values) > 1:  # one that is made of others leads to what they lead to
                for k, value in enumerate(values):
                    if solid(value):
                        state.store(place.field(f"#{k}"), value)
            if len(values) == 1 or (owner and values):
                self.store_value(state, place, values[0], resolved)
                self.keep_deleter(values, state)
            return
        constructors = self._methods(record.name, plain(record.name), len(args))
        constructors = tuple(f for f in constructors if f.body is not None)
        if len(args) == 1 and self._is_one(args[0], record, state):
            constructors = tuple(f for f in constructors if plain(f.params[0].type.name) == plain(record.name))
        constructor = self.constructor_meant(constructors, place, args, state)
        if constructor is not None:
            given = {name for name, _ in constructor.initializers}
            if plain(record.name) not in given:  # another one of the class does what is to be done first
                self._defaults(place, record, state, span, given, self.class_types(constructor, resolved))
            self.joined(self.enter(constructor, place, args, (), span, state), state)
            if len(args) == 1 and member_by_member(constructor, record):
                self.copied_as_is(place, args[0], state)
            return
        base = self._constructed_by_base(record, resolved, args)
        if base is not None:  # `using Base::Base;`
            self._defaults(place, record, state, span, {plain(base.name)})
            self.construct(place, base, args, state, span)
            return
        if len(args) == 1 and not isinstance(args[0], ir.InitList):
            value = self.evaluate(args[0], state)
            if isinstance(value, Struct):
                self.copied(place, value.place)
                self.store_value(state, place, value)
                return
            self._defaults(place, record, state, span, {f.name for f in record.fields[:1]})
            if record.fields:
                self.store_value(state, place.field(record.fields[0].name), value)
            return
        items = self.expanded(args[0].items if len(args) == 1 and isinstance(args[0], ir.InitList) else args)
        names = args[0].names if len(args) == 1 and isinstance(args[0], ir.InitList) else ()
        listed = {name for name in names if name} or {f.name for f in record.fields[: len(items)]}
        self._defaults(place, record, state, span, listed)
        for position, item in enumerate(items):
            named = names[position] if position < len(names) else None
            field = named or (record.fields[position].name if position < len(record.fields) else None)
            if field is None:
                self.evaluate(item, state)
            else:
                self.initialise(place.field(field), self.type_of(place.field(field)), item, state)

    def _aggregate(self, place: Place, type: TypeRef, args: tuple[Expr, ...], state: State) -> None:
        """A pair or tuple, from its parts or from another one."""
        if len(args) == 1 and isinstance(args[0], ir.InitList):
            args = args[0].items
        if len(args) == 1:
            self.store_value(state, place, self.evaluate(args[0], state))
            return
        for position, arg in enumerate(args):
            field = aggregates.part(type, position, self.names)
            if field is None:
                self.evaluate(arg, state)
            else:
                declared = aggregates.part_type(type, field) if type.args else self.static_type(arg, state)
                self.initialise(place.field(field), declared, arg, state)

    def initialise(self, place: Place, type: TypeRef | None, init: Expr, state: State) -> None:
        """`T x = init`."""
        if isinstance(init, ir.Construct) and type is not None and init.type == type and not type.pointer:
            self.construct(place, type, init.args, state, init.span)  # `T x{}`: no temporary
            return
        if type is not None and type.name in OPTIONALS and is_nothing(init):
            return
        if isinstance(init, ir.InitList) and type is not None:
            resolved = self.names.resolve(self.bound_type(type))
            if resolved is not None and resolved.dims:
                for k, item in enumerate(self.expanded(init.items)):
                    self.initialise(place.element(number(k)), self.type_of(place.element(number(k))), item, state)
                return
            self.construct(place, type, (init,), state, init.span)
            return
        value = self.evaluate(init, state)
        named = isinstance(init, ir.Name | ir.Member | ir.Index | ir.Deref)
        if isinstance(value, Instance) and named and not (type is not None and (type.reference or type.pointer)):
            held = self.objects[value.object].type  # what has a name lives on: this is a copy of it
            if held is not None and plain(held.name) in CONTAINERS - {"span"}:
                self.copy_container(state, value.object, self.container(state, place, held).object)
                return
        self.store_value(state, place, value, type)

    def _is_one(self, arg: Expr, record: ir.Record, state: State) -> bool:
        """The argument is an object of the class itself: it is copied or moved."""
        if (
            isinstance(arg, ir.Call)
            and isinstance(arg.callee, ir.Name)
            and plain(arg.callee.name) == "move"
            and arg.args
        ):
            arg = arg.args[0]
        type = self.names.resolve(self.bound_type(self.static_type(arg, state)))
        return type is not None and self.names.record(type) is record

    def copied_as_is(self, target: Place, source: Expr, state: State) -> None:
        """A constructor copied the members of another object and left that as it was: both own what they hold (A4)."""
        if isinstance(source, ir.Call) and source.args:
            source = source.args[0]
        found = self.locate(source, state) if isinstance(source, ir.Name | ir.Member) else None
        if found is not None and found != target:
            self.moved.discard(found)
            self.copied_from[target] = found

    def copied(self, target: Place, source: Place) -> None:
        """A record is copied or moved into another. A class with a destructor but without a copy of its own making is copied
        member by member: both then own what it holds (A4)."""
        record = self.names.record(self.names.resolve(self.bound_type(self.type_of(source))))
        if record is None or target == source:
            return
        name = plain(record.name)
        if source in self.moved and any(p.reference and not p.const for p in self._copy_parameters(record.name, name)):
            return
        if not self._copy_parameters(record.name, name) and self._methods(record.name, f"~{name}", 0):
            self.moved.discard(source)
            self.copied_from[target] = source

    def _copy_constructed(self, place: Place, type: TypeRef, source: Place, state: State, span: Span) -> bool:
        """An object that lives on is copied: by its class's own constructor, when that does more than copy the members.
        What a function returns and what is moved becomes the new object itself."""
        made = self.objects[source.object].identity.kind
        gone = made == "local" and not any(source.object in frame.own for frame in self.frames)
        if gone or made in ("temporary", "result") or source in self.moved or source == place:
            return False
        record = self.names.record(self.names.resolve(self.bound_type(self.type_of(source))))
        if record is None or self.names.record(self.names.resolve(self.bound_type(type))) is not record:
            return False
        for function in self._methods(record.name, plain(record.name), 1):
            taken = function.params[0].type
            its_own = taken.reference and taken.const and plain(taken.name) == plain(record.name)
            if not its_own or function.body is None or function.space == "device" or member_by_member(function, record):
                continue
            depth = sum(frame.function.uid == function.uid for frame in self.frames)
            if len(self.frames) >= self.options.max_depth or depth > 1:
                return False
            given = {name for name, _ in function.initializers}
            self._defaults(place, record, state, span, given, self.class_types(function, self.type_of(source)))
            self.frame.scopes.append({_COPIED: source})
            try:
                self.joined(self.enter(function, place, (ir.Name(span, _COPIED),), (), span, state), state)
            finally:
                self.frame.scopes.pop()
            return True
        return False

    def destroy_contents(self, place: Place, type: TypeRef, state: State, span: Span) -> None:
        raise NotImplementedError  # the destructors of the elements of an array or a container; a layer above

    @cached_property
    def member_copies(self) -> set[Place]:
        return set()

    def _defaults(
        self,
        place: Place,
        record: ir.Record,
        state: State,
        span: Span,
        given: Collection[str],
        types: Mapping[str, TypeRef] | None = None,
    ) -> None:
        """Bases and members that the constructor does not initialise itself (`given`): by their default initialisers, else
        by the default constructors of their classes."""
        for base in record.bases:
            if plain(base) not in given and self.owns_objects(TypeRef(base)) not in (None, record):
                self._as_member(Site("", record.path, record.span), types, place, TypeRef(base), state, span)
        for declaration in record.fields:
            if declaration.name in given:
                continue
            field = place.field(declaration.name)
            if declaration.init is not None:
                self._initialised(field, declaration, types, state)
            else:
                type = declaration.type
                if types and type.name in types and not (type.pointer or type.dims):  # `template <class S> ... S s_;`
                    type = types[type.name]
                if not declaration.static and self.owns_objects(type) is not None:
                    if self.frame.function.language == "python":
                        continue  # the constructor makes it
                    self._as_member(Site("", record.path, declaration.span), types, field, type, state, span)
                elif self._begins_empty(type):
                    self.set_count(state, self.container(state, field, type).object, ZERO)

    def _initialised(
        self, field: Place, declaration: ir.Declare, types: Mapping[str, TypeRef] | None, state: State
    ) -> None:
        """A member by its default initialiser, in which the template parameters of the class stand for what is given."""
        caller = self.frame
        assert declaration.init is not None
        given = {**caller.types, **types} if types else None
        if given:
            self.frames.append(Frame(caller.function, caller.calls, caller.scopes, caller.this, types=given))
        try:
            self.initialise(field, declaration.type, declaration.init, state)
        finally:
            if given:
                self.frames.pop()

    def _begins_empty(self, type: TypeRef | None) -> bool:
        """A container of the host that holds nothing at first."""
        resolved = self.names.resolve(self.bound_type(type))
        if resolved is None or resolved.pointer or resolved.reference or resolved.dims:
            return False
        return plain(resolved.name) in CONTAINERS - {"array", "span"}

    def _as_member(
        self, site: Site, types: Mapping[str, TypeRef] | None, place: Place, type: TypeRef, state: State, span: Span
    ) -> None:
        """Default construction of a part of an object. `site`, where the part is declared, stands among the calls: what two
        members make is not the same."""
        caller = self.frame
        frame = Frame(
            caller.function, (*caller.calls, site), caller.scopes, caller.this, types=dict(types or caller.types)
        )
        if len(self.frames) >= self.options.max_depth:
            return
        self.frames.append(frame)
        try:
            self.construct(place, type, (), state, span)
        finally:
            self.frames.pop()

    def owns_objects(self, type: TypeRef) -> ir.Record | None:
        """The class of a member that is an object by value, when what it is made of matters here: device work, or pointers
        that it keeps."""
        resolved = self.names.resolve(self.bound_type(type))
        if resolved is None or resolved.pointer or resolved.reference or resolved.dims:
            return None
        record = self.names.record(resolved)
        return record if record is not None and self._matters(record) else None

    def _matters(self, record: ir.Record) -> bool:
        known = self._mattering.get(record.name)
        if known is None:
            self._mattering[record.name] = False  # a class that holds itself
            name = plain(record.name)
            makers = (*self.program.by_name.get(name, ()), *self.program.by_name.get(f"~{name}", ()))
            types = [self.names.resolve(f.type) for f in record.fields]
            parts = [self.names.record(t) for t in types if t is not None and not t.pointer and not t.reference]
            parts += [self.names.record(TypeRef(b)) for b in record.bases]
            known = (
                all(t is not None and (t.pointer or t.name in _PLAIN) for t in types)
                or any(self._begins_empty(t) and holds_things(t) for t in types)
                or any(u in self.program.reaches_cuda for u in makers)
                or any(part is not None and self._matters(part) for part in parts)
            )
            self._mattering[record.name] = known
        return known

    @cached_property
    def _mattering(self) -> dict[str, bool]:
        return {}

    def class_types(self, function: Function, type: TypeRef | None) -> dict[str, TypeRef]:
        """The template parameters of a class template's method, as the type of its object binds them."""
        type = self._as_base(type, function.record)
        record = self.names.record(TypeRef(type.name)) if type is not None else None
        if type is None or not (type.args or (record is not None and record.defaults)):
            return {}
        given = statics.arguments(record, function.template, type.args)
        return {name: self.bound_type(arg) or arg for name, arg in given.items()}

    def _initialise_member(self, this: Place | None, member: str, initial: Expr, state: State) -> None:
        if this is None:
            self.evaluate(initial, state)
            return
        place = this.field(member)
        type = self.type_of(place)
        base = self._base_named(this, member) if type is None else None
        if base is not None:
            args: tuple[ir.Expr, ...] = (initial,)
            if isinstance(initial, ir.Construct | ir.InitList):
                args = initial.args if isinstance(initial, ir.Construct) else initial.items
            self.construct(this, base, args, state, initial.span)
            return
        if isinstance(initial, ir.Construct | ir.InitList):
            args = initial.args if isinstance(initial, ir.Construct) else initial.items
            if isinstance(initial, ir.InitList) and self._begins_empty(type):  # `order_{0, 1}`: its elements
                args = (initial,)
            if type is not None:
                self.construct(place, type, args, state, initial.span)
                return
        resolved = self.names.resolve(self.bound_type(type))
        container = resolved is not None and plain(resolved.name) in CONTAINERS
        by_value = resolved is not None and not (resolved.pointer or resolved.reference)
        if resolved is not None and by_value and (container or self.owns_objects(resolved) is not None):
            self.construct(place, resolved, (initial,), state, initial.span)  # `: items_(n), buffer_(bytes)`
            return
        found = None
        if type is not None and type.reference:
            target, found = self.place_or_value(initial, state)
            if target is not None:
                state.store(place, Reference(target))
                return
        self.store_value(state, place, self.evaluate(initial, state) if found is None else found)

    def _base_named(self, this: Place, name: str) -> TypeRef | None:
        """The base class that a constructor initialises by name, or the class itself: another constructor of it does."""
        type = self.names.resolve(self.bound_type(self.type_of(this)))
        record = self.names.record(type)
        if type is not None and record is not None and plain(record.name) == plain(name):
            return TypeRef(record.name, type.args)
        found = [b for b in record.bases if plain(b) == plain(name)] if record is not None else []
        return TypeRef(found[0]) if found and self.owns_objects(TypeRef(found[0])) is not None else None

    def end_storage(self, place: Place, state: State, span: Span, kept: Value) -> None:
        """The memory of a local at the end of its scope: its own, that of containers in it, and what it owns."""
        entries = state.memory.get(place.object)
        if self.objects[place.object].buffer is None and not (entries and any(map(_lasting, entries.values()))):
            return
        type = self.names.resolve(self.bound_type(self.objects[place.object].type))
        if type is None or type.reference:
            return
        held = [value for _, value in state.below(place)]
        self.end_of_life(state, place.object, span, "")
        for value in held:
            gone = isinstance(value, Instance) and value != kept and value not in self.given_away
            if gone and isinstance(value, Instance) and self._dies_with(place, value):
                self.end_of_life(state, value.object, span, "")
        owned = state.load(place)
        if isinstance(owned, Pointer) and owned != kept and owned not in self.given_away and not type.pointer:
            owner = plain(type.name) == "unique_ptr" and len(type.args) == 1
            if owner or (type.name == "auto" and owned.place.object in self.owned_by_one):
                self.end_of_life(state, owned.place.object, span, "")

    def _dies_with(self, place: Place, held: Instance) -> bool:
        """The container is the variable's own: made for it, or moved in from what is gone."""
        owner = self.containers.get(held.object)
        if owner is None or owner == place.object:
            return owner is not None
        moved_in = self.objects[owner].identity.kind in ("local", "temporary", "result")
        return moved_in and not any(owner in frame.own for frame in self.frames)

    def destroy(self, place: Place, state: State, span: Span) -> None:
        """The destructor of a local at the end of its scope."""
        declared = self.objects[place.object].type
        if declared is None or declared.pointer or declared.name in NUMBERS:
            return
        type = self.names.resolve(self.bound_type(declared))
        if type is None or type.reference or place in self.moved:
            return
        if declared.name in OPTIONALS and next(state.below(place), None) is None:
            return
        if plain(type.name) == "unique_ptr" and len(type.args) > 1 and not type.pointer:
            whatever = self.stays(self.objects[place.object].name, self.frame.function)
            self.run_deleter(place, type.args[1], state, span, whatever)
            return
        if type.dims or (plain(type.name) in CONTAINERS and not type.pointer):
            self.destroy_contents(place, type, state, span)
            return
        record = self.names.record(type)
        if record is not None:
            self.destroy_object(place, record, state, span)

    def delete(self, value: Value, array: bool, span: Span, state: State) -> None:
        """`delete p`: the destructor of the class that the object was made as. The elements of arrays are left out."""
        for pointer in [] if array else self.pointers_in(value, state):
            place = self.pointed(pointer, state) if isinstance(value, Pointer) else None
            record = self.names.record(self.names.resolve(self.type_of(place))) if place is not None else None
            if place is not None and record is not None and len(self.frames) < self.options.max_depth:
                self.destroy_object(place, record, state, span)

    def destroy_object(self, place: Place, record: ir.Record, state: State, span: Span) -> None:
        """Its destructor, then those of its members, the last one first."""
        destructors = [f for f in self._methods(record.name, "~" + plain(record.name), 0) if f.body is not None]
        if destructors:
            self.joined(self.enter(destructors[0], place, (), (), span, state), state)
        if place in self.member_copies or len(self.frames) >= self.options.max_depth:
            return
        for declaration in reversed(record.fields):
            field = place.field(declaration.name)
            held = self.owns_objects(self.type_of(field) or declaration.type)
            if held is None:
                self._release_member(field, declaration, record, state, span)
            if held is None or field in self.moved or held is record:
                continue
            if declaration.type.name in OPTIONALS and next(state.below(field), None) is None:
                continue
            caller = self.frame
            site = Site("", record.path, declaration.span)
            self.frames.append(Frame(caller.function, (*caller.calls, site), caller.scopes, caller.this))
            try:
                self.destroy_object(field, held, state, span)
            finally:
                self.frames.pop()
        for base in reversed(record.bases):
            inherited = self.names.record(TypeRef(base))
            if inherited is not None and inherited is not record:
                self.destroy_object(place, inherited, state, span)

    def _release_member(
        self, field: Place, declaration: ir.Declare, record: ir.Record, state: State, span: Span
    ) -> None:
        """A member that is a smart pointer with a deleter of the program's own."""
        type = self.names.resolve(self.bound_type(self.type_of(field) or declaration.type))
        if (
            type is None
            or plain(type.name) != "unique_ptr"
            or len(type.args) < 2
            or type.pointer
            or field in self.moved
        ):
            return
        self.run_deleter(field, type.args[1], state, span, declaration.name not in self._handed_on)

    def _converted(self, value: Value, type: TypeRef, span: Span, state: State) -> Value:
        """An object of a wrapper class given where a stream or event is wanted: its conversion operator is called."""
        if type.pointer and isinstance(value, Struct | Reference):
            return self.as_pointer(value, span, state)
        wanted = STREAM_TYPES if type.name in STREAM_TYPES else EVENT_TYPES
        if type.name not in wanted or type.pointer:
            return value
        if isinstance(value, Reference):
            value = self.load(state, value.place)
        if isinstance(value, Struct):
            record = self.names.record(self.names.resolve(self.type_of(value.place)))
            for name in sorted(wanted) if record is not None else ():
                assert record is not None
                found = [f for f in self._methods(record.name, f"operator {name}", 0) if f.body is not None]
                if found:
                    return self.joined(self.enter(found[0], value.place, (), (), span, state), state)
        return value

    def as_pointer(self, value: Value, span: Span, state: State) -> Value:
        """An object given where a pointer is wanted: its conversion operator, when the class has one to pointers."""
        held = self.load(state, value.place) if isinstance(value, Reference) else value
        record = self.names.record(self.names.resolve(self.type_of(held.place))) if isinstance(held, Struct) else None
        if record is None or not isinstance(held, Struct) or len(self.frames) >= self.options.max_depth:
            return value
        methods = (self.program.functions[uid] for uid in record.methods)
        found = (f for f in methods if f.body is not None and f.name.startswith("operator ") and f.name.endswith("*"))
        function = next(found, None)
        if function is None:
            return value
        return self.joined(self.enter(function, held.place, (), (), span, state), state)

    def roles(self, expr: ir.Api, state: State) -> dict[str, Value]:
        values = super().roles(expr, state)
        if "event" in values:
            values["event"] = self._converted(values["event"], TypeRef("cudaEvent_t"), expr.span, state)
        for role in ("dst", "src", "ptr"):
            value = values.get(role)
            if isinstance(value, Struct):
                values[role] = self.as_pointer(value, expr.span, state)
        return values

    def stream_value(self, value: Value, expr: Expr, state: State) -> int:
        return super().stream_value(self._converted(value, TypeRef("cudaStream_t"), expr.span, state), expr, state)


def _lasting(value: Value) -> bool:
    """What a variable may own."""
    return isinstance(value, Instance | Pointer)
