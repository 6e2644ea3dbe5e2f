"""Variables that take turns in a loop: buffers that are swapped, an index that is toggled or counts round and round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from stitchcuda.analysis.order.host import statics
from stitchcuda.analysis.order.state import Path, State, is_handle
from stitchcuda.analysis.order.symbolic import integer
from stitchcuda.analysis.order.values import Num, Object, Place, Value, either
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr, Program, Stmt, TypeRef

_DEPTH = 3  # calls followed from the body of the loop
_FUNCTIONS = 64  # functions looked into
_FOLLOWED = 4  # slots of a ring that a loop goes through
_TAKES = frozenset({"pop_front", "erase"})
_PUTS = frozenset({"push_back", "emplace_back"})
_ROUND = 8  # a counter that goes round in more steps than this is like any other number


def turning(program: Program, loop: ir.Loop, given: Callable[[str], Sequence[TypeRef]]) -> frozenset[str]:
    """The names of the variables and members that take turns in a loop, also in the functions that it calls. `given`: what
    the program gives for a template parameter."""
    found: set[str] = set()
    counted: set[str] = set()
    cut: set[str] = set()  # names of which a remainder is taken
    taken: set[str] = set()  # containers out of which the first is taken, and those that something is put behind
    put: set[str] = set()
    seen: set[str] = set()
    parts = [loop.body, *steps(loop)]
    for body in (reached for part in parts for reached in _reached(program, part, _DEPTH, seen)):
        found |= _in_body(body)
        for node in ir.walk(body):
            match node:
                case ir.Assign(op="+", target=ir.Name(name=name) | ir.Member(name=name), value=ir.Const(value=1)):
                    counted.add(name)
                case ir.Binary(op="%" | "&", left=left, right=size):
                    if isinstance(left, ir.Assign):  # `slots[next++ % depth]`
                        left = left.target
                    if isinstance(left, ir.Name | ir.Member) and _slots(program, size, given) <= _FOLLOWED:
                        cut.add(left.name)
                case ir.Call(callee=ir.Member(base=ir.Name(name=name) | ir.Member(name=name), name=method)):
                    if method in _TAKES:
                        taken.add(name)
                    elif method in _PUTS:
                        put.add(name)
    return frozenset(found | counted & cut | taken & put)


def steps(loop: ir.Loop) -> list[Expr]:
    """What a loop does between its rounds, in order: `++i, slot ^= 1` is two things."""
    waiting = [loop.step] if loop.step is not None else []
    found: list[Expr] = []
    while waiting:
        part = waiting.pop()
        if isinstance(part, ir.Binary) and part.op == ",":
            waiting += [part.right, part.left]
        else:
            found.append(part)
    return found


def writes_through_table(loop: ir.Loop) -> bool:
    """`*targets[i] = ...`: which variables are written is only known when the iterations are told apart."""
    return any(
        isinstance(node, ir.Assign)
        and isinstance(node.target, ir.Deref)
        and any(isinstance(inner, ir.Index) for inner in ir.walk(node.target.operand))
        for node in ir.walk(loop.body)
    )


def _slots(program: Program, size: Expr, given: Callable[[str], Sequence[TypeRef]] | None) -> int:
    """What a constant by which a slot is chosen is, written or by its name; a large number when it is not known."""
    if isinstance(size, ir.Const):
        return size.value if isinstance(size.value, int) else _ROUND
    name = size.name.rpartition("::")[2] if isinstance(size, ir.Name) else ""
    for module in program.modules.values() if name else ():
        declared = [d.init for d in module.globals if d.name.rpartition("::")[2] == name]
        declared += [d.init for r in module.records for d in r.fields if d.name == name]
        declared += [value for constant, value in module.constants if constant == name]
        for init in declared:
            if isinstance(init, ir.Const) and isinstance(init.value, int):
                return init.value
    types = given(name) if given is not None and name else ()
    return max((_slots(program, _number(type), None) for type in types), default=_ROUND)


def _number(type: TypeRef) -> Expr:
    """What is given for `template <int N>`: a number or the name of a constant."""
    written = integer(type.name)
    return ir.Const((0, 0), written) if written is not None else ir.Name((0, 0), type.name)


def template_arguments(program: Program) -> dict[str, list[TypeRef]]:
    """By template parameter of a class or function: what the program gives for it, wherever it is written."""
    names: dict[str, tuple[str, ...]] = {}
    for record in program.records.values():
        names.setdefault(record.name.rpartition("::")[2], statics.parameters_of(program, record))
    for function in program.functions.values():
        if function.template and not function.record:
            names.setdefault(function.name, function.template)
    found: dict[str, list[TypeRef]] = {}
    for name, args in _instantiations(program):
        for parameter, arg in zip(names.get(name.rpartition("::")[2], ()), args, strict=False):
            if isinstance(arg, ir.Const | ir.Name):
                arg = TypeRef(str(arg.value) if isinstance(arg, ir.Const) else arg.name)
            if isinstance(arg, TypeRef):
                found.setdefault(parameter, []).append(arg)
    return found


_Instantiation: TypeAlias = tuple[str, Sequence[Expr | TypeRef]]


def _instantiations(program: Program) -> Iterator[_Instantiation]:
    """What stands before `<...>`, and in it."""
    for record in program.records.values():
        for type in (*record.base_types, *(declared.type for declared in record.fields)):
            yield from _in_type(type)
    for module in program.modules.values():
        for declared in module.globals:
            yield from _in_type(declared.type)
    for function in program.functions.values():
        for param in function.params:
            yield from _in_type(param.type)
        for node in ir.walk(function.body) if function.body is not None and function.space != "device" else ():
            if isinstance(node, ir.Declare | ir.Construct | ir.New):
                yield from _in_type(node.type)
            elif isinstance(node, ir.Name) and node.template:
                yield node.name, node.template
                for arg in node.template:
                    if isinstance(arg, TypeRef):
                        yield from _in_type(arg)


def _in_type(type: TypeRef) -> Iterator[_Instantiation]:
    if type.args:
        yield type.name, type.args
        for inner in type.args:
            yield from _in_type(inner)


def held(state: State, objects: list[Object], names: frozenset[str]) -> Mapping[tuple[int, Path], Value]:
    """What the variables and members of these names hold, as far as it can be compared."""
    found: dict[tuple[int, Path], Value] = {}
    for number, entries in state.memory.items():
        whole = objects[number].name.rpartition(".")[2] in names
        for path, value in entries.items():
            if not whole:
                for step in path:
                    if type(step) is str and step in names:
                        break
                else:
                    continue
            if is_handle(value) or (isinstance(value, Num) and value.value.constant is not None):
                found[number, path] = value
    return found


def settle(state: State, heads: Sequence[Mapping[tuple[int, Path], Value]], trip: int | None) -> None:
    """What takes turns holds after a loop any of what it held at the heads of the rounds (the first of `heads` is that of
    the first round, the last is now); when it goes round in a known number of `trip` rounds, exactly one of them."""
    first = heads[0]
    turn = next((k for k in range(1, len(heads)) if first.items() <= heads[k].items()), None)
    for key, value in heads[-1].items():
        chosen: Value | None
        seen = [head[key] for head in heads[1:] if key in head]
        if all(v == value for v in seen):
            continue
        if turn is not None and trip is not None:
            chosen = heads[trip % turn].get(key)
        else:
            chosen = either(seen) if is_handle(value) else None
        if chosen is not None:
            state.store(Place(*key), chosen)


def _in_body(body: Stmt | Expr) -> set[str]:
    """The names that take turns by the statements of one body."""
    found: set[str] = set()
    given: dict[str, set[str]] = {}  # name -> names that it takes its value from
    for node in ir.walk(body):
        match node:
            case ir.Assign(target=ir.Name(name=name) | ir.Member(name=name), value=value, op=op):
                if (op == "^" and isinstance(value, ir.Const)) or (op == "" and _turns(value, name)):
                    found.add(name)
                elif op == "" and isinstance(value, ir.Name | ir.Member):
                    given.setdefault(name, set()).add(value.name)
            case ir.Declare(name=name, init=ir.Name(name=other) | ir.Member(name=other)):
                given.setdefault(name, set()).add(other)
            case ir.Call(callee=ir.Name(name=called), args=(left, right)) if called.rsplit("::", 1)[-1] == "swap":
                found |= {n for n in (_swapped(left), _swapped(right)) if n is not None}
            case ir.If(condition=condition, then=then):  # `if (++slot == slots) slot = 0;`
                tested = {n.name for n in ir.walk(condition) if isinstance(n, ir.Name | ir.Member)}
                for inner in ir.walk(then):
                    if isinstance(inner, ir.Assign) and inner.op == "" and isinstance(inner.value, ir.Const):
                        found |= tested & {_swapped(inner.target)}
    return found | {name for name in given if name in _sources(given, name)}


def _reached(program: Program, body: Stmt | Expr, depth: int, seen: set[str]) -> Iterator[Stmt | Expr]:
    """A body and those of the program's own functions that it calls."""
    yield body
    for node in ir.walk(body) if depth else ():
        if not isinstance(node, ir.Call) or not isinstance(node.callee, ir.Name | ir.Member):
            continue
        for uid in program.by_name.get(node.callee.name.rsplit("::", 1)[-1], ()):
            function = program.functions[uid]
            if (
                uid in seen
                or len(seen) >= _FUNCTIONS
                or function.body is None
                or function.space in ("global", "device")
            ):
                continue
            seen.add(uid)
            yield from _reached(program, function.body, depth - 1, seen)


def _turns(value: Expr, name: str) -> bool:
    """`1 - x`, `!x`, `(x + 1) % n`, `x ^ 1`, `x ? 0 : 1`."""
    mentions = any(isinstance(node, ir.Name | ir.Member) and node.name == name for node in ir.walk(value))
    match value:
        case ir.Unary(op="!" | "not"):
            return mentions
        case ir.Binary(op="%" | "&", right=ir.Const(value=size)):
            return mentions and isinstance(size, int) and size <= _ROUND
        case ir.Binary(op="-", left=ir.Const()) | ir.Binary(op="%" | "^" | "=="):
            return mentions
        case ir.Conditional():
            return mentions
    return False


def _swapped(expr: Expr) -> str | None:
    """The variable or member that an expression is; that of a fixed element is its array."""
    if isinstance(expr, ir.Index) and isinstance(expr.index, ir.Const):
        expr = expr.base
    return expr.name if isinstance(expr, ir.Name | ir.Member) else None


def _sources(given: Mapping[str, set[str]], name: str) -> set[str]:
    """Where the value of a variable may come from, over any number of assignments."""
    found: set[str] = set()
    waiting = list(given.get(name, ()))
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting += given.get(current, ())
    return found
