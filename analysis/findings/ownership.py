"""Who owns what a function allocates, along every way through it, also those that errors take.

The Timeline follows the paths on which CUDA calls succeed. What becomes of an allocation when one fails is a question
about one function's text: which of its local variables hold what they were given, at each of its ends. Everything that
is not understood (a pointer that is stored, captured, or handed to code that may keep it) ends the tracking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from stitchcuda.analysis.findings.handing import Handing
from stitchcuda.analysis.findings.slots import flowing, is_null, is_success, out_name, polarity, shape_of, slot
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Api,
    ApiKind,
    Assign,
    Binary,
    Call,
    Cast,
    Conditional,
    Const,
    Construct,
    Declare,
    Expr,
    Function,
    InitList,
    Lambda,
    Launch,
    Member,
    Name,
    New,
    Program,
    Site,
    Span,
    TypeRef,
    Unary,
    bare,
    children,
    walk,
)

MAKES = frozenset({ApiKind.ALLOC, ApiKind.HOST_ALLOC, ApiKind.STREAM_CREATE, ApiKind.EVENT_CREATE})
ENDS = {
    ApiKind.FREE: "ptr", ApiKind.HOST_FREE: "ptr", ApiKind.STREAM_DESTROY: "stream", ApiKind.EVENT_DESTROY: "event",
}  # fmt: skip


_ASKS = frozenset({"cudaGetLastError", "cudaPeekAtLastError"})
_LAST = "<last call>"  # in `Path.pending`


@dataclass(frozen=True, slots=True)
class Lost:
    """On a way through the function, what a variable holds is neither released nor handed on."""

    name: str
    made: Site
    how: str  # the call that made it
    at: Site  # where it is lost: the statement that leaves, or the call that makes the next one
    again: bool  # the variable is given the next one
    hidden: bool = False  # the statement that leaves stands in a macro
    beside: str = ""  # no way releases it, but this one, which is made like it, is released


@dataclass(frozen=True, slots=True)
class Twice:
    """On a way through the function, a variable is released twice."""

    name: str
    first: Site
    site: Site
    how: str


@dataclass(frozen=True)
class Ways:
    """What the ways through one function come to."""

    lost: tuple[Lost, ...] = ()
    released_twice: tuple[Twice, ...] = ()
    released: frozenset[str] = frozenset()  # variables that some way releases or hands on


@dataclass(frozen=True, slots=True)
class Held:
    """What is known of a variable: "held", "freed", "null" or "gone" (nobody knows)."""

    state: str
    span: Span = (0, 0)
    how: str = ""


NULL, GONE = Held("null"), Held("gone")
_DOES = (Api, Call, Assign, Construct, InitList, New, Lambda, AddressOf)  # what may do something to a variable
Fact: TypeAlias = tuple[bool, frozenset[str]]  # of a condition: which way, and the names it depends on


@dataclass
class Path:
    """One group of ways to a point."""

    variables: dict[str, Held] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    pending: dict[str, tuple[frozenset[str], bool | None]] = field(default_factory=dict)  # status -> what it is about

    def copy(self) -> Path:
        return Path(dict(self.variables), dict(self.facts), dict(self.pending))

    def join(self, other: Path) -> None:
        """The ways of both, as one group: of what they do not agree on nobody knows."""
        for name in [*self.variables, *(n for n in other.variables if n not in self.variables)]:
            mine, its = self.variables.get(name, GONE), other.variables.get(name, GONE)
            self.variables[name] = mine if mine.state == its.state else GONE
        self.facts = {k: v for k, v in self.facts.items() if other.facts.get(k) == v}
        self.pending = {k: v for k, v in self.pending.items() if other.pending.get(k) == v}

    def key(self) -> object:
        return (
            frozenset(self.variables.items()), frozenset((k, v[0]) for k, v in self.facts.items()),
            frozenset(self.pending.items()),
        )  # fmt: skip


class Owner:
    """Evaluates expressions of one function for what they do to its variables."""

    def __init__(self, program: Program, function: Function, names: frozenset[str]) -> None:
        self.function = function
        self.names = names
        self.records: dict[str, tuple[str, ...]] = {}  # records of which members are followed
        for name in sorted(n for n in names if "." in n):
            record = name.partition(".")[0]
            self.records[record] = (*self.records.get(record, ()), name)
        self.flags = flags_of(function)
        self.handing = Handing(program, function)
        self.lost: dict[tuple[str, Span], Lost] = {}
        self.twice: dict[Span, Twice] = {}
        self.released: set[str] = set()  # or handed on, on some way
        self.ended: set[str] = set()  # released by name
        self.made_by: dict[str, set[str]] = {}  # the calls that make what a variable holds
        self.released_in_loops: list[set[str]] = []  # by open loop: what its body releases, perhaps under a condition
        # By the `id` of nodes of the function, which are there for longer: the same on every path.
        self._idle_known: dict[int, bool] = {}
        self._made_known: dict[int, frozenset[str]] = {}
        self._flowing_known: dict[int, tuple[str, ...]] = {}
        self._asked_known: dict[int, tuple[str, frozenset[str]] | None] = {}

    def site(self, span: Span) -> Site:
        return Site(self.function.uid, self.function.path, span)

    # ------------------------------------------------------------------------------------------------------ expressions

    def visit(self, expr: Expr, path: Path) -> bool:
        """The effects of an expression; False when it does not return."""
        if isinstance(expr, Launch):
            path.pending.pop(_LAST, None)
        if self._idle(expr):
            return True
        match expr:
            case Api():
                return self._api(expr, path)
            case Launch() | Const() | Name():
                return all(self.visit(c, path) for c in children(expr) if slot(c) is None)  # type: ignore[arg-type]
            case Call():
                return self._call(expr, path)
            case Assign(target=target, value=value, op=op):
                return self.assign(target, value, path, op)
            case Construct() | InitList() | New():
                alive = all(self.visit(c, path) for c in children(expr))  # type: ignore[arg-type]
                self._leaves(children(expr), path)
                return alive
            case Lambda():
                return True
            case AddressOf(operand=operand) if (name := slot(operand)) is not None and self.follows(name):
                self._gone(name, path)
                return True
            case Member():
                return slot(expr) is not None or self.visit(expr.base, path)
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                return self.visit(condition, path) and self._either(then, otherwise, path)
        return all(self.visit(c, path) for c in children(expr))  # type: ignore[arg-type]

    def _either(self, then: Expr, otherwise: Expr, path: Path) -> bool:
        """One of two expressions is evaluated."""
        other = path.copy()
        first, second = self.visit(then, path), self.visit(otherwise, other)
        if first and second:
            path.join(other)
        elif second:
            path.variables, path.facts, path.pending = other.variables, other.facts, other.pending
        return first or second

    def _idle(self, expr: Expr) -> bool:
        """Nothing in the expression has effects on what is followed, and it returns."""
        known = self._idle_known.get(id(expr))
        if known is None:
            known = not isinstance(expr, _DOES) and all(self._idle(c) for c in children(expr))  # type: ignore[arg-type]
            self._idle_known[id(expr)] = known
        return known

    def assign(self, target: Expr, value: Expr, path: Path, op: str = "") -> bool:
        """A variable or something else is given a value."""
        alive = self.visit(value, path)
        made = self.made_in(value) & self.names
        self._leaves([value], path)
        name = slot(target)
        if name is None:
            return alive and self.visit(target, path)
        self.changed(name, path)
        if name in self.names:
            fresh = isinstance(value, Call) and self.handing.makes(value)
            held = Held("held", value.span, self.handing.name_of(value)) if isinstance(value, Call) and fresh else GONE
            path.variables[name] = NULL if is_null(value) else held
        elif self.follows(name):
            self._gone(name, path)
        elif made or isinstance(value, Api):
            about = frozenset(made) | self._ended_in(value) | _asked_last(value, path)
            path.pending[name] = (about, polarity(value))
        elif name in self.flags and isinstance(value, Const) and not op:
            path.facts[shape_of(target)] = (bool(value.value), frozenset({name}))
        return alive

    def changed(self, name: str, path: Path) -> None:
        """What was known of conditions about the name holds no more."""
        for _, names in path.facts.values():
            if name in names:
                path.facts = {k: v for k, v in path.facts.items() if name not in v[1]}
                break
        path.pending.pop(name, None)

    def _api(self, expr: Api, path: Path) -> bool:
        out = out_name(expr)
        if expr.name not in _ASKS:
            path.pending.pop(_LAST, None)
        for role, value in expr.roles:
            if not (role == "out" and out is not None) and slot(bare(value)) is None:
                self.visit(value, path)
        if expr.kind in MAKES and out in self.names:
            assert out is not None
            self.made(out, expr.span, expr.name, path)
            path.pending[_LAST] = (frozenset({out}), None)
        elif out is not None and out in self.names:
            self._gone(out, path)
        elif expr.kind in ENDS:
            written = _ended_by(expr)
            if written in self.names:
                assert written is not None
                self._release(written, expr.span, expr.name, path)
        elif expr.kind is ApiKind.RESET:
            for name in list(path.variables):
                self._gone(name, path)
        elif expr.kind is ApiKind.GRAPH_LAUNCH:  # what a graph allocates is there again
            for name in [n for n, held in path.variables.items() if held.state == "freed"]:
                self._gone(name, path)
        return True

    def _release(self, name: str, span: Span, how: str, path: Path) -> None:
        known = path.variables.get(name, GONE)
        self.released.add(name)
        self.ended.add(name)
        if known.state == "null":
            return
        if known.state == "freed" and known.span != span:
            self.twice.setdefault(span, Twice(name, self.site(known.span), self.site(span), how))
        path.variables[name] = Held("freed", span, how)

    def _call(self, expr: Call, path: Path) -> bool:
        alive = True
        if isinstance(expr.callee, Member):
            self._leaves([expr.callee.base], path)
            alive = self.visit(expr.callee.base, path)
        for position, arg in enumerate(expr.args):
            written = bare(arg)
            name = slot(written)
            out = slot(written.operand) if isinstance(written, AddressOf) else None
            if out in self.names and out is not None and self.handing.of(expr, position) == "makes":
                self.made(out, expr.span, self.handing.name_of(expr), path)
            elif name is None or not self.follows(name):
                alive = self.visit(arg, path) and alive
                if not isinstance(arg, Api):
                    self._handed(expr, position, self._flowing(arg), path)
            else:
                self._handed(expr, position, (name,), path)
        return alive and not self.handing.never_returns(expr)

    def made_in(self, expr: Expr) -> frozenset[str]:
        """The variables that calls in an expression allocate."""
        if self._idle(expr):
            return frozenset()
        known = self._made_known.get(id(expr))
        if known is None:
            known = self._made_known[id(expr)] = self._look_for_made(expr)
        return known

    def _look_for_made(self, expr: Expr) -> frozenset[str]:
        found: set[str] = set()
        for node in walk(expr):
            if isinstance(node, Api) and node.kind in MAKES:
                found.add(out_name(node) or "")
            elif isinstance(node, Call):
                outs = ((k, bare(a)) for k, a in enumerate(node.args))
                names = {k: slot(a.operand) for k, a in outs if isinstance(a, AddressOf)}
                found |= {n for k, n in names.items() if n in self.names and n and self.handing.of(node, k) == "makes"}
        return frozenset(found - {""})

    def _ended_in(self, expr: Expr) -> frozenset[str]:
        """The variables that calls in an expression release: when the call fails, nobody knows."""
        if self._idle(expr):
            return frozenset()
        found = (_ended_by(n) for n in walk(expr) if isinstance(n, Api))
        return frozenset(name for name in found if name in self.names and name is not None)

    def follows(self, name: str) -> bool:
        """A variable that is followed, or a record of which members are."""
        return name in self.names or name in self.records

    def made(self, name: str, span: Span, how: str, path: Path) -> None:
        """A variable is given something to own."""
        known = path.variables.get(name, GONE)
        once = known.span == span and not self.released_in_loops  # a macro that writes its argument twice
        if known.state == "held" and not once and not any(name in names for names in self.released_in_loops):
            self.lose(name, known, span, again=True)
        self.changed(name, path)
        self.made_by.setdefault(name, set()).add(how)
        path.variables[name] = Held("held", span, how)

    def _handed(self, expr: Call, position: int, names: tuple[str, ...], path: Path) -> None:
        """Followed variables whose value goes into a call."""
        for name in names:
            does = self.handing.of(expr, position) if name in self.names else "keeps"
            if does == "releases":
                self._release(name, expr.span, self.handing.name_of(expr), path)
            elif does != "uses":
                self._gone(name, path)

    def _leaves(self, exprs: Iterator[object] | list[Expr], path: Path) -> None:
        """The value of a variable goes somewhere else."""
        for expr in exprs:
            for name in self._flowing(expr):  # type: ignore[arg-type]
                self._gone(name, path)

    def _flowing(self, expr: Expr) -> tuple[str, ...]:
        """The followed variables whose value the expression may pass on."""
        known = self._flowing_known.get(id(expr))
        if known is None:
            known = self._flowing_known[id(expr)] = tuple([n for n in flowing(expr) if self.follows(n)])
        return known

    def _gone(self, name: str, path: Path) -> None:
        for each in (name, *self.records.get(name, ())):
            if path.variables.get(each, GONE).state == "held":
                self.released.add(each)
            path.variables[each] = GONE

    def hand_back(self, value: Expr, path: Path) -> None:
        """What a function returns belongs to its caller."""
        self._leaves([value], path)

    def lose(self, name: str, held: Held, at: Span, *, again: bool = False, hidden: bool = False) -> None:
        """What a variable holds is out of reach from here on."""
        key = (name, held.span)
        known = self.lost.get(key)
        if known is None or at < known.at.span:
            self.lost[key] = Lost(name, self.site(held.span), held.how, self.site(at), again, hidden)

    # ------------------------------------------------------------------------------------------------------- conditions

    def branch(self, condition: Expr, path: Path, leaves: bool | None = None) -> tuple[list[Path], list[Path]]:
        """The paths on which the condition is true and on which it is false. `leaves`: the side that leaves the
        function at once, by which a test is known to be one for an error."""
        match condition:
            case Unary(op="!" | "not", operand=operand):
                yes, no = self.branch(operand, path, None if leaves is None else not leaves)
                return no, yes
            case Cast(operand=operand):
                return self.branch(operand, path, leaves)
            case Binary(op="&&" | "and", left=left, right=right):
                yes, no = self.branch(left, path, leaves if leaves is False else None)
                for p in yes[:]:
                    yes.remove(p)
                    more, less = self.branch(right, p, leaves if leaves is False else None)
                    yes, no = yes + more, no + less
                return yes, no
            case Binary(op="||" | "or", left=left, right=right):
                yes, no = self.branch(left, path, leaves if leaves is True else None)
                for p in no[:]:
                    no.remove(p)
                    more, less = self.branch(right, p, leaves if leaves is True else None)
                    yes, no = yes + more, no + less
                return yes, no
            case Const(value=value):
                return ([path], []) if value else ([], [path])
            case Binary(op="==" | "!=" as op, left=left, right=right) if is_success(left) or is_success(right):
                yes, no = self._status(right if is_success(left) else left, path, op == "!=")
                return yes, no
            case Binary(op="==" | "!=" as op, left=left, right=right) if is_null(left) or is_null(right):
                tested = right if is_null(left) else left
                yes, no = self.branch(tested, path, None if leaves is None else leaves != (op == "=="))
                return (no, yes) if op == "==" else (yes, no)
            case Name() | Member() if (name := slot(condition)) in self.names and name is not None:
                state = path.variables.get(name, GONE).state
                if state == "held":  # a call that could not make it left null
                    other = path.copy()
                    other.variables[name] = NULL
                    return [path], [other]
                if state == "freed":
                    return [path], []
                if state == "null":
                    return [], [path]
            case Api():
                return self._status(condition, path, True)
            case Name(name=name) if name in path.pending:
                made, failed = path.pending[name]
                return self._by_status(made, failed if failed is not None else leaves, path)
        return self._plain(condition, path, leaves)

    def _status(self, status: Expr, path: Path, failed: bool) -> tuple[list[Path], list[Path]]:
        """A status is compared with success; `failed`: the side on which the call did not succeed."""
        if not self.visit(status, path):
            return [], []
        made = self.made_in(status) | self._ended_in(status) | _asked_last(bare(status), path)
        written = bare(status)
        if isinstance(written, Assign) and isinstance(written.target, Name):
            made |= path.pending.get(written.target.name, (frozenset(), None))[0]
        elif isinstance(written, Name):
            made |= path.pending.get(written.name, (frozenset(), None))[0]
        return self._by_status(made, failed, path)

    def _by_status(self, made: frozenset[str], failed: bool | None, path: Path) -> tuple[list[Path], list[Path]]:
        """The calls that made or released these variables succeeded on the one side only."""
        yes, no = path.copy(), path
        for side, taken in ((yes, True), (no, False)):
            for name in made & self.names:
                state = side.variables.get(name, GONE).state
                if state in ("held", "freed") and (failed is None or failed is taken):
                    side.variables[name] = NULL if failed is taken and state == "held" else GONE
        return [yes], [no]

    def _plain(self, condition: Expr, path: Path, leaves: bool | None) -> tuple[list[Path], list[Path]]:
        if not self.visit(condition, path):
            return [], []
        made = self.made_in(condition) | self._ended_in(condition)
        if made:  # `if (!ok(cudaMalloc(&p)))`: the side that leaves is the one on which it failed
            return self._by_status(made, leaves, path)
        asked = self._asked(condition)
        if asked is None:
            return [path.copy()], [path]
        shape, names = asked
        known = path.facts.get(shape)
        if known is not None:
            return ([path], []) if known[0] else ([], [path])
        yes, no = path.copy(), path
        yes.facts[shape], no.facts[shape] = (True, names), (False, names)
        return [yes], [no]

    def _asked(self, condition: Expr) -> tuple[str, frozenset[str]] | None:
        """A condition as it is recognised elsewhere, and the names that it depends on; None when it does something."""
        if id(condition) not in self._asked_known:
            nodes = list(walk(condition))
            does = any(isinstance(n, Call | Api | Assign | Launch) for n in nodes)
            names = frozenset(n.name for n in nodes if isinstance(n, Name))
            self._asked_known[id(condition)] = None if does else (shape_of(condition), names)
        return self._asked_known[id(condition)]


def _asked_last(status: Expr, path: Path) -> frozenset[str]:
    """What the last call made, where its status is asked for afterwards: `cudaGetLastError()`."""
    asks = isinstance(status, Api) and status.name in _ASKS
    return path.pending.get(_LAST, (frozenset(), None))[0] if asks else frozenset()


def _ended_by(expr: Api) -> str | None:
    """The variable that a call releases by name."""
    target = (expr.role(ENDS[expr.kind]) or expr.role("ptr")) if expr.kind in ENDS else None
    return slot(bare(target)) if target is not None else None


def flags_of(function: Function) -> frozenset[str]:
    """Local truth values that only assignments in sight change."""
    nodes = list(walk(function.body)) if function.body is not None else []
    declared = [n for n in nodes if isinstance(n, Declare)]
    variables = [*((n.name, n.type) for n in declared if not n.static), *((p.name, p.type) for p in function.params)]
    found = {name for name, type in variables if type in (TypeRef("bool"), TypeRef("_Bool"))}
    times = Counter(name for name in (*(n.name for n in declared), *(p.name for p in function.params)) if name in found)
    shared = {name for name, count in times.items() if count > 1}
    for node in nodes:
        given: tuple[object, ...] = ()
        match node:
            case AddressOf(operand=operand):
                given = (operand,)
            case Call(args=args) | Construct(args=args):
                given = args
            case Declare(type=type, init=init) if type.reference:
                given = (init,)
            case Lambda():
                given = tuple(walk(node.body))
        shared |= {n.name for n in given if isinstance(n, Name)}
    return frozenset(found - shared)
