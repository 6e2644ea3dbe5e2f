"""What a model does, and what comes of it. Every scenario is also held to what scenario.py checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from stitchcuda.agent.outcome import Kind, Stop
from stitchcuda.gpu_validate.verdict import Interval

from tests.llm.answers import Answer, call, calls, empty, enormous, filtered, refuse, say, truncated
from tests.llm.scenario import (
    FASTER,
    TRANSPORTS,
    Stage,
    code,
    create,
    fix,
    mark,
    nothing_left,
    plan,
    remark,
    replace,
    rewrite,
)
from tests.llm.scripted_hub import ScriptedHub

RULES, MODEL = 1.05, 1.515  # how much faster the version is that the rules make, and one with `speed 1.5`
FUSED = """__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = __fadd_rn(__fmul_rn(x[i], 1.5f), 2.0f); // speed 1.5
}"""


@dataclass(frozen=True)
class Case:
    """`events` are the decisions, `speed` is that of the answer; None: the original stays."""

    name: str
    script: tuple[Answer, ...]
    events: str
    speed: float | None = MODEL
    stop: Stop = Stop.NO_IDEA
    options: dict[str, Any] = field(default_factory=dict)


def good(summary: str = "another") -> tuple[Answer, ...]:
    """A plan, its edits and the end."""
    return plan(summary), code(mark(FASTER)), nothing_left()


CASES = [
    # ------------------------------------------------------------------------------------------------ success
    Case("one-round", good(), "planned written faster planned"),
    Case("without-the-rules", good(), "planned written faster planned", options={"rules": False}),
    Case("a-whole-function", (plan(), code(rewrite("scale", FUSED)), nothing_left()), "planned written faster planned"),
    Case(
        "a-new-file",
        (
            plan(),
            code(create("fused.cuh", "#pragma once\n// speed 1.5\n"), mark('#include "fused.cuh"')),
            nothing_left(),
        ),
        "planned written faster planned",
    ),
    Case(
        "two-gains",
        (plan("a"), code(mark("speed 1.5")), plan("b"), code(remark("speed 1.5", "speed 2.0")), nothing_left()),
        "planned written faster planned written faster planned",
        2.02,
    ),
    Case("nothing-worth-trying", (nothing_left(),), "planned", RULES),
    Case(
        "looks-first",
        (call("source", {"name": "scale"}), call("no_such_tool", {}), call("source", "{broken"), *good()),
        "planned written faster planned",
    ),
    Case(
        "the-contract-is-met",
        good()[:2],
        "planned written faster, and the contract is met",
        stop=Stop.CONTRACT_MET,
        options={"intent": "latency under 7 ms"},
    ),
    # ---------------------------------------------------------------------------------------------- repairs
    *(
        Case(
            f"{name}-then-fixed",
            (plan(), code(mark(word)), fix(remark(word, FASTER)), nothing_left()),
            f"planned written {shown} written faster planned",
        )
        for name, word, shown in (
            ("compile-error", "NO_BUILD speed 1.5", "does not build"),
            ("other-results", "OTHER_RESULTS speed 1.5", "other results"),
            ("hang", "NEVER_ENDS", "hangs"),
            ("race", "A_RACE", "a hazard, or an order is lost"),
            ("new-hazard", "NEW_HAZARD", "a hazard, or an order is lost"),
            ("lost-order", "ORDER_LOST", "a hazard, or an order is lost"),
            ("what-the-analysis-cannot-follow", "NOT_FOLLOWED", "a hazard, or an order is lost"),
        )
    ),
    *(
        Case(
            f"{name}-twice-is-another-plan",
            (plan("a"), code(mark(word)), fix(remark(word, f"{word} still")), *good("b")),
            f"planned written {shown} written {shown} planned written faster planned",
        )
        for name, word, shown in (
            ("compile-error", "NO_BUILD", "does not build"),
            ("other-results", "OTHER_RESULTS", "other results"),
            ("hang", "NEVER_ENDS", "hangs"),
        )
    ),
    Case(
        "one-failure-after-the-other",
        (
            plan(),
            code(mark("NO_BUILD")),
            fix(remark("NO_BUILD", "OTHER_RESULTS")),
            fix(remark("OTHER_RESULTS", "A_RACE")),
            fix(remark("A_RACE", FASTER)),
            nothing_left(),
        ),
        "planned written does not build written other results written a hazard, or an order is lost written faster planned",
    ),
    Case(
        "faster-but-wrong",
        (
            plan(),
            code(mark("OTHER_RESULTS speed 9.0")),
            fix(remark("OTHER_RESULTS speed 9.0", "A_RACE speed 8.0")),
            *[fix(remark("A_RACE speed 8.0", "OTHER_RESULTS speed 7.0"))],
            nothing_left(),
        ),
        "planned written other results written a hazard, or an order is lost written other results planned",
        RULES,
    ),
    # ------------------------------------------------------------------------------------------- no gain
    Case("slower", (plan(), code(mark("SLOWER")), nothing_left()), "planned written no gain planned", RULES),
    Case("no-gain", (plan(), code(mark("NO_GAIN")), nothing_left()), "planned written no gain planned", RULES),
    Case(
        "slower-than-the-rules-version",
        (plan(), code(mark("speed 1.03")), nothing_left()),
        "planned written no gain planned",
        RULES,
    ),
    Case(
        "two-flat-rounds-are-another-plan",
        (plan("a"), code(mark("NO_GAIN")), plan("b"), code(mark("NO_GAIN either")), *good("c")),
        "planned written no gain planned written no gain planned written faster planned",
    ),
    Case(
        "nothing-helps",
        tuple(answer for k in range(8) for answer in (plan(f"idea {k}"), code(mark(f"NO_GAIN {k}")))),
        " ".join(["planned written no gain"] * 8),
        RULES,
        Stop.GAVE_UP,
        {"budget": None},
    ),
    Case(
        "as-fast-as-the-rules-measured-beside-it",
        (plan(), code(mark("speed 1.05 to 1.08")), nothing_left()),
        "planned written faster planned",
        1.065,
        options={"hub": {"beside": Interval(1.03, 1.04, 1.05)}},
    ),
    Case(
        "as-fast-as-the-rules-and-no-gain-beside-it",
        (plan(), code(mark("speed 1.05 to 1.08")), nothing_left()),
        "planned written no gain planned",
        RULES,
        options={"hub": {"beside": Interval(0.99, 1.0, 1.01)}},
    ),
    Case(
        "a-little-faster-than-the-rules-and-nothing-to-measure-with",
        (plan(), code(mark("speed 1.07 to 1.09")), nothing_left()),
        "planned written no gain planned",
        RULES,
    ),
    Case(
        "as-fast-as-the-rules-and-nothing-to-measure-with",
        (plan(), code(mark("speed 1.05 to 1.08")), nothing_left()),
        "planned written no gain planned",
        RULES,
    ),
    # ------------------------------------------------------------------------------------------- replies
    *(
        Case(f"{name}-then-good", (bad, *good()), "unreadable planned written faster planned")
        for name, bad in (
            ("no-json", say("I would fuse the two kernels.")),
            ("half-an-object", say('{"done": false, "summary": "fuse')),
            ("cut-off", truncated('{"done": false, "summary": "fu')),
            ("empty", empty()),
            ("another-form", say('{"answer": 42}')),
            ("wrong-types", plan(steps="fuse", targets=[1])),
            ("nothing-but-null", say("null")),
            ("targets-out-of-scope", plan(targets=["nobody"])),
            ("brackets-without-end", say("[" * 50_000)),
            ("a-huge-reply", enormous(1 << 20)),
        )
    ),
    Case(
        "words-around-it",
        (say(f"Here it is:\n```json\n{plan('a').text}\n```\nGood luck!"), *good()[1:]),
        "planned written faster planned",
    ),
    Case(
        "three-that-cannot-be-used",
        (say("no"), say("still no"), say("never")),
        "unreadable unreadable unreadable",
        RULES,
        Stop.UNREADABLE,
    ),
    Case(
        "edits-that-cannot-be-read",
        (plan(), say("x"), code({"kind": "delete", "path": "kernels.cuh"}), code(mark(FASTER)), nothing_left()),
        "planned unreadable unreadable written faster planned",
    ),
    Case(
        "tools-without-end",
        (*(call("source", {"name": "scale"}, id=f"c{k}") for k in range(7)), *good()),
        "unreadable planned written faster planned",
    ),
    Case(
        "many-tools-at-once",
        (calls(*[("source", {"name": "shift"})] * 20), *good()),
        "planned written faster planned",
    ),
    # ------------------------------------------------------------------------------------------- anchors
    *(
        Case(
            f"{name}-then-good",
            (plan(), code(bad), code(mark(FASTER)), nothing_left()),
            "planned unplaced written faster planned",
        )
        for name, bad in (
            ("an-anchor-that-is-not-there", replace("#pragma twice\n", "// speed 1.5\n")),
            ("an-anchor-that-is-there-twice", replace("if (i < n)", "if (n > i)")),
            ("a-function-that-is-not-there", rewrite("scale_all", FUSED)),
            ("no-change-at-all", replace("#pragma once\n", "#pragma once\n")),
            ("a-file-that-is-there-already", create("kernels.cuh", "// speed 1.5\n")),
        )
    ),
    Case(
        "anchors-that-fail-three-times",
        (plan("a"), *[code(replace(f"not there {k}", "x")) for k in range(3)], *good("b")),
        "planned unplaced unplaced unplaced planned written faster planned",
    ),
    # ------------------------------------------------------------------------------------------- refusals
    Case("refused-once", (refuse(), *good()), "refused planned written faster planned"),
    Case("refused-twice", (refuse(), plan(), filtered("I was")), "refused planned refused", RULES, Stop.REFUSED),
    # ------------------------------------------------------------------------------------------- repetition
    Case(
        "the-same-edits-told-once",
        (plan("a"), code(mark("NO_GAIN")), plan("b"), code(mark("NO_GAIN")), code(mark(FASTER)), nothing_left()),
        "planned written no gain planned written written faster planned",
    ),
    Case(
        "the-same-edits-again-and-again",
        (plan("a"), code(mark("NO_GAIN")), plan("b"), code(mark("NO_GAIN")), code(mark("NO_GAIN"))),
        "planned written no gain planned written written",
        RULES,
        Stop.REPEATS,
    ),
    Case(
        "the-same-plan-again-and-again",
        (plan("a"), code(mark("NO_GAIN")), plan("a"), plan("a")),
        "planned written no gain planned planned",
        RULES,
        Stop.REPEATS,
    ),
    Case(
        "a-repair-that-changes-nothing-back",
        (
            plan("a"),
            code(mark("NO_BUILD")),
            fix(replace("// NO_BUILD\n", "")),
            fix(remark("NO_BUILD", FASTER)),
            nothing_left(),
        ),
        "planned written does not build written written faster planned",
    ),
]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_scenario(stage: Stage, number: int) -> None:
    """Each over another way of talking, in turn."""
    case = CASES[number]
    options = dict(case.options)
    hub = ScriptedHub(**options.pop("hub", {}))
    if options.get("budget", 0) is None:
        from stitchcuda.agent.model.accounting import Budget

        options["budget"] = Budget(rounds=40, tokens=100_000_000)
    played = stage.play(case.script, hub=hub, transport=TRANSPORTS[number % 4], **options)
    assert " ".join(played.events) == case.events
    result = played.done.result
    assert result.stopped is case.stop
    best = result.best
    assert (best.speedup[1].middle if best and best.speedup else None) == (
        None if case.speed is None else pytest.approx(case.speed, abs=0.006)
    )
    assert result.outcome in (Kind.IMPROVED, Kind.BOUNDS_MET)


@pytest.mark.parametrize(
    "transport", TRANSPORTS, ids=["-".join((api, "stream" if s else "whole")) for api, s in TRANSPORTS]
)
def test_every_way_of_talking(stage: Stage, transport: tuple[str, bool]) -> None:
    played = stage.play(good(), transport=transport)
    assert played.events == ["planned", "written", "faster", "planned"]
    assert {(r.api, r.streamed) for r in played.endpoint.requests} == {transport}
    value = played.done.value["model"]
    assert value["rounds"] == 3 and value["usage"]["requests"] == 3 and value["usage"]["tokens"] > 0
    assert value["files"] == ["kernels.cuh", "main.cu"] and len(value["transcript"]) == 32
