"""An error of stitchcuda itself on one file leaves the others checked, is told, and is no success."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stitchcuda.analysis.program import cuda
from stitchcuda.server.cli.dispatch import main


def test_a_contained_error_is_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.cu").write_text("int main() { float* p; cudaMalloc(&p, 4); cudaFree(p); }\n")
    (tmp_path / "bad.cu").write_text("void other() { cudaDeviceSynchronize(); }\n")
    lowering = cuda.ModuleLowering

    def failing(path: str, text: bytes, **given: object) -> object:
        if path.endswith("bad.cu"):
            raise ZeroDivisionError
        return lowering(path, text, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(cuda, "ModuleLowering", failing)
    assert main(["check", str(tmp_path), "--format", "json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert [p["what"].split(":")[0] for p in report["problems"]] == ["internal error"]
    assert main(["graph", str(tmp_path)]) == 2
    assert "the host allocates `p`" in capsys.readouterr().out
