"""Many operations that all race: what is found is what looking at every pair finds, with few pairs looked at."""

from __future__ import annotations

import random

import pytest
from stitchcuda.analysis.findings.around import holding
from stitchcuda.analysis.findings.dense import Aside
from stitchcuda.analysis.findings.race import all_races, streams_apart, surest, without_implied
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.order.timeline import Access, Condition, Mode, Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Block, Break, Program

from tests.pure.rules.building import Run, read, site, whole, write

WORK = frozenset({ApiKind.LAUNCH, ApiKind.COPY})
HOST = frozenset({ApiKind.HOST_READ})
PROGRAM = Program({}, {})


class Asked:
    """Takes every pair of which one writes, and counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, earlier: Op, first: Access, later: Op, second: Access) -> bool:
        self.times += 1
        return not (first.mode is Mode.READ and second.mode is Mode.READ)


def under(text: str, taken: bool = True) -> tuple[Condition, ...]:
    return (Condition(site(700), text, taken),)


def random_run(seed: int) -> Timeline:
    """Launches and host reads on a few streams and buffers, with waits now and then, in half of the runs some of it under
    conditions."""
    pick = random.Random(seed)
    conditions = [(), (), under("a"), under("b"), under("b", taken=False), under("c"), under("a") + under("b")]
    run = Run()
    kinds = [StreamKind.CREATED, StreamKind.CREATED, StreamKind.CREATED, StreamKind.PARAMETER, StreamKind.UNKNOWN]
    streams = [run.stream(f"s{i}", kind) for i, kind in enumerate(pick.sample(kinds, 4))]
    buffers = [run.buffer(f"d{i}") for i in range(3)]
    events = [run.event(f"e{i}") for i in range(2)]
    for _ in range(100):
        if seed % 2:
            run.conditions = pick.choice(conditions)
        stream, buffer = pick.choice(streams), pick.choice(buffers)
        span = whole(pick.choice([400, 100, 4]), pick.choice([0, 0, 200]))
        access = pick.choice([read, write])(buffer, span, may=pick.random() < 0.2)
        dice = pick.random()
        if dice < 0.6:
            more = [read(pick.choice(buffers))] if pick.random() < 0.4 else []
            run.launch(pick.choice("kqr"), stream, access, *more, certain=pick.random() < 0.9)
        elif dice < 0.75:
            run.host(ApiKind.HOST_READ, read(buffer, span))
        elif dice < 0.84:
            run.record(pick.choice(events), stream)
        elif dice < 0.95:
            run.wait_event(pick.choice(events), stream)
        elif dice < 0.98:
            run.unknown_call()
        else:
            run.sync(stream)
    return run.timeline()


@pytest.mark.parametrize("later", [WORK, HOST])
@pytest.mark.parametrize("any_buffer", [True, False])
def test_what_is_set_aside_changes_nothing(later: frozenset[ApiKind], any_buffer: bool) -> None:
    spared = 0
    for seed in range(60):
        line, plain, fewer = random_run(seed), Asked(), Asked()
        aside = Aside(line, lambda op: op.id, surest(PROGRAM, line, Asked()), streams_apart, few=0)
        every = list(all_races(PROGRAM, line, WORK, later, plain))
        left = list(all_races(PROGRAM, line, WORK, later, fewer, aside))
        spared += len(every) - len(left)
        expected = without_implied(line, every, any_buffer=any_buffer)
        assert without_implied(line, left, aside, any_buffer=any_buffer) == expected
    assert spared > 100


def test_operations_of_one_place_are_never_set_aside() -> None:
    run = Run()
    a, b, x = run.stream("a"), run.stream("b"), run.buffer("d")
    for _ in range(20):
        run.launch("k", a, write(x))
    later = run.launch("k", b, write(x))
    line = run.timeline()
    whole_run = (1 << later.id) - 1
    one_place = Aside(
        line, lambda op: "loop" if op.id < 20 else "behind", surest(PROGRAM, line, Asked()), streams_apart
    )
    assert one_place.left(later, whole_run, x.id) == whole_run
    places = Aside(line, lambda op: op.id, surest(PROGRAM, line, Asked()), streams_apart)
    assert places.left(later, whole_run, x.id) == 1 << 19


@pytest.mark.parametrize("kind", ["streams", "parameters", "data", "host", "conditions", "some conditions"])
def test_pairs_that_are_compared_grow_with_the_operations(kind: str) -> None:
    times = []
    for count in (100, 400):
        run = Run()
        of = StreamKind.PARAMETER if kind == "parameters" else StreamKind.CREATED
        streams, x = [run.stream(name, of) for name in "abc"], run.buffer("d")
        for i in range(count):
            if kind == "conditions" or (kind == "some conditions" and i % 2):
                run.conditions = under(f"f[{i}]")
            run.launch("k", streams[i % 3], read(x, may=kind == "data"), write(x, may=kind == "data"))
            if kind == "host":
                run.host(ApiKind.HOST_READ, read(x))
            run.conditions = ()
        line, asked = run.timeline(), Asked()
        aside = Aside(line, lambda op: op.id, surest(PROGRAM, line, asked), streams_apart)
        found = list(all_races(PROGRAM, line, WORK, HOST if kind == "host" else WORK, asked, aside))
        assert len(without_implied(line, found, aside)) >= count
        times.append(asked.times)
    assert times[1] < 5 * times[0]


def test_each_of_many_launches_is_told_with_its_nearest() -> None:
    lines = [f"  k<<<1, 32, 0, {'abc'[i % 3]}>>>(d);" for i in range(60)]
    made = [f"  cudaStreamCreateWithFlags(&{s}, cudaStreamNonBlocking);" for s in "abc"]
    head = ["__global__ void k(float* p) { p[threadIdx.x] += 1.0f; }", "int main() {", "  float* d;"]
    text = "\n".join([*head, "  cudaMalloc(&d, 128);", "  cudaStream_t a, b, c;", *made, *lines, "}"])
    index = Index(strict=True)
    index.put("a.cu", text.encode())
    found = [f for f in index.analyse().findings if f.code == "stream-race-raw"]
    assert len(found) == 2 * 60 - 3
    assert all(f.fixes for f in found)
    text = text[text.index("int main") :]
    apart = [text[: f.site.span[0]].count("\n") - text[: f.related[0].site.span[0]].count("\n") for f in found]
    assert set(apart) == {1, 2}


@pytest.mark.parametrize("spans", ["apart", "the same", "mixed"])
def test_parts_of_a_long_block(spans: str) -> None:
    places = [(10 * i, 10 * i + 8) for i in range(50)]
    if spans == "the same":
        places = [p for p in places for _ in range(2)]
    elif spans == "mixed":
        places = [*places[25:], *places[:25]]
    block = Block((0, 500), tuple(Break(place) for place in places))
    for start in range(0, 500, 3):
        for end in (start, start + 2, start + 9, start + 30):
            expected = [s for s in block.body if s.span[0] <= start and end <= s.span[1]]
            assert all(a is b for a, b in zip(holding(block, (start, end)), expected, strict=True))
