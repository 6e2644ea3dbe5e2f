"""`[check]` of stitchcuda.toml, as `check` honours it in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_check import CLEAN, RACE, Run, check, put

__all__ = ["check"]
HINT = CLEAN.replace("    return 0;", "    cudaDeviceSynchronize();\n    return 0;")
BOTH = RACE.replace("    return 0;", "    cudaDeviceSynchronize();\n    return 0;")


def found(run: Run, *words: str) -> dict[str, str]:
    """Severities by path and code."""
    out = run(*words, "--format", "json")[1]
    return {f"{f['path']} {f['code']}": f["severity"] for f in json.loads(out)["findings"]}


def test_severity_is_honoured_by_every_format_and_the_bar(check: Run) -> None:
    put("a.cu", BOTH)
    put("stitchcuda.toml", '[check]\nseverity = { stream-race-raw = "warning", redundant-sync = "error" }\n')
    assert found(check, "a.cu") == {"a.cu stream-race-raw": "warning", "a.cu redundant-sync": "error"}
    sarif = json.loads(check("a.cu", "--format", "sarif")[1])["runs"][0]["results"]
    assert {r["ruleId"]: r["level"] for r in sarif} == {"stream-race-raw": "warning", "redundant-sync": "error"}
    annotations = check("a.cu", "--format", "github")[1].splitlines()
    assert [line.partition(" ")[0] for line in annotations] == ["::warning", "::error"]
    assert ": warning: " in check("a.cu")[1]
    put("stitchcuda.toml", '[check]\nseverity = { stream-race-raw = "hint" }\n')
    assert check("a.cu")[0] == 0
    put("stitchcuda.toml", '[check]\nseverity = { stream-race-raw = "off" }\n')
    assert found(check, "a.cu") == {"a.cu redundant-sync": "hint"}
    assert found(check, "a.cu", "--select", "stream-race-raw") == {"a.cu stream-race-raw": "error"}


def test_select_and_ignore(check: Run) -> None:
    put("a.cu", BOTH)
    put("stitchcuda.toml", '[check]\nselect = ["performance"]\n')
    assert set(found(check, "a.cu")) == {"a.cu redundant-sync"}
    assert set(found(check, "a.cu", "--select", "stream-race-raw")) == {"a.cu stream-race-raw"}
    assert set(found(check, "a.cu", "--ignore", "redundant-sync")) == set()
    put("stitchcuda.toml", '[check]\nignore = ["redundant-sync"]\n')
    assert set(found(check, "a.cu")) == {"a.cu stream-race-raw"}
    assert set(found(check, "a.cu", "--ignore", "correctness")) == set()
    everything = set(found(check, "a.cu", "--select", "all"))
    assert "a.cu stream-race-raw" in everything and "a.cu redundant-sync" not in everything
    assert set(found(check, "a.cu", "--select", "redundant-sync")) == {"a.cu redundant-sync"}, "named one by one"


def test_excluded_files_are_read_and_not_reported(check: Run) -> None:
    head, main = BOTH.split("int main() {")
    put("third_party/kernels.cuh", "#pragma once\n" + head)
    put("app.cu", '#include "third_party/kernels.cuh"\nint main() {' + main)
    put("third_party/demo.cu", BOTH)
    put("third_party/broken.cu", "#include <cuda_runtime.h>\nint main() { cudaMalloc(; if }\n")
    put("stitchcuda.toml", '[check]\nexclude = ["third_party/"]\n')
    code, out, _ = check(".", "--format", "json")
    assert code == 1 and {f["path"] for f in json.loads(out)["findings"]} == {"./app.cu"}
    assert json.loads(out)["problems"] == []
    assert found(check, "third_party/demo.cu") == {}
    before = Path("third_party/demo.cu").read_text()
    check(".", "--fix")
    assert Path("third_party/demo.cu").read_text() == before


def test_the_nearest_file_counts(check: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    put("a/x.cu", BOTH)
    put("b/x.cu", BOTH)
    put("stitchcuda.toml", '[check]\nignore = ["redundant-sync"]\n')
    put("b/pyproject.toml", '[tool.stitchcuda.check]\nignore = ["stream-race-raw"]\n')
    assert set(found(check, ".")) == {"./a/x.cu stream-race-raw", "./b/x.cu redundant-sync"}
    assert set(found(check, "b")) == {"b/x.cu redundant-sync"}
    assert set(found(check, "a")) == {"a/x.cu stream-race-raw"}
    monkeypatch.chdir("a")
    assert len(found(check, ".")) == 2, "outside of a repository nothing above the folder that the command runs in"
    Path("../.git").mkdir()
    assert set(found(check, ".")) == {"./x.cu stream-race-raw"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[check]\nselct = []", "check.selct: unknown; the keys are severity, select, ignore, exclude"),
        ('[check]\nselect = ["stream-race-row"]', "check.select: no finding has the code 'stream-race-row'; did you mean stream-race-raw?"),
        ('[check]\nignore = "all"', "check.ignore: expected a list of texts, found 'all'"),
        ('[check]\nseverity = { leak = "hint", stream-race-raw = "fatal" }', "check.severity: expected one of error, warning, hint, off for stream-race-raw, found 'fatal'\n"),
        ('[check]\nseverity = { leak = [] }', "check.severity: expected one of error, warning, hint, off for leak, found []\n"),
        ('[check]\nseverity = "hint"', "check.severity: expected a table from code to one of error, warning, hint, off, found 'hint'\n"),
        ('[check]\nseverity = { correctness = "hint" }', "check.severity: no finding has the code 'correctness'"),
        ('[check]\nexclude = ["../x"]', "check.exclude: expected patterns of files below the folder of this file"),
        ("[check", "not valid TOML: "),
    ],
)  # fmt: skip
def test_mistakes_are_errors(check: Run, tmp_path: Path, text: str, told: str) -> None:
    put("a.cu")
    put("stitchcuda.toml", text)
    code, out, err = check("a.cu")
    assert (code, out) == (2, "")
    assert err.startswith(f"stitchcuda: {tmp_path / 'stitchcuda.toml'}: {told}")


def test_codes_of_the_gpu(check: Run) -> None:
    put("a.cu", CLEAN)
    put("stitchcuda.toml", '[check]\nignore = ["sanitizer"]\nseverity = { latency-regression = "error" }\n')
    assert check("a.cu")[0] == 0
    code, _, err = check("a.cu", "--select", "sanitizer")
    assert code == 2 and "sanitizer is not found in the source" in err


def test_groups_on_the_command_line(check: Run) -> None:
    put("a.cu", BOTH)
    assert set(found(check, "a.cu", "--select", "correctness")) == {"a.cu stream-race-raw"}
    assert set(found(check, "a.cu", "--ignore", "performance,style")) == {"a.cu stream-race-raw"}


# ---------------------------------------------------------------------------------------------------------- suppressions


def rows(run: Run, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*words, "--format", "json")[1])["findings"]
    return found


def test_a_comment_in_use_by_one_program_is_in_use(check: Run) -> None:
    """`run.cuh` belongs to two programs; only in one of them is its comment needed."""
    kernels, main = RACE.split("int main() {")
    body = "    produce<<<1, 256, 0, a>>>(x);\n    consume<<<1, 256, 0, b>>>(x, y);  // stitchcuda: ignore[stream-race-raw]\n"
    header = (
        "#pragma once\n"
        + kernels
        + "inline void run(float* x, float* y, cudaStream_t a, cudaStream_t b) {\n"
        + body
        + "}\n"
    )
    lines = [line for line in main.splitlines() if "<<<" not in line]
    call = lines.index("    cudaDeviceSynchronize();")
    program = {
        name: '#include "../run.cuh"\nint main() {' + "\n".join([*lines[:call], f"    run({how});", *lines[call:]])
        for name, how in (("racy", "x, y, a, b"), ("fine", "x, y, a, a"))
    }
    put("run.cuh", header)
    put("fine/main.cu", program["fine"])
    assert [r["code"] for r in rows(check, "fine", "run.cuh")] == ["unused-suppression"]
    put("racy/main.cu", program["racy"])
    assert rows(check, ".") == []
    put("racy/main.cu", program["racy"].replace("(x, y, a, b)", "(x, y, b, b)"))
    assert [(r["code"], r["path"]) for r in rows(check, ".")] == [("unused-suppression", "./run.cuh")]


def test_nothing_is_said_of_a_file_that_is_only_half_understood(check: Run) -> None:
    note = "// stitchcuda: ignore[stream-race-raw]\n"
    put("a.cu", note + CLEAN)
    assert [r["code"] for r in rows(check, "a.cu")] == ["unused-suppression"]
    put("a.cu", note + CLEAN.replace("return 0;", "cudaFree(; if (")[:-2] + "\n__global__ void f( { cudaMalloc <<< }")
    assert [r for r in rows(check, "a.cu") if r["code"] == "unused-suppression"] == []


def test_fix_takes_useless_comments_away(check: Run) -> None:
    text = CLEAN.replace("b>>>(x, y);", "b>>>(x, y);").replace(
        "    return 0;",
        "    // stitchcuda: ignore[nothing-like-it] why\n    return 0;  // stitchcuda: ignore[free-in-flight, redundant-sync] old",
    )
    file = put("a.cu", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    code, _, err = check("a.cu", "--fix")
    assert code == 0 and err.endswith("\nfixed 3 findings in 1 file\n")
    assert file.read_bytes() == b"\xef\xbb\xbf" + CLEAN.replace("\n", "\r\n").encode()


def test_a_misspelt_code_is_written_right_only_where_it_has_something_to_silence(check: Run) -> None:
    file = put("a.cu", RACE.replace("(x, y);", "(x, y);  // stitchcuda: ignore[stream_race_raw] wanted"))
    titles = {r["code"]: r["fixes"] for r in rows(check, "a.cu")}
    assert titles["unknown-suppression"] == ["Write stream-race-raw", "Delete the comment"]
    check("a.cu", "--fix", "--select", "style")
    assert "// stitchcuda: ignore[stream-race-raw] wanted" in file.read_text()
    file = put("b.cu", CLEAN.replace("(x, y);", "(x, y);  // stitchcuda: ignore[stream_race_raw] wanted"))
    check("b.cu", "--fix", "--select", "style")
    assert file.read_text() == CLEAN


def test_comments_about_comments(check: Run) -> None:
    put("a.cu", CLEAN.replace("return 0;", "return 0;  // stitchcuda: ignore[unused-suppression, free-in-flight] kept"))
    assert rows(check, "a.cu") == []
    put("a.cu", CLEAN.replace("return 0;", "return 0;  // stitchcuda: ignore[unknown-suppression, code-of-mine] kept"))
    assert rows(check, "a.cu") == []
    put("a.cu", CLEAN.replace("return 0;", "return 0;  // stitchcuda: ignore[unknown-suppression]"))
    assert [r["code"] for r in rows(check, "a.cu")] == ["unused-suppression"]


def test_python(check: Run) -> None:
    text = (
        "import cupy\n"
        'TEXT = "# stitchcuda: ignore[in-a-string]"\n'
        "def step(n):\n"
        '    """# stitchcuda: ignore[in-a-docstring]"""\n'
        "    a = cupy.zeros(n)  # stitchcuda: ignore[no-such-code]\n"
        "    a += 1  # stitchcuda: ignore[free-in-flight]\n"
        "    return a // 2\n"
        "print(step(4))\n"
    )
    file = put("a.py", text)
    assert [(r["code"], r["line"]) for r in rows(check, "a.py")] == [
        ("unknown-suppression", 5),
        ("unused-suppression", 6),
    ]
    assert check("a.py", "--fix")[0] == 0
    assert "ignore[no-such" not in file.read_text() and "    a += 1\n    return a // 2\n" in file.read_text()
