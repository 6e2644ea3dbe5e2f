"""A random sample of the performance hints that `stitchcuda check` gives by default, with the code around them, to be read.

    python benchmarks/hint_sample.py --count 100 --seed 1 TREE...

The same trees and seed give the same sample. Programs written for HIP are left out. `--code` restricts the sample to some
codes; `--summary` prints how many hints there are of each.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from stitchcuda.analysis.findings.finding import Confidence, Group
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.rules import BY_CODE
from stitchcuda.server.cli import inputs, programs
from stitchcuda.server.report.rows import rows


@dataclass(frozen=True)
class Hint:
    """One finding, as the sample shows it."""

    path: str
    line: int
    code: str
    message: str
    related: tuple[str, ...]
    source: tuple[str, ...]  # the lines of its file


def hints_of(group: programs.Group) -> list[Hint]:
    """The performance hints about one program that are shown by default."""
    index = Index()
    texts = group.texts()
    for path, content in texts.items():
        index.put(path, content)
    found = []
    for row in rows(index.analyse()):
        if row.group != Group.PERFORMANCE.value or row.confidence == Confidence.POSSIBLE.value:
            continue
        if not BY_CODE[row.code].default:
            continue
        lines = texts[row.place.path].decode(errors="replace").splitlines()
        related = tuple(f"{r.place.path}:{r.place.line}: {r.message}" for r in row.related)
        found.append(Hint(row.place.path, row.place.line, row.code, row.message, related, tuple(lines)))
    return found


def show(number: int, hint: Hint, context: int) -> None:
    print(f"\n[{number}] {hint.path}:{hint.line}: {hint.code}: {hint.message}")
    for text in hint.related:
        print(f"      {text}")
    for at in range(max(1, hint.line - context), min(len(hint.source), hint.line + context) + 1):
        print(f"{'>' if at == hint.line else ' '} {at:5} {hint.source[at - 1]}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", metavar="TREE")
    parser.add_argument("--count", type=int, default=100, help="hints in the sample")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--context", type=int, default=8, help="lines shown before and after")
    parser.add_argument("--code", action="append", help="only this code (may be given again)")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--summary", action="store_true", help="only how many hints there are of each code")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    plan = programs.plan([f for f in inputs.find(given.trees).files if "-hip/" not in f], given.trees)
    seen: dict[tuple[str, int, str, str], Hint] = {}
    with ProcessPoolExecutor(given.jobs) as pool:
        for found in pool.map(hints_of, plan.groups, chunksize=4):
            for hint in found:
                if not given.code or hint.code in given.code:
                    seen.setdefault((hint.path, hint.line, hint.code, hint.message), hint)
    everything = [seen[key] for key in sorted(seen)]
    counts = Counter(hint.code for hint in everything)
    print(f"{len(everything)} hints in {len(plan.groups)} programs, {time.monotonic() - started:.0f} s")
    for code, count in counts.most_common():
        print(f"  {code:<20}{count:>6}")
    if given.summary:
        return 0
    sample = random.Random(given.seed).sample(everything, min(given.count, len(everything)))
    for number, hint in enumerate(sorted(sample, key=lambda h: (h.code, h.path, h.line)), 1):
        show(number, hint, given.context)
    return 0


if __name__ == "__main__":
    sys.exit(main())
