"""The server reads one message of each kind before the first one comes, and nobody is told of it."""

from __future__ import annotations

import logging

import pytest
from lsprotocol import types as t
from stitchcuda.server import convert, lsp, warming
from stitchcuda.server.warming import MESSAGES

SELDOM = {t.CODE_ACTION_RESOLVE, t.TEXT_DOCUMENT_DID_CLOSE}


class Server(lsp.StitchServer):
    client_capabilities = t.ClientCapabilities(
        text_document=t.TextDocumentClientCapabilities(
            publish_diagnostics=t.PublishDiagnosticsClientCapabilities(related_information=True)
        )
    )


def test_every_kind_of_message_about_a_text_is_among_them() -> None:
    offered = {f.method for f in lsp.FEATURES if f.method.startswith("textDocument/")}
    assert offered - SELDOM == MESSAGES.keys() - {t.WORKSPACE_EXECUTE_COMMAND}


@pytest.mark.asyncio
async def test_all_steps_work_and_tell_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("1")
    told: list[object] = []
    monkeypatch.setattr(server.protocol, "_write", told.append)
    made: list[str] = []
    one = warming._told
    monkeypatch.setattr(warming, "_told", lambda ls: made.extend(one(ls)))
    caplog.clear()
    with caplog.at_level(logging.INFO):
        await warming.warm_up(server)
    assert not caplog.records and not told and not server.documents.all()
    assert len(made) == 1 and "relatedInformation" in made[0] and "codeDescription" in made[0]


@pytest.mark.asyncio
async def test_a_step_that_fails_is_left_to_who_needs_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("text of a program")

    monkeypatch.setattr(convert, "diagnostics", broken)
    server = Server("1")
    caplog.clear()
    with caplog.at_level(logging.INFO):
        await warming.warm_up(server)
    assert [record.getMessage() for record in caplog.records] == ["a step of the warm-up failed: RuntimeError"]
