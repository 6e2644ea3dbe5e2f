"""The analysis process: `python -m stitchcuda.server.engine.process`, a child of the server that does all analysis.

A process and not a thread, because parsing and analysing hold the interpreter's lock and would stop the event loop
(docs/adr/0004-analysis-in-a-child-process.md).

It keeps one `Index` a program. Requests come on stdin, replies go to stdout; the end of stdin ends the process at once,
so it never outlives the server.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stitchcuda.analysis.internal_error import where
from stitchcuda.server import program as programs
from stitchcuda.server import sources
from stitchcuda.server.collecting import collect_all, collect_new
from stitchcuda.server.engine.facts import FileFacts
from stitchcuda.server.engine.inbox import Inbox
from stitchcuda.server.engine.messages import (
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
    Reply,
    Request,
    Result,
    StopIndexing,
    Texts,
    Workspace,
    pack,
)
from stitchcuda.server.engine.pace import Pace
from stitchcuda.server.engine.warming import warm_up
from stitchcuda.server.upwards import innermost

_PAUSE_SECONDS = 0.03  # between the last findings and the outline, for the next keystroke
_IDLE_SECONDS = 2.0
_UNUSED_KEPT = 2  # programs
_FEW_BYTES = 64 * 1024
_BATCH_BYTES = 256 * 1024  # read between two looks at the inbox: an edit waits for one batch at most


class Superseded(Exception):
    """A newer request makes the running analysis pointless."""


@dataclass
class Program:
    """One `Index` and which files it holds."""

    key: str
    index: Any
    loaded: dict[str, tuple[int, int]] = field(default_factory=dict)  # path -> (mtime, size); (-1, revision) when open
    sources: tuple[str, ...] | None = None  # the rest of the program; None: only what its files include is read
    waiting: list[str] | None = None  # of these and of libraries, what is not read yet; None: not listed yet
    libraries: set[str] = field(default_factory=set)  # folders that were looked at for sources of headers
    analysis: Any = None
    was_complete: bool = False  # when it was analysed last
    analysed: dict[str, int] = field(default_factory=dict)  # open files that `analysis` is about, with their revisions
    told: dict[str, FileFacts] = field(default_factory=dict)  # what was sent while it was analysed
    includes: dict[str, tuple[bytes, ...]] = field(default_factory=dict)  # of files whose includes were read

    @property
    def complete(self) -> bool:
        return self.waiting == []

    def was_analysed(self, analysis: Any) -> None:
        """`analysis` is about the texts that are loaded now."""
        self.analysis = analysis
        self.analysed = {path: stamp[1] for path, stamp in self.loaded.items() if stamp[0] == -1}


class AnalysisProcess:
    """Holds the open texts and the programs; handles one request at a time."""

    def __init__(self, inbox: Inbox, send: Callable[[Reply], None], new_index: Callable[[], Any]):
        self._inbox = inbox
        self._send = send
        self._new_index = new_index
        self._open: dict[str, OpenText] = {}
        self._programs: dict[str, Program] = {}
        self._keys: dict[str, programs.Program] = {}
        self._mains: dict[str, bool] = {}  # of the open files
        self._moved: set[str] = set()  # open files that became part of another program
        self._asked: dict[str, None] = {}  # open files in the order in which they were asked about
        self._behind: dict[str, None] = {}  # open files whose programs hold something that changed, by their turns
        self._roots: tuple[str, ...] = ()
        self._whole_program = True
        self._alone: tuple[str, ...] = ()
        self._indexing = True
        self._outlines: dict[str, tuple[Program, dict[str, int]]] = {}

    def handle(self, request: Request) -> None:
        match request:
            case Texts(changed=changed, closed=closed):
                self._indexing = True
                if not changed.keys() <= self._open.keys():
                    for program in self._programs.values():
                        program.includes.clear()  # a new document may be an include that was missing on the disk
                for path, text in changed.items():
                    self._open[path] = text if isinstance(text, OpenText) else _edited(self._open[path], text)
                for path in closed:
                    for known in (self._open, self._keys, self._asked, self._behind):
                        known.pop(path, None)
                mains = [self._main_came_or_went(path) for path in (*changed, *closed)]  # each is asked
                if any(mains):
                    self._regroup()
                if closed:
                    self._drop_unused()
            case Workspace(roots=roots, whole_program=whole, alone=alone):
                self._roots, self._whole_program, self._alone = roots, whole, alone
                self._programs.clear()
                self._keys.clear()
            case DiskChanged(paths=paths):
                self._disk_changed(paths)
            case StopIndexing():
                self._indexing = False
            case Check(path=path):
                if path in self._open and not self._inbox.superseded(path):
                    self._check(path)
                    for moved in (self._moved & self._open.keys()) - {path}:
                        self._inbox.put_back(Check(moved))
                    self._moved.clear()
            case GraphText():
                self._graph(request)
            case FixAll():
                self._fix_all(request)
            case OutlineAt():
                self._outline_at(request, self._inbox.is_waiting)

    # -------------------------------------------------------------------------------------------------------- programs

    def _program_of(self, path: str, looked: programs.Looked | None = None) -> programs.Program:
        """Which program a file belongs to: a folder's, or itself when that is not one small program."""
        known = self._keys.get(path)
        if known is None:
            known = programs.Program(path)
            if self._reads_programs(path):
                try:
                    known = programs.of(path, self._roots, self._open_text, looked)
                except Exception as error:  # noqa: BLE001 - asked with each request: it would end every process that is started
                    print(f"the program of a file was not found: {where(error)}", file=sys.stderr)
            self._keys[path] = known
        return known

    def _programs_of_all(self) -> dict[str, programs.Program]:
        """Those of the open files: their folders are looked through once, however many they are."""
        looked: programs.Looked = {}
        return {path: self._program_of(path, looked) for path in self._open}

    def _main_came_or_went(self, path: str) -> bool:
        """Whether a source has a `main` now that it did not have, or the other way round, since it was looked at: on the disk, when
        it was not open."""
        if not path.lower().endswith(programs.SOURCES):
            return False
        text = self._open_text(path)
        now = programs.has_main(path, text)
        before = self._mains.pop(path, None)
        if text is not None:
            self._mains[path] = now
        return now != (programs.has_main(path) if before is None else before)

    def _regroup(self) -> None:
        """Asks again which programs the open files belong to, and drops what is known of programs that lost a source."""
        before, self._keys = self._keys, {}
        now = self._programs_of_all()
        moved = {path for path, program in now.items() if path in before and before[path] != program}
        kept = {program.name: set(program.sources) for program in now.values()}
        for key, program in list(self._programs.items()):
            if key not in kept or not kept[key].issuperset(program.sources or ()):
                del self._programs[key]
            program.waiting = None  # a source may have come
        self._moved |= moved

    @property
    def is_behind(self) -> bool:
        """Whether programs wait to be looked at again."""
        return bool(self._behind)

    def _key(self, path: str) -> str:
        return self._program_of(path).name

    def _open_text(self, path: str) -> bytes | None:
        opened = self._open.get(path)
        return opened.text if opened is not None else None

    def _reads_programs(self, path: str) -> bool:
        root = innermost(path, self._roots) if self._alone else None
        return self._whole_program if root is None else root not in self._alone

    def _own(self, path: str) -> Program:
        found = self._program_of(path)
        key = found.name
        if key not in self._programs:
            self._programs[key] = Program(key, self._new_index())
        self._programs[key].sources = found.sources if self._reads_programs(path) else None
        return self._programs[key]

    def _drop_unused(self) -> None:
        """Programs without an open file cost memory for nothing, but for the newest ones: files are opened again."""
        used = {self._key(path) for path in self._open}
        unused = [
            key
            for key, program in self._programs.items()
            if key not in used and not any(path in program.loaded for path in self._open)
        ]
        for key in unused[:-_UNUSED_KEPT]:
            program = self._programs.pop(key)
            for path in [p for p in program.loaded if not os.path.exists(p)]:
                program.index.drop(path)  # what is known of files is shared with other programs

    def _read(self, path: str) -> bytes | None:
        opened = self._open.get(path)
        return opened.text if opened is not None else sources.read_file(path)

    def _load(self, program: Program, path: str, text: bytes | None = None) -> None:
        """Puts the current text of a file into the program's index when it is not there yet."""
        opened = self._open.get(path)
        if opened is not None:
            stamp, text = (-1, opened.revision), opened.text
        else:
            stamp = sources.stamp(path)
        if program.loaded.get(path) == stamp:
            return
        if text is None:
            text = sources.read_file(path)
        if text is None:
            if program.loaded.pop(path, None) is not None:
                program.index.drop(path)
            return
        program.index.put(path, text)
        program.loaded[path] = stamp

    def _load_with_includes(self, program: Program, path: str) -> None:
        self._load(program, path)
        text = self._read(path)
        if text is None:
            return
        named = sources.named(path, text)
        if program.includes.get(path) == named:
            return
        program.includes[path] = named
        folders = sources.include_folders(path, self._roots)
        for name, content in sources.includes(path, text, self._read, folders).items():
            self._load(program, name, content)

    def _disk_changed(self, paths: tuple[str, ...]) -> None:
        self._regroup()
        for program in self._programs.values():
            for path in paths or tuple(program.loaded):
                if path in program.loaded and path not in self._open:
                    self._load(program, path)
            program.waiting = None  # files may have come or gone
            program.includes.clear()

    # ----------------------------------------------------------------------------------------------------------- check

    def _check(self, path: str) -> None:
        """The program of the file. Others that hold it (a header's) wait until nothing else is asked for, those of the files that were
        asked about last first: it is they that are looked at."""
        self._asked.pop(path, None)
        self._asked[path] = None
        self._behind.pop(path, None)
        self._bring_up_to_date(path, self._inbox.running(path))
        own = self._key(path)
        others: dict[str, str] = {}
        for asked in reversed(self._asked):
            program = self._programs.get(self._key(asked))
            if program is not None and program.key != own and path in program.loaded:
                others.setdefault(program.key, asked)
        self._behind = {**dict.fromkeys(others.values()), **self._behind}
        self._rest()

    def catch_up(self) -> bool:
        """Looks at one of the programs that wait for it. False when there is none."""
        if not self._behind:
            return False
        path = next(iter(self._behind))
        del self._behind[path]
        if not self._bring_up_to_date(path, self._inbox.yielding()):
            self._behind = {path: None, **self._behind}
        self._rest()
        return True

    def _rest(self) -> None:
        if not self._behind:
            self._send(Begun(""))

    def _bring_up_to_date(self, path: str, cancel: threading.Event) -> bool:
        """Analyses the program of a file and tells what was found. False when something else goes first."""
        self._send(Begun(path))
        try:
            program = self._own(path)
            for opened, of in self._programs_of_all().items():
                if opened in program.loaded or of.name == program.key:
                    self._load(program, opened)
            for gone in [p for p, stamp in program.loaded.items() if stamp[0] == -1 and p not in self._open]:
                self._load(program, gone)
            self._load_with_includes(program, path)
            self._list_sources(program)
            self._read_few(program)
            self._analyse(program, path, cancel)
            if not program.complete:
                self._read_rest(program, path, cancel)
        except Superseded:
            return False
        except Exception as error:  # noqa: BLE001
            # One broken analysis must not end the process: the next edit may be fine again.
            self._send(Failed(path, self._open[path].revision, where(error)))
        finally:
            self._inbox.running(None)
        return True

    def _list_sources(self, program: Program) -> None:
        if program.waiting is None:
            program.waiting = [p for p in program.sources or () if p not in program.loaded]
            program.libraries.clear()
        program.waiting += self._libraries(program)

    def _libraries(self, program: Program) -> list[str]:
        """The sources of other folders that define what the program's headers declare."""
        found: dict[str, None] = {}
        for folder in dict.fromkeys(os.path.dirname(path) for path in program.loaded):
            if program.sources is not None and folder not in program.libraries and os.path.isabs(folder):
                program.libraries.add(folder)
                found.update(dict.fromkeys(programs.library(folder, self._open_text)))
        return [p for p in found if p not in program.loaded and p not in (program.waiting or ())]

    def _read_few(self, program: Program) -> None:
        """A program with little left to read is read at once: findings that come and go with its parts only disturb."""
        while program.waiting and sum(sources.stamp(path)[1] for path in program.waiting) <= _FEW_BYTES:
            for path in program.waiting:
                self._load_with_includes(program, path)
            program.waiting = self._libraries(program)

    def _read_rest(self, program: Program, path: str, cancel: threading.Event) -> None:
        """Reads the program's other files in batches and analyses it as a whole, unless something else is asked for:
        then that comes first, and the next check goes on here."""
        assert program.waiting is not None
        root = program.key
        try:
            while program.waiting:
                if not self._indexing:
                    program.waiting = []  # what was read is all there will be, until files change
                    break
                if cancel.is_set() or self._inbox.has_check():
                    self._inbox.put_back(Check(path))
                    return
                total = len(program.loaded) + len(program.waiting)
                self._send(Indexing(root, len(program.loaded), total))
                size = 0
                while program.waiting and size < _BATCH_BYTES:
                    source = program.waiting.pop(0)
                    self._load_with_includes(program, source)
                    size += sources.stamp(source)[1]
                program.waiting += self._libraries(program)
            self._analyse(program, path, cancel)
        finally:
            self._send(Indexing(root, 1, 1))

    def _analyse(self, program: Program, path: str, cancel: threading.Event) -> None:
        from stitchcuda.server.engine.placing import place_findings

        began = time.perf_counter()
        size = len(self._open[path].text)
        pace = Pace(lambda known: self._tell(program, path, known), size, is_new=program.analysis is None)

        def offer(make: Callable[[], Any]) -> bool:
            self._answer_meanwhile(cancel.is_set)
            return pace(make)

        analysis = program.index.analyse(cancel.is_set, offer, path)
        if cancel.is_set() or not analysis.complete:
            raise Superseded
        program.was_analysed(analysis)
        program.was_complete = program.complete
        program.told = {}
        mine = [p for p in self._open if self._key(p) == program.key]
        revisions = {p: self._open[p].revision for p in mine}
        facts = place_findings(analysis, mine, program.complete)
        self._send(Result(path, revisions, facts, program.complete, time.perf_counter() - began))
        if program.complete:
            self._outlines[program.key] = (program, revisions)

    def _tell(self, program: Program, path: str, known: Any) -> bool:
        """Sends what is known for good of the open files; False when that is nothing new."""
        from stitchcuda.server.engine.placing import place_findings

        if self._inbox.superseded(path):
            return False
        mine = [p for p in self._open if self._key(p) == program.key]
        # What is said of comments on the way is what was said before, maybe of a part of the program.
        facts = place_findings(known, mine, program.complete and program.was_complete)
        if all(not f.findings for f in facts.values()) or facts == program.told:
            return False
        program.told = facts
        self._send(Partly({p: self._open[p].revision for p in mine}, facts))
        return True

    def send_outlines(self) -> None:
        """Sends the launches and functions of what was analysed since the last call: when nobody waits for findings."""
        from stitchcuda.server.engine.placing import Interrupted, place_outline

        for key, (program, revisions) in list(self._outlines.items()):
            same = {p: r for p, r in revisions.items() if p in self._open and self._open[p].revision == r}
            texts = {p: self._open[p].text for p in same}
            try:
                facts = place_outline(program.analysis, same, texts, self._read, self._inbox.is_waiting)
            except Interrupted:
                return  # an edit goes first; the next pause goes on here
            except Exception as error:  # noqa: BLE001 - hover and lenses are worth less than the findings
                print(f"the outline failed: {where(error)}", file=sys.stderr)
                facts = {path: FileFacts(path) for path in same}
            del self._outlines[key]
            self._send(Outline(same, facts))

    def _answer_meanwhile(self, stop: Callable[[], bool]) -> None:
        """Between two steps of an analysis: whoever points at something is told what the last one says, at once. Other files that
        wait to be checked wait for the analysis anyway."""
        while self._inbox.is_waiting():
            request = self._inbox.take_outline_at(self._was_analysed)
            if request is None:
                return
            self._outline_at(request, stop)

    def _was_analysed(self, request: OutlineAt) -> bool:
        program = self._known(request.path)
        return program is not None and program.analysed.get(request.path) == request.revision

    def _known(self, path: str) -> Program | None:
        """The program of an open file when there is one already."""
        of = self._keys.get(path)
        return self._programs.get(of.name) if of is not None else None

    def _outline_at(self, request: OutlineAt, stop: Callable[[], bool]) -> None:
        from stitchcuda.server.engine.placing import Interrupted, place_outline_at

        path, facts = request.path, None
        try:
            program = self._known(path)
            if program is not None and program.analysed.get(path) == request.revision:
                text = program.analysis.sources[path]
                facts = place_outline_at(program.analysis, path, request.at, text, self._read, stop)
            self._send(OutlineAnswer(request.id, facts))
        except Interrupted:
            self._send(OutlineAnswer(request.id))
        except Exception as error:  # noqa: BLE001 - the user asked: the answer says that it failed
            self._send(OutlineAnswer(request.id, error=where(error)))

    def _graph(self, request: GraphText) -> None:
        from stitchcuda.server.engine.graph_page import graph_of
        from stitchcuda.server.not_shown import NotShown

        try:
            program = self._own(request.path)
            if program.analysis is None or not program.complete:  # half a program has another graph
                self._load_all(program, request.path)
                program.was_analysed(program.index.analyse(None))
            text = graph_of(program.analysis, request.path, request.function, request.format, request.trace)
            self._send(GraphAnswer(request.id, text))
        except NotShown as error:
            self._send(GraphAnswer(request.id, "", refused=str(error)))
        except Exception as error:  # noqa: BLE001 - the user asked: the answer says that it failed
            self._send(GraphAnswer(request.id, "", where(error)))

    def _load_all(self, program: Program, path: str) -> None:
        self._load_with_includes(program, path)
        self._list_sources(program)
        while program.waiting:
            self._load_with_includes(program, program.waiting.pop(0))
            program.waiting += self._libraries(program)

    def _fix_all(self, request: FixAll) -> None:
        from stitchcuda.server.engine.fixing import fix_all

        path, number = request.path, request.id
        revision = self._open[path].revision if path in self._open else -1

        def check() -> None:
            if self._inbox.superseded(path):
                raise Superseded

        try:
            program = self._own(path)
            self._load_all(program, path)  # whether a fix is safe is a question about the whole program
            texts = {name: text for name in program.loaded if (text := self._read(name)) is not None}
            self._send(FixAnswer(number, revision, fix_all(program.index, texts, path, request.settings, check)))
        except Superseded:
            self._send(FixAnswer(number, revision, (), "the text has changed"))
        except Exception as error:  # noqa: BLE001 - the user asked: the answer says that it failed
            self._send(FixAnswer(number, revision, (), where(error)))


def _edited(old: OpenText, new: EditedText) -> OpenText:
    text = old.text[: new.front] + new.middle + old.text[len(old.text) - new.back :]
    return OpenText(new.revision, old.language, text)


def serve(new_index: Callable[[], Any] | None = None) -> None:
    """Handles requests until stdin ends. `new_index` makes an engine; the default is `analysis.index.Index`."""
    # The collector would walk over everything that is known again and again while it grows. It runs when nobody waits
    # instead.
    gc.disable()
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # a stray print must not end up between two replies
    inbox = Inbox(0)
    if new_index is None:
        from stitchcuda.analysis.index import Index  # slow to import: the inbox fills meanwhile

        new_index = Index

    def send(reply: Reply) -> None:
        view = memoryview(pack(reply))
        while view:
            view = view[replies.write(view) :]

    process = AnalysisProcess(inbox, send, new_index)
    warm = False
    while True:
        request = inbox.take(_PAUSE_SECONDS if warm and not process.is_behind else 0)
        if request is None and not warm:
            warm = warm_up(new_index(), inbox.is_waiting)
            continue
        if request is None and process.catch_up():
            continue
        if request is None:
            process.send_outlines()
            request = inbox.take(_IDLE_SECONDS)
        if request is None:
            collect_all()
            request = inbox.take()
        if request is not None:
            warm = warm or isinstance(request, Check)  # that does the same
            process.handle(request)
        collect_new()


if __name__ == "__main__":
    try:
        serve()
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(0)
