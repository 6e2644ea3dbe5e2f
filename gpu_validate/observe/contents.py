"""Contents of the buffers that the original reads back, kept for comparison under a tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from stitchcuda.analysis.contract.types import Contract, TensorSpec, Tolerance
from stitchcuda.gpu_validate.observe.elements import Element, element_of
from stitchcuda.gpu_validate.observe.numbers import Answer, compare
from stitchcuda.gpu_validate.trace.model import HostRead, Trace

SAY_IT = 'its element type is not known: say it in the intent, such as "output is float32"'


@dataclass(frozen=True, slots=True)
class Kind:
    """What a read's buffer holds. `row` is the length of its rows, None when that is not known; `sure`: the source says the
    element type. Without an element `why` says why not."""

    element: Element | None = None
    row: int | None = None
    sure: bool = False
    why: str = SAY_IT


def kinds(reads: Sequence[HostRead], contract: Contract, sources: Sequence[Element | None]) -> tuple[Kind, ...]:
    """What the reads of the original hold, `sources` being what the source says of each. An output of the contract stands for the
    reads of its size; one without a shape for all that the source is silent about, when they have one size. What an input is says
    nothing about an output."""
    outputs = [(o, element) for o in contract.outputs if o.dtype and (element := element_of(o.dtype)) is not None]
    silent = {r.bytes for r, source in zip(reads, sources, strict=True) if source is None}
    untyped = [o for o in contract.outputs if not o.dtype]
    return tuple(_kind(r.bytes, outputs, untyped, s, len(silent)) for r, s in zip(reads, sources, strict=True))


def _kind(
    size: int,
    outputs: Sequence[tuple[TensorSpec, Element]],
    untyped: Sequence[TensorSpec],
    source: Element | None,
    silent: int,
) -> Kind:
    shaped = {(e, _row(o)) for o, e in outputs if _bytes(o, e) == size}
    if len(shaped) > 1:
        return Kind(why=f"several outputs have {size} bytes, so that it is not known which one it is")
    if shaped:
        element, row = shaped.pop()
        if source is not None and source.code != element.code:
            return Kind(why=f"the contract says {element.name}, the source {source.name}")
        # Small half-precision numbers look like whole ones; that the size is the one said has to do for them.
        return Kind(element, row, source is not None or element.size == 2)
    if source is not None:
        typed = [o for o, e in outputs if e.code == source.code]
        rows = {_row(o) for o in (*typed, *untyped) if _bytes(o, source) in (size, None)}
        return Kind(source, rows.pop() if len(rows) == 1 else None, True)
    loose = {(e, _row(o)) for o, e in outputs if _bytes(o, e) is None}
    if len(loose) == 1 and silent == 1:
        element, row = loose.pop()
        return Kind(element, row)
    if loose:
        return Kind(why='which output it is, is not known: say the shapes, such as "output is float32[8, 1000]"')
    return Kind()


def _bytes(output: TensorSpec, element: Element) -> int | None:
    """None when a dimension is not known."""
    sizes = [d for d in output.shape or () if isinstance(d, int)]
    known = output.shape is not None and len(sizes) == len(output.shape)
    return prod(sizes) * element.size * element.parts if known else None


def _row(output: TensorSpec) -> int | None:
    last = output.shape[-1] if output.shape else None
    return last if isinstance(last, int) else None


@dataclass(frozen=True)
class Reference:
    """One read of the original: the different contents of its runs, None when one was not kept. `answers` are those given before,
    by the digest of what was asked about."""

    digests: frozenset[str]
    runs: tuple[bytes, ...] | None
    kind: Kind
    answers: dict[str, Answer] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether another run's contents can be held against it although its own runs differ."""
        return self.runs is not None and self.kind.element is not None and self.kind.element.floating

    def answer(self, read: HostRead, tolerance: Tolerance) -> Answer:
        """Whether the version's read agrees."""
        if read.digest and read.digest in self.digests:
            return Answer(True)
        if read.digest in self.answers:
            return self.answers[read.digest]
        found = self._compared(read, tolerance)
        if read.digest and read.contents is not None:
            self.answers[read.digest] = found
        return found

    def _compared(self, read: HostRead, tolerance: Tolerance) -> Answer:
        if read.contents is None or self.runs is None:
            return Answer(
                None,
                "brought other contents than in the baseline, which were not kept: there are more than a run (1 GiB) or a validation (4 GiB) keeps",
            )
        if any(len(run) != len(read.contents) for run in self.runs):
            return Answer(False, "has another size than in the baseline")
        kind = self.kind
        if kind.element is None:
            return Answer(None, f"brought other contents than in the baseline, and {kind.why}")
        return compare(kind.element, self.runs, read.contents, tolerance, kind.row, kind.sure)


def references(runs: Sequence[Sequence[HostRead]], known: Sequence[Kind]) -> tuple[Reference, ...]:
    """From the original's runs, which have the same reads."""
    out = []
    for together, kind in zip(zip(*runs, strict=True), known, strict=True):
        different = {read.digest: read.contents for read in together}
        kept = [contents for contents in different.values() if contents is not None]
        whole = len(kept) == len(different) and "" not in different
        out.append(Reference(frozenset(different) - {""}, tuple(kept) if whole else None, kind))
    return tuple(out)


def kept_bytes(kept: Sequence[Reference]) -> int:
    """How much memory they take: the same contents stand in many reads."""
    return sum({id(run): len(run) for reference in kept for run in reference.runs or ()}.values())


def forgotten(kept: Sequence[Reference]) -> tuple[Reference, ...]:
    """The references with their contents let go."""
    return tuple(replace(reference, runs=None) for reference in kept)


def without_contents(trace: Trace) -> Trace:
    """The trace as it is kept: contents take memory."""
    if all(read.contents is None for read in trace.reads):
        return trace
    return replace(trace, reads=tuple(replace(read, contents=None) for read in trace.reads))
