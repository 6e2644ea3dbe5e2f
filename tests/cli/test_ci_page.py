"""What docs/ci.md tells CI to run, run in a repository as CI has it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pre_commit.yaml import yaml_load
from stitchcuda.server.cli.dispatch import COMMANDS

from tests.cli.test_changed_since import commit, git
from tests.cli.test_check import CLEAN, RACE, put

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
WORKFLOWS: list[dict[str, Any]] = [yaml_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def commands() -> list[str]:
    (block,) = re.findall(r"<!-- ci commands -->\n```sh\n(.*?)```", PAGE, re.DOTALL)
    return [line for line in block.splitlines() if line.startswith("stitchcuda ")]


def steps() -> list[str]:
    """The lines with stitchcuda that the workflows run, GitHub's first."""
    github, gitlab = WORKFLOWS
    lines = [step.get("run", "") for step in github["jobs"]["check"]["steps"]] + gitlab["stitchcuda"]["script"]
    return [line for line in lines if line.startswith("stitchcuda ")]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hazard on the main branch, and a branch with another one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    git("init", "-q")
    put("src/old.cu", RACE)
    commit()
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    put("src/new.cu", RACE)
    commit()
    return tmp_path


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


def test_the_commands_work_one_after_the_other(repository: Path) -> None:
    done = {line.split("#")[0].strip(): shell(line) for line in commands()}
    whole, bar, changed, written, compared, sarif, gitlab = done.values()
    assert [d.returncode for d in (whole, bar, changed, written, compared, sarif, gitlab)] == [1, 1, 1, 0, 0, 1, 1]
    assert "src/old.cu" in whole.stdout and "src/new.cu" in whole.stdout
    assert "src/new.cu" in changed.stdout and "src/old.cu" not in changed.stdout
    assert compared.stdout == ""
    assert len(json.loads((repository / "stitchcuda.sarif").read_text())["runs"][0]["results"]) >= 2
    assert {e["location"]["path"] for e in json.loads((repository / "gl-code-quality-report.json").read_text())} == {
        "src/old.cu",
        "src/new.cu",
    }


def test_the_workflows_fail_at_a_hazard_and_only_after_the_upload(repository: Path) -> None:
    sarif, annotations, gitlab = steps()
    assert [shell(line).returncode for line in (sarif, annotations, gitlab)] == [0, 1, 1]
    assert shell(annotations).stdout.startswith("::error file=src/new.cu,line=12,")
    github = WORKFLOWS[0]["jobs"]["check"]["steps"]
    assert [step for step in github if step.get("with", {}).get("sarif_file") == sarif.partition("> ")[2].split()[0]]
    report = WORKFLOWS[1]["stitchcuda"]["artifacts"]["reports"]["codequality"]
    assert gitlab.endswith(f"> {report}")
    put("src/old.cu", CLEAN)
    put("src/new.cu", CLEAN)
    assert [shell(line).returncode for line in (sarif, annotations, gitlab)] == [0, 0, 0]


def test_what_could_not_be_checked_fails_the_workflow_at_once(repository: Path) -> None:
    put("stitchcuda.toml", "[check]\nselct = []\n")
    assert [shell(line).returncode for line in steps()] == [1, 2, 2]


def test_every_command_of_the_page_exists() -> None:
    named = set(re.findall(r"\bstitchcuda ([a-z]+)\b", "\n".join(re.findall(r"`[^`\n]+`|```.*?```", PAGE, re.DOTALL))))
    assert named <= {command.name for command in COMMANDS}
