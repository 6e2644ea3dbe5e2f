"""Quick fixes, suppressions, all safe fixes at once, and the jobs about the whole program: *Stitch end-to-end*, its rewrites one by one, *Validate*.

Actions carry no edit until they are resolved when the client can resolve: the list then costs nothing, and the edit is
made for the text as it is when the user picks it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException
from stitchcuda.analysis.syntax.text import Document
from stitchcuda.server.convert import (
    View,
    from_range,
    shown_findings,
    takes_versions,
    to_diagnostic,
    to_workspace_edit,
)
from stitchcuda.server.engine.facts import Place, PlacedEdit, PlacedFinding, PlacedFix
from stitchcuda.server.features import fix_all, machine, program_jobs, rewrite, stitch, validate
from stitchcuda.server.features.diagnostics import href
from stitchcuda.server.features.project_settings import settings_at

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

STITCH_KIND = "refactor.rewrite.stitchcuda.stitch"
VALIDATE_KIND = "source.stitchcuda.validate"
KINDS = (t.CodeActionKind.QuickFix.value, STITCH_KIND, *rewrite.KINDS, fix_all.KIND, VALIDATE_KIND)
_RESOLVE_SECONDS = 1.0
_SUPPRESSION = re.compile(rb"(?://|#)\s*stitchcuda:\s*ignore\[([^\]\r\n]*)\]")


@dataclass(frozen=True)
class _Offer:
    """One action with where its edit comes from."""

    finding: PlacedFinding
    here: t.Range
    fix: PlacedFix
    suppress: bool


def code_actions(ls: StitchServer, params: t.CodeActionParams) -> list[t.CodeAction]:
    only = [str(getattr(kind, "value", kind)) for kind in params.context.only or []]
    actions: list[t.CodeAction] = []
    document = ls.documents.get(params.text_document.uri)
    if document is None or not ls.is_relevant(document):
        return actions
    view = ls.view(document.uri)
    if view is not None and _wanted(KINDS[0], only):
        wanted = from_range(view.document, params.range, view.encoding)
        # Two findings with one fix (a race seen as both) get one action.
        offers: dict[object, _Offer] = {}
        for offer in _offers(ls, view, wanted):
            offers.setdefault((offer.fix.title, offer.fix.edits), offer)
        preferred = next((o for o in offers.values() if o.fix.preferred), None)
        actions += [_action(ls, view, offer, offer is preferred) for offer in offers.values()]
    if view is not None and _wanted(fix_all.KIND, only):
        everything = fix_all.action(ls, view, _resolves(ls))
        actions += [everything] if everything is not None else []
    return [*actions, *_jobs(ls, document, params.range, only)]


def _jobs(ls: StitchServer, document: Document, where: t.Range, only: list[str]) -> Iterator[t.CodeAction]:
    """Actions that start a job. One that cannot run says why where the client shows that, else it is left out."""
    cannot = why_not_run(ls)
    offered: list[tuple[t.CodeAction, str]] = []
    if _wanted(STITCH_KIND, only):
        title = f"{stitch.TITLE} (preview, not run)" if cannot else stitch.TITLE
        command = t.Command(title=title, command="stitchcuda.stitch", arguments=[document.uri])
        offered.append((t.CodeAction(title=title, kind=STITCH_KIND, command=command), ""))
    if any(_wanted(kind, only) for kind in rewrite.KINDS):
        outline = ls.known_outline(document)
        found = rewrite.actions(ls, outline, where, bool(cannot)) if outline is not None else []
        offered += [(action, reason) for action, reason in found if _wanted(str(action.kind), only)]
    if _wanted(VALIDATE_KIND, only):
        command = t.Command(title=validate.TITLE, command="stitchcuda.validate", arguments=[document.uri])
        offered.append((t.CodeAction(title=validate.TITLE, kind=VALIDATE_KIND, command=command), cannot))
    says_why = get_capability(ls.client_capabilities, "text_document.code_action.disabled_support")
    for action, reason in offered:
        if reason and says_why:
            action.disabled, action.command = t.CodeActionDisabled(reason=reason), None
        if not reason or says_why:
            yield action


def why_not_run(ls: StitchServer) -> str:
    """Why programs are not built and run here; "" when they can be, as far as is known."""
    if not ls.trusted:
        return program_jobs.UNTRUSTED
    missing = machine.lacking(ls)
    return f"{' and '.join(missing)} on this machine; stitchcuda doctor says more" if missing else ""


async def resolve(ls: StitchServer, action: t.CodeAction) -> t.CodeAction:
    """Puts the edit in, made for the current text."""
    data: Any = action.data
    if not isinstance(data, dict) or not isinstance(data.get("uri"), str):
        return action
    if data.get("fix_all") is True:
        action.edit = await fix_all.edit(ls, data["uri"], takes_versions(ls.client_capabilities))
        return action
    try:
        # The text may have changed since the list was made; what the fix means then comes from a new analysis.
        async with asyncio.timeout(_RESOLVE_SECONDS):
            await ls.analyses.settled(data["uri"])
    except TimeoutError:
        pass  # facts carried over the edits are still right where nobody typed
    view = ls.view(data["uri"])
    if view is not None:
        offer = _find(_offers(ls, view), data)
        edit = (
            to_workspace_edit(view, offer.fix.edits, takes_versions(ls.client_capabilities))
            if offer is not None
            else None
        )
        if edit is not None:
            action.edit = edit
            return action
    raise JsonRpcException(
        code=int(t.LSPErrorCodes.ContentModified), message="the text has changed and the fix does not fit any more"
    )


def _find(offers: list[_Offer], data: dict[str, Any]) -> _Offer | None:
    """The offer nearest to where the action was offered, of the same code and title."""
    same = [o for o in offers if o.finding.code == data.get("code") and o.fix.title == data.get("title")]
    line = data.get("line")
    if not isinstance(line, int):
        return None
    return min(same, key=lambda o: abs(o.here.start.line - line), default=None)


def _offers(ls: StitchServer, view: View, within: tuple[int, int] | None = None) -> list[_Offer]:
    offers = []
    suppressions: dict[tuple[str, int], PlacedFix | None] = {}
    for finding, here in shown_findings(view, settings_at(ls, view.document.path), within):
        offers += [_Offer(finding, here, fix, False) for fix in finding.fixes]
        key = (finding.code, here.start.line)
        if key not in suppressions:
            suppressions[key] = _suppression(view, *key)
        suppression = suppressions[key]
        if suppression is not None:
            offers.append(_Offer(finding, here, suppression, True))
    return offers


def _suppression(view: View, code: str, line: int) -> PlacedFix | None:
    """A comment at the end of the line. None where a comment would not stand alone: before a line continuation."""
    if code in ("unknown-suppression", "unused-suppression"):
        return None
    document = view.document
    text = document.line(line)
    start, _ = document.line_span(line)
    known = _SUPPRESSION.search(text)
    if known is not None:
        at, new = start + known.end(1), f", {code}"
    elif text.rstrip().endswith(b"\\"):
        return None
    else:
        mark = "#" if os.path.splitext(document.path)[1] == ".py" else "//"
        at, new = start + len(text.rstrip()), f"  {mark} stitchcuda: ignore[{code}]"
    # The place is in the current text, while the view carries places of the analysed one: carried back it must land there.
    place = _uncarried(view, at)
    if place is None:
        return None
    return PlacedFix(f"Suppress {code} on this line", False, (PlacedEdit(place, new),))


def _uncarried(view: View, at: int) -> Place | None:
    """The empty place in the analysed text that is `at` in the current one."""
    old = at
    for edit in reversed(view.edits):
        if old >= edit.start + edit.size:
            old -= edit.size - (edit.end - edit.start)
        elif old > edit.start:
            return None
    place = Place(view.document.path, old, old)
    return place if view.span(place) == (at, at) else None


def _action(ls: StitchServer, view: View, offer: _Offer, preferred: bool) -> t.CodeAction:
    finding = offer.finding
    settings = settings_at(ls, view.document.path)
    diagnostic = to_diagnostic(view, finding, offer.here, settings, ls.client_capabilities, href(finding.code))
    action = t.CodeAction(
        title=offer.fix.title,
        kind=t.CodeActionKind.QuickFix,
        diagnostics=[diagnostic],
        is_preferred=True if preferred and _understands_preferred(ls) else None,
    )
    if _resolves(ls):
        action.data = {
            "uri": view.document.uri,
            "code": finding.code,
            "title": offer.fix.title,
            "line": offer.here.start.line,
        }
    else:
        action.edit = to_workspace_edit(view, offer.fix.edits, takes_versions(ls.client_capabilities))
    return action


def _wanted(kind: str, only: list[str]) -> bool:
    """`only` holds kinds or prefixes of kinds; empty asks for all."""
    return not only or any(kind == o or o == "" or kind.startswith(o + ".") for o in only)


def _resolves(ls: StitchServer) -> bool:
    properties = get_capability(ls.client_capabilities, "text_document.code_action.resolve_support.properties")
    data = get_capability(ls.client_capabilities, "text_document.code_action.data_support")
    return bool(data) and "edit" in (properties or ())


def _understands_preferred(ls: StitchServer) -> bool:
    return bool(get_capability(ls.client_capabilities, "text_document.code_action.is_preferred_support"))
