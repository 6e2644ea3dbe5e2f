"""What functions do with a pointer or handle that they are given: use it, release it, or perhaps keep it."""

from __future__ import annotations

from functools import cached_property

from stitchcuda.analysis.order.host import host_library
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Api,
    ApiKind,
    Assign,
    Call,
    Const,
    Construct,
    Declare,
    Evaluate,
    Expr,
    Function,
    InitList,
    Lambda,
    Member,
    Name,
    New,
    Program,
    Return,
    Stmt,
    bare,
    walk,
)
from stitchcuda.analysis.program.link import resolve

_RELEASES = {
    ApiKind.FREE: "ptr", ApiKind.HOST_FREE: "ptr", ApiKind.STREAM_DESTROY: "stream", ApiKind.EVENT_DESTROY: "event",
}  # fmt: skip
_DEPTH = 4  # functions that call functions


class Handing:
    """Answers for the calls that one function makes."""

    def __init__(self, program: Program, function: Function) -> None:
        self._program = program
        self._function = function
        self._callees: dict[int, Function | None] = {}  # by the `id` of calls of the function

    def of(self, call: Call, position: int) -> str:
        """What a call does with its argument: "uses", "releases", "makes" (puts something new where it points), or
        "keeps" (which also stands for not known)."""
        name = self.name_of(call)
        short = name.rsplit("::", 1)[-1]
        callee = self._callee(call)
        if callee is not None:
            return self._does(callee, position, _DEPTH)
        if isinstance(call.callee, Name) and (host_library.known(short) or short in ("memcpy", "printf", "fprintf")):
            return "keeps" if short in host_library.ALLOCATORS | {"move", "swap", "ref", "get"} else "uses"
        return "keeps"

    def never_returns(self, call: Call) -> bool:
        """The call ends the program, or throws."""
        short = self.name_of(call).rsplit("::", 1)[-1]
        if isinstance(call.callee, Name) and short in host_library.ENDS:
            return True
        callee = self._callee(call)
        if callee is None or callee.body is None:
            return False
        last = [s.expr for s in callee.body.body if isinstance(s, Evaluate)]
        ended = (e for e in last if isinstance(e, Call) and isinstance(e.callee, Name))
        return any(e.callee.name.rsplit("::", 1)[-1] in host_library.ENDS for e in ended if isinstance(e.callee, Name))

    def makes(self, call: Call) -> bool:
        """The call returns memory that it has allocated for its caller."""
        callee = self._callee(call)
        if callee is None or callee.body is None or callee.returns.pointer != 1:
            return False
        nodes = list(walk(callee.body))
        returned = [bare(n.value) for n in nodes if isinstance(n, Return) and n.value is not None]
        names = {n.name for n in returned if isinstance(n, Name)}
        if len(names) != 1 or any(not isinstance(n, Name | Const) for n in returned):
            return False
        name = names.pop()
        mine = any(isinstance(n, Declare) and n.name == name and not n.static for n in nodes)
        uses = sum(isinstance(n, Name) and n.name == name for n in nodes)
        made = sum(_makes_into(n, name, by_address=True) for n in nodes)
        return mine and made == 1 and uses <= 1 + len(returned)

    @staticmethod
    def name_of(call: Call) -> str:
        return call.callee.name if isinstance(call.callee, Name | Member) else ""

    def _callee(self, call: Call) -> Function | None:
        """The one function of the program that is meant."""
        if not isinstance(call.callee, Name):
            return None
        if id(call) not in self._callees:
            found = resolve(self._program, self._function.path, call.callee.name, len(call.args), None)
            bodies = [f for f in found if f.body is not None]
            self._callees[id(call)] = bodies[0] if len(bodies) == 1 else None
        return self._callees[id(call)]

    def _does(self, function: Function, position: int, depth: int) -> str:
        key = (function.uid, position)
        known = self._known.get(key)
        if known is None:
            self._known[key] = "keeps"  # while a function that calls itself is looked at
            known = self._known[key] = self._look(function, position, depth)
        return known

    @cached_property
    def _known(self) -> dict[tuple[str, int], str]:
        return {}

    def _look(self, function: Function, position: int, depth: int) -> str:
        if position >= len(function.params) or function.body is None or depth == 0:
            return "keeps"
        param = function.params[position]
        if not param.name:
            return "uses"
        if param.type.reference and not param.type.const:
            return "keeps"
        if param.type.pointer > 1 and _fills(function, param.name):
            return "makes"
        releases = False
        inside = Handing(self._program, function)
        for node in walk(function.body):
            match node:
                case Api(kind=kind) if kind in _RELEASES:
                    target = node.role(_RELEASES[kind]) or node.role("ptr")
                    releases = releases or _is(target, param.name)
                case Assign(value=value) if _is(value, param.name):
                    return "keeps"
                case Declare(init=init) if init is not None and _is(init, param.name):
                    return "keeps"
                case Return(value=value) if value is not None and _is(value, param.name):
                    return "keeps"
                case AddressOf(operand=operand) if _is(operand, param.name):
                    return "keeps"
                case Construct(args=args) | New(args=args) | InitList(items=args):
                    if any(_is(a, param.name) for a in args):
                        return "keeps"
                case Lambda():
                    if any(isinstance(n, Name) and n.name == param.name for n in walk(node.body)):
                        return "keeps"
                case Call(args=args):
                    for k, arg in enumerate(args):
                        if _is(arg, param.name):
                            callee = inside._callee(node)
                            does = self._does(callee, k, depth - 1) if callee is not None else inside.of(node, k)
                            if does == "keeps":
                                return "keeps"
                            releases = releases or does == "releases"
        if not releases:
            return "uses"
        return "releases" if _at_once(function, param.name) else "keeps"


def _fills(function: Function, name: str) -> bool:
    """The parameter is only the place where one allocation puts its result."""
    assert function.body is not None
    nodes = list(walk(function.body))
    uses = sum(isinstance(n, Name) and n.name == name for n in nodes)
    return uses == 1 and sum(_makes_into(n, name, by_address=False) for n in nodes) == 1


def _makes_into(node: Expr | Stmt, name: str, *, by_address: bool) -> bool:
    if not isinstance(node, Api) or node.kind not in (ApiKind.ALLOC, ApiKind.HOST_ALLOC):
        return False
    out = bare(node.role("out"))
    if by_address:
        return isinstance(out, AddressOf) and _is(out.operand, name)
    return _is(out, name)


def _at_once(function: Function, name: str) -> bool:
    """The release is not under a condition, other than that there is something to release."""
    assert function.body is not None
    for stmt in function.body.body:
        for node in walk(stmt):
            if isinstance(node, Return):
                return False
            if isinstance(node, Api) and node.kind in _RELEASES:
                target = node.role(_RELEASES[node.kind]) or node.role("ptr")
                if _is(target, name):
                    return isinstance(stmt, Evaluate) or not any(isinstance(n, Return) for n in walk(stmt))
    return False


def _is(expr: Expr | None, name: str) -> bool:
    expr = bare(expr)
    return isinstance(expr, Name) and expr.name == name
