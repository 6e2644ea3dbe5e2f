"""What a statement is to the proof: an API call (perhaps inside an error check), a launch, a call of a function of the
program, a declaration, a return; or something else, which must not change."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stitchcuda.analysis.program.ir import (
    Api,
    Assign,
    Binary,
    Block,
    Call,
    Const,
    Construct,
    Declare,
    Delete,
    Evaluate,
    Expr,
    If,
    Lambda,
    Launch,
    Member,
    Name,
    New,
    Opaque,
    Program,
    Return,
    Stmt,
    TypeRef,
    bare,
    walk,
)
from stitchcuda.analysis.program.link import resolve
from stitchcuda.analysis.proof.correspond import Side
from stitchcuda.analysis.proof.pieces import Piece

PURE_METHODS = frozenset({"data", "size", "get", "begin", "c_str", "length"})
_UNSEEN_CHECK = re.compile(
    r"^(?!.*(time|prof|bench|trace|log|record))(.*(check|safe|assert|handle|err|verify|must|try).*|(cuda|gpu|rt|cu)_?(rt_)?call|ck)$",
    re.IGNORECASE,
)
_SUCCESS = frozenset({"cudaSuccess", "CUDA_SUCCESS", "cudaError::cudaSuccess"})
VECTORS = frozenset({"std::vector", "vector"})
NUMBERS = frozenset(
    f"{scope}{name}"
    for scope in ("", "std::")
    for name in ("size_t", *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)))
) | {
    *("float", "double", "half", "bool", "char", "short", "int", "long", "unsigned", "long long"),
    *(f"unsigned {kind}" for kind in ("char", "short", "int", "long", "long long")),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """`kind` is api, launch, call, declare, return or other; `node` the call or statement that matters. `check` is the name
    of the error check around an API call, "" for none."""

    kind: str
    node: Expr | Stmt | None = None
    check: str = ""


OTHER = Shape("other")


def shape_of(program: Program, side: Side, piece: Piece) -> Shape:
    nodes, words = side.nodes.get(piece, []), piece.words
    base = side.function.base
    start, end = piece.span
    apis = [n for n in nodes if isinstance(n, Api) and _word_at(piece, base + n.span[0]) == n.name]
    launches = [n for n in nodes if isinstance(n, Launch)]
    if len(apis) == 1 and not launches:
        return _api(program, nodes, words, apis[0], (base + apis[0].span[0] - start, end - base - apis[0].span[1]))
    if apis or not nodes:
        return OTHER
    first = nodes[0]
    if isinstance(first, Evaluate):
        inner = first.expr
        if isinstance(inner, Launch):  # never comes or goes alone
            return Shape("launch", inner)
        if (
            isinstance(inner, Call)
            and followed(program, side.function.path, inner) is not None
            and pure_parts(inner.args)
        ):
            return Shape("call", inner)
    if isinstance(first, Declare) and not first.static and sum(isinstance(n, Declare) for n in nodes) == 1:
        return Shape("declare", first)
    if isinstance(first, Return):
        return Shape("return", first)
    return OTHER


def followed(program: Program, path: str, call: Expr | None) -> str | None:
    """The one host function of the program that a call written in a file means."""
    if not isinstance(call, Call) or not isinstance(call.callee, Name) or call.callee.template:
        return None
    found = resolve(program, path, call.callee.name, len(call.args))
    return found[0].uid if len(found) == 1 and found[0].space == "host" and found[0].body is not None else None


def pure(node: Expr | Stmt) -> bool:
    """Evaluating it changes nothing and asks nobody: it may come and go."""
    for inner in walk(node):
        if isinstance(inner, (Assign, Lambda, New, Delete, Launch, Api, Opaque)):
            return False
        if isinstance(inner, Call) and not _asks_size(inner):
            return False
    return True


def _asks_size(call: Call) -> bool:
    return isinstance(call.callee, Member) and call.callee.name in PURE_METHODS and not call.args


def pure_parts(parts: Iterable[Expr]) -> bool:
    return all(pure(p) for p in parts)


def is_vector(type_: TypeRef) -> bool:
    """A host vector of numbers, by value or reference: what carries data between two copies."""
    return type_.name in VECTORS and not type_.pointer and len(type_.args) == 1 and is_number(type_.args[0])


def is_number(type_: TypeRef) -> bool:
    return type_.name in NUMBERS and not type_.pointer and not type_.args and not type_.dims and not type_.reference


def is_pointer(type_: TypeRef) -> bool:
    return type_.pointer == 1 and not type_.dims and not type_.reference


def null_declaration(node: Declare) -> bool:
    return is_pointer(node.type) and (
        node.init is None or (isinstance(node.init, Const) and node.init.value in (None, 0))
    )


def vector_declaration(node: Declare) -> bool:
    """`std::vector<float> v(n)`: memory that nobody has written to yet."""
    if not is_vector(node.type) or node.type.reference:
        return False
    return node.init is None or (
        isinstance(node.init, Construct) and len(node.init.args) <= 1 and pure_parts(node.init.args)
    )


def _word_at(piece: Piece, offset: int) -> str:
    return next((t.text for t in piece.tokens if t.start == offset), "")


def _api(
    program: Program, nodes: list[Expr | Stmt], words: tuple[str, ...], call: Api, around: tuple[int, int]
) -> Shape:
    if not pure_parts(value for _, value in call.roles):
        return OTHER
    if around[0] == 0:
        return Shape("api", call) if words[-1] == ";" and words[0] == call.name else OTHER
    if words[1] != "(" or words[2] != call.name or words[-2:] != (")", ";") or not words[0].isidentifier():
        return OTHER
    return Shape("api", call, words[0]) if checks_only(program, nodes, words[0], call) else OTHER


def checks_only(program: Program, nodes: list[Expr | Stmt], name: str, call: Api) -> bool:
    """What is written around the call looks at its status, and does something only when that is an error."""
    first = nodes[0]
    if isinstance(first, Evaluate) and isinstance(first.expr, Call):
        callee = first.expr.callee
        if not isinstance(callee, Name) or call not in first.expr.args:
            return False
        uids = program.by_name.get(callee.name.rsplit("::", 1)[-1], ())
        if not uids:
            return bool(_UNSEEN_CHECK.search(name))
        if len(uids) != 1:
            return False
        function = program.functions[uids[0]]
        if function.body is None or not function.params or any(not pure(a) for a in first.expr.args if a is not call):
            return False
        return _only_reports(function.body.body, function.params[0].name)
    status = ""
    rest: list[Expr | Stmt] = []
    waiting = _outermost(nodes)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, Block):
            waiting = [*node.body, *waiting]
        elif isinstance(node, Declare) and node.init is call and not status:
            status = node.name
        elif isinstance(node, Evaluate) and node.expr is call and not status:
            return not waiting
        elif isinstance(node, If) and not status and _asks(node.condition, call):
            return not (rest or waiting or node.otherwise or node.init)
        else:
            rest.append(node)
    return bool(status) and _only_reports(rest, status)


def _outermost(nodes: list[Expr | Stmt]) -> list[Expr | Stmt]:
    kept: list[Expr | Stmt] = []
    inside: set[int] = set()
    for node in nodes:
        if id(node) not in inside:
            inside.update(id(n) for n in walk(node))
            kept.append(node)
    return kept


def _is_error(condition: Expr, status: str) -> bool:
    """`status != cudaSuccess`, the other way round, or `status` alone."""
    if isinstance(condition, Binary) and condition.op == "!=":
        sides = [condition.left, condition.right]
        named = [s for s in sides if not (isinstance(s, Name) and s.name in _SUCCESS or isinstance(s, Const))]
        return len(named) == 1 and _is_error(named[0], status)
    condition = bare(condition)
    return isinstance(condition, Name) and condition.name == status


def _asks(condition: Expr, call: Api) -> bool:
    """`call != cudaSuccess`, the other way round, or the call alone."""
    sides = [bare(condition)]
    if isinstance(condition, Binary) and condition.op == "!=":
        sides = [bare(condition.left), bare(condition.right)]
    others = [s for s in sides if s is not call]
    return len(others) == len(sides) - 1 and all(
        isinstance(s, Name) and s.name in _SUCCESS or isinstance(s, Const) and s.value == 0 for s in others
    )


def _only_reports(statements: Iterable[Expr | Stmt], status: str) -> bool:
    """Branches on the status alone, for one outcome only."""
    for node in statements:
        if isinstance(node, Return) and (node.value is None or pure(node.value)):
            continue
        if not isinstance(node, If) or node.otherwise is not None or node.init is not None:
            return False
        if not _is_error(node.condition, status):
            return False
    return True
