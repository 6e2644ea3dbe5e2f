"""`stitchcuda validate`: what is compared, exit codes, and what it prints. Nothing is built: the compiler and the GPU are made up."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.analysis.proof.model import BY_HAND, May
from stitchcuda.gpu_validate.building.model import BuildFailed
from stitchcuda.gpu_validate.hub import Tools
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.verdict import GateResult, GateState
from stitchcuda.gpu_validate.version import Version
from stitchcuda.server.cli import candidates, validate
from stitchcuda.server.cli.dispatch import main
from stitchcuda.server.cli.errors import CannotRun

ROOT = Path(__file__).parents[2]
PROGRAM = """\
__global__ void scale(float *data) { data[threadIdx.x] *= 2.0f; }
int main() {
    float *device;
    cudaMalloc(&device, 1024);
    for (int k = 0; k < 10; ++k) {
        scale<<<1, 256>>>(device);
        cudaDeviceSynchronize();
    }
    cudaDeviceSynchronize();
    cudaFree(device);
}
"""
WITHOUT_A_WAIT = PROGRAM.replace("        cudaDeviceSynchronize();\n", "")
WITH_A_RACE = PROGRAM.replace(
    "    for", "    cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);\n    for"
).replace(
    "        scale<<<1, 256>>>(device);\n        cudaDeviceSynchronize();",
    "        scale<<<1, 256, 0, s>>>(device);\n        scale<<<1, 256>>>(device);",
)


class NoCompiler:
    def __init__(self, *_: object, **__: object) -> None:
        pass

    def build(self, _: Version) -> BuildFailed:
        return BuildFailed("there is no CUDA compiler on this machine", missing_tool=True)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Tools]:
    """No compiler and no GPU, whatever the machine has; the last of the list is used."""
    made = [replace(real_tools(), builder=NoCompiler, gpu=lambda: "there is no GPU here")]  # type: ignore[arg-type]
    monkeypatch.setattr(validate, "real_tools", lambda _="": made[-1])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return made


def two(folder: Path, candidate: str) -> list[str]:
    (folder / "a.cu").write_text(PROGRAM, encoding="utf-8")
    (folder / "b.cu").write_text(candidate, encoding="utf-8")
    return [str(folder / "a.cu"), str(folder / "b.cu")]


def test_without_gpu_and_compiler_the_proof_stands_and_the_rest_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", *two(tmp_path, WITHOUT_A_WAIT)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("unproven\n")
    assert re.search(r"G1  order +proved\n", out)
    assert re.search(r"G2  build +untested +there is no CUDA compiler", out)
    assert re.search(r"G3  equivalence +untested +there is no GPU", out)
    assert not list((tmp_path / "cache").rglob("hub-*"))
    assert (tmp_path / "a.cu").read_text(encoding="utf-8") == PROGRAM


def test_a_new_hazard_is_rejected_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *two(tmp_path, WITH_A_RACE), "--format", "json", "--progress", "json"]) == 1
    printed = capsys.readouterr()
    value = json.loads(printed.out)
    assert value["state"] == "rejected" and value["gates"][0]["state"] == "failed"
    assert value["primary"]["path"] == str(tmp_path / "b.cu")
    assert "scale<<<" in WITH_A_RACE.splitlines()[value["primary"]["line"] - 1]
    assert all(set(json.loads(line)) == {"step", "of", "message"} for line in printed.err.splitlines())


def test_a_place_in_the_original_is_told_with_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = two(tmp_path, PROGRAM.replace("scale", "enlarge"))
    assert main(["validate", *paths]) == 1
    out = capsys.readouterr().out
    assert f"{paths[0]}:1: function `scale` was removed (line of the original)" in out
    assert f"issue   function `scale` was removed ({paths[0]}:1)" in out


def test_what_a_proof_rests_on_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waits = "    cudaDeviceSynchronize();\n    cudaFree"
    assert main(["validate", *two(tmp_path, PROGRAM.replace(waits, "    cudaFree")), "--declare", "remove-wait"]) == 1
    assert (
        main(["validate", *two(tmp_path, WITHOUT_A_WAIT.replace(waits, "    cudaFree")), "--declare", "remove-wait"])
        == 1
    )
    first, second = capsys.readouterr().out.split("unproven\n")[1:]
    assert "rests on:" not in first
    assert re.search(r"G1  order +proved\n +rests on: cudaFree waits .*not by documentation", second)


def test_accepted_is_the_only_0(tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: list[Tools]) -> None:
    def passed(gate: str) -> Callable[..., GateResult]:
        return lambda *_, **__: GateResult(gate, GateState.PASSED)

    machine.append(replace(machine[-1], structure=passed("G0"), order=passed("G1"), build=passed("G2")))
    assert main(["validate", *two(tmp_path, WITHOUT_A_WAIT)]) == 1  # G3, G4 and G6 are missing
    assert "unproven" in capsys.readouterr().out


def test_the_json_has_the_fields_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--intent", "twice as fast", "--format", "json"]
    main(["validate", *two(tmp_path, WITH_A_RACE), *words])
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8").split("## Verdict")[1]
    example = json.loads(page.split("```json")[1].split("```")[0])
    assert set(value) == set(example)
    assert set(value["gates"][0]) == set(example["gates"][0])
    assert set(value["gates"][0]["findings"][0]) == set(example["gates"][0]["findings"][0])
    assert set(value["primary"]) == set(example["primary"])
    assert [set(b) for b in value["bounds"]] == [set(example["bounds"][0])]


def test_two_folders_differ_in_their_texts(tmp_path: Path) -> None:
    for name, text in (("one", PROGRAM), ("two", WITHOUT_A_WAIT)):
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "src" / "main.cu").write_text(text, encoding="utf-8")
        (tmp_path / name / "same.h").write_text("int same;\n", encoding="utf-8")
        (tmp_path / name / "program").write_bytes(b"\x7fELF\0" + name.encode())
    (tmp_path / "two" / "new.h").write_text("int added;\n", encoding="utf-8")
    before, after = candidates.two_paths(str(tmp_path / "one"), str(tmp_path / "two"))
    assert before.texts == {} and set(after.texts) == {"src/main.cu", "new.h"}
    assert after.root == before.root == tmp_path / "one"
    (tmp_path / "two" / "same.h").unlink()
    with pytest.raises(CannotRun, match=r"lacks same\.h"):
        candidates.two_paths(str(tmp_path / "one"), str(tmp_path / "two"))


def test_a_revision_against_what_is_there_now(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True,
                       capture_output=True)  # fmt: skip

    source = tmp_path / "sub" / "main.cu"
    source.parent.mkdir()
    source.write_text(PROGRAM, encoding="utf-8")
    with pytest.raises(CannotRun, match="lies in no git repository"):
        candidates.against_revision(str(source), "HEAD")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    source.write_text(WITHOUT_A_WAIT, encoding="utf-8")
    (tmp_path / "sub" / "new.cu").write_text("int added;\n", encoding="utf-8")
    for path in (source.parent, source):
        before, after = candidates.against_revision(str(path), "HEAD")
        assert before.texts == {"main.cu": PROGRAM.encode()} and after.texts == {}
    with pytest.raises(CannotRun, match="no such commit"):
        candidates.against_revision(str(source), "nowhere")
    source.unlink()
    with pytest.raises(CannotRun, match="was removed"):
        candidates.against_revision(str(source.parent), "HEAD")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["a.cu"], "two paths"),
        (["a.cu", "missing.cu"], "no such file"),
        (["a.cu", "."], "two folders or two files"),
        (["a.cu", "a.cu", "--runs", "3"], "--runs 3"),
        (["a.cu", "a.cu", "--timeout", "0"], "--timeout 0"),
        (["a.cu", "a.cu", "--scope", "missing"], "scope missing"),
        (["a.cu", "a.cu", "--against", "HEAD"], "one path"),
    ],
)
def test_what_cannot_start_is_2_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    two(tmp_path, PROGRAM)
    monkeypatch.chdir(tmp_path)
    assert main(["validate", *words]) == 2
    assert says in capsys.readouterr().err


def test_what_transforms_may_alter_adds_up() -> None:
    assert validate.declared_of(None) == BY_HAND
    both = validate.declared_of(["remove-wait", "keep-resident"])
    assert (
        both.copies is May.FEWER and both.launches is May.SAME and both.transforms == ("remove-wait", "keep-resident")
    )
