"""Which elements of a buffer a launch writes for sure, as far as that can be read from the common shape of kernels: one element a
thread below a guard (`if (i < n) out[i] = ...`, or `if (i >= n) return;` first), every thread without one, or a loop that strides
over the grid.

What kernels may touch (`order/launches.py`) is an upper bound: a guard that is not understood, or a grid that ends too early, leaves
it as it is. So it cannot show that a buffer is written in full; this can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.findings.waits import last_name
from stitchcuda.analysis.order.arithmetic import divide
from stitchcuda.analysis.order.symbolic import ONE, ZERO, Poly, at_least, number, symbol
from stitchcuda.analysis.order.timeline import Access, Certainty, Mode, Op, Range, Shape
from stitchcuda.analysis.order.values import SIZES
from stitchcuda.analysis.program.effects import kernel_effects
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Assign,
    Binary,
    Block,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Declare,
    Evaluate,
    Expr,
    Function,
    Goto,
    If,
    Index,
    Label,
    Lambda,
    Loop,
    Member,
    Name,
    Opaque,
    Program,
    Return,
    Stmt,
    Throw,
    TypeRef,
    walk,
)

_ODD = (Lambda, Opaque, Goto, Label, Throw)
_LEAVES = (Return, Break, Continue)
_NUMBERING = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
# Integers that hold the number of any thread: a narrower one begins again at 0.
_WIDE = frozenset({
    "int", "unsigned", "signed", "long", "size_t", "ptrdiff_t", "ssize_t", "uint", "uint32_t", "int32_t", "uint64_t", "int64_t", "auto",
})  # fmt: skip
_SIGNS = frozenset({"std", "const", "volatile"})
_EVERY_THREAD = symbol("gridDim.x") * symbol("blockDim.x")


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes `[start, end)` of a buffer that a launch writes, none left out. `most`: it writes no byte behind this one either."""

    start: Poly
    end: Poly
    most: Poly


def written(program: Program, op: Op, access: Access) -> Written | None:
    """What a launch writes for sure through one of its accesses; None when that cannot be read from the kernel."""
    launched, placed = op.launched, access.range
    if launched is None or len(launched.kernels) != 1 or access.certainty is not Certainty.MUST or access.one_of:
        return None
    kernel = program.functions[launched.kernels[0]]
    effects = [e for e in kernel_effects(program, kernel.uid).of(access.via) if e.modes & {Mode.WRITE, Mode.ATOMIC}]
    plain = plainly_written(program, kernel).get(access.via)
    if plain is None or len(effects) != 1 or effects[0].member or effects[0].first != ZERO or placed.member:
        return None
    size = SIZES.get(effects[0].element)
    if size is None or placed.offset is None or placed.extent is None or effects[0].extent != plain.bound:
        return None  # the guard was not understood
    count = _divided(placed.extent, size)
    threads = _threads(op)
    if count is None or threads is None:
        return None
    if plain.strided:
        return Written(placed.offset, placed.offset + placed.extent, placed.offset + placed.extent)
    if plain.bound != _EVERY_THREAD and plain.bound.constant is None and str(count) not in op.scalars:
        return None  # it is not known what the launch gives the kernel
    most = threads if at_least(count, threads) else count
    reach = placed.offset + most * number(size)
    return Written(placed.offset, placed.offset + placed.extent if _enough(op, count) else placed.offset, reach)


def covers(parts: Sequence[Written], whole: Range) -> bool:
    """Whether the parts together surely hold every byte of a range."""
    if whole.offset is None or whole.extent is None or whole.member:
        return False
    reached, left = whole.offset, list(parts)
    while part := next((p for p in left if at_least(reached, p.start) and at_least(p.end, reached)), None):
        left.remove(part)
        reached = part.end
    return bool(at_least(reached, whole.offset + whole.extent))


def reads_behind(access: Access, ends: list[Poly]) -> bool:
    """It surely reads behind all of the ends."""
    placed = access.range
    if access.mode is not Mode.READ or access.certainty is not Certainty.MUST or access.one_of or placed.member:
        return False
    if placed.shape not in (Shape.WHOLE, Shape.THREAD) or placed.offset is None or placed.extent is None:
        return False
    last = placed.offset + placed.extent
    return all(at_least(end, last) is False for end in ends)


def _threads(op: Op) -> Poly | None:
    assert op.launched is not None
    grid, block = op.launched.grid[0], op.launched.block[0]
    return None if grid is None or block is None else grid * block


def _enough(op: Op, count: Poly) -> bool:
    """Whether there are that many threads along x: provably, or as `(count + block - 1) / block` blocks have it."""
    assert op.launched is not None
    grid, block, threads = op.launched.grid[0], op.launched.block[0], _threads(op)
    if grid is None or block is None or threads is None:
        return False
    if at_least(threads, count):
        return True
    return grid in (divide(count + block - ONE, block), divide(count - ONE, block) + ONE, divide(count, block) + ONE)


def _divided(value: Poly, by: int) -> Poly | None:
    return divide(value, number(by)) if all(c % by == 0 for _, c in value.terms) else None


# ----------------------------------------------------------------------------------------------------------- the kernel


@dataclass(frozen=True, slots=True)
class Plain:
    """A parameter whose elements from 0 to before `bound` are written, each by the thread of that number along x; `strided`: by
    however many threads there are."""

    bound: Poly
    strided: bool = False


def plainly_written(program: Program, kernel: Function) -> dict[str, Plain]:
    """By parameter. What is not of the common shape is left out."""
    body = kernel.body
    nodes = list(walk(body)) if body is not None else []
    if body is None or any(isinstance(n, _ODD) for n in nodes):
        return {}
    changed = {n.target.name for n in nodes if isinstance(n, Assign) and isinstance(n.target, Name)}
    changed |= {n.operand.name for n in nodes if isinstance(n, AddressOf) and isinstance(n.operand, Name)}
    changed |= set(_referred_to(program, nodes))
    declared = [n.name for n in nodes if isinstance(n, Declare)]
    params = {p.name for p in kernel.params} - changed - set(declared)
    if _NUMBERING & {*declared, *(p.name for p in kernel.params)}:
        return {}  # another variable of that name
    params -= {p.name for p in kernel.params if not (p.type.pointer or p.type.dims or is_wide(p.type))}
    once = {n.name for n in nodes if isinstance(n, Declare) and declared.count(n.name) == 1 and is_wide(n.type)}
    once -= {p.name for p in kernel.params}
    reading = _Reading(params, once - changed, once)
    reading.read(body.body, Plain(_EVERY_THREAD), frozenset())
    return reading.found


def _referred_to(program: Program, nodes: Sequence[Expr | Stmt]) -> Iterator[str]:
    """Variables that others may change by a reference."""
    for node in nodes:
        if isinstance(node, Declare) and node.type.reference and isinstance(node.init, Name):
            yield node.init.name
        if isinstance(node, Call) and isinstance(node.callee, Name):
            for uid in program.by_name.get(last_name(node.callee.name), ()):
                params = program.functions[uid].params
                for given, taken in zip(node.args, params, strict=False):
                    if taken.type.reference and isinstance(given, Name):
                        yield given.name


def is_wide(kind: TypeRef) -> bool:
    """An integer of 32 bits or more, by its name."""
    words = frozenset(kind.name.replace("::", " ").split())
    return not kind.pointer and not kind.dims and bool(words & _WIDE) and words <= _WIDE | _SIGNS


class _Reading:
    """`params` and `steady` (locals) keep their values; `once` are locals that are declared once."""

    def __init__(self, params: set[str], steady: set[str], once: set[str]) -> None:
        self._params, self._steady, self._once = params, steady, once
        self.found: dict[str, Plain] = {}

    def read(
        self, statements: Sequence[Stmt], now: Plain, index: frozenset[str]
    ) -> tuple[Plain, frozenset[str]] | None:
        """Statements that every thread reaches whose number is below the bound. What holds behind them; None: not known."""
        for statement in statements:
            after = self._statement(statement, now, index)
            if after is None:
                return None
            now, index = after
        return now, index

    def _statement(self, node: Stmt, now: Plain, index: frozenset[str]) -> tuple[Plain, frozenset[str]] | None:
        if isinstance(node, Block):
            after = self.read(node.body, now, index)
            return None if after is None else (after[0], index)
        if isinstance(node, Declare) and node.name in self._steady and node.init is not None and _is_number(node.init):
            return now, index | {node.name}
        if isinstance(node, Evaluate) and isinstance(node.expr, Assign):
            self._written(node.expr, now, index)
            return now, index
        if isinstance(node, If) and node.init is None and node.otherwise is None and now.bound == _EVERY_THREAD:
            inside, outside = self._below(node.condition, index), self._not_below(node.condition, index)
            if outside is not None and _only_returns(node.then):
                return Plain(outside), index
            if inside is not None and not any(isinstance(n, _LEAVES) for n in walk(node.then)):
                self.read([node.then], Plain(inside), index)
                return now, index
        if isinstance(node, Loop) and now.bound == _EVERY_THREAD:
            self._strides(node)
        return None if any(isinstance(n, _LEAVES) for n in walk(node)) else (now, index)

    def _strides(self, node: Loop) -> None:
        """`for (int i = <number of the thread>; i < n; i += gridDim.x * blockDim.x)`."""
        first, step = node.init, node.step
        if node.form != "for" or not isinstance(first, Declare) or first.init is None or not _is_number(first.init):
            return
        name = first.name
        fine = name in self._once and isinstance(step, Assign) and step.op == "+" and _is_all_threads(step.value)
        fine = fine and isinstance(step.target, Name) and step.target.name == name  # type: ignore[union-attr]
        inner = list(walk(node.body))
        fine = fine and not any(isinstance(n, _LEAVES) for n in inner) and not _assigns(inner, name)
        bound = self._below(node.condition, frozenset((name,))) if fine and node.condition is not None else None
        if bound is not None:
            self.read([node.body], Plain(bound, strided=True), frozenset((name,)))

    def _written(self, node: Assign, now: Plain, index: frozenset[str]) -> None:
        target = node.target
        if isinstance(target, Index) and isinstance(target.base, Name) and target.base.name in self._params:
            at = _bare(target.index)
            if _is_number(at) or (isinstance(at, Name) and at.name in index):
                self.found.setdefault(target.base.name, now)

    def _below(self, node: Expr, index: frozenset[str]) -> Poly | None:
        """The bound of `i < n`, for the number of the thread."""
        node = _bare(node)
        if not isinstance(node, Binary) or node.op not in ("<", ">"):
            return None
        left, right = (node.left, node.right) if node.op == "<" else (node.right, node.left)
        return self._bound(right) if self._is_index(left, index) else None

    def _not_below(self, node: Expr, index: frozenset[str]) -> Poly | None:
        """The bound of `i >= n`."""
        node = _bare(node)
        if not isinstance(node, Binary) or node.op not in (">=", "<="):
            return None
        left, right = (node.left, node.right) if node.op == ">=" else (node.right, node.left)
        return self._bound(right) if self._is_index(left, index) else None

    def _is_index(self, node: Expr, index: frozenset[str]) -> bool:
        node = _bare(node)
        return _is_number(node) or (isinstance(node, Name) and node.name in index)

    def _bound(self, node: Expr) -> Poly | None:
        node = _bare(node)
        if isinstance(node, Const) and isinstance(node.value, int) and not isinstance(node.value, bool):
            return number(node.value)
        return symbol(node.name) if isinstance(node, Name) and node.name in self._params else None


def _assigns(nodes: Sequence[Expr | Stmt], name: str) -> bool:
    targets = [n.target if isinstance(n, Assign) else n.operand for n in nodes if isinstance(n, (Assign, AddressOf))]
    return any(isinstance(t, Name) and t.name == name for t in targets)


def _only_returns(node: Stmt) -> bool:
    statements = node.body if isinstance(node, Block) else (node,)
    return len(statements) == 1 and isinstance(statements[0], Return)


def _bare(node: Expr) -> Expr:
    """Without casts that keep the number."""
    while isinstance(node, Cast) and is_wide(node.type):
        node = node.operand
    return node


def _factors(node: Expr) -> Iterator[str]:
    node = _bare(node)
    if isinstance(node, Binary) and node.op == "*":
        yield from _factors(node.left)
        yield from _factors(node.right)
    elif isinstance(node, Member) and isinstance(node.base, Name):
        yield f"{node.base.name}.{node.name}"
    else:
        yield "?"


def _is_number(node: Expr) -> bool:
    """`blockIdx.x * blockDim.x + threadIdx.x`, in any order."""
    node = _bare(node)
    if not isinstance(node, Binary) or node.op != "+":
        return False
    sides = sorted((sorted(_factors(node.left)), sorted(_factors(node.right))), key=len)
    return sides == [["threadIdx.x"], ["blockDim.x", "blockIdx.x"]]


def _is_all_threads(node: Expr) -> bool:
    return sorted(_factors(node)) == ["blockDim.x", "gridDim.x"]
