"""Mutated real files through the whole analysis: nothing may crash, hang or grow.

    python benchmarks/fuzz.py --count 20000 --seed 1 --json OUT TREE...

Each round takes a random source of the trees, changes it in one to four places (tokens deleted, doubled, swapped, brackets and keywords put
in, lines cut, bytes broken, the end cut off) and analyses it strictly: an internal error is a crash. CPU seconds count, above
`FLOOR` for small files. Crashes and the slowest files are kept with their seed, so that one round can be made again with `--only N`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from stitchcuda.analysis.index import Index
from stitchcuda.server.sources import is_relevant

PER_1000_LINES = 0.2  # CPU seconds
FLOOR = 0.1
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
    rounds: int = 0
    lines: int = 0
    seconds: float = 0.0
    crashes: list[dict[str, object]] = field(default_factory=list)
    slow: list[dict[str, object]] = field(default_factory=list)
    worst: dict[str, object] = field(default_factory=dict)
    most_memory_mb: int = 0


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


def run(files: Sequence[str], numbers: Sequence[int], seed: int, keep: str) -> Outcome:
    result = Outcome()
    for number in numbers:
        chance = random.Random(f"{seed}/{number}")
        path = chance.choice(files)
        text = mutated(Path(path).read_bytes(), chance)
        lines = text.count(b"\n") + 1
        start = time.process_time()
        about: dict[str, object] = {"round": number, "file": path, "lines": lines}
        try:
            index = Index(strict=True)
            index.put(os.path.basename(path), text)
            index.analyse()
        except Exception:  # noqa: BLE001  # a crash is what is looked for
            last = traceback.format_exc().splitlines()
            result.crashes.append({**about, "error": last[-1], "where": [line.strip() for line in last[-5:-1]]})
        took = time.process_time() - start
        about["seconds"] = round(took, 3)
        about["seconds_per_1000_lines"] = round(1000 * took / lines, 3)
        if took > max(FLOOR, PER_1000_LINES * lines / 1000):
            result.slow.append(about)
        if took > float(str(result.worst.get("seconds", 0))):
            result.worst = about
        result.rounds += 1
        result.lines += lines
        result.seconds += took
        if keep:
            Path(keep).write_bytes(text)
    result.most_memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return result


def sources(trees: Sequence[str]) -> list[str]:
    found = []
    for path in (p for tree in trees for p in sorted(Path(tree).rglob("*"))):
        fits = path.suffix in (".cu", ".cuh", ".cpp", ".c") and path.is_file() and path.stat().st_size <= MOST_BYTES
        if fits and is_relevant(str(path), "", path.read_bytes()):
            found.append(str(path))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, help="one round again; its text goes to --keep")
    parser.add_argument("--keep", default="")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    files = sources(arguments.trees)
    if arguments.only is not None:
        print(run(files, [arguments.only], arguments.seed, arguments.keep))
        return 0
    size = 250
    batches = [range(n, min(n + size, arguments.count)) for n in range(0, arguments.count, size)]
    total = Outcome()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for part in pool.map(run, *zip(*((files, b, arguments.seed, "") for b in batches), strict=True)):
            total.rounds += part.rounds
            total.lines += part.lines
            total.seconds += part.seconds
            total.crashes += part.crashes
            total.slow += part.slow
            total.most_memory_mb = max(total.most_memory_mb, part.most_memory_mb)
            if float(str(part.worst.get("seconds", 0))) > float(str(total.worst.get("seconds", 0))):
                total.worst = part.worst
            print(f"{total.rounds} rounds, {len(total.crashes)} crashes, {len(total.slow)} slow", flush=True)
    value = {**asdict(total), "files": len(files), "seed": arguments.seed, "limit": PER_1000_LINES, "floor": FLOOR}
    print(json.dumps({k: v for k, v in value.items() if k not in ("crashes", "slow")}, indent=1))
    for crash in total.crashes[:20]:
        print(crash)
    for slow in sorted(total.slow, key=lambda s: -float(str(s["seconds_per_1000_lines"])))[:10]:
        print(slow)
    if arguments.json:
        arguments.json.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    return 1 if total.crashes else 0


if __name__ == "__main__":
    sys.exit(main())
