"""The rules once more, on top of a version that a model wrote: it may have removed what kept them from a change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from stitchcuda.agent import versions
from stitchcuda.agent.proposing import Analyser, Proposed, propose
from stitchcuda.agent.transforms.transform import Refusal, Transform
from stitchcuda.agent.units import Unit
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.version import Version

Change: TypeAlias = tuple[str, frozenset[tuple[str, bytes, bytes]]]  # transform; path, what goes, what comes


@dataclass(frozen=True)
class Rules:
    """What proposes on top; nothing without transforms."""

    transforms: Sequence[Transform]
    analyser: Analyser
    contract: Contract
    report: Callable[[str, str, Mapping[str, object]], None]
    stopped: Callable[[], bool]


@dataclass(frozen=True)
class OnTop:
    """The whole sequence, the original texts that it needs, and what was refused, with lines of the original."""

    units: tuple[Unit, ...]
    base: Mapping[str, bytes]
    refusals: tuple[Refusal, ...] = ()


def changes_of(base: Mapping[str, bytes], units: Sequence[Unit], chosen: Collection[str]) -> frozenset[Change]:
    """What these units change, wherever in a file they stand."""
    found = set()
    for position, unit in enumerate(units):
        if unit.id in chosen:
            on = unit.on if unit.on is not None else tuple(u.id for u in units[:position])
            found.add(_change(unit, {**base, **versions.compose(base, units, on)}))
    return frozenset(found)


def on_top(
    rules: Rules,
    baseline: Version,
    base: Mapping[str, bytes],
    units: Sequence[Unit],
    chosen: Sequence[str],
    known: frozenset[Change],
) -> OnTop:
    """The sequence with what the rules prove on top of the version of the chosen units; the same sequence when there is nothing new.
    What is `known` is not proposed again. Raises what `propose` raises."""
    if not rules.transforms:
        return OnTop(tuple(units), base)
    version = baseline.with_texts(versions.compose(base, units, chosen))
    found = propose(
        version,
        rules.contract,
        rules.transforms,
        replace(rules.analyser, price=None),  # a price would rest on a trace that no record keeps
        rules.report,
        rules.stopped,
    )
    fresh = _fresh(found, known)
    refusals = tuple(_in_the_original(r, base, units, chosen) for r in found.refusals)
    if not fresh:
        return OnTop(tuple(units), base, refusals)
    whole = {
        **base,
        **{path: baseline.read(path) for path in found.base if path not in base and _exists(baseline, path)},
    }
    done, on, renamed = tuple(units), tuple(chosen), dict[str, str]()
    for unit in versions.rebased(found.base, found.units, fresh):
        parents = (*chosen, *(renamed[p] for p in unit.parents))
        done = versions.extend(whole, done, [replace(unit, id="", parents=parents)], on)
        renamed[unit.id] = done[-1].id
        on = (*on, done[-1].id)
    return OnTop(done, whole, refusals)


def _in_the_original(
    refusal: Refusal, base: Mapping[str, bytes], units: Sequence[Unit], chosen: Sequence[str]
) -> Refusal:
    """A refusal in the version of the chosen units; in a file that they make, its line stays."""
    line = versions.original_line(base, units, refusal.path, refusal.line, chosen) if refusal.path in base else None
    return refusal if line is None else replace(refusal, line=line)


def _fresh(found: Proposed, known: frozenset[Change]) -> tuple[str, ...]:
    """The units that are not known, and that rest on none that is."""
    texts, kept = dict(found.base), list[str]()
    for unit in found.units:
        if _change(unit, texts) not in known and all(p in kept for p in unit.parents):
            kept.append(unit.id)
        texts.update(versions.edited(texts, unit.edits))
    return tuple(kept)


def _change(unit: Unit, texts: Mapping[str, bytes]) -> Change:
    edits = frozenset((e.path, texts.get(e.path, b"")[e.start : e.end], e.text) for e in unit.edits)
    return unit.transform, edits


def _exists(baseline: Version, path: str) -> bool:
    try:
        baseline.read(path)
    except OSError:
        return False
    return True
