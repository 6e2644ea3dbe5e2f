"""Whole programs: none differs from itself, and none loses a wait that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.program.ir import HOST_WAITS, Api
from stitchcuda.analysis.proof.correspond import Trees, correspond, side_of
from stitchcuda.analysis.proof.model import Declared, May, ProofState
from stitchcuda.analysis.proof.prove import Account, compare_entry, prove
from stitchcuda.analysis.proof.shapes import shape_of

ROOT = Path(__file__).parents[3]
FIXTURES = sorted((ROOT / "tests" / "fixtures" / "rules").rglob("*.cu"))
FEWER_WAITS = Declared(("test",), waits=May.FEWER)

# Waits that may go: what they wait for is waited for elsewhere, or nobody looks at it. Everything else is needed, or the
# program holds something that is not known.
SPARE = {
    "free-in-flight/ok_free_async_joined.cu": ["cudaDeviceSynchronize();"],
    "host-read-before-sync/ok_symbol_named.cu": ["cudaDeviceSynchronize();"],
    "redundant-sync/bad_between_stages.cu": ["CHECK(cudaDeviceSynchronize());"],
    "redundant-sync/bad_twice_and_before_copy.cu": [
        "cudaDeviceSynchronize();",
        "cudaStreamSynchronize(s);",
        "cudaStreamSynchronize(s);",
    ],
    "redundant-sync/ok_needed.cu": [
        "cudaDeviceSynchronize();",
        "cudaStreamSynchronize(s);",
        "cudaStreamSynchronize(s);",
    ],
    "stream-race-raw/ok_two_streams_event.cu": ["cudaDeviceSynchronize();"],
    "sync-in-loop/bad_default_stream.cu": ["cudaDeviceSynchronize();"],
}


def analysed(texts: dict[str, bytes]) -> Analysis:
    index = Index(strict=True)
    for path, text in texts.items():
        index.put(path, text)
    return index.analyse()


@pytest.mark.parametrize(
    "path", [*FIXTURES, ROOT / "examples" / "vit", ROOT / "examples" / "vit_expert"], ids=lambda p: p.name
)
def test_a_program_does_not_differ_from_itself(path: Path) -> None:
    """Compared in full, though equal texts need no proof."""
    files = [path] if path.is_file() else [p for p in sorted(path.iterdir()) if p.suffix in (".cu", ".cpp", ".h")]
    analysis = analysed({p.name: p.read_bytes() for p in files})
    account = Account()
    for line in analysis.timelines:
        compare_entry(correspond(analysis, analysis), line.entry, Declared(), account)
    assert not account.failed
    assert all(q.allowed for q in account.quantities)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.name)
def test_only_spare_waits_may_go(path: Path) -> None:
    text = path.read_bytes()
    before = analysed({"a.cu": text})
    gone = []
    for start, end in waits_of(before):
        after = analysed({"a.cu": text[:start] + text[end:]})
        if prove(before, after, FEWER_WAITS).state is ProofState.PROVED:
            gone.append(text[start:end].decode())
    assert gone == SPARE.get(f"{path.parent.name}/{path.name}", [])


def waits_of(analysis: Analysis) -> Iterator[tuple[int, int]]:
    """The statements that are waits."""
    trees = Trees(analysis)
    for function in analysis.program.functions.values():
        if function.space != "host" or function.body is None:
            continue
        side = side_of(analysis, trees, function)
        for piece in side.body.pieces:
            node = shape_of(analysis.program, side, piece).node
            if isinstance(node, Api) and node.kind in HOST_WAITS:
                yield piece.span


def test_white_space_and_comments_are_no_change() -> None:
    text = FIXTURES[0].read_bytes()
    loose = text.replace(b";\n", b" ;  // said\n\n")
    assert prove(analysed({"a.cu": text}), analysed({"a.cu": loose}), Declared()).state is ProofState.PROVED
