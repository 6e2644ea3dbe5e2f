"""Which worker does which item of a batch next: neighbours stay together, because they often share what they read (the headers of a
folder), and nothing large is left for the end, where it would keep one worker alone."""

from __future__ import annotations

from collections.abc import Sequence

_LARGE = 0.01  # of what one worker does


class Shares:
    """Items 0 to n-1 that cost `costs`, in any unit. Those that are large by themselves are given out first, the largest first. The others
    are cut into one run for each worker; whose run is done takes the second half of the one that costs most."""

    def __init__(self, costs: Sequence[float], workers: int) -> None:
        self._costs = costs
        large = _LARGE * sum(costs) / workers
        self._large = sorted((k for k, cost in enumerate(costs) if cost > large), key=lambda k: costs[k])
        self._runs: list[list[int]] = [[] for _ in range(workers)]  # each backwards: what comes next stands last
        rest = [k for k, cost in enumerate(costs) if cost <= large]
        whole, before = sum(costs[k] for k in rest), 0.0
        for k in rest:
            self._runs[min(int(before / whole * workers), workers - 1) if whole else 0].append(k)
            before += costs[k]
        for run in self._runs:
            run.reverse()

    def next(self, worker: int) -> int | None:
        """What the worker does next, None when everything is given out."""
        if self._large:
            return self._large.pop()
        if not self._runs[worker]:
            self._runs[worker] = self._half()
        run = self._runs[worker]
        return run.pop() if run else None

    def _half(self) -> list[int]:
        longest = max(self._runs, key=lambda run: sum(self._costs[k] for k in run))
        left, taken, at = sum(self._costs[k] for k in longest), 0.0, 0
        while at < len(longest) and (at == 0 or taken < left / 2):
            taken += self._costs[longest[at]]
            at += 1
        half, longest[:at] = longest[:at], []
        return half
