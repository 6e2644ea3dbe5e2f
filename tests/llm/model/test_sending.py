"""Which files of a program may be sent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from stitchcuda.agent.model.sending import LARGEST_FILE, NeverSend, sendable

CODE = b"__global__ void f() {}\n"


def left_out(root: Path, texts: dict[str, bytes], *rules: NeverSend) -> dict[str, str]:
    found = sendable(root, texts, rules)
    assert {**found.texts, **{left.path: texts[left.path] for left in found.left_out}} == texts
    assert not set(found.texts) & {left.path for left in found.left_out}
    return {left.path: left.why for left in found.left_out}


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("secrets/**", ["secrets/a.cu", "secrets/x/b.cuh", "SECRETS/c.cu"]),
        ("secrets/", ["secrets/a.cu", "secrets/x/b.cuh"]),
        ("*_key.h", ["my_key.h", "a/b/MY_KEY.H"]),
        ("src/*.inc", ["src/a.inc"]),
        ("**/gen/*.cu", ["gen/a.cu", "x/gen/a.cu"]),
        ("**", ["a.cu", "x/y.cu"]),
    ],
)
def test_patterns(pattern: str, paths: list[str], tmp_path: Path) -> None:
    rule = NeverSend((pattern,), tmp_path)
    assert left_out(tmp_path, dict.fromkeys(paths, CODE), rule) == dict.fromkeys(paths, f"never sent: {pattern}")
    if pattern != "**":
        others = ["a.cu", "src/x/a.inc", "secrets.cu", "gen.cu", "key.h", "x/secret/a.cu"]
        assert left_out(tmp_path, dict.fromkeys(others, CODE), rule) == {}


def test_patterns_lie_below_the_file_that_says_them(tmp_path: Path) -> None:
    """The program is a folder inside of the repository whose root says it."""
    program = tmp_path / "src" / "app"
    program.mkdir(parents=True)
    rule = NeverSend(("src/app/private/**",), tmp_path)
    assert set(left_out(program, {"private/a.cu": CODE, "a.cu": CODE}, rule)) == {"private/a.cu"}
    own = NeverSend(("private/**",))  # the user's: below every program
    assert set(left_out(program, {"private/a.cu": CODE, "a.cu": CODE}, own)) == {"private/a.cu"}


@pytest.mark.parametrize(
    "path",
    [".env", "a/.env.local", "id_rsa", "x/id_ed25519.pub", "server.PEM", ".aws/credentials", "a.key", ".git/config"],
)
def test_files_that_hold_keys(path: str, tmp_path: Path) -> None:
    assert left_out(tmp_path, {path: CODE, "a.cu": CODE, "key.cu": CODE, "environment.h": CODE}).keys() == {path}


def test_binary_and_huge_files(tmp_path: Path) -> None:
    texts = {
        "a.cu": CODE,
        "zero.cu": b"a\0b",
        "latin.cu": "// gr\u00fc\u00dfe".encode("latin-1"),
        "huge.cu": b"x" * (LARGEST_FILE + 1),
        "large.cu": b"x" * LARGEST_FILE,
        "empty.cu": b"",
    }
    found = left_out(tmp_path, texts)
    assert found == {"zero.cu": "binary", "latin.cu": "no UTF-8 text", "huge.cu": "larger than 512 KiB"}


def test_files_outside_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "app"
    program.mkdir()
    texts = {"../shared.h": CODE, "/etc/hosts.h": CODE, "x/../a.cu": CODE}
    why = "it lies outside of the program's folder"
    assert left_out(program, texts) == {"../shared.h": why, "/etc/hosts.h": why}


def test_a_program_that_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "a.cu"
    file.write_bytes(CODE)
    assert left_out(file, {"a.cu": CODE, "b.h": CODE}, NeverSend(("b.h",), tmp_path)) == {"b.h": "never sent: b.h"}


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_links_are_followed(tmp_path: Path) -> None:
    program = tmp_path / "app"
    (program / "secrets").mkdir(parents=True)
    (program / "secrets" / "real.h").write_bytes(CODE)
    (tmp_path / "outside.h").write_bytes(CODE)
    (program / "a.h").symlink_to("secrets/real.h")
    (program / "b.h").symlink_to("../outside.h")
    (program / "inner").symlink_to("secrets")
    rule = NeverSend(("secrets/**",), program)
    found = left_out(program, dict.fromkeys(["a.h", "b.h", "inner/real.h", "c.h"], CODE), rule)
    assert found == {
        "a.h": "never sent: secrets/**",
        "b.h": "it lies outside of the program's folder",
        "inner/real.h": "never sent: secrets/**",
    }


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_the_program_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real" / "secrets").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for root in (tmp_path / "real", tmp_path / "link"):
        for folder in (tmp_path / "real", tmp_path / "link"):
            rule = NeverSend(("secrets/**",), folder)
            found = left_out(root, {"secrets/a.h": CODE, "a.cu": CODE}, rule)
            assert found == {"secrets/a.h": "never sent: secrets/**"}, (root, folder)
