"""`stitchcuda graph` on the two shipped transformers, against what was read from their sources by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.graph_truth.notation import Program, describe
from tests.graph_truth.printed import Facts, Printed, printed
from tests.graph_truth.vit import vit
from tests.graph_truth.vit_expert import vit_expert

TRUTHS = {"vit": vit, "vit_expert": vit_expert}


@pytest.fixture(params=TRUTHS)
def both(request: pytest.FixtureRequest) -> tuple[Program, Printed]:
    return TRUTHS[request.param](), printed(request.param)


def fail_if(differences: list[str]) -> None:
    if differences:
        pytest.fail(f"{len(differences)} differences\n" + "\n".join(differences), pytrace=False)


def test_every_node_and_nothing_else(both: tuple[Program, Printed]) -> None:
    truth, tool = both
    ours, theirs = Counter(n.key for n in truth.nodes), Counter(n.key for n in tool.nodes)
    assert set(ours.values()) == set(theirs.values()) == {1}
    missing = [f"missing: {n}" for n in truth.nodes if n.key not in theirs]
    extra = [f"extra: {n}" for n in tool.nodes if n.key not in ours]
    fail_if(missing + extra)
    order = [n.key for n in truth.nodes]
    assert [n.key for n in tool.nodes] == order, "not in program order"


def test_every_fact_of_every_node(both: tuple[Program, Printed]) -> None:
    truth, tool = both
    theirs = {n.key: n.facts for n in tool.nodes}
    fail_if([d for n in truth.nodes if n.key in theirs for d in _facts(n.facts, theirs[n.key])])


def _facts(ours: Facts, theirs: Facts) -> Iterator[str]:
    assert set(ours) == set(theirs)
    for field, value in ours.items():
        if value != theirs[field]:
            yield f"{describe(ours)}: {field} is {value!r}, not {theirs[field]!r}"


def test_every_edge_and_nothing_else(both: tuple[Program, Printed]) -> None:
    truth, tool = both
    known = {n.key for n in truth.nodes} & {n.key for n in tool.nodes}
    ours = {(s.key, t.key, why): f"{why}: {s}  ->  {t}" for s, t, why in truth.edges()}
    theirs = {(s.key, t.key, why): f"{why}: {s}  ->  {t}" for s, t, why in tool.edges}
    both_known = [
        *(f"missing {text}" for edge, text in ours.items() if edge not in theirs and {edge[0], edge[1]} <= known),
        *(f"extra {text}" for edge, text in theirs.items() if edge not in ours and {edge[0], edge[1]} <= known),
    ]
    fail_if(both_known)
    assert set(ours) == set(theirs)


def test_every_loop_and_nothing_else(both: tuple[Program, Printed]) -> None:
    truth, tool = both
    ours = [(loop.place, loop.trip, loop.parent and loop.parent.place) for loop in truth.loops]
    assert tool.loops == ours


def test_everything_was_understood(both: tuple[Program, Printed]) -> None:
    assert both[1].problems == []
