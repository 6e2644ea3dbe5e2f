"""The listener that keeps the journal, and passes on what it hears."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stitchcuda.agent.journal import Made, Run, text_digest
from stitchcuda.agent.loop import Listener
from stitchcuda.agent.outcome import Candidate
from stitchcuda.agent.proposing import Proposed, read_base
from stitchcuda.gpu_validate.verdict import Verdict
from stitchcuda.gpu_validate.version import Version


class Recorder:
    """Writes every step before it is told to `then`. Raises JournalError."""

    def __init__(
        self,
        run: Run,
        baseline: Version,
        verdict: Callable[[Verdict], Mapping[str, Any]],
        then: Listener,
    ) -> None:
        self._run = run
        self._baseline = baseline
        self._verdict = verdict
        self._then = then
        self._made: list[Made] = []
        self.base: Mapping[str, bytes] = {}

    def step(self, kind: str, sentence: str, data: Mapping[str, object]) -> None:
        self._run.event(kind, sentence=sentence, **data)
        self._then.step(kind, sentence, data)

    def proposed(self, proposed: Proposed) -> None:
        self.base = proposed.base
        self._run.baseline(read_base(self._baseline, [*proposed.original.sources, *proposed.base]))
        self._run.units(proposed.base, proposed.units)
        self._run.refusals(proposed.refusals)
        self._then.proposed(proposed)

    def judged(self, candidate: Candidate) -> None:
        digest = candidate.version.digest
        files = {path: text_digest(text) for path, text in candidate.version.texts.items()}
        self._made.append(Made(candidate.units, digest, files))
        self._run.verdict(digest, self._verdict(candidate.verdict))
        self._run.made(self._made)
        self._then.judged(candidate)
