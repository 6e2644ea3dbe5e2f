"""When an array dies: `del`, and the end of the function that made it."""

from __future__ import annotations

from abc import ABC

from stitchcuda.analysis.program.cupy import table, torch_table
from stitchcuda.analysis.program.cupy.calls import Calls
from stitchcuda.analysis.program.cupy.kinds import MEMORY, arguments_of
from stitchcuda.analysis.program.ir import (
    ApiKind,
    Evaluate,
    Name,
    Stmt,
)
from stitchcuda.analysis.syntax.python import text_of
from tree_sitter import Node


class Lifetimes(Calls, ABC):
    loops: int
    owned: dict[str, Name]  # arrays that die with the function -> the stream they were allocated on

    def _delete(self, node: Node) -> list[Stmt]:
        """`del x`: the memory goes back to the pool, which gives it to later work of the stream it was allocated on (A3)."""
        out: list[Stmt] = []
        targets = node.named_children[0].named_children if node.named_children[:1] and node.named_children[0].type in (
            "expression_list", "tuple"
        ) else node.named_children  # fmt: skip
        for target in targets:
            name = text_of(target)
            if target.type == "identifier" and name in self.owned and not self._shared(name, returned=True):
                out.append(self._free(target, name, self.owned.pop(name)))
        return out

    def _free(self, node: Node, name: str, stream: Name) -> Stmt:
        span = self.span(node)
        roles = [("ptr", Name(span, name)), ("stream", stream)]
        return Evaluate(
            span, self.api(node, f"{self.array_type}.__del__", ApiKind.FREE, roles, frozenset({"pooled", "async"}))
        )

    def _drops(self, node: Node) -> list[Stmt]:
        """Arrays that die when the function returns (A3, O8)."""
        if self.scope is self.inference.file.module or self.scope.name == "main":
            return []  # the process ends here: nothing reuses the memory
        end = node if node.type == "return_statement" else (node.named_children[-1] if node.named_children else node)
        return [self._free(end, name, stream) for name, stream in reversed(self.owned.items())
                if not self._shared(name, returned=True)]  # fmt: skip

    def _dies_here(self, left: Node, right: Node) -> bool:
        """An array made here, on every path, whose only owner is this name."""
        name = text_of(left)
        if self.loops or self.kind(right).what != "array" or name in self.scope.globals or right.type == "identifier":
            return False
        parent = left.parent.parent if left.parent is not None else None
        top = parent.parent if parent is not None else None
        while top is not None and top.type in ("block", "with_statement"):
            top = top.parent
        if top is None or top.id != self.scope.node.id or self.assigned_once(name) is None:
            return False
        function = right.child_by_field_name("function") if right.type == "call" else None
        canonical = self.inference.canonical(function) if function is not None else None
        fresh = right.type == "binary_operator" or (
            canonical is not None
            and canonical.startswith(("cupy.", "torch."))
            and canonical not in table.UPLOADS - {"cupy.array"}
        )
        if canonical in table.UPLOADS and arguments_of(right)[0]:
            fresh = self.kind(arguments_of(right)[0][0]).what in ("host", "pinned")
        return fresh and not self._shared(name, returned=False) and not self._recorded_elsewhere(name)

    def _shared(self, name: str, returned: bool) -> bool:
        """Whether something else may hold on to the array: another name, a container, an object, unknown code."""
        for node in self.scope.nodes():
            if node.type != "identifier" or text_of(node) != name:
                continue
            inner, outer = node, node.parent
            while outer is not None and outer.type in ("subscript", "attribute", "parenthesized_expression"):
                inner, outer = outer, outer.parent
            if outer is None:
                return True
            if (
                outer.type == "assignment"
                and outer.child_by_field_name("right") == inner
                or outer.type in ("return_statement", "yield")
            ):
                if self.kind(inner).what in MEMORY:
                    return True
            elif (
                outer.type in ("list", "pair", "lambda", "set", "expression_list")
                or outer.type == "argument_list"
                and self._keeps(outer)
            ):
                return True
            elif outer.type == "call" and inner.type == "attribute" and self.kind(outer).what in MEMORY:
                name_ = text_of(inner.child_by_field_name("attribute") or inner)
                if name_ in table.VIEWS or self.inference.file.torch and name_ in torch_table.VIEWS:
                    return True
        return False

    def _keeps(self, arguments: Node) -> bool:
        call = arguments.parent
        function = call.child_by_field_name("function") if call is not None else None
        if call is None or function is None:
            return True
        canonical = self.inference.canonical(function)
        if canonical is not None:
            known = canonical.startswith(("cupy.", "numpy.", "cupyx.", "torch."))
            return not known or canonical in table.UPLOADS
        if self.inference.file.torch and self.kind(function).what == "snippet":
            return True  # a module keeps what the gradient needs
        return self.kind(function).what not in ("kernel", "snippet") and text_of(function) not in table.HOST_BUILTINS
