"""Which pointers a kernel only reads and writes through: then its accesses are all that another pointer changes.

A kernel may also ask whether a pointer is null, compare it, print it, or keep it in memory; no access tells of that.
"""

from __future__ import annotations

import re

from stitchcuda.analysis.findings.waits import callee_name, last_name
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Assign,
    Binary,
    Call,
    Cast,
    Conditional,
    Declare,
    Deref,
    Expr,
    Function,
    Index,
    Name,
    Program,
    Stmt,
    children,
    walk,
)

_ACCESSES = re.compile(r"^(atomic\w+|__ld\w+|__st\w+)$")


def only_accessed(program: Program, kernel: str, position: int) -> bool:
    """All functions that the name of a kernel may mean use the parameter at a position as an address, for nothing else."""
    uids = [u for u in program.by_name.get(last_name(kernel), ()) if program.functions[u].space == "global"]
    return bool(uids) and all(_Uses(program).parameter(program.functions[u], position) for u in uids)


class _Uses:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._seen: set[tuple[str, int]] = set()
        self._names: set[str] = set()

    def parameter(self, function: Function, position: int) -> bool:
        if (function.uid, position) in self._seen:
            return True
        self._seen.add((function.uid, position))
        if function.body is None or position >= len(function.params) or function.has_error:
            return False
        outer, self._names = self._names, {function.params[position].name}
        for node in walk(function.body):  # pointers made from it, in the order of the text
            if isinstance(node, Declare) and node.type.pointer and node.init is not None and self._mentions(node.init):
                self._names.add(node.name)
        fine = self._visit(function.body, address=False)
        self._names = outer
        return fine

    def _mentions(self, node: Expr | Stmt) -> bool:
        return any(isinstance(n, Name) and n.name in self._names for n in walk(node))

    def _visit(self, node: Expr | Stmt, *, address: bool) -> bool:
        """`address`: the value of the node is used to reach memory, or kept in a local pointer."""
        match node:
            case Name(name=name):
                return address or name not in self._names
            case Index(base=base, index=index):
                return self._visit(base, address=True) and self._visit(index, address=False)
            case Deref(operand=operand):
                return self._visit(operand, address=True)
            case AddressOf(operand=operand):
                return self._visit(operand, address=True) if address else not self._mentions(operand)
            case Binary(op=op, left=left, right=right):
                kept = address and op in ("+", "-")
                return self._visit(left, address=kept) and self._visit(right, address=kept)
            case Cast(operand=operand):
                return self._visit(operand, address=address)
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                return self._visit(condition, address=False) and all(
                    self._visit(part, address=address) for part in (then, otherwise)
                )
            case Declare(name=name, init=init):
                return init is None or self._visit(init, address=name in self._names)
            case Assign(target=target, value=value):
                moved = isinstance(target, Name) and target.name in self._names
                return self._visit(target, address=True) and self._visit(value, address=moved)
            case Call():
                return self._call(node)
        return all(self._visit(child, address=False) for child in children(node))

    def _call(self, call: Call) -> bool:
        name = last_name(callee_name(call))
        uids = self._program.by_name.get(name, ())
        for position, arg in enumerate(call.args):
            if self._visit(arg, address=False):
                continue
            if not self._visit(arg, address=True):
                return False
            if _ACCESSES.match(name) and not uids:
                continue
            if len(uids) != 1 or not self.parameter(self._program.functions[uids[0]], position):
                return False
        return self._visit(call.callee, address=False)
