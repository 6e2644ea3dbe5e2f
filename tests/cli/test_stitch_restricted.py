"""`stitch --only` and `--within`: one rewrite at a time, with the real rules and their proof."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stitchcuda.agent.transform_names import NAMED
from stitchcuda.server.cli.dispatch import main

from tests.server import small_program

WAIT = " cudaDeviceSynchronize();"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return small_program.write(tmp_path)


def stitched(program: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["stitch", str(program), "--no-run", "--format", "json", "--progress", "none", *words]) == 0
    value: dict[str, object] = json.loads(capsys.readouterr().out)
    return value


def texts_after(program: Path, tmp_path: Path, *words: str) -> dict[str, str]:
    out = tmp_path / "-".join(w.strip("-") for w in words)
    assert main(["stitch", str(program), "--no-run", "--progress", "none", "--out", str(out), *words]) == 0
    return {file.name: file.read_text(encoding="utf-8") for file in out.glob("*.cu")}


def test_only_one_transform_in_one_function(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = {name: small_program.FILES[name].replace(WAIT, "") for name in ("main.cu", "smooth.cu")}
    one = ["--only", "remove-wait"]
    assert texts_after(program, tmp_path, *one, "--within", "smooth") == {"smooth.cu": both["smooth.cu"]}
    assert texts_after(program, tmp_path, *one, "--within", "main") == {"main.cu": both["main.cu"]}
    assert texts_after(program, tmp_path, *one, "--within", "main", "--within", "smooth") == both
    assert texts_after(program, tmp_path, *one) == both


def test_what_stays_is_told(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (program / "main.cu").write_text(
        small_program.MAIN.replace("cudaMemcpy(host, x,", "cudaMemcpyAsync(host, x,").replace(
            "    return", "    cudaDeviceSynchronize();\n    return"
        ),
        encoding="utf-8",
    )
    refused = stitched(program, capsys, "--only", "remove-wait")["refused"]
    assert isinstance(refused, list) and [(Path(r["path"]).name, r["line"]) for r in refused] == [("main.cu", 18)]
    (program / "smooth.cu").write_text(small_program.SMOOTH.replace(WAIT, ""), encoding="utf-8")
    # what keeps a wait may stand in another function than the wait
    assert stitched(program, capsys, "--only", "remove-wait", "--within", "smooth")["refused"] == refused
    nothing = stitched(program, capsys, "--only", "keep-resident", "--only", "hoist-allocation")
    assert (nothing["outcome"], nothing["units"]) == ("no_safe_change", [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "nope"], "invalid choice: 'nope'"),
        (["--within", "nope"], "--within nope: no source of the program mentions a function of that name"),
        (["--only", "remove-wait", "--intent", "latency under 8 ms, keep all syncs"], "the contract forbids it"),
        (["--only", "remove-wait", "--proposer", "both"], "--only and --within are for the rules"),
    ],
)
def test_what_cannot_be_is_2(
    program: Path, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stitch", str(program), "--no-run", *words]) == 2
    assert message in capsys.readouterr().err


def test_help_tells_each_rewrite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stitch", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(f"{named.id} ({named.title})" in said.replace("- ", "-") for named in NAMED)
