"""Jobs about a whole program: progress, the edit, cancelling, what is withdrawn. The command line is a scripted program here; its real
counterpart has tests of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as t
from stitchcuda.agent import journal, versions
from stitchcuda.agent.units import TextEdit, Unit
from stitchcuda.analysis.proof.model import Declared

from tests.server.client import FAKE, Editor, editor_session, until

pytestmark = pytest.mark.asyncio

MAIN = "int main() {\n    step();  // 🐢\n    wait();\n    step();\n    return 0;\n}\n"
OPS = "void step() {\n    wait();\n}\n"
# Prints the progress and the result that the folder beside it holds; a file `hold` there keeps it waiting until it is gone.
TOOL = """\
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
(here / "key").write_text(os.environ.get("STITCHCUDA_LLM_KEY", ""))
(here / "words.json").write_text(json.dumps([sys.argv[1:], os.getpid()]))
print(json.dumps({"step": 1, "of": 4, "message": "building"}), file=sys.stderr, flush=True)
while (here / "hold").exists():
    time.sleep(0.02)
print(json.dumps({"step": 4, "of": 4, "message": "measuring"}), file=sys.stderr, flush=True)
answer = here / "answer.json"
if not answer.exists():
    print("stitchcuda: nothing to build here", file=sys.stderr)
    sys.exit(2)
print(answer.read_text())
"""


class Desk:
    """A program on the disk, and the scripted command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "program"
        self.program.mkdir()
        (self.program / "stitchcuda.toml").write_text("")
        for name, text in (("main.cu", MAIN), ("ops.cu", OPS)):
            (self.program / name).write_text(text, encoding="utf-8")
        self.tool = folder / "tool.py"
        self.tool.write_text(TOOL)
        self.uri = (self.program / "main.cu").as_uri()

    def answer(self, value: object) -> None:
        (self.folder / "answer.json").write_text(json.dumps(value))

    @property
    def words(self) -> tuple[list[str], int] | None:
        try:
            words, pid = json.loads((self.folder / "words.json").read_text())
        except (OSError, ValueError):
            return None
        return words, pid

    def stitched(self) -> dict[str, str]:
        """A run whose best version takes the waits out of both files; the texts after it."""
        base = {"main.cu": MAIN.encode(), "ops.cu": OPS.encode()}
        drafts = []
        for path, why in (("main.cu", "nothing needs the wait"), ("ops.cu", "nor this one")):
            at = base[path].index(b"    wait();\n")
            edit = TextEdit(path, at, at + len(b"    wait();\n"), b"")
            drafts.append(Unit("", (), "remove-wait", why, (edit,), Declared(("remove-wait",))))
        return {path: text.decode() for path, text in self.kept(base, drafts).items()}

    def kept(self, base: Mapping[str, bytes], drafts: Sequence[Unit]) -> dict[str, bytes]:
        """The command's answer is a run whose best version has these units, kept in a journal; the texts after it."""
        units = versions.extend(base, (), drafts)
        best = [u.id for u in units]
        run = journal.start(self.program, stitchcuda="0", folder=self.folder / "runs")
        run.baseline(base)
        run.units(base, units)
        value = {"outcome": "improved", "reason": "twice as fast", "run_dir": str(run.folder), "units": best}
        run.write("result.json", {**value, "verdict": None, "best": {"units": best}})
        self.answer({"schema": 1, **value})
        return versions.compose(base, units, best)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@asynccontextmanager
async def at(desk: Desk, editor: str = "visual_studio_code", **options: Any) -> AsyncIterator[Editor]:
    command = (*FAKE, "--tool", str(desk.tool))
    settings = {"diagnosticsDelay": 0, "trusted": True, **options}
    async with editor_session(editor, command, settings, desk.program) as session:
        session.open(desk.uri, MAIN)
        yield session


def jobs(status: Any) -> list[Any]:
    return [job for job in status["jobs"] if not job["title"].startswith("Indexing")]


async def job_ended(editor: Editor, job: str) -> Any:
    while True:
        (found,) = [j for j in jobs(await editor.command("stitchcuda.status")) if j["id"] == job]
        if found["state"] != "running":
            return found
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("client", ["visual_studio_code", "neovim", "plain"])
async def test_stitching_ends_in_one_edit_of_all_files(desk: Desk, client: str) -> None:
    texts = desk.stitched()
    async with at(desk, client) as editor:
        action = next(a for a in await editor.actions(desk.uri, RANGE, ["refactor"]))
        assert action.command is not None and action.edit is None
        answer = await editor.command(action.command.command, *(action.command.arguments or ()))
        assert (await job_ended(editor, answer["job"]))["state"] == "done"
        assert desk.words is not None
        assert desk.words[0] == ["stitch", str(desk.program), "--format", "json", "--progress", "json"]
        (sent,) = editor.applied
        assert {Path(uri).name: text for uri, text in editor.texts.items()} == texts
        annotations = sent.edit.change_annotations
        if client == "visual_studio_code":
            notes = [(note.label, note.description) for note in (annotations or {}).values()]
            assert notes == [
                ("remove-wait (improved)", "nothing needs the wait"),
                ("remove-wait (improved)", "nor this one"),
            ]
        else:
            assert annotations is None
        assert bool(sent.edit.document_changes) == (client != "plain")
        assert (desk.program / "ops.cu").read_text() == OPS, "files change in the editor, not behind its back"
        await until(lambda: any("twice as fast" in m for m in editor.messages))


async def test_progress_is_begun_reported_and_ended(desk: Desk) -> None:
    desk.stitched()
    async with at(desk) as editor:
        answer = await editor.command("stitchcuda.stitch", desk.uri, "-p99 latency under 8 ms")
        await job_ended(editor, answer["job"])
        assert desk.words is not None and desk.words[0][2] == "--intent=-p99 latency under 8 ms"
        reports = [r for r in editor.client.progress_reports.values() if any(_is(x, "Stitch") for x in r)]
        await until(lambda: isinstance(reports[0][-1], t.WorkDoneProgressEnd))
        begin, *middle, end = reports[0]
        assert isinstance(begin, t.WorkDoneProgressBegin) and begin.cancellable
        assert [(m.percentage, m.message) for m in middle] == [(25, "building"), (100, "measuring")]
        assert end.message == "done"


@pytest.mark.parametrize(
    ("settings", "proposer", "key"),
    [
        ({"proposer": "both"}, ["--proposer=both"], "k-123"),
        ({"proposer": "both", "trusted": False}, ["--no-run"], ""),
        ({}, [], ""),
    ],
    ids=["asked-for", "not-trusted", "by-default"],
)
async def test_a_model_is_asked_when_the_user_says_so_and_gets_the_key_of_this_run(
    desk: Desk, settings: dict[str, Any], proposer: list[str], key: str
) -> None:
    desk.stitched()
    async with at(desk, **settings) as editor:
        answer = await editor.command("stitchcuda.stitch", desk.uri, "", "k-123")
        await job_ended(editor, answer["job"])
        assert desk.words is not None and desk.words[0][2:-4] == proposer
        assert (desk.folder / "key").read_text() == key


def _is(report: Any, title: str) -> bool:
    return isinstance(report, t.WorkDoneProgressBegin) and report.title.startswith(title)


RANGE = t.Range(start=t.Position(line=0, character=0), end=t.Position(line=0, character=0))


async def test_what_is_typed_during_the_run_is_never_lost(desk: Desk) -> None:
    desk.stitched()
    (desk.folder / "hold").touch()
    async with at(desk) as editor:
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await until(lambda: desk.words)
        editor.edit(desk.uri, RANGE, "// typed\n")
        (desk.folder / "hold").unlink()
        await job_ended(editor, answer["job"])
        assert editor.applied == [] and editor.texts[desk.uri] == "// typed\n" + MAIN
        message = await until(lambda: next((m for m in editor.messages if "not applied" in m), None))
        assert "main.cu has changed since the run read it" in message and "stitchcuda runs apply" in message


async def test_an_editor_that_takes_no_edits_is_sent_none(desk: Desk) -> None:
    desk.stitched()
    async with at(desk, "bare") as editor:
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await job_ended(editor, answer["job"])
        assert editor.applied == []
        message = await until(lambda: next((m for m in editor.messages if "not applied" in m), None))
        assert "takes no edits" in message and "stitchcuda runs apply" in message


async def test_an_editor_that_refuses_or_drops_the_edit_is_believed_by_its_text(desk: Desk) -> None:
    desk.stitched()
    async with at(desk) as editor:
        editor.accepts = False
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await job_ended(editor, answer["job"])
        assert editor.texts[desk.uri] == MAIN
        await until(lambda: any("not applied: no." in m for m in editor.messages))


async def test_cancelling_ends_the_command_and_sends_no_edit(desk: Desk) -> None:
    desk.stitched()
    (desk.folder / "hold").touch()
    async with at(desk) as editor:
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        words = await until(lambda: desk.words)
        assert await editor.command("stitchcuda.cancel", answer["job"]) is True
        async with asyncio.timeout(1.0):
            assert (await job_ended(editor, answer["job"]))["state"] == "cancelled"
        (desk.folder / "hold").unlink()
        if sys.platform == "linux":
            assert not os.path.exists(f"/proc/{words[1]}")
        assert editor.applied == []


async def test_an_untrusted_workspace_is_read_and_never_run(desk: Desk) -> None:
    desk.stitched()
    # Settings of the workspace cannot say that it is to be trusted.
    command = (*FAKE, "--tool", str(desk.tool))
    settings = {"trusted": True, "validateOnSave": True}
    async with editor_session("neovim", command, {}, desk.program, configuration=settings) as editor:
        editor.open(desk.uri, MAIN)
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await job_ended(editor, answer["job"])
        assert desk.words is not None and "--no-run" in desk.words[0]
        before = desk.words
        with pytest.raises(Exception, match="not trusted"):
            await editor.command("stitchcuda.validate", desk.uri)
        save(editor, desk.uri)
        await editor.command("stitchcuda.status")
        assert desk.words == before


async def test_unsaved_text_is_not_run(desk: Desk) -> None:
    async with at(desk) as editor:
        editor.edit(desk.uri, RANGE, "// typed\n")
        for command in ("stitchcuda.stitch", "stitchcuda.validate"):
            with pytest.raises(Exception, match=r"save .*main\.cu first"):
                await editor.command(command, desk.uri)
        assert desk.words is None


async def test_a_command_that_cannot_run_says_why(desk: Desk) -> None:
    async with at(desk) as editor:
        for command in ("stitchcuda.stitch", "stitchcuda.validate"):
            answer = await editor.command(command, desk.uri)
            await job_ended(editor, answer["job"])
        await until(lambda: [m for m in editor.messages if "nothing to build here" in m][1:])


async def test_a_verdict_is_told_in_a_sentence(desk: Desk) -> None:
    desk.answer(
        {"schema": 1, "state": "rejected", "gates": [], "primary": {"issue": "a race", "path": "a.cu", "line": 3}}
    )
    async with at(desk) as editor:
        answer = await editor.command("stitchcuda.validate", desk.uri)
        await job_ended(editor, answer["job"])
        assert desk.words is not None and desk.words[0][:4] == ["validate", "--against", "HEAD", str(desk.program)]
        await until(lambda: any("rejected: a race (a.cu:3)" in m for m in editor.messages))


# ------------------------------------------------------------------------------------------------------------ on save


def save(editor: Editor, uri: str) -> None:
    params = t.DidSaveTextDocumentParams(text_document=t.TextDocumentIdentifier(uri=uri))
    editor.client.text_document_did_save(params)


def pushed(editor: Editor, uri: str) -> list[t.Diagnostic] | None:
    """The newest on-save findings of the current version."""
    for params in reversed(editor.pushed):
        if params.uri == uri and params.version == editor.versions[uri]:
            return [d for d in params.diagnostics if d.code in ("latency-regression", "sanitizer")]
    return None


SLOW = {"code": "latency-regression", "path": "main.cu", "line": 4, "message": "step takes 20 % more"}


@pytest.mark.parametrize("client", ["visual_studio_code", "vscode"])
async def test_a_regression_is_shown_on_its_line_moves_along_and_goes(desk: Desk, client: str) -> None:
    """Pushed to clients that pull the other findings, too, and then nothing else is in it."""
    desk.answer({"schema": 1, "state": "regressed", "findings": [SLOW]})
    async with at(desk, client, validateOnSave=True) as editor:
        save(editor, desk.uri)
        (found,) = await until(lambda: pushed(editor, desk.uri) or None)
        assert desk.words is not None and desk.words[0][:3] == ["gate", str(desk.program), "--on-save"]
        assert (found.severity, found.source, found.message) == (2, "stitchcuda", "step takes 20 % more")
        assert editor.at(desk.uri, found.range) == "step();" and found.range.start.line == 3
        if client == "vscode":
            assert {d.code for d in await editor.pull(desk.uri)}.isdisjoint({"latency-regression"})
            assert all(d.code == "latency-regression" for p in editor.pushed for d in p.diagnostics)

        editor.edit(desk.uri, RANGE, "// above\n")
        (moved,) = await until(lambda: pushed(editor, desk.uri) or None)
        assert moved.range.start.line == 4
        inside = t.Position(line=4, character=6)
        editor.edit(desk.uri, t.Range(start=inside, end=inside), "_fast")
        await until(lambda: pushed(editor, desk.uri) == [])

        (desk.program / "main.cu").write_text(editor.texts[desk.uri], encoding="utf-8")
        save(editor, desk.uri)
        await until(lambda: pushed(editor, desk.uri) or None)
        desk.answer({"schema": 1, "state": "ok", "findings": []})
        save(editor, desk.uri)
        await until(lambda: pushed(editor, desk.uri) == [])


async def test_what_was_edited_since_it_was_saved_gets_no_old_result(desk: Desk) -> None:
    desk.answer({"schema": 1, "state": "regressed", "findings": [SLOW]})
    (desk.folder / "hold").touch()
    async with at(desk, validateOnSave=True) as editor:
        save(editor, desk.uri)
        await until(lambda: desk.words)
        editor.edit(desk.uri, RANGE, "// typed\n")
        (desk.folder / "hold").unlink()
        (job,) = [
            j for j in jobs(await editor.command("stitchcuda.status")) if j["title"].startswith("Validate on save")
        ]
        await job_ended(editor, job["id"])
        assert not pushed(editor, desk.uri)


async def test_a_save_replaces_the_validation_that_still_runs(desk: Desk) -> None:
    desk.answer({"schema": 1, "state": "ok", "findings": []})
    (desk.folder / "hold").touch()
    async with at(desk, validateOnSave=True) as editor:
        save(editor, desk.uri)
        await until(lambda: desk.words)
        save(editor, desk.uri)
        found = jobs(await editor.command("stitchcuda.status"))
        await job_ended(editor, found[0]["id"])
        (desk.folder / "hold").unlink()
        states = [(await job_ended(editor, j["id"]))["state"] for j in found]
        assert states == ["cancelled", "done"]


async def test_on_save_is_off_until_it_is_switched_on(desk: Desk) -> None:
    async with at(desk) as editor:
        save(editor, desk.uri)
        assert jobs(await editor.command("stitchcuda.status")) == [] and desk.words is None
