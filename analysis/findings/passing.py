"""An expression of a function in the words of its caller: parameters become the arguments of the call."""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.program.ir import Call, Const, Expr, Index, Lambda, Member, Name, Param, Span, walk


@dataclass(frozen=True)
class Written:
    """A text that means something in a function. `parts` are expressions of that function that it is made of, and `place`
    is where it was taken from."""

    text: str
    body: Body
    parts: tuple[Expr, ...]
    place: Span


def in_caller(inner: Written, outer: Body, site: Span) -> Written | None:
    """The same thing in the function that makes the call at `site`; None when it has no name there. A lambda that is called
    in the function it is written in keeps the names that it captures."""
    args = _arguments(outer, site)
    if args is None:
        return None
    body = inner.body
    closure = next((n for n in reversed(edits.nodes_around(body, inner.place)) if isinstance(n, Lambda)), None)
    if closure is not None and body.function.uid != outer.function.uid:
        return None
    params = body.function.params if closure is None else closure.params
    given = _by_name(params, args)
    parts: list[Expr] = []
    changes: list[tuple[Span, str]] = []
    for part in inner.parts:
        names = [n for n in walk(part) if isinstance(n, Name)]
        if closure is None and any(n.name not in given for n in names):
            return None
        for name in names:
            arg = given.get(name.name)
            if arg is None:
                continue
            if not isinstance(arg, Name | Const | Member | Index):
                return None
            changes.append((name.span, outer.slice(arg.span)))
            parts.append(arg)
        if not any(n.name in given for n in names):
            parts.append(part)
    if len(inner.parts) != 1 and changes:
        return None  # a text that was put together already
    return Written(_changed(inner, changes), outer, tuple(parts), site)


def _by_name(params: tuple[Param, ...], args: tuple[Expr, ...]) -> dict[str, Expr]:
    return {param.name: arg for param, arg in zip(params, args, strict=False) if param.name}


def _changed(inner: Written, changes: list[tuple[Span, str]]) -> str:
    if not changes:
        return inner.text
    (part,) = inner.parts
    text, at = inner.text, part.span[0]
    for (start, end), new in sorted(changes, reverse=True):
        text = text[: start - at] + new + text[end - at :]
    return text


def _arguments(body: Body, span: Span) -> tuple[Expr, ...] | None:
    """The arguments of the call written at a span."""
    return next((n.args for n in edits.nodes_at(body, span) if isinstance(n, Call)), None)
