"""The only module that knows LSP positions: byte offsets and facts in, protocol values out, and back.

`View` is how features see a file: its current text, the facts of an analysed version, and the edits in between. Ranges
are carried over those edits; what an edit touched is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lsprotocol import types as t
from stitchcuda.analysis.syntax.text import ByteEdit, Change, Document, Encoding, Position, carry
from stitchcuda.server.engine.facts import FileFacts, Place, PlacedEdit, PlacedFinding
from stitchcuda.server.settings import Settings, lets_through

SOURCE = "stitchcuda"
_SEVERITY = {
    "error": t.DiagnosticSeverity.Error,
    "warning": t.DiagnosticSeverity.Warning,
    "information": t.DiagnosticSeverity.Information,
    "hint": t.DiagnosticSeverity.Hint,
}
_UNNECESSARY = {"redundant-sync", "unknown-suppression", "unused-suppression"}

Snapshot = Callable[[str], Document | None]


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
    start = to_position(document, span[0], encoding)
    text = document.encoded[span[0] : span[1]]
    if text.isascii() and b"\n" not in text and b"\r" not in text:  # as most are: in one line, a unit a byte
        return t.Range(start=start, end=t.Position(line=start.line, character=start.character + len(text)))
    return t.Range(start=start, end=to_position(document, span[1], encoding))


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
    found = []
    for finding in view.facts.findings:
        span = view.span(finding.place)
        if span is None or within is not None and not (span[0] <= within[1] and within[0] <= span[1]):
            continue
        if is_shown(finding, settings):
            found.append((finding, to_range(view.document, span, view.encoding)))
    found.sort(key=lambda f: (f[1].start.line, f[1].start.character, f[0].code))
    return found


def to_diagnostic(
    view: View,
    finding: PlacedFinding,
    here: t.Range,
    settings: Settings,
    capabilities: t.ClientCapabilities,
    href: str | None,
) -> t.Diagnostic:
    """A finding as a diagnostic, with the parts the client says it understands."""
    text = capabilities.text_document
    known = (text.publish_diagnostics if text is not None else None) or t.PublishDiagnosticsClientCapabilities()
    pull = text.diagnostic if text is not None else None
    wants_related = bool(known.related_information or (pull is not None and pull.related_information))
    related = []
    for other in finding.related if wants_related else ():
        location = view.location(other.place)
        if location is not None:
            related.append(t.DiagnosticRelatedInformation(location=location, message=other.message))
    message = finding.message
    if finding.condition:
        message += f" (when {finding.condition})"
    level = settings.severity.get(finding.code, finding.severity)
    tags = [t.DiagnosticTag.Unnecessary] if finding.code in _UNNECESSARY else None
    return t.Diagnostic(
        range=here,
        message=message,
        severity=_SEVERITY[level],
        code=finding.code,
        code_description=t.CodeDescription(href=href) if href is not None else None,
        source=SOURCE,
        tags=tags,
        related_information=related or None,
        data={"rule": finding.code, "confidence": finding.confidence},
    )


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
