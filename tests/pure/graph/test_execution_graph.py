"""The execution graph from Timelines built by hand: merging, labels, edges, and the three printed forms."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from stitchcuda.analysis.graph.build import execution_graph
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.graph.to_json import to_json
from stitchcuda.analysis.graph.to_mermaid import escape, to_mermaid
from stitchcuda.analysis.graph.to_text import to_text
from stitchcuda.analysis.order.symbolic import number
from stitchcuda.analysis.order.timeline import (
    Access,
    Buffer,
    Condition,
    Edge,
    Event,
    LoopInfo,
    Memory,
    Mode,
    Op,
    Stream,
    StreamKind,
    Timeline,
)
from stitchcuda.analysis.program.ir import ApiKind, Function, Program, Site, TypeRef

PATH = "demo.cu"
TEXT = "".join(f"line {k:02}\n" for k in range(1, 41)).encode()  # 8 bytes a line


def at(line: int) -> Site:
    start = (line - 1) * 8
    return Site("main", PATH, (start, start + 4))


def function(uid: str) -> Function:
    return Function(uid, uid, uid, PATH, 0, (0, len(TEXT)), (0, 4), (), TypeRef("int"), None)


PROGRAM = Program({}, {"main": function("main"), "step": function("step")})
STREAMS = (
    Stream(0, "default", StreamKind.LEGACY, True),
    Stream(1, "s", StreamKind.CREATED, False, at(2), flags="cudaStreamNonBlocking"),
    Stream(2, "s", StreamKind.CREATED, False, at(3)),
    Stream(3, "", StreamKind.UNKNOWN, None),
)
BUFFERS = (
    Buffer(0, "dX", Memory.DEVICE, at(4), "alloc", alloc_op=0),
    Buffer(1, "hX", Memory.PINNED, at(5), "alloc"),
)


def timeline(ops: tuple[Op, ...], edges: tuple[Edge, ...], loops: tuple[LoopInfo, ...] = ()) -> Timeline:
    zero = (0,) * len(ops)
    before = list(zero)
    for edge in edges:  # in program order, so that what is before the source is known
        before[edge.target] |= before[edge.source] | 1 << edge.source
    return Timeline(
        "main", "static", ops, tuple(before), zero, zero, edges, BUFFERS, STREAMS, (Event(0, "ready", at(6)),), loops
    )


OPS = (
    Op(0, 0, ApiKind.ALLOC, "cudaMalloc", at(4), "main", bytes=number(64)),
    Op(
        1,
        1,
        ApiKind.COPY,
        "cudaMemcpyAsync",
        at(10),
        "main",
        stream=1,
        copy_kind="h2d",
        bytes=number(64),
        accesses=(Access(1, Mode.READ), Access(0, Mode.WRITE)),
    ),
    Op(2, 2, ApiKind.EVENT_RECORD, "cudaEventRecord", at(11), "main", stream=1, event=0),
    Op(3, 3, ApiKind.SET_DEVICE, "cudaSetDevice", at(11), "main"),
    Op(4, 4, ApiKind.EVENT_WAIT, "cudaStreamWaitEvent", at(12), "main", stream=2, event=0),
    Op(
        5,
        5,
        ApiKind.LAUNCH,
        "<<<>>>",
        at(20),
        "step",
        (at(13),),
        kernel="scale",
        stream=2,
        accesses=(Access(0, Mode.READ), Access(0, Mode.WRITE)),
        grid="n / 256",
        block="256",
        loop=0,
        iteration=(0,),
    ),
    Op(6, 5, ApiKind.LAUNCH, "<<<>>>", at(20), "step", (at(13),), kernel="scale", stream=2, loop=0, iteration=(1,)),
    Op(7, 6, ApiKind.STREAM_SYNC, "cudaStreamSynchronize", at(30), "main", waits=0b1100000, asynchronous=False),
    Op(8, 7, ApiKind.HOST_READ, "read", at(31), "main", accesses=(Access(1, Mode.READ),), asynchronous=False),
)
EDGES = (
    Edge(0, 1, "allocation"),
    Edge(1, 2, "stream"),
    Edge(1, 3, "stream"),
    Edge(2, 4, "event"),
    Edge(3, 4, "stream"),
    Edge(4, 5, "stream"),
    Edge(5, 6, "stream"),
    Edge(6, 7, "host_wait"),
    Edge(7, 8, "host_wait"),
)
LOOPS = (LoopInfo(0, at(13), None, (), number(8)),)


@pytest.fixture
def graph() -> ExecutionGraph:
    return execution_graph([timeline(OPS, EDGES, LOOPS)], PROGRAM, {PATH: TEXT})


def test_occurrences_merge_into_one_node_each_with_readable_ids(graph: ExecutionGraph) -> None:
    assert [(n.id, n.kind, n.line) for n in graph.nodes] == [
        ("n1", "alloc", 4),
        ("n2", "copy", 10),
        ("n3", "event_record", 11),
        ("n4", "event_wait", 12),
        ("n5", "launch", 20),
        ("n6", "stream_sync", 30),
        ("n7", "host_read", 31),
    ]


def test_edges_bridge_what_is_no_node_and_leave_out_rounds_of_a_loop(graph: ExecutionGraph) -> None:
    assert [(e.source, e.target) for e in graph.edges] == [
        ("n1", "n2"),
        ("n2", "n3"),
        ("n2", "n4"),
        ("n2", "n5"),
        ("n3", "n4"),
        ("n4", "n5"),
        ("n5", "n6"),
        ("n6", "n7"),
    ]
    assert {e.why for e in graph.edges} == {"allocation", "data", "stream", "event", "host_wait"}


def test_stream_labels_are_shared_exactly_by_the_same_stream(graph: ExecutionGraph) -> None:
    by_id = {n.id: n for n in graph.nodes}
    assert by_id["n2"].stream == by_id["n3"].stream == "s"
    assert by_id["n4"].stream == by_id["n5"].stream == "s (line 3)"
    assert (by_id["n2"].stream_line, by_id["n2"].stream_flags) == (2, "cudaStreamNonBlocking")
    assert by_id["n6"].stream is None


def test_default_stream_keeps_its_label_even_from_a_stream_named_alike() -> None:
    streams = (STREAMS[0], replace(STREAMS[1], name="default"))
    ops = (
        Op(0, 0, ApiKind.MEMSET, "cudaMemset", at(7), "main", stream=0),
        Op(1, 1, ApiKind.MEMSET, "cudaMemsetAsync", at(8), "main", stream=1),
    )
    built = execution_graph([replace(timeline(ops, ()), streams=streams)], PROGRAM, {PATH: TEXT})
    assert built.nodes[0].stream == "default"
    assert built.nodes[1].stream not in (None, "default")


def test_two_entries_do_not_share_a_created_stream() -> None:
    one = timeline((Op(0, 0, ApiKind.MEMSET, "cudaMemsetAsync", at(8), "main", stream=1),), ())
    built = execution_graph([one, replace(one, entry="step")], PROGRAM, {PATH: TEXT})
    assert len({n.stream for n in built.nodes}) == 2


def test_function_filter_keeps_what_runs_inside_it() -> None:
    built = execution_graph([timeline(OPS, EDGES, LOOPS)], PROGRAM, {PATH: TEXT}, "step")
    assert [n.kernel for n in built.nodes] == ["scale"]
    assert not built.edges


def test_facts_of_a_node(graph: ExecutionGraph) -> None:
    copy, launch = graph.nodes[1], graph.nodes[4]
    assert (copy.reads, copy.writes, copy.bytes, copy.copy_kind) == (("hX",), ("dX",), "64", "h2d")
    assert (launch.grid, launch.block, launch.loop, launch.function) == ("n / 256", "256", "l1", "step")
    assert [(c.path, c.line) for c in launch.calls] == [(PATH, 13)]
    assert [(loop.id, loop.line, loop.trip) for loop in graph.loops] == [("l1", 13, "8")]


def test_condition_holds_for_every_occurrence() -> None:
    both = Condition(at(9), "n > 0", True)
    once = Condition(at(9), "k == 1", False)
    ops = (
        Op(0, 0, ApiKind.MEMSET, "cudaMemset", at(9), "main", stream=0, conditions=(both, once)),
        Op(1, 0, ApiKind.MEMSET, "cudaMemset", at(9), "main", stream=0, conditions=(both,)),
        Op(2, 1, ApiKind.MEMSET, "cudaMemset", at(9), "main", stream=0, conditions=(once,)),
    )
    built = execution_graph([timeline(ops, ())], PROGRAM, {PATH: TEXT})
    assert [n.condition for n in built.nodes] == ["n > 0", "!(k == 1)"]


def test_confidence_names_what_is_not_known() -> None:
    ops = (
        Op(0, 0, ApiKind.MEMSET, "cudaMemsetAsync", at(9), "main", stream=3),
        Op(1, 1, ApiKind.MEMSET, "cudaMemset", at(9), "main", stream=0, certain=False),
        Op(2, 2, ApiKind.MEMSET, "cudaMemset", at(9), "main", stream=0),
    )
    built = execution_graph([timeline(ops, ())], PROGRAM, {PATH: TEXT})
    assert [n.confidence for n in built.nodes] == ["likely", "possible", "certain"]


def test_json_has_exactly_the_documented_fields(graph: ExecutionGraph) -> None:
    value = json.loads(json.dumps(to_json(graph)))
    assert value["schema"] == 1
    assert set(value) == {"schema", "nodes", "edges", "loops"}
    assert " ".join(value["nodes"][0]) == (
        "id kind api kernel path line function stream stream_line stream_flags event copy_kind device thread reads writes "
        "bytes grid block loop condition confidence calls"
    )
    assert set(value["edges"][0]) == {"source", "target", "why"}
    assert set(value["loops"][0]) == {"id", "parent", "path", "line", "trip"}


def test_mermaid_has_one_lane_a_stream_and_only_known_forms(graph: ExecutionGraph) -> None:
    lines = to_mermaid(graph).splitlines()
    assert lines[0] == "flowchart TB"
    assert [x for x in lines if "subgraph" in x] == [
        '  subgraph lane1["host"]',
        '  subgraph lane2["stream s"]',
        '  subgraph lane3["stream s (line 3)"]',
    ]
    node = re.compile(r'    n\d+(\["[^"]*"\]|\("[^"]*"\)|\{\{"[^"]*"\}\})')
    edge = re.compile(r"  n\d+ (-->|-\.->)\|[a-z_]+\| n\d+")
    assert not any(re.search("in loop l[0-9]|host (read|write)<", line) for line in lines), (
        "by place and name, as in dot"
    )
    for line in lines[1:]:
        assert line == "  end" or line.startswith("  subgraph") or node.fullmatch(line) or edge.fullmatch(line), line


def test_mermaid_escapes_what_would_end_a_label() -> None:
    assert escape('f<float>("a")\n#x') == "f#60;float#62;(#34;a#34;) #35;x"


def test_text_reads_as_sentences(graph: ExecutionGraph) -> None:
    assert to_text(graph) == (
        "main (demo.cu)\n"
        "  line 4: the host allocates `dX` (64 bytes) in device memory.\n"
        "  line 10: `hX` is copied to `dX` (host to device, 64 bytes) on stream `s`; the host goes on.\n"
        "  line 11: event `ready` is recorded on stream `s`.\n"
        "  line 12: stream `s (line 3)` waits for event `ready`, recorded at line 11.\n"
        "  In the loop at line 13, 8 rounds:\n"
        "    In step, called at line 13:\n"
        "      line 20: `scale` runs on stream `s (line 3)` with grid n / 256 and block 256 and updates `dX`.\n"
        "  line 30: the host waits for stream `s (line 3)`.\n"
        "  line 31: the host reads `hX`.\n"
        "  In short:\n"
        "  - stream `s` carries 1 copy\n"
        "  - stream `s (line 3)` carries 1 launch\n"
        "  - from host to device: `hX` to `dX` (line 10)\n"
        "  - the host waits at line 30\n"
        "  Between streams:\n"
        "  - `scale` (line 20) on stream `s (line 3)` waits for the copy (line 10) on stream `s`, through event `ready` "
        "(recorded at line 11, waited for at line 12); `dX` flows that way\n"
        "  What could overlap:\n"
        "  - nothing: all work is ordered, although it is on several streams\n"
        "  Where the host waits:\n"
        "  - line 30: for stream `s (line 3)`; the host then reads `hX` (line 31)\n"
    )


def test_empty_graph_says_so() -> None:
    assert to_text(execution_graph([], PROGRAM, {})) == "No CUDA work was found.\n"
