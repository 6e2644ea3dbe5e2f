"""`check --fix`: several fixes, fixes that meet, and files that are hard to write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stitchcuda.server.cli import autofix
from stitchcuda.server.report.rows import EditRow

from tests.cli.test_check import CLEAN, RACE, Run, check, put

__all__ = ["check"]
AGAIN = "    produce<<<1, 256, 0, a>>>(x);\n    /* größer */ consume<<<1, 256, 0, b>>>(x, y);\n"
SYNC = "    cudaDeviceSynchronize();\n"
TWICE = RACE.replace(SYNC, SYNC + AGAIN + SYNC)


def test_two_that_look_the_same(check: Run) -> None:
    file = put("a.cu", TWICE)
    code, out, err = check("a.cu", "--fix")
    assert (code, out) == (0, "") and err.endswith("\nfixed 2 findings in 1 file\n")
    assert file.read_text().count("cudaStreamWaitEvent(") == 2
    assert check("a.cu")[:2] == (0, "")


def test_fixes_that_meet_in_one_place(check: Run) -> None:
    """Two readers of one write, and a wait that the second fix makes needless: each fix is made for the text as it is then."""
    second = (
        RACE.replace("(x, y);\n    cuda", "(x, y);\n    consume<<<1, 256, 0, c>>>(x, z);\n    cuda")
        .replace("*x, *y;", "*x, *y, *z;")
        .replace("t a, b;", "t a, b, c;")
        .replace(
            "    cudaStreamCreate(&b);\n",
            "    cudaStreamCreate(&b);\n    cudaStreamCreate(&c);\n    cudaMalloc(&z, 1024);\n",
        )
    )
    file = put("a.cu", second.replace(SYNC, SYNC + SYNC))
    code, out, err = check("a.cu", "--fix")
    assert (code, out) == (0, "") and err.endswith("in 1 file\n")
    assert file.read_text().count(SYNC) == 1
    text = file.read_text()
    assert check("a.cu", "--fix")[2] == "fixed 0 findings in 0 files\n" and file.read_text() == text


def test_edits_that_overlap_are_no_fix() -> None:
    texts = {"a.cu": b"0123456789"}
    assert autofix.apply(texts, [EditRow("a.cu", 2, 5, "x"), EditRow("a.cu", 4, 6, "y")]) is None
    assert autofix.apply(texts, [EditRow("a.cu", 9, 12, "x")]) is None
    assert autofix.apply(texts, [EditRow("a.cu", 5, 5, "y"), EditRow("a.cu", 2, 5, "x")]) == {"a.cu": b"01xy56789"}


def test_line_ends_stay_what_they_are(check: Run) -> None:
    file = put("a.cu", TWICE.replace("\n", "\r\n").encode())
    assert check("a.cu", "--fix")[0] == 0
    content = file.read_bytes()
    assert content.count(b"\n") == content.count(b"\r\n") > TWICE.count("\n")


def test_text_that_is_not_utf8_survives(check: Run) -> None:
    file = put("a.cu", RACE.encode("latin-1"))
    assert check("a.cu", "--fix")[0] == 0
    assert b"/* gr\xf6\xdfer */" in file.read_bytes() and b"cudaStreamWaitEvent" in file.read_bytes()


def test_no_newline_at_the_end_and_a_link(check: Run) -> None:
    real = put("real/a.cu", RACE.rstrip("\n"))
    Path("link.cu").symlink_to(real.resolve())
    assert check("link.cu", "--fix")[0] == 0
    assert Path("link.cu").is_symlink() and real.read_text().endswith("}") and "cudaStreamWaitEvent" in real.read_text()


def test_a_write_protected_file(check: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put("a.cu")
    other = put("b.cu")
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("a.cu") and allowed(path, mode))
    code, _, err = check("a.cu", "b.cu", "--fix")
    assert code == 2 and err == "stitchcuda: a.cu: cannot be written (write-protected)\n"
    assert file.read_text() == other.read_text() == RACE


def test_a_file_that_changes_meanwhile(check: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put("a.cu")
    fix = autofix.fix

    def slow(*words: object) -> autofix.Fixed:
        result = fix(*words)  # type: ignore[arg-type]
        file.write_text(RACE + "// typed meanwhile\n")
        return result

    monkeypatch.setattr(autofix, "fix", slow)
    code, _, err = check("a.cu", "--fix")
    assert code == 2 and err == "stitchcuda: a.cu: has been changed since it was read; nothing was written\n"
    assert file.read_text() == RACE + "// typed meanwhile\n"


def test_a_disk_that_fills_up_leaves_all_files_as_they_were(check: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [RACE, RACE.replace("int main()", "int other()")]  # of one program
    files = [put("a.cu", texts[0]), put("b.cu", texts[1])]
    replace = os.replace
    calls = []

    def full(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    code, _, err = check("a.cu", "b.cu", "--fix")
    assert code == 2 and "No space left on device" in err
    assert [f.read_text() for f in files] == texts and sorted(os.listdir(".")) == ["a.cu", "b.cu"]


def test_only_files_that_were_asked_for_are_changed(check: Run) -> None:
    """The fix of a hazard in a header that was only read for its includer's sake is left to the user."""
    head, main = RACE.split("int main() {")
    body = "    produce<<<1, 256, 0, a>>>(x);\n    consume<<<1, 256, 0, b>>>(x, y);\n"
    header = put(
        "include/run.cuh",
        f"#pragma once\n{head}inline void run(float* x, float* y, cudaStream_t a, cudaStream_t b) {{\n{body}}}\n",
    )
    lines = [line for line in main.splitlines() if "<<<" not in line]
    at = lines.index(SYNC.rstrip("\n"))
    put(
        "app/main.cu",
        '#include "../include/run.cuh"\nint main() {' + "\n".join([*lines[:at], "    run(x, y, a, b);", *lines[at:]]),
    )
    before = header.read_text()
    assert check("app/main.cu", "--fix")[0] == 1
    assert header.read_text() == before
    assert check(".", "--fix")[0] == 0
    assert "cudaStreamWaitEvent" in header.read_text()


def test_nothing_to_fix(check: Run) -> None:
    file = put("a.cu", CLEAN)
    when = file.stat().st_mtime_ns
    assert check("a.cu", "--fix") == (0, "", "fixed 0 findings in 0 files\n")
    assert file.stat().st_mtime_ns == when
