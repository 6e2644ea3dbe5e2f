"""`stitchcuda graph --format html`: findings, a measured run, a version to compare with, and a kept run of `stitch`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.server.cli import main

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "fixtures" / "traces"
RUN = ROOT / "tests" / "fixtures" / "runs" / "vit_fused_h200"


def page(*arguments: str, output: Path) -> dict[str, Any]:
    """The data in the page that the command writes."""
    assert main(["graph", *arguments, "--format", "html", "-o", str(output)]) == 0
    found = re.search(
        r'<script type="application/json"[^>]*>(.*?)</script>', output.read_text(encoding="ascii"), re.DOTALL
    )
    assert found is not None
    value: dict[str, Any] = json.loads(found[1])
    return value


def spans(side: dict[str, Any], host: bool) -> list[tuple[str, str]]:
    """What a run did, with the place of its operation in the source."""
    run = side["measured"]
    return [
        (run["names"][name], f"{side['nodes'][node]['head']}:{side['nodes'][node]['line']}" if node >= 0 else "")
        for lane in run["lanes"]
        if lane["host"] == host
        for _, _, node, name, _, _ in lane["spans"]
    ]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_page_has_what_check_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = "tests/fixtures/traces/programs/streams.cu"
    (side,) = page(program, output=tmp_path / "a.html")["sides"]
    assert main(["check", program, "--format", "json"]) in (0, 1)
    told = json.loads(capsys.readouterr().out)["findings"]
    assert sorted(h["code"] for h in side["hazards"]) == sorted(f["code"] for f in told) != []
    assert all(side["nodes"][n]["line"] for h in side["hazards"] for n in h["nodes"])


def test_a_trace_is_told_on_the_operations_of_the_source(tmp_path: Path) -> None:
    value = page(
        str(TRACES / "programs" / "streams.cu"), "--trace", str(TRACES / "streams.json"), output=tmp_path / "a.html"
    )
    (side,) = value["sides"]
    assert [lane["title"] for lane in side["measured"]["lanes"]] == [
        "host",
        "default stream",
        "stream first",
        "stream second",
    ]
    device = dict(spans(side, host=False))
    assert device["add"].startswith("add:") and device["scale<float>"].startswith("scale")
    assert all(place for _, place in spans(side, host=False)), "each piece of device work has its operation"
    trace = json.loads((TRACES / "streams.json").read_text())
    add = next(op for op in trace["ops"] if op.get("name") == "add")
    starts = [s[:2] for lane in side["measured"]["lanes"] for s in lane["spans"]]
    assert [add["start"] - trace["context_end"], add["end"] - add["start"]] in starts


def test_rounds_and_helpers_are_found_again(tmp_path: Path) -> None:
    (side,) = page("examples/vit", "--trace", str(TRACES / "vit.json"), output=tmp_path / "a.html")["sides"]
    device = spans(side, host=False)
    assert len(device) > 300 and all(place for _, place in device)
    for name, place in device:
        if not name.startswith(("copy", "memset")):
            assert place.startswith(re.sub(r"<.*", "", name))


def test_what_a_captured_graph_runs_is_told_on_what_was_captured(tmp_path: Path) -> None:
    value = page(
        str(TRACES / "programs" / "graph.cu"), "--trace", str(TRACES / "graph.json"), output=tmp_path / "a.html"
    )
    (side,) = value["sides"]
    kernels = [place for name, place in spans(side, host=False) if name == "step"]
    assert kernels and all(place.startswith("step:") for place in kernels)


def test_a_trace_without_lines_is_told_by_the_names_of_kernels(tmp_path: Path) -> None:
    trace = json.loads((TRACES / "streams.json").read_text())
    for call in trace["calls"]:
        call.pop("sites", None)
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(trace))
    (side,) = page(str(TRACES / "programs" / "streams.cu"), "--trace", str(bare), output=tmp_path / "a.html")["sides"]
    assert dict(spans(side, host=False))["add"].startswith("add:")
    assert any("no source lines" in note for note in side["measured"]["notes"])


def test_a_trace_of_another_program_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (str(TRACES / "programs" / "reuse.cu"), "--trace", str(TRACES / "vit.json"))
    (side,) = page(*arguments, output=tmp_path / "a.html")["sides"]
    assert "is it of another program" in capsys.readouterr().err
    assert any("another program" in note for note in side["measured"]["notes"])


def test_two_versions(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "vit", tmp_path / "vit")
    ops = tmp_path / "vit" / "ops.cu"
    text = ops.read_text()
    assert text.count("CHECK(cudaDeviceSynchronize());") > 1
    ops.write_text(text.replace("CHECK(cudaDeviceSynchronize());", "", 1))
    trace = ("--before-trace", str(TRACES / "vit.json"))
    value = page(str(tmp_path / "vit"), "--before", "examples/vit", *trace, output=tmp_path / "a.html")
    before, after = value["sides"]
    assert before["measured"] is not None and after["measured"] is None
    kept = {one for one, _, _ in value["pairs"]}
    gone = [n for k, n in enumerate(before["nodes"]) if k not in kept]
    assert gone and {n["kind"] for n in gone} == {"device_sync"}
    assert len(kept) == len(after["nodes"]) and not any(differences for _, _, differences in value["pairs"])


def test_a_function_is_shown_first(tmp_path: Path) -> None:
    value = page("examples/vit", "--function", "attention_block", output=tmp_path / "a.html")
    assert value["function"] == "attention_block"
    assert any(node["function"] == "attention_block" for node in value["sides"][0]["nodes"])
    assert main(["graph", "examples/vit", "--format", "html", "--function", "nothing"]) == 2


def test_a_kept_run_is_its_original_and_its_best_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = tmp_path / "stitchcuda" / "runs" / "20261130-211218-000001"
    shutil.copytree(RUN, kept)
    value = page("--run", output=tmp_path / "a.html")
    best = json.loads((RUN / "result.json").read_text())["best"]
    assert best["units"]
    before, after = value["sides"]
    assert value["title"] == "/home/user/vit"
    names = [{n["kernel"] for n in side["nodes"]} for side in (before, after)]
    assert names[0] != names[1], "kernels were fused"
    assert sum(n["waits"] for n in after["nodes"]) < sum(n["waits"] for n in before["nodes"])
    assert page("--run", str(RUN), output=tmp_path / "b.html") == value
    assert main(["graph", "--format", "html", "--run", "nothing"]) == 2
    assert "no run of that name" in capsys.readouterr().err


def test_the_run_that_a_kept_run_measured_is_shown_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = tmp_path / "stitchcuda" / "runs" / "20261130-211218-000001"
    shutil.copytree(RUN, kept)
    shutil.copy(TRACES / "vit.json", kept / "trace.json")
    before, after = page("--run", output=tmp_path / "a.html")["sides"]
    assert before["measured"] is not None and after["measured"] is None, "of the best version no trace is kept"
    shutil.copy(TRACES / "spin.json", kept / "trace.json")
    assert main(["graph", "--format", "html", "--run", "-o", str(tmp_path / "b.html")]) == 2
    assert "trace.json: not a trace" in capsys.readouterr().err
    before, _ = page("--run", "--before-trace", str(TRACES / "vit.json"), output=tmp_path / "c.html")["sides"]
    assert before["measured"] is not None


def test_a_trace_in_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    program, trace = str(TRACES / "programs" / "streams.cu"), str(TRACES / "streams.json")
    assert main(["graph", program]) == 0
    order = capsys.readouterr().out
    assert main(["graph", program, "--trace", trace]) == 0
    told = capsys.readouterr().out
    assert told.startswith(order + "\nMeasured on NVIDIA H200 (")
    assert "`add` on stream second (streams.cu:51)" in told
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = tmp_path / "stitchcuda" / "runs" / "20261130-211218-000001"
    shutil.copytree(RUN, kept)
    shutil.copy(trace, kept / "trace.json")
    assert main(["graph", program, "--trace", kept.name]) == 0
    assert capsys.readouterr().out == told


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["examples/vit", "--format", "svg", "--trace", "x"], "--trace needs --format html or text"),
        (["tests/fixtures/traces/programs/reuse.cu", "--trace", "nowhere.json"], "nowhere.json: cannot be read"),
        (["examples/vit", "--before", "x"], "--before needs --format html"),
        (["--run"], "--run needs --format html"),
        (["--format", "html"], "a PATH is needed"),
        ([], "a PATH is needed"),
        (["examples/vit", "--format", "html", "--run", "x"], "--run takes no PATH"),
        (["--format", "html", "--run", "--before", "examples/vit"], "leave --before out"),
        (["examples/vit", "--format", "html", "--before-trace", "x"], "--before-trace needs"),
        (["tests/fixtures/traces/programs/reuse.cu", "--format", "html", "--trace", "nowhere.json"], "nowhere.json: cannot be read"),
        (["tests/fixtures/traces/programs/reuse.cu", "--format", "html", "--trace", "README.md"], "README.md: it is not JSON"),
        (["tests/fixtures/traces/programs/reuse.cu", "--format", "html", "--trace", ".pre-commit-hooks.yaml"], "it is not JSON"),
        (["tests/fixtures/traces/programs/reuse.cu", "--format", "html", "--trace", "tests/fixtures/traces/spin.json"], "not a trace"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", *arguments]) == 2
    said = capsys.readouterr()
    assert why in said.err and not said.out


def test_an_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "nowhere" / "a.html"
    program = "tests/fixtures/traces/programs/reuse.cu"
    assert main(["graph", program, "--format", "html", "-o", str(target)]) == 2
    assert str(target) in capsys.readouterr().err
    assert main(["graph", program, "-o", str(tmp_path / "a.txt")]) == 0
    assert "for stream `stream`" in (tmp_path / "a.txt").read_text() and not capsys.readouterr().out
