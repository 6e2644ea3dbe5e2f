from __future__ import annotations

from pathlib import Path

import pytest

from tests.llm.scenario import Stage


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)
