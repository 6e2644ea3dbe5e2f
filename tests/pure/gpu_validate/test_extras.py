from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest
from stitchcuda.agent.model.connection import MISSING
from stitchcuda.gpu_validate.extras import how_to_install


class Installed:
    def __init__(self, said: str | None) -> None:
        self.said = said

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.said


@pytest.mark.parametrize(
    ("editable", "own", "command"),
    [
        (True, True, ".venv/bin/pip install -e '.[llm]' in the checkout of stitchcuda"),
        (False, True, ".venv/bin/pip install '.[llm]' in the checkout of stitchcuda"),
        (True, False, "pip install -e '.[llm]' in the checkout of stitchcuda"),
    ],
)
def test_from_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editable: bool, own: bool, command: str
) -> None:
    checkout = tmp_path / "a folder"
    checkout.mkdir()
    (checkout / "pyproject.toml").touch()
    value = {"url": checkout.as_uri(), "dir_info": {"editable": True} if editable else {}}
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(json.dumps(value)))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "prefix", str(checkout / ".venv" if own else tmp_path / "venv"))
    assert how_to_install("llm") == command


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        "broken",
        "[]",
        '{"url": "https://a.invalid/b.whl", "archive_info": {}}',
        '{"url": "file:///nowhere", "dir_info": {}}',
    ],
)
def test_from_a_package(monkeypatch: pytest.MonkeyPatch, said: str | None) -> None:
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(said))
    assert how_to_install("gpu") == "pip install 'stitchcuda[gpu]'"


def test_the_message_about_the_model_says_it() -> None:
    assert MISSING == f"the language model needs the openai library: {how_to_install('llm')}"
