"""How a kernel is launched: block shapes, grids, template arguments and arguments, as far as the source fixes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.kernel.filled import Prepared, prepared
from stitchcuda.analysis.kernel.lanes import LARGEST
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.cuda.platforms import compiled
from stitchcuda.analysis.program.device.environment import is_scalar
from stitchcuda.analysis.program.ir import Function, Launch, Program
from stitchcuda.analysis.program.link import resolve

_HOPS = 2  # calls through which a constant is followed
_DEPTH = 40  # of what a number or a shape is made of
Dim = tuple[int | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch as written. What is not a constant in the launching function is None."""

    block: Dim
    grid: Dim
    template: tuple[int | ir.TypeRef | None, ...]
    args: tuple[int | None, ...]
    api: str
    cooperative: bool
    shared: int | None
    sizes: frozenset[int] = frozenset()  # positions of the arguments that are the number of threads in the block
    zeroed: frozenset[int] = frozenset()  # arguments whose memory was filled with zero for it
    piecewise: bool = False  # in a loop whose rounds pass something else each, or with a part of an array


def launches_of(program: Program, kernel: Function) -> tuple[KernelLaunch, ...]:
    """The launches of a kernel that the program writes down, in host code of any file."""
    found = []
    for function in _launchers(program, kernel):
        constants = _constants_in(program, function)
        for node in _nodes(function):
            if _kernel_name(node.kernel) == kernel.name and not _of_another(program, node, kernel):
                found.append(_launch(constants, node, kernel, prepared(function)[id(node)]))
    return tuple(found)


def launches_read(program: Program, kernel: Function) -> LaunchesRead | None:
    """What `launches_of` looks at: while it stays the same and so do all declarations, so do the launches. None when it
    holds a function that is known by no digest."""
    seen: LaunchesRead = {}
    waiting = [f.uid for f in _launchers(program, kernel)]
    for _ in range(_HOPS + 2):
        for uid in waiting:
            digest = program.functions[uid].digest
            if not digest:
                return None
            seen[uid] = (digest, program.callers.get(uid, frozenset()))
        waiting = [caller for uid in waiting for caller in seen[uid][1] if caller not in seen]
    return seen


LaunchesRead = dict[str, tuple[str, frozenset[str]]]
"""Functions that launch, and those that call them: their digests and callers by uid."""


def _launchers(program: Program, kernel: Function) -> list[Function]:
    functions = [program.functions[uid] for uid in sorted(_launching(program).get(kernel.name, ()))]
    return [f for f in functions if _sees(program, f, kernel)]


def _launch(constants: Constants, node: Launch, kernel: Function, given: Prepared) -> KernelLaunch:
    named = _stripped(node.kernel)
    parts = any(k in given.parts and param.type.pointer for k, param in enumerate(kernel.params))
    template = named.template if isinstance(named, ir.Name) else ()
    return KernelLaunch(
        constants.dim(node.block),
        constants.dim(node.grid),
        tuple(_template_argument(constants, t) for t in template),
        tuple(constants.integer(a) for a in node.args),
        node.api,
        node.cooperative,
        constants.integer(node.shared) if node.shared is not None else 0,
        constants.sizes(node),
        zeroed=given.zeroed,
        piecewise=given.by_round or parts,
    )


def _template_argument(constants: Constants, given: ir.Expr | ir.TypeRef) -> int | ir.TypeRef | None:
    """A type's name may be a constant's: which of them it is, the parser could not tell."""
    if isinstance(given, ir.TypeRef):
        value = constants.integer(ir.Name((0, 0), given.name)) if not given.pointer and not given.args else None
        return value if value is not None else given
    value = constants.integer(given)
    if value is None and isinstance(given, ir.Name):
        return ir.TypeRef(given.name)
    return value


def _stripped(kernel: ir.Expr) -> ir.Expr:
    while True:
        if isinstance(kernel, ir.Cast | ir.AddressOf | ir.Deref):
            kernel = kernel.operand
        else:
            return kernel


def _kernel_name(kernel: ir.Expr) -> str:
    named = _stripped(kernel)
    if isinstance(named, ir.Name):
        return named.name.rsplit("::", 1)[-1]
    return named.name if isinstance(named, ir.Member) else ""


_launches: KeptWith[tuple[Launch, ...]] = KeptWith()


def _nodes(function: Function) -> tuple[Launch, ...]:
    """The launches in a function, kept while its text stays."""
    assert function.body is not None
    known = _launches.get(function.body)
    if known is None:
        known = _launches.keep(function.body, tuple(n for n in ir.walk(function.body) if isinstance(n, Launch)))
    return known


_by_kernel: tuple[Program, dict[str, set[str]]] | None = None
_fixed: tuple[Program, dict[tuple[str, int], Constants]] | None = None


def _constants_in(program: Program, function: Function, hops: int = 0) -> Constants:
    """Several kernels are launched in one function: what is fixed there is looked up once."""
    global _fixed
    if _fixed is None or _fixed[0] is not program:
        _fixed = (program, {})
    known = _fixed[1].get((function.uid, hops))
    if known is None:
        known = _fixed[1][function.uid, hops] = Constants(program, function, hops)
    return known


def _launching(program: Program) -> Mapping[str, set[str]]:
    """Kernel names to the functions that launch them; computed once a program."""
    global _by_kernel
    if _by_kernel is not None and _by_kernel[0] is program:
        return _by_kernel[1]
    found: dict[str, set[str]] = {}
    for uid, function in program.functions.items():
        if function.body is None or not function.host_cuda_calls:
            continue
        for node in _nodes(function):
            name = _kernel_name(node.kernel)
            if name:
                found.setdefault(name, set()).add(uid)
    _by_kernel = (program, found)
    return found


def _of_another(program: Program, node: Launch, kernel: Function) -> bool:
    """Another kernel of the name takes as many arguments as a launch passes, and this one does not."""
    if node.api != "<<<>>>":
        return False
    named = [program.functions[u] for u in program.by_name.get(kernel.name, ())]
    fitting = [f.uid for f in named if f.space == "global" and _takes(f, len(node.args))]
    return bool(fitting) and kernel.uid not in fitting


def _takes(kernel: Function, count: int) -> bool:
    needed = sum(p.default is None for p in kernel.params)
    return needed <= count <= len(kernel.params) or any(p.name.endswith("...") for p in kernel.params)


def _sees(program: Program, function: Function, kernel: Function) -> bool:
    if function.path == kernel.path or kernel.path in program.visible.get(function.path, ()):
        return True
    same = [u for u in program.by_name.get(kernel.name, ()) if program.functions[u].space == "global"]
    return len(same) == 1


class Constants:
    """Integers that are fixed in a function: literals, constants, and locals that are set once to one. What functions
    without parameters return is looked up where `asked` keeps the names that were asked for, and what they meant."""

    def __init__(
        self, program: Program, function: Function, hops: int = 0, asked: dict[str, tuple[str, ...]] | None = None
    ) -> None:
        self._hops = hops
        self._asked = asked
        self._program = program
        self._function = function
        self._locals: dict[str, list[ir.Declare]] = {}
        self._written: set[str] = set()
        self._calls: list[ir.Call] = []
        self._depth = 0
        self._given: dict[str, int | None] = {}  # what callers pass
        self._params = {param.name: k for k, param in enumerate(function.params)}
        if function.body is not None:
            for node in ir.walk(function.body):
                if isinstance(node, ir.Declare):
                    self._locals.setdefault(node.name, []).append(node)
                elif isinstance(node, ir.Assign):
                    self._written.update(_roots(node.target))
                elif isinstance(node, ir.AddressOf):
                    self._written.update(_roots(node.operand))
                elif isinstance(node, ir.Call):
                    self._calls.append(node)
        self._changed = frozenset(self._written)
        self._written.update(self._params)

    def dim(self, node: ir.Expr | None) -> Dim:
        """A `dim3`, or an integer for its first number."""
        self._depth += 1
        try:
            return self._dim(node) if node is not None and self._depth < _DEPTH else (None, None, None)
        finally:
            self._depth -= 1

    def _dim(self, node: ir.Expr) -> Dim:
        declared = self._declared(node.name) if isinstance(node, ir.Name) else None
        if declared is not None and declared.type.name.rsplit("::", 1)[-1] == "dim3":
            if declared.name in self._written:
                return (None, None, None)
            return self.dim(declared.init) if declared.init is not None else (1, 1, 1)
        if isinstance(node, ir.Construct | ir.InitList | ir.Call):
            parts: tuple[ir.Expr, ...] = node.items if isinstance(node, ir.InitList) else node.args
            callee = node.callee if isinstance(node, ir.Call) else None
            if callee is None or isinstance(callee, ir.Name) and callee.name.endswith("dim3"):
                if len(parts) == 1 and isinstance(parts[0], ir.Construct | ir.InitList | ir.Name):
                    return self.dim(parts[0])
                values = [self.integer(p) for p in parts[:3]] + [1] * (3 - len(parts))
                return (values[0], values[1], values[2])
        value = self.integer(node)
        return (value, 1, 1) if value is not None else (None, None, None)

    def sizes(self, node: Launch) -> frozenset[int]:
        """The positions of the arguments that are what the block's size is written with: `k<<<1, n>>>(n, a)`."""
        name = self._length(node.block, self._changed)
        if name is None:
            return frozenset()
        return frozenset(k for k, a in enumerate(node.args) if self._length(a, frozenset()) == name)

    def _length(self, node: ir.Expr | None, changed: frozenset[str], depth: int = 0) -> str | None:
        """The variable that a number, or a shape of one dimension, is. `changed`: those that may be another by then."""
        match node:
            case ir.Name(name=name) if depth < _HOPS + 2:
                declared = self._declared(name)
                if declared is None or declared.type.name.rsplit("::", 1)[-1] != "dim3":
                    return name if not depth or name not in changed else None
                return self._length(declared.init, changed, depth + 1) if name not in changed else None
            case ir.Cast(operand=operand, type=type_) if not type_.pointer and is_scalar(type_):
                return self._length(operand, changed, depth)
            case (
                ir.Construct(args=parts) | ir.InitList(items=parts) | ir.Call(callee=ir.Name(name="dim3"), args=parts)
            ) if parts and all(self.integer(p) == 1 for p in parts[1:]):
                return self._length(parts[0], changed, depth)
        return None

    def integer(self, node: ir.Expr | None) -> int | None:
        self._depth += 1
        try:
            return self._integer(node) if self._depth < _DEPTH else None
        finally:
            self._depth -= 1

    def _integer(self, node: ir.Expr | None) -> int | None:
        match node:
            case ir.Const(value=value):
                return int(value) if isinstance(value, int) else None
            case ir.Name(name=name):
                if (declared := self._declared(name)) is not None:
                    if name in self._written or declared.init is None or declared.type.name in ("float", "double"):
                        return None
                    return self.integer(declared.init)
                if name in self._params and name not in self._changed and name not in self._locals:
                    return self._passed(name)
                if name in self._written or name in self._locals:
                    return None
                found = constant(self._program, self._function.path, name)
                return self.integer(found) if found is not None else None
            case ir.Cast(operand=operand, type=type_) if not type_.pointer:
                return self.integer(operand)
            case ir.Construct(args=(single,), type=type_) if not type_.pointer:
                return self.integer(single) if is_scalar(type_) or type_.name == "dim3" else None
            case ir.InitList(items=(single,)):
                return self.integer(single)
            case ir.Member(base=base, name="x" | "y" | "z" as axis):
                return self.dim(base)["xyz".index(axis)] if isinstance(base, ir.Name) else None
            case ir.Unary(op="-", operand=operand):
                inner = self.integer(operand)
                return -inner if inner is not None else None
            case ir.Binary(op=op, left=left, right=right):
                a, b = self.integer(left), self.integer(right)
                value = _apply(op, a, b) if a is not None and b is not None else None
                return value if value is not None and abs(value) <= LARGEST else None
            case ir.Call(callee=ir.Name(name=name), args=()):
                return self._returned(name)
        return None

    def _returned(self, name: str) -> int | None:
        """What a function returns that does nothing else."""
        if self._asked is None:
            return None
        found = resolve(self._program, self._function.path, name, 0)
        short = name.rpartition("::")[2]
        self._asked[short] = self._program.by_name.get(short, ())
        if len(found) != 1 or found[0].body is None:
            return None
        body: tuple[ir.Stmt, ...] = found[0].body.body
        while len(body) == 1 and isinstance(body[0], ir.PreprocIf):
            sides = [(taken, block) for text, block in body[0].branches if (taken := compiled(text)) is not False]
            body = sides[0][1].body if sides and sides[0][0] else ()
        value = body[0].value if len(body) == 1 and isinstance(body[0], ir.Return) else None
        return Constants(self._program, found[0], self._hops + 1).integer(value)

    def _passed(self, name: str) -> int | None:
        """A parameter that every call gives the same constant."""
        if name not in self._given:
            self._given[name] = self._every_caller_gives(name)
        return self._given[name]

    def _every_caller_gives(self, name: str) -> int | None:
        values: set[int | None] = set()
        for uid in self._program.callers.get(self._function.uid, frozenset()):
            caller = self._program.functions[uid]
            if caller.body is None or self._hops > _HOPS:
                return None
            inner = _constants_in(self._program, caller, self._hops + 1)
            for node in inner._calls:
                if _kernel_name(node.callee) != self._function.name:
                    continue
                position = self._params[name]
                values.add(inner.integer(node.args[position]) if position < len(node.args) else None)
        return values.pop() if len(values) == 1 else None

    def _declared(self, name: str) -> ir.Declare | None:
        known = self._locals.get(name, ())
        return known[0] if len(known) == 1 else None


def _apply(op: str, a: int, b: int) -> int | None:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/" if b:
            return int(a / b) if abs(a) < 1 << 52 else a // b
        case "%" if b > 0 <= a:
            return a % b
        case "<<" if 0 <= b < 63:
            return a << b
        case ">>" if 0 <= b < 63:
            return a >> b
    return None


def _roots(node: ir.Expr) -> Iterator[str]:
    while isinstance(node, ir.Member | ir.Index | ir.Deref | ir.Cast):
        node = node.base if isinstance(node, ir.Member | ir.Index) else node.operand
    if isinstance(node, ir.Name):
        yield node.name


_Asked: TypeAlias = dict[tuple[str, str], ir.Expr | None]  # by path and name
_constants: tuple[Program, dict[str, list[tuple[str, ir.Expr]]], _Asked] | None = None


def constant(program: Program, path: str, name: str) -> ir.Expr | None:
    """What defines a constant of this name: a macro, an enumerator, a global or a static member with a value; the one in
    this file, else one in a file that it includes, else the only one."""
    global _constants
    if _constants is None or _constants[0] is not program:
        _constants = (program, _collected(program), {})
    _, collected, asked = _constants
    if (path, name) not in asked:
        asked[path, name] = _constant(program, collected, path, name)
    return asked[path, name]


def _constant(
    program: Program, collected: Mapping[str, list[tuple[str, ir.Expr]]], path: str, name: str
) -> ir.Expr | None:
    known = collected.get(name) or collected.get(name.rsplit("::", 1)[-1], []) if name else []
    here = [value for where, value in known if where == path]
    if here:  # of one for each platform, the one that is a number
        return next((value for value in here if isinstance(value, ir.Const)), here[0])
    visible = program.visible.get(path, frozenset())
    seen = [value for where, value in known if where in visible]
    if seen:
        return seen[0]
    return known[0][1] if len({repr(_bare(v)) for _, v in known}) == 1 else None


def _bare(node: ir.Expr) -> object:
    return node.value if isinstance(node, ir.Const) else node


def _collected(program: Program) -> dict[str, list[tuple[str, ir.Expr]]]:
    found: dict[str, list[tuple[str, ir.Expr]]] = {}
    for path, module in program.modules.items():
        for name, value in module.constants:
            found.setdefault(name, []).append((path, value))
        for declared in module.globals:
            fixed = declared.type.const or declared.type.name == "auto"
            if (
                declared.init is not None
                and fixed
                and not declared.type.pointer
                and declared.space in ("", "constant", "device")
            ):
                found.setdefault(declared.name, []).append((path, declared.init))
        for record in module.records:
            for member in record.fields:
                if member.init is not None and member.static:
                    found.setdefault(f"{record.name}::{member.name}", []).append((path, member.init))
    return found
