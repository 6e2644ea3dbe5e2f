"""The language server: its state, the table of its features, and its main loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from lsprotocol import types as t
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter
from stitchcuda.analysis.syntax.text import Document
from stitchcuda.server import child_command, lifetime, sources, warming
from stitchcuda.server.collecting import collect_in_pauses
from stitchcuda.server.convert import View, from_position
from stitchcuda.server.documents import Documents, path_of
from stitchcuda.server.engine.analyses import COMMAND, Analyses, EngineUnavailable
from stitchcuda.server.engine.facts import FileFacts
from stitchcuda.server.features import (
    code_action,
    code_lens,
    commands,
    completion,
    configuration,
    consent,
    diagnostics,
    document_symbol,
    fix_all,
    hover,
    indexing,
    inlay_hint,
    machine,
    on_save,
    program_jobs,
    project_settings,
    rewrite,
    run_graph,
    status,
    stitch,
    sync,
    validate,
    watched_files,
)
from stitchcuda.server.jobs import Jobs
from stitchcuda.server.protocol import Protocol, where
from stitchcuda.server.settings import Settings
from stitchcuda.server.transport import PipeReader, PipeWriter, read_messages
from stitchcuda.server.upwards import innermost

log = logging.getLogger(__name__)

_OUTLINE_SECONDS = 3.0
_END_SECONDS = 1.5  # everything is gone this long after the end was asked for


class StitchServer(LanguageServer):
    """pygls' server with our state. Only the event loop's thread touches it."""

    protocol: Protocol

    def __init__(
        self,
        version: str,
        analysis_command: Sequence[str] = COMMAND,
        analysis_process: subprocess.Popen[bytes] | None = None,
    ):
        super().__init__(
            "stitchcuda",
            version,
            protocol_cls=Protocol,
            converter_factory=default_converter,
        )
        self.documents = Documents()
        self.initial_settings = Settings()  # with the initialization options
        self.settings = Settings()
        self.folder_settings: dict[str, Settings] = {}  # of workspaces with several folders, by the folder's path
        self.told_mistakes: set[str] = set()  # in settings
        self.project_files = project_settings.ProjectFiles()
        self.jobs = Jobs(changed=lambda: status.changed(self))
        self.roots: tuple[str, ...] = ()
        self.client_shows_graph = False
        self.client_asks_aside = False  # a question stands beside the text there, and takes no keys
        self.shows_status = False
        self.mistakes: list[str] = []  # in the initialization options, told once the client listens
        self.channel = diagnostics.Channel()
        self.trusted = False  # whether programs of the workspace may be built and run
        self.child_command: Sequence[str] = child_command.COMMAND
        self.on_save = on_save.OnSave()
        self.turns = program_jobs.Turns()
        self.rewrites = rewrite.Rewrites()
        self.answer_seconds = consent.ANSWER_SECONDS
        self.machine = machine.Machine()
        self.indexing = indexing.IndexingJobs(self)
        self.analyses = Analyses(
            self.documents,
            on_facts=lambda path: diagnostics.facts_arrived(self, path),
            on_indexing=self.indexing.progress,
            on_outline=self._show_again,
            on_unusable=lambda: self.window_show_message(
                t.ShowMessageParams(
                    type=t.MessageType.Error,
                    message="stitchcuda: the analysis does not start, so nothing is found until the server is restarted;"
                    " its log says more",
                )
            ),
            command=analysis_command,
            process=analysis_process,
        )
        self._ended: asyncio.Future[int] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------------------------------------ for features

    def view(self, uri: str) -> View | None:
        """The open document with the newest facts about it; None when it is not open or nothing is known yet."""
        document = self.documents.get(uri)
        return self._view(document, self.analyses.latest(document)) if document is not None else None

    async def outline(self, uri: str, seconds: float = _OUTLINE_SECONDS) -> View | None:
        """The same with the launches and functions; waits `seconds` for those of the current text, and longer when there are none
        of an older one."""
        document = self.documents.get(uri)
        if document is None or not self.is_relevant(document):
            return None
        older = self.analyses.outline(document) is not None
        if self.settings_at(uri).diagnosticsTrigger == "edit" or not older:
            try:
                async with asyncio.timeout(seconds if older else _OUTLINE_SECONDS):
                    await self.analyses.outlined(uri)
            except TimeoutError:
                pass  # the one of an older text, carried to this one, is better than none
        document = self.documents.get(uri)
        return self._view(document, self.analyses.outline(document)) if document is not None else None

    async def outline_at(self, uri: str, position: t.Position) -> View | None:
        """The launches and functions around a position. Those of an older text are there at once; where there are none yet, what the
        position asks for is looked at ahead of the rest."""

        def at(document: Document) -> int:
            return from_position(document, position, self.documents.encoding)

        document = self.documents.get(uri)
        if document is not None and self.is_relevant(document) and self.analyses.outline(document) is None:
            try:
                async with asyncio.timeout(_OUTLINE_SECONDS):
                    found = await self.analyses.outline_at(uri, at)
            except (TimeoutError, EngineUnavailable):
                return None
            document = self.documents.get(uri)
            if found is not None and document is not None:
                return self._view(document, found)
        return await self.outline(uri, seconds=0.0)

    def known_outline(self, document: Document) -> View | None:
        """The same without waiting: the newest one that there is."""
        return self._view(document, self.analyses.outline(document))

    def _view(self, document: Document, known: tuple[int, FileFacts] | None) -> View | None:
        if known is None:
            return None
        revision, facts = known
        edits = self.documents.since(document.uri, revision)
        if edits is None:
            facts, edits = FileFacts(document.path), ()
        return View(document, facts, edits, self.documents.encoding, self.documents.snapshot)

    def _show_again(self) -> None:
        """What stands in the text of an open file is another one without an edit of it: another file was edited or read."""
        code_lens.refresh(self)
        inlay_hint.refresh(self)

    def settings_at(self, uri: str) -> Settings:
        """The client's settings for a document: those of its folder in a workspace of several."""
        return self.settings_of(path_of(uri))

    def settings_of(self, path: str) -> Settings:
        return self.folder_settings.get(innermost(path, self.folder_settings) or "", self.settings)

    def is_relevant(self, document: Document) -> bool:
        return sources.is_relevant(document.path, document.language, document.encoded)

    def publish_on_save(self, document: Document) -> None:
        diagnostics.publish_on_save(self, document)

    def warm_up(self) -> None:
        self._warming = asyncio.create_task(warming.warm_up(self))

    def watch_parent(self, pid: int) -> None:
        async def watch() -> None:
            await lifetime.parent_gone(pid)
            log.warning("the editor (process %d) is gone", pid)
            self.stop(1)

        self._watch = asyncio.create_task(watch())

    def report_server_error(self, error: Exception, source: Any) -> None:
        """No popups: what the user can do something about is said by the feature itself."""
        log.error("%s: %s", getattr(source, "__name__", source), type(error).__name__)

    # ---------------------------------------------------------------------------------------------------------- main loop

    def stop(self, code: int) -> None:
        """Ends the main loop."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(code)

    async def serve(self, stream: asyncio.StreamReader, writer: Any) -> int:
        """Serves one client until it leaves; returns the exit code: 0 only after `shutdown`."""
        self._ended = asyncio.get_running_loop().create_future()
        self.protocol.set_writer(writer)
        self.analyses.start()
        reading = asyncio.create_task(read_messages(stream, self.protocol.handle_json))
        collecting = asyncio.create_task(collect_in_pauses(lambda: self.protocol.heard))
        either: set[asyncio.Future[Any]] = {reading, self._ended}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return self._ended.result() if self._ended.done() else 1
        finally:
            reading.cancel()
            collecting.cancel()
            for task in (self._watch, self._warming):
                if task is not None:
                    task.cancel()
            self.analyses.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await self.jobs.end_all()


# -------------------------------------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Feature:
    method: str
    handler: Callable[..., Any]
    options: Any = None


FEATURES = (
    Feature(t.INITIALIZE, configuration.initialize),
    Feature(t.INITIALIZED, configuration.initialized),
    Feature(t.WORKSPACE_DID_CHANGE_CONFIGURATION, configuration.did_change_configuration),
    Feature(t.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS, configuration.did_change_folders),
    Feature(t.TEXT_DOCUMENT_DID_OPEN, sync.did_open),
    Feature(t.TEXT_DOCUMENT_DID_CHANGE, sync.did_change),
    Feature(t.TEXT_DOCUMENT_DID_SAVE, sync.did_save, t.SaveOptions(include_text=False)),
    Feature(t.TEXT_DOCUMENT_DID_CLOSE, sync.did_close),
    Feature(t.WORKSPACE_DID_CHANGE_WATCHED_FILES, watched_files.did_change),
    Feature(
        t.TEXT_DOCUMENT_DIAGNOSTIC,
        diagnostics.pull,
        t.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier="stitchcuda"),
    ),
    Feature(
        t.TEXT_DOCUMENT_CODE_ACTION,
        code_action.code_actions,
        t.CodeActionOptions(code_action_kinds=list(code_action.KINDS), resolve_provider=True),
    ),
    Feature(t.CODE_ACTION_RESOLVE, code_action.resolve),
    Feature(t.TEXT_DOCUMENT_CODE_LENS, code_lens.code_lenses, t.CodeLensOptions(resolve_provider=False)),
    Feature(t.TEXT_DOCUMENT_HOVER, hover.hover),
    Feature(t.TEXT_DOCUMENT_INLAY_HINT, inlay_hint.inlay_hints, t.InlayHintOptions(resolve_provider=False)),
    Feature(
        t.TEXT_DOCUMENT_COMPLETION, completion.complete, t.CompletionOptions(trigger_characters=completion.TRIGGERS)
    ),
    Feature(t.TEXT_DOCUMENT_DOCUMENT_SYMBOL, document_symbol.document_symbols),
    Feature(t.WINDOW_WORK_DONE_PROGRESS_CANCEL, indexing.cancel_progress),
)

COMMANDS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("stitchcuda.graphText", commands.graph_text),
    ("stitchcuda.runGraph", run_graph.run_graph),
    ("stitchcuda.stitch", stitch.stitch),
    ("stitchcuda.rewrite", rewrite.rewrite),
    (fix_all.COMMAND, fix_all.fix_all),
    ("stitchcuda.validate", validate.validate),
    ("stitchcuda.status", commands.status),
    ("stitchcuda.cancel", commands.cancel),
)


def build_server(
    version: str,
    analysis_command: Sequence[str] = COMMAND,
    analysis_process: subprocess.Popen[bytes] | None = None,
    features: Sequence[Feature] = FEATURES,
    commands: Sequence[tuple[str, Callable[..., Any]]] = COMMANDS,
) -> StitchServer:
    """A server with its features and commands registered."""
    # At lower levels pygls logs whole messages, which hold the user's text, and tracebacks of what we report ourselves.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    server = StitchServer(version, analysis_command, analysis_process)
    for feature in features:
        server.feature(feature.method, feature.options)(feature.handler)
    for name, handler in commands:
        server.command(name)(handler)
    return server


# ------------------------------------------------------------------------------------------------------------- transports


def run_stdio(server: StitchServer) -> int:
    """Serves on stdin and stdout."""
    output = os.dup(1)
    os.dup2(2, 1)  # a stray print must not break the protocol

    async def main() -> int:
        writer = PipeWriter(output)
        lifetime.on_signals(lambda: server.stop(1))
        try:
            return await server.serve(PipeReader(0).stream, writer)
        finally:
            writer.flush(0.3)

    return _run(main)


def run_tcp(server: StitchServer, port: int, host: str = "127.0.0.1") -> int:
    """Serves the first client that connects, then ends. Port 0 takes a free one; the port is printed."""

    async def main() -> int:
        connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        connected = asyncio.get_running_loop().create_future()

        def accept(stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if connected.done():
                writer.close()
            else:
                connected.set_result((stream, writer))

        try:
            listener = await asyncio.start_server(accept, host, port)
        except OSError as error:
            print(f"stitchcuda: cannot listen on {host}:{port} ({os.strerror(error.errno or 0)})", file=sys.stderr)
            server.analyses.close()
            return 2
        print(f"listening on {host}:{listener.sockets[0].getsockname()[1]}", file=sys.stderr, flush=True)
        waiting = asyncio.ensure_future(connected)

        def stop() -> None:
            server.stop(1)
            waiting.cancel()

        lifetime.on_signals(stop)
        try:
            stream, writer = await waiting
        except asyncio.CancelledError:
            server.analyses.close()
            return 1
        try:
            return await server.serve(stream, writer)
        finally:
            writer.close()
            listener.close()

    return _run(main)


def _failed(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody waits for failed: a line of the log, without the exception's words, which may quote the user's text."""
    error = context.get("exception")
    log.error("background work failed: %s", where(error) if error is not None else "no exception")


def _run(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    # Not `asyncio.run`: that joins the threads of the default executor, and one of them may be in a slow system call.
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(_failed)
    asyncio.set_event_loop(loop)
    code = loop.run_until_complete(main())
    logging.shutdown()
    os._exit(code)
