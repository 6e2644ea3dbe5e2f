"""Kernel effects from IR built by hand: the contract of `effects.py` apart from any frontend."""

from __future__ import annotations

from stitchcuda.analysis.order.symbolic import symbol
from stitchcuda.analysis.order.timeline import Certainty, Mode, Shape
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.effects import ParamEffect, kernel_effects

Z = (0, 0)
FLOAT_POINTER = ir.TypeRef("float", pointer=1)
CONST_FLOAT_POINTER = ir.TypeRef("float", pointer=1, const=True)
INT = ir.TypeRef("int")


def name(text: str) -> ir.Name:
    return ir.Name(Z, text)


def member(base: str, field: str) -> ir.Member:
    return ir.Member(Z, name(base), field)


def binary(op: str, left: ir.Expr, right: ir.Expr) -> ir.Binary:
    return ir.Binary(Z, op, left, right)


def at(base: str, index: ir.Expr) -> ir.Index:
    return ir.Index(Z, name(base), index)


GLOBAL_INDEX = binary("+", binary("*", member("blockIdx", "x"), member("blockDim", "x")), member("threadIdx", "x"))


def program(params: tuple[ir.Param, ...], body: tuple[ir.Stmt, ...] | None) -> ir.Program:
    block = None if body is None else ir.Block(Z, body)
    kernel = ir.Function("k", "k", "k", "a.cu", 0, Z, Z, params, ir.TypeRef("void"), block, space="global")
    return ir.Program({}, {"k": kernel}, {"k": ("k",)})


def test_guarded_elementwise_write_is_must_and_thread_shaped() -> None:
    params = (ir.Param("x", CONST_FLOAT_POINTER), ir.Param("y", FLOAT_POINTER), ir.Param("n", INT))
    store = ir.Evaluate(Z, ir.Assign(Z, at("y", name("i")), at("x", name("i"))))
    body = (ir.Declare(Z, "i", INT, GLOBAL_INDEX), ir.If(Z, binary("<", name("i"), name("n")), store))
    effects = kernel_effects(program(params, body), "k")
    n = symbol("n")
    zero = n - n
    assert effects.params == (
        ParamEffect("x", frozenset({Mode.READ}), Certainty.MUST, Shape.THREAD, "float", "", zero, n),
        ParamEffect("y", frozenset({Mode.WRITE}), Certainty.MUST, Shape.THREAD, "float", "", zero, n),
    )


def test_declared_only_kernel_follows_its_parameter_types() -> None:
    params = (ir.Param("x", CONST_FLOAT_POINTER), ir.Param("y", FLOAT_POINTER), ir.Param("n", INT))
    x, y = kernel_effects(program(params, None), "k").params
    assert (x.modes, x.certainty) == (frozenset({Mode.READ}), Certainty.MAY)
    assert (y.modes, y.certainty) == (frozenset({Mode.READ, Mode.WRITE}), Certainty.MAY)
