"""Execution of IR statements on several groups of paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from stitchcuda.analysis.order.arithmetic import COMPARISONS, NULL, compare, key_of, narrowed, negate, short
from stitchcuda.analysis.order.cuda.queries import decisive_query
from stitchcuda.analysis.order.host import aggregates, statics
from stitchcuda.analysis.order.host.calls import Calls
from stitchcuda.analysis.order.host.construction import Outcome
from stitchcuda.analysis.order.host.names import CONTAINERS, plain
from stitchcuda.analysis.order.host.places import COUNTS
from stitchcuda.analysis.order.state import State, handles_differ, merge, order_differs
from stitchcuda.analysis.order.symbolic import ZERO, number
from stitchcuda.analysis.order.timeline import Condition, closing_brace
from stitchcuda.analysis.order.values import Identity, Instance, Num, Place, Pointer, Reference, Struct, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr, Site, Span, Stmt, TypeRef

ALIKE_CASES = 4  # cases of a `switch` that differ in template arguments only and are followed
SEEN = "#seen"  # a field of static objects that were made
MAX_ENTERED = 32  # groups of paths times cases of a `switch`


class Statements(Calls):
    """Layer of the executor: statements on several groups of paths."""

    _standing_for_others = 0  # how many of the cases that are being followed stand for others

    def loop(self, stmt: ir.Loop, states: list[State]) -> list[State]:
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------------------- bodies

    @property
    def path_limit(self) -> int:
        """How many groups of paths are kept apart: fewer when the entry has become large already."""
        halvings = max(len(self.ops) // self.options.ops_per_halving, int(self.strain))
        return max(2, self.options.max_paths >> halvings)

    def run_body(self, body: ir.Block, state: State) -> list[Outcome]:
        frame = self.frame
        states = self.execute(body, [state])
        for s in states:
            self._close(frame.scopes[-1], s, body.span)
        outcomes = [o for o in frame.returns if not o[0].dead]
        frame.returns = []
        outcomes += [(s, NULL) for s in states if not s.dead]
        return self.limited(outcomes)

    def limited(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Few enough outcomes: ways of ending that differ in nothing that matters are merged."""
        kept: list[Outcome] = []
        for state, value in outcomes:
            for k, (other, other_value) in enumerate(kept):
                alike = (
                    not order_differs(other, state) and _alike(value, other_value) and not handles_differ(other, state)
                )
                if alike or len(kept) >= self.path_limit:
                    merged = value if value == other_value else self._either(value, other_value)
                    kept[k] = (merge(other, state, self.fresh, self.number_from_before, forced=not alike), merged)
                    break
            else:
                kept.append((state, value))
        return kept

    def execute(self, stmt: Stmt, states: list[State]) -> list[State]:
        """The states that reach the end of the statement."""
        states = [s for s in states if not s.dead]
        if not states and not isinstance(stmt, ir.Block | ir.Label):
            return []
        match stmt:
            case ir.Block():
                return self._block(stmt, states)
            case ir.Evaluate(expr=expr):
                return [s for state in states for s, _ in self.outcomes(expr, state)]
            case ir.Declare():
                return [s for state in states for s in self._declare(stmt, state)]
            case ir.If():
                return self._if(stmt, states)
            case ir.Loop():
                return self.loop(stmt, states)
            case ir.Switch():
                return self._switch(stmt, states)
            case ir.Return(value=value):
                for state in states:
                    self._return(value, state, stmt)
                return []
            case ir.Break():
                if self.frame.breaks:
                    self.frame.breaks[-1] += states
                return []
            case ir.Continue():
                if self.frame.continues:
                    self.frame.continues[-1] += states
                return []
            case ir.Goto(label=label):
                self.frame.jumps.setdefault(label, []).extend(states)
                return []
            case ir.Label(name=name):
                return self.join(states + self.frame.jumps.pop(name, []), keep=False)
            case ir.Throw(value=value):
                for state in states:
                    if value is not None:
                        self.evaluate(value, state)
                    self.observe(state, "throw", stmt.span)
                return []
            case ir.Try(body=body, final=final):
                # handlers run when something failed: what they do is not part of the program's normal order
                states = self.execute(body, states)
                return states if final is None else self.execute(final, states)
            case ir.PreprocIf():
                return self._preprocessor(stmt, states)
        return states

    def _block(self, block: ir.Block, states: list[State]) -> list[State]:
        scopes = self.frame.scopes
        if block.scope:
            scopes.append({})
        for stmt in block.body:
            states = self.execute(stmt, states)
        if block.scope:
            names = scopes.pop()
            for state in states:
                self._close(names, state, block.span)
        return states

    def _close(
        self, scope: dict[str, Place], state: State, span: Span, kept: Value = NULL, returns: bool = False
    ) -> None:
        """The end of a scope, at its brace or where the function `returns`: its variables die, the newest first. What is
        returned (`kept`) lives on; the end of `main` is the end of the program."""
        whole = self.frame.function.body
        ends = len(self.frames) == 1 and self.frame.function.name == "main"
        last = ends and (whole is None or span == whole.span or span[0] == span[1])
        end = closing_brace(span)
        for name, place in reversed(list(scope.items())):
            if self._own_storage(name, place) and not (isinstance(kept, Struct) and kept.place.object == place.object):
                self.destroy(place, state, span if returns else end)
                if not last:
                    self.end_storage(place, state, end, kept)

    def _own_storage(self, name: str, place: Place) -> bool:
        """The variable itself, not another's that a reference or a capture names."""
        mine = not place.path and place.object in self.frame.own
        return mine and self.objects[place.object].identity.extra == name

    # -------------------------------------------------------------------------------------------------------- outcomes

    def outcomes(self, expr: Expr, state: State) -> list[Outcome]:
        """Like `evaluate`, but a call at the top keeps its different endings apart."""
        found: list[Outcome]
        match expr:
            case ir.Call():
                found = self.call_outcomes(expr, state)
            case ir.Unary(op="!", operand=operand):
                found = [(s, negate(v)) for s, v in self.outcomes(operand, state)]
            case ir.Cast(type=type, operand=operand):
                found = [(s, self.cast(v, type)) for s, v in self.outcomes(operand, state)]
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                found = []
                for s, test in self.outcomes(condition, state):
                    known = s.truth(test)
                    sides = [(s, known)] if known is not None else [(s.copy(), True), (s, False)]
                    for side, taken in sides:
                        side.assume(test, taken)
                        found.append((side, self.evaluate(then if taken else otherwise, side)))
                found = self.limited(found)
            case ir.Assign(value=ir.Call() | ir.Conditional() as value) if not self.assigns_object(expr, state):
                found = [(s, self.assign_value(expr, v, s)) for s, v in self.outcomes(value, state)]
            case ir.Binary(op="==" | "!=" as op, left=ir.Call() as left, right=right):
                found = []
                for s, v in self.outcomes(left, state):
                    found.append((s, compare(op, v, self.evaluate(right, s))))
            case _:
                found = [(state, self.evaluate(expr, state))]
        return [(s, v) for s, v in found if not s.dead]

    # ---------------------------------------------------------------------------------------------------- declarations

    def _declare(self, stmt: ir.Declare, state: State) -> list[State]:
        init = stmt.init
        if stmt.static and self.frame.function.language != "python":
            return self._static(stmt, state)
        if isinstance(init, ir.Opaque) and init.what == aggregates.BINDING and self._bind_part(stmt, init, state):
            return [state]
        if stmt.type.reference and init is not None:
            found, place = self._referred(init, state)
            if place is not None:
                self.frame.scopes[-1][stmt.name] = place
                return [state]
            if found is not None:
                return self._bound(stmt, init, found)
        if init is None:
            place = self.new_local(stmt.name, stmt.type, stmt.span, state)
            if (
                self.owns_objects(stmt.type) is None or self.frame.function.language != "python"
            ):  # where names begin empty
                self.construct(place, stmt.type, (), state, stmt.span)
            return [state]
        if isinstance(init, ir.Construct):
            place = self.new_local(stmt.name, stmt.type, stmt.span, state)
            self.construct(place, stmt.type, init.args, state, stmt.span)
            return [] if state.dead else [state]
        if isinstance(init, ir.InitList):
            place = self.new_local(stmt.name, stmt.type, stmt.span, state)
            self.initialise(place, stmt.type, init, state)
            return [] if state.dead else [state]
        return self._bound(stmt, init, self.outcomes(init, state))

    def _referred(self, expr: Expr, state: State) -> tuple[list[Outcome] | None, Place | None]:
        """What a reference to an expression refers to. The outcomes of a call, which happens once, when that is not known."""
        if not isinstance(ir.bare(expr), ir.Call | ir.Construct | ir.Api):
            return None, self.locate(expr, state)
        found = self.outcomes(expr, state)
        if not any(self.place_of_value(value) is not None for _, value in found):
            return found, None
        value = self.joined(found, state)
        return [(state, value)], self.place_of_value(value)

    def _owning(self, init: Expr) -> TypeRef | None:
        """The smart pointer with a deleter of its own that a function of the program returns."""
        if not isinstance(init, ir.Call) or not isinstance(init.callee, ir.Name):
            return None
        for function in self.meant(self.frame.function.path, init.callee.name, len(init.args), None)[:1]:
            given = function.returns
            type = self.names.resolve(given)
            if type is not None and plain(type.name) == "unique_ptr" and len(type.args) > 1 and not given.reference:
                return TypeRef(given.name, given.args)
        return None

    def _bound(self, stmt: ir.Declare, init: Expr, found: list[Outcome]) -> list[State]:
        out = []
        for after, value in found:
            if isinstance(value, Reference):
                value = self.load(after, value.place)
            moved = isinstance(init, ir.Call | ir.Api | ir.New)
            if stmt.type.name == "auto" and isinstance(value, Pointer) and (owner := self._owning(init)) is not None:
                stmt = replace(stmt, type=owner)
            type = self.names.resolve(stmt.type)
            if type is not None and isinstance(value, Struct):
                value = self._converted(value, type, stmt.span, after)
            value = narrowed(value, type)
            self.bind_local(stmt.name, stmt.type, stmt.span, value, after, moved=moved)
            if not after.dead:
                out.append(after)
        return out

    def _bind_part(self, stmt: ir.Declare, binding: ir.Opaque, state: State) -> bool:
        """`auto [a, b] = ...`: the name stands for a part of the variable behind it."""
        whole, position = binding.children
        place = self.locate(whole, state)
        if place is None or not isinstance(position, ir.Const) or not isinstance(position.value, int):
            return False
        held = self.load(state, place)
        if isinstance(held, Instance):
            found = Place(held.object, (number(position.value),))
        elif isinstance(held, Struct):
            type = self.names.resolve(self.bound_type(self.type_of(held.place)))
            field = aggregates.part(type, position.value, self.names)
            if field is None:
                return False
            found = held.place.field(field)
        elif isinstance(held, Pointer) and held.array and held.index == ZERO:
            found = held.place.element(number(position.value))
        else:
            return False
        self.frame.scopes[-1][stmt.name] = self.follow(state, found)
        return True

    def _static(self, stmt: ir.Declare, state: State) -> list[State]:
        """A static local keeps its value between calls: initialised once, on first sight."""
        frame = self.frame
        name = stmt.name + statics.bound_to(frame.function, frame.types)
        identity = Identity("global", frame.function.path, frame.function.uid, stmt.span[0], stmt.span[1], (), (), name)
        obj = self.object_for(identity, stmt.name, type=self.bound_type(stmt.type), origin="local")
        place = Place(obj.id)
        frame.scopes[-1][stmt.name] = place
        if next(state.below(place), None) is not None:
            return [state]
        if stmt.init is None:
            self._first_sight(place, stmt, state)
        elif isinstance(stmt.init, ir.Construct):
            self.construct(place, stmt.type, stmt.init.args, state, stmt.span)
        else:
            self.initialise(place, stmt.type, stmt.init, state)
        return [state]

    def _first_sight(self, place: Place, stmt: ir.Declare, state: State) -> None:
        """A static local without an initialiser: null, zero, or made by its default constructor."""
        type = self.names.resolve(self.bound_type(stmt.type))
        if type is None or type.dims:
            return
        if type.pointer or type.name in COUNTS:
            state.store(place, NULL)
        elif self.names.record(type) is not None:
            state.store(place.field(SEEN), NULL)
            self.construct(place, stmt.type, (), state, stmt.span)

    def _return(self, value: Expr | None, state: State, stmt: ir.Return) -> None:
        frame = self.frame
        if value is None:
            self._leave(state, NULL, stmt)
            frame.returns.append((state, NULL))
            return
        found = None
        if isinstance(value, ir.InitList) and (made := self._returned_list(value, state)) is not None:
            found = [(state, made)]
        elif frame.function.returns.reference:
            found, place = self._referred(value, state)
            if place is not None:
                self._leave(state, NULL, stmt)
                frame.returns.append((state, Reference(place)))
                return
        for after, result in self.outcomes(value, state) if found is None else found:
            if isinstance(result, Reference):
                result = self.load(after, result.place)
            if isinstance(result, Struct):
                result = self._converted(result, frame.function.returns, stmt.span, after)
            self._leave(after, result, stmt)
            frame.returns.append((after, result))

    def _returned_list(self, listed: ir.InitList, state: State) -> Value | None:
        """`return {a, b};` of a record, pair or container."""
        type = self.names.resolve(self.bound_type(self.frame.function.returns))
        if type is None or type.pointer or type.reference:
            return None
        known = aggregates.is_aggregate(type) or self.names.record(type) is not None or plain(type.name) in CONTAINERS
        return self.temporary(type, (listed,), state, listed.span) if known and listed.items else None

    def _leave(self, state: State, kept: Value, stmt: ir.Return) -> None:
        """The end of every open scope of the function; the returned object lives on."""
        for scope in reversed(self.frame.scopes):
            self._close(scope, state, stmt.span, kept, returns=True)

    # -------------------------------------------------------------------------------------------------------- branches

    def _if(self, stmt: ir.If, states: list[State]) -> list[State]:
        scopes = self.frame.scopes
        scopes.append({})
        if stmt.init is not None:
            states = self.execute(stmt.init, states)
        out: list[State] = []
        keep = self._recurs(stmt.condition)
        for state in states:
            for after, test in self.outcomes(stmt.condition, state):
                known = after.truth(test)
                if known is not None:
                    branch = stmt.then if known else stmt.otherwise
                    out += [after] if branch is None else self._decided(after, test, stmt, known, branch)
                    continue
                out += self._fork(after, test, stmt, keep)
        scopes.pop()
        return self.join(out, keep)

    def _decided(self, state: State, test: Value, stmt: ir.If, taken: bool, branch: ir.Stmt) -> list[State]:
        """A branch of which this round of a loop is known to take one side."""
        if not self.loop_stack:
            return self.execute(branch, [state])
        text = self.source_of(stmt.condition) or key_of(test)
        self.decided.append(Condition(self.site(stmt.condition.span), text, taken))
        try:
            return self.execute(branch, [state])
        finally:
            self.decided.pop()

    def _fork(self, state: State, test: Value, stmt: ir.If, keep: bool) -> list[State]:
        before = state.conditions
        no = state.copy()
        yes = state
        site = self.site(stmt.condition.span)
        yes.assume(test, True)
        no.assume(test, False)
        query = decisive_query(stmt.condition)
        if query is not None:
            self.learn_from_query(query[0], yes if query[1] else no)
        self.learn_from_answers(test, True, yes)
        self.learn_from_answers(test, False, no)
        text = self.source_of(stmt.condition) or key_of(test)
        yes.conditions = (*before, Condition(site, text, True))
        no.conditions = (*before, Condition(site, text, False))
        left = self.execute(stmt.then, [yes])
        right = [no] if stmt.otherwise is None else self.execute(stmt.otherwise, [no])
        if not left or not right:  # the other side left for good: what follows is not "under" the condition
            for s in left + right:
                s.conditions = before
            return left + right
        return self.join(left + right, keep)

    def join(self, states: list[State], keep: bool) -> list[State]:
        """Merges groups of paths that need not be told apart. With `keep`, ones that did different device work stay
        apart as long as their number allows."""
        kept: list[State] = []
        for state in states:
            if state.dead:
                continue
            for k, other in enumerate(kept):
                if not (keep and order_differs(other, state)) and not handles_differ(other, state):
                    kept[k] = merge(other, state, self.fresh, self.number_from_before)
                    break
            else:
                kept.append(state)
        return self.fewer(kept, self.path_limit)

    def fewer(self, states: list[State], most: int) -> list[State]:
        """No more groups of paths than these."""
        kept = list(states)
        while len(kept) > most:
            last = kept.pop()
            kept[-1] = merge(kept[-1], last, self.fresh, self.number_from_before, forced=True)
        return kept

    def _recurs(self, condition: Expr) -> bool:
        """Whether what the condition tests is tested elsewhere in the function too: then the branches are correlated, and
        merging them would invent paths."""
        function = self.frame.function
        counts = self._tested.get(function.uid)
        if counts is None:
            counts = self._tested[function.uid] = {}
            body = function.body
            for node in ir.walk(body) if body is not None else ():
                if isinstance(node, ir.If | ir.Loop | ir.Conditional) and node.condition is not None:
                    for test in _tests(node.condition):
                        counts[test] = counts.get(test, 0) + 1
        tests = self._tests_of.get(id(condition))
        if tests is None:
            tests = self._tests_of[id(condition)] = _tests(condition)
        return any(counts.get(test, 0) > 1 for test in tests)

    @cached_property
    def _tested(self) -> dict[str, dict[str, int]]:
        return {}

    @cached_property
    def _tests_of(self) -> dict[int, set[str]]:
        """By the `id` of conditions in the program, which stays."""
        return {}

    def _switch(self, stmt: ir.Switch, states: list[State]) -> list[State]:
        frame = self.frame
        out: list[State] = []
        states = self.fewer(states, max(1, MAX_ENTERED // max(1, len(stmt.cases))))
        for state in states:
            subject = self.evaluate(stmt.subject, state)
            starts = self._case_starts(stmt, subject, state)
            has_default = any(not c.labels for c in stmt.cases)
            frame.breaks.append([])
            flowing: list[State] = []
            kept, standing = self._told_apart(stmt, starts)
            waiting = {k: state.copy() for k in kept}
            for k, case in enumerate(stmt.cases):
                if k in waiting:
                    entered = waiting[k]
                    self._entered_at(stmt, subject, k, entered)
                    if len(starts) > 1:
                        text = f"{key_of(subject)} case {k}"
                        entered.conditions = (*entered.conditions, Condition(self.site(case.span), text, True))
                    flowing = [*flowing, entered]
                frame.scopes.append({})
                self._standing_for_others += k in standing
                for inner in case.body:
                    flowing = self.execute(inner, flowing)
                self._standing_for_others -= k in standing
                frame.scopes.pop()
            ended = flowing + frame.breaks.pop()
            if not starts or (len(starts) == len(stmt.cases) and len(starts) > 1 and not has_default):
                ended.append(state)
            for s in ended:
                s.conditions = state.conditions
            out += ended
        return self.join(out, keep=False)

    def _told_apart(self, stmt: ir.Switch, starts: list[int]) -> tuple[list[int], set[int]]:
        """Of many cases that call the same functions, with other template arguments only, the first few: each is followed
        into everything that it calls. Within one that stands for others, one stands for all. The second: those that
        stand for others."""
        if len(starts) <= ALIKE_CASES:
            return starts, set()
        most = 1 if self._standing_for_others else ALIKE_CASES
        kept: list[int] = []
        seen: dict[str, list[int]] = {}
        standing: set[int] = set()
        for k in starts:
            body = stmt.cases[k].body
            calls = [n for s in body for n in ir.walk(s) if isinstance(n, ir.Call | ir.Launch | ir.Api)]
            shape = " ".join(_shape(s.expr) if isinstance(s, ir.Evaluate) else type(s).__name__ for s in body)
            alone = not calls or not all(isinstance(n, ir.Call) for n in calls) or not self._leads_on(calls)
            alike = seen.setdefault(shape, [])
            if alone or len(alike) < most:
                kept.append(k)
                alike.append(k)
            else:
                standing.update(alike)
        if standing:
            self.cut(stmt.span, "cases that differ in template arguments only: the first ones stand for all")
        return kept, standing

    def _leads_on(self, calls: Sequence[ir.Expr | Stmt]) -> bool:
        """Whether one of the calls reaches CUDA."""
        names = [n.callee.name for n in calls if isinstance(n, ir.Call) and isinstance(n.callee, ir.Name)]
        found = (u for name in names for u in self.program.by_name.get(name.rpartition("::")[2], ()))
        return any(u in self.program.reaches_cuda for u in found)

    def _is_case(self, subject: Value, label: Expr, state: State) -> str:
        return short(f"{key_of(subject)}=={key_of(self.evaluate(label, state))}")

    def _entered_at(self, stmt: ir.Switch, subject: Value, entered: int, state: State) -> None:
        """Which case was taken is known when the same is asked again."""
        if isinstance(subject, Num) and subject.value.constant is not None:
            return
        for k, case in enumerate(stmt.cases):
            for label in case.labels:
                if k != entered or len(case.labels) == 1:
                    state.facts[self._is_case(subject, label, state)] = k == entered

    def _case_starts(self, stmt: ir.Switch, subject: Value, state: State) -> list[int]:
        """The cases at which execution can enter."""
        known = subject.value.constant if isinstance(subject, Num) else None
        if known is None:
            open_ones = []
            for k, case in enumerate(stmt.cases):
                facts = [state.facts.get(self._is_case(subject, label, state)) for label in case.labels]
                if True in facts:
                    return [k]
                if not facts or None in facts:
                    open_ones.append(k)
            return open_ones
        default = [k for k, c in enumerate(stmt.cases) if not c.labels]
        for k, case in enumerate(stmt.cases):
            for label in case.labels:
                value = self.evaluate(label, state)
                if isinstance(value, Num) and value.value.constant == known:
                    return [k]
        return default

    def _preprocessor(self, stmt: ir.PreprocIf, states: list[State]) -> list[State]:
        """Every branch of `#if` on paths of its own; one that was chosen stays chosen."""
        out: list[State] = []
        for state in states:
            branches: list[tuple[str, ir.Block | None]] = list(stmt.branches)
            if not stmt.complete:
                branches.append(("", None))
            chosen = [b for b in branches if state.facts.get(f"#if {b[0]}")]
            left = chosen or [b for b in branches if state.facts.get(f"#if {b[0]}") is not False]
            for text, block in left:
                branch = state if len(left) == 1 else state.copy()
                for other, _ in branches:
                    if other:
                        branch.facts[f"#if {other}"] = other == text
                if block is not None:
                    site = Site(self.frame.function.uid, self.frame.function.path, block.span)
                    before = branch.conditions
                    branch.conditions = (*before, Condition(site, f"#if {text}", True))
                    ended = self.execute(block, [branch])
                    for s in ended:
                        s.conditions = before
                    out += ended
                else:
                    out.append(branch)
        return self.join(out, keep=True)


def _alike(a: Value, b: Value) -> bool:
    plain = (Num, Unknown)
    return a == b or (isinstance(a, plain) and isinstance(b, plain) and not isinstance(a, Instance))


def _tests(condition: Expr) -> set[str]:
    """What a condition tests, in a form that recognises it elsewhere: the variable of a flag or of a comparison with it,
    and anything else by its whole shape."""
    match condition:
        case ir.Unary(op="!", operand=operand) | ir.Cast(operand=operand):
            return _tests(operand)
        case ir.Binary(op="&&", left=left, right=right):
            return _tests(left) | _tests(right)
        case ir.Name(name=name) | ir.Member(name=name):
            return {name}
        case ir.Binary(op=op, left=left, right=right) if op in COMPARISONS:
            names = {side.name for side in (left, right) if isinstance(side, ir.Name | ir.Member)}
            return names or {_shape(condition)}
    return {_shape(condition)}


def _shape(expr: Expr) -> str:
    """The expression without its positions."""
    parts = []
    for node in ir.walk(expr):
        detail = getattr(node, "name", getattr(node, "op", getattr(node, "value", "")))
        parts.append(f"{type(node).__name__}:{detail if isinstance(detail, str | int | float) else ''}")
    return " ".join(parts)
