"""Baselines: what is listed stays known while the code around it changes, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_check import CLEAN, RACE, Run, check, put

__all__ = ["check"]
TWICE = RACE.replace(
    "    cudaDeviceSynchronize();",
    "    cudaDeviceSynchronize();\n    produce<<<1, 256, 0, a>>>(x);\n"
    "    /* größer */ consume<<<1, 256, 0, b>>>(x, y);\n    cudaDeviceSynchronize();",
)
FUNCTION = """
void other(float* p, float* q, cudaStream_t a) {
    produce<<<1, 256, 0, a>>>(p);
    consume<<<1, 256, 0, a>>>(p, q);
}
"""
MAIN = "int main() {"


def known(run: Run, text: str, path: str = "a.cu") -> None:
    put(path, text)
    assert run(path, "--baseline", "known.json", "--update-baseline")[0] == 0


def codes(run: Run, path: str = "a.cu") -> list[str]:
    return [f["code"] for f in json.loads(run(path, "--baseline", "known.json", "--format", "json")[1])["findings"]]


@pytest.mark.parametrize(
    "moved",
    [
        "// one\n// two\n" + RACE,
        RACE.replace(MAIN, FUNCTION + MAIN),
        RACE.replace(MAIN, MAIN + "\n\n    int unrelated = 0;"),
        RACE.replace("    /* größer */ consume", "\t/* größer */   consume"),
        RACE.replace("\n", "\r\n"),
        "\ufeff" + RACE,
        RACE.replace("int main() {", "static int side(int x) { return x + 1; }\nint main() {"),
        RACE.replace("cudaMalloc(&x, 1024);", "cudaMalloc(&x, 2048);"),
    ],
    ids=[
        "lines-above",
        "function-above",
        "lines-in-it",
        "indentation",
        "line-ends",
        "mark",
        "helper",
        "other-statement",
    ],
)
def test_edits_elsewhere_keep_it_known(check: Run, moved: str) -> None:
    known(check, RACE)
    put("a.cu", moved.encode())
    assert codes(check) == []


def test_functions_that_change_places(check: Run) -> None:
    head, main = RACE.split(MAIN)
    step = "static void step(float* x, float* y, cudaStream_t a, cudaStream_t b) {\n    produce<<<1, 256, 0, a>>>(x);\n    consume<<<1, 256, 0, b>>>(x, y);\n}\n"
    lines = [line for line in main.splitlines() if "<<<" not in line]
    at = lines.index("    cudaDeviceSynchronize();")
    body = MAIN + "\n".join([*lines[:at], "    step(x, y, a, b);", *lines[at:]]) + "\n"
    known(check, head + step + body)
    declared = step.partition(" {")[0] + ";\n"
    put("a.cu", head + declared + body + FUNCTION + step)
    assert codes(check) == []


def test_a_second_one_that_looks_the_same_is_new(check: Run) -> None:
    known(check, RACE)
    put("a.cu", TWICE)
    assert codes(check) == ["stream-race-raw"]
    known(check, TWICE)
    assert codes(check) == []
    put("a.cu", RACE)
    assert codes(check) == []


def test_the_same_hazard_in_another_function_or_file_is_new(check: Run) -> None:
    known(check, RACE)
    put("a.cu", RACE.replace(MAIN, "int run() {") + "int main() { return run(); }\n")
    assert codes(check) == ["stream-race-raw"]
    put("b.cu")
    assert codes(check, "b.cu") == ["stream-race-raw"]


def test_a_changed_line_is_looked_at_again(check: Run) -> None:
    known(check, RACE)
    put("a.cu", RACE.replace("256, 0, b>>>", "128, 0, b>>>"))
    assert codes(check) == ["stream-race-raw"]


def test_how_the_path_is_written_does_not_matter(check: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(check, RACE, "src/a.cu")
    assert codes(check, "./src//a.cu") == codes(check, ".") == codes(check, "src/../src/a.cu") == []


def test_severity_and_confidence_are_not_part_of_it(check: Run) -> None:
    known(check, RACE)
    put("stitchcuda.toml", '[check]\nseverity = { stream-race-raw = "warning" }\n')
    assert codes(check) == []


def test_a_fixed_baseline_shrinks(check: Run) -> None:
    known(check, TWICE)
    put("a.cu", CLEAN)
    check("a.cu", "--baseline", "known.json", "--update-baseline")
    assert json.loads(Path("known.json").read_text())["findings"] == []


def test_fixes_leave_what_is_known_alone(check: Run) -> None:
    known(check, RACE)
    assert check("a.cu", "--baseline", "known.json", "--fix")[2] == "fixed 0 findings in 0 files\n"
    put("b.cu")
    assert check(".", "--baseline", "known.json", "--fix")[2].endswith("\nfixed 1 finding in 1 file\n")
    assert Path("a.cu").read_text() == RACE
