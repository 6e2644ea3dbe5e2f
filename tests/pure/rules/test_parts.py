"""Operations on many parts of one buffer: those that `alias` tells apart are known by their bytes, without a look at each pair."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from stitchcuda.analysis.findings.dense import Aside
from stitchcuda.analysis.findings.lookup import lookup
from stitchcuda.analysis.findings.parts import Parts
from stitchcuda.analysis.findings.race import all_races, streams_apart, surest
from stitchcuda.analysis.order.alias import same_memory
from stitchcuda.analysis.order.symbolic import ZERO, Poly, number, symbol
from stitchcuda.analysis.order.timeline import Range, Shape, Timeline

from tests.pure.rules.building import Run, read, write
from tests.pure.rules.test_dense_races import PROGRAM, WORK, Asked

N, M = symbol("n"), symbol("-m")  # `-m` may be negative


def random_range(pick: random.Random) -> Range:
    unit = pick.choice([number(1), number(1), number(1), N, N, N * N, M])
    start: Poly | None = unit * number(pick.randrange(40)) + pick.choice([ZERO, ZERO, ZERO, number(64), N, M])
    extent: Poly | None = unit * number(pick.choice([0, 1, 1, 2, 8, -1]))
    if pick.random() < 0.05:
        start = None
    if pick.random() < 0.05:
        extent = pick.choice([None, N + number(4)])
    member = pick.choice([(), (), (), ("x",), ("y",), ("[0]", "x")])
    return Range(start, extent, None, pick.choice([Shape.WHOLE, Shape.WHOLE, Shape.THREAD, Shape.SOME]), member=member)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_apart_is_what_alias_tells_apart(seed: int) -> None:
    pick = random.Random(seed)
    run = Run()
    stream = run.stream("s")
    buffers = [run.buffer("d"), run.buffer("e")]
    buffers.append(run.buffer("d2", site=buffers[0].site, instance=(N,)))  # of the family of the first, perhaps
    for _ in range(250):
        accesses = [
            pick.choice([read, write])(pick.choice(buffers), random_range(pick))
            for _ in range(1 + pick.randrange(6) // 5)
        ]
        run.launch("k", stream, *accesses)
    line = run.timeline()
    told = 0
    for users in lookup(line).users.values():
        parts = Parts(users)
        ops = {op.id: access for op, access in users}
        times = Counter(op.id for op, _ in users)
        for a, first in ops.items():
            apart = parts.apart(a)
            told += apart.bit_count()
            for b, second in ops.items():
                if apart >> b & 1:
                    assert times[a] == times[b] == 1 and same_memory(line, first, second) is False
            if apart >> a & 1:
                assert first.range.extent is not None and not first.range.extent.nonnegative()
    assert told > 300, "and it tells many"


def slots(count: int, unit: Poly, reach: int) -> Timeline:
    run = Run()
    streams, d = [run.stream("a"), run.stream("b")], run.buffer("d", size=unit * number(count + 1))
    for i in range(count):
        run.launch("k", streams[i % 2], write(d, Range(unit * number(i), unit * number(reach), None, Shape.WHOLE)))
    return run.timeline()


@pytest.mark.parametrize("unit", [number(256), number(4) * N])
def test_slots_of_a_buffer_are_not_compared_pair_by_pair(unit: Poly) -> None:
    for reach, expected in ((1, 0), (2, 399)):  # into the next slot
        line, asked = slots(400, unit, reach), Asked()
        aside = Aside(line, lambda op: op.id, surest(PROGRAM, line, asked), streams_apart)
        found = list(all_races(PROGRAM, line, WORK, WORK, asked, aside))
        assert len(found) == expected and asked.times <= 2 * expected
