"""`stitchcuda contract`: a request in, its contract out."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest
from stitchcuda.analysis.contract.types import Bound, contract_from_json
from stitchcuda.server.cli import main

REQUEST = "加速ViT图像分类推理，延迟低于8ms"


def test_json_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", REQUEST, "--format", "json"]) == 0
    contract = contract_from_json(json.loads(capsys.readouterr().out))
    assert contract.task == "ViT图像分类推理"
    assert contract.bounds == (Bound("latency", "mean", "<", 0.008, "s"),)
    assert {e.field: REQUEST[slice(*e.span)] for e in contract.evidence} == {
        "task": "ViT图像分类推理",
        "bounds[0]": "延迟低于8ms",
    }


def test_text_shows_fields_with_their_words_and_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "p99 under 8 ms on an H100, tolerance 1e-3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'bounds[0]  latency p99 < 0.008 s    "p99 under 8 ms"' in lines
    assert 'hardware   H100 sm_90    "H100"' in lines
    assert lines[-1] == "? tolerance: Is 'tolerance 1e-3' relative or absolute? (relative 0.001 | absolute 0.001)"


def test_words_that_ask_for_nothing_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "what is the weather"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "tolerance  bitwise    (unless something else is said)\n"
    assert shown.err.startswith("nothing in these words was read as a request")


def test_words_need_no_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "at", "least", "60", "fps", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["bounds"][0]["value"] == 60


def _feed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _feed(monkeypatch, REQUEST.encode())
    assert main(["contract", "-", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "ViT图像分类推理"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "the request is empty"), (b"\xff\xfe8ms", "not UTF-8"), (b"a" * 20_001, "20001 characters")],
)
def test_what_cannot_be_read_is_said(
    content: bytes, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _feed(monkeypatch, content)
    assert main(["contract", "-"]) == 2
    assert message in capsys.readouterr().err


def test_a_ratio_has_no_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "twice as fast"]) == 0
    assert re.search(r'bounds\[0\] +speedup mean >= 2 +"twice as fast"', capsys.readouterr().out)
