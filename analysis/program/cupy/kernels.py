"""Kernels: raw ones as launches, ones made of a snippet as library calls."""

from __future__ import annotations

from abc import ABC, abstractmethod

from stitchcuda.analysis.program.cupy.expressions import Expressions, kernel_name
from stitchcuda.analysis.program.cupy.kinds import MEMORY, arguments_of, literal
from stitchcuda.analysis.program.cupy.lowering import RETURNS
from stitchcuda.analysis.program.ir import (
    ApiKind,
    Expr,
    Launch,
    Name,
)
from stitchcuda.analysis.syntax.python import text_of
from tree_sitter import Node


class Kernels(Expressions, ABC):
    @abstractmethod
    def _stream(self, node: Node | None) -> Expr | None: ...

    def _launch(self, node: Node, function: Node, positional: list[Node], named: dict[str, Node]) -> Expr:
        """`kernel(grid, block, args, shared_mem=..., stream=...)`."""
        self.cuda_calls += 1
        detail = self.kind(function).detail
        name = kernel_name(detail) if detail else text_of(function)
        self.mentions.add(name)
        grid = positional[0] if positional else named.get("grid")
        block = positional[1] if len(positional) > 1 else named.get("block")
        given = positional[2] if len(positional) > 2 else named.get("args")
        shared = named.get("shared_mem")
        return Launch(
            self.span(node),
            Name(self.span(function), name),
            self.expr(grid) if grid is not None else None,
            self.expr(block) if block is not None else None,
            self.expr(shared) if shared is not None else None,
            self._stream(named.get("stream")),
            self._kernel_arguments(given),
            api="RawKernel",
        )

    def _kernel_arguments(self, given: Node | None) -> tuple[Expr, ...]:
        if given is None:
            return ()
        if given.type == "identifier":
            value = self.assigned_once(text_of(given))
            if value is not None and value.type in ("tuple", "list"):
                given = value
        if given.type in ("tuple", "list"):
            return tuple(self.expr(c) for c in given.named_children if c.type != "comment")
        return (self.opaque(given, "arguments", [self.expr(given)]),)

    def _snippet(self, node: Node, function: Node, positional: list[Node], named: dict[str, Node], hint: str) -> Expr:
        """A kernel made of a snippet: the inputs that its declaration names are read, arrays after them are written."""
        display = text_of(function)
        value = self.assigned_once(display) if function.type == "identifier" else None
        declared = literal(arguments_of(value)[0][0]) if value is not None and arguments_of(value)[0] else ""
        arrays = [a for a in positional if self.kind(a).what in MEMORY]
        if "ReductionKernel" in text_of(value or node) or not declared:
            roles = (
                self.sources(positional) if declared else [(f"arg{k}", self.expr(a)) for k, a in enumerate(positional)]
            )
            return self.api(node, display, ApiKind.LIBRARY_CALL, roles, RETURNS, hint)
        inputs = len([p for p in declared.split(",") if p.strip()])
        roles = self.sources(positional[:inputs])
        outputs = [a for a in positional[inputs:] if a in arrays]
        for out in outputs:
            roles.append(("dst", self.expr(out)))
        if outputs:
            return self.api(node, display, ApiKind.LIBRARY_CALL, roles)
        return self.api(node, display, ApiKind.LIBRARY_CALL, roles, RETURNS, hint)
