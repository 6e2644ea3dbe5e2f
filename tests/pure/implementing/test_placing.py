"""Where definitions go, and what an answer may change."""

from __future__ import annotations

import pytest
from stitchcuda.agent import versions
from stitchcuda.agent.implementing import placing
from stitchcuda.agent.implementing.stages import Stage

from tests.pure.implementing.programs import KERNEL, MAIN, MARK, REFERENCE, RIGHT, analysed, program, stage_of

BOM = b"\xef\xbb\xbf"


def implemented(stage: Stage, text: bytes, definition: str = RIGHT) -> bytes:
    edits = placing.edits_of(stage, text, text, definition.encode())
    return versions.edited({stage.path: text}, edits)[stage.path]


def test_the_definition_stands_below_the_declaration_and_the_marker_is_done() -> None:
    text = program()
    found = implemented(stage_of(text), text.encode()).decode()
    done = MARK.replace("implement ", "implemented ")
    assert found == text.replace(f"{MARK}\n{KERNEL}\n", f"{done}\n{KERNEL}\n\n{RIGHT}\n")


@pytest.mark.parametrize("rest", ["  // saxpy", " /* saxpy */  ", "  "])
def test_what_follows_on_the_line_stays_there(rest: str) -> None:
    text = program(kernel=KERNEL + rest)
    assert f"{KERNEL}{rest}\n\n{RIGHT}\n" in implemented(stage_of(text), text.encode()).decode()


def test_code_that_follows_on_the_line_comes_after_it() -> None:
    text = program(kernel=KERNEL + " int other;")
    assert f"{KERNEL}\n{RIGHT}\n int other;\n" in implemented(stage_of(text), text.encode()).decode()


def test_a_byte_order_mark_and_line_ends_stay() -> None:
    text = program().replace("\n", "\r\n")
    found = implemented(stage_of(text), BOM + text.encode())
    assert found.startswith(BOM) and found.removeprefix(BOM) == implemented(stage_of(text), text.encode())
    assert f"{KERNEL}\r\n\r\n".encode() in found


def test_a_file_of_its_own_opens_the_namespace() -> None:
    header = f"#pragma once\nnamespace a {{ namespace b {{\n{REFERENCE}{MARK.replace('outputs=y', 'in=k.cu')}\n{KERNEL}\n}} }}\n"
    source = '#include "k.cuh"'
    files = {"k.cuh": header, "k.cu": source, "main.cu": f'#include "k.cuh"\nusing namespace a::b;\n{MAIN}'}
    stage = stage_of(files)
    edits = placing.edits_of(stage, source.encode(), header.encode(), RIGHT.encode())
    found = versions.edited({path: text.encode() for path, text in files.items()}, edits)
    assert found["k.cu"].decode() == f"{source}\n\nnamespace a {{\nnamespace b {{\n{RIGHT}\n}}\n}}\n"
    assert b"stitchcuda: implemented reference" in found["k.cuh"]
    assert found.keys() == {"k.cu", "k.cuh"}
    kernel = [
        f for f in analysed({p: t.decode() for p, t in found.items()}).program.functions.values() if f.name == "saxpy"
    ]
    assert {(f.qualified, f.body is None) for f in kernel} == {("a::b::saxpy", True), ("a::b::saxpy", False)}


def test_only_the_definition_may_differ() -> None:
    text = program().encode()
    stage = stage_of(program())
    drafted = placing.with_definition(stage, text, placing.stub(stage))
    assert placing.definition_in(stage, text, drafted) == placing.stub(stage)
    written = drafted.replace(placing.stub(stage), RIGHT.encode())
    assert placing.definition_in(stage, text, written) == RIGHT.encode()
    for changed in (
        written.replace(b"4096, 2.0f", b"4096, 3.0f"),
        written.replace(b"a * x[i] + y[i];", b"a;", 1),
        written.replace(b"implement reference", b"implement  reference"),
        written + b"int more;\n",
        b"int more;\n" + written,
    ):
        assert placing.definition_in(stage, text, changed) is None
    assert placing.definition_in(stage, text, text) is None
