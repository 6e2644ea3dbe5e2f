"""Which parameters' first elements a kernel touches in every launch: what its thread (0,0,0) of block (0,0,0) is sure to do.

That thread is followed from the top. A guard that compares its index with a size (`if (i < n)`) is taken to let it pass:
sizes are taken to be above 0. Behind any other condition, and in what it calls, nothing is counted. Two accesses that are
counted here for one address meet; of all others that is not known from their addresses alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.analysis.order.symbolic import ZERO, Poly, number, symbol
from stitchcuda.analysis.order.timeline import Mode
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.environment import is_scalar
from stitchcuda.analysis.quick_init import quick_init

_INTEGERS = frozenset(
    ("char", "short", "int", "long", "unsigned", "signed", "size_t", "ssize_t", "ptrdiff_t", "auto", "uint", "ulong")
    + tuple(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64))
)
_NOT_FOLLOWED = (ir.Opaque, ir.Lambda, ir.Api, ir.Launch, ir.Goto, ir.Label, ir.PreprocIf, ir.Try, ir.Throw, ir.Switch)
_COORDINATES = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_LEAVES = (ir.Return, ir.Break, ir.Continue)
_BY_VALUE = frozenset(  # functions of the device library that take and give numbers
    f"{name}{suffix}"
    for name in ("sqrt", "rsqrt", "exp", "exp2", "log", "log2", "pow", "fabs", "fmax", "fmin", "fma", "tanh", "sin", "cos")
    for suffix in ("", "f")
) | {"min", "max", "abs", "__expf", "__logf", "__fdividef", "__sinf", "__cosf"}  # fmt: skip


def first_elements(program: ir.Program, kernel: ir.Function) -> frozenset[tuple[str, Mode]]:
    """The parameters of a kernel, and how the element that each points to is touched for sure."""
    body = kernel.body
    if body is None or kernel.has_error or any(isinstance(n, _NOT_FOLLOWED) for n in ir.walk(body)):
        return frozenset()
    thread = _FirstThread(program, kernel)
    thread.run(body)
    return frozenset(thread.touched)


def may_wait_for_others(program: ir.Program, kernel: ir.Function) -> bool:
    """Whether a kernel, or what it calls, may stay in a loop until other work changes memory: it has a loop that does not
    simply count. Code that is not here does not count; the caller asks for it."""
    waiting, seen = [kernel], {kernel.uid}
    while waiting:
        function = waiting.pop()
        if function.body is None:
            continue
        for node in ir.walk(function.body):
            if isinstance(node, (ir.Opaque, ir.Lambda, ir.Goto)) or (isinstance(node, ir.Loop) and not _counts(node)):
                return True
            if isinstance(node, ir.Call):
                names = [n.name for n in ir.walk(node.callee) if isinstance(n, (ir.Name, ir.Member))]
                for uid in (u for name in names for u in program.by_name.get(name.rsplit("::", 1)[-1], ())):
                    if uid == function.uid:
                        return True  # it calls itself, as often as it likes
                    if uid not in seen:
                        seen.add(uid)
                        waiting.append(program.functions[uid])
    return False


@quick_init
@dataclass(frozen=True, slots=True)
class _Value:
    """What an expression is for this thread; `index`: it comes from the thread's coordinates."""

    number: Poly | None = None
    index: bool = False


_UNKNOWN = _Value()
_FALLS, _LEFT_LOOP, _LEFT = "", "loop", "function"


class _Stop(Exception):
    """From here on it is not known what the thread does."""


class _FirstThread:
    def __init__(self, program: ir.Program, kernel: ir.Function) -> None:
        self.touched: set[tuple[str, Mode]] = set()
        self._program = program
        self._values: dict[str, _Value] = {}
        self._pointers: set[str] = set()  # parameters that still point where they did
        for param in kernel.params:
            if param.type.pointer and not param.type.reference:
                self._pointers.add(param.name)
            elif _integer(param.type):
                self._values[param.name] = _Value(symbol(param.name))

    def run(self, body: ir.Stmt) -> None:
        try:
            self._statement(body)
        except (_Stop, RecursionError):
            return

    # ------------------------------------------------------------------------------------------------------ statements

    def _statement(self, node: ir.Stmt | None) -> str:
        """How it ends."""
        match node:
            case ir.Declare():
                self._declare(node)
            case ir.Evaluate(expr=expr):
                self._value(expr)
            case ir.Block(body=body):
                outer = dict(self._values), set(self._pointers)
                declared = {n.name for n in body if isinstance(n, ir.Declare)}
                for statement in body:
                    if left := self._statement(statement):
                        return left
                self._close(declared, outer)
            case ir.If():
                return self._if(node)
            case ir.Loop():
                return self._loop(node)
            case ir.Return(value=value):
                if value is not None:
                    self._value(value)
                return _LEFT
            case ir.Break() | ir.Continue():
                return _LEFT_LOOP
            case None:
                pass
            case _:
                raise _Stop
        return _FALLS

    def _close(self, declared: set[str], outer: tuple[dict[str, _Value], set[str]]) -> None:
        """The names of a block mean again what they meant outside of it."""
        for name in declared:
            self._values.pop(name, None)
            self._pointers.discard(name)
            if name in outer[0]:
                self._values[name] = outer[0][name]
            if name in outer[1]:
                self._pointers.add(name)

    def _declare(self, node: ir.Declare) -> None:
        value = _UNKNOWN
        if node.init is not None and not node.type.reference:
            value = self._value(node.init)
        self._pointers.discard(node.name)
        plain = _integer(node.type) and not node.space and not node.static and not node.type.dims
        self._values[node.name] = value if plain else _UNKNOWN

    def _if(self, node: ir.If) -> str:
        if node.init is not None:
            raise _Stop
        truth = self._truth(node.condition)
        if truth is not None:
            return self._statement(node.then if truth else node.otherwise)
        for branch in (node.then, node.otherwise):
            self._pass_over(branch, _LEAVES)
        return _FALLS

    def _loop(self, node: ir.Loop) -> str:
        """Its first round."""
        if node.form not in ("for", "while", "do") or node.target is not None:
            raise _Stop
        outer = dict(self._values), set(self._pointers)
        declared = {node.init.name} if isinstance(node.init, ir.Declare) else set()
        self._statement(node.init)
        enters = True if node.form == "do" or node.condition is None else self._truth(node.condition)
        if enters and self._statement(node.body) == _LEFT:
            return _LEFT
        if enters is not False:
            self._pass_over(node.body, (ir.Return,))
            if node.step is not None:
                self._forget(node.step)
        self._close(declared, outer)
        return _FALLS

    def _pass_over(self, node: ir.Stmt | None, leaving: tuple[type, ...]) -> None:
        """Something that may or may not be done: what it changes is not known behind it."""
        if node is not None:
            if any(isinstance(inner, leaving) for inner in ir.walk(node)):
                raise _Stop
            self._forget(node)

    def _forget(self, node: ir.Stmt | ir.Expr) -> None:
        for inner in ir.walk(node):
            names: tuple[ir.Expr, ...] = ()
            if isinstance(inner, ir.Assign):
                names = (inner.target,)
            elif isinstance(inner, ir.Call):
                names = inner.args
            elif isinstance(inner, ir.AddressOf):
                names = (inner.operand,)
            for name in names:
                if isinstance(name, ir.Name):
                    self._set(name.name, _UNKNOWN)

    def _set(self, name: str, value: _Value) -> None:
        self._pointers.discard(name)
        self._values[name] = value

    # ----------------------------------------------------------------------------------------------------- expressions

    def _value(self, node: ir.Expr) -> _Value:
        match node:
            case ir.Const(value=bool() | int() as literal):
                return _Value(number(int(literal)))
            case ir.Name(name=name):
                return self._values.get(name, _UNKNOWN)
            case ir.Member(base=ir.Name(name=base), name=axis) if base not in self._values:
                if base in ("threadIdx", "blockIdx"):
                    return _Value(ZERO, index=True)
                return _Value(symbol(f"{base}.{axis}")) if base in ("blockDim", "gridDim") else _UNKNOWN
            case ir.Cast(type=type_, operand=operand):
                value = self._value(operand)
                return value if _integer(type_) else _UNKNOWN
            case ir.Unary(op=op, operand=operand):
                value = self._value(operand)
                return _Value(-value.number, value.index) if op == "-" and value.number is not None else _UNKNOWN
            case ir.Binary(op="&&" | "||" | "<" | "<=" | ">" | ">=" | "==" | "!="):
                self._truth(node)
            case ir.Binary(op=op, left=left, right=right):
                return _combined(op, self._value(left), self._value(right))
            case ir.Index() | ir.Deref():
                self._touch(node, Mode.READ)
            case ir.Assign():
                return self._assign(node)
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                truth = self._truth(condition)
                if truth is not None:
                    return self._value(then if truth else otherwise)
                self._forget(then)
                self._forget(otherwise)
            case ir.Call(callee=ir.Name(name=name), args=args) if self._by_value(name):
                for arg in args:
                    self._value(arg)
            case _:
                self._forget(node)
        return _UNKNOWN

    def _by_value(self, name: str) -> bool:
        plain = name.removeprefix("std::").removeprefix("::")
        return plain in _BY_VALUE and plain not in self._program.by_name

    def _touch(self, node: ir.Index | ir.Deref, *modes: Mode) -> None:
        base, at = (node.base, self._value(node.index).number) if isinstance(node, ir.Index) else (node.operand, ZERO)
        if isinstance(base, ir.Name) and base.name in self._pointers:
            if at == ZERO:
                self.touched.update((base.name, mode) for mode in modes)
        else:
            self._value(base)

    def _assign(self, node: ir.Assign) -> _Value:
        value = self._value(node.value)
        match node.target:
            case ir.Index() | ir.Deref() as target:
                self._touch(target, *((Mode.READ, Mode.WRITE) if node.op else (Mode.WRITE,)))
            case ir.Name(name=name):
                old = self._values.get(name, _UNKNOWN)
                new = _combined(node.op, old, value) if node.op else value
                self._set(name, new if name in self._values else _UNKNOWN)
                return old if node.post else new
            case _:
                self._forget(node)
        return _UNKNOWN

    def _truth(self, node: ir.Expr) -> bool | None:
        match node:
            case ir.Binary(op="&&" | "||" as op, left=left, right=right):
                first = self._truth(left)
                if first is None:
                    self._forget(right)
                    return None
                return self._truth(right) if first is (op == "&&") else first
            case ir.Unary(op="!", operand=operand):
                truth = self._truth(operand)
                return None if truth is None else not truth
            case ir.Binary(op="<" | "<=" | ">" | ">=" | "==" | "!=" as op, left=left, right=right):
                a, b = self._value(left), self._value(right)
                if a.number is None or b.number is None:
                    return None
                return _compared(op, b.number - a.number, a.index or b.index)
            case ir.Const(value=bool() | int() as literal):
                return bool(literal)
            case _:
                self._value(node)
                return None


def _compared(op: str, difference: Poly, index: bool) -> bool | None:
    """`a op b` when b - a is `difference`. Only where a thread's index is compared are the names in it sizes."""
    known = difference.constant
    sign = None if known is None else (known > 0) - (known < 0)
    if sign is None and index:
        signs = {coefficient > 0 for _, coefficient in difference.terms}
        sign = None if len(signs) != 1 else 1 if signs.pop() else -1
    if sign is None:
        return None
    return {"<": sign > 0, "<=": sign >= 0, ">": sign < 0, ">=": sign <= 0, "==": sign == 0, "!=": sign != 0}[op]


def _combined(op: str, a: _Value, b: _Value) -> _Value:
    if a.number is None or b.number is None:
        # the index 0 times anything is 0
        return _Value(ZERO, True) if op == "*" and ZERO in (a.number, b.number) and (a.index or b.index) else _UNKNOWN
    index = a.index or b.index
    if op == "+":
        return _Value(a.number + b.number, index)
    if op == "-":
        return _Value(a.number - b.number, index)
    if op == "*":
        return _Value(a.number * b.number, index)
    return _UNKNOWN


def _integer(type_: ir.TypeRef) -> bool:
    words = type_.name.removeprefix("std::").split(" ")
    whole = words[0] in _INTEGERS and "double" not in words
    return whole and not type_.pointer and not type_.reference and (is_scalar(type_) or type_.name == "auto")


def _counts(loop: ir.Loop) -> bool:
    """A `for` over numbers: nothing that it reads on the way can keep it from ending."""
    if loop.form != "for" or loop.step is None or not isinstance(loop.condition, ir.Binary):
        return False
    tested = {n.name for n in ir.walk(loop.condition) if isinstance(n, ir.Name)}
    changed = {n.target.name for n in ir.walk(loop.body) if isinstance(n, ir.Assign) and isinstance(n.target, ir.Name)}
    return not tested & changed and not any(map(_may_read, (*ir.walk(loop.condition), *ir.walk(loop.step))))


def _may_read(node: ir.Expr | ir.Stmt) -> bool:
    """Memory, or what a member of an object is."""
    if isinstance(node, ir.Member):
        return not (isinstance(node.base, ir.Name) and node.base.name in _COORDINATES)
    return isinstance(node, (ir.Index, ir.Deref, ir.Call))
