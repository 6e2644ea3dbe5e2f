"""docs/command-line.md and docs/check.md name exactly the fields that the commands print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.server.cli.dispatch import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
CHECK_PAGE = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")

SOURCE = """\
__global__ void scale(float *data) { data[threadIdx.x] *= 2.0f; }
int main() {
    float *device;
    cudaMalloc(&device, 1024);
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    scale<<<1, 256, 0, a>>>(device);
    scale<<<1, 256, 0, b>>>(device);
    cudaDeviceSynchronize();
    cudaFree(device);
}
"""


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def fields(title: str) -> set[str]:
    """The names in the first column of the section's table."""
    rows = re.findall(r"^\| (`.+?) \|", section(title), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def envelope(title: str) -> set[str]:
    line = re.search(r"prints `\{(.+?)\}`", section(title))
    assert line is not None
    return set(re.findall(r'"(\w+)"', line[1]))


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(arguments) in (0, 1)
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def keys(value: object) -> set[str]:
    """The names of all fields, at every depth."""
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cu").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "empty.cu").touch()
    value = printed(["check", str(tmp_path), "--format", "json"], capsys)
    assert value["findings"] and value["problems"]
    block = re.search(r"## JSON.+?```\n(.+?)```", CHECK_PAGE, re.DOTALL)
    assert block is not None
    assert keys(value) == set(re.findall(r'"(\w+)"', block[1]))


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    value = printed(["doctor", "--format", "json"], capsys)
    assert set(value) == envelope("doctor")
    assert all(set(capability) == fields("doctor") for capability in value["capabilities"])
    names = {capability["name"] for capability in value["capabilities"]}
    (row,) = re.findall(r"^\| `name` \| (.+?) \|", section("doctor"), re.MULTILINE)
    assert names == set(re.split(r", | or ", row))


def test_stitch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "a.cu").write_text(SOURCE, encoding="utf-8")
    words = ["stitch", str(tmp_path / "a.cu"), "--no-run", "--progress", "none", "--format", "json"]
    assert set(printed(words, capsys)) == envelope("stitch")


@pytest.mark.parametrize("code", ["0", "1", "2", "130", "141"])
def test_every_exit_code_has_its_row(code: str) -> None:
    assert re.search(rf"^\| {code} \| ", section("Exit codes"), re.MULTILINE)
