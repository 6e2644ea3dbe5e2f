"""A lens over each host function that launches kernels, itself or through others: what it enqueues, and its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as t
from stitchcuda.server.engine.facts import FunctionFact

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer


async def code_lenses(ls: StitchServer, params: t.CodeLensParams) -> list[t.CodeLens]:
    view = await ls.outline(params.text_document.uri) if ls.settings.codeLens else None
    lenses: list[t.CodeLens] = []
    for function in view.facts.functions if view is not None else ():
        if function.kernel or not function.launches or view is None:
            continue
        here = view.range(function.name_place)
        if here is None:
            continue
        lenses.append(t.CodeLens(range=here, command=t.Command(title=counts(function), command="")))
        lenses.append(t.CodeLens(range=here, command=_show_graph(ls, view.document.uri, function.name)))
    return lenses


def counts(function: FunctionFact) -> str:
    """`3 kernels, 2 streams, 4 copies`."""
    parts = (
        _count(function.kernels, "kernel", "kernels"),
        _count(function.streams, "stream", "streams"),
        _count(function.copies, "copy", "copies"),
    )
    return ", ".join(parts)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _show_graph(ls: StitchServer, uri: str, function: str) -> t.Command:
    # Our extension shows the graph in a view of its own; elsewhere the server opens it as a text file.
    if ls.client_shows_graph:
        return t.Command(title="Show graph", command="stitchcuda.showGraph", arguments=[uri, function])
    return t.Command(title="Show graph", command="stitchcuda.graphText", arguments=[uri, function, "text", True])
