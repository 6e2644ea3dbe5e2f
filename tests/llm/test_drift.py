"""Several versions of a model, each a small step from the one before: what one may not do at once they may not do together. They are
all held to the original, not only to the best so far."""

from __future__ import annotations

import pytest
from stitchcuda.agent.invention import confinement
from stitchcuda.agent.outcome import Stop
from stitchcuda.gpu_validate.verdict import Interval

from tests.llm.answers import Answer
from tests.llm.scenario import Stage, code, fix, mark, nothing_left, plan, remark, replace
from tests.llm.scripted_hub import ScriptedHub

CHECK = "#define CHECK(call) do { if ((call) != cudaSuccess) { abort(); } } while (0)\n"
SET = "cudaMemset(x, 0, 4096 * sizeof(float));\n"


def rounds(*replies: Answer) -> tuple[Answer, ...]:
    return tuple(answer for k, reply in enumerate(replies) for answer in (plan(f"step {k}"), reply))


def test_a_version_grows_by_no_more_than_it_may_in_one_step(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "MOST_ADDED", 300)
    steps = [mark(f"speed {1.5 + k / 2} {'x' * 120}") for k in range(3)]
    script = (*rounds(*(code(step) for step in steps)), code(mark("speed 2.5")), nothing_left())
    played = stage.play(script, rules=False)
    assert played.events == [
        *["planned", "written", "faster"] * 2,
        "planned",
        "violated",
        "written",
        "faster",
        "planned",
    ]
    assert "more than 300" in played.asked(6)
    best = played.done.result.best
    assert best is not None and best.speedup is not None and best.speedup[1].low == 2.5


def test_what_the_original_checks_is_checked_when_it_comes_back(stage: Stage) -> None:
    main = stage.root / "main.cu"
    text = main.read_text().replace("#include <cstdio>\n", f"#include <cstdio>\n#include <cstdlib>\n{CHECK}")
    text = text.replace("    wait();\n    for", f"    CHECK({SET.rstrip()[:-1]});\n    wait();\n    for")
    main.write_text(text)
    removed = code(replace(f"    CHECK({SET.rstrip()[:-1]});\n", "", "main.cu"), mark("speed 1.5"))
    back = code(replace("    for (int k", f"    {SET}    for (int k", "main.cu"), remark("speed 1.5", "speed 2.0"))
    played = stage.play((*rounds(removed, back), nothing_left()), rules=False, all_used=False)
    assert played.events[:5] == ["planned", "written", "faster", "planned", "violated"]
    assert "the result of cudaMemset is not checked" in played.asked(4)


def test_results_are_those_of_the_original(stage: Stage) -> None:
    """Each step is near enough to the one before; the third is too far from the original, which is what counts."""
    hub = ScriptedHub(beside=Interval(1.1, 1.2, 1.3))
    speeds = [f"speed {low} to {low + 0.5}" for low in (1.50, 1.51, 1.52)]
    steps = [mark(speeds[0]), remark(speeds[0], speeds[1]), remark(speeds[1], f"{speeds[2]} OTHER_RESULTS")]
    script = (
        *rounds(*(code(step) for step in steps)),
        fix(remark(f"{speeds[2]} OTHER_RESULTS", "slow")),
        nothing_left(),
    )
    played = stage.play(script, hub=hub, rules=False)
    assert played.events[:8] == [*["planned", "written", "faster"] * 2, "planned", "written"]
    assert played.events[8] == "other results"
    first, second, *_ = (version.digest for version in hub.judged)
    assert hub.compared == [(second, first)]
    best = played.done.result.best
    assert best is not None and best.version.digest == second and played.done.result.stopped is Stop.NO_IDEA
