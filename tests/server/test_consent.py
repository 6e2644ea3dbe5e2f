"""What the editor's user is asked before a model is: a real session, the real command line and an endpoint that counts what reaches
it. Nothing may, before a yes; and a yes is kept as the command line keeps its own."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as t
from stitchcuda.agent.model.approvals import Approvals
from stitchcuda.server.features.consent import ALLOW, NOT_NOW

from tests.llm.endpoint import ScriptedEndpoint
from tests.llm.scenario import nothing_left
from tests.server import small_program
from tests.server.client import FAKE, Editor, editor_session, until
from tests.server.test_program_jobs import job_ended

pytestmark = pytest.mark.asyncio

KEY = "canary-9f2c-of-the-user"
VARIABLES = ("STITCHCUDA_LLM_URL", "STITCHCUDA_LLM_MODEL", "STITCHCUDA_LLM_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY")
TOOL = str(Path(__file__).parent / "programs" / "quick_command.py")
JSON = ("--format", "json", "--progress", "json")
RULES_ALONE = "These are the rules alone; the model was not asked: "


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedEndpoint]:
    """In the environment of what is started; whatever it is asked, it sees nothing worth trying."""
    for name in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with ScriptedEndpoint(then=nothing_left()) as running:
        monkeypatch.setenv("STITCHCUDA_LLM_URL", running.url)
        monkeypatch.setenv("STITCHCUDA_LLM_MODEL", "coder")
        yield running


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return small_program.write(tmp_path)


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What follows the questions is not run; its words are in this file."""
    file = tmp_path / "words"
    monkeypatch.setenv("WORDS", str(file))
    return file


@asynccontextmanager
async def at(
    program: Path, proposer: str, *more: str, client: str = "visual_studio_code", trusted: bool = True
) -> AsyncIterator[Editor]:
    settings = {"diagnosticsDelay": 0, "trusted": trusted, "proposer": proposer}
    async with editor_session(client, (*FAKE, "--tool", TOOL, *more), settings, program) as editor:
        editor.open((program / "main.cu").as_uri(), small_program.MAIN)
        yield editor


async def begun(editor: Editor, *more: str) -> str:
    uri = next(iter(editor.versions))
    answer = await editor.command("stitchcuda.stitch", uri, *more)
    return str(answer["job"])


async def stitched(editor: Editor, *more: str) -> Any:
    """The job, ended."""
    return await job_ended(editor, await begun(editor, *more))


def reports(editor: Editor) -> list[str]:
    """What the progress of the jobs says."""
    values: list[Any] = [value for reports in editor.client.progress_reports.values() for value in reports]
    return [value.message for value in values if isinstance(value, t.WorkDoneProgressReport) and value.message]


def listen_to(editor: Editor, received: list[Any]) -> None:
    handle = editor.client.protocol.handle_message

    def both(message: Any) -> None:
        received.append(message)
        handle(message)

    editor.client.protocol.handle_message = both  # type: ignore[method-assign]


async def said(editor: Editor, part: str) -> str:
    return await until(lambda: next((m for m in editor.messages if part in m), None))


async def test_what_is_allowed_once_is_not_asked_again(
    endpoint: ScriptedEndpoint, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at(program, "llm") as editor:
        job = await begun(editor, "", KEY)
        (asked,) = await until(lambda: editor.asked or None)
        await asyncio.sleep(0.3)
        assert not endpoint.all_requests, "nothing is sent while the question is open"
        assert [action.title for action in asked.actions or ()] == [ALLOW, NOT_NOW]
        for part in ("stitchcuda: program: ", endpoint.url, "the model coder", "main.cu, smooth.cu", "key goes along"):
            assert part in asked.message
        assert "are taken out first" in asked.message
        assert "waiting for your answer" in reports(editor)
        editor.chosen.append(ALLOW)
        assert (await job_ended(editor, job))["state"] == "done"
        sent = len(endpoint.requests)
        assert sent and {r.key for r in endpoint.requests} == {KEY}
        (kept,) = Approvals().all(program)
        assert (kept.subject, kept.files) == (endpoint.url, ("main.cu", "smooth.cu", "smooth.h"))
        await stitched(editor, "", KEY)
        assert len(editor.asked) == 1 and len(endpoint.requests) > sent
    monkeypatch.setenv("WORDS", str(tmp_path / "words"))
    async with at(program, "llm", client="neovim") as editor:
        await stitched(editor, "", KEY)
        assert editor.asked == []
        # without the key it is another question
        editor.chosen.append(ALLOW)
        await stitched(editor)
        (asked,) = editor.asked
        assert "key goes along" not in asked.message


async def test_what_is_not_sent_is_named_and_new_files_are_asked_about(
    endpoint: ScriptedEndpoint, program: Path, words: Path
) -> None:
    (program / "stitchcuda.toml").write_text('[llm]\nnever_send = ["*.h"]\n')
    async with at(program, "llm") as editor:
        (uri,) = editor.versions
        editor.chosen.append(ALLOW)
        await stitched(editor)
        (asked,) = editor.asked
        assert "main.cu, smooth.cu\n" in asked.message
        assert asked.message.endswith("Not sent: smooth.h (never sent: *.h)")
        assert "--proposer=llm" in json.loads(words.read_text())
        (program / "more.cuh").write_text("#pragma once\n")
        text = editor.texts[uri] + '#include "more.cuh"\n'
        (program / "main.cu").write_text(text, encoding="utf-8")
        editor.replace(uri, text)
        editor.chosen.append(ALLOW)
        await stitched(editor)
        assert "Send also 1 file to" in editor.asked[1].message and "more.cuh" in editor.asked[1].message


async def test_with_both_the_rules_go_on_alone(endpoint: ScriptedEndpoint, program: Path, words: Path) -> None:
    answers = {NOT_NOW: "you did not agree", None: "the question was dismissed", "?": "the question was dismissed"}
    async with at(program, "both") as editor:
        for answer, why in answers.items():
            editor.messages.clear()
            editor.chosen.append(answer)
            assert (await stitched(editor, "", KEY))["state"] == "done"
            message = await said(editor, RULES_ALONE)
            assert message == f"stitchcuda: program: no safe change: scripted. {RULES_ALONE}{why}"
            assert json.loads(words.read_text()) == ["stitch", str(program), *JSON]
        assert len(editor.asked) == 3, "a no is not kept"
    assert not endpoint.all_requests and Approvals().all(program) == ()


async def test_with_the_model_alone_a_no_is_the_end(endpoint: ScriptedEndpoint, program: Path, words: Path) -> None:
    async with at(program, "llm") as editor:
        editor.chosen.append(NOT_NOW)
        assert (await stitched(editor))["state"] == "done"
        message = await said(editor, "nothing was sent or run")
        assert message == "stitchcuda: program: the model was not asked, and nothing was sent or run: you did not agree"
    assert not words.exists()


async def test_cancelled_while_asked(endpoint: ScriptedEndpoint, program: Path, words: Path) -> None:
    async with at(program, "both") as editor:
        received: list[Any] = []
        listen_to(editor, received)
        job = await begun(editor)
        await until(lambda: editor.asked or None)
        start = time.monotonic()
        assert await editor.command("stitchcuda.cancel", job) is True
        assert (await job_ended(editor, job))["state"] == "cancelled" and time.monotonic() - start < 1
        await until(lambda: editor.withdrawn == 1)
        (question,) = (m for m in received if getattr(m, "method", "") == t.WINDOW_SHOW_MESSAGE_REQUEST)
        editor.send({"id": question.id, "result": {"title": ALLOW}})  # too late
        await asyncio.sleep(0.3)
        assert Approvals().all(program) == () and not words.exists() and editor.messages == []
        await begun(editor)
        await until(lambda: len(editor.asked) == 2)
        start = time.monotonic()
    assert time.monotonic() - start < 3, "the end of the session is no answer"
    assert Approvals().all(program) == () and not words.exists()


async def test_no_answer_is_a_no(endpoint: ScriptedEndpoint, program: Path, words: Path) -> None:
    async with at(program, "both", "--answer-seconds", "0.5") as editor:
        await stitched(editor)
        message = await said(editor, RULES_ALONE)
        assert "nobody answered the question" in message
        assert message.endswith(f"stitchcuda stitch {program} --proposer=both --approve {endpoint.url}")
        await until(lambda: editor.withdrawn == 1)
        del editor.client.protocol.fm.features[t.WINDOW_SHOW_MESSAGE_REQUEST]
        await stitched(editor)
        message = await said(editor, "this editor cannot ask you")
        assert message.endswith(f"stitchcuda stitch {program} --proposer=both --approve {endpoint.url}")
    assert Approvals().all(program) == () and json.loads(words.read_text()) == ["stitch", str(program), *JSON]


async def test_nobody_is_asked_about_a_folder_that_is_not_trusted(
    endpoint: ScriptedEndpoint, program: Path, words: Path
) -> None:
    async with at(program, "both", trusted=False) as editor:
        editor.chosen.append(ALLOW)
        await stitched(editor, "", KEY)
        assert editor.asked == []
    assert json.loads(words.read_text()) == ["stitch", str(program), "--no-run", *JSON]


def with_commands(program: Path, build: str, run: str) -> None:
    """The project file has them executed."""
    lines = (f"[{part}]\ncommand = {json.dumps(command)}\n" for part, command in (("build", build), ("run", run)))
    (program / "stitchcuda.toml").write_text("".join(lines))


async def test_several_questions_one_after_the_other(
    endpoint: ScriptedEndpoint, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed, words = tmp_path / "executed", tmp_path / "words"
    with_commands(program, f"env >{executed}", "./program")
    monkeypatch.setenv("WORDS", str(words))
    async with at(program, "both") as editor:
        job = await begun(editor, "", KEY)
        for number, answer in enumerate((ALLOW, NOT_NOW), 1):
            await until(lambda n=number: len(editor.asked) == n)  # type: ignore[misc]
            await asyncio.sleep(0.2)
            assert len(editor.asked) == number and not words.exists()
            editor.chosen.append(answer)
        await job_ended(editor, job)
        send, execute = (asked.message for asked in editor.asked)
        assert "Send 3 files" in send and "Execute this command" in execute and f"env >{executed}" in execute
        assert "stitchcuda.toml, a file of the workspace" in execute
        await said(editor, "the model was not asked")
        # What the user does not want executed is not executed for the rules either.
        assert json.loads(words.read_text()) == ["stitch", str(program), "--no-run", *JSON]
    monkeypatch.delenv("WORDS")
    async with at(program, "both") as editor:
        # The first yes is kept; the second question comes again, then the third.
        editor.chosen += [ALLOW, ALLOW]
        await stitched(editor, "", KEY)
        assert [f"env >{executed}" in asked.message for asked in editor.asked] == [True, False]
        assert executed.exists() and KEY not in executed.read_text()
    assert len(Approvals().all(program)) == 3


async def test_what_an_editor_would_not_show_as_it_is_is_not_asked_there(
    endpoint: ScriptedEndpoint, program: Path, words: Path
) -> None:
    async with at(program, "llm") as editor:
        editor.chosen.append(ALLOW)
        for command in ("make " + "x" * 1000 + "; touch it", "[make](https://a.invalid/;touch) it"):
            with_commands(program, command, "")
            editor.messages.clear()
            await stitched(editor)
            message = await said(editor, "cannot be shown whole in the editor")
            assert "--approve" in message and len(editor.asked) == 1
    assert not words.exists()


async def test_names_show_as_they_are(endpoint: ScriptedEndpoint, tmp_path: Path, words: Path) -> None:
    folder = tmp_path / "p\n\u202e Nothing is sent\u3164"
    folder.mkdir()
    inside = small_program.write(folder)
    odd = inside.rename(inside.parent / "odd\n\u2800name")
    async with at(odd, "llm") as editor:
        editor.chosen.append(NOT_NOW)
        await stitched(editor)
        (asked,) = editor.asked
        assert asked.message.startswith("stitchcuda: odd\\n\\u2800name: Send 3 files")


async def test_what_changes_while_the_question_is_open_was_not_agreed_to(
    endpoint: ScriptedEndpoint, program: Path, tmp_path: Path
) -> None:
    executed = tmp_path / "executed"
    with_commands(program, f"env >{executed}.first", "")
    async with at(program, "llm") as editor:
        job = await begun(editor)
        await until(lambda: editor.asked or None)
        editor.chosen.append(ALLOW)
        await until(lambda: len(editor.asked) == 2 or None)
        with_commands(program, f"env >{executed}.second", "")
        (program / "more.cuh").write_text("int more;\n")
        (program / "main.cu").write_text('#include "more.cuh"\n' + small_program.MAIN, encoding="utf-8")
        editor.chosen.append(ALLOW)
        await job_ended(editor, job)
        assert "Nothing was sent or executed" in await said(editor, f"{executed}.second")
    assert not endpoint.all_requests and list(tmp_path.glob("executed*")) == []


async def test_the_rules_by_now_ask_no_model(endpoint: ScriptedEndpoint, program: Path, words: Path) -> None:
    async with at(program, "both") as editor:
        job = await begun(editor)
        await until(lambda: editor.asked or None)
        settings = {"diagnosticsDelay": 0, "proposer": "rules"}
        editor.client._configuration[""] = {"stitchcuda": settings}
        editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings=None))
        await asyncio.sleep(0.3)
        editor.chosen.append(ALLOW)
        await job_ended(editor, job)
        assert await said(editor, RULES_ALONE)
    assert not endpoint.all_requests and json.loads(words.read_text()) == ["stitch", str(program), *JSON]


async def test_the_key_is_kept_nowhere(endpoint: ScriptedEndpoint, program: Path, tmp_path: Path) -> None:
    """Nor what the server logs at its most talkative, nor what it tells the client."""
    log = tmp_path / "log"
    command = ("/bin/sh", "-c", f'exec "$0" "$@" 2>>{log}', *FAKE, "--debug", "--tool", TOOL)
    received: list[Any] = []
    for given in ("argument", "environment"):
        with pytest.MonkeyPatch.context() as patch:
            if given == "environment":  # as the extension for VS Code passes it
                patch.setenv("STITCHCUDA_LLM_KEY", KEY)
            settings = {"diagnosticsDelay": 0, "trusted": True, "proposer": "both"}
            async with editor_session("visual_studio_code", command, settings, program) as editor:
                listen_to(editor, received)
                editor.open((program / "main.cu").as_uri(), small_program.MAIN)
                editor.chosen.append(ALLOW)
                await stitched(editor, "", *([KEY] if given == "argument" else []))
                await editor.command("stitchcuda.status")
        assert endpoint.requests and {r.key for r in endpoint.requests} == {KEY}
        assert KEY not in "\n".join(r.text for r in endpoint.requests)
    assert received and log.exists()
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.name == "model.jsonl" for file in kept)
    assert [f for f in kept if KEY.encode() in f.read_bytes()] == []
    assert not any(KEY in repr(message) for message in received)
