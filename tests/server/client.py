"""A language client for tests: pytest-lsp's, started by hand, with the capability sets of real editors."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from lsprotocol import types as t
from lsprotocol.converters import get_converter
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import make_test_lsp_client

ROOT = Path(__file__).parents[2]
FAKE = (sys.executable, "-m", "tests.server.programs.fake_server")
REAL = (sys.executable, "-m", "stitchcuda.server.cli", "lsp", "--stdio")
SECONDS = 20.0


Found = TypeVar("Found")


class Editor:
    """What an editor does, in a line each. Keeps the text as an editor would, and the diagnostics it was given."""

    def __init__(self, client: LanguageClient, capabilities: t.ClientCapabilities):
        self.client = client
        self.capabilities = capabilities
        self.initialized: t.InitializeResult | None = None
        self.pushed: list[t.PublishDiagnosticsParams] = []
        self.versions: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.applied: list[t.ApplyWorkspaceEditParams] = []
        self.accepts = True  # an edit that the server asks to apply
        self.drops = False  # says that an edit is applied, and forgets it
        self.refreshes = 0  # times that the server asked to pull again
        self.messages: list[str] = []
        self.asked: list[t.ShowMessageRequestParams] = []
        self.chosen: list[
            str | None
        ] = []  # the button for each question to come; None: dismissed. Without one: no answer
        self.withdrawn = 0  # questions that the server took back

    @property
    def pulls(self) -> bool:
        """Whether this session's findings come when they are asked for; else the server pushes them."""
        return self.initialized is not None and self.initialized.capabilities.diagnostic_provider is not None

    async def shown(self, uri: str) -> list[t.Diagnostic]:
        """What an editor shows: all that was pushed last, and all that is pulled."""
        pushed = next((list(p.diagnostics) for p in reversed(self.pushed) if p.uri == uri), [])
        return pushed + (await self.pull(uri) if self.pulls else [])

    @property
    def encoding(self) -> str:
        assert self.initialized is not None
        encoding = self.initialized.capabilities.position_encoding or "utf-16"
        return str(getattr(encoding, "value", encoding))

    def open(self, uri: str, text: str, language: str = "cuda") -> None:
        self.versions[uri], self.texts[uri] = 1, text
        item = t.TextDocumentItem(uri=uri, language_id=language, version=1, text=text)
        self.client.text_document_did_open(t.DidOpenTextDocumentParams(text_document=item))

    def replace(self, uri: str, text: str) -> None:
        self.versions[uri] += 1
        self.texts[uri] = text
        self._change(uri, [t.TextDocumentContentChangeWholeDocument(text=text)])

    def edit(self, uri: str, range_: t.Range, text: str) -> None:
        self.versions[uri] += 1
        start, end = (self.offset(uri, p) for p in (range_.start, range_.end))
        self.texts[uri] = self.texts[uri][:start] + text + self.texts[uri][end:]
        self._change(uri, [t.TextDocumentContentChangePartial(range=range_, text=text)])

    def _change(self, uri: str, changes: Sequence[Any]) -> None:
        identifier = t.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri])
        params = t.DidChangeTextDocumentParams(text_document=identifier, content_changes=list(changes))
        self.client.text_document_did_change(params)

    def send(self, message: dict[str, Any]) -> None:
        """Any JSON, right or wrong."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def send_raw(self, data: bytes) -> None:
        writer: Any = self.client.protocol.writer
        writer.write(data)

    def close(self, uri: str) -> None:
        params = t.DidCloseTextDocumentParams(text_document=t.TextDocumentIdentifier(uri=uri))
        self.client.text_document_did_close(params)

    def offset(self, uri: str, position: t.Position) -> int:
        """Character offset of a position; texts of these tests end their lines with a line feed."""
        lines = self.texts[uri].split("\n")
        before = sum(len(line) + 1 for line in lines[: position.line])
        return before + len(self._cut(lines[position.line], position.character))

    def _cut(self, line: str, units: int) -> str:
        if self.encoding == "utf-8":
            return line.encode()[:units].decode()
        return line.encode("utf-16-le")[: 2 * units].decode("utf-16-le")

    def at(self, uri: str, range_: t.Range) -> str:
        """The text in a range."""
        return self.texts[uri][self.offset(uri, range_.start) : self.offset(uri, range_.end)]

    def find(self, uri: str, text: str) -> t.Position:
        """Where a text first occurs."""
        before = self.texts[uri][: self.texts[uri].index(text)]
        line = before.rsplit("\n", 1)[-1]
        units = len(line.encode()) if self.encoding == "utf-8" else len(line.encode("utf-16-le")) // 2
        return t.Position(line=before.count("\n"), character=units)

    def apply(self, edit: t.WorkspaceEdit) -> None:
        """As an editor would: checks versions, and applies a document's edits from the end."""
        edits: dict[str, list[Any]] = {uri: list(new) for uri, new in (edit.changes or {}).items()}
        for change in edit.document_changes or []:
            assert isinstance(change, t.TextDocumentEdit)
            uri = change.text_document.uri
            assert change.text_document.version in (None, self.versions.get(uri))
            edits.setdefault(uri, []).extend(change.edits)
        for uri, new in edits.items():
            if uri not in self.texts:  # an editor opens what it has to edit
                self.open(uri, Path(unquote(urlsplit(uri).path)).read_bytes().decode("utf-8-sig"))
            for each in sorted(new, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
                self.edit(uri, each.range, each.new_text)

    async def pull(self, uri: str) -> list[t.Diagnostic]:
        params = t.DocumentDiagnosticParams(text_document=t.TextDocumentIdentifier(uri=uri))
        report = await asyncio.wait_for(self.client.text_document_diagnostic_async(params), SECONDS)
        assert isinstance(report, t.RelatedFullDocumentDiagnosticReport)
        return list(report.items)

    async def pushed_for(self, uri: str, accept: Callable[[Sequence[t.Diagnostic]], bool]) -> list[t.Diagnostic]:
        """The newest pushed list for the current version (or for a closed document) that is accepted."""

        def newest() -> list[t.Diagnostic] | None:
            for params in reversed(self.pushed):
                if params.uri == uri:
                    fits = params.version in (None, self.versions[uri]) and accept(params.diagnostics)
                    return list(params.diagnostics) if fits else None
            return None

        return await until(newest)

    async def actions(self, uri: str, range_: t.Range, only: Sequence[str] | None = None) -> list[t.CodeAction]:
        context = t.CodeActionContext(diagnostics=[], only=list(only) if only is not None else None)
        identifier = t.TextDocumentIdentifier(uri=uri)
        params = t.CodeActionParams(text_document=identifier, range=range_, context=context)
        found = await asyncio.wait_for(self.client.text_document_code_action_async(params), SECONDS)
        return [action for action in found or [] if isinstance(action, t.CodeAction)]

    async def command(self, name: str, *arguments: Any) -> Any:
        params = t.ExecuteCommandParams(command=name, arguments=list(arguments))
        return await asyncio.wait_for(self.client.workspace_execute_command_async(params), SECONDS)


async def until(probe: Callable[[], Found | None], seconds: float = SECONDS) -> Found:
    """The first result of `probe` that is not None or False."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = probe()
        if found is not None and found is not False:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen in time")


def capabilities_of(editor: str) -> t.ClientCapabilities:
    """`neovim`, `visual_studio_code` (1.65, which pushes), `vscode`: the same with what newer releases added, `bare` without any
    capability, or `plain`, which can apply edits of the simplest form."""
    if editor == "bare":
        return t.ClientCapabilities()
    if editor == "plain":
        return t.ClientCapabilities(workspace=t.WorkspaceClientCapabilities(apply_edit=True))
    if editor != "vscode":
        return client_capabilities(editor)
    capabilities = client_capabilities("visual_studio_code")
    assert capabilities.text_document is not None and capabilities.workspace is not None
    capabilities.text_document.diagnostic = t.DiagnosticClientCapabilities(related_information=True)
    capabilities.workspace.diagnostics = t.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
    return capabilities


def _action_or_command(value: Any, _: Any) -> Any:
    kind = t.Command if isinstance(value.get("command"), str) else t.CodeAction
    return _CONVERTER.structure(value, kind)


_CONVERTER = get_converter()


@asynccontextmanager
async def editor_session(
    editor: str = "visual_studio_code",
    command: Sequence[str] = FAKE,
    options: Any = None,
    root: Path | None = None,
    configuration: dict[str, Any] | None = None,
) -> AsyncIterator[Editor]:
    """A running server and an editor connected to it; ends with shutdown and exit."""
    client = make_test_lsp_client()
    if configuration is not None:
        client._configuration[""] = {"stitchcuda": configuration}
    capabilities = capabilities_of(editor)
    session = Editor(client, capabilities)
    # lsprotocol takes every action with a command for a bare command.
    client.protocol._converter.register_structure_hook(t.Command | t.CodeAction, _action_or_command)

    published = client.protocol.fm.features.pop(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)

    @client.feature(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
    def on_publish(params: t.PublishDiagnosticsParams) -> None:
        session.pushed.append(params)
        published(params)

    @client.feature(t.WORKSPACE_APPLY_EDIT)  # type: ignore[untyped-decorator]
    def on_apply(params: t.ApplyWorkspaceEditParams) -> t.ApplyWorkspaceEditResult:
        session.applied.append(params)
        if session.accepts and not session.drops:
            session.apply(params.edit)
        return t.ApplyWorkspaceEditResult(applied=session.accepts, failure_reason=None if session.accepts else "no")

    shown = client.protocol.fm.features.pop(t.WINDOW_SHOW_MESSAGE)

    @client.feature(t.WINDOW_SHOW_MESSAGE)  # type: ignore[untyped-decorator]
    def on_message(params: t.ShowMessageParams) -> None:
        session.messages.append(params.message)
        shown(params)

    @client.feature(t.WINDOW_SHOW_MESSAGE_REQUEST)  # type: ignore[untyped-decorator]
    async def on_question(params: t.ShowMessageRequestParams) -> t.MessageActionItem | None:
        if [action.title for action in params.actions or ()] == ["Show the Change"]:  # a message with a button
            session.messages.append(params.message)
            return t.MessageActionItem(title="Show the Change")
        session.asked.append(params)
        try:
            while not session.chosen:
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            session.withdrawn += 1
            raise
        title = session.chosen.pop(0)
        return None if title is None else t.MessageActionItem(title=title)

    client.protocol.fm.features.pop(t.WORKSPACE_DIAGNOSTIC_REFRESH, None)

    @client.feature(t.WORKSPACE_DIAGNOSTIC_REFRESH)  # type: ignore[untyped-decorator]
    def on_refresh(_: None) -> None:
        session.refreshes += 1

    @client.feature(t.CLIENT_REGISTER_CAPABILITY)  # type: ignore[untyped-decorator]
    def on_register(params: t.RegistrationParams) -> None:
        return None

    await client.start_io(*command, cwd=ROOT)
    folders = [t.WorkspaceFolder(uri=root.as_uri(), name=root.name)] if root is not None else None
    params = t.InitializeParams(capabilities=capabilities, workspace_folders=folders, initialization_options=options)
    session.initialized = await asyncio.wait_for(client.initialize_session(params), SECONDS)
    try:
        yield session
    finally:
        try:
            await asyncio.wait_for(client.shutdown_session(), SECONDS)
        finally:
            await client.stop()  # type: ignore[no-untyped-call]
