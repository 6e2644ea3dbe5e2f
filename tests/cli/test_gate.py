"""`stitchcuda gate`: baselines, findings, exit codes. The build and the tracer are simulated here; tests marked gpu use the real
ones."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.gpu_validate.building.model import BuildFailed, Built, Diagnostic, Resources
from stitchcuda.gpu_validate.hub import Tools
from stitchcuda.gpu_validate.processes import Ended
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, Trace
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState
from stitchcuda.server.cli import gate
from stitchcuda.server.cli.errors import CannotRun

SOURCE = "void k();\n\nint main() {\n    k(); // 20000\n}\n"


class Machine:
    """A GPU on which a program's kernel takes as many nanoseconds as its source says."""

    def __init__(self, folder: Path) -> None:
        self.place, self.tree = folder / "place", folder / "tree"
        self.device = "H200"
        self.reports: tuple[GateFinding, ...] = ()
        self.failed: BuildFailed | None = None
        self.gone = ""
        self.ended = Ended(code=0)

    def build(self, version: Any) -> Built | BuildFailed:
        self.tree.mkdir(exist_ok=True)
        (self.tree / "main.cu").write_bytes(version.read("main.cu"))
        takes = {"k(float*)": Resources(40, 0, 1024, None, "code")}
        return self.failed or Built("b", self.tree, ("main",), 0.0, place=self.place, resources=takes)

    @contextmanager
    def placed(self, built: Built) -> Iterator[Path]:
        self.place.mkdir()
        (self.place / "main.cu").write_bytes((self.tree / "main.cu").read_bytes())
        yield self.place
        (self.place / "main.cu").unlink()
        self.place.rmdir()

    def traced(self, command: Any, **options: Any) -> tuple[Ended, Trace | None]:
        lines = (self.place / "main.cu").read_text().splitlines()
        (line,) = (k for k, text in enumerate(lines, 1) if "//" in text)
        took = int(lines[line - 1].split("//")[1])
        site = CallSite(str(self.place / "main.cu"), line, "main")
        calls = tuple(Call(k, "cudaLaunchKernel", 0, 1, correlation=k + 1, sites=(site,)) for k in range(5))
        ops = tuple(DeviceOp("kernel", 0, took + k, 0, k + 1, "k") for k in range(5))
        return self.ended, Trace("full", 0, 1, 2, calls, ops, device=self.device)

    def tools(self) -> Tools:
        def memory(*_: Any, **__: Any) -> GateResult:
            return GateResult("G4", GateState.PASSED, "", {"tools": {"memcheck": {}}}, self.reports)

        return replace(
            real_tools(),
            gpu=lambda: self.gone,
            library=lambda: Path("simulated"),
            builder=lambda *_, **__: self,
            run_traced=self.traced,
            memory=memory,
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "main.cu").write_text(SOURCE)
    return Machine(tmp_path)


def run(machine: Machine, *words: str) -> int:
    parser = argparse.ArgumentParser()
    gate.add_arguments(parser)
    return gate.run_with(parser.parse_args(["program", "--progress", "none", *words]), machine.tools())


def write(text: str) -> None:
    Path("program/main.cu").write_text(text)


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_first_run_records_then_a_slower_launch_is_found_and_its_fix_clears_it(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(machine, "--format", "json") == 0
    assert printed(capsys)["state"] == "baseline_recorded"
    write("// a line more\n".replace("//", "/**/") + SOURCE.replace("20000", "24100"))
    assert run(machine, "--format", "json") == 1
    value = printed(capsys)
    (found,) = value["findings"]
    assert (value["state"], found["code"], found["path"], found["line"]) == (
        "regressed",
        "latency-regression",
        "main.cu",
        5,
    )
    assert run(machine, "--threshold", "30") == 0
    capsys.readouterr()
    write(SOURCE)
    assert run(machine) == 0
    assert capsys.readouterr().out == "1 launch or copy site measured on H200; 0 findings\n"


def test_the_page_names_the_fields(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    tables = page.split("\n## Gate\n")[1].split("\n## ")[0].split("Each site:")
    value, site = (
        {name for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
        for table in tables
    )
    run(machine, "--format", "json", "--baseline", "times.json", "--update-baseline")
    shown = printed(capsys)
    assert set(shown) == value and set(shown["sites"][0]) == site
    taken = {"name": "k(float*)", "registers": 40, "shared": 1024, "stack": 0, "spilled": None}
    assert shown["kernels"] == [taken] and "`spilled`" in tables[0]
    assert set(json.loads(Path("times.json").read_bytes())) == {"schema", "device", "sites"}


def test_a_named_baseline_is_made_only_when_asked(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CannotRun, match="--update-baseline makes it"):
        run(machine, "--baseline", "times.json")
    assert run(machine, "--baseline", "times.json", "--update-baseline") == 0
    write(SOURCE.replace("20000", "30000"))
    assert run(machine, "--baseline", "times.json") == 1
    assert "main.cu:4: latency-regression: k takes 30.0 us" in capsys.readouterr().out
    machine.device = "L40"
    with pytest.raises(CannotRun, match="recorded on H200, this is L40"):
        run(machine, "--baseline", "times.json")
    Path("times.json").write_text("{}")
    with pytest.raises(CannotRun, match=r"times.json: no baseline"):
        run(machine, "--baseline", "times.json")


def test_sanitizer_reports_are_findings_on_save_only(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.reports = (GateFinding("Invalid __global__ write", "main.cu", 4, baseline=True),)
    assert run(machine) == 0
    assert run(machine, "--on-save") == 1
    assert "main.cu:4: sanitizer: Invalid __global__ write" in capsys.readouterr().out


def test_what_cannot_be_measured_is_said(machine: Machine) -> None:
    machine.gone = "there is no GPU"
    with pytest.raises(CannotRun, match="there is no GPU"):
        run(machine)
    machine.gone = ""
    machine.failed = BuildFailed("nvcc failed", (Diagnostic("error", 'expected a ";"', "main.cu", 3),))
    with pytest.raises(CannotRun, match=r'does not build: main.cu:3: expected a ";"'):
        run(machine)
    machine.failed = None
    machine.ended = Ended(signal=11)
    with pytest.raises(CannotRun, match="the program was ended by signal 11"):
        run(machine)
    with pytest.raises(CannotRun, match="give a percentage above 0"):
        run(machine, "--threshold", "0")
