"""What the source says about the condition behind a guard: what it is computed from."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stitchcuda.analysis.kernel.model import Guard
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Program, Site, Span


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What a number is computed from."""

    loads: bool  # of memory
    coordinates: bool  # of the thread or block, other than to choose what is loaded
    stepped: bool  # variables that are set in more than one place


_COORDINATES = frozenset({"threadIdx", "blockIdx"})
_RANKS = frozenset({"thread_rank", "block_rank", "thread_index", "block_index", "group_index"})
_STEPS = 3  # variables that are looked through, one after the other


class Conditions:
    """Answers about the conditions of one kernel and of the functions it calls. Each question is looked up once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._nodes: dict[str, list[ir.Expr | ir.Stmt]] = {}
        self._starts: dict[str, list[tuple[int, int]]] = {}  # of the nodes, with their positions, sorted
        self._sources: dict[str, dict[str, list[ir.Expr]]] = {}
        self._handed: dict[str, set[str]] = {}  # parameters of lambdas
        self._calls: dict[Site, frozenset[str]] = {}
        self._elects: dict[Site, bool] = {}
        self._conditions: dict[Site, list[ir.Expr | ir.Stmt]] = {}
        self._initial: dict[str, dict[str, ir.Expr]] = {}
        self._assignments: dict[str, dict[Span, ir.Assign]] = {}
        self._branches: dict[Site, Span | None] = {}
        self._stores: dict[str, list[tuple[ir.If, ir.Assign]]] = {}
        self._coordinates: dict[str, frozenset[str]] = {}

    def calls(self, guard: Guard) -> frozenset[str]:
        """Names of the functions whose results the condition is computed from, through a few variables."""
        known = self._calls.get(guard.site)
        if known is None:
            known = self._calls[guard.site] = frozenset(self._called(guard))
        return known

    def _called(self, guard: Guard) -> Iterator[str]:
        for node in self._behind(guard.site.function, self._parts(guard)):
            if isinstance(node, ir.Call):
                yield called_name(node)

    def behind(self, guard: Guard) -> Iterator[ir.Expr | ir.Stmt]:
        """The parts of a condition, and of the values of the variables that it names."""
        return self._behind(guard.site.function, self._parts(guard))

    def _parts(self, guard: Guard) -> list[ir.Expr | ir.Stmt]:
        if guard.key.startswith(("#if ", "range ")):  # it stands at the whole statement
            return []
        known = self._conditions.get(guard.site)
        if known is None:
            known = self._conditions[guard.site] = self._nodes_in(guard.site)
        return known

    def _nodes_in(self, site: Site) -> list[ir.Expr | ir.Stmt]:
        low, high = site.span
        nodes = self.nodes(site.function)
        starts = self._starts.get(site.function)
        if starts is None:
            starts = self._starts[site.function] = sorted((n.span[0], k) for k, n in enumerate(nodes))
        begun = starts[bisect_left(starts, (low, 0)) : bisect_left(starts, (high + 1, 0))]
        return [nodes[k] for k in sorted(k for _, k in begun) if nodes[k].span[1] <= high]

    def values(self, function: str, value: ir.Expr) -> Iterator[ir.Expr | ir.Stmt]:
        """The parts of a value, and of the values of the variables that it names."""
        return self._behind(function, list(ir.walk(value)))

    def _behind(self, function: str, parts: list[ir.Expr | ir.Stmt]) -> Iterator[ir.Expr | ir.Stmt]:
        sources = self._written_from(function)
        seen: set[str] = set()
        for _ in range(_STEPS + 1):
            yield from parts
            names = {n.name for n in parts if isinstance(n, ir.Name)} - seen
            seen |= names
            parts = [n for name in names for value in sources.get(name, ()) for n in ir.walk(value)]

    def elects(self, guard: Guard) -> bool:
        """The condition compares coordinates for equality: `i == n - 1`, `i % step == round`, and not what memory holds."""
        known = self._elects.get(guard.site)
        if known is None:
            parts = self._parts(guard)
            known = self._elects[guard.site] = any(
                isinstance(n, ir.Binary)
                and n.op == "=="
                and not any(map(is_load, self.values(guard.site.function, n.left)))
                and not any(map(is_load, self.values(guard.site.function, n.right)))
                for n in self._behind(guard.site.function, parts)
            )
        return known

    def stores(self, function: str) -> list[tuple[ir.If, ir.Assign]]:
        """Branches that do one assignment, perhaps under further conditions, and nothing else."""
        known = self._stores.get(function)
        if known is None:
            branches = [(n, _only_assignment(n)) for n in self.nodes(function) if isinstance(n, ir.If)]
            known = self._stores[function] = [(branch, made) for branch, made in branches if made is not None]
        return known

    def place(self, function: str, target: ir.Expr) -> ir.Expr:
        """The element that a reference or pointer was declared with: `float& cell = grid[k];`."""
        pointer = isinstance(target, ir.Deref)
        name = target.operand if isinstance(target, ir.Deref) else target
        if not isinstance(name, ir.Name):
            return target
        for node in self.nodes(function):
            if isinstance(node, ir.Declare) and node.name == name.name and node.init is not None:
                if pointer and isinstance(node.init, ir.AddressOf):
                    return node.init.operand
                if node.type.reference:
                    return node.init
        return target

    def ingredients(self, function: str, value: ir.Expr) -> Ingredients:
        """What a value is computed from, through the variables that it names."""
        sources = self._written_from(function)
        loads = coordinates = stepped = False
        waiting: list[ir.Expr | ir.Stmt] = [value]
        seen: set[str] = set()
        while waiting:
            node = waiting.pop()
            if isinstance(node, ir.Index | ir.Deref):
                loads = True
                continue
            if isinstance(node, ir.Name):
                if node.name in _COORDINATES:
                    coordinates = True
                elif node.name not in seen:
                    seen.add(node.name)
                    given = sources.get(node.name, [])
                    stepped = stepped or len(given) > 1 and node.name not in self._handed.get(function, ())
                    waiting.extend(given)
                continue
            coordinates = coordinates or isinstance(node, ir.Call) and called_name(node) in _RANKS
            waiting.extend(ir.children(node))
        return Ingredients(loads, coordinates, stepped)

    def initial(self, function: str, name: str) -> ir.Expr | None:
        """What a variable was declared with."""
        return self._declared(function).get(name)

    def _declared(self, function: str) -> dict[str, ir.Expr]:
        known = self._initial.get(function)
        if known is None:
            known = self._initial[function] = {
                n.name: n.init for n in self.nodes(function) if isinstance(n, ir.Declare) and n.init is not None
            }
        return known

    def given(self, function: str, name: str) -> list[ir.Expr]:
        """The values that a function gives a variable, other than by its address."""
        return self._written_from(function).get(name, [])

    def sets(self, function: str, name: str) -> bool:
        """A function gives a variable a value, other than by its address."""
        return name in self._written_from(function)

    def assignment(self, target: Site) -> ir.Assign | None:
        """The assignment whose target stands at a place."""
        known = self._assignments.get(target.function)
        if known is None:
            known = self._assignments[target.function] = {}
            for node in self.nodes(target.function):
                if isinstance(node, ir.Assign):
                    known.setdefault(node.target.span, node)
        return known.get(target.span)

    def condition(self, guard: Guard, wanted: Callable[[ir.Expr | ir.Stmt], bool]) -> bool:
        """Whether some part of the condition is as wanted."""
        return any(wanted(n) for n in self._parts(guard))

    def decides(self, site: Site) -> bool:
        """A place stands in the condition of a branch or loop."""
        return any(
            isinstance(n, ir.If | ir.Loop | ir.Conditional)
            and n.condition is not None
            and _within(site.span, n.condition.span)
            for n in self.nodes(site.function)
        )

    def branch_around(self, site: Site) -> Span | None:
        """The innermost conditional around a place in its function."""
        if site not in self._branches:
            found: Span | None = None
            for node in self.nodes(site.function):
                if isinstance(node, ir.If | ir.Conditional | ir.Switch) and _within(site.span, node.span):
                    found = node.span
            self._branches[site] = found
        return self._branches[site]

    def coordinates(self, function: str) -> frozenset[str]:
        """How a function asks for the place of a thread: `blockIdx.x`, `cg::this_grid`."""
        known = self._coordinates.get(function)
        if known is None:
            found = set()
            for node in self.nodes(function):
                if isinstance(node, ir.Member):
                    if isinstance(node.base, ir.Name) and node.base.name in ("threadIdx", "blockIdx"):
                        found.add(f"{node.base.name}.{node.name}")
                elif isinstance(node, ir.Name) and node.name.endswith(("this_grid", "this_thread_block")):
                    found.add(node.name)
            known = self._coordinates[function] = frozenset(found)
        return known

    def nodes(self, function: str) -> list[ir.Expr | ir.Stmt]:
        """All nodes of a function's body, parents first."""
        known = self._nodes.get(function)
        if known is None:
            body = self._program.functions[function].body
            known = self._nodes[function] = list(ir.walk(body)) if body is not None else []
        return known

    def _written_from(self, function: str) -> dict[str, list[ir.Expr]]:
        """Variables of a function, each with the values that it is given."""
        known = self._sources.get(function)
        if known is None:
            known = self._sources[function] = {}
            lambdas: dict[str, ir.Lambda] = {}
            for node in self.nodes(function):
                if isinstance(node, ir.Assign) and isinstance(node.target, ir.Name):
                    known.setdefault(node.target.name, []).append(node.value)
                elif isinstance(node, ir.Declare) and node.init is not None:
                    known.setdefault(node.name, []).append(node.init)
                    if isinstance(node.init, ir.Lambda):
                        lambdas[node.name] = node.init
                elif isinstance(node, ir.Call) and isinstance(node.callee, ir.Name) and node.callee.name in lambdas:
                    for param, argument in zip(lambdas[node.callee.name].params, node.args, strict=False):
                        known.setdefault(param.name, []).append(argument)
                        self._handed.setdefault(function, set()).add(param.name)
        return known


def conditions_of(program: Program) -> Conditions:
    """The one of a program: its rules ask about the same functions."""
    global _last
    if _last is None or _last[0] is not program:
        _last = program, Conditions(program)
    return _last[1]


_last: tuple[Program, Conditions] | None = None


def called_name(call: ir.Call) -> str:
    """The name after the last `::` or `.` of what is called; "" when it has none."""
    callee = call.callee
    return callee.name.rsplit("::", 1)[-1] if isinstance(callee, ir.Name | ir.Member) else ""


def _only_assignment(branch: ir.If) -> ir.Assign | None:
    body: ir.Stmt | None = branch
    while isinstance(body, ir.If | ir.Block):
        if isinstance(body, ir.Block):
            body = body.body[0] if len(body.body) == 1 else None
        else:
            body = body.then if body.otherwise is None and body.init is None else None
    made = ir.bare(body.expr) if isinstance(body, ir.Evaluate) else None
    return made if isinstance(made, ir.Assign) else None


def is_load(node: ir.Expr | ir.Stmt) -> bool:
    """An expression that may read memory: an element, what a pointer points to, or a call."""
    return isinstance(node, ir.Index | ir.Deref | ir.Call)


def _within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


def redefined(text: bytes) -> frozenset[str]:
    """Macros that a file defines more than once: which definition holds at a place is not followed."""
    known = _redefined.get(text)
    if known is None:
        if len(_redefined) > 64:
            _redefined.clear()
        counts = Counter(match.group(1).decode() for match in _DEFINE.finditer(text))
        known = _redefined[text] = frozenset(name for name, count in counts.items() if count > 1)
    return known


_redefined: dict[bytes, frozenset[str]] = {}


def words(text: str) -> frozenset[str]:
    """The names in a piece of source."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))
