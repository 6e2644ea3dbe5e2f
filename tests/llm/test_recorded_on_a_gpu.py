"""A run that was recorded on an H200 (tests/gpu/test_invented.py, benchmarks/results/invented_h200.json), made again without one: the
analysis, the rules, the proof and the machine decide as they did, from the model's replies and the verdicts of the GPU."""

from __future__ import annotations

import json
from pathlib import Path

from stitchcuda.agent import journal
from stitchcuda.agent.invention.replaying import remake
from stitchcuda.agent.machinery import static_analyser
from stitchcuda.agent.transforms import TRANSFORMS

RUN = Path(__file__).parents[1] / "fixtures" / "runs" / "vit_fused_h200"


def test_the_fused_kernel_of_vit_comes_out_as_it_did_on_the_gpu() -> None:
    record = journal.read(RUN)
    remade = remake(record, static_analyser(), TRANSFORMS)
    assert remade.difference == "" and remade.decisions == 4
    made = journal.replay(record)
    assert len(made) == 3 and not any(r.differing for r in made)


def test_it_was_faster_than_what_the_rules_reach() -> None:
    record = journal.read(RUN)
    rules, best = record.made[0], record.made[-1]
    ratios = []
    for made in (rules, best):
        verdict = journal.verdict(record, made.digest)
        assert verdict is not None and verdict["state"] == "accepted"
        ratios.append(verdict["speedup"]["latency"][1])
    beside = json.loads((RUN / journal.INVENTION).read_text())
    assert set(rules.units) < set(best.units) and ratios[1] > ratios[0]
    assert "faster than the best so far, measured beside it" in json.dumps(beside)
