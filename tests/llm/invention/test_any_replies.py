"""Whatever a model answers in whatever order, and whatever the judge makes of it: the run ends within its rounds, its units hold
together, only what is faster replaces the best version, and the record gives the same decisions."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stitchcuda.agent import journal, versions
from stitchcuda.agent.invention.asking import Asking
from stitchcuda.agent.invention.replaying import remake
from stitchcuda.agent.model.accounting import Budget, Ledger
from stitchcuda.agent.model.messages import (
    Ask,
    EndpointFailed,
    Finish,
    Model,
    ModelError,
    Reply,
    ToolCall,
    Unauthorized,
    Usage,
)
from stitchcuda.agent.outcome import Candidate, Kind
from stitchcuda.agent.proposing import Proposed
from stitchcuda.agent.stitching import Request, stitch
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.verdict import Interval, VerdictState

from tests.llm.scenario import code, create, fix, nothing_left, plan, replace, rewrite
from tests.llm.scripted_hub import FILES, ScriptedHub, write_program

WORDS = (
    "speed 1.03", "speed 1.2", "speed 1.21 to 1.26", "speed 1.5", "speed 2.0", "NO_BUILD", "OTHER_RESULTS", "NEVER_ENDS", "A_RACE",
    "NEW_HAZARD", "ORDER_LOST", "NOT_FOLLOWED", "NO_GAIN", "SLOWER", "FOR_RULES speed 1.4",
)  # fmt: skip
TOP = "#pragma once\n"


def edits(k: int, word: str) -> dict[str, str]:
    """Different places and kinds: some fit the text at hand, some do not."""
    return (
        replace(TOP, f"{TOP}// {word} {k}\n"),
        replace("x[i] += 2.0f;", f"x[i] += 2.0f; // {word} {k}"),
        rewrite("scale", f"__global__ void scale(float *x, int n) {{\n    // {word} {k}\n    if (n) x[0] *= 1.5f;\n}}"),
        create(f"new{k % 3}.cuh", f"#pragma once\n// {word}\n"),
        replace("wait();", f"wait(); // {word} {k}", "main.cu"),
        replace("// ", "//  "),
        create("Makefile", "all:\n"),
    )[k % 7]


ODD: st.SearchStrategy[Reply | ModelError] = st.sampled_from(
    [
        Reply(""),
        Reply("no"),
        Reply("{", finish=Finish.LENGTH),
        Reply("", finish=Finish.REFUSED),
        Reply("", (ToolCall("c", "source", '{"name": "scale"}'),), finish=Finish.TOOLS),
        Reply(nothing_left().text),
        EndpointFailed("it fails"),
        Unauthorized("no"),
    ]
)
PLANS = st.builds(lambda k: Reply(plan(f"plan {k}").text), st.integers(0, 30))
CODES = st.builds(lambda k, w: Reply(code(edits(k, w)).text), st.integers(0, 40), st.sampled_from(WORDS))
FIXES = st.builds(lambda k, w: Reply(fix(edits(k, w)).text), st.integers(0, 40), st.sampled_from(WORDS))
Replies: TypeAlias = list[Reply | ModelError]


def mostly(fitting: st.SearchStrategy[Reply]) -> st.SearchStrategy[Replies]:
    return st.lists(st.integers(0, 9).flatmap(lambda k: ODD if k == 0 else fitting), min_size=1, max_size=14)


class Answers:
    """To each role its replies in turn, again and again."""

    def __init__(self, replies: Mapping[str, Replies], ledger: Ledger) -> None:
        self._replies, self._ledger, self._next = replies, ledger, Counter[str]()

    def ask(self, ask: Ask) -> Reply:
        replies = self._replies[ask.role]
        reply = replies[self._next[ask.role] % len(replies)]
        self._next[ask.role] += 1
        if isinstance(reply, ModelError):
            raise reply
        self._ledger.count(Usage(10, output=10))
        return reply


class Quiet:
    def step(self, kind: str, sentence: str, data: Mapping[str, object]) -> None: ...
    def proposed(self, proposed: Proposed) -> None: ...
    def judged(self, candidate: Candidate) -> None: ...


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(mostly(PLANS), mostly(CODES), mostly(FIXES), st.integers(1, 20), st.booleans(), st.booleans())
def test_whatever_it_answers(
    plans: Replies, codes: Replies, fixes: Replies, rounds: int, rules: bool, beside: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", f"{folder}/cache")
        root = write_program(Path(folder, "p"))
        hub = ScriptedHub(beside=Interval(1.03, 1.05, 1.07) if beside else None)

        def make(ledger: Ledger, *, cancelled: Callable[[], bool], tell: Callable[[str], None]) -> Model:
            return Answers({"architect": plans, "coder": codes, "repairer": fixes}, ledger)

        asking = Asking(make, "http://localhost/v1", "coder", Budget(rounds=rounds))
        done = stitch(Request(root, Contract(), Project(), rules=rules, asking=asking), Quiet(), hub.machinery)
        result = done.result
        assert result.invented is not None and result.invented.rounds <= rounds
        versions.check_sequence(result.units)
        assert result.outcome in (Kind.IMPROVED, Kind.NO_SAFE_CHANGE)
        if result.best is not None:
            assert result.best.verdict.state is VerdictState.ACCEPTED
        gains = [c.speedup[1] for c in result.invented.offered if c.speedup is not None]
        assert all(a.middle < b.middle for a, b in itertools.pairwise(gains))
        assert {p: (root / p).read_text() for p in FILES} == FILES
        record = journal.read(done.folder)
        assert not any(r.differing for r in journal.replay(record))
        remade = remake(record, hub.analyser, hub.transforms if rules else ())
        assert (remade.difference, remade.reworded) == ("", ())
