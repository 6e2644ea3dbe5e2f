"""Kernels that reach memory in ways that the Timeline does not list: through pointers kept in memory, texture and surface
objects, device variables that point, code that is not here."""

from __future__ import annotations

from stitchcuda.analysis.findings.waits import last_name
from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.effects import kernel_effects
from stitchcuda.analysis.program.ir import ApiKind, Program, TypeRef
from stitchcuda.analysis.proof.shapes import is_number

_PLAIN = frozenset(
    {"dim3", "float2", "float3", "float4", "int2", "int3", "int4", "double2", "uint2", "uint3", "uint4", "uchar4"}
)
_EARLY = ("cudaLaunchKernelEx", "cuLaunchKernelEx")  # may carry the attribute that lets a launch start early (O1)


def hidden_memory(program: Program, line: Timeline) -> frozenset[int]:
    """The launches of a Timeline whose memory is not all listed."""
    known: dict[str, bool] = {}
    found = set()
    for op in line.ops:
        if op.kind is ApiKind.LAUNCH:
            if op.kernel not in known:
                known[op.kernel] = _hides(program, op)
            if known[op.kernel]:
                found.add(op.id)
    return frozenset(found)


def starts_early(op: Op) -> bool:
    """A launch that its stream may not order behind what was issued before."""
    return op.kind is ApiKind.LAUNCH and op.api.startswith(_EARLY)


def _hides(program: Program, op: Op) -> bool:
    uids = program.by_name.get(last_name(op.kernel), ())
    uids = tuple(u for u in uids if program.functions[u].space == "global")
    if not uids:
        return True
    for uid in uids:
        effects = kernel_effects(program, uid)
        if effects.calls_unknown or effects.supplied or any("[]" in e.member for e in effects.params):
            return True
        if any(not _plain(program, p.type, program.functions[uid].template, 0) for p in program.functions[uid].params):
            return True
        if any(_points(program, name) for name, _ in effects.symbols):
            return True
    return False


def _plain(program: Program, type_: TypeRef, template: tuple[str, ...], depth: int) -> bool:
    """A number, a pointer to numbers, or a record of such."""
    if type_.pointer > 1 or depth > 4:
        return False
    bare = TypeRef(type_.name, type_.args)
    if is_number(bare) or type_.name in _PLAIN or type_.name in template or type_.name == "void":
        return True
    for module in program.modules.values():
        for name, target in module.aliases:
            if name == type_.name and target.name != name:
                return _plain(program, target, template, depth + 1)
    record = program.records.get(type_.name)
    if record is None or record.bases:
        return False
    # records in memory that hold pointers: what these point to is not followed
    return all(
        _plain(program, f.type, template, depth + 1) and not (type_.pointer and f.type.pointer) for f in record.fields
    )


def _points(program: Program, name: str) -> bool:
    """A device variable that is, or holds, a pointer."""
    found = [d for m in program.modules.values() for d in m.globals if last_name(d.name) == last_name(name)]
    return any(
        d.type.pointer
        or (d.type.name in program.records and any(f.type.pointer for f in program.records[d.type.name].fields))
        for d in found
    )
