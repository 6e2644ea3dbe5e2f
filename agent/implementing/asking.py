"""What the coder is told about a missing stage: a plan that is fixed, from the marker, the reference and the launches."""

from __future__ import annotations

from collections.abc import Mapping

from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.agent.invention.definitions import definitions, named
from stitchcuda.agent.roles.answers import Plan
from stitchcuda.agent.roles.blocks import cut
from stitchcuda.agent.roles.telling import plain
from stitchcuda.analysis.contract.types import Tolerance

_MOST_REFERENCE = 12_000  # characters
_MOST_LAUNCHES = 8


def plan_for(stage: Stage, texts: Mapping[str, bytes], tolerance: Tolerance) -> Plan:
    """`texts` are what may be sent: a reference in another file is only told by its name."""
    signature = f"__global__ void {stage.name}({', '.join(stage.texts)})"
    edit = (
        f'Give one edit of kind "function" for `{stage.name}` in {stage.file}: the whole definition in place of the empty one '
        "that stands there now. Device functions and constants of its own may stand in the same text, before it. It must begin "
        f"`{signature}`."
    )
    steps = [edit]
    if stage.marker.intent:
        steps.append(f"What it does, in the user's words: {stage.marker.intent}")
    steps.append(f"It reads {_listed(stage.inputs)} and writes {_listed(stage.outputs)}.")
    reference = _reference(stage, texts)
    said = f"What is right is what the function `{stage.marker.reference}` computes on the host for the same arguments"
    steps.append(f"{said}:\n{cut(reference, _MOST_REFERENCE)}" if reference else f"{said}.")
    launches = [f"{at.path}:{at.line}: {at.text}" for at in stage.launches[:_MOST_LAUNCHES]]
    if launches:
        steps.append("It is launched as follows, and must be right for other sizes too:\n" + "\n".join(launches))
    constraints = [
        "Change nothing but this definition: no host code, no other function, no directives.",
        "Every element that the reference leaves in a buffer must be there, whatever the grid and the sizes.",
        "Memory behind a const pointer is only read; nothing is kept between launches; nothing is printed.",
        _rounding(tolerance),
    ]
    return Plan(
        f"Write the missing kernel `{stage.name}`", tuple(steps), constraints=tuple(constraints), targets=(stage.name,)
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{n}`" for n in names) or "nothing"


def _rounding(tolerance: Tolerance) -> str:
    if tolerance.mode != "bitwise":
        return "Results may differ from the reference's within the tolerance of the contract."
    return (
        "Results must be bitwise those of the host: keep the order of its additions, and where it multiplies and adds in two roundings "
        "use __fmul_rn and __fadd_rn (or __dmul_rn and __dadd_rn), since the compiler would fuse them."
    )


def _reference(stage: Stage, texts: Mapping[str, bytes]) -> str:
    text = texts.get(stage.reference.path)
    if text is None:
        return ""
    found = named(definitions(text), stage.reference.qualified)
    return plain(text[found[0].start : found[0].end]) if found else ""
