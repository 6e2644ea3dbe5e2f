"""What the frontend tests share: lowering a snippet and showing it."""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.program.cuda import lower_module
from stitchcuda.analysis.program.ir import Api, Expr, Function, Launch, Module, Stmt, walk
from stitchcuda.analysis.program.show import show_stmt


def lower(text: str, path: str = "a.cu") -> Module:
    return lower_module(path, text.encode())


def function(module: Module, name: str) -> Function:
    return next(f for f in module.functions if f.name == name and f.body is not None)


def body_lines(text: str, name: str = "f") -> list[str]:
    """The statements of a function, one line each, without the braces around them."""
    body = function(lower(text), name).body
    assert body is not None
    return [line.removeprefix("  ") for line in show_stmt(body)[1:-1]]


def statements(code: str, before: str = "") -> list[str]:
    return body_lines(f"{before}\nvoid f() {{ {code} }}\n")


def cuda_nodes(module: Module) -> Iterator[tuple[Function, Api | Launch]]:
    for each in module.functions:
        if each.body is not None:
            for node in walk(each.body):
                if isinstance(node, Api | Launch):
                    yield each, node


def nodes(module: Module) -> Iterator[tuple[Function, Expr | Stmt]]:
    for each in module.functions:
        if each.body is not None:
            for node in walk(each.body):
                yield each, node
