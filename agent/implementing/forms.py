"""What an answer may be: one definition of what is missing, with device code of its own, and nothing that reaches beyond it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stitchcuda.agent.implementing.parameters import flat
from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.agent.invention.tokens import Token, tokens
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program import cuda
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
        return f"`{line}`: no directives are allowed beside the {stage.what}; `#pragma unroll` in it is."
    found = tokens(definition)
    if hidden := next((t for t in found if t.kind == "odd"), None):
        return f"`{hidden.text}` hides what the code says: write it plainly, in ASCII."
    if line := _other_directive(found):
        return f"`{line}`: no directives are allowed beside the {stage.what}; `#pragma unroll` in it is."
    syntax = parse_cuda(definition)
    if syntax.error_bytes:
        return f"The definition of `{stage.name}` could not be read: write plain CUDA C++, with all braces closed."
    for child in syntax.root.children:
        inner = {c.type for c in child.children} if child.type == "template_declaration" else {"function_definition"}
        if child.type not in _TOP or "function_definition" not in inner:
            words = " ".join(definition[child.start_byte : child.end_byte].decode("utf-8", "replace").split())[:80]
            kernels = "" if stage.is_kernel else " kernels,"
            return f"`{words}`: only the {stage.what},{kernels} device functions, structs and constants of its own are allowed here."
    module = cuda.lower_module("", definition)
    if said := _functions(stage, module):
        return said
    strange = _strange(stage, found) if stage.is_kernel else _strange_in_host_stage(stage, module, found, before)
    kept = _kept(stage, module) or _kept_inside(stage, found)
    return _taken(stage, module, before) or kept or _computed(module) or strange


def last_of_each(definition: bytes) -> bytes:
    """Without what is given again further down: an answer that gives the stage whole brings its device code along, and what an earlier
    answer had of it stands before that."""
    syntax = parse_cuda(definition)
    if syntax.error_bytes:
        return definition
    items = [(c.start_byte, c.end_byte) for c in syntax.root.children if c.type not in ("comment", ";")]
    names = [_given_names(definition[start:end]) for start, end in items]
    text = definition
    for k in range(len(items) - 1, -1, -1):
        later = frozenset[tuple[object, ...]]().union(*names[k + 1 :])
        if names[k] and names[k] <= later:
            start, end = items[k]
            text = text[:start].rstrip() + (b"\n\n" if text[:start].strip() else b"") + text[end:].lstrip(b"; \t\r\n")
    return text


def _given_names(item: bytes) -> frozenset[tuple[object, ...]]:
    """What one declaration or definition gives: functions by their parameters, too."""
    module = cuda.lower_module("", item)
    functions = [("function", f.qualified, *(flat(p.type) for p in f.params)) for f in module.functions if not f.record]
    records = [("record", r.name) for r in module.records]
    return frozenset[tuple[object, ...]]((*functions, *records, *(("value", g.name) for g in module.globals)))


def _functions(stage: Stage, module: Module) -> str:
    """The stage once, as it is declared, and device code."""
    space = stage.function.space
    defined = [f for f in module.functions if f.space == space and f.body is not None]
    named = [f for f in defined if f.name == stage.name]
    if (
        len(named) != 1
        or named[0].template
        or named[0].qualified != stage.name
        or (stage.is_kernel and len(defined) > 1)
    ):
        other = ", and no other kernel" if stage.is_kernel else ""
        return f"Define the {stage.what} `{stage.name}` once, not as a template and not in a namespace{other}."
    if unlike := _unlike(stage, named[0]):
        return unlike
    for function in module.functions:
        if function.space not in ("global", "device") and function.record:
            held = function.record.rpartition("::")[2]
            return f"`{held}` has functions of the host: write what they do into the {stage.what} itself; a struct here may have `__device__` ones."
        if function.space not in ("global", "device") and function is not named[0]:
            allowed = "the kernel" if stage.is_kernel else "the host stage, kernels"
            return (
                f"`{function.name}` is no device function: only {allowed} and `__device__` functions are allowed here."
            )
    return ""


def _unlike(stage: Stage, given: Function) -> str:
    ours, theirs = ([_matters(flat(p.type)) for p in f.params] for f in (stage.function, given))
    wanted = f"The definition must begin `{stage.signature}`."
    if ours != theirs:
        return f"The parameters of `{stage.name}` are not those that are declared. {wanted}"
    if not stage.is_kernel and given.returns != stage.function.returns:
        return f"`{stage.name}` does not return what is declared. {wanted}"
    return ""


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


def _kept(stage: Stage, module: Module) -> str:
    strange = next(
        (g for g in module.globals if g.space not in ("constant", "") or (not g.space and not g.type.const)), None
    )
    if strange is None:
        return ""
    uses = "launches" if stage.is_kernel else "calls"
    return f"`{strange.name}` would keep its value between {uses}: only constants are allowed beside the {stage.what}."


def _kept_inside(stage: Stage, found: Sequence[Token]) -> str:
    """Static variables of functions and classes. What `static` says of a function, of a constant or of shared memory is no matter."""
    depth = 0
    for token, after in zip(found, (*found[1:], None), strict=True):
        depth += {"{": 1, "}": -1}.get(token.text, 0)
        follows = after.text if after is not None else ""
        lasts = token.text == "static" and depth and follows not in ("constexpr", "__shared__", "__device__")
        if token.kind == "word" and (lasts or token.text == "thread_local"):
            uses = "launches" if stage.is_kernel else "calls"
            return f"`{token.text}` would keep a value between {uses}: what is computed must follow from the parameters alone."
    return ""


def _other_directive(found: Sequence[Token]) -> str:
    """The first that is no `#pragma unroll`."""
    lines: dict[int, list[str]] = {}
    for token in found:
        if token.directive:
            lines.setdefault(token.headline, []).append(token.text)
    others = (line for line in lines.values() if line[1:2] != ["pragma"] or line[2:3] not in (["unroll"], ["nounroll"]))
    return " ".join(next(others, []))[:80]


def _strange(stage: Stage, found: Sequence[Token], what: str = "the kernel's result") -> str:
    """Read from tokens: `'"'` begins no string."""
    word = next(
        (
            t.text
            for t in found
            if t.text == "<<<" or (t.kind == "word" and (STRANGE.match(t.text) or _STRANGE_HERE.fullmatch(t.text)))
        ),
        None,
    )
    return f"`{word}` is not allowed here: {what} must follow from its parameters alone." if word else ""


def _strange_in_host_stage(stage: Stage, module: Module, found: Sequence[Token], before: Analysis) -> str:
    """Its own body launches, allocates and waits; what else is strange in device code is strange in its device code."""
    (own,) = (f for f in module.functions if f.name == stage.name)
    start, end = own.base, own.base + own.span[1]
    inside = [t for t in found if start <= t.start < end]
    others = [t for t in found if not start <= t.start < end]
    return _strange(stage, others, "what a kernel computes") or next(_strange_words(stage, inside, before), "")


def _strange_words(stage: Stage, inside: Sequence[Token], before: Analysis) -> Iterator[str]:
    kept = frozenset(_variables(before))
    reference = stage.marker.reference.rpartition("::")[2]
    for token in inside:
        word = token.text
        if token.kind != "word":
            continue
        if word == reference:
            yield f"`{word}` is the reference on the CPU: have the device compute it."
        elif word in kept:
            yield f"`{word}` is a variable of the program, which the declaration does not give it: do without it."
        elif word == "cudaMemcpyHostToHost" or word.startswith("stitchcuda"):
            yield f"`{word}` is not allowed here."
        elif _STRANGE_HERE.fullmatch(word) or word in ("asm", "__asm__", "__asm"):
            yield f"`{word}` is not allowed here: what a call computes must follow from its parameters alone."


def _variables(before: Analysis) -> Iterator[str]:
    """What the program keeps, by its last name: variables outside of functions and static members."""
    for module in before.program.modules.values():
        members = (member for record in module.records for member in record.fields if member.static)
        for declared in (*module.globals, *members):
            if declared.space != "constant" and not (declared.type.const and not declared.type.pointer):
                yield declared.name.rpartition("::")[2]
