"""Do kernels that stand for others run exactly as often as these did?

The proof tells which launches stand for which, in groups (docs/json.md, G1), but not how often a group runs. So every kernel gives
one equation: it ran more often by as much as the groups' runs add to it. When no numbers of runs solve them all, some group
ran more or less often than what it stands for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Exchange:
    """Each time the kernels of `before` ran, those of `after` run now."""

    before: tuple[str, ...]
    after: tuple[str, ...]


def exchanges_of(evidence: Mapping[str, Any]) -> tuple[Exchange, ...]:
    """What the evidence of G1 says of groups."""
    found = [Exchange(_names(g["before"]), _names(g["after"])) for g in evidence.get("groups", ())]
    return tuple(dict.fromkeys(found))


def _names(kernels: Sequence[str]) -> tuple[str, ...]:
    return tuple(plain_name(k) for k in kernels)


def plain_name(kernel: str) -> str:
    """A kernel's own name: `scale` for `ns::scale<float, 4>(float*)`."""
    name = kernel.replace("(anonymous namespace)::", "").replace("{anonymous}::", "")
    return re.split(r"[<(]", name, maxsplit=1)[0].removeprefix("void ").rsplit("::", 1)[-1].strip()


def plain_counts(kernels: Mapping[str, int]) -> Counter[str]:
    out: Counter[str] = Counter()
    for name, count in kernels.items():
        out[plain_name(name)] += count
    return out


def unexplained(before: Mapping[str, int], after: Mapping[str, int], exchanges: Sequence[Exchange]) -> list[str]:
    """Sentences on kernels that ran otherwise than the exchanges explain. Both counts are by plain name; what is in `before`
    varies not."""
    names = sorted({*before, *after})
    moves = [Counter(e.after) for e in exchanges]
    for move, exchange in zip(moves, exchanges, strict=True):
        move.subtract(Counter(exchange.before))
    columns = [(k, move) for k, move in enumerate(moves) if any(move.values())]
    involved = {name for _, move in columns for name, count in move.items() if count}
    out = [
        f"kernel {name} ran {after.get(name, 0)} times, {before.get(name, 0)} in the baseline"
        for name in names
        if name not in involved and after.get(name, 0) != before.get(name, 0)
    ]
    rows = [
        [*(Fraction(move[name]) for _, move in columns), Fraction(after.get(name, 0) - before.get(name, 0))]
        for name in sorted(involved)
    ]
    if not _solvable(rows, len(columns)):
        out += [_told(exchanges[k], before, after) for k, _ in columns]
    return out


def _told(exchange: Exchange, before: Mapping[str, int], after: Mapping[str, int]) -> str:
    def ran(kernels: Sequence[str], counts: Mapping[str, int]) -> str:
        return ", ".join(f"{name} {counts.get(name, 0)} times" for name in dict.fromkeys(kernels))

    old = ran(exchange.before, before)
    new = ran(exchange.after, after)
    return f"{new}, in place of {old} in the baseline: not as often as what it stands for"


def _solvable(rows: list[list[Fraction]], unknowns: int) -> bool:
    """Whether numbers of runs, whole and not negative, satisfy all equations (the last column is what they give)."""
    pivots: list[int] = []
    for column in range(unknowns):
        place = len(pivots)
        row = next((k for k in range(place, len(rows)) if rows[k][column]), None)
        if row is None:
            continue
        rows[place], rows[row] = rows[row], rows[place]
        lead = rows[place][column]
        rows[place] = [x / lead for x in rows[place]]
        for k, other in enumerate(rows):
            if k != place and other[column]:
                rows[k] = [x - other[column] * y for x, y in zip(other, rows[place], strict=True)]
        pivots.append(column)
    if any(row[-1] for row in rows[len(pivots) :]):
        return False
    if len(pivots) < unknowns:
        return True  # several numbers would do
    return all(row[-1] >= 0 and row[-1].denominator == 1 for row in rows[: len(pivots)])
