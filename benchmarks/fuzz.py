"""Mutated real files through the whole analysis: nothing may crash, hang or grow.

    python -m benchmarks.fuzz --count 20000 --seed 1 --jobs 16 --json OUT TREE...

Each round takes a random source of the trees, changes it in one to four places (tokens deleted, doubled, swapped, brackets and keywords put
in, lines cut, bytes broken, the end cut off) and analyses it strictly: an internal error is a crash, and so is a round that takes more
than `HANGS` or more memory than `--memory`. A round's seed is its number: what a round does depends neither on `--jobs` nor on the rounds
before, and `--only N` makes one again.

CPU seconds count; not those that it takes to look for garbage in all that a process keeps, which is done between rounds. The limit
is `PER_1000_LINES`; what a file costs whatever its length is allowed for by `FLOOR` seconds. The distribution is of seconds per 1000
lines, where a file counts with as many lines as the floor pays for at least.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import re
import resource
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from stitchcuda.analysis.index import Index
from stitchcuda.server.sources import is_relevant

from benchmarks.peer import header, load, percentile

PER_1000_LINES = 0.2  # CPU seconds
FLOOR = 0.1
LEAST_LINES = int(1000 * FLOOR / PER_1000_LINES)
HANGS = 60  # CPU seconds of one round
BATCH = 50  # rounds that a process takes at a time
COLLECTED = 10  # rounds after which all garbage is collected
KEPT = 40  # of the slowest rounds
MOST_BYTES = 120_000
TOKEN = re.compile(rb"[A-Za-z_]\w*|\d[\w.]*|<<<|>>>|[^\w\s]")
INSERTED = (
    *b"{ } ( ) [ ] < > ; , * & # \" ' \\ @ \x00 \xff".split(b" "),
    b"<<<", b">>>", b"/*", b"*/", b"//", b"#if 0\n", b"\n#else\n", b"\n#endif\n", b"template<", b"__global__ ", b"return ",
    b"for(;;)", b"while(1)", b"if(", b"else ", b"goto x;", b"x:", b"switch(x){case 0:", b"struct S {", b"}", b"[=]", b"operator()",
    b"cudaStreamSynchronize(s);", b"k<<<1,1,0,s>>>(p);", b"cudaMemcpyAsync(a,b,n,cudaMemcpyDeviceToHost,s);", b"__syncthreads();",
)  # fmt: skip


@dataclass
class Outcome:
    """Of some rounds. `costs` are CPU seconds per 1000 lines (see above)."""

    rounds: int = 0
    lines: int = 0
    seconds: float = 0.0
    costs: list[float] = field(default_factory=list)
    crashes: list[dict[str, Any]] = field(default_factory=list)
    over: int = 0
    slowest: list[dict[str, Any]] = field(default_factory=list)
    process: int = 0
    memory_mb: int = 0  # the most that the process has used, so far

    def add(self, other: Outcome) -> None:
        self.rounds += other.rounds
        self.lines += other.lines
        self.seconds += other.seconds
        self.costs += other.costs
        self.crashes += other.crashes
        self.over += other.over
        self.slowest = sorted(self.slowest + other.slowest, key=lambda s: -s["seconds_per_1000_lines"])[:KEPT]
        self.memory_mb = max(self.memory_mb, other.memory_mb)


class Hang(Exception):
    """A round took too long."""


def mutated(text: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 4)):
        text = chance.choice(MUTATIONS)(text, chance)
    return text


def _token(text: bytes, chance: random.Random) -> tuple[int, int]:
    at = chance.randrange(len(text) + 1)
    match = TOKEN.search(text, at) or TOKEN.search(text)
    return match.span() if match else (0, 0)


def _delete(text: bytes, chance: random.Random) -> bytes:
    start, end = _token(text, chance)
    return text[:start] + text[end:]


def _double(text: bytes, chance: random.Random) -> bytes:
    start, end = _token(text, chance)
    return text[:end] + text[start:end] + text[end:]


def _swap(text: bytes, chance: random.Random) -> bytes:
    (a, b), (c, d) = sorted((_token(text, chance), _token(text, chance)))
    return text if b > c else text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def _insert(text: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(INSERTED) + text[at:]


def _cut_line(text: bytes, chance: random.Random) -> bytes:
    lines = text.splitlines(keepends=True)
    if lines:
        at = chance.randrange(len(lines))
        del lines[at : at + chance.randint(1, 3)]
    return b"".join(lines)


def _move_lines(text: bytes, chance: random.Random) -> bytes:
    lines = text.splitlines(keepends=True)
    if len(lines) < 4:
        return text
    at, size, to = chance.randrange(len(lines)), chance.randint(1, 12), chance.randrange(len(lines))
    block = lines[at : at + size]
    return b"".join([*lines[:to], *block, *lines[to:]])


def _break_byte(text: bytes, chance: random.Random) -> bytes:
    if not text:
        return text
    at = chance.randrange(len(text))
    return text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :]


def _truncate(text: bytes, chance: random.Random) -> bytes:
    return text[: chance.randrange(len(text) + 1)]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _delete, _delete, _double, _swap, _insert, _insert, _insert, _cut_line, _move_lines, _break_byte, _truncate,
)  # fmt: skip


def run(files: Sequence[tuple[str, str]], numbers: Sequence[int], seed: int, keep: str) -> Outcome:
    """`files`: each as it is opened and as it is told. The text of the last round goes to `keep`."""
    result = Outcome(process=os.getpid())
    for number in numbers:
        if number % COLLECTED == 0:
            gc.collect()
        chance = random.Random(f"{seed}/{number}")
        path, name = chance.choice(files)
        text = mutated(Path(path).read_bytes(), chance)
        lines = text.count(b"\n") + 1
        about: dict[str, Any] = {"round": number, "file": name, "lines": lines}
        signal.setitimer(signal.ITIMER_VIRTUAL, HANGS)
        start = time.process_time()
        try:
            index = Index(strict=True)
            index.put(os.path.basename(path), text)
            index.analyse()
        except (Exception, MemoryError):  # noqa: BLE001  # a crash is what is looked for
            last = traceback.format_exc().splitlines()
            result.crashes.append({**about, "error": last[-1], "where": [line.strip() for line in last[-5:-1]]})
        took = time.process_time() - start
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        cost = 1000 * took / max(lines, LEAST_LINES)
        about["seconds"] = round(took, 3)
        about["seconds_per_1000_lines"] = round(cost, 3)
        result.over += cost > PER_1000_LINES
        result.slowest.append(about)
        result.costs.append(round(cost, 4))
        result.rounds += 1
        result.lines += lines
        result.seconds += took
        if keep:
            Path(keep).write_bytes(text)
    result.slowest = sorted(result.slowest, key=lambda s: -s["seconds_per_1000_lines"])[:KEPT]
    result.memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return result


def sources(trees: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for tree in map(Path, trees):
        for path in sorted(tree.rglob("*")):
            fits = path.suffix in (".cu", ".cuh", ".cpp", ".c") and path.is_file() and path.stat().st_size <= MOST_BYTES
            if fits and is_relevant(str(path), "", path.read_bytes()):
                found.append((str(path), f"{tree.resolve().name}/{path.relative_to(tree).as_posix()}"))
    return found


def limited(memory_mb: int) -> None:
    """Of the process at hand: memory, and what ends a round that hangs."""
    most = memory_mb << 20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGVTALRM, _hangs)
    gc.set_threshold(50_000, 20, 1_000_000)  # as `check` does, but for the oldest


def _hangs(number: int, frame: object) -> None:
    raise Hang(f"more than {HANGS} CPU seconds")


def report(total: Outcome, memory: Mapping[int, int]) -> dict[str, Any]:
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    return {
        "rounds": total.rounds,
        "lines": total.lines,
        "cpu_seconds": round(total.seconds, 1),
        "lines_a_second": round(total.lines / max(total.seconds, 1e-9)),
        "crashes": total.crashes,
        "seconds_per_1000_lines": {name: percentile(total.costs, share) for name, share in shares.items()},
        "limit": PER_1000_LINES,
        "floor": FLOOR,
        "over": total.over,
        "largest_process_mb": total.memory_mb,
        "processes_mb": sorted(memory.values()),
        "slowest": total.slowest,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--memory", type=int, default=2048, help="megabytes of address space that a process may use")
    parser.add_argument("--only", type=int, help="one round again; its text goes to --keep")
    parser.add_argument("--keep", default="")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    files = sources(arguments.trees)
    if not files:
        parser.error("no sources with CUDA work in these trees")
    if arguments.only is not None:
        limited(arguments.memory)
        print(run(files, [arguments.only], arguments.seed, arguments.keep))
        return 0
    before = load()
    batches = [range(n, min(n + BATCH, arguments.count)) for n in range(0, arguments.count, BATCH)]
    total, memory = Outcome(), dict[int, int]()
    with ProcessPoolExecutor(
        arguments.jobs, get_context("spawn"), initializer=limited, initargs=(arguments.memory,)
    ) as pool:
        for part in pool.map(run, *zip(*((files, b, arguments.seed, "") for b in batches), strict=True)):
            total.add(part)
            memory[part.process] = part.memory_mb
            print(f"{total.rounds} rounds, {len(total.crashes)} crashes, {total.over} over the limit", flush=True)
    value = report(total, memory)
    print(json.dumps({k: v for k, v in value.items() if k not in ("crashes", "slowest")}, indent=1))
    for each in (*total.crashes[:20], *total.slowest[:10]):
        print(each)
    if arguments.json:
        whole = {**header(shlex.join(["python", "-m", "benchmarks.fuzz", *sys.argv[1:]]), before)}
        whole |= {
            "seed": arguments.seed,
            "jobs": arguments.jobs,
            "memory_limit_mb": arguments.memory,
            "files": len(files),
        }
        arguments.json.write_text(json.dumps(whole | value, indent=1) + "\n", encoding="utf-8")
    return 1 if total.crashes else 0


if __name__ == "__main__":
    sys.exit(main())
