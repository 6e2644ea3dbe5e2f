"""Loops: a few iterations executed one by one, or two arbitrary ones i < j that stand for all.

- A loop of a known small number of iterations is executed as it is.
- A loop whose body takes its counter modulo a small constant K (ping-pong buffers) is executed for K + 1 consecutive
  iterations, so that each slot is seen again.
- Any other loop is executed for two iterations, the second one an unknown distance after the first.

A loop is taken to run at least once: the path around it does no device work and could only hide what the loop does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from stitchcuda.analysis.order.arithmetic import divide
from stitchcuda.analysis.order.cuda.queries import decisive_query
from stitchcuda.analysis.order.cuda.thrust_effects import is_algorithm
from stitchcuda.analysis.order.effort import SHOWN
from stitchcuda.analysis.order.host.lengths import rounds_before
from stitchcuda.analysis.order.host.periods import MAX_PERIOD, Counter, Periods
from stitchcuda.analysis.order.host.places import GAP
from stitchcuda.analysis.order.host.turns import (
    held,
    settle,
    steps,
    template_arguments,
    turning,
    writes_through_table,
)
from stitchcuda.analysis.order.machine import Done
from stitchcuda.analysis.order.recorder import LoopFrame
from stitchcuda.analysis.order.state import Path, State, merged_number
from stitchcuda.analysis.order.symbolic import ONE, ZERO, Poly, number, symbol
from stitchcuda.analysis.order.timeline import LoopInfo
from stitchcuda.analysis.order.values import Closure, Code, Instance, Num, Place, Pointer, Truth, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr, TypeRef

MAX_KINDS = 16  # iterations of a loop over functions or objects of several classes
MAX_TABLE = 64  # iterations of a host loop that fills variables through a table of pointers


class Loops(Periods):
    """Layer of the executor: loops."""

    def loop(self, stmt: ir.Loop, states: list[State]) -> list[State]:
        out: list[State] = []
        for state in states:
            self.frame.scopes.append({})
            started = [state] if stmt.init is None else self.execute(stmt.init, [state])
            for s in started:
                out += self._run(stmt, s)
            self.frame.scopes.pop()
        return self.join(out, keep=False)

    def _run(self, stmt: ir.Loop, state: State) -> list[State]:
        counter = self._counter(stmt, state)
        head = stmt.condition if stmt.form != "do" and counter is not None else None
        if head is not None and state.truth(self.evaluate(head, state)) is False:
            return [state]
        trip = counter.trip.constant if counter is not None and counter.trip is not None else None
        if stmt.form == "range" and counter is None:
            trip = self._range_length(stmt, state)
        host_only = self._host_only(stmt)
        period = 1 if host_only else self.period_of(stmt, counter, state)
        turns = frozenset() if host_only else self._turning(stmt) - {counter.name if counter is not None else ""}
        concrete = trip is not None and trip <= self.options.unroll
        if host_only and trip is not None and trip <= MAX_TABLE and writes_through_table(stmt):
            concrete = True
        elif trip is not None and not concrete and not host_only and trip <= MAX_KINDS:
            concrete = self._through_kinds(stmt, counter, state, trip)
        loop_id = self._loop_id(stmt, counter, trip, concrete or period > 1)
        if trip == 0:
            return [state]
        name = counter.name if counter is not None else "it"
        base = symbol(f"{name}@{loop_id}")
        gap = symbol(f"{name}{GAP}@{loop_id}")
        indexes: list[Poly]
        if concrete and trip is not None:
            indexes = [number(r) for r in range(trip)]
        elif host_only:
            indexes = [base]
        elif period > 1:
            start = counter.start if counter is not None and counter.start is not None else ZERO
            if counter is not None and counter.step != 1:
                counter = replace(counter, scale=counter.step)
            offset = number((start.constant or 0) // (1 if counter is None else counter.scale))
            indexes = [base * number(period) + offset + number(r) for r in range(period + 1)]
        elif not turns and self.strain > SHOWN and any(frame.iteration for frame in self.loop_stack):
            indexes = [base]  # what its rounds do to each other was seen in the first round of the loop around
        else:
            indexes = [base, base + ONE + gap]
        return self._iterate(stmt, state, counter, loop_id, indexes, concrete, period > 1, turns)

    def _iterate(
        self,
        stmt: ir.Loop,
        state: State,
        counter: Counter | None,
        loop_id: int,
        indexes: list[Poly],
        concrete: bool,
        periodic: bool,
        turns: frozenset[str],
    ) -> list[State]:
        frame = self.frame
        heads: list[Mapping[tuple[int, Path], Value]] = []  # what the variables that take turns held in each iteration
        states = [state]
        finished: list[State] = []
        left_early: list[State] = []
        endless = False
        told: set[int] = set()  # host functions that the loop waits for, by what they write
        asked: Value = Num(ZERO)  # what the loop goes on by, as it was asked last
        asking = range(0)  # the ops of that
        before = state.conditions
        lengths = {} if concrete else self.lengths(state)
        trip = counter.trip if counter is not None else None
        for iteration, index in enumerate(indexes):
            self.loop_stack.append(LoopFrame(loop_id, index, iteration))
            frame.breaks.append([])
            frame.continues.append([])
            entered: list[State] = []
            for s in states:
                if not concrete:
                    self._havoc(stmt, s, counter, turns)
                    done = None if counter is None else rounds_before(index, counter.start, counter.step)
                    self.lengths_at_head(stmt, s, lengths, done, iteration)
                if counter is not None:
                    self._set_counter(counter, index, s, concrete, iteration)
                if stmt.form == "range":
                    self._bind_target(stmt, s, index)
                if stmt.form == "for" and stmt.condition is None and not concrete:
                    endless = True
                if stmt.form in ("for", "while") and stmt.condition is not None:
                    self.sightings.clear()
                    first = len(self.ops)
                    test = asked = self.evaluate(stmt.condition, s)
                    asking = range(first, len(self.ops))
                    told |= set(self.sightings)
                    known = s.truth(test)
                    endless = known is True and isinstance(test, Num) and not concrete
                    if known is False and iteration > 0:
                        finished.append(s)
                        continue
                    s.assume(test, True)
                entered.append(s)
                self.loop_stack[-1].entered.add(s.conditions)
            if turns and entered:
                heads.append(held(entered[0], self.objects, turns))
            states = self.execute(stmt.body, entered)
            broken = frame.breaks.pop()
            states = self.join(states + frame.continues.pop(), keep=True)
            for s in broken:
                s.conditions = before
            finished += broken
            left_early += broken
            for s in states:
                if stmt.form == "do" and stmt.condition is not None:
                    self.sightings.clear()
                    first = len(self.ops)
                    asked = self.evaluate(stmt.condition, s)
                    asking = range(first, len(self.ops))
                    told |= set(self.sightings)
                for part in steps(stmt):
                    if counter is None or part is not counter.part:
                        self.evaluate(part, s)
            self._waits_for_all(states, index)
            self.loop_stack.pop()
            if not states:
                break
            fresh_turn = bool(heads) and heads[-1] not in heads[:-1] and len(self.ops) < self.options.ops_per_halving
            if iteration == len(indexes) - 1 and fresh_turn and not concrete and len(indexes) <= MAX_PERIOD:
                indexes.append(index + ONE)  # until what took turns is where it was
        after = indexes[-1] + ONE if periodic else None
        if not endless or not finished:
            finished += self._over(stmt, counter, states, after)
        if turns and not concrete:
            one_way = len(finished) == 1 and not left_early and trip is not None
            for s in finished:
                now = held(s, self.objects, turns)
                self._havoc(stmt, s, counter)
                settle(s, [*heads, now], trip.constant if one_way and trip is not None else None)
        if not concrete:
            self.lengths_after(stmt, finished, lengths, trip)
        query = decisive_query(stmt.condition) if stmt.condition is not None else None
        for s in finished:
            if query is not None and not query[1] and not any(s is b for b in left_early):
                self.learn_from_query(query[0], s)  # W4: the loop ends when the query succeeds
            if not any(s is b for b in left_early):
                self.learn_from_answers(self._asked_again(stmt, s, asked), False, s, asking)
            if told and not any(s is b for b in left_early):
                for op in sorted(told):
                    self.learn(s, op)  # W5
            s.conditions = before
            if counter is not None:
                self._leave_counter(counter, s, stmt)
        return self.join(finished, keep=False)

    def _asked_again(self, stmt: ir.Loop, state: State, asked: Value) -> Value:
        """What the loop goes on by behind its last round, when that is looked up in variables of the function; else as it
        was asked last."""
        if stmt.condition is None or not self.answers:
            return asked
        nodes = list(ir.walk(stmt.condition))
        names = [n.name for n in nodes if isinstance(n, ir.Name)]
        quiet = all(isinstance(n, ir.Name | ir.Const | ir.Unary | ir.Binary | ir.Cast) for n in nodes)
        if quiet and any(self.variable(name) is not None for name in names):
            return self.evaluate(stmt.condition, state)
        return asked

    def _over(self, stmt: ir.Loop, counter: Counter | None, states: list[State], after: Poly | None) -> list[State]:
        """The states that can leave the loop at its head, now that its condition fails (`after`: the next index)."""
        if counter is None or after is None or stmt.condition is None or stmt.form != "for":
            return states
        left = []
        for s in states:
            self._set_counter(counter, after, s, False, 0)
            test = self.evaluate(stmt.condition, s)
            if s.truth(test) is not True:
                s.assume(test, False)
                left.append(s)
        return left or states

    # ------------------------------------------------------------------------------------------------------ the header

    def _loop_id(self, stmt: ir.Loop, counter: Counter | None, trip: int | None, unrolled: bool) -> int:
        site = self.site((stmt.span[0], stmt.body.span[0]))
        key = (site, self.frame.calls, self.instance())
        known = self._loops.get(key)
        if known is None:
            known = self._loops[key] = len(self.loops)
            parent = self.innermost_loop
            poly = counter.trip if counter is not None else None if trip is None else number(trip)
            self.loops.append(LoopInfo(known, site, parent, self.frame.calls, poly, unrolled))
        return known

    def _counter(self, stmt: ir.Loop, state: State) -> Counter | None:
        """The counter of a `for` loop of the usual form (and of Python's `for i in range(...)`)."""
        if stmt.form == "range" and stmt.target is not None and isinstance(stmt.iterable, ir.Call):
            callee = stmt.iterable.callee
            if isinstance(callee, ir.Name) and callee.name == "range" and stmt.iterable.args:
                values = [self.evaluate(a, state) for a in stmt.iterable.args]
                polys = [v.value if isinstance(v, Num) else None for v in values]
                start = ZERO if len(polys) == 1 else polys[0]
                stop = polys[0] if len(polys) == 1 else polys[1]
                step = 1 if len(polys) < 3 else (polys[2].constant if polys[2] is not None else None)
                if step is None or step == 0:
                    return None
                trip = divide(stop - start, number(step)) if start is not None and stop is not None else None
                return Counter(stmt.target.name, start, step, trip)
            return None
        parts = steps(stmt) if stmt.form == "for" else []
        found = [counter for part in parts if (counter := self._counting(stmt, part, state)) is not None]
        if len(parts) > 1:
            found = [counter for counter in found if counter.trip is not None]
        return found[0] if found else None

    def _counting(self, stmt: ir.Loop, part: Expr, state: State) -> Counter | None:
        """The counter that a part of the step moves on."""
        if not isinstance(part, ir.Assign) or not isinstance(part.target, ir.Name) or part.op not in ("+", "-"):
            return None
        step_value = self.evaluate(part.value, state)
        if not isinstance(step_value, Num) or not step_value.value.constant:
            return None
        step = step_value.value.constant * (1 if part.op == "+" else -1)
        name = part.target.name
        place = self.variable(name)
        current = self.load(state, place) if place is not None else None
        if isinstance(current, Pointer):
            return None
        start = current.value if isinstance(current, Num) else None
        trip = self._trip(stmt.condition, name, start, step, state)
        return Counter(name, start, step, trip, part)

    def _trip(self, condition: Expr | None, name: str, start: Poly | None, step: int, state: State) -> Poly | None:
        if not isinstance(condition, ir.Binary) or start is None:
            return None
        left, right, op = condition.left, condition.right, condition.op
        if isinstance(right, ir.Name) and right.name == name and not (isinstance(left, ir.Name) and left.name == name):
            left, right = right, left
            op = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
        ahead: Value = Num(ZERO)
        if isinstance(left, ir.Binary) and left.op in ("+", "-") and isinstance(left.left, ir.Name):  # `i + 1 < n`
            if any(isinstance(part, ir.Name) and part.name == name for part in ir.walk(left.right)):
                return None  # `i + i < n`
            ahead = self.evaluate(left.right, state)
            ahead = Num(-ahead.value) if isinstance(ahead, Num) and left.op == "-" else ahead
            left = left.left
        if not isinstance(left, ir.Name) or left.name != name or op not in ("<", "<=", ">", ">=", "!="):
            return None
        bound = self.evaluate(right, state)
        if not isinstance(bound, Num) or not isinstance(ahead, Num):
            return None
        end = bound.value - ahead.value
        span = end - start if step > 0 else start - end
        if op in ("<=", ">="):
            span = span + ONE
        size = abs(step)
        return span if size == 1 else divide(span + number(size - 1), number(size))

    def _range_length(self, stmt: ir.Loop, state: State) -> int | None:
        if stmt.iterable is None:
            return None
        if isinstance(stmt.iterable, ir.InitList):
            return len(stmt.iterable.items)
        value = self._iterable(stmt.iterable, state)
        if isinstance(value, Instance) and self.is_map(value.object):
            keys = self.entries(state, value.object)
            return None if keys is None else len(keys)
        if isinstance(value, Instance):
            return self.count_of(state, value.object).constant
        if isinstance(value, Pointer):
            type = self.names.resolve(self.bound_type(self.type_of(value.place)))
            if type is not None and type.dims and type.dims[0] is not None:
                count = self.evaluate(type.dims[0], state)
                return count.value.constant if isinstance(count, Num) else None
        return None

    def _iterable(self, expr: Expr, state: State) -> Value:
        place, found = self.place_or_value(expr, state)
        if place is not None:
            return self.load(state, place)
        return self.evaluate(expr, state) if found is None else found

    def _through_kinds(self, stmt: ir.Loop, counter: Counter | None, state: State, trip: int) -> bool:
        """A loop over things of which each does something else: tasks, objects of several classes behind one base."""
        found: list[Expr] = [stmt.iterable] if stmt.iterable is not None else []
        for node in ir.walk(stmt.body) if counter is not None else ():
            if (
                isinstance(node, ir.Index)
                and isinstance(node.index, ir.Name)
                and counter
                and node.index.name == counter.name
            ):
                found.append(node.base)
        for expr in found:
            place = self.locate(expr, state) if isinstance(expr, ir.Name | ir.Member) else None
            value = self.load(state, place) if place is not None else None
            held = state.below(Place(value.object)) if isinstance(value, Instance) else ()
            kinds = [self._kind(v) for path, v in held if len(path) == 1 and isinstance(path[0], Poly)]
            if len(kinds) == trip and None not in kinds and len(set(kinds)) > 1:
                return True
        return False

    def _kind(self, value: Value) -> object:
        """What is the same for two things that do the same."""
        match value:
            case Closure(node=node, function=function):
                return function, node.span
            case Code(uids=uids):
                return uids
            case Pointer():
                place = self.pointed(value, State())
                record = self.names.record(self.names.resolve(self.type_of(place))) if place is not None else None
                return record.name if record is not None else None
        return None

    def _bind_target(self, stmt: ir.Loop, state: State, index: Poly) -> None:
        """`for (T& x : items)`: x is the element at the loop's index."""
        if stmt.target is None or stmt.iterable is None:
            return
        target = stmt.target
        if isinstance(stmt.iterable, ir.InitList) and index.constant is not None:
            items = stmt.iterable.items
            if index.constant < len(items):
                self._bound(target, items[index.constant], self.outcomes(items[index.constant], state))
                return
        value = self._iterable(stmt.iterable, state)
        if isinstance(stmt.iterable, ir.Call) and self._is_range(stmt.iterable):
            return  # a counter, set elsewhere
        element = self.element_of(value, index, state) if isinstance(value, Pointer | Instance) else None
        if isinstance(value, Instance) and self.is_map(value.object):
            keys = self.entries(state, value.object) if index.constant is not None else None
            step = index if keys is None or index.constant is None else keys[index.constant]
            element = self.entry(state, value.object, step)
        if element is None:
            self.bind_local(target.name, target.type, target.span, Unknown(self.fresh(target.name)), state)
        elif target.type.reference or self.frame.function.language == "python":
            self.frame.scopes[-1][target.name] = element
        else:
            self.bind_local(target.name, target.type, target.span, self.load(state, element), state, moved=True)

    @staticmethod
    def _is_range(call: ir.Call) -> bool:
        return isinstance(call.callee, ir.Name) and call.callee.name == "range"

    def _set_counter(self, counter: Counter, index: Poly, state: State, concrete: bool, iteration: int) -> None:
        value = index if counter.scale == 1 else index * number(counter.scale)
        if concrete and counter.start is not None:
            value = counter.start + number(counter.step * iteration)
        place = self.variable(counter.name)
        if place is None or (not place.path and self.objects[place.object].origin == "global"):
            scope = self.frame.scopes[-1]
            if counter.name not in scope:  # Python: the loop declares it
                place = self.new_local(counter.name, ir.TypeRef("int"), (0, 0), state)
        if place is not None:
            state.store(place, Num(value))

    def _leave_counter(self, counter: Counter, state: State, stmt: ir.Loop) -> None:
        place = self.variable(counter.name)
        if place is None:
            return
        if counter.trip is not None and counter.start is not None:
            state.store(place, Num(counter.start + counter.trip * number(counter.step)))
        else:
            state.store(place, Num(symbol(self.fresh(counter.name))))

    # -------------------------------------------------------------------------------------------------------- the body

    def _host_only(self, stmt: ir.Loop) -> bool:
        """Whether no device work can be reached from the loop."""
        known = self._host_loops.get(id(stmt))
        if known is None:
            own = {node.name for node in ir.walk(stmt) if isinstance(node, ir.Declare)}
            known = not any(self._reaches(node, own) for node in ir.walk(stmt))
            self._host_loops[id(stmt)] = known
        return known

    def _reaches(self, node: ir.Expr | ir.Stmt, own: set[str]) -> bool:
        """`own`: the variables of the loop."""
        match node:
            case ir.Launch():
                return True
            case ir.Api(kind=kind):
                return kind is not ir.ApiKind.NEUTRAL
            case ir.Construct(type=type) | ir.New(type=type) | ir.Declare(type=type) if self._constructs(type):
                return True
            case ir.Call(callee=ir.Name(template=given)) if any(self._constructs(t) for t in given):
                return True  # `make_unique<Stream>()`
            case ir.Call(callee=ir.Name(name=name)) if is_algorithm(name):
                return True
            case ir.Call(callee=ir.Name(name=name)) | ir.Call(callee=ir.Member(name=name)):
                uids = self.program.by_name.get(name.rsplit("::", 1)[-1], ())
                if not uids and isinstance(node.callee, ir.Name):
                    return name in own or self.variable(name) is not None  # a lambda, or a function that was handed in
                return any(u in self.program.reaches_cuda for u in uids) or (not uids and name in self.task_fields)
            case ir.Call():
                return True
        return False

    def _constructs(self, type: ir.TypeRef | Expr) -> bool:
        """A class, or a container or owner of one, whose constructors do CUDA work."""
        if isinstance(type, ir.Name):
            type = ir.TypeRef(type.name)
        named = self.names.resolve(type) if isinstance(type, ir.TypeRef) else None
        if named is None or named.pointer:
            return False
        uids = self.program.by_name.get(named.name.rsplit("::", 1)[-1], ())
        return any(u in self.program.reaches_cuda for u in uids) or any(self._constructs(a) for a in named.args)

    @cached_property
    def _host_loops(self) -> dict[int, bool]:
        return {}

    def _turning(self, stmt: ir.Loop) -> frozenset[str]:
        known = self._turning_memo.get(id(stmt))
        if known is None:
            known = self._turning_memo[id(stmt)] = turning(self.program, stmt, self._given_for)
        return known

    def _given_for(self, parameter: str) -> Sequence[TypeRef]:
        named = any(parameter in f.template for f in self.program.functions.values())
        return self._template_arguments.get(parameter, ()) if named else ()

    @cached_property
    def _template_arguments(self) -> dict[str, list[TypeRef]]:
        return template_arguments(self.program)

    @cached_property
    def _turning_memo(self) -> dict[int, frozenset[str]]:
        return {}

    def _havoc(self, stmt: ir.Loop, state: State, counter: Counter | None, turns: frozenset[str] = frozenset()) -> None:
        """Numbers that the loop changes are unknown at the head of an arbitrary iteration; handles keep their value,
        so that what two iterations exchange (ping-pong pointers) is followed, and so do numbers that take turns."""
        for name in self._assigned(stmt):
            place = self.variable(name)
            if place is None or name in turns or (counter is not None and name == counter.name):
                continue
            place = self.follow(state, place)
            value = state.load(place)
            if isinstance(value, Num):
                state.store(place, Num(merged_number(value.value, ZERO, self.fresh(name))))
            elif isinstance(value, Truth | Unknown):
                state.store(place, Unknown(self.fresh(name)))
            elif isinstance(value, Pointer) and value.index is not None and name in self._stepped(stmt):
                state.store(place, replace(value, index=None))

    def _assigned(self, stmt: ir.Loop) -> tuple[str, ...]:
        """What the loop changes, in the order of the text: what is made up for it is named the same in every run."""
        known = self._assigned_memo.get(id(stmt))
        if known is None:
            names: dict[str, None] = {}
            for node in ir.walk(stmt):
                if isinstance(node, ir.Assign) and isinstance(node.target, ir.Name):
                    names[node.target.name] = None
                elif isinstance(node, ir.AddressOf) and isinstance(node.operand, ir.Name):
                    names[node.operand.name] = None
            known = self._assigned_memo[id(stmt)] = tuple(names)
        return known

    def _stepped(self, stmt: ir.Loop) -> frozenset[str]:
        """Pointers that the loop moves (`p += n`)."""
        return frozenset(
            n.target.name
            for n in ir.walk(stmt)
            if isinstance(n, ir.Assign) and n.op in ("+", "-") and isinstance(n.target, ir.Name)
        )

    @cached_property
    def _assigned_memo(self) -> dict[int, tuple[str, ...]]:
        return {}

    # ----------------------------------------------------------------------------------------------- waits for a family

    def _waits_for_all(self, states: list[State], index: Poly) -> None:
        """A loop that waits for `streams[i]` (or `events[i]`) in every iteration waits for the whole family when it is
        over: what iteration i did for its own member is done for all of them."""
        frame = self.loop_stack[-1]
        for op, kind, handle, conditions in frame.waits:
            if conditions not in frame.entered:
                continue  # under a condition of its own: not in every iteration
            for state in states:
                if state.conditions[: len(conditions)] != conditions:
                    continue
                done = Done()
                tails: list[int] = []
                for member in self._family(kind, handle, index):
                    if kind == "stream":
                        more, ends = self.machine.stream_work(state.order, member)
                    else:
                        more, ends = self.machine.event_work(state.order, member)
                    done |= more
                    tails += ends
                if done.must or done.may:
                    host_tail = state.order.host_tail
                    self.edges += self.machine.host_waits_for(state.order, op, done, tuple(dict.fromkeys(tails)))
                    if host_tail and host_tail[-1] > op:
                        state.order.host_tail = host_tail
                    waits = self.ops[op].waits | (done.must & ~(1 << op))
                    self.ops[op] = replace(self.ops[op], waits=waits)

    def _family(self, kind: str, handle: int, index: Poly) -> list[int]:
        """The streams (events) that differ from `handle` only in the iteration they were created in."""
        table = self.streams if kind == "stream" else self.events
        me = table[handle]
        out = []
        for other in table:
            if other.id == handle or other.site != me.site or other.calls != me.calls or other.site is None:
                continue
            if len(other.instance) != len(me.instance):
                continue
            differing = [a for a, b in zip(me.instance, other.instance, strict=True) if a != b]
            if differing and all(d == index for d in differing):
                out.append(other.id)
        return out
