"""The server's promises towards its client, with an engine that does what the test wants."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException

from tests.server.client import FAKE, Editor, editor_session, until

URI = "file:///project/a.cu"
TEXT = "// 😀 text\nvoid f() { /* 😀 */ hazard(x); k<<<1, 2>>>(x); }\n"
NOW = {"diagnosticsDelay": 0}

pytestmark = pytest.mark.asyncio


async def diagnostics(editor: Editor, uri: str, count: int) -> list[t.Diagnostic]:
    """The diagnostics through the channel that the client has."""
    if editor.pulls:
        found = await editor.pull(uri)
        assert len(found) == count
        assert not [p for p in editor.pushed if p.diagnostics], "a finding came through both channels"
        return found
    return await editor.pushed_for(uri, lambda items: len(items) == count)


@pytest.mark.parametrize("name", ["neovim", "visual_studio_code", "vscode", "bare"])
async def test_finding_fix_undo_close(name: str) -> None:
    async with editor_session(name, options=NOW) as editor:
        editor.open(URI, TEXT)
        (found,) = await diagnostics(editor, URI, 1)
        assert editor.at(URI, found.range) == "hazard(x)"
        assert (found.source, found.code, found.severity) == ("stitchcuda", "stream-race-raw", 1)
        if name != "bare":
            assert found.related_information and found.related_information[0].location.uri == URI

        actions = await editor.actions(URI, found.range, ["quickfix"])
        assert [a.title for a in actions] == ["Make it safe", "Remove it", "Suppress stream-race-raw on this line"]
        assert [bool(a.is_preferred) for a in actions] == [name != "bare", False, False]
        assert all(a.diagnostics and a.diagnostics[0].code == "stream-race-raw" for a in actions)
        action = actions[0]
        if name == "bare":
            assert action.edit is not None
        else:
            assert action.edit is None
            action = await editor.client.code_action_resolve_async(action)
        assert action.edit is not None
        assert bool(action.edit.document_changes) == (name != "bare")
        editor.apply(action.edit)
        assert "/* 😀 */ safe(x);" in editor.texts[URI]
        await diagnostics(editor, URI, 0)

        editor.replace(URI, TEXT)
        await diagnostics(editor, URI, 1)
        editor.close(URI)
        if not editor.pulls:
            await until(lambda: not editor.pushed[-1].diagnostics and editor.pushed[-1].version is None)


async def test_suppress_puts_a_comment_at_the_end_of_the_line() -> None:
    async with editor_session(options=NOW) as editor:
        editor.open(URI, TEXT)
        (found,) = await diagnostics(editor, URI, 1)
        action = (await editor.actions(URI, found.range))[2]
        resolved = await editor.client.code_action_resolve_async(action)
        assert resolved.edit is not None
        editor.apply(resolved.edit)
        assert editor.texts[URI].split("\n")[1].endswith("}  // stitchcuda: ignore[stream-race-raw]")


async def test_only_is_a_prefix_and_actions_that_cannot_run_say_why() -> None:
    async with editor_session(options=NOW) as editor:
        editor.open(URI, TEXT)
        (found,) = await diagnostics(editor, URI, 1)
        for only in (["refactor"], ["refactor.rewrite.stitchcuda"], ["refactor.rewrite.stitchcuda.stitch"]):
            offered = await editor.actions(URI, found.range, only)
            assert all(str(a.kind).startswith("refactor.rewrite.stitchcuda.") for a in offered)
            (stitch,) = [a for a in offered if str(a.kind).endswith(".stitch")]
            assert stitch.title == "Stitch end-to-end (preview, not run)" and stitch.edit is None
            assert stitch.command is not None and list(stitch.command.arguments or ()) == [URI]
        (validate,) = await editor.actions(URI, found.range, ["source.stitchcuda"])
        assert validate.disabled is not None and "not trusted" in validate.disabled.reason
        assert await editor.actions(URI, found.range, ["refactor.rewrite.stitch"]) == []
        assert await editor.actions(URI, found.range, ["source.fixAll.other"]) == []
        sources = [str(a.kind) for a in await editor.actions(URI, found.range, ["source"])]
        assert sources == ["source.fixAll.stitchcuda", "source.stitchcuda.validate"]
        far = t.Range(start=t.Position(line=0, character=0), end=t.Position(line=0, character=0))
        assert await editor.actions(URI, far, ["quickfix"]) == []
    async with editor_session("bare") as editor:
        editor.open(URI, TEXT)
        assert [a.title for a in await editor.actions(URI, far, ["refactor", "source.stitchcuda"])] == [stitch.title]


async def test_a_fix_of_an_older_text_is_not_applied() -> None:
    async with editor_session(options=NOW) as editor:
        editor.open(URI, TEXT)
        (found,) = await diagnostics(editor, URI, 1)
        action = (await editor.actions(URI, found.range))[0]
        editor.edit(
            URI, t.Range(start=t.Position(line=0, character=0), end=t.Position(line=0, character=0)), "int y;\n\n"
        )
        resolved = await editor.client.code_action_resolve_async(action)
        assert resolved.edit is not None
        editor.apply(resolved.edit)
        assert "/* 😀 */ safe(x);" in editor.texts[URI]
        with pytest.raises(JsonRpcException) as caught:
            await editor.client.code_action_resolve_async(action)
        assert caught.value.code == t.LSPErrorCodes.ContentModified


async def test_findings_move_with_the_text_before_the_next_analysis() -> None:
    async with editor_session(options={"diagnosticsDelay": 60000}) as editor:
        editor.open(URI, TEXT)
        await diagnostics(editor, URI, 1)
        editor.edit(
            URI, t.Range(start=t.Position(line=0, character=0), end=t.Position(line=0, character=0)), "int y;\n\n"
        )
        whole = t.Range(start=t.Position(line=0, character=0), end=t.Position(line=9, character=0))
        action = (await editor.actions(URI, whole, ["quickfix"]))[0]
        assert action.diagnostics is not None
        assert editor.at(URI, action.diagnostics[0].range) == "hazard(x)"
        assert editor.pushed[-1].version == 1


async def test_hover_lens_symbols() -> None:
    async with editor_session(options=NOW) as editor:
        editor.open(URI, TEXT)
        await diagnostics(editor, URI, 1)
        identifier = t.TextDocumentIdentifier(uri=URI)
        at = editor.find(URI, "<<<1")
        shown = await editor.client.text_document_hover_async(t.HoverParams(text_document=identifier, position=at))
        assert shown is not None and isinstance(shown.contents, t.MarkupContent) and shown.range is not None
        assert editor.at(URI, shown.range) == "k<<<1, 2>>>(x)"
        assert "grid `1`, block `2`" in shown.contents.value and "the default stream" in shown.contents.value
        nowhere = t.HoverParams(text_document=identifier, position=t.Position(line=0, character=0))
        assert await editor.client.text_document_hover_async(nowhere) is None

        lenses = await editor.client.text_document_code_lens_async(t.CodeLensParams(text_document=identifier))
        assert [lens.command.title for lens in lenses or [] if lens.command] == [
            "1 kernel, 1 stream, 0 copies",
            "Stitch",
            "Show graph",
        ]
        symbols = await editor.client.text_document_document_symbol_async(
            t.DocumentSymbolParams(text_document=identifier)
        )
        (function,) = symbols or []
        assert isinstance(function, t.DocumentSymbol) and function.children
        assert (function.name, [c.name for c in function.children]) == ("f", ["k"])


async def test_other_files_are_left_alone() -> None:
    async with editor_session(options=NOW) as editor:
        editor.open("file:///project/b.cpp", "void f() { hazard(x); }\n", "cpp")
        editor.open("file:///project/c.py", "hazard(x)\n", "python")
        editor.open("file:///project/d.cpp", "#include <cuda_runtime.h>\nvoid f() { hazard(x); }\n", "cpp")
        editor.open("untitled:Untitled-1", "hazard(x)\n", "cuda-cpp")
        await diagnostics(editor, "file:///project/d.cpp", 1)
        await diagnostics(editor, "untitled:Untitled-1", 1)
        assert {p.uri for p in editor.pushed} == {"file:///project/d.cpp", "untitled:Untitled-1"}
        editor.replace("file:///project/d.cpp", "void f() { hazard(x); }\n")
        await until(lambda: editor.pushed[-1].uri.endswith("d.cpp") and not editor.pushed[-1].diagnostics)


async def test_settings() -> None:
    wrong = {"diagnosticsDelay": "soon", "colour": 1, "confidence": "certain"}
    async with editor_session(configuration=wrong, options=NOW) as editor:
        message = await until(lambda: editor.client.messages[0] if editor.client.messages else None)
        assert "'diagnosticsDelay' must be a number of milliseconds from 0 to 60000, not 'soon'" in message.message
        assert "unknown setting 'colour'" in message.message
        editor.open(URI, "void f() { hazard(x); hazard(maybe); }\n")
        await diagnostics(editor, URI, 1)
        steps: tuple[tuple[dict[str, Any] | None, int], ...] = (
            ({"confidence": "possible"}, 2),
            ({"ignore": ["stream-race-raw"]}, 0),
            (None, 1),
            ({"select": ["leak"]}, 0),
            ({"confidence": "possible", "select": ["correctness"]}, 2),
            ({"severity": {"stream-race-raw": "hint"}}, 1),
            ({"severity": {"stream-race-raw": "off"}}, 0),
        )
        for setting, count in steps:
            editor.client._configuration[""] = {"stitchcuda": setting}
            editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings=None))
            found = await diagnostics(editor, URI, count)
            if setting and "severity" in setting and found:
                assert {d.severity for d in found} == {t.DiagnosticSeverity.Hint}
        assert len(editor.client.messages) == 1


async def test_null_settings_are_fine() -> None:
    async with editor_session(configuration=None) as editor:
        editor.client.set_configuration(None)
        editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings=None))
        editor.open(URI, TEXT)
        await diagnostics(editor, URI, 1)
        assert not editor.client.messages


async def test_settings_in_the_notification() -> None:
    async with editor_session("bare", options=NOW) as editor:
        editor.open(URI, TEXT)
        await diagnostics(editor, URI, 1)
        both: tuple[dict[str, Any], ...] = ({"stitchcuda": {"select": ["leak"]}}, {"select": []})
        for settings in both:
            editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings=settings))
            await diagnostics(editor, URI, 0 if "stitchcuda" in settings else 1)


async def test_a_slow_analysis_gives_way_to_the_next_edit() -> None:
    async with editor_session(options=NOW) as editor:
        editor.open(URI, TEXT + "// SLOW\n")
        await asyncio.sleep(0.3)
        editor.replace(URI, TEXT)
        await asyncio.wait_for(diagnostics(editor, URI, 1), 8)  # a slow analysis takes 10 s


async def test_cancel_request() -> None:
    async with editor_session("vscode", options=NOW) as editor:
        editor.open(URI, TEXT + "// SLOW\n")
        params = t.DocumentDiagnosticParams(text_document=t.TextDocumentIdentifier(uri=URI))
        request = editor.client.protocol.send_request(t.TEXT_DOCUMENT_DIAGNOSTIC, params, msg_id="slow")
        await asyncio.sleep(0.2)
        editor.client.cancel_request(t.CancelParams(id="slow"))
        with pytest.raises(JsonRpcException) as caught:
            await asyncio.wait_for(asyncio.wrap_future(request), 8)
        assert caught.value.code == t.LSPErrorCodes.RequestCancelled


async def test_an_exception_in_the_analysis_leaves_the_rest_working() -> None:
    async with editor_session("vscode", options=NOW) as editor:
        editor.open(URI, TEXT + "// RAISE\n")
        await diagnostics(editor, URI, 0)
        status = await editor.command("stitchcuda.status")
        assert "RuntimeError at fake_engine.py" in str(status) and "secret" not in str(status)
        editor.replace(URI, TEXT)
        await diagnostics(editor, URI, 1)
        assert not editor.client.messages


async def test_a_crash_of_the_analysis_process_is_survived() -> None:
    async with editor_session("vscode", options=NOW) as editor:
        editor.open(URI, TEXT + "// CRASH\n")
        await diagnostics(editor, URI, 0)
        editor.replace(URI, TEXT)
        await diagnostics(editor, URI, 1)
        assert (await editor.command("stitchcuda.status"))["analysis"]["restarts"] >= 1
        assert not editor.client.messages


async def test_a_file_that_ends_the_process_costs_no_other_its_findings() -> None:
    others = [f"file:///project/{name}.cu" for name in "bcd"]
    async with editor_session("vscode", options=NOW) as editor:
        editor.open(URI, TEXT + "// CRASH\n")
        for uri in others:
            editor.open(uri, TEXT)
        for uri in others:
            await diagnostics(editor, uri, 1)
        await diagnostics(editor, URI, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it takes minutes until a process is given up")
async def test_an_analysis_that_never_ends_costs_no_other_its_findings() -> None:
    """That of the fake waits for nothing; one that runs for ever is looked at in test_stuck."""
    other = "file:///project/b.cu"
    async with editor_session("vscode", (*FAKE, "--patience", "6"), NOW) as editor:
        editor.open(URI, TEXT + "// STUCK\n")
        editor.open(other, TEXT)
        await diagnostics(editor, other, 1)
        await diagnostics(editor, URI, 0)
        editor.replace(URI, TEXT)
        await diagnostics(editor, URI, 1)


@pytest.mark.parametrize("name", ["neovim", "vscode"])
async def test_two_uris_of_one_file(name: str) -> None:
    """What is found is told of the one that was opened last, and of the other one when that is closed; nobody waits for ever."""
    one, two = "file:///project/a%2Bb.cu", "file:///project/a+b.cu"
    async with editor_session(name, options=NOW) as editor:
        editor.open(one, TEXT)
        await diagnostics(editor, one, 1)
        editor.open(two, TEXT)
        await diagnostics(editor, two, 1)
        await diagnostics(editor, one, 0)
        editor.replace(one, TEXT + "\n")
        place = t.TextDocumentIdentifier(uri=one)
        hover = t.HoverParams(text_document=place, position=editor.find(one, "k<<<"))
        assert await asyncio.wait_for(editor.client.text_document_hover_async(hover), 10) is None
        assert await editor.shown(one) == []
        editor.close(two)
        await diagnostics(editor, one, 1)


async def test_an_analysis_process_that_does_not_start_is_given_up() -> None:
    async with editor_session("vscode", command=(*FAKE, "--no-analysis"), options=NOW) as editor:
        editor.open(URI, TEXT)
        await diagnostics(editor, URI, 0)
        for _ in range(100):
            if (await editor.command("stitchcuda.status"))["analysis"]["unusable"]:
                break
            await asyncio.sleep(0.1)
        else:
            pytest.fail("it is started for ever")
        editor.replace(URI, TEXT + "\n")
        assert (await editor.command("stitchcuda.status"))["analysis"]["running"] == 0
        with pytest.raises(JsonRpcException, match="does not start"):
            await editor.command("stitchcuda.graphText", URI)
        assert [m for m in editor.messages if "the analysis does not start" in m][1:] == [], "told once"
        assert [m for m in editor.messages if "the analysis does not start" in m]


async def test_closing_a_file_takes_its_unsaved_text_back(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("// nothing\n", encoding="utf-8")
    (tmp_path / "b.cu").write_text("// nothing\n", encoding="utf-8")
    first, second = ((tmp_path / name).as_uri() for name in ("a.cu", "b.cu"))
    async with editor_session("vscode", options=NOW, root=tmp_path) as editor:
        editor.open(first, "hazard(x)\n")
        editor.open(second, "hazard(x)\n")
        await diagnostics(editor, first, 1)
        await diagnostics(editor, second, 1)
        editor.close(second)
        editor.open(second, "// nothing\n")
        await diagnostics(editor, second, 0)
        await diagnostics(editor, first, 1)


async def test_misfits_are_ignored_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    async with editor_session(options=NOW) as editor:
        editor.open(URI, TEXT)
        await diagnostics(editor, URI, 1)
        protocol = editor.client.protocol
        editor.versions[URI] = -5
        editor.replace(URI, "lower version")
        editor.versions[URI] = 1
        editor.versions["file:///unknown.cu"] = 1
        editor.replace("file:///unknown.cu", "x")
        editor.close("file:///unknown.cu")
        editor.send({"method": "textDocument/didChange", "params": {"nonsense": 1}})
        editor.send({"method": "textDocument/didOpen"})
        editor.send({"method": "stitchcuda/unknown", "params": {}})
        editor.send_raw(b"Content-Length: 3\r\n\r\n{x}Content-Length: x\r\n\r\nContent-Length: 2\r\n\r\n[]")
        answer: Future[Any] = Future()
        protocol._request_futures["bad"] = answer
        editor.send({"id": "bad", "method": "textDocument/hover", "params": {"textDocument": 3}})
        with pytest.raises(JsonRpcException) as caught:
            await asyncio.wait_for(asyncio.wrap_future(answer), 5)
        assert caught.value.code == t.ErrorCodes.InvalidParams
        for command, arguments in (("stitchcuda.cancel", []), ("stitchcuda.graphText", [1]), ("nope", [])):
            with pytest.raises(JsonRpcException) as caught:
                await editor.command(command, *arguments)
            assert caught.value.code == t.ErrorCodes.InvalidParams
        assert await editor.command("stitchcuda.cancel", "no such job") is False
        editor.replace(URI, "void f() {}\n")
        await diagnostics(editor, URI, 0)
        assert not editor.client.messages
    assert "Traceback" not in capfd.readouterr().err


def big_program(folder: Path) -> str:
    """A folder with more than is read at once; returns the URI of its first file."""
    for n in range(8):
        (folder / f"part{n}.cu").write_text(f"void f{n}() {{}}\n" + "// filler\n" * 8000, encoding="utf-8")
    (folder / "a.cu").write_text(TEXT, encoding="utf-8")
    return (folder / "a.cu").as_uri()


@pytest.mark.parametrize("name", ["visual_studio_code", "vscode", "neovim", "bare"])
async def test_indexing_shows_progress(name: str, tmp_path: Path) -> None:
    uri = big_program(tmp_path)
    async with editor_session(name, options=NOW, root=tmp_path) as editor:
        editor.open(uri, TEXT)
        await diagnostics(editor, uri, 1)
        if name == "bare":
            said = await until(lambda: [m.message for m in editor.client.log_messages][1:] or None)
            assert said == [f"Indexing {tmp_path.name}: done"]
            assert not editor.client.progress_reports
            return
        reports = await until(lambda: next(iter(editor.client.progress_reports.values()), None))
        await until(lambda: isinstance(reports[-1], t.WorkDoneProgressEnd) if reports else None)
        assert isinstance(reports[0], t.WorkDoneProgressBegin) and reports[0].cancellable
        steps = [r.percentage for r in reports[1:-1] if isinstance(r, t.WorkDoneProgressReport)]
        assert len(steps) == len(reports) - 2 and steps == sorted(steps, key=lambda p: p or 0)
        await diagnostics(editor, uri, 1)
        (job,) = (await editor.command("stitchcuda.status"))["jobs"]
        assert job["state"] == "done"


@pytest.mark.parametrize("way", ["command", "progress"])
async def test_indexing_can_be_cancelled(way: str, tmp_path: Path) -> None:
    uri = big_program(tmp_path)
    (tmp_path / "part0.cu").write_text("// SLOW\n" * 20000, encoding="utf-8")
    async with editor_session(options=NOW, root=tmp_path) as editor:
        editor.open(uri, TEXT)
        await diagnostics(editor, uri, 1)
        token, reports = await until(lambda: next(iter(editor.client.progress_reports.items()), None))
        await until(lambda: len(reports) > 1 or None)
        if way == "command":
            (job,) = (await editor.command("stitchcuda.status"))["jobs"]
            assert await editor.command("stitchcuda.cancel", job["id"]) is True
        else:
            editor.client.window_work_done_progress_cancel(t.WorkDoneProgressCancelParams(token=token))
        await until(lambda: isinstance(reports[-1], t.WorkDoneProgressEnd) or None, seconds=1)
        end: object = reports[-1]
        assert isinstance(end, t.WorkDoneProgressEnd) and end.message == "cancelled"
