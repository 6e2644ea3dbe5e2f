"""The graph in words and as a flowchart says of the two shipped transformers what is true of them."""

from __future__ import annotations

import re

import pytest

from tests.graph_truth.notation import Program
from tests.graph_truth.printed import text
from tests.graph_truth.vit import vit
from tests.graph_truth.vit_expert import vit_expert

PROGRAMS: dict[str, Program] = {"vit": vit(), "vit_expert": vit_expert()}
STAGED = "; the host waits until the source may be reused, not for the copy itself."
DONE = "; the host waits until it is done."
GOES_ON = "; the host goes on. Only if i < paths.size()."


@pytest.mark.parametrize("program", PROGRAMS)
def test_copies_return_as_cuda_says(program: str) -> None:
    """C1: a pageable upload returns when it is staged. C3: a download when it is done. C7: pinned copies at once."""
    copies = [line for line in text(program, "text").splitlines() if re.search(r" (is|are) copied to ", line)]
    assert copies
    for line in copies:
        if "default stream" not in line:
            assert line.endswith(GOES_ON), line
        else:
            assert line.endswith(STAGED if "(host to device" in line else DONE), line


def test_captured_work_is_not_said_to_run() -> None:
    lines = [line for line in text("vit_expert", "text").splitlines() if "_kernel`" in line and " with grid " in line]
    assert len(lines) == 23
    assert all(" is captured on stream " in line for line in lines)
    (launch,) = [line for line in text("vit_expert", "text").splitlines() if " runs on stream " in line]
    assert "slot.cu:34: a CUDA graph runs on stream `streams.compute`" in launch


def test_launches_of_the_naive_program_run_on_the_default_stream() -> None:
    lines = [line for line in text("vit", "text").splitlines() if "_kernel`" in line and " with grid " in line]
    assert lines
    assert all(" runs on the default stream with grid " in line for line in lines)


def test_summary_of_the_expert_program() -> None:
    summary = text("vit_expert", "text").partition("In short:\n")[2]
    assert "- stream `streams.compute` carries 1 copy and 1 CUDA graph launch\n" in summary
    assert "- stream `streams.compute` carries 19 launches, captured into CUDA graphs\n" in summary
    assert "weight_arena.cu:63 and slot.cu:41 in a loop\n" in summary


@pytest.mark.parametrize("program", PROGRAMS)
def test_flowchart_shows_every_node_and_edge_once(program: str) -> None:
    """Hexagons are the calls in which the host waits: for the device, for a download, for an upload to be staged."""
    lines = text(program, "mermaid").splitlines()
    truth = PROGRAMS[program]
    nodes = [m for line in lines if (m := re.match(r"    n\d+([\[({]+)", line))]
    edges = [m[1] for line in lines if (m := re.match(r"  n\d+ (-->|-\.->)\|\w+\| n\d+$", line))]
    assert len(nodes) == len(truth.nodes)
    assert len(edges) == len(truth.edges())
    assert edges.count("-.->") == len(truth.data)
    waits = [n for n in truth.nodes if "sync" in n.facts["kind"] or n.facts["api"] == "cudaMemcpy"]
    assert len([m for m in nodes if m[1] == "{{"]) == len(waits)


def test_the_expert_program_overlaps_copies_with_the_round_before() -> None:
    """Two slots: while one round computes, the next image is copied, and the host waits for the results of the round before."""
    told = text("vit_expert", "text")
    assert (
        "- the copy (slot.cu:30) on stream `streams.copy` with the CUDA graph (slot.cu:34) and the copy (slot.cu:35) of the "
        "round before on stream `streams.compute`\n"
    ) in told
    (wait,) = [line for line in told.splitlines() if "- slot.cu:41" in line]
    assert "for event `slot.logits_ready`; the host then reads `slot.h_logits`" in wait
    assert "the CUDA graph (slot.cu:34)" in wait.partition("the host then reads")[2] and "can go on meanwhile" in wait


def test_the_naive_program_leaves_the_device_without_work_after_each_launch() -> None:
    told = text("vit", "text")
    assert "- nothing: all work is on the default stream, one piece after the other\n" in told
    waits = told.partition("Where the host waits:\n")[2].splitlines()
    assert sum("the device has nothing to do until" in line for line in waits) >= 10
