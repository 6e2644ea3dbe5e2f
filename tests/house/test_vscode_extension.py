"""The VS Code extension's manifest agrees with its source and with the package, and the extension builds where node is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.server.settings import Settings

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors" / "vscode"
MANIFEST: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((EXTENSION / "src").glob("*.ts")))

STEPS = [step for walkthrough in MANIFEST["contributes"]["walkthroughs"] for step in walkthrough["steps"]]


def test_version_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert MANIFEST["version"] == project["version"]


def test_every_command_is_registered() -> None:
    offered = {command["command"] for command in MANIFEST["contributes"]["commands"]}
    registered = set(re.findall(r'registerCommand\("([^"]+)"', SOURCE))
    assert offered == registered
    contributes = MANIFEST["contributes"]
    entries = [entry for entries in contributes["menus"].values() for entry in entries]
    assert {entry["command"] for entry in entries if "command" in entry} <= offered
    named = {name for step in STEPS for name in re.findall(r"command:(stitchcuda\.\w+)", step["description"])}
    assert named and named <= offered
    assert all((EXTENSION / step["media"]["markdown"]).is_file() for step in STEPS)


def test_it_starts_for_the_languages_that_the_client_serves() -> None:
    languages = re.search(r"const LANGUAGES = \[(.+?)\]", SOURCE)
    assert languages is not None
    expected = [f"onLanguage:{name}" for name in re.findall(r'"([^"]+)"', languages[1])]
    views = [f"onWebviewPanel:{name}" for name in re.findall(r'const TYPE = "([^"]+)"', SOURCE)]
    assert len(views) == 1
    assert MANIFEST["activationEvents"] == [*expected, *views, "workspaceContains:**/stitchcuda.toml"]
    extensions = {name for language in MANIFEST["contributes"]["languages"] for name in language["extensions"]}
    assert extensions == {".cu", ".cuh"}


def test_every_setting_read_is_declared() -> None:
    declared = set(MANIFEST["contributes"]["configuration"]["properties"])
    assert {
        f"stitchcuda.{name}" for name in re.findall(r'getConfiguration\("stitchcuda"\)\.get\("([^"]+)"', SOURCE)
    } <= declared
    assert set(re.findall(r'affectsConfiguration\("([^"]+)"', SOURCE)) <= declared


def test_the_servers_settings_are_declared_with_their_defaults() -> None:
    properties = MANIFEST["contributes"]["configuration"]["properties"]
    client_only = {"stitchcuda.server.path", "stitchcuda.server.python", "stitchcuda.trace.server"}
    declared = {name: value["default"] for name, value in properties.items() if name not in client_only}
    assert declared == {f"stitchcuda.{name}": _plain(value) for name, value in asdict(Settings()).items()}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def test_an_untrusted_workspace_cannot_name_the_program_that_is_started() -> None:
    trust = MANIFEST["capabilities"]["untrustedWorkspaces"]
    assert trust["supported"] == "limited"
    assert "stitchcuda.server.path" in trust["restrictedConfigurations"]
    assert "vscode.workspace.isTrusted" in SOURCE


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((EXTENSION / "package-lock.json").read_text(encoding="utf-8"))
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]
    assert lock["version"] == MANIFEST["version"]
    root = lock["packages"][""]
    assert root["dependencies"] == MANIFEST["dependencies"] and root["devDependencies"] == MANIFEST["devDependencies"]


@pytest.mark.editor
def test_it_builds(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here")
    if not (EXTENSION / "node_modules").is_dir():
        pytest.skip("editors/vscode/node_modules is missing; npm ci in that folder makes it")
    built = subprocess.run(
        [npm, "run", "--silent", "package"], check=False, cwd=EXTENSION, capture_output=True, text=True, timeout=300
    )
    assert built.returncode == 0, built.stdout + built.stderr
    with zipfile.ZipFile(EXTENSION / "stitchcuda.vsix") as package:
        names = set(package.namelist())
    assert {"extension/package.json", "extension/dist/extension.js", "extension/LICENSE.txt"} <= names
    wheel = f"extension/wheel/stitchcuda-{MANIFEST['version']}-py3-none-any.whl"
    assert [name for name in names if name.endswith(".whl")] == [wheel]
    assert {f"extension/{step['media']['markdown']}" for step in STEPS} <= names
    assert not [name for name in names if "node_modules" in name or "/src/" in name]
