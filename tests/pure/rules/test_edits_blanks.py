"""Statements that share a line are deleted with the blanks that set them off."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.index.index import Index


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("    a(); sync(); b();", "    a(); b();"),
        ("    a(); sync();", "    a();"),
        ("    sync(); b();", "    b();"),
        ("    a();sync();b();", "    a();b();"),
        ("    a(); sync();\r", "    a();\r"),
        ("    if (x) { sync(); }", "    if (x) { }"),
    ],
)
def test_a_statement_among_others(line: str, after: str) -> None:
    line, after = (text.replace("sync()", "cudaDeviceSynchronize()") for text in (line, after))
    text = f"void f(bool x) {{\n{line}\n}}\n".encode()
    index = Index(strict=True)
    index.put("a.cu", text)
    analysis = index.analyse()
    (uid,) = analysis.program.functions
    body = edits.body_of(RuleInput(analysis.timelines[0], analysis.program, {"a.cu": text}), uid)
    assert body is not None
    start = body.text.index(b"cudaDeviceSynchronize()")
    edit = edits.remove(body, (start, start + len(b"cudaDeviceSynchronize();")))
    begin, end = edit.site.span
    assert (body.text[:begin] + body.text[end:]).decode() == f"void f(bool x) {{\n{after}\n}}"
