"""Jobs about a whole program: progress, the edit, cancelling, what is withdrawn. The command line is a scripted program here; its real
counterpart has tests of its own."""

from __future__ import annotations

import asyncio
import json
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


async def test_an_editor_that_takes_no_edits_is_sent_none(desk: Desk) -> None:
    desk.stitched()
    async with at(desk, "bare") as editor:
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await job_ended(editor, answer["job"])
        assert editor.applied == []
        message = await until(lambda: next((m for m in editor.messages if "not applied" in m), None))
        assert "takes no edits" in message and "stitchcuda runs apply" in message


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


async def test_errors_of_the_program_are_told_with_the_result(desk: Desk) -> None:
    desk.stitched()
    answer = json.loads((desk.folder / "answer.json").read_text())
    desk.answer(
        {**answer, "errors": [{"code": "use-after-free", "path": "/p/ops.cu", "line": 2, "message": "..."}] * 2}
    )
    async with at(desk) as editor:
        job = await editor.command("stitchcuda.stitch", desk.uri)
        await job_ended(editor, job["job"])
        await until(
            lambda: any(
                "improved: twice as fast. It has errors, before and after: use-after-free at ops.cu:2 and 1 more" in m
                for m in editor.messages
            )
        )


async def test_a_verdict_is_told_in_a_sentence(desk: Desk) -> None:
    desk.answer(
        {"schema": 1, "state": "rejected", "gates": [], "primary": {"issue": "a race", "path": "a.cu", "line": 3}}
    )
    async with at(desk) as editor:
        answer = await editor.command("stitchcuda.validate", desk.uri)
        await job_ended(editor, answer["job"])
        assert desk.words is not None and desk.words[0][:4] == ["validate", "--against", "HEAD", str(desk.program)]
        await until(lambda: any("rejected: a race (a.cu:3)" in m for m in editor.messages))


@pytest.mark.parametrize("status", [True, False])
async def test_a_client_that_shows_the_status_gets_the_result_beside_its_words(desk: Desk, status: bool) -> None:
    """What can be done next is offered by it, whatever the words are."""
    async with at(desk, status=status) as editor:
        told: list[Any] = []
        read = editor.client.protocol.structure_message

        def heard(data: Any) -> Any:
            told.extend([data["ended"]] if "ended" in data else [])
            return read(data)

        editor.client.protocol.structure_message = heard  # type: ignore[method-assign]
        for command, result in (("stitchcuda.validate", {}), ("stitchcuda.stitch", {"outcome": "no_safe_change"})):
            desk.answer({"schema": 1, "state": "unproven", "gates": [], **result})
            answer = await editor.command(command, desk.uri)
            await job_ended(editor, answer["job"])
        desk.stitched()
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await job_ended(editor, answer["job"])
        await until(lambda: sum(": " in m for m in editor.messages) == 3)
        given = [("unproven", False), ("no_safe_change", False), ("improved", True)]
        assert told == [{"outcome": outcome, "applied": applied} for outcome, applied in given if status]


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
