"""What must hold of any execution graph, on the two shipped transformers and on their truths: order is an order, nothing is
said twice, and what the host reads has arrived."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.graph_truth.notation import Node, Program
from tests.graph_truth.printed import printed
from tests.graph_truth.vit import vit
from tests.graph_truth.vit_expert import vit_expert

PROGRAMS: dict[str, Program] = {"vit": vit(), "vit_expert": vit_expert()}
Edges = list[tuple[Node, Node, str]]


@pytest.fixture(params=[(name, side) for name in PROGRAMS for side in ("truth", "printed")], ids="-".join)
def graph(request: pytest.FixtureRequest) -> tuple[list[Node], Edges]:
    name, side = request.param
    if side == "truth":
        return PROGRAMS[name].nodes, PROGRAMS[name].edges()
    return printed(name).nodes, printed(name).edges


def closure(nodes: list[Node], edges: Edges) -> dict[Node, set[Node]]:
    """What each node comes before. Fails on a cycle."""
    follows: dict[Node, set[Node]] = defaultdict(set)
    for source, target, _ in edges:
        follows[source].add(target)
    after: dict[Node, set[Node]] = {}
    waiting: set[Node] = set()

    def visit(node: Node) -> set[Node]:
        if node not in after:
            assert node not in waiting, f"a cycle through {node}"
            waiting.add(node)
            after[node] = set().union(follows[node], *(visit(n) for n in follows[node]))
        return after[node]

    for node in reversed(nodes):
        visit(node)
    return after


def test_order_never_contradicts_itself(graph: tuple[list[Node], Edges]) -> None:
    nodes, edges = graph
    position = {node: k for k, node in enumerate(nodes)}
    for node, later in closure(nodes, edges).items():
        assert node not in later
        backward = [str(n) for n in later if position[n] <= position[node]]
        assert not backward, f"{node} comes before what precedes it in the program: {backward}"


def test_values_flow_along_an_order(graph: tuple[list[Node], Edges]) -> None:
    """A data edge alone orders nothing, unless the host itself hands the value on."""
    nodes, edges = graph
    after = closure(nodes, [e for e in edges if e[2] != "data"])
    unordered = [
        f"{s} -> {t}" for s, t, why in edges if why == "data" and t not in after[s] and s.facts["kind"] != "host_write"
    ]
    assert not unordered, "\n".join(unordered)


def test_order_edges_are_not_implied_by_others(graph: tuple[list[Node], Edges]) -> None:
    nodes, edges = graph
    order = [e for e in edges if e[2] not in ("data", "allocation")]
    after = closure(nodes, order)
    follows = defaultdict(list)
    for source, target, _ in order:
        follows[source].append(target)
    implied = [f"{s} -> {t} ({why})" for s, t, why in order if any(t in after[n] for n in follows[s])]
    assert not implied, "\n".join(implied)


def test_a_pair_has_one_reason(graph: tuple[list[Node], Edges]) -> None:
    pairs = [(s, t) for s, t, why in graph[1] if why != "allocation"]
    assert len(pairs) == len(set(pairs))


def test_what_the_host_reads_has_arrived(graph: tuple[list[Node], Edges]) -> None:
    nodes, edges = graph
    after = closure(nodes, edges)
    reads = [n for n in nodes if n.facts["kind"] == "host_read"]
    checked = 0
    for read in reads:
        for copy in nodes:
            if copy.facts["copy_kind"] == "d2h" and copy.facts["writes"] & read.facts["reads"]:
                assert read in after[copy], f"{read} may come before {copy} is complete"
                checked += 1
    assert checked
