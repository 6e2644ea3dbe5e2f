"""Statements of a kernel in all lanes, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from stitchcuda.analysis.kernel.arithmetic import LOADED, Step
from stitchcuda.analysis.kernel.calls import Calls
from stitchcuda.analysis.kernel.intrinsics import MEETINGS, SYNCHRONISING
from stitchcuda.analysis.kernel.lanes import ONE, Form, number
from stitchcuda.analysis.kernel.model import UNKNOWN_ROUNDS, Barrier, BarrierKind, Guard, Mask, Uniformity
from stitchcuda.analysis.kernel.rounds import Course, Round, course, later, moved, stands
from stitchcuda.analysis.kernel.state import NO_TYPE, Binding, Budget, Frame, is_volatile
from stitchcuda.analysis.kernel.values import (
    UNKNOWN,
    Cell,
    Decision,
    Place,
    Value,
    is_float,
    wider,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.cuda.platforms import compiled
from stitchcuda.analysis.program.device.environment import is_scalar
from stitchcuda.analysis.program.device.known_calls import bare, is_atomic

_PREFIX = {Uniformity.BLOCK: "u", Uniformity.WARP: "^", Uniformity.DATA: LOADED}
ROUNDS = 64  # of a loop whose end is known
MEETING_ROUNDS = (
    3  # of a loop whose end is not known and in which threads meet: a pipeline of three stages comes around
)


class KernelWalk(Calls):
    complete = True

    def kernel(self, function: ir.Function, template: dict[str, Form | ir.TypeRef]) -> None:
        """Walks a kernel; `complete` tells afterwards whether its end was reached."""
        self.reach(function)
        self.frames.append(Frame(function, [{}], (), template))
        scope: dict[str, Binding] = self.frames[0].scopes[0]
        for param in function.params:
            type_ = self.resolved(param.type)
            if type_.dims and not type_.reference:
                type_ = replace(type_, pointer=type_.pointer + 1, dims=())
            scope[param.name] = self.parameter_cell(type_, param.name)
        assert function.body is not None
        try:
            self.statement(function.body)
        except (Budget, RecursionError):
            self.complete = False

    def statement(self, node: ir.Stmt) -> None:
        if not self.active:
            return
        self.step()
        self.mark(node.span)
        match node:
            case ir.Declare():
                self._declare(node)
            case ir.Evaluate(
                expr=ir.Binary(
                    op=">", left=ir.Binary(op="<"), right=ir.Assign(op="", target=ir.Name(name=name)) as made
                )
            ) if self.find(name) is None:
                # `ns::type<8> name = value;` reads like two comparisons
                self._declare(ir.Declare(node.span, name, ir.TypeRef("auto"), made.value, name_span=made.target.span))
            case ir.Evaluate(expr=ir.Name(name=name) as bare) if name.isupper() and not self.locations(bare):
                # `SYNC;`: a macro of the file that includes this one, which may stand for a barrier
                self.barrier(BarrierKind.NAMED, name, node.span)
            case ir.Evaluate(expr=ir.Assign(op="", target=ir.Index(base=ir.Cast() | ir.Call() as base)) as made) if (
                declared := self._row_declared(node.span, base, made.value)
            ) is not None:
                self._declare(declared)
            case ir.Evaluate(expr=expr):
                self.value(expr)
            case ir.Block(body=body, scope=scope):
                if scope:
                    self.frame.scopes.append({})
                try:
                    for inner in body:
                        self.statement(inner)
                finally:
                    if scope:
                        self.frame.scopes.pop()
            case ir.If():
                self._if(node)
            case ir.Loop():
                self._loop(node)
            case ir.Switch():
                self._switch(node)
            case ir.Return(value=value):
                self._return(value)
            case ir.Break():
                self.frame.exits.broken |= self.active
                self.active = 0
            case ir.Continue():
                self.frame.exits.continued |= self.active
                self.active = 0
            case ir.Goto():
                raise Budget
            case ir.PreprocIf():
                self._preprocessed(node)
            case ir.Try(body=body):
                self.statement(body)
            case ir.Throw() | ir.Label():
                pass

    def _row_declared(self, span: ir.Span, base: ir.Cast | ir.Call, init: ir.Expr) -> ir.Declare | None:
        """`float(*row)[33] = tile[k];` reads like an assignment to an element of what is cast."""
        given = base.operand if isinstance(base, ir.Cast) else base.args[0] if len(base.args) == 1 else None
        if not isinstance(given, ir.Deref | ir.AddressOf) or not isinstance(given.operand, ir.Name):
            return None
        name = given.operand
        if self.find(name.name) is not None:
            return None
        type_ = ir.TypeRef("auto", reference=isinstance(given, ir.AddressOf))
        return ir.Declare(span, name.name, type_, init, name_span=name.span)

    def _return(self, value: ir.Expr | None) -> None:
        frame = self.frame
        if value is not None:
            result = self._returned(value, frame)
            if frame.returned is None:
                frame.returned = result
            elif not self.active & frame.returned_lanes:
                frame.returned = self.chosen(self.active, result, frame.returned)
            else:
                frame.returned = self.joined(frame.returned, result, None)
            frame.returned_lanes |= self.active
        frame.exits.done |= self.active
        self.active = 0

    def _returned(self, value: ir.Expr, frame: Frame) -> Value:
        if frame.function.returns.reference and isinstance(value, ir.Index | ir.Deref | ir.Member | ir.Name):
            found = [x if isinstance(x, Place) else Place(x, None) for x in self.locations(value)]
            if found and all(isinstance(x, Place) and not isinstance(x.target, Cell) for x in found):
                return Value(places=tuple(found))
        return self.value(value)

    def _declare(self, node: ir.Declare) -> None:
        scope = self.frame.scopes[-1]
        if node.space == "shared":
            scope[node.name] = self.shared(node)
            return
        if node.static and node.space == "" and any(d is None for d in node.type.dims):
            return
        init = node.init
        type_ = self.resolved(node.type)
        if type_.dims and type_.pointer and isinstance(init, ir.Index | ir.Name | ir.Member | ir.Binary | ir.AddressOf):
            type_ = ir.TypeRef("auto")  # `T (*row)[n] = ...`: an array would have a list
        if type_.reference and init is not None:
            found = self.locations(init)
            if found:
                scope[node.name] = found if len(found) > 1 else found[0]
                return
        cell = self.new_cell(type_)
        if type_.dims:
            cell.array, cell.dims = True, self.dims(type_)
            self.arrays.append(cell)
        value = UNKNOWN
        if init is not None:
            if isinstance(init, ir.Construct) and not is_scalar(init.type) and init.type.name == node.type.name:
                value = self._constructed(init, cell)
            else:
                value = self.value(init)
        if type_.name == "auto" and value.number is None and value.places:
            cell.type = replace(type_, pointer=max(1, type_.pointer))
        if init is not None and _countable(type_) and value == Value(spread=value.spread):
            # a number that is not followed: from here on it has a name
            value = replace(value, number=self.math.fresh(_PREFIX.get(value.spread, "~")))
        scope[node.name] = cell
        if value.places and is_volatile(self._declaration(node)):
            value = replace(value, places=tuple(replace(p, volatile=True) for p in value.places))
        if value != UNKNOWN:
            self._initialise(cell, self._as_declared(value, type_) if type_.name != "auto" else value, type_)

    def _initialise(self, cell: Cell, value: Value, type_: ir.TypeRef) -> None:
        listed = value.record
        if listed is not None and listed.array and not cell.array:
            record = self.program.records.get(type_.name)
            names = [f.name for f in record.fields] if record is not None else list("xyzw")
            for position, name in enumerate(names):
                if position in listed.elements:
                    inner = self.member(cell, name)
                    if isinstance(inner, Cell):
                        self.assign(inner, listed.elements[position].value)
            if len(listed.elements) == 1 and _countable(type_):
                self.assign(cell, listed.elements[0].value)
            return
        if listed is not None and cell.array:
            for position, element in listed.elements.items():
                inner = Cell(replace(cell.type, dims=()), element.value, cell.lanes)
                cell.elements[position] = inner
            return
        self.assign(cell, value)

    def _constructed(self, init: ir.Construct, cell: Cell) -> Value:
        return self.construct(init.type, init.args, init.span)

    def _if(self, node: ir.If) -> None:
        self.frame.scopes.append({})
        try:
            if node.init is not None:
                self.statement(node.init)
            decision = self.decide(node.condition)
            otherwise = node.otherwise
            self.fork(
                decision,
                lambda: self.statement(node.then),
                lambda: self.statement(otherwise) if otherwise is not None else None,
            )
        finally:
            self.frame.scopes.pop()

    # ------------------------------------------------------------------------------------------------------------ loops

    def _loop(self, node: ir.Loop) -> None:
        self.frame.scopes.append({})
        if node.init is not None:
            self.statement(node.init)
        if node.iterable is not None:
            self.value(node.iterable)
        if node.target is not None:
            self._declare(replace(node.target, init=None))
            bound = self.frame.scopes[-1].get(node.target.name)
            if isinstance(bound, Cell):
                bound.value = self._element_of(node.iterable)
        if _spins(node):
            self.uses_locks = True
        exits = self.frame.exits
        outer_exits = (exits.broken, exits.continued)
        exits.broken = exits.continued = 0
        added = len(self.guards)
        entry, left = self.active, 0
        outer_log = self._log
        log: dict[Cell, Value] = {}
        self._log = log
        site = self.site(node.span)
        unknown_rounds = rounds = 0
        most = self._most_unknown(node)
        open_guard: Guard | None = None
        self.loops.append((site, 0))
        history: list[Round] = []
        watched, born = self._is_counted(node), self.new_cell(NO_TYPE).born
        outermost = self.math.trail is None
        if outermost:
            self.math.trail = []
        try:
            while self.active:
                self.loops[-1] = (site, rounds)
                decision = Decision(self.active, 0)
                if node.condition is not None and (node.form != "do" or rounds):
                    self.looping = True
                    decision = self.decide(node.condition)
                    self.looping = False
                elif node.condition is None and node.form == "range":
                    guard = Guard(site, f"range {site.span}", True, Uniformity.BLOCK, None, True)
                    decision = Decision(0, 0, (guard,), (replace(guard, holds=False),))
                elif node.condition is None and rounds > most:
                    break
                going = self.active & ~decision.no
                open_lanes = going & ~decision.yes
                left |= self.active & ~going
                self.active = going
                if not going:
                    break
                if open_lanes:
                    if unknown_rounds >= most:
                        break
                    unknown_rounds += 1
                    guards = tuple(replace(g, loop=True) for g in decision.when_true)
                    open_guard = max(guards, key=lambda g: list(Uniformity).index(g.uniformity))
                    standing = len(self.guards)
                    self.guards.extend(guards)
                    left |= self.active & self.excluded(guards, standing)
                    self.active &= ~self.excluded(guards, standing)
                    if not self.active:
                        break
                begun, inside = self._begun(), len(self.guards)
                self.statement(node.body)
                self.active |= exits.continued
                exits.continued = 0
                self._back(inside)
                if node.step is not None and self.active:
                    self.value(node.step)
                rounds += 1
                if watched and open_guard is None:
                    history.append(self._round(log, begun))
                    if len(history) > 1:
                        rounds += self._left_out(node, log, history, born, ROUNDS + 1 - rounds)
                if rounds > ROUNDS or open_guard is None and rounds > most and self._guarded_leave(added):
                    break
        finally:
            if outermost:
                self.math.trail = None
            self.loops.pop()
            self._log = outer_log
            if outer_log is not None:
                for cell, value in log.items():
                    outer_log.setdefault(cell, value)
        self.active |= left | exits.broken
        self.active &= entry
        del self.guards[added:]
        exits.broken, exits.continued = outer_exits
        if open_guard is not None or rounds > ROUNDS:
            for cell, value in log.items():
                cell.value = self._blurred(value, cell.value, cell, open_guard)
        self.frame.scopes.pop()

    def _element_of(self, iterable: ir.Expr | None) -> Value:
        """An element of what a loop goes over: of an object, such as the range of a grid-stride loop, each thread has its own."""
        arrays = self._quiet_locations(iterable) if iterable is not None else ()
        if isinstance(iterable, ir.InitList) or arrays and all(x.dims for x in arrays):
            return Value(self.math.fresh("u"))
        return Value(self.math.fresh("~"), spread=Uniformity.DATA)

    def _is_counted(self, node: ir.Loop) -> bool:
        """Its condition does nothing but compare numbers."""
        return node.condition is not None and all(
            isinstance(n, ir.Name | ir.Const | ir.Binary | ir.Unary | ir.Cast | ir.Member)
            for n in ir.walk(node.condition)
        )

    def _begun(self) -> tuple[int, ...]:
        return len(self.math.trail or ()), len(self.arrays), len(self.filled), len(self.events), len(self.marks)

    def _round(self, log: dict[Cell, Value], begun: tuple[int, ...]) -> Round:
        trail, arrays, filled, events, marks = begun
        exits = self.frame.exits
        return Round(
            {cell: cell.value for cell in log},
            (self.math.trail or [])[trail:],
            self.active,
            (exits.done, exits.broken, exits.continued),
            self.events[events:],
            self.marks[marks:],
            len(self.guards),
            not set(self.filled[filled:]).issubset(self.arrays[arrays:]),
        )

    def _left_out(self, node: ir.Loop, log: dict[Cell, Value], history: list[Round], begun: int, most: int) -> int:
        """How many rounds are left out, at most so many: the variables are what they are after them."""
        start = {**log, **history[-3].values} if len(history) > 2 else log
        found, last = course(start, begun, history[-2], history[-1]), history[-1]
        if found is None or node.condition is None or most < 1:
            return 0
        condition, trail = node.condition, len(self.math.trail or ())

        def goes_on(count: int) -> bool:
            """So many rounds take place."""
            if not self._set(found, count - 1) or not all(self._alike(step, by, count) for step, by in found.margins):
                return False
            self.looping = True
            decision = self.decide(condition)
            self.looping = False
            return decision.yes == self.active

        low, high = 0, most + 1
        if goes_on(1):
            low = most if goes_on(most) else 1
            while high - low > 1 and low < most:
                middle = (low + high) // 2
                low, high = (middle, high) if goes_on(middle) else (low, middle)
        if not self._set(found, low):
            low -= 1
            self._set(found, max(0, low))
        if self.math.trail is not None:
            del self.math.trail[trail:]
        if low < 1:
            return 0
        for cell, before, after in found.loose:
            spread = wider(self.spread_of(before), self.spread_of(after))
            cell.value = replace(after, number=self.unknown_number(spread, before, after))
        self._write_down(found, last, low)
        history.clear()
        return low

    def _set(self, found: Course, count: int) -> bool:
        """Gives variables the values that they have so many rounds later."""
        for cell, before, after in found.moving:
            value = later(cell, before, after, count)
            if value is None:
                return False
            cell.value = value
        return True

    def _write_down(self, found: Course, last: Round, count: int) -> None:
        """The events of rounds that are not walked; where there is no room for all, of some from first to last."""
        size = sum(stands(event) for event, _, _ in found.events)
        shown = min(count, self.room // size) if size else 0
        if not any(by.terms for event, by, _ in found.events if stands(event)):
            shown = 0  # nothing new
        commits = sum(isinstance(e, Barrier) and e.kind is BarrierKind.COMMIT for e, _, _ in found.events)
        start = len(self.events) - len(last.events)
        chosen = {1 + k * count // shown for k in range(shown)} | {count}
        for rounds in sorted(chosen):
            marks = iter(last.marks)
            mark = next(marks, None)
            for position, (event, by, value) in enumerate(found.events):
                while mark is not None and mark.at - start <= position:
                    self.marks.append(mark._replace(at=len(self.events)))
                    mark = next(marks, None)
                if rounds == count or stands(event):
                    self.events.append(moved(event, len(self.events), by, value, rounds, commits))
            while mark is not None:
                self.marks.append(mark._replace(at=len(self.events)))
                mark = next(marks, None)
        self.commits += commits * count

    def _alike(self, step: Step, by: Form, rounds: int) -> bool:
        """The condition is decided the same way so many rounds later, and has been all the time."""
        moved = by * number(rounds)
        if moved is None:
            return False
        margin = step.left + moved
        lanes = step.yes | step.no
        first, last = self.math.sign(step.left), self.math.sign(margin)
        if step.what == "==" and (step.yes or self._signs(step.left, lanes) != self._signs(margin, lanes)):
            return False
        return first[0] & lanes == last[0] & lanes and first[1] & lanes == last[1] & lanes

    def _signs(self, value: Form, lanes: Mask) -> tuple[Mask, Mask]:
        above, below = self.math.sign(value - ONE)[0] & lanes, self.math.sign(value)[1] & lanes
        return above, below

    def _back(self, inside: int) -> None:
        """Lanes that left a round by `continue` are there in the next one."""
        if len(self.guards) > inside:
            self.guards[inside:] = [g for g in self.guards[inside:] if g.leaves != "round"]

    def _guarded_leave(self, added: int) -> bool:
        """Some lanes may have left this loop under a condition that is not known: it does not go on for ever."""
        return any(g.leaves for g in self.guards[added:])

    def _blurred(self, before: Value, after: Value, cell: Cell, guard: Guard | None) -> Value:
        """A variable after a number of rounds that is not known."""
        if before == after:
            return after
        numbered = before.number is not None or after.number is not None or _countable(cell.type)
        merged = self.joined(before, after, guard)
        if numbered and merged.number is None and not merged.places and not is_float(cell.type.name):
            decided = guard.uniformity if guard is not None else Uniformity.BLOCK
            spread = wider(decided, self.spread_of(before), self.spread_of(after))
            return replace(merged, number=self.unknown_number(spread))
        return merged

    def _most_unknown(self, node: ir.Loop) -> int:
        for inner in ir.walk(node.body):
            if isinstance(inner, ir.Call):
                name = _called(inner)
                if name in MEETINGS and not name.startswith("__shfl") or SYNCHRONISING.search(name):
                    return MEETING_ROUNDS
        return UNKNOWN_ROUNDS

    # ---------------------------------------------------------------------------------------------------------- switches

    def _switch(self, node: ir.Switch) -> None:
        exits = self.frame.exits
        outer = exits.broken
        exits.broken = 0
        entry = self.active
        self.value(node.subject)
        matched = 0
        falling = 0
        added = len(self.guards)
        unknown = False
        default: ir.Case | None = None
        ended = 0
        for case in node.cases:
            if not case.labels:
                default = case
                continue
            decision = Decision(0, entry)
            for label in case.labels:
                self.active = entry
                one = self.decide(ir.Binary(label.span, "==", node.subject, label))
                decision = Decision(
                    decision.yes | one.yes,
                    decision.no & one.no,
                    (*decision.when_true, *one.when_true)[:1],
                    (*decision.when_false, *one.when_false)[:1],
                )
            open_lanes = entry & ~decision.yes & ~decision.no
            lanes = (entry & ~decision.no & ~matched) | falling
            matched |= decision.yes
            if open_lanes:
                unknown = True
                self.guards.extend(decision.when_true)
            self.active = lanes
            self._bodies(case.body, unknown)
            falling = 0 if open_lanes else self.active
            ended |= self.active
            del self.guards[added:]
        if default is not None:
            self.active = (entry & ~matched) | falling
            self._bodies(default.body, unknown)
            ended |= self.active
            del self.guards[added:]
        else:
            ended |= entry & ~matched
        self.active = (ended | exits.broken) & ~exits.done & entry
        if unknown:
            self.active = entry & ~exits.done
        exits.broken = outer

    def _bodies(self, body: Sequence[ir.Stmt], unknown: bool) -> None:
        """What a case leaves in variables is one of several when the subject is not known."""
        outer = self._log
        log: dict[Cell, Value] = {}
        if unknown:
            self._log = log
        done = self.frame.exits.done
        self.frame.scopes.append({})
        for statement in body:
            self.statement(statement)
        self.frame.scopes.pop()
        if unknown:
            self.frame.exits.done = done
            self._log = outer
            for cell, value in log.items():
                if outer is not None:
                    outer.setdefault(cell, value)
                kept, self.active = self.active, self.full
                cell.value = self._blurred(value, cell.value, cell, None)
                self.active = kept

    def _preprocessed(self, node: ir.PreprocIf) -> None:
        for text, block in node.branches:
            taken = compiled(text)
            if taken:
                for statement in block.body:
                    self.statement(statement)
                return
            if taken is None:
                break
        else:
            return
        site = self.site(node.span)
        start = self.active
        texts = [text for text, _ in node.branches]
        for position, (text, block) in enumerate(node.branches):
            taken = compiled(text)
            if taken is False:
                continue
            self.active = start
            added = len(self.guards)
            for k, condition in enumerate(texts[: position + 1]):
                self.guards.append(Guard(site, f"#if {condition}", k == position, Uniformity.BLOCK))
            names = self.frame.scopes[-1]
            for statement in block.body:
                self.statement(statement)
            del self.guards[added:]
            self.frame.scopes[-1] = names
            if taken:  # none of those that follow is
                break
        self.active = start & ~self.frame.exits.done


def _called(node: ir.Call) -> str:
    callee = node.callee
    return bare(callee.name) if isinstance(callee, ir.Name | ir.Member) else ""


def _spins(node: ir.Loop) -> bool:
    """A loop that waits for another thread: it polls an atomic or a volatile place."""
    parts: Iterator[ir.Expr | ir.Stmt] = iter((node.condition,)) if node.condition is not None else iter(())
    for part in parts:
        if any(isinstance(n, ir.Call) and is_atomic(_called(n)) for n in ir.walk(part)):
            return True
        empty = isinstance(node.body, ir.Block) and not node.body.body
        if empty and any(isinstance(n, ir.Index | ir.Deref | ir.Call) for n in ir.walk(part)):
            return True
    inner = list(ir.walk(node.body))
    counted = node.form == "for" and node.condition is not None and node.step is not None
    if counted and not any(isinstance(n, ir.Break | ir.Return | ir.Loop) for n in inner):
        return False  # one try for each element
    return any(
        isinstance(n, ir.Call) and _called(n) in ("atomicCAS", "atomicExch", "compare_exchange_strong") for n in inner
    )


def _countable(type_: ir.TypeRef) -> bool:
    return not type_.pointer and not type_.dims and is_scalar(type_) and not is_float(type_.name)
