"""Conditions: in which lanes they hold, and under which guards they are taken where that is not known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from stitchcuda.analysis.kernel.arithmetic import COMPARISONS, Step, comes_from_unseen, in_step
from stitchcuda.analysis.kernel.lanes import ONE, Form, mask_where
from stitchcuda.analysis.kernel.model import Guard, Uniformity
from stitchcuda.analysis.kernel.state import BlockState
from stitchcuda.analysis.kernel.values import Cell, Decision, Value, wider
from stitchcuda.analysis.program import ir


class Deciding(BlockState, ABC):
    @abstractmethod
    def value(self, node: ir.Expr) -> Value: ...

    def decide(self, node: ir.Expr) -> Decision:
        """The condition in the active lanes. Lanes that are not active are in neither set."""
        self.step()
        match node:
            case ir.Unary(op="!", operand=operand):
                return self.decide(operand).negated()
            case ir.Cast(operand=operand, type=type_) if type_.name == "bool" and not type_.pointer:
                return self.decide(operand)
            case ir.Binary(op="&&", left=left, right=right):
                return self._both(node, left, right)
            case ir.Binary(op="||", left=left, right=right):
                return self._both(node, left, right, negate=True).negated()
            case ir.Binary(op=op, left=left, right=right) if op in COMPARISONS:
                return self._compared(node, op, self.value(left), self.value(right))
            case ir.Assign():
                return self._truth(node, self.value(node))
        return self._truth(node, self.value(node))

    def _both(self, node: ir.Expr, left: ir.Expr, right: ir.Expr, *, negate: bool = False) -> Decision:
        first = self.decide(left)
        if negate:
            first = first.negated()
        active = self.active
        self.active = active & ~first.no
        added = len(self.guards)
        if self.active & ~first.yes:
            self.guards.extend(first.when_true)
        second = self.decide(right) if self.active else Decision(0, 0)
        if negate:
            second = second.negated()
        del self.guards[added:]
        self.active = active
        yes = first.yes & second.yes
        no = first.no | second.no
        open_first, open_second = active & ~first.yes & ~first.no, active & ~second.yes & ~second.no & ~first.no
        if not open_first:
            return Decision(yes, no, second.when_true, second.when_false)
        if not open_second:
            return Decision(yes, no, first.when_true, first.when_false)
        spread = wider(*(g.uniformity for g in (*first.when_false, *second.when_false)))
        key = " && ".join(g.key if g.holds else f"!({g.key})" for g in (*first.when_true, *second.when_true))
        return Decision(
            yes,
            no,
            (*first.when_true, *second.when_true),
            (Guard(self.site(node.span), key, False, spread),),
        )

    def _compared(self, node: ir.Expr, op: str, left: Value, right: Value) -> Decision:
        a, b = left.number, right.number
        if a is None or b is None:
            if (left.places or right.places) and op in ("==", "!="):
                return self._unknown(node, f"{op}@{node.span}", wider(left.spread, right.spread), op == "==")
            guessed = all(self._unseen(v) for v in (left, right) if self.spread_of(v) is Uniformity.DATA)
            return self._unknown(
                node, f"{op}@{node.span}#{self.math.fresh('u')}", self._spread(left, right), True, guessed
            )
        if self.sizes:
            a, b = a.with_known(self.sizes), b.with_known(self.sizes)
        if self.looping and self.given:
            # how often a loop goes round is for what is passed to decide; a branch is judged for all that may be passed
            a, b = a.with_known(self.given), b.with_known(self.given)
        if op in ("==", "!="):
            difference = a - b
            same, other = self.math.zero(difference)
            decision = self._partly(node, difference, same, other, exact=True)
            return decision if op == "==" else decision.negated()
        margin = {"<": b - a - ONE, "<=": b - a, ">": a - b - ONE, ">=": a - b}[op]
        yes, no = self.math.sign(margin)
        return self._partly(node, margin, yes, no, exact=False)

    def _partly(self, node: ir.Expr, margin: Form, yes: int, no: int, *, exact: bool) -> Decision:
        yes, no = yes & self.active, no & self.active
        if self.math.trail is not None:
            self.math.trail.append(Step("==" if exact else "<", margin, yes=yes, no=no))
        if yes | no == self.active:
            return Decision(yes, no)
        open_lanes = self.active & ~yes & ~no
        if margin.same_on(open_lanes) or not exact and in_step(margin):
            spread = Uniformity.BLOCK
        elif margin.same_on(open_lanes, 32):
            spread = Uniformity.WARP
        else:
            spread = Uniformity.DATA if margin.unknown else Uniformity.THREAD
        guessed = spread is Uniformity.DATA and comes_from_unseen(margin)
        site = self.site(node.span)
        opposite = -margin if exact else -margin - ONE
        first, second = repr(margin.terms), repr(opposite.terms)
        if exact:
            key = "==" + min(first, second)
            met = Guard(site, key, True, spread, guessed=guessed, equal=margin)
            return Decision(yes, no, (met,), (Guard(site, key, False, spread, guessed=guessed),))
        straight = first <= second
        key = min(first, second)
        return Decision(
            yes,
            no,
            (Guard(site, key, straight, spread, margin, guessed=guessed),),
            (Guard(site, key, not straight, spread, opposite, guessed=guessed),),
        )

    def _truth(self, node: ir.Expr, value: Value) -> Decision:
        if value.decision is not None:
            kept = value.decision
            return Decision(kept.yes & self.active, kept.no & self.active, kept.when_true, kept.when_false)
        if value.number is not None:
            exact = value.number.exact
            if exact is not None:
                yes = mask_where(exact, self.width) & self.active
                if self.math.trail is not None:
                    self.math.trail.append(Step("==", value.number, yes=self.active & ~yes, no=yes))
                return Decision(yes, self.active & ~yes)
            same, other = self.math.zero(value.number)
            return self._partly(node, value.number, same, other, exact=True).negated()
        if value.places:
            names = ",".join(sorted(getattr(p.target, "name", "") for p in value.places))
            return self._unknown(node, f"pointer {names}", value.spread, True)
        return self._unknown(node, f"value#{self.math.fresh('u')}", value.spread, True)

    def _unknown(self, node: ir.Expr, key: str, spread: Uniformity, holds: bool, guessed: bool = False) -> Decision:
        site, guessed = self.site(node.span), guessed and spread is Uniformity.DATA
        met, unmet = (Guard(site, key, h, spread, guessed=guessed) for h in (holds, not holds))
        return Decision(0, 0, (met,), (unmet,))

    def _unseen(self, value: Value) -> bool:
        return value.number is not None and comes_from_unseen(value.number)

    def _spread(self, *values: Value) -> Uniformity:
        return wider(*(self.spread_of(v) for v in values))

    # --------------------------------------------------------------------------------------------------------- branches

    def fork(self, decision: Decision, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """Takes both sides, each in its lanes. Where it is not known which lanes go where, all do, one side after the
        other, and what they leave in variables is one of both."""
        start = self.active
        yes, no = start & ~decision.no, start & ~decision.yes
        unknown = yes & no
        if not unknown:
            self.active = yes
            if yes:
                then()
            first, self.active = self.active, no
            if no:
                otherwise()
            self.active |= first
            return
        exits = self.frame.exits
        before = (exits.done, exits.broken, exits.continued)
        outer, added = self._log, len(self.guards)
        first_log: dict[Cell, Value] = {}
        self._log = first_log
        self.guards.extend(decision.when_true)
        # what no side can take is a path that the walk assumed too much on: its lanes go on
        not_first, not_second = self.excluded(decision.when_true, added), self.excluded(decision.when_false, added)
        self.active = entered_first = yes & ~(unknown & not_first & ~not_second)
        then()
        first = self.active
        stayed = [g for g in self.guards[added + len(decision.when_true) :] if g.leaves]
        del self.guards[added:]
        after_first = {cell: cell.value for cell in first_log}
        for cell, value in first_log.items():
            cell.value = value
        all_first = (exits.done, exits.broken, exits.continued)
        left_first = self._left(before, decision.yes)
        second_log: dict[Cell, Value] = {}
        self._log = second_log
        self.guards.extend(decision.when_false)
        self.active = entered_second = no & ~(unknown & not_second & ~not_first)
        otherwise()
        second = self.active
        stayed += [g for g in self.guards[added + len(decision.when_false) :] if g.leaves]
        del self.guards[added:]
        self.guards.extend(stayed)  # on either side, this is about who did not leave on the way
        all_second = (exits.done, exits.broken, exits.continued)
        left_second = self._left(before, decision.no)
        self._log = outer
        if outer is not None:
            for log in (first_log, second_log):
                for cell, value in log.items():
                    outer.setdefault(cell, value)
        nobody = not first and not second  # both sides leave: every lane has left, one way or another
        for name, k in (("done", 0), ("broken", 1), ("continued", 2)):
            sides = (all_first[k] | all_second[k]) if nobody else left_first[k] | left_second[k]
            setattr(exits, name, before[k] | sides)
        if first and not second:
            for cell, value in after_first.items():
                cell.value = value
            if entered_second:  # nobody left on a side that nobody takes
                how = self._how(before, all_second)
                self.guards.extend(replace(g, leaves=how) for g in decision.when_true)
            self.active = first
            return
        if second and not first:
            if entered_first:
                how = self._how(before, all_first)
                self.guards.extend(replace(g, leaves=how) for g in decision.when_false)
            self.active = second
            return
        guard = max(decision.when_true, key=lambda g: list(Uniformity).index(g.uniformity), default=None)
        self.active = start
        for cell, value in {**second_log, **after_first}.items():
            merged = self.joined(value, cell.value, guard)
            if decision.yes or decision.no:
                merged = self.chosen(decision.yes, value, self.chosen(decision.no, cell.value, merged))
            cell.value = merged
        self.active = first | second

    def _how(self, before: tuple[int, int, int], after: tuple[int, int, int]) -> str:
        """How the lanes of a side left."""
        if after[0] & ~before[0]:
            return "return" if len(self.frames) == 1 else "skip"
        return "break" if after[1] & ~before[1] else "round"

    def excluded(self, new: tuple[Guard, ...], before: int) -> int:
        """The lanes that cannot meet these guards along with those that stand already: `n <= 32` and `lane + 32 < n`."""
        bad = 0
        for guard in new:
            if guard.margin is None:
                continue
            symbols = guard.margin.symbols
            for known in self.guards[:before]:
                if known.margin is None or known.margin.symbols != symbols:
                    continue
                exact = (guard.margin + known.margin).exact
                if isinstance(exact, int):
                    bad |= self.full if exact < 0 else 0
                elif exact is not None:
                    bad |= self.full & ~exact.reaching(0)
        return bad

    def _left(self, before: tuple[int, int, int], sure: int) -> tuple[int, int, int]:
        """The lanes that certainly left on a side, of those that did in the walk; the exits are put back."""
        exits = self.frame.exits
        out = (
            exits.done & ~before[0] & sure,
            exits.broken & ~before[1] & sure,
            exits.continued & ~before[2] & sure,
        )
        if exits.done & ~before[0] & ~sure and len(self.frames) == 1:
            self.left_early = True
        exits.done, exits.broken, exits.continued = before
        return out
