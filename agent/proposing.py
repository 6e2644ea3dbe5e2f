"""The part of the loop that needs no machine: transforms propose, the proof decides what becomes a unit.

Transforms run one after the other, each on the version with all units so far, and again until none has anything left. What
cannot be proved is a refusal with the reason, never a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from stitchcuda.agent import versions
from stitchcuda.agent.transforms.transform import Outcome, Proposal, Refusal, Situation, Transform
from stitchcuda.agent.units import TextEdit, Unit, leaves
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.gpu_validate.verdict import OF_ORIGINAL, GateResult, GateState
from stitchcuda.gpu_validate.version import Version

_MARK = b"\xef\xbb\xbf"
ROUNDS = 4  # of all transforms; each round must have added a unit
_TIME_METRICS = ("latency", "throughput", "speedup")


@dataclass(frozen=True)
class Analyser:
    """What the static part is made of. `check` compares the original with a changed version: G0 and G1. `price` estimates what
    each proposal saves, in seconds, None where that is not known; proposals below `noise` seconds are left out."""

    analyse: Callable[[Version], Analysis]
    check: Callable[[Analysis, Analysis, Declared], tuple[GateResult, ...]]
    price: Callable[[Sequence[Proposal], Analysis], Sequence[float | None]] | None = None
    noise: float = 0.0


@dataclass(frozen=True)
class Proposed:
    """`gates` are those of the version with all units; `base` the original texts of the edited files that exist."""

    units: tuple[Unit, ...]
    refusals: tuple[Refusal, ...]
    base: Mapping[str, bytes]
    original: Analysis
    final: Analysis
    gates: tuple[GateResult, ...] = ()


Report = Callable[[str, str, Mapping[str, object]], None]  # kind, sentence, data


def declared_of(units: Sequence[Unit]) -> Declared:
    """What units together may alter."""
    return reduce(lambda a, b: a | b, (u.declared for u in units), Declared())


def read_base(version: Version, paths: Iterable[str]) -> dict[str, bytes]:
    """The texts of those files that exist."""
    found = {}
    for path in paths:
        try:
            found[path] = version.read(path)
        except FileNotFoundError:
            continue  # a file that a unit makes
    return found


def propose(
    baseline: Version,
    contract: Contract,
    transforms: Sequence[Transform],
    analyser: Analyser,
    report: Report,
    stopped: Callable[[], bool],
) -> Proposed:
    """All units that are proved. Raises what `analyser` raises; OSError when a file cannot be read."""
    work = _Work(baseline, contract, analyser, report)
    allowed = [t for t in transforms if t.ID not in contract.forbid]
    for transform in transforms:
        if transform not in allowed:
            report("forbidden", f"{transform.ID}: the contract forbids it", {"transform": transform.ID})
    for _ in range(ROUNDS):
        before = work.units
        work.found.clear()
        for transform in allowed:
            if stopped():
                break
            work.apply(transform)
        if work.units == before or stopped():
            break
    refusals = tuple(dict.fromkeys((*work.found, *work.refused.values())))
    return Proposed(work.units, refusals, work.base, work.original, work.current, work.gates)


@dataclass
class _Work:
    baseline: Version
    contract: Contract
    analyser: Analyser
    report: Report
    units: tuple[Unit, ...] = ()
    base: dict[str, bytes] = field(default_factory=dict)
    gates: tuple[GateResult, ...] = ()
    found: list[Refusal] = field(default_factory=list)  # by the transforms, in the last round
    refused: dict[tuple[object, ...], Refusal] = field(default_factory=dict)  # proposals that did not hold
    known: dict[tuple[str, tuple[str, ...]], frozenset[frozenset[TextEdit]]] = field(default_factory=dict)
    _last: tuple[object, _Built] | None = None

    def __post_init__(self) -> None:
        self.original = self.current = self.analyser.analyse(self.baseline)

    def apply(self, transform: Transform) -> None:
        outcome = self._find(transform, self.current)
        self.found += [self._placed(r) for r in outcome.refusals]
        drafts = _of_use(self._drafts(transform, outcome))
        self.report(
            "proposed",
            f"{transform.ID}: {len(drafts)} proposed, {len(outcome.refusals)} refused",
            {"transform": transform.ID, "proposals": len(drafts), "refusals": len(outcome.refusals)},
        )
        if drafts:
            kept = self._settle((), drafts)
            useful = _of_use(kept)
            if useful and (useful == kept or not self._wrong_with(useful)):
                self._take(useful)

    def _find(self, transform: Transform, analysis: Analysis) -> Outcome:
        """What the transform finds. The analysis reads texts without their byte-order mark; units count it."""
        outcome = transform.find(Situation(analysis, self.contract))
        paths = {e.path for p in outcome.proposals for e in p.edits} - self.base.keys()
        self.base.update(read_base(self.baseline, sorted(paths)))
        marked = {path for path, text in self.base.items() if text.startswith(_MARK)}

        def moved(edit: TextEdit) -> TextEdit:
            shift = len(_MARK) if edit.path in marked else 0
            return replace(edit, start=edit.start + shift, end=edit.end + shift)

        inside = [p for p in outcome.proposals if not any(leaves(e.path) for e in p.edits)]
        outside = [
            Refusal(p.transform, p.path, p.line, "it would change a file outside of the program's folder")
            for p in outcome.proposals
            if p not in inside
        ]
        proposals = tuple(replace(p, edits=tuple(map(moved, p.edits))) for p in inside)
        return Outcome(proposals, (*outcome.refusals, *outside))

    def _drafts(self, transform: Transform, outcome: Outcome) -> tuple[_Draft, ...]:
        """The proposals as units still without a place, those that were refused before left out."""
        prices: Sequence[float | None] = [None] * len(outcome.proposals)
        if self.analyser.price is not None:
            prices = self.analyser.price(outcome.proposals, self.current)
        placed = [self._placed_unit(p) for p in outcome.proposals]
        touched = versions.with_parents(self.units, {parent for unit in placed for parent in unit.parents})
        drafts = []
        for proposal, price, unit in zip(outcome.proposals, prices, placed, strict=True):
            needed, edits = self._needed(transform, unit, touched)
            draft = _Draft(
                replace(unit, id="", edits=proposal.edits, parents=needed), proposal, (proposal.transform, edits)
            )
            if draft.key in self.refused:
                continue
            if price is not None and price < self.analyser.noise:
                self._refuse(draft, f"it would save about {price * 1e6:.3g} us, less than can be measured")
                continue
            drafts.append(draft)
        return tuple(drafts)

    def _placed_unit(self, proposal: Proposal) -> Unit:
        """The proposal as the next unit, with the parents that its edits need."""
        unit = Unit(
            id="",
            parents=(),
            transform=proposal.transform,
            why=proposal.why,
            edits=proposal.edits,
            declared=proposal.declared,
            obligations=proposal.obligations,
            serves=serves(proposal.declared, self.contract),
        )
        return versions.extend(self.base, self.units, [unit])[-1]

    def _needed(
        self, transform: Transform, unit: Unit, touched: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[TextEdit, ...]]:
        """The units without which the transform does not propose this change, as far as that is known, and the change's edits in
        their text: none when it proposes it in the original, those whose text the new units touch when it does with these
        alone, else all."""
        everything = tuple(u.id for u in self.units)
        for chosen in dict.fromkeys(((), touched)) if not unit.parents else (touched,):
            edits = versions.rebased(self.base, (*self.units, unit), (*chosen, unit.id))[-1].edits
            if chosen == everything or frozenset(edits) in self._found_with(transform, chosen):
                return chosen, edits
        return everything, unit.edits

    def _found_with(self, transform: Transform, chosen: tuple[str, ...]) -> frozenset[frozenset[TextEdit]]:
        """What the transform proposes in the version of these units."""
        key = (transform.ID, chosen)
        if key not in self.known:
            texts = versions.compose(self.base, self.units, chosen)
            analysis = self.analyser.analyse(self.baseline.with_texts(texts)) if chosen else self.original
            outcome = self._find(transform, analysis)
            self.known[key] = frozenset(frozenset(p.edits) for p in outcome.proposals)
        return self.known[key]

    def _settle(self, kept: tuple[_Draft, ...], todo: tuple[_Draft, ...]) -> tuple[_Draft, ...]:
        """`kept` and those of `todo` with which the version is proved: all at once, or by halves."""
        reason = self._wrong_with((*kept, *todo))
        if not reason:
            return (*kept, *todo)
        if len(todo) == 1:
            self._refuse(todo[0], reason)
            return kept
        middle = len(todo) // 2
        return self._settle(self._settle(kept, todo[:middle]), todo[middle:])

    def _wrong_with(self, drafts: tuple[_Draft, ...]) -> str:
        """Why the version with these is not proved; "" when it is."""
        try:
            gates = self._build(drafts).gates
        except versions.UnitError as error:
            return str(error)
        return "; ".join(told(g) for g in gates if g.state not in (GateState.PROVED, GateState.PASSED))

    def _build(self, drafts: tuple[_Draft, ...]) -> _Built:
        """The version with these units added. The last one is kept: what was proved last is often what is taken."""
        keys = tuple(d.key for d in drafts)
        if self._last is None or self._last[0] != (self.units, keys):
            units = versions.extend(self.base, self.units, [d.unit for d in drafts])
            texts = versions.compose(self.base, units, [u.id for u in units])
            analysis = self.analyser.analyse(self.baseline.with_texts(texts))
            gates = self.analyser.check(self.original, analysis, declared_of(units))
            self._last = ((self.units, keys), _Built(units, analysis, gates))
        return self._last[1]

    def _take(self, drafts: tuple[_Draft, ...]) -> None:
        built = self._build(drafts)
        self.units, self.current, self.gates = built.units, built.analysis, built.gates
        new = self.units[-len(drafts) :]
        self.report("proved", f"{new[0].transform}: {len(new)} proved", {"units": [u.id for u in new]})

    def _refuse(self, draft: _Draft, reason: str) -> None:
        proposal = draft.proposal
        placed = self._placed(Refusal(proposal.transform, proposal.path, proposal.line, reason))
        self.refused[draft.key] = placed
        self.report("refused", f"{placed.path}:{placed.line}: {placed.transform}: {reason}", {})

    def _placed(self, refusal: Refusal) -> Refusal:
        """The refusal with its line in the original, which is the text that the user has."""
        if not self.units or refusal.path not in self.base:
            return refusal
        line = versions.original_line(self.base, self.units, refusal.path, refusal.line)
        return Refusal(refusal.transform, refusal.path, line, refusal.reason)


@dataclass(frozen=True)
class _Built:
    units: tuple[Unit, ...]
    analysis: Analysis
    gates: tuple[GateResult, ...]


@dataclass(frozen=True)
class _Draft:
    unit: Unit
    proposal: Proposal
    key: tuple[object, ...]  # names the change across rounds


def _of_use(drafts: tuple[_Draft, ...]) -> tuple[_Draft, ...]:
    """Without those that only support others which are not among them."""
    served = {site for d in drafts if not d.proposal.supports for site in d.proposal.sites}
    return tuple(d for d in drafts if not d.proposal.supports or not served.isdisjoint(d.proposal.sites))


def told(gate: GateResult) -> str:
    """A gate's state in a sentence, with the first place that it names."""
    place = next((f for f in gate.findings if not f.baseline), None)
    if place is None or not place.path:
        return f"{gate.gate} {gate.state.value}: {gate.reason}"
    original = " of the original" if place.what == f"{gate.reason}{OF_ORIGINAL}" else ""
    known = original or place.what == gate.reason  # the reason is the finding's own text
    at = f"{place.path}:{place.line}{original}" if known else f"{place.path}:{place.line}: {place.what}"
    return f"{gate.gate} {gate.state.value}: {gate.reason} ({at})"


def serves(declared: Declared, contract: Contract) -> tuple[str, ...]:
    """The bounds that a change works towards."""
    metrics = set(_TIME_METRICS)
    if declared.copies is not May.SAME:
        metrics.add("transfer_bytes")
    return tuple(f"bounds[{k}]" for k, bound in enumerate(contract.bounds) if bound.metric in metrics)
