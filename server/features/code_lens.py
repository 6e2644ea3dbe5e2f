"""Lenses over each host function that launches kernels, itself or through others: what it enqueues, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls.capabilities import get_capability
from stitchcuda.server.engine.facts import FunctionFact
from stitchcuda.server.features.code_action import why_not_run

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer


async def code_lenses(ls: StitchServer, params: t.CodeLensParams) -> list[t.CodeLens]:
    uri = params.text_document.uri
    view = await ls.outline(uri) if ls.settings_at(uri).codeLens else None
    lenses: list[t.CodeLens] = []
    for function in view.facts.functions if view is not None else ():
        if function.kernel or not function.launches or view is None:
            continue
        here = view.range(function.name_place)
        if here is None:
            continue
        commands = (
            t.Command(title=counts(function), command=""),
            t.Command(title="Stitch", command="stitchcuda.stitch", arguments=[uri]),
            _show_graph(ls, uri, function.name),
            t.Command(title="Validate", command="stitchcuda.validate", arguments=[uri]),
        )
        # Validate is left out where it would only say that it cannot run.
        lenses += [t.CodeLens(range=here, command=c) for c in commands[: 3 if why_not_run(ls) else 4]]
    return lenses


def refresh(ls: StitchServer) -> None:
    """The client asks again."""
    if get_capability(ls.client_capabilities, "workspace.code_lens.refresh_support"):
        ls.workspace_code_lens_refresh(None)


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
    # Our extensions show the graph in views of their own; elsewhere the server opens the page, or a text where no page can be opened.
    if ls.client_shows_graph:
        return t.Command(title="Show graph", command="stitchcuda.showGraph", arguments=[uri, function])
    form = "html" if get_capability(ls.client_capabilities, "window.show_document.support") else "text"
    return t.Command(title="Show graph", command="stitchcuda.graphText", arguments=[uri, function, form, True])
