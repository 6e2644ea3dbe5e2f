"""The only module that knows LSP positions: byte offsets and facts in, protocol values out, and back.

`View` is how features see a file: its current text, the facts of an analysed version, and the edits in between. Ranges
are carried over those edits; what an edit touched is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from lsprotocol import types as t
from stitchcuda.analysis.syntax.text import ByteEdit, Change, Document, Encoding, Position, carry
from stitchcuda.server.engine.facts import FileFacts, Place, PlacedEdit, PlacedFinding, PlacedRelated
from stitchcuda.server.settings import Settings, lets_through

SOURCE = "stitchcuda"
_SEVERITY = {
    "error": t.DiagnosticSeverity.Error,
    "warning": t.DiagnosticSeverity.Warning,
    "information": t.DiagnosticSeverity.Information,
    "hint": t.DiagnosticSeverity.Hint,
}
_UNNECESSARY = {"redundant-sync", "unknown-suppression", "unused-suppression"}

Json: TypeAlias = dict[str, Any]
Snapshot = Callable[[str], Document | None]


class _Placed(Protocol):
    @property
    def place(self) -> Place: ...


Placed = TypeVar("Placed", bound=_Placed)


@dataclass(frozen=True)
class View:
    """A file as features see it."""

    document: Document
    facts: FileFacts
    edits: tuple[ByteEdit, ...]  # from the analysed version to `document`
    encoding: Encoding
    snapshot: Snapshot  # text of other files

    def span(self, place: Place) -> tuple[int, int] | None:
        """Where a place of this file is now."""
        return carry((place.start, place.end), self.edits)

    def touching(self, facts: Iterable[Placed], start: int, end: int) -> Iterator[tuple[Placed, tuple[int, int]]]:
        """Those facts that touch the bytes `[start, end]` of the text as it is now, and where they are now."""
        first, last = start, end  # in the analysed text, or around it where that was edited
        for edit in reversed(self.edits):
            longer = edit.size - (edit.end - edit.start)
            first = first - longer if first > edit.start + edit.size else min(first, edit.start)
            last = last - longer if last >= edit.start + edit.size else last if last <= edit.start else edit.end
        for fact in facts:
            place = fact.place
            if place.start <= last and first <= place.end:
                span = self.span(place)
                if span is not None and span[0] <= end and start <= span[1]:
                    yield fact, span

    def range(self, place: Place) -> t.Range | None:
        span = self.span(place)
        return to_range(self.document, span, self.encoding) if span is not None else None

    def location(self, place: Place) -> t.Location | None:
        """A place in this or any other file."""
        if place.path == self.document.path:
            here = self.range(place)
            return t.Location(uri=self.document.uri, range=here) if here is not None else None
        other = self.snapshot(place.path)
        if other is None:
            return None
        return t.Location(uri=other.uri, range=to_range(other, (place.start, place.end), self.encoding))


def to_position(document: Document, offset: int, encoding: Encoding) -> t.Position:
    place = document.position(offset, encoding)
    return t.Position(line=place.line, character=place.column)


def to_range(document: Document, span: tuple[int, int], encoding: Encoding) -> t.Range:
    line, character, end_line, end_character = _columns(document, span, encoding)
    return t.Range(start=t.Position(line, character), end=t.Position(end_line, end_character))


def _columns(document: Document, span: tuple[int, int], encoding: Encoding) -> tuple[int, int, int, int]:
    """Line and column of both ends."""
    start = document.position(span[0], encoding)
    text = document.encoded[span[0] : span[1]]
    if text.isascii() and b"\n" not in text and b"\r" not in text:  # as most are: in one line, a unit a byte
        return start.line, start.column, start.line, start.column + len(text)
    end = document.position(span[1], encoding)
    return start.line, start.column, end.line, end.column


def from_position(document: Document, position: t.Position, encoding: Encoding) -> int:
    return document.offset(Position(position.line, position.character), encoding)


def from_range(document: Document, range_: t.Range, encoding: Encoding) -> tuple[int, int]:
    start = from_position(document, range_.start, encoding)
    return start, max(from_position(document, range_.end, encoding), start)


def from_changes(changes: Sequence[t.TextDocumentContentChangeEvent]) -> list[Change]:
    out = []
    for change in changes:
        if isinstance(change, t.TextDocumentContentChangePartial):
            start, end = change.range.start, change.range.end
            out.append(Change(Position(start.line, start.character), Position(end.line, end.character), change.text))
        else:
            out.append(Change(None, None, change.text))
    return out


# --------------------------------------------------------------------------------------------------------- diagnostics


def is_shown(finding: PlacedFinding, settings: Settings) -> bool:
    """Whether the user's settings let a finding through."""
    return lets_through(settings, finding.code, finding.group, finding.confidence, finding.default)


def shown_findings(
    view: View, settings: Settings, within: tuple[int, int] | None = None
) -> list[tuple[PlacedFinding, t.Range]]:
    """The findings to show with where they are now, in source order; those that touch the bytes `within` alone."""
    first, last = within if within is not None else (0, len(view.document.encoded))
    found = [
        (finding, to_range(view.document, span, view.encoding))
        for finding, span in view.touching(view.facts.findings, first, last)
        if is_shown(finding, settings)
    ]
    found.sort(key=lambda f: (f[1].start.line, f[1].start.character, f[0].code))
    return found


def diagnostics(
    view: View, settings: Settings, capabilities: t.ClientCapabilities, href: Callable[[str], str | None]
) -> Iterator[Json]:
    """All findings to show in source order, as JSON: a long file has hundreds, and each edit sends them all."""
    lets: dict[tuple[str, str, str, bool], bool] = {}
    found = []
    related = _wants_related(capabilities)
    for finding in view.facts.findings:
        kind = (finding.code, finding.group, finding.confidence, finding.default)
        if kind not in lets:
            lets[kind] = is_shown(finding, settings)
        span = view.span(finding.place) if lets[kind] else None
        if span is not None:
            found.append((span[0], finding.code, span, finding))
    found.sort(key=lambda f: f[:2])
    for _, code, span, finding in found:
        here = _json_range(view.document, span, view.encoding)
        yield _diagnostic(view, finding, here, settings, related, href(code))


def diagnostic(
    view: View,
    finding: PlacedFinding,
    here: t.Range,
    settings: Settings,
    capabilities: t.ClientCapabilities,
    href: str | None,
) -> Json:
    """A finding as a diagnostic in JSON, with the parts the client says it understands."""
    start, end = here.start, here.end
    where = _json_of(start.line, start.character, end.line, end.character)
    return _diagnostic(view, finding, where, settings, _wants_related(capabilities), href)


def to_diagnostic(
    view: View,
    finding: PlacedFinding,
    here: t.Range,
    settings: Settings,
    capabilities: t.ClientCapabilities,
    href: str | None,
) -> t.Diagnostic:
    """The same as a protocol value."""
    made = diagnostic(view, finding, here, settings, capabilities, href)
    related = [
        t.DiagnosticRelatedInformation(
            location=t.Location(uri=r["location"]["uri"], range=_range(r["location"]["range"])), message=r["message"]
        )
        for r in made.get("relatedInformation", ())
    ]
    return t.Diagnostic(
        range=here,
        message=made["message"],
        severity=t.DiagnosticSeverity(made["severity"]),
        code=made["code"],
        code_description=t.CodeDescription(href=href) if href is not None else None,
        source=made["source"],
        tags=[t.DiagnosticTag(tag) for tag in made["tags"]] if "tags" in made else None,
        related_information=related or None,
        data=made["data"],
    )


def _diagnostic(
    view: View, finding: PlacedFinding, here: Json, settings: Settings, wants_related: bool, href: str | None
) -> Json:
    message = finding.message
    if finding.condition:
        message += f" (when {finding.condition})"
    made: Json = {
        "range": here,
        "message": message,
        "severity": _SEVERITY[settings.severity.get(finding.code, finding.severity)].value,
        "code": finding.code,
        "source": SOURCE,
        "data": {"rule": finding.code, "confidence": finding.confidence},
    }
    if href is not None:
        made["codeDescription"] = {"href": href}
    if finding.code in _UNNECESSARY:
        made["tags"] = [t.DiagnosticTag.Unnecessary.value]
    related = [_related(view, each) for each in finding.related] if wants_related else []
    if known := [each for each in related if each is not None]:
        made["relatedInformation"] = known
    return made


def _related(view: View, related: PlacedRelated) -> Json | None:
    place = related.place
    document: Document | None = view.document
    span: tuple[int, int] | None = (place.start, place.end)
    if place.path == view.document.path:
        span = view.span(place)
    else:
        document = view.snapshot(place.path)
    if document is None or span is None:
        return None
    here = _json_range(document, span, view.encoding)
    return {"location": {"uri": document.uri, "range": here}, "message": related.message}


def _wants_related(capabilities: t.ClientCapabilities) -> bool:
    text = capabilities.text_document
    known = (text.publish_diagnostics if text is not None else None) or t.PublishDiagnosticsClientCapabilities()
    pull = text.diagnostic if text is not None else None
    return bool(known.related_information or (pull is not None and pull.related_information))


def _json_of(line: int, character: int, end_line: int, end_character: int) -> Json:
    return {
        "start": {"line": line, "character": character},
        "end": {"line": end_line, "character": end_character},
    }


def _json_range(document: Document, span: tuple[int, int], encoding: Encoding) -> Json:
    return _json_of(*_columns(document, span, encoding))


def _range(made: Json) -> t.Range:
    return t.Range(start=t.Position(**made["start"]), end=t.Position(**made["end"]))


# --------------------------------------------------------------------------------------------------------------- edits


def takes_versions(capabilities: t.ClientCapabilities) -> bool:
    """Whether the client takes edits that name the version of the text."""
    edit = capabilities.workspace.workspace_edit if capabilities.workspace is not None else None
    # Neovim names resource operations only; those exist in no other form than document changes.
    return edit is not None and bool(edit.document_changes or edit.resource_operations)


def to_workspace_edit(view: View, edits: Sequence[PlacedEdit], versioned: bool) -> t.WorkspaceEdit | None:
    """Edits as one workspace edit, or None when one of them cannot be placed in the current texts."""
    by_path: dict[str, list[t.TextEdit]] = {}
    documents: dict[str, Document] = {}
    for edit in edits:
        document: Document | None = view.document
        span: tuple[int, int] | None
        if edit.place.path == view.document.path:
            span = view.span(edit.place)
        else:
            document = view.snapshot(edit.place.path)
            span = (edit.place.start, edit.place.end)
        if document is None or span is None:
            return None
        documents[edit.place.path] = document
        new = t.TextEdit(range=to_range(document, span, view.encoding), new_text=_line_ends(edit.text, document))
        by_path.setdefault(edit.place.path, []).append(new)
    if not versioned:
        return t.WorkspaceEdit(changes={documents[path].uri: new for path, new in by_path.items()})
    return t.WorkspaceEdit(
        document_changes=[
            t.TextDocumentEdit(
                text_document=t.OptionalVersionedTextDocumentIdentifier(
                    uri=documents[path].uri,
                    # A file that is not open has no version for the client to check.
                    version=documents[path].version if documents[path].revision else None,
                ),
                edits=list(new),
            )
            for path, new in by_path.items()
        ]
    )


@dataclass(frozen=True)
class Annotated:
    """An edit of a file's current text (bytes `[start, end)`), and the note it belongs to."""

    path: str
    start: int
    end: int
    text: str
    note: str


@dataclass(frozen=True)
class Note:
    """What a reviewer reads beside the edits of one note."""

    label: str
    description: str


def to_annotated_edit(
    edits: Sequence[Annotated],
    notes: Mapping[str, Note],
    snapshot: Snapshot,
    encoding: Encoding,
    capabilities: t.ClientCapabilities,
    confirm: bool,
) -> t.WorkspaceEdit | None:
    """One workspace edit over several files, each with its version, with annotations for clients that show them; None when a
    file cannot be read, or an edit begins or ends where no position is: inside a character or a line end. `confirm`: the client
    is to ask before it applies an annotated edit."""
    workspace = capabilities.workspace.workspace_edit if capabilities.workspace is not None else None
    versioned = takes_versions(capabilities)
    annotates = workspace is not None and workspace.change_annotation_support is not None and versioned
    by_path: dict[str, list[t.TextEdit | t.AnnotatedTextEdit]] = {}
    documents: dict[str, Document] = {}
    for edit in edits:
        document = documents.get(edit.path) or snapshot(edit.path)
        if document is None:
            return None
        documents[edit.path] = document
        here = to_range(document, (edit.start, edit.end), encoding)
        if from_range(document, here, encoding) != (edit.start, edit.end):
            return None
        new: t.TextEdit | t.AnnotatedTextEdit = t.TextEdit(range=here, new_text=edit.text)
        if annotates:
            new = t.AnnotatedTextEdit(range=here, new_text=edit.text, annotation_id=edit.note)
        by_path.setdefault(edit.path, []).append(new)
    if not versioned:
        plain = {documents[p].uri: [e for e in new if isinstance(e, t.TextEdit)] for p, new in by_path.items()}
        return t.WorkspaceEdit(changes=plain)
    return t.WorkspaceEdit(
        document_changes=[
            t.TextDocumentEdit(
                text_document=t.OptionalVersionedTextDocumentIdentifier(
                    uri=documents[path].uri,
                    # a file that is not open has none; Neovim counts from 0, so that is a version, too
                    version=documents[path].version if documents[path].revision else None,
                ),
                edits=list(new),
            )
            for path, new in by_path.items()
        ],
        change_annotations={
            name: t.ChangeAnnotation(label=note.label, description=note.description, needs_confirmation=confirm)
            for name, note in notes.items()
        }
        if annotates
        else None,
    )


def _line_ends(text: str, document: Document) -> str:
    """`text` with the line ends of the document's first line."""
    if "\n" not in text or len(document.lines) < 2:
        return text
    _, end = document.line_span(0)
    ending = document.encoded[end : document.lines.start(1)].decode()
    return text.replace("\r\n", "\n").replace("\n", ending)
