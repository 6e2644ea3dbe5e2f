"""Buffers compared by their numbers on a real GPU: a kernel that adds up in another order, and CuPy against the standard library."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.analysis.contract.types import Tolerance
from stitchcuda.gpu_validate.observe.array_numbers import ArrayBackEnd, cupy_back_end, numpy_back_end
from stitchcuda.gpu_validate.observe.elements import ELEMENTS, Element, Noise, Rule
from stitchcuda.gpu_validate.observe.numbers import BackEnd, compare
from stitchcuda.gpu_validate.observe.plain_numbers import PlainBackEnd
from stitchcuda.gpu_validate.processes import Limits
from stitchcuda.gpu_validate.toolchain import find_nvcc
from stitchcuda.gpu_validate.trace.library import tracer_library
from stitchcuda.gpu_validate.trace.session import TraceRequest, run_traced

pytestmark = [pytest.mark.gpu, pytest.mark.nvcc]

SUMS = (Path(__file__).parent / "programs" / "sums.cu").read_text(encoding="utf-8")
FORWARD = "for (int k = 0; k < TERMS; ++k)"
BACKWARD = SUMS.replace(FORWARD, "for (int k = TERMS - 1; k >= 0; --k)")
F32 = ELEMENTS["float32"]
PLAIN = PlainBackEnd()
N = 1 << 22


def on_device() -> ArrayBackEnd:
    found = cupy_back_end()
    if found is None:
        pytest.skip("no CuPy: pip install 'stitchcuda[gpu]'")
    return found


def reads(folder: Path, text: str) -> list[bytes]:
    """What the program brings to the host."""
    nvcc, problem = find_nvcc()
    assert nvcc is not None, problem
    folder.mkdir()
    (folder / "main.cu").write_text(text, encoding="utf-8")
    subprocess.run([nvcc.path, "-O2", "-o", folder / "main", folder / "main.cu"], check=True)
    ended, trace = run_traced(
        [str(folder / "main")],
        cwd=folder,
        env=None,
        limits=Limits(seconds=60),
        request=TraceRequest("timing", contents=True),
        library=tracer_library(),
    )
    assert ended.stdout == b"rows 4194304, last of the first 1\n", ended
    assert trace is not None and not trace.problems and all(read.digest for read in trace.reads)
    return [read.contents or b"" for read in trace.reads]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], list[bytes]]:
    folder = tmp_path_factory.mktemp("sums")
    assert BACKWARD != SUMS
    return reads(folder / "forward", SUMS), reads(folder / "backward", BACKWARD)


def test_every_way_to_the_host_brings_what_is_there(both: tuple[list[bytes], list[bytes]]) -> None:
    for first, sums, corner in both:
        assert len(sums) == 4 * N and all(32 < x < 96 for x in struct.unpack("<64f", sums[:256]))
        assert first == sums[:1024]
        assert corner == b"".join(sums[4096 * row : 4096 * row + 64] for row in range(16))


def verdicts(using: Sequence[BackEnd], before: bytes, after: bytes) -> list[bool | None]:
    tolerances = [Tolerance("relative", rtol=1e-5), Tolerance("relative", rtol=1e-9), Tolerance("absolute", atol=1e-3)]
    return [compare(F32, [before], after, tolerance, None, True, using).near for tolerance in tolerances]


def test_another_order_of_a_sum_is_near_and_not_the_same(both: tuple[list[bytes], list[bytes]]) -> None:
    before, after = both[0][1], both[1][1]
    assert before != after
    part = 1 << 20
    assert verdicts([PLAIN], before[:part], after[:part]) == [True, False, True]
    device = on_device()
    assert verdicts([device], before, after) == [True, False, True]
    rule = Rule(1e-6)
    found = device.nearness(F32, before, after, rule, Noise())
    assert found.elements == N and 0 < found.different <= N and 0 < found.max_relative < 1e-5
    assert device.nearness(F32, before[:part], after[:part], rule, Noise()) == PLAIN.nearness(
        F32, before[:part], after[:part], rule, Noise()
    )
    arrays = numpy_back_end()
    assert arrays is not None and arrays.nearness(F32, before, after, rule, Noise()) == found


def made(draw: random.Random, element: Element, count: int, like: bytes = b"") -> bytes:
    """Bytes of any numbers, infinities and NaN among them; most are those of `like`."""
    fresh = draw.randbytes(count * element.size)
    if not like:
        return fresh
    size = element.size
    parts = [
        like[i * size : i * size + size] if draw.random() < 0.9 else fresh[i * size : i * size + size]
        for i in range(count)
    ]
    return b"".join(parts)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int32", "uint8", "int64"])
def test_the_gpu_finds_what_the_standard_library_finds(name: str) -> None:
    device, draw, element = on_device(), random.Random(name), ELEMENTS[name]
    for _ in range(4):
        one = made(draw, element, 1200)
        two, three = made(draw, element, 1200, one), made(draw, element, 1200, one)
        for rule in (Rule(1e-3), Rule(0.5), Rule(0.0, 1e-3), Rule(0.0, 1e30)):
            assert device.nearness(element, one, two, rule, Noise()) == PLAIN.nearness(element, one, two, rule, Noise())
            noise = PLAIN.noise(element, [one, two]) if element.floating else None
            if noise is not None:
                assert device.nearness(element, one, three, rule, noise) == PLAIN.nearness(
                    element, one, three, rule, noise
                )
        if element.floating:
            assert device.noise(element, [one, two]) == PLAIN.noise(element, [one, two])
            plain = struct.pack("<1200e" if name == "float16" else "<1200f", *(draw.random() for _ in range(1200)))
            if name in ("float16", "float32"):
                other = made(draw, element, 1200, plain) if name == "float32" else plain[:-2] + b"\0\0"
                assert device.noise(element, [plain, plain]) == PLAIN.noise(element, [plain, plain])
                assert device.ranks(element, [plain], other, 3, 24) == PLAIN.ranks(element, [plain], other, 3, 24)


def judged(folder: Path, intent: str) -> dict[str, Any]:
    """G3 of the whole command."""
    for name, text in (("a", SUMS), ("b", BACKWARD)):
        (folder / name).mkdir()
        (folder / name / "main.cu").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "stitchcuda.server.cli",
        "validate",
        str(folder / "a"),
        str(folder / "b"),
        "--intent",
        intent,
    ]
    done = subprocess.run(
        [*command, "--format", "json", "--progress", "none", "--all-gates", "--runs", "8"],
        check=False,
        capture_output=True,
        timeout=400,
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    gate: dict[str, Any] = next(g for g in json.loads(done.stdout)["gates"] if g["gate"] == "G3")
    print(json.dumps(gate, indent=1))
    return gate


@pytest.mark.parametrize(
    ("intent", "state"),
    [
        ("keep results bitwise equal", "failed"),
        ("results within relative 1e-5", "passed"),
        ("results within relative 1e-9", "failed"),
    ],
)
def test_the_command_judges_by_the_tolerance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, intent: str, state: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    gate = judged(tmp_path, intent)
    assert gate["state"] == state
    if state == "passed":
        large = next(b for b in gate["evidence"]["buffers"] if b["elements"] == N)
        assert large["dtype"] == "float32" and 0 < large["max_relative"] < 1e-5
        assert large["back_end"] == ("cupy" if cupy_back_end() else large["back_end"])
