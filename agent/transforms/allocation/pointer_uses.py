"""Where a device pointer goes: uses that hand it to the device for the time of a call, and any other, which keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stitchcuda.analysis.findings.waits import callee_name, last_name
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Api,
    ApiKind,
    Binary,
    Call,
    Cast,
    Conditional,
    Const,
    Declare,
    Deref,
    Evaluate,
    Expr,
    Function,
    If,
    Index,
    Lambda,
    Launch,
    Name,
    Program,
    Return,
    Site,
    SizeOf,
    Stmt,
    Unary,
    children,
    walk,
)
from stitchcuda.analysis.program.link import resolve

_COMPARES = ("==", "!=", "&&", "||")


@dataclass(frozen=True, slots=True)
class Kept:
    """A use after which something else may hold the pointer, and why."""

    site: Site
    reason: str


@dataclass
class PointerUses:
    """Answers for one program. Memoised."""

    program: Program
    _params: dict[tuple[str, int], Kept | None] = field(default_factory=dict)

    def kept(self, function: Function, name: str, allocations: frozenset[Site], frees: frozenset[Site]) -> Kept | None:
        """The first use of a local pointer that is neither one of its own allocations and frees nor lends it."""
        for node, above in _uses(function, name):
            site = self._call_site(function, above)
            if site is not None and site in frees | allocations:
                continue
            found = self._use(function, node, above)
            if found is not None:
                return found
        return None

    def _call_site(self, function: Function, above: list[Stmt | Expr]) -> Site | None:
        call = next((n for n in reversed(above) if isinstance(n, Api)), None)
        return Site(function.uid, function.path, call.span) if call is not None else None

    def _use(self, function: Function, node: Name, above: list[Stmt | Expr]) -> Kept | None:
        """`above`: what the name stands in, outermost first."""
        here = Site(function.uid, function.path, node.span)
        inner: Stmt | Expr = node
        offset = False  # `&p[i]`, `p + i`: still the pointer
        for outer in reversed(above):
            match outer:
                case Cast() | Conditional():
                    if isinstance(outer, Conditional) and inner is outer.condition:
                        return None
                case Binary(op="+" | "-"):
                    offset = True
                case Binary(op=op) if op in _COMPARES:
                    return None
                case Unary(op="!"):
                    return None
                case Index(base=base) if base is inner:
                    offset = True
                case AddressOf():
                    if not isinstance(inner, Index):
                        return Kept(here, f"the address of `{node.name}` is taken")
                case If(condition=condition) if condition is inner:
                    return None
                case Evaluate():
                    return None
                case Launch():
                    return None
                case Api():
                    return self._in_api(here, node, inner, outer)
                case Call():
                    return self._in_call(here, node, inner, outer, offset)
                case Lambda():
                    return Kept(here, f"`{node.name}` is used in a lambda")
                case Return():
                    return Kept(here, f"`{node.name}` is returned")
                case Deref():
                    return Kept(here, f"the host follows `{node.name}`")
                case _:
                    return Kept(here, f"`{node.name}` is kept in something else")
            inner = outer
        return None

    def _in_api(self, here: Site, node: Name, inner: Stmt | Expr, api: Api) -> Kept | None:
        role = next((r for r, v in api.roles if v is inner), "")
        if api.kind in (ApiKind.COPY, ApiKind.MEMSET) and role in ("dst", "src") and "peer" not in api.flags:
            return None
        if api.kind is ApiKind.LIBRARY_CALL and "Set" not in api.name:  # cublasSetWorkspace keeps it
            return None
        return Kept(here, f"`{api.name}` is handed `{node.name}`")

    def _in_call(self, here: Site, node: Name, inner: Stmt | Expr, call: Call, offset: bool) -> Kept | None:
        position = next((k for k, a in enumerate(call.args) if a is inner), None)
        name = last_name(callee_name(call))
        written = call.callee.name if isinstance(call.callee, Name) else ""
        functions = resolve(self.program, here.path, written, len(call.args)) if written else ()
        if position is None or not functions:
            return Kept(here, f"`{name}` is handed `{node.name}`, and its code is not here")
        for function in functions:
            if function.body is None or function.space in ("global", "device"):
                return Kept(here, f"`{name}` is handed `{node.name}`, and its code is not here")
            if position >= len(function.params) or function.params[position].type.reference:
                return Kept(here, f"`{name}` takes `{node.name}` by reference")
            found = self._parameter(function, position)
            if found is not None:
                return found
        return None

    def _parameter(self, function: Function, position: int) -> Kept | None:
        key = (function.uid, position)
        if key not in self._params:
            self._params[key] = None  # recursion adds no use
            name = function.params[position].name
            found = (self._use(function, node, above) for node, above in _uses(function, name))
            self._params[key] = next((f for f in found if f is not None), None)
        return self._params[key]


def _uses(function: Function, name: str) -> Iterator[tuple[Name, list[Stmt | Expr]]]:
    """Every mention of a name in a function's body, with what it stands in, outermost first."""
    if function.body is None or not name:
        return
    stack: list[tuple[Stmt | Expr, list[Stmt | Expr]]] = [(function.body, [])]
    while stack:
        node, above = stack.pop()
        if isinstance(node, Name) and node.name == name:
            yield node, above
        below = [*above, node]
        stack.extend((child, below) for child in children(node))


def mentions(function: Function, name: str) -> Iterator[Name]:
    """Every mention of a name in a function's body."""
    return (node for node, _ in _uses(function, name))


def host_values_only(expr: Expr) -> bool:
    """The expression is computed from numbers and names: it calls nothing and follows no pointer."""
    return all(isinstance(n, (Const, Name, Binary, Unary, Cast, SizeOf)) for n in walk(expr))


def declared_once(function: Function, name: str) -> Declare | None:
    """The declaration of a local variable, when the function declares that name once and has no parameter of it."""
    if function.body is None or any(p.name == name for p in function.params):
        return None
    found = [n for n in walk(function.body) if isinstance(n, Declare) and n.name == name]
    return found[0] if len(found) == 1 else None
