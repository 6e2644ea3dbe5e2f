"""What an entry was too large to reach: the functions that come next are looked at from their own start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.order.timeline import Timeline
from stitchcuda.analysis.program.ir import Program

STOPPED = "analysis stopped early"  # how a cut begins that ended the execution of an entry
MOST = 150  # functions looked at
PART = 8  # of the effort that a whole entry may take


def options_beyond(options: Options) -> Options:
    """The bounds for one such function."""
    return Options(
        max_paths=max(2, options.max_paths // 2),
        max_steps=options.max_steps // PART,
        max_ops=options.max_ops // PART,
        max_depth=options.max_depth,
        per_thread_default_stream=options.per_thread_default_stream,
        include_host_access=options.include_host_access,
    )


class Beyond:
    """The functions with CUDA calls that the entries lead to and did not come to, callers before what they call."""

    def __init__(self, program: Program, timelines: Iterable[Timeline]) -> None:
        self._program = program
        self._executed: set[str] = set()
        self._cut = False
        for timeline in timelines:
            self.ran(timeline)
            self._cut |= any(cut.what.startswith(STOPPED) for cut in timeline.cuts)

    def ran(self, timeline: Timeline) -> None:
        self._executed |= timeline.functions

    def __iter__(self) -> Iterator[str]:
        given = 0
        tried: set[str] = set()
        while self._cut and given < MOST:
            uid = self._next(tried)
            if uid is None:
                return
            tried.add(uid)
            given += 1
            yield uid

    def _next(self, tried: set[str]) -> str | None:
        """Of the functions left, the first that one which ran calls; of those that only unreached ones call, any."""
        left = [u for u in sorted(self._program.reaches_cuda) if u not in self._executed and u not in tried]
        left = [u for u in left if self._is_host(u) and self._program.callers.get(u)]
        near = (u for u in left if not self._executed.isdisjoint(self._program.callers[u]))
        return next(near, left[0] if left else None)

    def _is_host(self, uid: str) -> bool:
        function = self._program.functions[uid]
        return function.body is not None and function.space in ("host", "host_device") and function.language != "python"
