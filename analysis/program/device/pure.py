"""Device functions that make a value of the values that they are given and do nothing else, read off their text: the many
overloads of arithmetic on vectors, each of which calls others of the same name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device import known_calls as calls
from stitchcuda.analysis.program.device.environment import SCALARS, Environment

FLOATING = frozenset({"float", "double", "half", "__half", "half2", "__half2", "__nv_bfloat16"})
NO_INDEX = FLOATING | {name for name in SCALARS if name[-1] in "234" and not name.endswith("half2")}

_HARMLESS = (
    ir.Const, ir.Member, ir.Unary, ir.Binary, ir.Conditional, ir.InitList, ir.Evaluate, ir.Block, ir.If, ir.Loop, ir.Return,
    ir.Break, ir.Continue, ir.SizeOf,
)  # fmt: skip


class Pure:
    """`named`: the functions that a call of a name with so many arguments in a function may mean. `known`: what was found out, by uid."""

    def __init__(
        self,
        environment: Environment,
        named: Callable[[str, int], Sequence[ir.Function]],
        declared: Callable[[str], bool],
        known: dict[str, bool],
    ) -> None:
        self._environment = environment
        self._named = named
        self._declared = declared
        self._known = known

    def makes_no_index(self, function: ir.Function) -> bool:
        """Nothing depends on such a call but its value, and that is no number by which memory is indexed."""
        returns = function.returns
        return not returns.pointer and _plain(returns) in NO_INDEX and self.only_computes(function)

    def only_computes(self, function: ir.Function) -> bool:
        known = self._known.get(function.uid)
        if known is None:
            self._known[function.uid] = True  # while it is looked at: overloads call each other
            known = self._known[function.uid] = self._look(function)
        return known

    def _look(self, function: ir.Function) -> bool:
        if function.body is None or function.record or function.template or not all(map(_is_value, function.params)):
            return False
        nodes = list(ir.walk(function.body))
        own = {p.name for p in function.params}
        own.update(n.name for n in nodes if isinstance(n, ir.Declare))
        return all(self._harmless(node, own) for node in nodes)

    def _harmless(self, node: ir.Expr | ir.Stmt, own: set[str]) -> bool:
        match node:
            case ir.Name(name=name):
                return name in own or calls.bare(name) not in self._environment.symbols and name != "this"
            case ir.Declare(type=type_, static=static, space=space):
                return not static and not space and _is_scalar_type(type_)
            case ir.Assign(target=target):
                while isinstance(target, ir.Member):
                    target = target.base
                return isinstance(target, ir.Name) and target.name in own
            case ir.Cast(type=type_) | ir.Construct(type=type_):
                return _is_scalar_type(type_)
            case ir.Call(callee=ir.Name(name=name), args=args):
                return bool(args) and name not in own and self._harmless_call(name, len(args))
        return isinstance(node, _HARMLESS)

    def _harmless_call(self, name: str, count: int) -> bool:
        bare = calls.bare(name)
        if bare in calls.PRINTS or bare in calls.ACCESSES or bare in calls.COPY_CALLS or calls.is_atomic(bare):
            return False
        if bare.startswith(calls.CURAND_STATE_PREFIX):
            return False
        functions = self._named(name, count)
        if functions:
            return all(map(self.only_computes, functions))
        return not self._declared(name)


def _plain(type_: ir.TypeRef) -> str:
    return type_.name.removeprefix("std::").split(" ")[0]


def _is_scalar_type(type_: ir.TypeRef) -> bool:
    return not type_.pointer and not type_.reference and not type_.dims and _plain(type_) in SCALARS


def _is_value(param: ir.Param) -> bool:
    return _is_scalar_type(param.type) and not param.name.endswith("...")
