"""What the sanitizer reports of a version and not of the original. The tool here is a program that writes the reports it is
told to write, so that every way of failing can be had without a GPU."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from stitchcuda.analysis.contract.project import Project, RunSection
from stitchcuda.gpu_validate import sanitizer
from stitchcuda.gpu_validate.building.model import Built, Resources
from stitchcuda.gpu_validate.gates.g4_memory import LAUNCHES, MemoryCheck
from stitchcuda.gpu_validate.runs import Case
from stitchcuda.gpu_validate.sanitizer import Unreadable, host_frames, identity, read_reports
from stitchcuda.gpu_validate.verdict import GateResult, GateState

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the made-up tool is a script")

SOURCE = "// one\n// two\n  x[i] = 1;\n  cudaMalloc(&p, n);\n"
# Runs the program, then does what the folder's files say: NAME.xml is the report, NAME.code the exit code.
TOOL = """#!/bin/sh
only=
while [ "$1" != --save ]; do
    [ "$1" = --tool ] && tool=$2
    case "$1" in --kernel-name | --launch-count) only="$only:$2" ;; esac
    shift
done
file=$2; shift 2
"$@"
echo "$tool$only" >> "{log}"
[ -e "$tool.says" ] && cat "$tool.says"
if [ ! -e "$tool.none" ]; then
    if [ -e "$tool.xml" ]; then cp "$tool.xml" "$file"; else echo "<ComputeSanitizerOutput/>" > "$file"; fi
fi
if [ -e "$tool.code" ]; then exit "$(cat "$tool.code")"; fi
if [ -e "$tool.xml" ]; then exit 97; fi
"""


def record(line: int, text: str = "Invalid __global__ write of size 4 bytes", thread: int = 3, host: int = 4) -> str:
    return f"""<record><kind>Precise</kind><level>Error</level>
  <who><threadIdx><x>{thread}</x><y>0</y><z>0</z></threadIdx></who>
  <what><text>{text}</text><accessAddress>0x7f{thread}00</accessAddress></what>
  <where><func>fill(float *, int)</func><path>PLACE/main.cu</path><line>{line}</line><pc>0x60</pc></where>
  <hostStack><saveLocation>kernel launch</saveLocation>
    <frame><func>cudaLaunchKernel</func><module>libcudart.so</module></frame>
    <frame><func>main</func><path>PLACE/main.cu</path><line>{host}</line><module>app</module></frame></hostStack></record>"""


class World:
    """Two versions, and what the tool reports of each."""

    def __init__(self, root: Path) -> None:
        self.root, self.place, self.log = root, root / "place", root / "runs"
        self.tool = root / "compute-sanitizer"
        self.tool.write_text(TOOL.replace("{log}", str(self.log)))
        self.tool.chmod(0o755)
        self.versions = [self._version(name) for name in ("one", "two")]
        self.gate = MemoryCheck(self.tool, root)

    def _version(self, name: str) -> Built:
        tree = self.root / name
        tree.mkdir()
        (tree / "main.cu").write_text(SOURCE)
        (tree / "app").write_text("#!/bin/sh\necho ran\n")
        (tree / "app").chmod(0o755)
        return Built(name, tree, (str(self.place / "app"),), 1.0, device_code=name, place=self.place, shown="prog")

    def reports(self, which: int, tool: str, *records: str) -> None:
        text = f"<ComputeSanitizerOutput>{''.join(records)}</ComputeSanitizerOutput>"
        (self.versions[which].tree / f"{tool}.xml").write_text(text.replace("PLACE", str(self.place)))

    def write(self, which: int, name: str, text: str = "") -> None:
        (self.versions[which].tree / name).write_text(text)

    @contextlib.contextmanager
    def placed(self, built: Built) -> Iterator[Path]:
        built.tree.rename(self.place)
        try:
            yield self.place
        finally:
            self.place.rename(built.tree)

    def judge(
        self, *tools: str, new_shapes: frozenset[str] | None = None, project: Project | None = None
    ) -> GateResult:
        before, after = self.versions
        return self.gate(self, before, after, project or Project(), tools, Case(), new_shapes)

    @property
    def ran(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_nothing_reported_is_a_pass_and_the_original_is_checked_once(world: World) -> None:
    result = world.judge()
    assert (result.state, result.findings) == (GateState.PASSED, ())
    assert set(result.evidence["tools"]) == {"memcheck", "initcheck", "racecheck", "synccheck"}
    world.judge()
    assert len(world.ran) == 8
    world.versions[1] = replace(world.versions[1], name="three")
    world.judge()
    assert len(world.ran) == 12


def test_a_new_report_fails_at_its_line_and_ends_the_gate(world: World) -> None:
    world.reports(1, "initcheck", record(3), record(3, thread=9))
    result = world.judge()
    assert result.state is GateState.FAILED
    assert (result.findings[0].path, result.findings[0].line, result.findings[0].baseline) == ("prog/main.cu", 3, False)
    assert result.findings[0].what == "initcheck: Invalid __global__ write of size 4 bytes in fill(float *, int)"
    assert len(result.findings) == 1 and world.ran == ["memcheck", "memcheck", "initcheck", "initcheck"]
    assert "racecheck" in result.evidence["not_run"]


def test_what_the_original_has_too_is_told_and_not_held_against_the_version(world: World) -> None:
    """Its line moved, its threads and addresses are others."""
    world.reports(0, "memcheck", record(3))
    world.write(1, "main.cu", "// new\n// lines\n" + SOURCE)
    world.reports(1, "memcheck", record(5, thread=17, host=6))
    result = world.judge()
    assert result.state is GateState.PASSED
    assert [(f.line, f.baseline) for f in result.findings] == [(5, True)]
    assert result.evidence["tools"]["memcheck"] == {
        "reports": [1, 1],
        "new": 0,
        "seconds": [pytest.approx(0, abs=20)] * 2,
    }


@pytest.mark.parametrize(
    "other",
    [record(2), record(3, text="Invalid __global__ read of size 4 bytes"), record(3).replace("fill(", "flip(")],
    ids=["another line", "another access", "another kernel"],
)
def test_a_report_that_is_not_the_originals(world: World, other: str) -> None:
    world.reports(0, "memcheck", record(3))
    world.reports(1, "memcheck", other)
    assert world.judge("memcheck").state is GateState.FAILED


def test_notes_are_no_reports(world: World) -> None:
    world.reports(1, "racecheck", record(3).replace("Error", "Info"))
    world.write(1, "racecheck.code", "0")
    assert world.judge().state is GateState.PASSED


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"memcheck.none": "", "memcheck.says": "========= Error: No attachable process found. Exiting"},
            "No attachable",
        ),
        ({"memcheck.none": ""}, "wrote no report"),
        ({"memcheck.xml": "<ComputeSanitizerOutput><record>"}, "cannot be read"),
        ({"memcheck.xml": "<Other/>"}, "cannot be read"),
        ({"memcheck.code": "97"}, "do not agree"),  # the program wrote the report file
        (
            {"memcheck.xml": f"<ComputeSanitizerOutput>{record(3)}</ComputeSanitizerOutput>", "memcheck.code": "0"},
            "not agree",
        ),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_tool_that_fails_proves_nothing(world: World, which: int, files: dict[str, str], said: str) -> None:
    for name, text in files.items():
        world.write(which, name, text)
    result = world.judge("memcheck")
    assert result.state is GateState.INCONCLUSIVE and said in result.reason
    assert ("the original", "the version")[which] in result.reason


def test_a_tool_that_does_not_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(1, "app", "#!/bin/sh\nsleep 60\n")
    result = world.judge("memcheck", project=Project(run=RunSection(timeout=0.05)))
    assert result.state is GateState.INCONCLUSIVE and "limit of seconds" in result.reason


def test_kernels_that_are_the_same_are_not_looked_into_again(world: World) -> None:
    world.versions[1] = replace(world.versions[1], device_code="one")
    result = world.judge(new_shapes=frozenset())
    assert result.state is GateState.PASSED and "racecheck" not in world.ran
    assert result.evidence["not_run"]["racecheck"].startswith("not run again: same device code")


@pytest.mark.parametrize(
    ("change", "new_shapes"),
    [({"device_code": "one"}, None), ({"device_code": "one"}, frozenset({"not_ours"})), ({}, frozenset()),
     ({"device_functions": "other"}, frozenset()), ({"device_code": "one", "compiles_at_run_time": True}, frozenset())],
)  # fmt: skip
def test_kernels_that_may_differ_are_looked_into(
    world: World, change: dict[str, object], new_shapes: frozenset[str] | None
) -> None:
    world.versions[1] = replace(world.versions[1], **change)  # type: ignore[arg-type]
    assert world.judge(new_shapes=new_shapes).state is GateState.PASSED and world.ran.count("racecheck") == 2


def kernels(**code: str) -> dict[str, Resources]:
    """Kernels by name (`a__int` is `a(int)`), with what names their code."""
    return {name.replace("__int", "(int)"): Resources(8, 0, 0, 0, c) for name, c in code.items()}


def test_only_kernels_that_differ_are_looked_into(world: World) -> None:
    one, two = world.versions
    world.versions = [
        replace(one, resources=kernels(scale__int="1", shift__int="1", plain="1", gone__int="1")),
        replace(two, resources=kernels(scale__int="1", shift__int="2", plain="1", fused__int="1")),
    ]
    result = world.judge(new_shapes=frozenset({"plain"}))
    ran = [line for line in world.ran if line.startswith("racecheck")]
    kernel = "kernel_substring="
    assert ran == [
        f"racecheck:{kernel}4gone:{kernel}plain:{kernel}5shift:{LAUNCHES}",
        f"racecheck:{kernel}5fused:{kernel}plain:{kernel}5shift:{LAUNCHES}",
    ]
    assert "memcheck" in world.ran  # looks at all
    looked = result.evidence["tools"]["racecheck"]
    assert (looked["kernels"], looked["launches"]) == (["fused", "plain", "shift"], f"the first {LAUNCHES}")


def test_an_original_without_the_kernels_that_differ_is_not_looked_into(world: World) -> None:
    one, two = world.versions
    world.versions = [
        replace(one, resources=kernels(scale__int="1")),
        replace(two, resources=kernels(scale__int="1", fused__int="1")),
    ]
    world.reports(1, "racecheck", record(3))
    result = world.judge(new_shapes=frozenset({"fused"}))
    assert result.state is GateState.FAILED and sum(line.startswith("racecheck") for line in world.ran) == 1


def test_a_kernel_that_cannot_be_chosen_by_its_name_leaves_all_to_be_looked_into(world: World) -> None:
    one, two = world.versions
    world.versions = [replace(one, resources=kernels(_Z1av="1")), replace(two, resources=kernels(_Z1av="2"))]
    world.judge(new_shapes=frozenset())
    assert world.ran.count("racecheck") == 2


def test_versions_without_device_code_are_not_said_to_have_the_same(world: World) -> None:
    world.versions = [replace(v, device_code="") for v in world.versions]
    world.judge(new_shapes=frozenset())
    assert world.ran.count("racecheck") == 2


def test_a_part_of_the_tools_is_no_pass(world: World) -> None:
    result = world.judge("memcheck")
    assert result.state is GateState.UNTESTED and "racecheck" in result.reason
    world.gate = MemoryCheck(None, world.root)
    assert world.judge().state is GateState.UNTESTED


def recorded(tool: str) -> bytes:
    """Made by compute-sanitizer 2025.3 on an H200, of a program with planted errors; paths shortened."""
    return (Path(__file__).parents[1] / "fixtures" / "sanitizer" / f"{tool}.xml").read_bytes()


@pytest.mark.parametrize(
    ("tool", "text", "kernel", "lines"),
    [
        (
            "memcheck",
            "Invalid __global__ write of size 4 bytes is potentially accessed before it is allocated",
            "copy",
            {12},
        ),
        ("initcheck", "Uninitialized __global__ memory read of size 4 bytes", "copy", {12}),
        ("racecheck", "Race condition, Write, Read", "shared_race", {9, 10}),
        ("synccheck", "Barrier error, Divergent thread(s) in warp", "bad_sync", {14}),
    ],
)
def test_reports_as_the_tool_writes_them(tool: str, text: str, kernel: str, lines: set[int]) -> None:
    reports = read_reports(recorded(tool), tool)
    first = reports[0]
    assert (first.text, first.kernel, first.level) == (text, kernel, "error")
    assert {(p.path, p.line) for p in first.places if p.on_device} == {("/place/bad.cu", line) for line in lines}
    if tool != "racecheck":
        places = [(p.path, p.line) for p in host_frames(first) if p.path.endswith("bad.cu")]
        assert (
            len(places) == 1 and places[0][0] == "bad.cu"
        )  # main, not the function that the compiler made for the launch
        same = {identity(r, lambda path, line: f"{path}:{line}" if "bad.cu" in path else "") for r in reports[:2]}
        assert len(same) == 1  # two threads, one report


def test_a_launch_that_went_to_another_stream_is_the_same_launch(world: World) -> None:
    world.write(0, "main.cu", SOURCE + "  fill<<<1, 64>>>(p);\n")
    world.write(1, "main.cu", SOURCE + "  fill<<<1, 64, 0, stream>>>(p);\n")
    for which in (0, 1):
        world.reports(which, "memcheck", record(3, host=5))
    assert world.judge("memcheck").findings[0].baseline


def test_more_reports_than_are_kept_of_the_original_prove_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitizer, "MOST", 2)
    world.reports(0, "memcheck", record(3), record(3))
    world.reports(1, "memcheck", record(2))
    assert world.judge("memcheck").state is GateState.INCONCLUSIVE


def test_documents_that_declare_entities_are_refused() -> None:
    with pytest.raises(Unreadable):
        read_reports(b'<!DOCTYPE x [<!ENTITY a "b">]><ComputeSanitizerOutput/>', "memcheck")
