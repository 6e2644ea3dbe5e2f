"""The command line on the same engine, as CI and editors start it. Formats, schemas, baselines and hooks in detail: tests/cli."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from stitchcuda.server.cli.dispatch import version

from tests.server.test_session import RACE


def stitchcuda(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stitchcuda.server.cli", *words],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a23_check_in_each_format_with_a_baseline_and_its_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "race.cu").write_text(RACE, encoding="utf-8")
    (tmp_path / "clean.cu").write_text(RACE.replace("0, b>>>", "0, a>>>"), encoding="utf-8")
    found = stitchcuda(tmp_path, "check", "race.cu", "--format", "json")
    assert found.returncode == 1
    assert [f["code"] for f in json.loads(found.stdout)["findings"]] == ["stream-race-raw"]
    assert stitchcuda(tmp_path, "check", "clean.cu").returncode == 0
    missing = stitchcuda(tmp_path, "check", "missing.cu")
    assert missing.returncode == 2 and "missing.cu" in missing.stderr
    github = stitchcuda(tmp_path, "check", "race.cu", "--format", "github")
    assert github.stdout.startswith("::error file=race.cu,line=17,")

    kept = stitchcuda(tmp_path, "check", "race.cu", "--baseline", "known.json", "--update-baseline")
    assert kept.returncode == 0
    known = stitchcuda(tmp_path, "check", "race.cu", "--baseline", "known.json", "--format", "sarif")
    assert known.returncode == 0
    run = json.loads(known.stdout)["runs"][0]
    (result,) = run["results"]
    assert result["suppressions"][0]["kind"] == "external" and result["partialFingerprints"]
    assert json.loads(known.stdout)["version"] == "2.1.0"


def test_a23_the_server_says_its_version_and_refuses_two_transports(tmp_path: Path) -> None:
    said = stitchcuda(tmp_path, "lsp", "--version")
    assert (said.returncode, said.stdout) == (0, f"stitchcuda {version()}\n")
    assert stitchcuda(tmp_path, "--version").stdout == said.stdout
    for wrong in (("--stdio", "--tcp", "0"), ("--tcp", "70000"), ("--tcp", "x")):
        refused = stitchcuda(tmp_path, "lsp", *wrong)
        assert refused.returncode == 2 and "Traceback" not in refused.stderr
