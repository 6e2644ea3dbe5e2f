"""Hover on a kernel launch: what runs, on which stream, on which buffers, after what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls.capabilities import get_capability
from stitchcuda.server.convert import from_position
from stitchcuda.server.engine.facts import LaunchFact

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer


async def hover(ls: StitchServer, params: t.HoverParams) -> t.Hover | None:
    view = await ls.outline(params.text_document.uri) if ls.settings.hover else None
    if view is None:
        return None
    at = from_position(view.document, params.position, view.encoding)
    for launch in view.facts.launches:
        span = view.span(launch.place)
        if span is not None and span[0] <= at <= span[1]:
            formats = get_capability(ls.client_capabilities, "text_document.hover.content_format") or []
            markdown = t.MarkupKind.Markdown in formats
            text = describe(launch)
            content = t.MarkupContent(
                kind=t.MarkupKind.Markdown if markdown else t.MarkupKind.PlainText,
                value=text if markdown else text.replace("**", "").replace("`", "").replace("  \n", "\n"),
            )
            return t.Hover(contents=content, range=view.range(launch.place))
    return None


def describe(launch: LaunchFact) -> str:
    lines = [f"**Launch of** `{launch.kernel or 'a kernel that is not known'}`"]
    if launch.grid or launch.block:
        lines.append(f"grid `{launch.grid or '?'}`, block `{launch.block or '?'}`")
    lines.append(f"stream: {' or '.join(launch.streams) or 'not known'}")
    lines.append(f"reads: {_names(launch.reads)}")
    lines.append(f"writes: {_names(launch.writes)}")
    lines.append("ordered after: " + ("; ".join(launch.after) if launch.after else "nothing issued before it"))
    if launch.paths > 1:
        lines.append(f"reached by {launch.paths} call paths")
    return "  \n".join(lines)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "no buffer that is known"
