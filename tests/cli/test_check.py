"""`stitchcuda check`: what it finds, prints and returns, and what it says about input that it cannot use."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.server.cli import dispatch

RACE = """\
#include <cuda_runtime.h>
__global__ void produce(float* out) { out[threadIdx.x] = 1; }
__global__ void consume(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
int main() {
    float *x, *y;
    cudaStream_t a, b;
    cudaMalloc(&x, 1024);
    cudaMalloc(&y, 1024);
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    produce<<<1, 256, 0, a>>>(x);
    /* größer */ consume<<<1, 256, 0, b>>>(x, y);
    cudaDeviceSynchronize();
    return 0;
}
"""
CLEAN = RACE.replace("0, b>>>", "0, a>>>")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `check` in an empty directory: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = dispatch.main(["check", *words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err and "internal error" not in captured.out + captured.err
        return code, captured.out, captured.err

    return run


def put(path: str, text: str | bytes = RACE) -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def findings(out: str) -> list[dict[str, Any]]:
    document = json.loads(out)
    assert document["schema"] == 1
    found: list[dict[str, Any]] = document["findings"]
    return found


# ------------------------------------------------------------------------------------------------------------- formats


def test_text_shows_the_line_and_a_caret(check: Run) -> None:
    put("a.cu")
    code, out, err = check("a.cu")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].startswith("a.cu:12:18: error: `consume` on stream `b` reads `x` while `produce` on stream `a`")
    assert lines[0].endswith("[stream-race-raw, certain]")
    assert lines[1] == "   12 |     /* größer */ consume<<<1, 256, 0, b>>>(x, y);"
    assert lines[2] == "      |                  " + "^" * len("consume<<<1, 256, 0, b>>>(x, y)")
    assert lines[-1] == "1 error"


def test_long_lines_are_cut(check: Run) -> None:
    put("a.cu", RACE.replace("/* größer */", "/* " + "x" * 5000 + " */"))
    lines = check("a.cu")[1].splitlines()
    assert "12:5012: error" in lines[0]
    assert len(lines[1]) < 260 and "consume<<<1, 256, 0, b>>>(x, y);" in lines[1]
    start = lines[2].index("^")
    assert lines[1][start:].startswith("consume")


def test_json(check: Run) -> None:
    put("a.cu")
    code, out, _ = check("a.cu", "--format", "json")
    (finding,) = findings(out)
    assert code == 1
    assert set(finding) == {
        "code", "group", "severity", "confidence", "path", "line", "column", "end_line", "end_column", "message",
        "related", "fixes",
    }  # fmt: skip
    place = (finding["path"], finding["line"], finding["column"], finding["end_line"], finding["end_column"])
    assert place == ("a.cu", 12, 18, 12, 18 + len("consume<<<1, 256, 0, b>>>(x, y)"))
    assert set(finding["related"][0]) == {"path", "line", "column", "message"}
    assert all(isinstance(title, str) for title in finding["fixes"])


def test_sarif(check: Run) -> None:
    put("my dir/a.cu")
    put("empty.cu", "")
    code, out, _ = check("my dir/a.cu", "empty.cu", "--format", "sarif")
    document = json.loads(out)
    (run,) = document["runs"]
    (result,) = run["results"]
    assert code == 1
    assert document["version"] == "2.1.0"
    assert result["ruleId"] == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "stream-race-raw"
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "my%20dir/a.cu"
    assert location["region"]["startColumn"] == 18
    assert result["partialFingerprints"]["stitchcuda/v1"]
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert [n["message"]["text"] for n in notes] == ["the file is empty: nothing to check"]


def test_github(check: Run) -> None:
    put("a.cu")
    _, out, _ = check("a.cu", "--format", "github")
    assert out.startswith("::error file=a.cu,line=12,endLine=12,col=18,endColumn=49,title=stream-race-raw::`consume`")


# ----------------------------------------------------------------------------------------------------------- selection


def test_exit_codes_follow_the_bar(check: Run) -> None:
    put("race.cu")
    put("ok.cu", CLEAN)
    hint = CLEAN.replace("    return 0;", "    cudaDeviceSynchronize();\n    return 0;")
    put("hint.cu", hint)
    assert check("ok.cu")[0] == 0
    assert check("race.cu")[0] == 1
    assert check("hint.cu")[:1] == (0,)
    assert check("hint.cu", "--fail-on", "hint")[0] == 1
    assert check("race.cu", "--ignore", "stream-race-raw")[0] == 0
    assert check("race.cu", "--select", "free-in-flight,sync-in-loop")[0] == 0
    assert check("race.cu", "--select", "all")[0] == 1


def test_unknown_code(check: Run) -> None:
    put("a.cu")
    code, _, err = check("a.cu", "--select", "stream-race-row")
    assert (code, err) == (2, "stitchcuda: no finding has the code 'stream-race-row'; did you mean stream-race-raw?\n")


def test_suppressions(check: Run) -> None:
    line = "    /* größer */ consume"
    put("same.cu", RACE.replace("(x, y);", "(x, y);  // stitchcuda: ignore[stream-race-raw] a benchmark"))
    put("above.cu", RACE.replace(line, f"    // stitchcuda: ignore[stream-race-raw]\n{line}"))
    put("other.cu", RACE.replace("(x, y);", "(x, y);  // stitchcuda: ignore[free-in-flight]"))
    assert check("same.cu", "above.cu")[0] == 0
    assert check("other.cu")[0] == 1


def test_baseline(check: Run) -> None:
    put("a.cu")
    assert check("a.cu", "--update-baseline")[0] == 2
    assert check("a.cu", "--baseline", "known.json")[0] == 2
    assert check("a.cu", "--baseline", "known.json", "--update-baseline")[0] == 0
    assert check("a.cu", "--baseline", "known.json")[:2] == (0, "")
    put("a.cu", "// one more line\n" + RACE)
    assert check("a.cu", "--baseline", "known.json")[0] == 0
    assert check(".", "--baseline", "known.json")[0] == 0
    put("d/b.cu")
    code, out, _ = check(".", "--baseline", "known.json", "--format", "json")
    assert code == 1 and {f["path"] for f in findings(out)} == {"./d/b.cu"}
    put("known.json", "[]")
    code, _, err = check("a.cu", "--baseline", "known.json")
    assert code == 2 and "not a baseline file" in err


# ----------------------------------------------------------------------------------------------------------------- fix


def test_fix(check: Run) -> None:
    file = put("a.cu")
    file.chmod(0o640)
    code, out, err = check("a.cu", "--fix")
    assert (code, out) == (0, "")
    assert err == (
        "a.cu:12: fixed stream-race-raw: Make stream `b` wait for `produce` with an event (host does not wait)\n"
        "fixed 1 finding in 1 file\n"
    )
    text = file.read_text()
    assert "cudaEventRecord(x_ready, a);" in text and "cudaStreamWaitEvent(b, x_ready, 0);" in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert os.listdir(".") == ["a.cu"]
    assert check("a.cu")[0] == 0


def test_fix_keeps_line_ends_and_mark(check: Run) -> None:
    file = put("a.cu", b"\xef\xbb\xbf" + RACE.replace("\n", "\r\n").encode())
    assert check("a.cu", "--fix")[0] == 0
    content = file.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf#include") and content.count(b"\n") == content.count(b"\r\n")


def test_fix_respects_suppression_and_selection(check: Run) -> None:
    file = put("a.cu")
    assert check("a.cu", "--fix", "--ignore", "stream-race-raw")[2] == "fixed 0 findings in 0 files\n"
    assert file.read_text() == RACE


# ------------------------------------------------------------------------------------------------------------ programs


def test_calls_across_files(check: Run) -> None:
    head, main = RACE.split("int main() {")
    body = "void run(float* x, float* y, cudaStream_t a, cudaStream_t b);"
    split = head + "void run(float* x, float* y, cudaStream_t a, cudaStream_t b) {\n    produce<<<1, 256, 0, a>>>(x);\n"
    put("lib/run.cu", split + "    consume<<<1, 256, 0, b>>>(x, y);\n}\n")
    put("lib/run.h", f"#pragma once\n#include <cuda_runtime.h>\n{body}\n")
    lines = [line for line in main.splitlines() if "<<<" not in line]
    lines.insert(-3, "    run(x, y, a, b);")
    put("app/main.cu", '#include "../lib/run.h"\nint main() {' + "\n".join(lines))
    _, out, _ = check(".", "--format", "json")
    assert {(f["path"], f["code"], f["confidence"]) for f in findings(out)} == {
        ("./lib/run.cu", "stream-race-raw", "certain")
    }


def test_directories_skip_hidden_build_and_dependencies(check: Run) -> None:
    for folder in ("build", ".hidden", "node_modules", "sub"):
        put(f"{folder}/a.cu")
    _, out, _ = check(".", "--format", "json")
    assert {f["path"] for f in findings(out)} == {"./sub/a.cu"}


def test_order_and_repetition_do_not_matter(check: Run) -> None:
    put("a.cu")
    put("b.cu")
    once = check("a.cu", "b.cu", "--format", "json")[1]
    assert check("b.cu", "a.cu", "a.cu", "--format", "json")[1] == once


def test_the_number_of_processes_does_not_matter(check: Run) -> None:
    put("shared.cuh", RACE.replace("int main", "inline int together"))
    for name in "abcdefgh":
        put(f"{name}/main.cu", '#include "../shared.cuh"\n' + RACE.replace("produce", f"produce_{name}"))
        put(f"{name}/clean.cu", CLEAN.replace("int main", "int other"))
    put(
        "i/main.cu",
        '#include "../shared.cuh"  // stitchcuda: ignore[stream-race-raw] none here\nint main() { together(); }\n',
    )
    once = check(".", "--format", "json")
    assert {f["path"][2:] for f in findings(once[1])} == {
        "shared.cuh",
        "i/main.cu",
        *(f"{n}/main.cu" for n in "abcdefgh"),
    }
    for jobs in ("1", "2", "4"):
        assert check(".", "--format", "json", "--jobs", jobs) == once
    assert check(".", "--jobs", "0")[0] == 2


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("missing.cu", None, 2, "missing.cu: note: no such file or directory: not checked"),
        ("notes.txt", "hello", 2, "not a CUDA, C++ or Python source (known: .cu"),
        ("plain.cpp", "int main() {}\n", 0, "plain.cpp: note: uses no CUDA: nothing to check"),
        ("script.py", "print(1)\n", 0, "script.py: note: uses no CuPy: nothing to check"),
        ("binary.cu", b"\x7fELF\0\0\1", 2, "binary.cu: note: a binary file: not checked"),
        ("wide.cu", "int x;".encode("utf-16"), 2, "wide.cu: note: UTF-16 text; save it as UTF-8: not checked"),
        ("empty.cu", "", 0, "empty.cu: note: the file is empty: nothing to check"),
        ("big.cu", b"// x\n" * 4_200_000, 2, "big.cu: note: 20 MiB, more than the 8 MiB that are read: not checked"),
        ("latin.cu", "// größer\nint x;\n".encode("latin-1"), 0, "latin.cu:1: note: not UTF-8 text: checked all the same"),
    ],
)  # fmt: skip
def test_bad_input(check: Run, name: str, content: str | bytes | None, code: int, message: str) -> None:
    if content is not None:
        put(name, content)
    got, out, err = check(name)
    assert (got, out) == (code, "")
    assert message in err and len(err.splitlines()) == 1
    document = json.loads(check(name, "--format", "json")[1])
    assert document["findings"] == [] and len(document["problems"]) == 1


def test_a_file_whose_program_uses_cuda_is_checked_though_it_names_none(check: Run) -> None:
    """Its findings are reported, so it is not said that there is nothing to check."""
    put(
        "wrap.h",
        "#include <cuda_runtime.h>\ninline void make(float** x) { cudaMalloc(x, 64); }\ninline void drop(float* x) { cudaFree(x); }\n",
    )
    put("engine.h", '#include "wrap.h"\n')
    put("main.cpp", '#include "engine.h"\nint main(int, char**) { float* x; make(&x); drop(x); drop(x); }\n')
    code, out, err = check("main.cpp")
    assert (code, err) == (1, "") and "double-free" in out


def test_half_typed_file_is_checked_as_far_as_it_goes(check: Run) -> None:
    for length in range(0, len(RACE), 37):
        put("a.cu", RACE.encode()[:length].decode(errors="ignore"))
        assert check("a.cu")[0] in (0, 1)
    put("a.cu", RACE.replace("cudaDeviceSynchronize();", "cudaDeviceSynchron"))
    assert check("a.cu")[0] == 1


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a file that this user cannot read")
def test_unreadable_file(check: Run) -> None:
    put("a.cu").chmod(0)
    code, _, err = check("a.cu")
    assert code == 2 and err == "a.cu: note: cannot be read (Permission denied): not checked\n"


def test_read_errors_are_told(check: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.cu")

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    code, _, err = check("a.cu")
    assert code == 2 and err == "a.cu: note: cannot be read (Permission denied): not checked\n"


def test_empty_directory(check: Run) -> None:
    Path("d").mkdir()
    code, _, err = check("d")
    assert code == 2 and "no CUDA, C++ or Python sources in this directory" in err


def test_bad_files_in_a_directory_do_not_stop_the_others(check: Run) -> None:
    put("d/a.cu")
    put("d/b.cu", b"\0\1\2")
    code, out, err = check("d")
    assert code == 1 and "d/a.cu:12:18" in out and "d/b.cu: note: a binary file" in err


def test_colour_only_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text(RACE)
    command = [sys.executable, "-P", "-m", "stitchcuda.server.cli", "check", "a.cu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "\x1b" not in done.stdout
