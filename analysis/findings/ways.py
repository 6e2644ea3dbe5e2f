"""The ways through a function: its statements, followed for what becomes of the variables that own something."""

from __future__ import annotations

from dataclasses import replace

from stitchcuda.analysis.findings.ownership import ENDS, MAKES, NULL, Lost, Owner, Path, Ways
from stitchcuda.analysis.findings.slots import flowing, is_success, shape_of, slot
from stitchcuda.analysis.program.ir import (
    Api,
    Assign,
    Block,
    Break,
    Call,
    Const,
    Continue,
    Declare,
    Evaluate,
    Expr,
    Function,
    Goto,
    If,
    InitList,
    Label,
    Lambda,
    Launch,
    Loop,
    Member,
    Name,
    PreprocIf,
    Program,
    Return,
    Span,
    Stmt,
    Switch,
    Throw,
    Try,
    walk,
)

MANY_PATHS = 8
MAX_PATHS = 48
MAX_NODES = 6_000
MAX_STEPS = 40_000  # statements looked at, those of loops several times
_HANDLES = frozenset({"cudaStream_t", "cudaEvent_t", "CUstream", "CUevent", "CUdeviceptr"})
NOTHING = Ways()


class TooMany(Exception):
    """The function has more ways than are worth following; caught here."""


def ways_through(program: Program, uid: str) -> Ways:
    """What the ways through a function come to; kept while it is asked for."""
    function = program.functions.get(uid)
    if function is None or function.body is None or function.language == "python" or function.space != "host":
        return NOTHING
    if not _memo or _memo[0][0] is not program:
        _memo[:] = [(program, {})]
    known = _memo[0][1].get(uid)
    if known is None:
        known = _memo[0][1][uid] = _look(program, function)
    return known


_memo: list[tuple[Program, dict[str, Ways]]] = []  # of the program at hand


def _look(program: Program, function: Function) -> Ways:
    assert function.body is not None
    nodes = list(walk(function.body))
    makes = any(isinstance(n, Call) or (isinstance(n, Api) and n.kind in MAKES) for n in nodes)
    if len(nodes) > MAX_NODES or not makes or not any(isinstance(n, Api) for n in nodes):
        return NOTHING
    names = _candidates(program, nodes)
    if not names:
        return NOTHING
    walker = _Walker(program, function, names)
    try:
        walker.run(function.body)
    except TooMany:
        return NOTHING
    owner = walker.owner
    cleaned = {how for name in owner.ended for how in owner.made_by.get(name, ())}
    lost = tuple(
        x if x.name in owner.released else replace(x, beside=_beside(owner, x))
        for x in owner.lost.values()
        if x.name in owner.released or (x.how in cleaned and not x.again and "." not in x.name)
    )
    return Ways(lost, tuple(owner.twice.values()), frozenset(owner.released))


def _beside(owner: Owner, lost: Lost) -> str:
    """A variable that is made like the lost one, and that the function does release."""
    return min(name for name in owner.ended if lost.how in owner.made_by.get(name, ()))


def _candidates(program: Program, nodes: list[Expr | Stmt]) -> frozenset[str]:
    """Local pointers and handles: declared once, not captured by a lambda; those in records without a destructor too."""
    declared: dict[str, int] = {}
    captured: set[str] = set()
    records: dict[str, int] = {}
    members: set[tuple[str, str]] = set()
    for node in nodes:
        if isinstance(node, Declare):
            owns = (node.type.pointer > 0 or node.type.name in _HANDLES) and not node.type.dims
            fitting = owns and not node.static and not node.type.reference
            declared[node.name] = declared.get(node.name, 0) + (1 if fitting else 2)
            plain = not (node.type.pointer or node.type.reference or node.type.dims or node.static or node.type.args)
            bare = node.type.name.rsplit("::", 1)[-1]
            fitting = plain and node.type.name in program.records and f"~{bare}" not in program.by_name
            records[node.name] = records.get(node.name, 0) + (1 if fitting else 2)
        elif isinstance(node, Member) and isinstance(node.base, Name):
            members.add((node.base.name, node.name))
        elif isinstance(node, Lambda):
            captured |= {n.name for n in walk(node.body) if hasattr(n, "name") and isinstance(n.name, str)}
    plain_ones = {n for n, count in declared.items() if count == 1 and n not in captured}
    within = {f"{r}.{m}" for r, m in members if records.get(r) == 1 and r not in captured}
    return frozenset(plain_ones | within)


class _Walker:
    def __init__(self, program: Program, function: Function, names: frozenset[str]) -> None:
        self.owner = Owner(program, function, names)
        self._main = function.name == "main"
        self._breaks: list[list[Path]] = []
        self._continues: list[list[Path]] = []
        self._declared: list[set[str]] = []  # by open loop: the variables that its body declares
        self._jumps: dict[str, list[Path]] = {}
        self._tries = 0
        self._about_status = 0  # conditions around that ask how a call went: what throws there mostly ends the program
        self._named: dict[int, tuple[bool, frozenset[str]]] = {}  # by the `id` of conditions: calls, and what is named
        self._asides: dict[tuple[int, bool], tuple[str, ...] | None] = {}  # by the `id` of statements
        self._around: list[Span] = []  # of the conditional statements around
        self._steps = 0

    def run(self, body: Block) -> None:
        for path in self._statement(body, [Path()]):
            self._end(path, (max(body.span[0], body.span[1] - 1), body.span[1]))

    def _end(self, path: Path, at: Span) -> None:
        """The function ends here; the end of `main` releases everything."""
        if not self._main:
            self._lose(path, self.owner.names, at)

    def _lose(self, path: Path, names: set[str] | frozenset[str], at: Span) -> None:
        hidden = any(at == span for span in self._around)
        for name in sorted(names):
            held = path.variables.get(name)
            if held is not None and held.state == "held":
                self.owner.lose(name, held, at, hidden=hidden)

    def _merged(self, paths: list[Path]) -> list[Path]:
        if len(paths) < 2:
            return paths
        kept = {p.key(): p for p in paths}
        if len(kept) > MANY_PATHS:  # paths that agree on the variables keep what else they agree on
            alike: dict[object, Path] = {}
            for path in kept.values():
                first = alike.setdefault((frozenset(path.variables.items()), frozenset(path.pending.items())), path)
                first.facts = {k: v for k, v in first.facts.items() if path.facts.get(k) == v}
            kept = {p.key(): p for p in alike.values()}
        if len(kept) > MAX_PATHS:
            raise TooMany
        return list(kept.values())

    def _statements(self, stmts: tuple[Stmt, ...], paths: list[Path]) -> list[Path]:
        for stmt in stmts:
            paths = self._statement(stmt, paths)
        return paths

    def _statement(self, stmt: Stmt, paths: list[Path]) -> list[Path]:
        if not paths and not any(isinstance(n, Label) for n in walk(stmt)):
            return []
        changed = self._aside(stmt)
        if changed is not None:
            for path in paths:
                for name in changed:
                    self.owner.changed(name, path)
            return paths
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise TooMany
        match stmt:
            case Block(body=body):
                return self._merged(self._statements(body, paths))
            case Evaluate(expr=expr):
                return [p for p in paths if self.owner.visit(expr, p)]
            case Declare():
                return [p for p in paths if self._declare(stmt, p)]
            case If():
                return self._if(stmt, paths)
            case Loop():
                return self._loop(stmt, paths)
            case Switch():
                return self._switch(stmt, paths)
            case Return(value=value):
                for path in paths:
                    if value is None or self.owner.visit(value, path):
                        if value is not None:
                            self.owner.hand_back(value, path)
                            for name in self.owner.made_in(value):
                                path.variables[name] = NULL
                        self._end(path, stmt.span)
                return []
            case Break() | Continue():
                stack = self._breaks if isinstance(stmt, Break) else self._continues
                if stack:
                    for path in paths:
                        if self._declared:
                            self._lose(path, self._declared[-1], stmt.span)
                    stack[-1] += paths
                return []
            case Goto(label=label):
                self._jumps.setdefault(label, []).extend(paths)
                return []
            case Label(name=name):
                return self._merged(paths + self._jumps.pop(name, []))
            case Throw():
                hidden = any(stmt.span == span for span in self._around)
                for path in paths if not (hidden or self._tries or self._about_status) else ():
                    self._end(path, stmt.span)
                return []
            case Try(body=body, final=final):
                self._tries += 1
                paths = self._statement(body, paths)
                self._tries -= 1
                return paths if final is None else self._statement(final, paths)
            case PreprocIf():
                return self._preprocessor(stmt, paths)
        return paths

    def _aside(self, stmt: Stmt, in_loop: bool = False) -> tuple[str, ...] | None:
        """What the statement changes, when it is one that nobody who follows the variables needs to look into: it names
        none of them, calls nothing of CUDA, and is always left at its end (`in_loop`: or at that of a loop that is
        one as well). None for others: also for a flag that is set, which tells later which way was taken."""
        key = (id(stmt), in_loop)
        if key not in self._asides:
            changed: dict[str, None] = {}
            self._asides[key] = tuple(changed) if self._is_aside(stmt, in_loop, changed) else None
        return self._asides[key]

    def _is_aside(self, stmt: Stmt, in_loop: bool, changed: dict[str, None]) -> bool:
        parts: tuple[Stmt | None, ...] = ()
        exprs: tuple[Expr | None, ...] = ()
        match stmt:
            case Evaluate(expr=expr):
                exprs = (expr,)
            case Declare(name=name, init=init):
                if self.owner.follows(name) or name in self.owner.flags:
                    return False
                changed[name] = None
                exprs = (init,)
            case Block(body=body):
                parts = body
            case If():
                parts, exprs = (stmt.init, stmt.then, stmt.otherwise), (stmt.condition,)
            case Loop(form=form, condition=condition):
                if form != "range" and (condition is None or isinstance(condition, Const)):
                    return False
                parts, exprs = (stmt.init, stmt.target, stmt.body), (stmt.iterable, condition, stmt.step)
                in_loop = True
            case Break() | Continue():
                return in_loop
            case _:
                return False
        for part in parts:
            inside = self._aside(part, in_loop) if part is not None else ()
            if inside is None:
                return False
            changed.update(dict.fromkeys(inside))
        return all(self._harmless(node, changed) for expr in exprs if expr is not None for node in walk(expr))

    def _harmless(self, node: Expr | Stmt, changed: dict[str, None]) -> bool:
        match node:
            case Name(name=name):
                return not self.owner.follows(name)
            case Assign(target=target):
                given = slot(target)
                if given in self.owner.flags:
                    return False
                if given is not None:
                    changed[given] = None
            case Call():
                return not self.owner.handing.never_returns(node)
            case Api() | Launch() | Lambda():
                return False
        return True

    def _declare(self, stmt: Declare, path: Path) -> bool:
        name = stmt.name
        if self._declared:
            self._declared[-1].add(name)
        self.owner.changed(name, path)
        if stmt.init is None:
            path.variables.pop(name, None)
            return True
        init = stmt.init.items[0] if isinstance(stmt.init, InitList) and len(stmt.init.items) == 1 else stmt.init
        return self.owner.assign(Name(stmt.name_span, name), init, path)

    def _if(self, stmt: If, paths: list[Path]) -> list[Path]:
        if stmt.init is not None:
            paths = self._statement(stmt.init, paths)
        leaves = (
            True if _leaves(stmt.then) else False if stmt.otherwise is not None and _leaves(stmt.otherwise) else None
        )
        statuses = {name for path in paths for name in path.pending}
        yes: list[Path] = []
        no: list[Path] = []
        for path in paths:
            some, others = self.owner.branch(stmt.condition, path, leaves)
            yes, no = yes + some, no + others
        self._around.append(stmt.span)
        about = self._asks_status(stmt.condition, statuses)
        self._about_status += about
        after = self._statement(stmt.then, yes)
        after += no if stmt.otherwise is None else self._statement(stmt.otherwise, no)
        self._about_status -= about
        self._around.pop()
        return self._merged(after)

    def _asks_status(self, condition: Expr, statuses: set[str]) -> bool:
        known = self._named.get(id(condition))
        if known is None:
            nodes = list(walk(condition))
            sure = any(isinstance(n, Api) or is_success(n) for n in nodes)
            known = self._named[id(condition)] = (sure, frozenset(name for n in nodes if (name := slot(n)) is not None))
        return known[0] or not known[1].isdisjoint(statuses)

    def _loop(self, stmt: Loop, paths: list[Path]) -> list[Path]:
        if stmt.init is not None:
            paths = self._statement(stmt.init, paths)
        once = stmt.form == "do" and isinstance(stmt.condition, Const) and not stmt.condition.value
        endless = stmt.form != "range" and (
            stmt.condition is None or (isinstance(stmt.condition, Const) and bool(stmt.condition.value))
        )
        left: list[Path] = []
        if not once:
            self.owner.released_in_loops.append(self._released_in(stmt.body))
        for _ in range(1 if once else 2):
            before = {path.key() for path in paths}
            self._breaks.append([])
            self._continues.append([])
            self._declared.append(set())
            if stmt.condition is not None and stmt.form in ("for", "while"):
                known = [(set(path.facts), path) for path in paths]
                paths = [p for facts, path in known for p in self._entered(stmt.condition, path, facts)]
            paths = self._statement(stmt.body, paths)
            for path in paths:
                if not once:
                    self._lose(path, self._declared[-1], (max(stmt.span[0], stmt.span[1] - 1), stmt.span[1]))
            declared = self._declared.pop()
            left += self._breaks.pop()
            paths = self._merged(paths + self._continues.pop())
            for path in paths + left:
                for name in declared:
                    path.variables.pop(name, None)
            if stmt.step is not None:
                paths = [p for p in paths if self.owner.visit(stmt.step, p)]
            if once and self._declared:
                self._declared[-1] |= declared
            if {path.key() for path in paths} == before:  # loops in loops would double the work for the same again
                break
        if not once:
            self.owner.released_in_loops.pop()
        return self._merged(left + ([] if endless else paths))

    def _entered(self, condition: Expr, path: Path, facts: set[str]) -> list[Path]:
        """The ways into a round of a loop; that its condition held says nothing about later."""
        inside = self.owner.branch(condition, path)[0]
        for p in inside:
            p.facts = {k: v for k, v in p.facts.items() if k in facts}
        return inside

    def _released_in(self, body: Stmt) -> set[str]:
        found = set()
        for node in walk(body):
            if isinstance(node, Api) and node.kind in ENDS:
                found |= {n for _, value in node.roles for n in flowing(value)}
            elif isinstance(node, Call):
                found |= {n for arg in node.args for n in flowing(arg)}
        return found

    def _switch(self, stmt: Switch, paths: list[Path]) -> list[Path]:
        self._breaks.append([])
        paths = [p for p in paths if self.owner.visit(stmt.subject, p)]
        flowing: list[Path] = []
        subject = shape_of(stmt.subject)
        names = frozenset(n.name for n in walk(stmt.subject) if isinstance(n, Name))
        questions = [[f"{subject}=={shape_of(label)}" for label in case.labels] for case in stmt.cases]
        for k, case in enumerate(stmt.cases):
            for path in paths:
                answers = [path.facts.get(q, (None, names))[0] for q in questions[k]]
                elsewhere = any(
                    path.facts.get(q, (None, names))[0] for j, qs in enumerate(questions) if j != k for q in qs
                )
                if elsewhere or (answers and not any(a is not False for a in answers)):
                    continue
                entered = path.copy()
                for j, asked in enumerate(questions):
                    if j != k or len(asked) == 1:
                        entered.facts.update({q: (j == k, names) for q in asked})
                flowing.append(entered)
            flowing = self._statements(case.body, flowing)
        out = flowing + self._breaks.pop()
        if all(case.labels for case in stmt.cases):
            out += [p for p in paths if not any(p.facts.get(q, (None, names))[0] for qs in questions for q in qs)]
        return self._merged(out)

    def _preprocessor(self, stmt: PreprocIf, paths: list[Path]) -> list[Path]:
        out: list[Path] = []
        for path in paths:
            branches: list[tuple[str, Block | None]] = list(stmt.branches)
            if not stmt.complete:
                branches.append(("", None))
            known = [b for b in branches if path.facts.get(f"#{b[0]}", (False,))[0]]
            for text, block in known or [b for b in branches if f"#{b[0]}" not in path.facts]:
                side = path.copy()
                for other, _ in branches:
                    side.facts[f"#{other}"] = (other == text, frozenset())
                out += [side] if block is None else self._statement(block, [side])
        return self._merged(out)


def _leaves(stmt: Stmt) -> bool:
    """The statement leaves the function, or what is around it, in any case."""
    if isinstance(stmt, Block):
        return bool(stmt.body) and _leaves(stmt.body[-1])
    if isinstance(stmt, Evaluate):
        callee = stmt.expr.callee if isinstance(stmt.expr, Call) else None
        return getattr(callee, "name", "") in ("exit", "abort", "std::exit", "std::abort", "_exit")
    return isinstance(stmt, Return | Goto | Throw | Break | Continue)
