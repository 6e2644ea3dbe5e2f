"""Without GPU, compiler, network and key: findings all the same, and the reasons where they are asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from stitchcuda.server.cli.dispatch import main

from tests.server.client import FAKE, REAL, editor_session
from tests.server.test_program_jobs import RANGE
from tests.server.test_session import RACE, diagnostics


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any of it: no toolkit on the path or in its usual places, no driver, no endpoint."""
    for name in ("CUDA_HOME", "CUDA_PATH", "STITCHCUDA_LLM_URL", "STITCHCUDA_LLM_KEY", "STITCHCUDA_LLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.asyncio
@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
async def test_a22_findings_need_nothing_and_reasons_are_not_pushed_on_anybody(client: str, nothing: Path) -> None:
    from stitchcuda.gpu_validate.capabilities import device_facts

    here = device_facts()  # what usual places have all the same, such as wheels of this environment
    uri = (nothing / "race.cu").as_uri()
    async with editor_session(client, REAL, {"diagnosticsDelay": 0, "trusted": True}, nothing) as editor:
        editor.open(uri, RACE)
        await diagnostics(editor, uri, ["stream-race-raw"])
        for _ in range(500):
            status = await editor.command("stitchcuda.status")
            if status["unavailable"] or {"nvcc", "gpu"} <= set(here):
                break
            await asyncio.sleep(0.02)
        if "gpu" not in here:
            assert "no GPU" in status["unavailable"]["validate"]
            assert "stitchcuda doctor says more" in status["unavailable"]["validate"]
            titles = {str(a.kind): a for a in await editor.actions(uri, RANGE, ["refactor", "source.stitchcuda"])}
            stitch = titles["refactor.rewrite.stitchcuda.stitch"]
            assert stitch.title.endswith("(preview, not run)") and stitch.disabled is None
            validate = titles.get("source.stitchcuda.validate")
            assert validate is None or (validate.disabled is not None and "no GPU" in validate.disabled.reason)
        assert not editor.messages, "nobody is told what they did not ask for"


@pytest.mark.asyncio
async def test_a9_why_no_model_is_asked_is_in_the_status(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for trusted, url, reason in (
        (False, "http://localhost:1/v1", "not trusted, so nothing of it is sent"),
        (True, "", "STITCHCUDA_LLM_URL names an OpenAI-compatible endpoint"),
        (True, "http://localhost:1/v1", ""),
    ):
        monkeypatch.setenv("STITCHCUDA_LLM_URL", url)
        async with editor_session("neovim", FAKE, {"trusted": trusted, "proposer": "both"}, nothing) as editor:
            told = (await editor.command("stitchcuda.status"))["unavailable"].get("model", "")
            assert (reason in told) if reason else told == ""


def test_a22_doctor_tells_what_each_missing_part_costs(nothing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    missing = [line for line in said.splitlines() if line.startswith("missing")]
    assert [line for line in missing if line.split()[1] == "endpoint"]
    assert all(line.partition(" needed for ")[2] for line in missing)
    assert "need none of these" in " ".join(said.split())


def test_a22_a_model_without_an_endpoint_says_how_to_get_one(nothing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (nothing / "a.cu").write_text(RACE, encoding="utf-8")
    assert main(["stitch", str(nothing / "a.cu"), "--proposer", "llm"]) == 2
    assert "STITCHCUDA_LLM_URL names an OpenAI-compatible endpoint" in capsys.readouterr().err
