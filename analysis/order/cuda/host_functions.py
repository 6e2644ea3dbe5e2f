"""Host functions and callbacks on a stream: what their bodies touch, tell the host, and must not call (W5, H1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from stitchcuda.analysis.order.arithmetic import NULL
from stitchcuda.analysis.order.cuda.captures import Captures
from stitchcuda.analysis.order.cuda.launches import member_path, merge_accesses
from stitchcuda.analysis.order.host.places import ANYWHERE
from stitchcuda.analysis.order.machine import Done, uncertain
from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ZERO, symbol
from stitchcuda.analysis.order.timeline import (
    Access,
    Certainty,
    Condition,
    Fault,
    FaultKind,
    Measurement,
    Memory,
    Mode,
    Range,
)
from stitchcuda.analysis.order.values import Closure, Code, Num, Object, Place, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind, Program, Span

Spot = tuple[int, tuple[str, ...]]  # an object and the fields to a part of it

# Types whose objects threads share on purpose: to use one is no access that could race.
SYNCHRONISED = (
    "atomic", "atomic_ref", "atomic_flag", "mutex", "recursive_mutex", "shared_mutex", "timed_mutex",
    "condition_variable", "condition_variable_any", "promise", "future", "shared_future", "counting_semaphore",
    "binary_semaphore", "latch", "barrier", "sem_t", "pthread_mutex_t", "pthread_cond_t",
)  # fmt: skip
TELLS = frozenset(
    {
        "store", "exchange", "fetch_add", "fetch_sub", "fetch_or", "fetch_and", "test_and_set", "clear",
        "compare_exchange_strong", "compare_exchange_weak", "notify_one", "notify_all", "set_value", "set_exception",
        "release", "count_down", "arrive", "arrive_and_wait", "sem_post", "pthread_cond_signal",
        "pthread_cond_broadcast",
    }
)  # fmt: skip
# They return once the other side has told them; those of the second row may also give up.
AWAITS = frozenset({"wait", "get", "acquire", "arrive_and_wait", "sem_wait", "pthread_cond_wait"})
ASKS = frozenset({"load", "test", "wait_for", "wait_until", "try_acquire", "try_acquire_for", "try_wait", "valid"})
_PLAIN = Memory.PAGEABLE.value
# CUDA's functions that only name things: calling them is harmless everywhere.
TEXTS = ("GetErrorString", "GetErrorName", "GetLastError", "PeekAtLastError", "CreateChannelDesc")


@dataclass(slots=True)
class Body:
    """The host function being looked into."""

    op: int  # the op that will stand for it
    conditions: tuple[Condition, ...]  # on the way to the call that hands it to the stream
    first_own: int  # objects from here on are its own
    accesses: list[Access] = field(default_factory=list)
    tells: set[Spot] = field(default_factory=set)  # what it writes: a way to learn that it ran


class HostFunctions(Captures):
    """Layer of the executor: host functions on streams, and how the host learns that they ran."""

    def __init__(self, program: Program, options: Options) -> None:
        super().__init__(program, options)
        self.inside: Body | None = None
        self._told: dict[Spot, list[int]] = {}  # what host functions write -> their ops
        self._shared: set[int] = set()  # objects that host functions touch
        self._promised: dict[str, Spot] = {}  # futures, by the key of their value
        self.left_aside: list[State] = []  # what the last function that was run aside left behind
        self.sightings: list[int] = []  # host functions that the evaluation so far may have learnt of

    def run_aside(self, value: Value, given: list[Value], span: Span, state: State) -> bool:
        """Executes a function of the program on a state of its own; False when it is not known. A layer above does."""
        raise NotImplementedError

    def calls_cuda(self, value: Value) -> bool:
        """Whether CUDA work can be reached from a function or lambda; a layer above knows."""
        raise NotImplementedError

    def look_into(
        self, callback: Value, given: list[Value], span: Span, state: State
    ) -> tuple[tuple[Access, ...], bool]:
        """What a host function touches, and whether its body is known. The next op will stand for it."""
        if self.inside is not None or not isinstance(callback, Code | Closure):
            return (), False
        op = len(self.ops)
        body = self.inside = Body(op, state.conditions, len(self.objects))
        try:
            known = self.run_aside(callback, given, span, state)
            if known and self.calls_cuda(callback):
                self._in_a_later_run(callback, given, span, state, body)
        finally:
            self.inside = None
        if len(self.ops) != op:
            return (), False
        for spot in body.tells:
            self._told.setdefault(spot, []).append(op)
            self.forget_contents(state, Place(spot[0]))
        self._shared |= {self.object_behind(a.buffer) for a in body.accesses} | {spot[0] for spot in body.tells}
        return tuple(merge_accesses(body.accesses)), known

    def _in_a_later_run(self, callback: Value, given: list[Value], span: Span, state: State, body: Body) -> None:
        """A host function that changes numbers and lengths of containers finds them changed when it runs again: it may
        come to CUDA calls then that it did not come to the first time."""
        later = state.copy()
        changed = False
        for after in self.left_aside:
            for number, entries in state.memory.items():
                there = after.memory.get(number)
                if there is None or there is entries or number >= body.first_own:
                    continue
                for path, value in entries.items():
                    other = there.get(path)
                    if isinstance(value, Num) and other is not None and other != value:
                        later.store(Place(number, path), Num(symbol(self.fresh("later"))))
                        changed = True
        seen = {(fault.site, fault.calls) for fault in self.faults}
        accesses, faults, before = list(body.accesses), len(self.faults), set(body.tells)
        if changed:
            self.run_aside(callback, given, span, later)
            body.accesses, body.tells = accesses, before
            self.faults[faults:] = [f for f in self.faults[faults:] if (f.site, f.calls) not in seen]

    # --------------------------------------------------------------------------------------------------- in the body

    def call_inside(self, name: str, kind: ApiKind, span: Span, state: State, cuda: bool = True) -> Value:
        """H1: a CUDA call in a host function."""
        body = self.inside
        assert body is not None
        if not name.endswith(TEXTS):
            frame = self.frame
            own = tuple(c for c in state.conditions if c not in body.conditions)
            fault = Fault(
                FaultKind.IN_HOST_FUNCTION,
                self.site(span),
                name,
                frame.calls,
                own,
                other=body.op,
                certain=cuda or kind is not ApiKind.NEUTRAL,
            )
            self.faults.append(fault)
        return NULL

    def launch(self, expr: ir.Launch, state: State) -> Value:
        if self.inside is not None:
            callee = expr.kernel.name if isinstance(expr.kernel, ir.Name | ir.Member) else expr.api
            return self.call_inside(callee, ApiKind.LAUNCH, expr.span, state)
        return super().launch(expr, state)

    def _keep(self, made: Measurement) -> None:
        """A time that a host function takes ends when the stream gets there, behind all work before it (H1)."""
        if self.inside is None:
            super()._keep(made)

    def visible_to_device(self, state: State, obj: Object) -> bool:
        if self.inside is not None:
            return obj.memory != Memory.DEVICE.value and (obj.id < self.inside.first_own or obj.origin == "global")
        return super().visible_to_device(state, obj)

    def never_seen(self, object_id: int) -> bool:
        """Nothing on the device and no host function has anything to do with what nearly every variable is."""
        obj = self.objects[object_id]
        return obj.buffer is None and obj.memory == _PLAIN and self.inside is None and object_id not in self._shared

    def touch(self, state: State, place: Place, mode: Mode, span: Span) -> None:
        body = self.inside
        if body is None:
            if place.object not in self._shared:
                super().touch(state, place, mode, span)
            else:
                flag = self.synchronised(place)
                self._see_spot(state, _spot(place), flag or self._is_flag(place))
                if not flag:
                    self.host_access(state, place.object, mode, span, self._range(place))
            return
        if not self.visible_to_device(state, self.objects[place.object]):
            return
        if mode is not Mode.READ:
            body.tells.add(_spot(place))
        if not self.synchronised(place):
            self.host_access(state, place.object, mode, span, self._range(place))

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
        body = self.inside
        if body is None:
            super().host_access(state, object_id, mode, span, where, certain, api)
            return
        plain = certain and all(c in body.conditions for c in state.conditions)
        certainty = Certainty.MUST if plain else Certainty.MAY
        body.accesses.append(Access(self.buffer_of(object_id), mode, where, certainty, "host function"))

    def _range(self, place: Place) -> Range:
        """The part of an object that a place is: a field of a record, or an element."""
        where = self.touched_range(place)
        return where if where != ANYWHERE or not place.path else Range(ZERO, member=member_path(place))

    def synchronised(self, place: Place) -> bool:
        type = self.names.resolve(self.bound_type(self.type_of(place)))
        return type is not None and type.name.rsplit("::", 1)[-1].split("<")[0] in SYNCHRONISED

    # ------------------------------------------------------------------------------------------- learning that it ran

    def signal(self, place: Place | None, method: str, state: State) -> Value | None:
        """A method of an object that threads share: a host function tells by it, the host waits by it. The value is
        that of `get_future`, None for the others."""
        if place is None or (self.inside is None and not self._told and method != "get_future"):
            return None
        held = state.load(place)
        spot = self._promised.get(held.key, _spot(place)) if isinstance(held, Unknown) else _spot(place)
        if self.inside is not None:
            if method in TELLS and self.visible_to_device(state, self.objects[place.object]):
                self.inside.tells.add(spot)
            return None
        if method == "get_future":
            key = self.fresh("future")
            self._promised[key] = spot
            return Unknown(key)
        if method in AWAITS:
            for op in self._told.get(spot, ()):
                self.learn(state, op)
        elif method in ASKS:
            self._see_spot(state, spot, True)
        return None

    def _is_flag(self, place: Place) -> bool:
        type = self.names.resolve(self.bound_type(self.type_of(place)))
        return type is not None and type.name == "bool" and not type.pointer

    def _see_spot(self, state: State, spot: Spot, telling: bool) -> None:
        """The host reads what a host function writes: it knows by it that the function ran when it waits for the value
        to change, and may know when it is `telling`, a flag."""
        for op in self._told.get(spot, ()):
            if state.order.earlier >> op & 1:
                self.sightings.append(op)
                if telling:
                    state.order.host |= uncertain(self.done_before(op).with_op(op))

    def learn(self, state: State, op: int) -> None:
        """On these paths the host knows that a host function ran, and with it all that precedes it."""
        if not state.order.earlier >> op & 1 or self.ops[op].graph is not None:
            return
        before = self.done_before(op)
        self.machine.host_stages(state.order, Done(before.must, before.may).with_op(op), (op,))
        state.host_ops.clear()


def _spot(place: Place) -> Spot:
    return place.object, tuple(step if isinstance(step, str) else "[]" for step in place.path)
