"""Functions whose outcome follows from their arguments alone: checks of a status, names of error codes, small sums.

Programs call such a check after every CUDA call. With arguments that are constants it ends the same way each time, so
it is followed once.
"""

from __future__ import annotations

from stitchcuda.analysis.order.cuda.clocks import VALUES
from stitchcuda.analysis.order.host import host_library
from stitchcuda.analysis.order.host.names import Names, plain
from stitchcuda.analysis.order.values import Num, Text, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind, Function

_DEPTH = 4  # functions that call such functions
_HARMLESS = (
    ir.Const, ir.Unary, ir.Binary, ir.Conditional, ir.Cast, ir.SizeOf, ir.Evaluate, ir.Block, ir.If, ir.Switch, ir.Return,
    ir.Break, ir.Throw, ir.InitList, ir.Construct,
)  # fmt: skip


class Foregone:
    """Which functions those are, and what they came to."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._alone: dict[str, bool] = {}
        self.known: dict[tuple[object, ...], Value | None] = {}  # None: it does not return

    def key(self, function: Function, given: list[object]) -> tuple[object, ...] | None:
        """What stands for this call; None when its outcome is not foregone."""
        for value in given:
            if not isinstance(value, Text) and not (isinstance(value, Num) and value.value.constant is not None):
                return None
        return (function.uid, *given) if self._depends_on_arguments_alone(function, _DEPTH) else None

    def _depends_on_arguments_alone(self, function: Function, depth: int) -> bool:
        known = self._alone.get(function.uid)
        if known is None:
            known = self._alone[function.uid] = self._look(function, depth)
        return known

    def _look(self, function: Function, depth: int) -> bool:
        program = self._names.program
        if function.body is None or function.record or function.uid in program.reaches_cuda or depth == 0:
            return False
        if any(p.type.reference or p.name.endswith("...") for p in function.params):
            return False
        own = {p.name for p in function.params}
        nodes = list(ir.walk(function.body))
        own.update(n.name for n in nodes if isinstance(n, ir.Declare))
        return all(self._harmless(node, own, depth) for node in nodes)

    def _harmless(self, node: ir.Expr | ir.Stmt, own: set[str], depth: int) -> bool:
        match node:
            case ir.Name(name=name):
                return name in own or plain(name) not in self._names.globals
            case ir.Assign(target=target):
                return isinstance(target, ir.Name) and target.name in own
            case ir.Declare(static=static, type=type):
                return not static and self._names.record(self._names.resolve(type)) is None
            case ir.Api(kind=kind):
                return kind is ApiKind.NEUTRAL and node.role("out") is None
            case ir.Call(callee=ir.Name(name=name)):
                bare = plain(name)
                defined = [self._names.program.functions[u] for u in self._names.program.by_name.get(bare, ())]
                if defined:
                    return all(self._depends_on_arguments_alone(f, depth - 1) for f in defined)
                pure = (bare in host_library.PURE and bare not in VALUES) or bare in host_library.ENDS
                return pure and not any(host_library.may_write(bare, k) for k in range(len(node.args)))
        return isinstance(node, _HARMLESS)
