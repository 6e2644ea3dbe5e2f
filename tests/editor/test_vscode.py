"""A real VS Code with the packaged extension and the real server, in one window. Trust, crashes and installation: test_vscode_server.py."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.agent.transform_names import IDS

from tests.editor.vscode.code_server import CodeServer, Window, wait_for
from tests.editor.vscode.serving import Serving
from tests.server import small_program
from tests.server.test_session import RACE

ROOT = Path(__file__).parents[2]
SPIN = ROOT / "tests" / "gpu" / "programs" / "spin.cu"
STEPWISE = Path(__file__).parent / "vscode" / "stepwise.cu"
TRACES = ROOT / "tests" / "fixtures" / "traces"
SELECTION = '[id="status.editor.selection"]'
TOAST = ".notification-toast"
MENU = ".action-widget .monaco-list-row"
HOVER = ".monaco-hover-content"
UNTICKED = ".bulk-edit-panel .monaco-list-row .monaco-checkbox:not(.checked)"
STEP = ".gettingStartedContainer button.getting-started-step"
STATUS = '[id$="stitchcuda.status"]'

pytestmark = pytest.mark.editor


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Serving:
    return Serving(tmp_path_factory.mktemp("serving"))


@pytest.fixture(scope="module")
def shared(vscode: CodeServer, serving: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    with vscode.window(tmp_path_factory.mktemp("work"), **{"stitchcuda.server.path": str(serving.command)}) as opened:
        yield opened


@pytest.fixture
def window(shared: Window) -> Iterator[Window]:
    """The window that all tests here share; each puts its files into a folder of its own."""
    yield shared
    shared.run("close")
    shared.run("command", command="notifications.clearAll")


@pytest.fixture
def program(window: Window, request: pytest.FixtureRequest) -> Path:
    folder = window.folder / request.node.name
    folder.mkdir()
    return small_program.write(folder)


def test_a1_a2_findings_fix_undo_suppress(window: Window) -> None:
    file = window.folder / "race.cu"
    file.write_text(RACE, encoding="utf-8")
    seen = window.run("findings", file=str(file))
    opened = seen["opened"]
    assert (opened["code"], opened["source"], seen["all"]) == ("stream-race-raw", "stitchcuda", 1)
    assert seen["text"] == "consume<<<4, 256, 0, b>>>(x, y, n)"
    page = opened["page"]
    assert page.startswith("file:") and Path(page.removeprefix("file://")).is_file()
    assert opened["related"][0]["path"] == str(file)
    assert RACE.split("\n")[opened["related"][0]["line"]].strip().startswith("produce<<<")
    assert seen["preferred"] == 1 and "Suppress stream-race-raw on this line" in seen["actions"]
    assert "cudaStreamWaitEvent(b, " in seen["fixed"]
    assert seen["undone"] == RACE
    assert seen["suppressed"].endswith("  // stitchcuda: ignore[stream-race-raw]")
    assert "stream-race-raw" in seen["page"]


def test_what_is_found_is_seen_in_the_text_the_problems_and_on_hover(window: Window) -> None:
    file = window.folder / "seen.cu"
    file.write_text(RACE, encoding="utf-8")
    window.run("codes", file=str(file), codes=["stream-race-raw"])
    window.run("show", file=str(file), at="consume<<<4")
    window.do("wait", selector=".squiggly-error")
    window.do("wait", selector=".codelens-decoration", text="2 kernels, 2 streams")
    window.do("wait", selector=".view-line", text="waits for produce; consume")
    window.run("command", command="workbench.actions.view.problems")
    window.do("wait", selector=".markers-panel .monaco-list-row", text="`consume` on stream `b` reads `x`")
    window.picture("problems")
    window.run("command", command="workbench.action.closePanel")
    window.run("show", file=str(file), at="consume<<<4")
    window.run("command", command="editor.action.showHover")
    window.do("wait", selector=HOVER, text="stream-race-raw")
    window.do("wait", selector=HOVER, text="Reads")
    window.picture("hover")


def test_a_fix_is_taken_from_the_menu_of_quick_fixes(window: Window) -> None:
    file = window.folder / "menu" / "fixed.cu"
    file.parent.mkdir()
    file.write_text(RACE, encoding="utf-8")
    window.run("codes", file=str(file), codes=["stream-race-raw"])
    window.run("show", file=str(file), at="consume<<<4")
    window.do("wait", selector=".squiggly-error")
    window.run("command", command="editor.action.quickFix", wait=False)
    window.do("wait", selector=MENU, text="Suppress stream-race-raw on this line")
    window.picture("quick-fix")
    window.do("click", selector=MENU, text="Make stream `b` wait")
    window.run("codes", file=str(file), codes=[])
    assert "cudaStreamWaitEvent(b, " in _texts(window, file.parent)["fixed.cu"]["text"]
    window.run("undo", files=[str(file)])
    assert _texts(window, file.parent)["fixed.cu"]["text"] == RACE


def test_a12_stitch_shows_its_progress_and_changes_both_files_and_each_is_undone(
    window: Window, serving: Serving, program: Path
) -> None:
    main, smooth = program / "main.cu", program / "smooth.cu"
    window.run("show", file=str(main))
    with serving.held():
        job = window.run("job", command="stitchcuda.stitch", given=[main.as_uri()], wait=False)
        window.do("wait", selector=TOAST, text="Stitch end-to-end: program")
        window.do("wait", selector=f"{TOAST} .monaco-button", text="Cancel")
        window.do("wait", selector=STATUS, text="Stitch end-to-end: program")
        window.picture("stitch-progress")
    assert window.run("job", job=job["id"])["state"] == "done"
    window.do("gone", selector=f"{TOAST} .monaco-button", text="Cancel")
    stitched = _texts(window, program)
    assert {name: stitched[name]["text"].count("cudaDeviceSynchronize();") for name in ("main.cu", "smooth.cu")} == {
        "main.cu": 0,
        "smooth.cu": 0,
    }
    assert all(stitched[name]["dirty"] for name in ("main.cu", "smooth.cu"))
    window.picture("stitched")
    window.run("show", file=str(main))
    window.do("click", selector=f"{TOAST} .monaco-button", text="Show Before and After")
    window.do("frameClick", selector="#version [data-value='both']")
    window.picture("before-and-after")
    window.do("frameClick", selector="#operations li:has-text('cudaMemcpy')")
    window.do("frameClick", selector="#details [data-source]")
    window.do("wait", selector=SELECTION, text="Ln 11,")
    window.run("undo", files=[str(main), str(smooth)])
    assert {n: t["text"] for n, t in _texts(window, program).items()} == {
        name: small_program.FILES[name] for name in ("main.cu", "smooth.cu")
    }
    assert {n: (program / n).read_text(encoding="utf-8") for n in small_program.FILES} == small_program.FILES


def test_a15_what_is_typed_during_a_run_stays(window: Window, serving: Serving, program: Path) -> None:
    main = program / "main.cu"
    with serving.held():
        job = window.run("job", command="stitchcuda.stitch", given=[_opened(window, main)], wait=False)
        window.do("wait", selector=TOAST, text="Stitch end-to-end: program")
        window.do("click", selector=".editor-instance .view-line")
        window.do("press", keys="Control+Home")
        window.do("type", text="// typed", delay=5)
    assert window.run("job", job=job["id"])["state"] == "done"
    window.do("wait", selector=TOAST, text="stitchcuda runs apply")
    assert _texts(window, program)["main.cu"]["text"] == "// typed" + small_program.MAIN
    window.picture("typed-during-a-run")


def test_a13_cancel_in_the_notification_ends_the_job(window: Window, serving: Serving, program: Path) -> None:
    main = program / "main.cu"
    with serving.held():
        job = window.run("job", command="stitchcuda.stitch", given=[_opened(window, main)], wait=False)
        window.do("wait", selector=TOAST, text="Stitch end-to-end: program")
        began = time.monotonic()
        window.do("click", selector=f"{TOAST} .monaco-button", text="Cancel")
        assert window.run("job", job=job["id"])["state"] == "cancelled"
        assert time.monotonic() - began < 5
        window.do("gone", selector=f"{TOAST} .monaco-button", text="Cancel")
    assert _texts(window, program)["main.cu"] == {"text": small_program.MAIN, "dirty": False}


def test_a16_the_change_can_be_looked_at_in_the_refactor_preview(window: Window, program: Path) -> None:
    main = program / "main.cu"
    window.run("settings", values={"stitchcuda.confirmEdits": True})
    try:
        job = window.run("job", command="stitchcuda.stitch", given=[_opened(window, main)], wait=False)
        window.do("wait", selector=".bulk-edit-panel .monaco-list-row", text="cudaDeviceSynchronize")
        window.picture("refactor-preview")
        assert _texts(window, program)["main.cu"] == {"text": small_program.MAIN, "dirty": False}
        _tick_all(window)
        window.do("click", selector=".bulk-edit-panel .monaco-button", text="Apply")
        assert window.run("job", job=job["id"])["state"] == "done"
        assert "cudaDeviceSynchronize" not in _texts(window, program)["main.cu"]["text"]
    finally:
        window.run("settings", values={"stitchcuda.confirmEdits": None})


def test_a_validated_version_says_what_it_gains(window: Window, serving: Serving, program: Path) -> None:
    main = program / "main.cu"
    with serving.agreeing():
        assert window.run("job", command="stitchcuda.stitch", given=[_opened(window, main)])["state"] == "done"
        window.do(
            "wait", selector=TOAST, text="stitchcuda: program: improved: latency 1.50 times as fast (1.40 to 1.60)"
        )
    window.picture("validated")
    assert "cudaDeviceSynchronize" not in _texts(window, program)["main.cu"]["text"]
    window.run("undo", files=[str(main), str(program / "smooth.cu")])
    assert {n: t["text"] for n, t in _texts(window, program).items()} == {
        name: small_program.FILES[name] for name in ("main.cu", "smooth.cu")
    }


def test_validate_tells_the_verdict_and_without_a_gpu_why_there_is_none(
    window: Window, serving: Serving, program: Path
) -> None:
    git = ["git", "-C", str(program), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    main = program / "main.cu"
    main.write_text(small_program.MAIN.replace(" cudaDeviceSynchronize();", ""), encoding="utf-8")
    window.run("show", file=str(main))
    window.run("command", command="stitchcuda.validateProgram")
    window.do("wait", selector=TOAST, text="program: unproven: there is no CUDA compiler on this machine")
    window.picture("validate-without-gpu")
    window.run("command", command="notifications.clearAll")
    with serving.agreeing():
        window.run("command", command="stitchcuda.validateProgram")
        window.do("wait", selector=TOAST, text="accepted: latency 1.50 times as fast (1.40 to 1.60)")
    window.run("command", command="notifications.clearAll")
    window.run("replace", file=str(main), old="const int n", new="const  int n")
    window.run("command", command="stitchcuda.validateProgram")
    window.do("wait", selector=TOAST, text="first: a validation runs the files as they are saved")


def test_the_key_of_the_model_reaches_the_server_alone(vscode: CodeServer, window: Window, serving: Serving) -> None:
    for key in ("key-4711", ""):
        before = len(serving.pids)
        window.run("command", command="stitchcuda.setModelKey", wait=False)
        window.do("wait", selector=".quick-input-widget input[type=password]")
        window.do("type", text=key, delay=1)
        window.picture("model-key")
        window.do("press", keys="Enter")
        pid = _started_after(serving, before)
        window.run("codes", file=str(_written(window, "keyed.cu", RACE)), codes=["stream-race-raw"])
        variables = dict(v.partition("=")[::2] for v in Path(f"/proc/{pid}/environ").read_text().split("\0"))
        assert variables.get("STITCHCUDA_LLM_KEY", "") == key
    for file in vscode.folder.glob("data/**/*"):
        assert not file.is_file() or b"key-4711" not in file.read_bytes(), f"the key is in {file}"


def test_a8_each_transform_is_a_rewrite_of_the_function_under_the_cursor(window: Window, serving: Serving) -> None:
    file = window.folder / "steps" / "stepwise.cu"
    file.parent.mkdir()
    shutil.copy(STEPWISE, file)
    text = STEPWISE.read_text(encoding="utf-8")
    offered = window.run("rewrites", file=str(file), at="cudaMemset", count=len(IDS))
    assert [action["kind"].rpartition(".")[2] for action in offered] == list(IDS)

    def rewritten(given: list[str]) -> str:
        assert window.run("job", command="stitchcuda.rewrite", given=given)["state"] == "done"
        new: str = _texts(window, file.parent)["stepwise.cu"]["text"]
        if new != text:
            window.run("undo", files=[str(file)])
        assert _texts(window, file.parent)["stepwise.cu"]["text"] == text
        return new

    assert all(" in main" in action["title"] for action in offered)
    given = {action["given"][1]: action["given"] for action in offered}
    with serving.agreeing():
        changed = {transform: rewritten(words) for transform, words in given.items()}
    loop = {name: new.split("++step) {")[1].split("}")[0] for name, new in changed.items()}
    assert "cudaMalloc" not in loop["hoist-allocation"] and "cudaDeviceSynchronize" in loop["hoist-allocation"]
    assert "cudaMalloc" in loop["remove-wait"] and "cudaDeviceSynchronize" not in loop["remove-wait"]
    assert "y = x;" in changed["keep-resident"] and "cudaMemcpy" not in changed["keep-resident"]


def test_the_rewrite_picker_starts_what_is_chosen(window: Window, program: Path) -> None:
    window.run("show", file=str(program / "smooth.cu"), at="average<<<")
    window.run("rewrites", file=str(program / "smooth.cu"), at="average<<<", count=1)
    window.run("command", command="stitchcuda.rewriteProgram", wait=False)
    window.do("wait", selector=".quick-input-list .monaco-list-row", text="Remove host waits that nothing relies on")
    window.picture("rewrite-picker")
    window.do("press", keys="Enter")
    window.do("wait", selector=TOAST, text="stitchcuda: program: not validated")
    assert "cudaDeviceSynchronize" not in _texts(window, program)["smooth.cu"]["text"]


def test_a_launch_that_became_slower_is_underlined_on_save(window: Window) -> None:
    folder = window.folder / "spinning"
    folder.mkdir()
    shutil.copy(SPIN, folder / "spin.cu")
    window.run("settings", values={"stitchcuda.validateOnSave": True})
    try:
        seen = window.run("on_save", file=str(folder / "spin.cu"))
    finally:
        window.run("settings", values={"stitchcuda.validateOnSave": None})
    assert seen["recorded"] == []
    (slower,) = seen["slower"]
    assert seen["line"].strip() == "mix<<<N / 256, 256>>>(d_values, ROUNDS);"
    assert slower["source"] == "stitchcuda" and " % more than the " in slower["message"]
    assert seen["fixed"] == []


def test_the_graph_is_a_page_that_leads_to_the_source_and_follows_edits(window: Window) -> None:
    file = window.folder / "shown" / "graph.cu"
    file.parent.mkdir()
    file.write_text(RACE, encoding="utf-8")
    window.run("show", file=str(file), at="int main")
    window.run("command", command="stitchcuda.showGraph")
    window.do("frameClick", selector="#operations li:has-text('consume')")
    window.picture("graph")
    window.do("frameClick", selector="#details [data-source]")
    line = next(k for k, text in enumerate(RACE.split("\n"), 1) if "consume<<<" in text)
    window.do("wait", selector=SELECTION, text=f"Ln {line},")
    page: dict[str, Any] = {"selector": "#operations", "expression": "document.documentElement.dataset.theme"}
    assert window.do("frameEvaluate", **page, holds="value !== undefined") == "light"
    window.run("replace", file=str(file), old="consume<<<4", new="consume<<<8")
    data = {"selector": "#operations", "expression": "JSON.parse(document.getElementById('data').textContent)"}
    window.do("frameEvaluate", **data, holds="value.sides[0].nodes.some((node) => node.grid === '8')")
    window.run("settings", values={"workbench.colorTheme": "Default Dark Modern"})
    window.do("frameEvaluate", **page, holds="value === 'dark'")
    window.picture("graph-dark")
    window.run("settings", values={"workbench.colorTheme": None})


def test_a_measured_run_is_shown_on_the_graph(window: Window) -> None:
    file = window.folder / "measured" / "streams.cu"
    file.parent.mkdir()
    shutil.copy(TRACES / "programs" / "streams.cu", file)
    window.run("codes", file=str(file), codes=["event-wrong-stream"])
    window.run("command", command="stitchcuda.showMeasured", wait=False)
    window.do("wait", selector=".quick-input-list .monaco-list-row", text="A File...")
    window.do("click", selector=".quick-input-list .monaco-list-row", text="The Newest Run of Stitch")
    window.do("wait", selector=TOAST, text="no run of streams.cu is kept that measured it")
    window.run("command", command="notifications.clearAll")
    window.run("command", command="stitchcuda.showMeasured", given=[file.as_uri(), str(TRACES / "streams.json")])
    lanes = "[...document.querySelectorAll('.lane-name')].map((e) => e.textContent)"
    window.do("frameEvaluate", selector="#operations", expression=lanes, holds="value.includes('device')")
    window.picture("graph-measured")


def test_graphs_are_shown_again_when_the_window_is_opened_again(window: Window, program: Path) -> None:
    main = program / "main.cu"
    race = _written(window, "again.cu", RACE)
    assert window.run("job", command="stitchcuda.stitch", given=[_opened(window, main)])["state"] == "done"
    window.run("command", command="stitchcuda.showChange")
    window.do("frameClick", selector="#version [data-value='before']")
    window.run("undo", files=[str(main), str(program / "smooth.cu")])
    window.run("show", file=str(race))
    window.run("command", command="stitchcuda.showGraph", given=[race.as_uri(), "main"])
    window.do("frameClick", selector="#operations li:has-text('consume')")
    page = {"selector": "#operations", "expression": "document.querySelector('#details h2').textContent"}
    window.do("frameEvaluate", **page, holds="value.startsWith('consume<<<')")
    window.do("stored", texts=["again.cu", "Before and after: main.cu", "consume"])
    window.reload()
    window.do("frameEvaluate", **page, holds="value.startsWith('consume<<<')")
    window.picture("graph-again")
    window.run("replace", file=str(race), old="consume<<<4", new="consume<<<8")
    window.do("frameEvaluate", **page, holds="value.startsWith('consume<<<8')")
    window.do("click", selector=".tab", text="Before and after: main.cu")
    version = "document.querySelector('#version [aria-checked=true]').dataset.value"
    window.do("frameEvaluate", selector="#version:not([hidden])", expression=version, holds="value === 'before'")


def test_the_menu_and_the_walkthrough_say_what_can_be_done(window: Window, program: Path) -> None:
    window.run("show", file=str(program / "main.cu"))
    window.do("click", selector=f"{STATUS} a")
    window.do("wait", selector=".quick-input-list .monaco-list-row", text="Stitch the Program End-to-End")
    window.picture("menu")
    window.do("click", selector=".quick-input-list .monaco-list-row", text="Show What This Machine Has")
    window.do("wait", selector=".panel .view-line", text="CUPTI")
    window.picture("machine")
    window.run("command", command="workbench.action.closePanel")
    window.run("command", command="workbench.action.openWalkthrough", given=["stitchcuda.stitchcuda#start"])
    window.do("wait", selector=".gettingStartedContainer", text="Watch latency on save")
    window.do("wait", selector=f"{STEP}[aria-checked=true]", text="The language server runs")
    window.picture("walkthrough")


def test_a20_a_mistake_in_stitchcuda_toml_is_shown_where_it_stands(window: Window) -> None:
    folder = window.folder / "mistaken"
    folder.mkdir()
    (folder / "stitchcuda.toml").write_text('[check]\nseverity = "high"\n', encoding="utf-8")
    (mistake,) = window.run("codes", file=str(folder / "stitchcuda.toml"), codes=["stitchcuda-toml"])
    assert mistake["range"][0] == 1, mistake


def test_a_file_of_20_000_lines(window: Window) -> None:
    kernels = "".join(
        f"__global__ void work{k}(float *x, int n) {{\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  if (i < n)\n    x[i] += {k};\n}}\n\n"
        for k in range(3331)
    )
    file = window.folder / "large.cu"
    file.write_text(kernels + RACE, encoding="utf-8")
    seen = window.run("large", file=str(file), code="stream-race-raw", mark="/* 😀 */ consume<<<")
    assert seen["lines"] >= 20_000
    assert seen["typed"] == "// typed here"
    assert seen["server"] == seen["text"], "the server has another text than the editor"


def _written(window: Window, name: str, text: str) -> Path:
    file = window.folder / name
    file.write_text(text, encoding="utf-8")
    return file


def _tick_all(window: Window) -> None:
    """The panel draws its rows anew while they are clicked: a click can be lost, or count late and take a tick away again."""

    def none_left() -> bool:
        left = window.do("count", selector=UNTICKED)
        if left:
            window.do("click", selector=UNTICKED)
            end = time.monotonic() + 3
            while window.do("count", selector=UNTICKED) >= left and time.monotonic() < end:
                time.sleep(0.1)
        return not left

    wait_for("all ticks", none_left)


def _started_after(serving: Serving, count: int) -> int:
    wait_for("another server", lambda: len(serving.pids) > count)
    return serving.pids[-1]


def _opened(window: Window, file: Path) -> str:
    window.run("show", file=str(file))
    return file.as_uri()


def _texts(window: Window, folder: Path) -> dict[str, Any]:
    texts: dict[str, Any] = window.run("texts", folder=str(folder))
    return texts
