"""Random programs of two streams, and random changes of them: no version that passes has a race.

The order of each program is worked out here from its list of operations alone, as far from the analysis as can be.
"""

from __future__ import annotations

import random

import pytest
from stitchcuda.analysis.proof.model import ProofState
from stitchcuda.analysis.proof.prove import prove

from tests.pure.proof.recomposing import DEVICE_DECLARED, FUSED, KERNELS
from tests.pure.proof.twins import HEAD, analysed

BUFFERS, STREAMS = ["x", "b", "t", "y", "z"], ["s", "s2"]
TOUCHES = {"bias": "rrw", "gelu": "rw", "copy": "rw", "bias_gelu": "rrw"}
Step = tuple[str, tuple[str, ...], str]  # kernel or call, what it is given, stream
Program = list[Step]


def touched(step: Step) -> tuple[set[str], set[str]]:
    """What it reads and what it writes."""
    name, given, _ = step
    if name in TOUCHES:
        kinds = list(zip(given, TOUCHES[name], strict=True))
        return {b for b, k in kinds if k == "r"}, {b for b, k in kinds if k == "w"}
    return ({given[0]}, set()) if name == "download" else (set(), {given[0]}) if name == "fill" else (set(), set())


def races(program: Program) -> bool:
    before: list[set[int]] = []
    last: dict[str, set[int]] = {s: set() for s in STREAMS}
    events: dict[str, set[int]] = {}
    host: set[int] = set()
    for k, (name, given, stream) in enumerate(program):
        before.append(host | last[stream])
        if name == "record":
            events[given[0]] = set(last[stream])
        elif name == "wait":
            last[stream] = last[stream] | events.get(given[0], set())
        elif name == "sync":
            host = host | last[stream]
        else:
            last[stream] = last[stream] | {k}
    for j, later in enumerate(program):
        for i, first in enumerate(program[:j]):
            (reads, writes), (reads_later, writes_later) = touched(first), touched(later)
            if (writes & (reads_later | writes_later) or reads & writes_later) and i not in before[j]:
                return True
    return False


def text(program: Program) -> str:
    lines = []
    for name, given, stream in program:
        if name in TOUCHES:
            lines.append(f"{name}<<<n / 256, 256, 0, {stream}>>>({', '.join(given)}, n);")
        elif name == "download":
            lines.append(f"CHECK(cudaMemcpyAsync({given[1]}, {given[0]}, n * 4, cudaMemcpyDeviceToHost, {stream}));")
        elif name == "fill":
            lines.append(f"CHECK(cudaMemsetAsync({given[0]}, 0, n * 4, {stream}));")
        elif name == "record":
            lines.append(f"CHECK(cudaEventRecord({given[0]}, {stream}));")
        elif name == "wait":
            lines.append(f"CHECK(cudaStreamWaitEvent({stream}, {given[0]}, 0));")
        else:
            lines.append(f"CHECK(cudaStreamSynchronize({stream}));")
    opening = [f"float* {b}; CHECK(cudaMalloc(&{b}, n * 4)); CHECK(cudaMemset({b}, 1, n * 4));" for b in BUFFERS]
    opening += [f"float* h{k}; CHECK(cudaMallocHost(&h{k}, n * 4));" for k in range(4)]
    opening += [f"cudaEvent_t e{k}; CHECK(cudaEventCreate(&e{k}));" for k in range(4)]
    opening += [f"cudaStream_t {s}; CHECK(cudaStreamCreateWithFlags(&{s}, cudaStreamNonBlocking));" for s in STREAMS]
    wait = "CHECK(cudaDeviceSynchronize());"
    told = 'std::printf("%f %f %f %f", h0[0], h1[0], h2[0], h3[0]);'
    body = "\n".join(["const int n = 1 << 20;", *opening, wait, *lines, wait, told])
    return f"{HEAD}{KERNELS}{FUSED}int main() {{\n{body}\nreturn 0;\n}}\n"


def made(draw: random.Random) -> Program:
    program: Program = []
    for k in range(4):
        stream, other = draw.sample(STREAMS, 2)
        kind = draw.choice(["launch", "pair", "pair", "fill", "sync", "event", "download"])
        if kind == "launch":
            program.append(launch(draw))
        elif kind == "pair":
            x, b, t, y = draw.sample(BUFFERS, 4)
            program += [("bias", (x, b, t), stream), ("gelu", (t, y), stream)]
        elif kind == "event":
            program += [("record", (f"e{k}",), stream), ("wait", (f"e{k}",), other)]
        elif kind == "download":
            program.append(("download", (draw.choice(BUFFERS), f"h{k}"), stream))
        else:
            program.append((kind, (draw.choice(BUFFERS),), stream))
    return [*program, ("download", (draw.choice(BUFFERS), "h3"), "s")]


def launch(draw: random.Random) -> Step:
    name = draw.choice(["bias", "gelu", "copy"])
    return name, tuple(draw.sample(BUFFERS, len(TOUCHES[name]))), draw.choice(STREAMS)


def changed(draw: random.Random, program: Program) -> Program:
    """Fused where two kernels follow each other; then perhaps spoilt."""
    new = list(program)
    for k in reversed(range(len(new) - 1)):
        (first, given, stream), (second, taken, other) = new[k], new[k + 1]
        if (first, second, stream) == ("bias", "gelu", other) and given[2] == taken[0] and draw.random() < 0.8:
            new[k : k + 2] = [("bias_gelu", (given[0], given[1], taken[1]), stream)]
    launches = [k for k, step in enumerate(new) if step[0] in TOUCHES]
    way = draw.choice(["as it is", "stream", "memory", "place", "gone", "more", "order"])
    if not launches or way == "as it is":
        return new
    k = draw.choice(launches)
    name, given, stream = new[k]
    if way == "stream":
        new[k] = name, given, draw.choice([s for s in STREAMS if s != stream])
    elif way == "memory":
        new[k] = name, tuple(draw.sample(BUFFERS, len(given))), stream
    elif way == "place":
        new.insert(max(0, k + draw.choice([-1, 1])), new.pop(k))
    elif way == "gone":
        new.pop(k)
    elif way == "more":
        new.insert(k, launch(draw))
    else:
        new = [s for s in new if s[0] not in ("sync", "wait", "record") or draw.random() < 0.5]
    return new


@pytest.mark.parametrize("seed", range(6))
def test_what_passes_has_no_race(seed: int) -> None:
    draw = random.Random(seed)
    kept = tried = 0
    while tried < 25:
        program = made(draw)
        version = changed(draw, program)
        if races(program) or version == program:
            continue
        tried += 1
        proof = prove(analysed(text(program)), analysed(text(version)), DEVICE_DECLARED)
        if proof.state in (ProofState.KEPT, ProofState.PROVED):
            assert not races(version), (program, version)
            kept += proof.state is ProofState.KEPT
    assert kept > 0, "none of the honest ones passes"
