"""Does a definition do what its declaration allows, and nothing beside it? Then the order of everything is as it was.

The rest of the program is the same text, and the analysis has taken the declared kernel for one that reads what it is given and
writes what is not const. A definition that stays within that moves no operation and no access; which values it writes, the runs show.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from stitchcuda.agent import versions
from stitchcuda.agent.implementing.placing import edits_of
from stitchcuda.agent.implementing.stages import Stage, flat
from stitchcuda.agent.invention.tokens import Token, tokens
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.order.timeline import Mode
from stitchcuda.analysis.program import cuda
from stitchcuda.analysis.program.effects import KernelEffects, kernel_effects
from stitchcuda.analysis.program.ir import (
    Api,
    Call,
    Construct,
    Function,
    Lambda,
    Launch,
    Module,
    New,
    Opaque,
    TypeRef,
    walk,
)
from stitchcuda.analysis.proof.device_code import STRANGE
from stitchcuda.analysis.syntax.parse import parse_cuda
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState

_WRITES = frozenset({Mode.WRITE, Mode.ATOMIC})
_TOP = frozenset({"comment", "function_definition", "template_declaration", "declaration", "struct_specifier", ";"})
_WORD = re.compile(rb"[A-Za-z_]\w*")
_QUIET = re.compile(rb"//[^\r\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\r\n])*\"", re.DOTALL)
_DIRECTIVE = re.compile(rb"^[ \t]*(?:#|\?\?=|%:)(?![ \t]*pragma[ \t]+(?:unroll|nounroll)\b)", re.MULTILINE)
# What keeps values between launches, reaches memory by other ways than parameters, or depends on more than them.
_RUNS = (Api, Call, Construct, Lambda, Launch, New, Opaque)
_STRANGE_HERE = re.compile(r"_Pragma|__asm_|printf|__trap|goto")  # beside what is strange in any changed device code


def wrong_form(stage: Stage, definition: bytes, before: Analysis) -> str:
    """What of an answer is not a definition of the stage with device code of its own, as a sentence for the model; "" when it is
    one."""
    if not definition:
        return f"The definition of `{stage.name}` is missing."
    quiet = _QUIET.sub(b" ", definition)
    if directive := _DIRECTIVE.search(quiet):
        line = quiet[directive.start() :].partition(b"\n")[0].decode("utf-8", "replace").strip()
        return f"`{line}`: no directives are allowed beside the kernel; `#pragma unroll` in it is."
    found = tokens(definition)
    if hidden := next((t for t in found if t.kind == "odd"), None):
        return f"`{hidden.text}` hides what the code says: write it plainly, in ASCII."
    if line := _other_directive(found):
        return f"`{line}`: no directives are allowed beside the kernel; `#pragma unroll` in it is."
    syntax = parse_cuda(definition)
    if syntax.error_bytes:
        return f"The definition of `{stage.name}` could not be read: write plain CUDA C++, with all braces closed."
    for child in syntax.root.children:
        inner = {c.type for c in child.children} if child.type == "template_declaration" else {"function_definition"}
        if child.type not in _TOP or "function_definition" not in inner:
            words = " ".join(definition[child.start_byte : child.end_byte].decode("utf-8", "replace").split())[:80]
            return f"`{words}`: only the kernel, device functions, structs and constants of its own are allowed here."
    module = cuda.lower_module("", definition)
    kernels = [f for f in module.functions if f.space == "global" and f.body is not None]
    if [k.name for k in kernels] != [stage.name] or kernels[0].template or kernels[0].qualified != stage.name:
        return f"Define the kernel `{stage.name}` once, not as a template and not in a namespace, and no other kernel."
    if unlike := _unlike(stage, kernels[0]):
        return unlike
    for function in module.functions:
        if function.space not in ("global", "device"):
            return (
                f"`{function.name}` is no device function: only the kernel and `__device__` functions are allowed here."
            )
    return _taken(stage, module, before) or _kept(module) or _computed(module) or _strange(found)


def _unlike(stage: Stage, kernel: Function) -> str:
    declared, given = ([_matters(flat(p.type)) for p in f.params] for f in (stage.kernel, kernel))
    if declared == given:
        return ""
    wanted = f"__global__ void {stage.name}({', '.join(stage.texts)})"
    return f"The parameters of `{stage.name}` are not those that are declared. The definition must begin `{wanted}`."


def _matters(kind: TypeRef) -> TypeRef:
    """Whether a parameter that is a value is const is the definition's own affair."""
    return kind if kind.pointer else replace(kind, const=False)


def _taken(stage: Stage, module: Module, before: Analysis) -> str:
    """New names must mean nothing yet: else they could change what other code means."""
    words = frozenset(w for text in before.sources.values() for w in _WORD.findall(_QUIET.sub(b" ", text)))
    names = [f.name for f in module.functions if f.name != stage.name]
    names += [r.name for r in module.records] + [g.name for g in module.globals]
    names += [name for name, _ in (*module.aliases, *module.constants)]
    taken = next((name for name in names if name.rpartition("::")[2].encode() in words), None)
    if taken:
        return f"The name `{taken}` is used in the program already: choose another one."
    reserved = next((name for name in names if name.startswith("__") or re.match("_[A-Z]", name)), None)
    return f"The name `{reserved}` is reserved: choose another one." if reserved else ""


def _computed(module: Module) -> str:
    """What a constant or a member starts from must be a plain value: the host could run anything to make it."""
    for declared in (*module.globals, *(f for r in module.records for f in r.fields)):
        if declared.init is not None and any(isinstance(node, _RUNS) for node in walk(declared.init)):
            return f"`{declared.name}` must start from a plain value, not from a call."
    return ""


def _kept(module: Module) -> str:
    strange = next(
        (g for g in module.globals if g.space not in ("constant", "") or (not g.space and not g.type.const)), None
    )
    if strange is None:
        return ""
    return f"`{strange.name}` would keep its value between launches: only constants are allowed beside the kernel."


def _other_directive(found: Sequence[Token]) -> str:
    """The first that is no `#pragma unroll`."""
    lines: dict[int, list[str]] = {}
    for token in found:
        if token.directive:
            lines.setdefault(token.headline, []).append(token.text)
    others = (line for line in lines.values() if line[1:2] != ["pragma"] or line[2:3] not in (["unroll"], ["nounroll"]))
    return " ".join(next(others, []))[:80]


def _strange(found: Sequence[Token]) -> str:
    """Read from tokens: `'"'` begins no string."""
    word = next(
        (
            t.text
            for t in found
            if t.text == "<<<" or (t.kind == "word" and (STRANGE.match(t.text) or _STRANGE_HERE.fullmatch(t.text)))
        ),
        None,
    )
    return f"`{word}` is not allowed here: the kernel's result must follow from its parameters alone." if word else ""


def gate(before: Analysis, after: Analysis, stage: Stage, definition: bytes) -> GateResult:
    """G1 of a version in which the stage is defined, `before` being the program without it."""
    edits = edits_of(stage, before.sources[stage.file], before.sources[stage.path], definition)
    if {**before.sources, **versions.edited(before.sources, edits)} != after.sources:
        return _result(GateState.FAILED, "more than the definition of the kernel was changed", stage)
    kernel = next(
        (f for f in after.program.functions.values() if f.qualified == stage.kernel.qualified and f.body is not None),
        None,
    )
    if kernel is None:
        return _result(GateState.UNTESTED, f"the definition of `{stage.name}` was not understood", stage)
    line = after.sources[kernel.path].count(b"\n", 0, kernel.base) + 1
    effects = kernel_effects(after.program, kernel.uid)
    state, reason = _judged(stage, kernel, effects, _constants(definition))
    shown = {
        p.name: sorted({m.value for e in effects.of(p.name) for m in e.modes})
        for p in kernel.params
        if effects.of(p.name)
    }
    return _result(state, reason, stage, {"accesses": shown}, (kernel.path, line))


def _constants(definition: bytes) -> frozenset[str]:
    return frozenset(g.name for g in cuda.lower_module("", definition).globals if g.space == "constant")


def _judged(stage: Stage, kernel: Function, effects: KernelEffects, constants: frozenset[str]) -> tuple[GateState, str]:
    if kernel.has_error:
        return GateState.UNTESTED, f"`{stage.name}` could not be parsed completely"
    for declared, given in zip(stage.parameters, kernel.params, strict=True):
        modes = frozenset(m for e in effects.of(given.name) for m in e.modes)
        if flat(declared.type).const and modes & _WRITES:
            return GateState.FAILED, f"it writes through `{given.name}`, which is declared const"
        if declared.name in stage.outputs and not modes & _WRITES and not effects.calls_unknown:
            return GateState.FAILED, f"it never writes `{given.name}`, an output of the kernel"
    if beside := [name for name, mode in effects.symbols if name not in constants or mode in _WRITES]:
        name = beside[0]
        return (
            GateState.FAILED,
            f"it uses `{name}`, which the declaration does not give it: pass what it needs as a parameter",
        )
    if effects.supplied or effects.calls_unknown:
        return GateState.UNTESTED, "it calls code that is not known, or uses an address that no parameter gives"
    if effects.prints:
        return GateState.FAILED, "it prints, which the declaration does not say"
    return GateState.PASSED, ""


def _result(
    state: GateState,
    reason: str,
    stage: Stage,
    evidence: dict[str, object] | None = None,
    place: tuple[str, int] | None = None,
) -> GateResult:
    """Passed, not proved: it is the order that is shown here, the values are for G3."""
    findings = (GateFinding(reason, *place),) if reason and place else ()
    how = {"stage": stage.kernel.qualified, "reference": stage.reference.qualified, "outputs": list(stage.outputs)}
    return GateResult("G1", state, reason, {**how, **(evidence or {})}, findings)
