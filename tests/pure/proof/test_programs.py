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

DEVICE, STREAM = "cudaDeviceSynchronize();", "cudaStreamSynchronize(s);"

# One kernel on memory that is released right behind the wait: the release waits as well (W8).
RELEASED = (
    *(
        f"divergent-barrier/{kind}_{name}.cu"
        for kind in ("bad", "ok")
        for name in ("halving", "own_flag", "uneven_rounds")
    ),
    *(
        f"missing-async-wait/{kind}_{name}.cu"
        for kind in ("bad", "ok")
        for name in ("inline_ptx", "staged_row", "two_stages")
    ),
    *(
        f"missing-syncthreads/{kind}_{name}.cu"
        for kind in ("bad", "ok")
        for name in ("max_of_block", "queue_head", "reverse_tile", "running_tile")
    ),
    *(
        f"missing-syncwarp/{kind}_{name}.cu"
        for kind in ("bad", "ok")
        for name in ("single_warp", "tile_broadcast", "warp_scan")
    ),
    "bad-warp-mask/bad_group_count.cu",
    "bad-warp-mask/ok_rounded_count.cu",
    "missing-atomic/ok_rows_by_map.cu",
    "missing-grid-sync/bad_prefix_by_first_thread.cu",
    "missing-grid-sync/ok_own_first_element.cu",
    "timing-unsynced/bad_chrono.cu",  # behind the clock
    "timing-unsynced/bad_helpers.cu",
    "timing-unsynced/ok_of_the_asking.cu",
    "timing-unsynced/ok_waited.cu",
    "unknown-suppression/bad_misspelt.cu",
    "unknown-suppression/ok_known.cu",
    "unknown-suppression/ok_other_comments.cu",
    "unknown-suppression/ok_prose.cu",
    "unused-suppression/bad_mended.cu",
    "unused-suppression/bad_wrong_line.cu",
    "unused-suppression/ok_not_judged.cu",
    "use-after-free/bad_memory.cu",
)

# Waits that may go: what they wait for is waited for elsewhere, or nobody looks at it. Everything else is needed, or the
# program holds something that is not known.
SPARE = {
    **{key: [DEVICE] for key in RELEASED},
    "double-free/bad_async.cu": ["cudaStreamSynchronize(stream);"],  # the release is work of the stream
    "double-free/ok_loops_and_branches.cu": [DEVICE],  # nothing runs there
    "event-misuse/bad_other_device.cu": [DEVICE],  # before releases on the same device
    "event-misuse/ok_each_device.cu": [  # the program ends, and nobody looks
        "cudaStreamSynchronize(first.stream);",
        "cudaStreamSynchronize(second.stream);",
    ],
    "free-in-flight/ok_free_async_joined.cu": [DEVICE],
    "host-read-before-sync/ok_symbol_named.cu": [DEVICE],
    "implicit-sync/bad_launch.cu": [  # the destructor releases what blocking streams work on
        "cudaStreamSynchronize(left_);",
        "cudaStreamSynchronize(right_);",
    ],
    "implicit-sync/ok_waits.cu": [STREAM],  # a blocking download on the default stream follows (O4)
    "launch-overhead/bad_steps.cu": [STREAM],  # before releases
    "redundant-sync/bad_between_stages.cu": ["CHECK(cudaDeviceSynchronize());"],
    "redundant-sync/bad_twice_and_before_copy.cu": [DEVICE, STREAM, STREAM],
    # before two releases, between runs on one stream, and of a stream that the next waited-for kernel follows (O4)
    "redundant-sync/ok_needed.cu": [DEVICE, STREAM, STREAM, STREAM],
    "stream-race-raw/ok_two_streams_event.cu": [DEVICE],
    "sync-in-loop/bad_default_stream.cu": [DEVICE, DEVICE],  # behind loops that wait in each round
    "unknown-suppression/bad_other_tool.cu": ["cudaStreamSynchronize(stream);"] * 2,  # on one stream, before a release
    "unused-suppression/ok_in_use.cu": [DEVICE] * 4,  # each is covered by the next one, or by the release
    "unused-suppression/ok_unsure.cu": [DEVICE],  # the program ends
    "use-after-free/bad_async_free.cu": ["cudaStreamSynchronize(space.stream);"],  # the program ends
    "use-before-alloc/bad_default_stream.cu": ["cudaStreamSynchronize(pool);"],  # the program ends
    "use-before-alloc/bad_helper.cu": ["CHECK(cudaStreamSynchronize(compute));"] * 2,  # each is covered by the other
    "use-before-alloc/bad_other_stream.cu": ["cudaStreamSynchronize(a);"],  # the program ends
    "use-before-alloc/ok_event.cu": [DEVICE],  # the program ends
    "use-before-alloc/ok_host_wait.cu": ["cudaStreamSynchronize(pool);"],  # the program ends
    "use-before-alloc/ok_same_stream.cu": ["cudaStreamSynchronize(streams[k]);"],  # the program ends
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
