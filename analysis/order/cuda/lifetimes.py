"""What was released, destroyed or went out of life, and who names it afterwards (A2, A4, W6, H1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stitchcuda.analysis.order.machine import Placed
from stitchcuda.analysis.order.recorder import Options, Recorder
from stitchcuda.analysis.order.state import Key, State
from stitchcuda.analysis.order.timeline import Certainty, Ending, Memory, Op, Released, Stale, Timeline
from stitchcuda.analysis.order.values import Identity, Instance, Place, Pointer, Struct, Value
from stitchcuda.analysis.program.ir import ApiKind, Program, Span

_FREES = frozenset({ApiKind.FREE, ApiKind.HOST_FREE})
_DESTROYS = frozenset({ApiKind.STREAM_DESTROY, ApiKind.EVENT_DESTROY})
_ENDS = _FREES | _DESTROYS
_MAKES = frozenset({ApiKind.STREAM_CREATE, ApiKind.EVENT_CREATE})


class Lifetimes(Recorder):
    """Layer of the executor: keeps book of what has ended on a group of paths."""

    def __init__(self, program: Program, options: Options) -> None:
        super().__init__(program, options)
        self.stale: dict[tuple[object, ...], Stale] = {}
        self.endings: dict[tuple[object, ...], Ending] = {}
        self.copied_from: dict[Place, Place] = {}  # records copied member by member, although they have a destructor
        self.moved: set[Place] = set()  # records that were moved from: their destructors have nothing to do
        self.containers: dict[int, int] = {}  # contents of a container -> the object whose variable it is
        self.owned_by_one: set[int] = set()  # objects that `make_unique` made
        self.given_away: set[Value] = set()  # containers and owned memory that were moved elsewhere
        self._families: dict[Key, int] = {}
        self._users: dict[int, int] = {}  # buffer -> bitset of the device work that touches it

    def _append(self, state: State, placed: Placed, kind: ApiKind, api: str, span: Span, fields: dict[str, Any]) -> int:
        number = super()._append(state, placed, kind, api, span, fields)
        op = self.ops[number]
        if op.stream is not None:
            for buffer in (*(a.buffer for a in op.accesses), *op.payload):
                self._users[buffer] = self._users.get(buffer, 0) | 1 << number
        if state.released and kind not in _MAKES:
            self._check(state, op)
        return number

    def _check(self, state: State, op: Op) -> None:
        """Notes the op when it names something that was released before."""
        again = op.kind in _ENDS
        for access in op.accesses:
            obj = self.object_behind(access.buffer)
            if ("memory", obj, 0) in state.released or state.families:
                self._stale(state, ("memory", obj, 0), self.buffers[access.buffer].name, op, again, access.buffer)
        if op.stream is not None and (("stream", op.stream, 0) in state.released or state.families):
            self._stale(state, ("stream", op.stream, 0), self.streams[op.stream].name, op, again)
        if op.event is not None and (("event", op.event, 0) in state.released or state.families):
            self._stale(state, ("event", op.event, 0), self.events[op.event].name, op, again)

    def _stale(self, state: State, key: Key, name: str, op: Op, again: bool, buffer: int | None = None) -> None:
        how = op.kernel or op.api
        self.note_stale(state, key, name, op.site.span, how, again, op.id, buffer, op.certain)

    def note_stale(
        self,
        state: State,
        key: Key,
        name: str,
        span: Span,
        how: str,
        again: bool,
        op: int | None = None,
        buffer: int | None = None,
        certain: bool = True,
    ) -> None:
        """A call at `span` names what `key` stands for; nothing happens when that was not released."""
        found = state.released.get(key) or self._of_family(state, key)
        if found is None:
            return
        released, owner = found
        if released.reset and (again or not self._surely(op, buffer)):
            return
        mine = self._owner()
        if again and owner is not None and mine is not None and self._root(owner) != self._root(mine):
            return  # two owners of which one may have been moved from: only a copy member by member is sure
        certain = certain and key not in state.divided  # what is named here may be nothing where it was released
        made = Stale(
            released, key[0], name, self.site(span), how, again, self.frame.calls, state.conditions, op, buffer, certain
        )
        same = (made.site, made.calls, released.site, released.calls, key[0], buffer)
        known = self.stale.get(same)
        if known is None or (released.sure and not known.released.sure):
            self.stale[same] = made

    def _surely(self, op: int | None, buffer: int | None) -> bool:
        """On every reading of what the op does."""
        mine = self.ops[op].accesses if op is not None else ()
        return any(a.buffer == buffer and a.certainty is Certainty.MUST for a in mine)

    def release(self, state: State, key: Key, span: Span, how: str, op: int | None = None) -> None:
        """What `key` stands for must not be used from here on."""
        sure = key not in state.doubtful
        made = Released(self.site(span), how, self.frame.calls, state.conditions, sure, op)
        state.released[key] = (made, self._owner())
        frame = self.loop_stack[-1] if self.loop_stack else None
        identity = self._identity_of(key)
        if frame is None or identity is None or frame.index.constant is not None:
            return
        if frame.index in identity.instance and state.conditions in frame.entered:
            family = self._family_number(key, identity)
            members = (*state.families.get(family, ()), (key, frame.id, made))
            state.families = {**state.families, family: members}

    def _identity_of(self, key: Key) -> Identity | None:
        kind, number, _ = key
        if kind == "memory":
            return self.objects[number].identity
        return {"stream": self._stream_identity, "event": self._event_identity}.get(kind, {}).get(number)

    def _family_number(self, key: Key, identity: Identity) -> int:
        """The same number for all that differs in the iterations it was made in only."""
        known = self._families.get(key)
        if known is None:
            i = identity
            known = self._number_of((key[0], i.kind, i.path, i.function, i.start, i.end, i.calls, i.extra))
            self._families[key] = known
        return known

    def _of_family(self, state: State, key: Key) -> tuple[Released, Place | None] | None:
        """A loop that is over released everything that differs from this in the iteration it was made in."""
        mine = self._identity_of(key) if state.families else None
        if mine is None or not mine.instance:
            return None
        running = {frame.id for frame in self.loop_stack}
        for other, loop, released in state.families.get(self._family_number(key, mine), ()):
            theirs = self._identity_of(other) if loop not in running else None
            if theirs is None or len(theirs.instance) != len(mine.instance):
                continue
            if sum(a != b for a, b in zip(theirs.instance, mine.instance, strict=True)) <= 1:
                return replace(released, sure=False), None
        return None

    def revive(self, state: State, key: Key) -> None:
        """It was made anew."""
        state.released.pop(key, None)
        state.doubtful -= {key}
        state.divided -= {key}
        mine = self._identity_of(key) if state.families else None
        family = self._family_number(key, mine) if mine is not None else -1
        if family in state.families:
            state.families = {number: found for number, found in state.families.items() if number != family}

    def _owner(self) -> Place | None:
        """The object whose destructor runs."""
        for frame in reversed(self.frames):
            if frame.function.name.startswith("~"):
                return frame.this
        return None

    def _root(self, place: Place) -> Place:
        for _ in range(16):
            source = self.copied_from.get(place)
            if source is None:
                break
            place = source
        return place

    # ------------------------------------------------------------------------------------------------------- host memory

    def end_of_life(self, state: State, object_id: int, span: Span, how: str) -> None:
        """The storage of an object is gone: at the end of its scope (`how` is ""), or by a call."""
        obj = self.objects[object_id]
        buffer = obj.buffer
        if buffer is None or obj.memory == Memory.DEVICE.value or obj.alloc_op is not None:
            return  # what CUDA allocated is released by a call of its own
        users = self._users.get(buffer, 0) & state.order.earlier & ~state.order.host.must
        released = Released(self.site(span), how, self.frame.calls, state.conditions)
        if users:
            key = (buffer, released.site, released.calls)
            known = self.endings.get(key)
            perhaps = users & (state.order.host.may | state.order.host.partly)
            made = Ending(buffer, released, users, perhaps, state.order.earlier)
            if known is not None:
                made = replace(
                    made,
                    users=users | known.users,
                    maybe=(made.maybe | known.maybe) & ~(users & ~made.maybe) & ~(known.users & ~known.maybe),
                    before=made.before | known.before,
                )
            self.endings[key] = made
        if buffer in self._users:
            self.release(state, ("memory", object_id, 0), span, how)

    def give_away(self, place: Place, value: Value) -> None:
        """`std::move` of what a place holds."""
        if isinstance(value, Struct):
            self.moved.add(value.place)
        elif isinstance(value, Instance | Pointer):
            self.given_away.add(value)

    def object_behind(self, buffer: int) -> int:
        """The object that a Timeline buffer stands for."""
        return self._object_of[buffer]

    def certain_object(self, object_id: int) -> bool:
        """Two mentions of it are the same memory: not what an unknown element of an unknown array points to."""
        identity = self.objects[object_id].identity
        return identity.kind not in ("outside", "unknown") or "[" not in identity.extra

    def certain_stream(self, stream: int) -> bool:
        """The same for streams; the default streams are never destroyed."""
        identity = self._stream_identity.get(stream)
        return identity is not None and identity.kind != "unknown-stream" and "[" not in identity.extra

    def certain_event(self, event: int) -> bool:
        """The same for events."""
        identity = self._event_identity.get(event)
        return identity is not None and identity.kind != "unknown-event" and "[" not in identity.extra

    def timeline(self, entry: str) -> Timeline:
        made = super().timeline(entry)
        return replace(made, stale=tuple(self.stale.values()), endings=tuple(self.endings.values()))
