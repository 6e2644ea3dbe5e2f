"""The server's side of the analysis process: when to ask it, what it answered, and its restarts.

Editing only marks a document; after `delay` seconds without another edit its text goes over the pipe and a check is
asked for. Facts are kept with the revision they hold for. The event loop never analyses anything itself.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any

from stitchcuda.analysis.syntax.text import Document, at_before, hull
from stitchcuda.server.documents import Documents
from stitchcuda.server.engine import stuck
from stitchcuda.server.engine.facts import FileFacts
from stitchcuda.server.engine.messages import (
    LENGTH,
    Begun,
    Check,
    DiskChanged,
    EditedText,
    Failed,
    FixAll,
    FixAnswer,
    GraphAnswer,
    GraphText,
    Indexing,
    OpenText,
    Outline,
    OutlineAnswer,
    OutlineAt,
    Partly,
    Request,
    Result,
    StopIndexing,
    Texts,
    Workspace,
    pack,
    unpack,
)
from stitchcuda.server.settings import Settings
from stitchcuda.server.transport import PipeReader, PipeWriter

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "stitchcuda.server.engine.process")
_FAILED_STARTS = 5
_CRASHES_PER_TEXT = 2  # after that a text is left alone until it changes


class EngineUnavailable(Exception):
    """The analysis could not give an answer; the message is for the user."""


def start_process(command: Sequence[str] = COMMAND) -> subprocess.Popen[bytes]:
    """Starts an analysis process. Called before the slow imports of the server, so that both warm up together."""
    # In a group of its own: an interrupt typed at a terminal is the server's, which then ends this process.
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)


class Analyses:
    """One analysis process and the newest facts of every open document."""

    def __init__(
        self,
        documents: Documents,
        on_facts: Callable[[str], None],
        on_indexing: Callable[[Indexing], None],
        on_outline: Callable[[], None],
        on_unusable: Callable[[], None],
        command: Sequence[str] = COMMAND,
        process: subprocess.Popen[bytes] | None = None,
    ):
        self._documents = documents
        self._on_facts = on_facts  # called with the path of an open document that has new facts
        self._on_indexing = on_indexing
        self._on_outline = on_outline  # the outline of a document is another one although its text is the same
        self._on_unusable = on_unusable  # there will be no findings any more
        self._command = command
        self._early = process
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: PipeWriter | None = None
        self._receiver: asyncio.Task[None] | None = None
        self._workspace = Workspace((), True)
        self._sent: dict[str, tuple[int, int]] = {}  # path -> revision and size of what the process has
        self._facts: dict[str, tuple[int, FileFacts]] = {}
        # files whose facts are from a process that ended: this one knows nothing of them
        self._earlier: set[str] = set()
        self._partly: dict[str, tuple[int, FileFacts]] = {}  # what is known for good of texts that are being analysed
        self._outlines: dict[str, tuple[int, FileFacts]] = {}
        self._on_disk: (
            dict[str, None] | None
        ) = {}  # files that changed there, which the process was not told yet; None: any may have
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._running: dict[str, int] = {}  # path -> revision asked for
        self._at_work = ""  # the file that the process works for
        self._silence = stuck.Silence()
        self._watch: asyncio.Task[None] | None = None
        self._crashes: dict[tuple[str, int], int] = {}
        self._changed = asyncio.Condition()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._failures: dict[str, tuple[int, str]] = {}
        self._numbers = itertools.count(1)
        self._logged: set[str] = set()
        self._restarts = 0
        self._failed_starts = 0  # in a row: the process ended before it said anything
        self._unusable = False
        self._closing = False

    # ------------------------------------------------------------------------------------------------------- lifecycle

    def start(self) -> None:
        """Starts (or takes over) the process. Needs a running event loop."""
        self._process, self._early = self._early or start_process(self._command), None
        stdin, stdout = _pipes(self._process)
        self._writer = PipeWriter(stdin.fileno())
        self._receiver = asyncio.create_task(self._receive(self._process, PipeReader(stdout.fileno()).stream))
        if self._watch is None:
            self._watch = asyncio.create_task(self._end_when_stuck())
        self._sent.clear()
        self._send(self._workspace)

    def configure(self, roots: tuple[str, ...], whole_program: bool, alone: tuple[str, ...] = ()) -> None:
        workspace = Workspace(roots, whole_program, alone)
        if workspace != self._workspace:
            self._workspace = workspace
            self._send(workspace)

    def close(self) -> None:
        """Ends the process at once."""
        self._closing = True
        for timer in self._timers.values():
            timer.cancel()
        for task in (self._receiver, self._watch):
            if task is not None:
                task.cancel()
        for process in (self._process, self._early):
            if process is not None and process.poll() is None:
                process.kill()

    async def _receive(self, process: subprocess.Popen[bytes], stream: asyncio.StreamReader) -> None:
        try:
            while True:
                head = await stream.readexactly(LENGTH.size)
                self._failed_starts = 0
                self._silence.heard()
                message = unpack(await stream.readexactly(LENGTH.unpack(head)[0]))
                await self._handle(message)
        except asyncio.IncompleteReadError:
            pass
        if not self._closing:
            await self._restart(process)

    async def _restart(self, process: subprocess.Popen[bytes]) -> None:
        if self._writer is not None:
            # Its thread must be gone before the descriptor it writes to can be used for something else.
            await asyncio.to_thread(self._writer.flush, 1.0)
        code = await asyncio.to_thread(process.wait)
        self._restarts += 1
        self._failed_starts += 1
        log.error("the analysis process ended (exit code %s) and is started again", code)
        lost, self._running = self._running, {}
        guilty, self._at_work = self._at_work, ""
        document = self._documents.at(guilty)
        if document is not None:  # what waited behind it did nothing
            if guilty not in lost:  # it changed with another file, and so did others perhaps
                lost = {**dict.fromkeys(self._facts, 0), **lost}
            revision = lost.get(guilty) or document.revision
            key = (guilty, revision)
            self._crashes[key] = self._crashes.get(key, 0) + 1
            if self._crashes[key] >= _CRASHES_PER_TEXT:
                self._failures[guilty] = (revision, f"the analysis process ended (exit code {code})")
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(EngineUnavailable("the analysis process ended"))
        self._answers.clear()
        if self._failed_starts >= _FAILED_STARTS:
            log.error("the analysis process does not start; there will be no findings until the server is restarted")
            self._unusable = True
            self._running.clear()
            self._on_unusable()
            await self._wake()
            return
        await asyncio.sleep(min(0.05 * self._restarts, 2.0))
        self._earlier = set(self._facts)
        self.start()
        for path in {*lost, *self._running}:  # the latter were asked while there was nobody to answer
            document = self._documents.at(path)
            if document is not None and self._crashes.get((path, document.revision), 0) < _CRASHES_PER_TEXT:
                self._ask(document)
        await self._wake()

    # -------------------------------------------------------------------------------------------------------- requests

    def request(self, path: str, delay: float) -> None:
        """Asks for new facts of an open document, `delay` seconds after the last request for it."""
        timer = self._timers.pop(path, None)
        if timer is not None:
            timer.cancel()
        if delay > 0:
            self._timers[path] = asyncio.get_running_loop().call_later(delay, self._due, path)
        else:
            self._due(path)

    def opened(self, path: str) -> None:
        """The document is a new one."""
        self._forget(path)

    def closed(self, path: str) -> None:
        self._forget(path)
        self._send(Texts({}, (path,)))

    def disk_changed(self, paths: Sequence[str]) -> None:
        """Files may have changed on the disk, any of them without `paths`. Told when something is asked next: some editors tell one file
        at a time, and each time the process looks through the folders of its programs."""
        if not paths:
            self._on_disk = None
        elif self._on_disk is not None:
            self._on_disk.update(dict.fromkeys(paths))

    def stop_indexing(self) -> None:
        self._send(StopIndexing())

    def _forget(self, path: str) -> None:
        timer = self._timers.pop(path, None)
        if timer is not None:
            timer.cancel()
        for known in (self._sent, self._facts, self._partly, self._outlines, self._failures, self._running):
            known.pop(path, None)
        self._earlier.discard(path)

    def _due(self, path: str) -> None:
        self._timers.pop(path, None)
        document = self._documents.at(path)
        crashes = self._crashes.get((path, document.revision), 0) if document is not None else 0
        if document is not None and crashes < _CRASHES_PER_TEXT and not self._unusable:
            self._ask(document)

    def _ask(self, document: Document) -> None:
        self._send_news()
        self._running[document.path] = document.revision
        self._send(Check(document.path))

    def _send_news(self) -> None:
        """What the process has to know before it is asked something: what changed on the disk, and the texts."""
        if self._on_disk is None or self._on_disk:
            self._send(DiskChanged(tuple(self._on_disk or ())))
            self._on_disk = {}
        changed: dict[str, OpenText | EditedText] = {}
        for document in self._documents.of_files():
            sent = self._sent.get(document.path)
            if sent is not None and sent[0] == document.revision:
                continue
            edits = self._documents.since(document.uri, sent[0]) if sent is not None else None
            size = len(document.encoded)
            if sent is None or edits is None:
                changed[document.path] = OpenText(document.revision, document.language, document.encoded)
            else:
                front, back = hull(edits, sent[1])
                middle = document.encoded[front : size - back]
                changed[document.path] = EditedText(document.revision, front, back, middle)
            self._sent[document.path] = (document.revision, size)
        if changed:
            self._send(Texts(changed))

    async def _end_when_stuck(self) -> None:
        """Ends a process that owes an answer and will not give it; what it was asked is asked of the next one."""
        while True:
            await asyncio.sleep(stuck.LOOK_SECONDS)
            process = self._process
            if process is None or not (self._running or self._answers or self._at_work):
                self._silence.heard()
                continue
            why = self._silence.why_stuck(process.pid)
            if why:
                log.error("the analysis %s; its process is ended", why)
                document = self._documents.at(self._at_work)
                if document is not None:  # once is enough
                    revision = self._running.get(document.path, document.revision)
                    self._crashes[document.path, revision] = _CRASHES_PER_TEXT
                self._silence.heard()
                process.kill()

    def _send(self, message: Request) -> None:
        if self._writer is not None:
            self._writer.write(pack(message))

    # --------------------------------------------------------------------------------------------------------- answers

    async def _handle(self, message: object) -> None:
        match message:
            case Begun(path=path):
                self._at_work = path
                return
            case Result():
                self._take(message)
            case Partly(revisions=revisions, facts=facts):
                for path, partly in facts.items():
                    document = self._documents.at(path)
                    if document is not None and document.revision == revisions[path] and not self.is_current(document):
                        self._partly[path] = (revisions[path], partly)
                        self._on_facts(path)
            case Outline(revisions=revisions, facts=facts):
                for path, outline in facts.items():
                    document = self._documents.at(path)
                    if document is not None and self._documents.since(document.uri, revisions[path]) is not None:
                        before = self._outlines.get(path)
                        self._outlines[path] = (revisions[path], outline)
                        if before is not None and before[0] == revisions[path] and before[1] != outline:
                            self._on_outline()
            case Indexing():
                self._on_indexing(message)
                return
            case Failed(path=path, revision=revision, reason=reason):
                log.error("the analysis failed: %s", reason)
                self._running.pop(path, None)
                self._failures[path] = (revision, reason)
            case GraphAnswer(id=number) | FixAnswer(id=number) | OutlineAnswer(id=number):
                answer = self._answers.pop(number, None)
                if answer is not None and not answer.done():
                    answer.set_result(message)
                return
        await self._wake()

    def _take(self, result: Result) -> None:
        running = self._running.get(result.path)
        if running is not None and result.complete and result.revisions.get(result.path, -1) >= running:
            self._running.pop(result.path)
        for path, facts in result.facts.items():
            document = self._documents.at(path)
            revision = result.revisions[path]
            if document is None or self._documents.since(document.uri, revision) is None:
                continue  # closed meanwhile, or closed and opened again
            self._facts[path] = (revision, facts)
            self._earlier.discard(path)
            self._partly.pop(path, None)
            self._log_problems(facts)
            self._failures.pop(path, None)
            self._on_facts(path)

    def _log_problems(self, facts: FileFacts) -> None:
        """Internal errors of the engine, each once. They name a place in our code and none of the user's text."""
        for problem in facts.problems:
            if problem.what.startswith("internal error"):
                what = problem.what.rpartition(": ")[2]
                if what not in self._logged:
                    self._logged.add(what)
                    log.error("the analysis of a file met an internal error: %s", what)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def latest(self, document: Document) -> tuple[int, FileFacts] | None:
        """The newest facts of a document, with the revision they hold for: all findings of that text, or what is known for good of a
        newer one so far."""
        if not self._documents.is_of_its_file(document):
            return None
        return self._partly.get(document.path) or self._facts.get(document.path)

    def is_current(self, document: Document) -> bool:
        """Whether the latest facts hold for this revision, or none will come."""
        if self._failed(document) or not self._documents.is_of_its_file(document):
            return True
        known = self._facts.get(document.path)
        return known is not None and known[0] == document.revision

    def _failed(self, document: Document) -> bool:
        if self._unusable:
            return True
        failure = self._failures.get(document.path)
        return failure is not None and failure[0] == document.revision

    async def settled(self, uri: str, or_partly: bool = False) -> Document | None:
        """Waits until the facts hold for the current text of a document (a newer one than at the call, perhaps), or until something
        is known for good of it (`or_partly`). None when it is closed meanwhile."""
        async with self._changed:
            while True:
                document = self._documents.get(uri)
                if document is None or self.is_current(document):
                    return document
                partly = self._partly.get(document.path)
                if or_partly and partly is not None and partly[0] == document.revision:
                    return document
                await self._changed.wait()

    async def outlined(self, uri: str) -> None:
        """Waits until the outline of the current text is known, or is known not to come."""
        async with self._changed:
            while True:
                document = self._documents.get(uri)
                if document is None or self._failed(document) or not self._documents.is_of_its_file(document):
                    return
                known = self._outlines.get(document.path)
                if known is not None and known[0] == document.revision:
                    return
                await self._changed.wait()

    def outline(self, document: Document) -> tuple[int, FileFacts] | None:
        """The newest launches and functions of a document, with the revision they hold for."""
        return self._outlines.get(document.path) if self._documents.is_of_its_file(document) else None

    async def outline_at(self, uri: str, position: Callable[[Document], int]) -> tuple[int, FileFacts] | None:
        """What is known around a byte of a document's text, with the revision that it holds for: of the last text that was analysed, at
        once; before there was one, as soon as the current one is. `position` says which byte of a text. None when there is nothing."""
        asked = -1
        while (document := self._documents.get(uri)) is not None:
            path = document.path
            known = path in self._facts and path not in self._earlier
            revision = self._facts[path][0] if known else document.revision
            edits = self._documents.since(uri, revision)
            if revision == asked or edits is None or not self._documents.is_of_its_file(document):
                return None
            lost = path in self._earlier and path not in self._running and not self._failed(document)
            if not known and (path in self._timers or lost):
                self.request(path, 0)
            facts = await self._outline_around(path, revision, at_before(position(document), edits))
            if facts is not None:
                return revision, facts
            asked = revision  # it may have given way to a newer one on the way
        return None

    async def _outline_around(self, path: str, revision: int, at: int) -> FileFacts | None:
        got: OutlineAnswer = await self._answer(lambda number: OutlineAt(number, path, revision, at))
        return got.facts

    async def graph_text(self, path: str, function: str, form: str, trace: str = "") -> str:
        document = self._documents.at(path)
        self._send_news()
        if document is not None and not self.is_current(document):
            self._send(Check(path))
        got: GraphAnswer = await self._answer(lambda number: GraphText(number, path, function, form, trace))
        if got.refused:
            raise EngineUnavailable(got.refused)
        return got.text

    async def fix_all(self, path: str, settings: Settings) -> FixAnswer:
        """All safe fixes of an open document, of the text with the answer's revision."""
        self._send_news()
        got: FixAnswer = await self._answer(lambda number: FixAll(number, path, settings))
        return got

    async def _answer(self, request: Callable[[int], GraphText | FixAll | OutlineAt]) -> Any:
        if self._unusable:
            raise EngineUnavailable("the analysis process does not start")
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self._send(request(number))
        try:
            got = await answer
        finally:
            self._answers.pop(number, None)
        if got.error:
            raise EngineUnavailable(f"the analysis failed: {got.error}")
        return got

    def describe(self) -> dict[str, object]:
        """For `stitchcuda.status`."""
        return {
            "pid": self._process.pid if self._process is not None else None,
            "restarts": self._restarts,
            "waiting": len(self._timers),
            "running": len(self._running.keys() | {self._at_work} - {""}),
            "unusable": self._unusable,
            "failed": {os.path.basename(path): reason for path, (_, reason) in self._failures.items()},
        }


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout
