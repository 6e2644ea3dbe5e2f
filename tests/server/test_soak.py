"""The short form of `python -m benchmarks.soak`: some hundred random edits over a few files, in one session."""

from __future__ import annotations

import sys

import pytest

from benchmarks import soak


@pytest.mark.skipif(sys.platform == "win32", reason="files that are open cannot be renamed there")
def test_hundreds_of_edits_leave_the_server_with_the_clients_texts_and_a_fresh_servers_findings() -> None:
    report = soak.run(edits=500, files=8, seed=7, measure_every=1000)
    assert report["failures"] == []
    assert report["mirror_checks"] >= 4 and report["findings"] > 0 and report["lenses"] > 0
    assert {"type", "save", "close and open", "settings", "rename"} <= report["done"].keys()


def test_a_difference_would_be_noticed() -> None:
    """The checks can fail: a client whose text is another one, and findings that are not the fresh server's."""
    file = soak.File(soak.ROOT / "a.cu", "a\r\n😀b\n", "")
    assert file.position(5, file.line_starts()) == {"line": 1, "character": 3}
    before = file.digest
    file.replace(3, 3, "x")
    assert file.digest != before
    assert soak._difference(["a", "b"], ["b", "c"]).startswith("1 that a fresh server does not have ['a'], 1 that")
