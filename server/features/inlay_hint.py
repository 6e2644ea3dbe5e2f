"""Inlay hints: the stream of a launch or copy that does not name one, and what a wait waits for.

`brief` tells streams only in functions that use several: where all is on one, the hint would say the same on every line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lsprotocol import types as t
from pygls.capabilities import get_capability
from stitchcuda.server.convert import View, from_range, to_position
from stitchcuda.server.engine.facts import OperationFact

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

_ENQUEUED = ("launch", "copy", "memset", "prefetch")
_LONGEST = 60  # characters of a hint
_SHOWN = 43  # of which VS Code shows so many, unless it is told otherwise
_PLACE = re.compile(r" \([^()]*\bline \d+\)")
_WITHOUT_STREAM = re.compile(rb"cuda(?:Memcpy|Memset)(?!\w*Async)\w*")


async def inlay_hints(ls: StitchServer, params: t.InlayHintParams) -> list[t.InlayHint]:
    uri = params.text_document.uri
    how = ls.settings_at(uri).inlayHints
    view = await ls.outline(uri) if how != "off" else None
    if view is None:
        return []
    first, last = from_range(view.document, params.range, view.encoding)
    hints = []
    for fact, span in view.touching(view.facts.operations, first, last):
        hint = _wait(view, fact, span) if fact.kind not in _ENQUEUED else None
        if fact.kind in _ENQUEUED and (how == "all" or _has_several_streams(view, span[0])):
            hint = _stream(view, fact, span)
        if hint is not None:
            hints.append(hint)
    return sorted(hints, key=lambda hint: (hint.position.line, hint.position.character))


def refresh(ls: StitchServer) -> None:
    """The client asks again."""
    if get_capability(ls.client_capabilities, "workspace.inlay_hint.refresh_support"):
        ls.workspace_inlay_hint_refresh(None)


def _wait(view: View, fact: OperationFact, span: tuple[int, int]) -> t.InlayHint | None:
    if not fact.hint:
        return None
    words = fact.hint.replace("`", "")
    if len(words) > _SHOWN:
        words = _PLACE.sub("", words)  # the tooltip has them
    return _hint(view, span[1], words, before=True, tooltip="\n".join(fact.lines))


def _stream(view: View, fact: OperationFact, span: tuple[int, int]) -> t.InlayHint | None:
    text = view.document.encoded[span[0] : span[1]]
    if b"\n" in text and view.edits:
        return None  # where the arguments end may have changed
    streams = [name.replace("`", "") for name in fact.streams]
    if len(streams) > 2:
        streams = ["several, by call path"]
    words = f"stream: {' or '.join(streams)}".replace("the default stream", "default")
    if fact.kind == "launch":
        begin, end = text.find(b"<<<"), text.rfind(b">>>")
        if begin < 0 or end < begin or _arguments(text[begin + 3 : end]) > 3:
            return None
        return _hint(view, span[0] + end, words, before=True)
    if streams != ["the default stream"] and not text.startswith(b"cu"):
        return None
    if not _WITHOUT_STREAM.match(fact.api.encode()) and not _leaves_stream_out(fact.api, text):
        return None
    return _hint(view, span[0] + text.rfind(b")"), words, before=True) if text.endswith(b")") else None


_ARGUMENTS = {"cudaMemcpyAsync": 5, "cudaMemsetAsync": 4, "cudaMemPrefetchAsync": 4, "cudaMemcpy2DAsync": 8}


def _leaves_stream_out(api: str, text: bytes) -> bool:
    """Whether a call of an API whose last argument is the stream takes that argument's default."""
    most = _ARGUMENTS.get(api)
    begin = text.find(b"(")
    return most is not None and begin >= 0 and _arguments(text[begin + 1 : -1]) < most


def _arguments(text: bytes) -> int:
    """Arguments of a list, by the commas outside of brackets."""
    depth, count = 0, 1
    for byte in text:
        if byte in b"([{":
            depth += 1
        elif byte in b")]}":
            depth -= 1
        elif byte in b"," and depth == 0:
            count += 1
    return count


def _has_several_streams(view: View, at: int) -> bool:
    around = view.touching((f for f in view.facts.functions if not f.kernel), at, at)
    sizes = [(span[1] - span[0], function.streams) for function, span in around]
    return bool(sizes) and min(sizes)[1] > 1


def _hint(view: View, at: int, words: str, *, before: bool, tooltip: str = "") -> t.InlayHint:
    label = words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
    return t.InlayHint(
        position=to_position(view.document, at, view.encoding),
        label=label,
        padding_left=before,
        tooltip=tooltip.replace("`", "") or None,
    )
