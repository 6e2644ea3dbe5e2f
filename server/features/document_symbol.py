"""Document symbols: kernels, and host functions with their device work as children."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls.capabilities import get_capability
from stitchcuda.server.convert import View
from stitchcuda.server.engine.facts import FunctionFact

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer


async def document_symbols(
    ls: StitchServer, params: t.DocumentSymbolParams
) -> list[t.DocumentSymbol] | list[t.SymbolInformation]:
    view = await ls.outline(params.text_document.uri)
    if view is None:
        return []
    symbols = [s for f in view.facts.functions if (s := _symbol(view, f)) is not None]
    if get_capability(ls.client_capabilities, "text_document.document_symbol.hierarchical_document_symbol_support"):
        return symbols
    return [
        t.SymbolInformation(
            name=s.name,
            kind=s.kind,
            location=t.Location(uri=view.document.uri, range=s.range),
            container_name=container,
        )
        for symbol in symbols
        for s, container in ((symbol, None), *((child, symbol.name) for child in symbol.children or []))
    ]


def _symbol(view: View, function: FunctionFact) -> t.DocumentSymbol | None:
    name = view.range(function.name_place)
    whole = view.range(function.place) or name
    if name is None or whole is None:
        return None
    stages = []
    for stage in function.stages:
        here = view.range(stage.place)
        if here is not None:
            stages.append(
                t.DocumentSymbol(
                    name=stage.title or stage.kind,
                    detail=stage.detail,
                    kind=t.SymbolKind.Event,
                    range=here,
                    selection_range=here,
                )
            )
    return t.DocumentSymbol(
        name=function.name,
        detail="kernel" if function.kernel else "host",
        kind=t.SymbolKind.Function,
        range=whole,
        selection_range=name,
        children=stages,
    )
