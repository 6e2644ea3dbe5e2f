"""What the coder is told about a missing stage: a plan that is fixed, from the marker, the reference and the launches."""

from __future__ import annotations

from collections.abc import Mapping

from stitchcuda.agent.implementing.parameters import is_pointer
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
    own = (
        "Device functions and constants of its own may stand in the same text, before it."
        if stage.is_kernel
        else "The kernels that it launches, device functions and constants of its own may stand in the same text, before it; other "
        "functions of the host may not."
    )
    edit = (
        f'Give one edit of kind "function" for `{stage.name}` in {stage.file}: the whole definition in place of the empty one '
        f"that stands there now. {own} It must begin `{stage.signature}`."
    )
    steps = [edit]
    if stage.marker.intent:
        steps.append(f"What it does, in the user's words: {stage.marker.intent}")
    steps.append(f"It reads {_listed(stage.inputs)} and writes {_listed(stage.outputs)}.")
    if not stage.is_kernel:
        steps += _memory_and_stream(stage)
    reference = _reference(stage, texts)
    said = f"What is right is what the function `{stage.marker.reference}` computes on the host for the same arguments"
    steps.append(f"{said}:\n{cut(reference, _MOST_REFERENCE)}" if reference else f"{said}.")
    launches = [f"{at.path}:{at.line}: {at.text}" for at in stage.launches[:_MOST_LAUNCHES]]
    if launches:
        used = "launched" if stage.is_kernel else "called"
        steps.append(f"It is {used} as follows, and must be right for other sizes too:\n" + "\n".join(launches))
    constraints = _of_kernel() if stage.is_kernel else _of_host_stage(stage)
    return Plan(
        f"Write the missing {stage.what} `{stage.name}`",
        tuple(steps),
        constraints=(*constraints, _rounding(tolerance)),
        targets=(stage.name,),
    )


def _of_kernel() -> tuple[str, ...]:
    return (
        "Change nothing but this definition: no host code, no other function, no directives.",
        "Every element that the reference leaves in a buffer must be there, whatever the grid and the sizes.",
        "Memory behind a const pointer is only read; nothing is kept between launches; nothing is printed.",
    )


def _of_host_stage(stage: Stage) -> tuple[str, ...]:
    stream = f"the stream `{stage.stream}`" if stage.stream else "the default stream"
    ready = (
        "It returns when what it writes on the host is there and what it reads there is read; "
        if stage.host
        else "It need not wait for the device; "
    )
    return (
        "Change nothing but this definition: no other function of the host, no directives, no static variables.",
        "Every element that the reference leaves in a buffer must be there, whatever the sizes.",
        f"All its work is ordered as if it were issued to {stream}: behind what its caller issued there, and before what comes next there.",
        "Work on streams of its own must begin behind an event of that stream and be waited for by it.",
        "It may use CUDA's runtime, thrust and functions of the program; what cub and other libraries do is not followed.",
        f"{ready}no memory of its caller is used beyond that, and what it creates or allocates is released on every path.",
        "Memory behind a const pointer is only read; nothing is kept between calls; nothing is printed; the reference is not called.",
    )


def _memory_and_stream(stage: Stage) -> list[str]:
    on_host = {buffer.name: buffer.extent for buffer in stage.host}
    device = tuple(p.name for p in stage.parameters if is_pointer(p) and p.name not in on_host)
    said = [f"Memory of the device: {_listed(device)}."]
    if on_host:
        listed = ", ".join(
            f"`{name}`" + (f" ({extent} elements)" if extent else "") for name, extent in on_host.items()
        )
        said[0] += f" Memory of the host, pinned or not: {listed}."
    if stage.stream:
        said.append(
            f"`{stage.stream}` is the stream that its callers use; it may be one that no default stream waits for."
        )
    if stage.handles:
        bound = f"the stream `{stage.stream}`" if stage.stream else "the default stream"
        said.append(f"Its callers have bound {_listed(stage.handles)} to {bound}, and rely on that after it.")
    return said


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
