"""What stitchcuda.toml says: values, defaults, and every mistake by its key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stitchcuda.analysis.contract.project import BuildSection, Project
from stitchcuda.analysis.contract.project_text import parse_project

FULL = """
[build]
command = "cmake --build build -j"
directory = "out"
incremental = false
[run]
command = "out/app --n {size} --seed {seed}"
timeout = 5
env = { OMP_NUM_THREADS = "4" }
sizes = ["4096", 5000]
seeds = [1, 2]
[observe]
files = ["out/*.bin"]
ignore = ["elapsed .* ms"]
[contract]
intent = "p99 latency under 8 ms"
scope = ["forward"]
[llm]
never_send = ["secrets/**"]
[check]
severity = { leak = "warning" }
"""


def test_every_section_is_read() -> None:
    project, problems = parse_project(FULL)
    assert problems == ()
    assert project.build == BuildSection("cmake --build build -j", "out", False)
    assert (project.run.timeout, project.run.sizes, project.run.seeds) == (5.0, ("4096", "5000"), (1, 2))
    assert (project.run.env, project.observe.files) == ({"OMP_NUM_THREADS": "4"}, ("out/*.bin",))
    assert (project.contract.scope, project.check.severity) == (("forward",), {"leak": "warning"})
    inside = "[tool.black]\nline-length = 9\n" + FULL.replace("\n[", "\n[tool.stitchcuda.")
    assert parse_project(inside, pyproject=True) == (project, ())
    assert parse_project("[tool.black]\nx = 1\n", pyproject=True) == (Project(), ())
    assert parse_project("") == (Project(), ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[run]\ntimeout = -1", "run.timeout: expected seconds, above 0 and at most 86400, found -1"),
        ("[run]\ntimeout = true", "run.timeout: expected seconds, above 0 and at most 86400, found True"),
        ("[run]\ntimeuot = 3", "run.timeuot: unknown; the keys are command, directory, timeout, env, sizes, seeds"),
        ("[runs]\nx = 1", "runs: unknown; the sections are build, run, observe, contract, llm, check"),
        ("run = 3", "run: expected a table, found 3"),
        ("[run]\nenv = { A = '1', N = 4 }", "run.env: expected text for N, found 4"),
        ("[run]\nenv = 4", "run.env: expected a table of texts by variable, found 4"),
        ("[run]\ndirectory = '/etc'", "run.directory: expected a folder inside the program, found '/etc'"),
        (
            "[build]\ndirectory = 'a/../../b'",
            "build.directory: expected a folder inside the program, found 'a/../../b'",
        ),
        ("[observe]\nignore = ['(']", "observe.ignore: expected regular expressions ("),
        ("[observe]\nbuffers = 'all'", "observe.buffers: expected one of host, none, found 'all'"),
        ("[run]\nseeds = [1.5]", "run.seeds: expected a list of whole numbers, found [1.5]"),
        ("[run\n", "not valid TOML: "),
    ],
)
def test_a_mistake_is_told_and_the_rest_counts(text: str, told: str) -> None:
    project, problems = parse_project(text + "\n")
    (problem,) = problems
    assert str(problem).startswith(told)
    assert project == Project()
    kept, _ = parse_project(
        text + "\n[contract]\nscope = ['f']\n" if "run = 3" not in text and "[run\n" not in text else ""
    )
    assert kept.contract.scope in (("f",), ())


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    parse_project(text)
    parse_project(f'[run]\ncommand = "{text}"', pyproject=True)


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*.bin", "out/../../x", "**", "C:/x", "\\\\x"])
def test_patterns_of_files_stay_below_the_folder(pattern: str) -> None:
    project, problems = parse_project(f"[observe]\nfiles = ['{pattern}']")
    assert project.observe.files == () and [p.key for p in problems] == ["observe.files"]
    assert parse_project('[observe]\nfiles = ["**/*", "a b/*.txt", ".hidden"]')[1] == ()


def test_a_command_with_an_open_quote_is_said_at_once() -> None:
    assert [p.key for p in parse_project('[run]\ncommand = "./a \'b"')[1]] == ["run.command"]
