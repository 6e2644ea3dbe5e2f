"""A program is the same for findings, the graph and jobs, through a real client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pygls.exceptions import JsonRpcException
from stitchcuda.server.cli import main

from tests.server.client import FAKE, REAL, Editor, editor_session
from tests.server.test_graph_page import data_of
from tests.server.test_program_jobs import TOOL, job_ended
from tests.server.test_session import NOW, RACE, diagnostics

WORK = """\
#include "work.h"
__global__ void fill(float *x) { x[threadIdx.x] = 1; }
void work(float *x, cudaStream_t s) { fill<<<1, 100, 0, s>>>(x); }
"""
MAIN = """\
#include "work.h"
int main() {
    float *NAME;
    cudaStream_t s;
    cudaMalloc(&NAME, 400);
    cudaStreamCreate(&s);
    work(NAME, s);
    cudaStreamSynchronize(s);
    cudaFree(NAME);
    cudaStreamDestroy(s);
}
"""
FILES = {
    "work.h": "void work(float *x, cudaStream_t s);\n",
    "work.cu": WORK,
    "one.cu": MAIN.replace("NAME", "first"),
    "two.cu": MAIN.replace("NAME", "second"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "programs"
    top.mkdir()
    for name, text in FILES.items():
        (top / name).write_text(text, encoding="utf-8")
    return top


def memory(value: Any) -> set[str]:
    """What is allocated in a graph, with the files that it shows."""
    return {name for node in value["nodes"] for name in node["writes"] if node["kind"] == "alloc"}


def entered(editor: Editor, folder: Path, name: str) -> str:
    uri = (folder / name).as_uri()
    if uri not in editor.texts:
        editor.open(uri, FILES[name])
    return uri


@pytest.mark.asyncio
@pytest.mark.parametrize("order", [("one.cu", "two.cu", "work.cu"), ("work.cu", "two.cu", "one.cu")])
async def test_two_mains_of_a_folder_share_no_graph(folder: Path, order: tuple[str, ...]) -> None:
    expected = {"one.cu": {"first"}, "two.cu": {"second"}, "work.cu": {"first"}}
    async with editor_session(command=REAL, options=NOW, root=folder) as editor:
        for name in order:
            uri = entered(editor, folder, name)
            graph = json.loads(await editor.command("stitchcuda.graphText", uri, "", "json"))
            assert memory(graph) == expected[name]
            assert "fill" in {node["kernel"] for node in graph["nodes"]}, "with what the other source defines"
            (side,) = data_of(await editor.command("stitchcuda.graphText", uri, "", "html"))["sides"]
            assert {Path(node["path"]).name for node in side["nodes"]} == {
                "work.cu",
                min(name, "two.cu") if name != "work.cu" else "one.cu",
            }


@pytest.mark.asyncio
async def test_a_main_that_is_typed_begins_a_program(folder: Path) -> None:
    second = FILES["two.cu"]
    (folder / "two.cu").write_text(second.replace("int main()", "void other()"))
    async with editor_session(command=REAL, options=NOW, root=folder) as editor:
        one, two = (folder / "one.cu").as_uri(), (folder / "two.cu").as_uri()
        editor.open(one, FILES["one.cu"])
        editor.open(two, second.replace("int main()", "void other()"))

        async def graph(uri: str) -> set[str]:
            return memory(json.loads(await editor.command("stitchcuda.graphText", uri, "", "json")))

        together = {"first", "second"}
        assert await graph(one) == await graph(two) == together, "nobody here calls what has no main"
        editor.replace(two, second)
        assert await graph(two) == {"second"}
        assert await graph(one) == {"first"}
        editor.replace(two, second.replace("int main()", "void other()"))
        assert await graph(one) == await graph(two) == together
        editor.replace(two, second)
        assert await graph(one) == {"first"}
        editor.close(two)
        assert await graph(one) == together, "on the disk there is none"


def test_the_command_line_tells_them_apart_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    for name, expected in (("one.cu", {"first"}), ("two.cu", {"second"}), ("work.cu", {"first"})):
        assert main(["graph", name, "--format", "json"]) == 0
        graph = json.loads(capsys.readouterr().out)
        assert memory(graph) == expected and "fill" in {node["kernel"] for node in graph["nodes"]}
    assert main(["graph", "."]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("main")] == [
        "main (./one.cu)",
        "main (./two.cu)",
    ]
    assert main(["graph", ".", "--format", "html", "-o", "page.html"]) == 2
    assert (
        "holds 2 programs, and a page shows one: name the file with its main: ./one.cu, ./two.cu"
        in capsys.readouterr().err
    )
    assert main(["graph", "two.cu", "--format", "html", "-o", "page.html"]) == 0
    (side,) = data_of(Path("page.html").read_text())["sides"]
    assert {node["path"] for node in side["nodes"]} == {"two.cu", "work.cu"}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "one.cu"),  # which sources are linked to it is not known
        ({"two.cu": None}, "."),
        ({"stitchcuda.toml": ""}, "."),
        ({"stitchcuda.toml": "[check]\n"}, "one.cu"),
        ({"../Makefile": "all:\n"}, ".."),
    ],
    ids=["two-mains", "one-main", "said", "said-of-findings", "said-above"],
)
async def test_a_job_is_about_the_same_program(folder: Path, more: dict[str, str | None], expected: str) -> None:
    for name, text in more.items():
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(text)
    tool = folder.parent / "tool.py"
    tool.write_text(TOOL)
    async with editor_session(command=(*FAKE, "--tool", str(tool)), options=NOW, root=folder.parent) as editor:
        uri = entered(editor, folder, "one.cu")
        answer = await editor.command("stitchcuda.stitch", uri)
        await job_ended(editor, answer["job"])
        words, _ = json.loads((folder.parent / "words.json").read_text())
        assert words[:2] == ["stitch", str((folder / expected).resolve())]


@pytest.mark.asyncio
async def test_a_header_with_unsaved_text_keeps_a_job_from_starting(folder: Path) -> None:
    async with editor_session(options=NOW, root=folder) as editor:
        header = entered(editor, folder, "work.h")
        uri = entered(editor, folder, "one.cu")
        editor.replace(header, "// typed\n" + FILES["work.h"])
        with pytest.raises(Exception, match=r"save .*work\.h first"):
            await editor.command("stitchcuda.stitch", uri)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "uri",
    ["untitled:Untitled-1", "git:/p/one.cu?ref", "vscode-vfs://github/p/one.cu", "zipfile:///p.zip::one.cu"],
)
async def test_what_is_no_file_has_findings_and_a_graph_and_no_jobs(folder: Path, uri: str) -> None:
    async with editor_session(command=REAL, options=NOW, root=folder) as editor:
        editor.open(uri, RACE, "cuda-cpp")
        await diagnostics(editor, uri, ["stream-race-raw"])
        assert "`consume` runs on stream `b`" in await editor.command("stitchcuda.graphText", uri)
        for command in ("stitchcuda.stitch", "stitchcuda.validate"):
            with pytest.raises(JsonRpcException, match="is no file on the disk: save it as one first"):
                await editor.command(command, uri)


@pytest.mark.asyncio
async def test_files_beside_that_are_no_text_are_left_out(folder: Path) -> None:
    (folder / "work.cu").write_bytes(WORK.encode("utf-16"))
    (folder / "data.cu").write_bytes(b"\x7fELF" + bytes(range(256)))
    (folder / "two.cu").write_bytes(FILES["two.cu"].replace("\n", "\r\n").encode("utf-8-sig"))
    async with editor_session(command=REAL, options=NOW, root=folder) as editor:
        uri = (folder / "two.cu").as_uri()
        editor.open(uri, FILES["two.cu"].replace("\n", "\r\n"))
        graph = json.loads(await editor.command("stitchcuda.graphText", uri, "", "json"))
        assert memory(graph) == {"second"} and "fill" not in {node["kernel"] for node in graph["nodes"]}
