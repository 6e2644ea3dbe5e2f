"""What the source says about the condition behind a guard: what it is computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stitchcuda.analysis.kernel.model import Guard
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Program, Site, Span

_STEPS = 3  # variables that are looked through, one after the other


class Conditions:
    """Answers about the conditions of one kernel and of the functions it calls. Each question is looked up once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._nodes: dict[str, list[ir.Expr | ir.Stmt]] = {}
        self._sources: dict[str, dict[str, list[ir.Expr]]] = {}
        self._calls: dict[Site, frozenset[str]] = {}
        self._branches: dict[Site, Span | None] = {}

    def calls(self, guard: Guard) -> frozenset[str]:
        """Names of the functions whose results the condition is computed from, through a few variables."""
        known = self._calls.get(guard.site)
        if known is None:
            known = self._calls[guard.site] = frozenset(self._called(guard.site))
        return known

    def _called(self, site: Site) -> Iterator[str]:
        sources = self._written_from(site.function)
        parts = [n for n in self.nodes(site.function) if _within(n.span, site.span)]
        seen: set[str] = set()
        for _ in range(_STEPS + 1):
            yield from (called_name(n) for n in parts if isinstance(n, ir.Call))
            names = {n.name for n in parts if isinstance(n, ir.Name)} - seen
            seen |= names
            parts = [n for name in names for value in sources.get(name, ()) for n in ir.walk(value)]

    def condition(self, guard: Guard, wanted: Callable[[ir.Expr], bool]) -> bool:
        """Whether some part of the condition is as wanted."""
        nodes = self.nodes(guard.site.function)
        return any(_within(n.span, guard.site.span) and isinstance(n, ir.Expr) and wanted(n) for n in nodes)

    def branch_around(self, site: Site) -> Span | None:
        """The innermost conditional around a place in its function."""
        if site not in self._branches:
            found: Span | None = None
            for node in self.nodes(site.function):
                if isinstance(node, ir.If | ir.Conditional | ir.Switch) and _within(site.span, node.span):
                    found = node.span
            self._branches[site] = found
        return self._branches[site]

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
            for node in self.nodes(function):
                if isinstance(node, ir.Assign) and isinstance(node.target, ir.Name):
                    known.setdefault(node.target.name, []).append(node.value)
                elif isinstance(node, ir.Declare) and node.init is not None:
                    known.setdefault(node.name, []).append(node.init)
        return known


def called_name(call: ir.Call) -> str:
    """The name after the last `::` or `.` of what is called; "" when it has none."""
    callee = call.callee
    return callee.name.rsplit("::", 1)[-1] if isinstance(callee, ir.Name | ir.Member) else ""


def _within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
