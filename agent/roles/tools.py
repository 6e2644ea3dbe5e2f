"""Read-only tools that the model may call: bounded text about the version, the run and the machine.

One table; what else can be told of a situation later is a row of it. Only files of the brief are shown: what the analysis knows from
others stays veiled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stitchcuda.agent.invention.definitions import definitions, named
from stitchcuda.agent.model.messages import ToolCall, ToolSpec
from stitchcuda.agent.roles import telling
from stitchcuda.agent.roles.blocks import block, cut
from stitchcuda.agent.roles.reading import NotJson, objects
from stitchcuda.agent.roles.situation import Brief
from stitchcuda.agent.roles.veil import veil_of
from stitchcuda.analysis.contract.jsonread import Reader, SchemaError
from stitchcuda.analysis.graph.build import execution_graph
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.graph.to_text import to_text
from stitchcuda.analysis.internal_error import where
from stitchcuda.analysis.program.effects import ParamEffect, kernel_effects
from stitchcuda.analysis.rules import ALL_CODES, documentation
from stitchcuda.analysis.syntax.text import LineIndex

MOST = 12_000  # characters of an answer, its frame included
_FRAME = 400
_LINES = 400  # of one answer about a file
_ARGUMENTS = 4_000  # characters of a call's arguments


@dataclass(frozen=True, slots=True)
class Answer:
    """`files` are those whose text stands in it."""

    text: str
    files: tuple[str, ...] = ()


class _Cannot(Exception):
    """A tool has no answer; the text says why, for the model."""


@dataclass(frozen=True, slots=True)
class Tool:
    """`fields` are its arguments: name to what it is; those of `needed` must be given. `offered`: it has something to say."""

    name: str
    description: str
    tell: Callable[[Brief, Reader], Answer]
    fields: Mapping[str, str]
    needed: tuple[str, ...] = ()
    offered: Callable[[Brief], bool] = lambda brief: True


def specs(brief: Brief) -> tuple[ToolSpec, ...]:
    """The tools that have something to say in this situation."""
    return tuple(_spec(tool) for tool in TOOLS if tool.offered(brief))


def _spec(tool: Tool) -> ToolSpec:
    properties = {name: {"type": _type(name), "description": what} for name, what in tool.fields.items()}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(tool.needed),
        "additionalProperties": False,
    }
    return ToolSpec(tool.name, tool.description, parameters)


def _type(field: str) -> str:
    return "integer" if field in ("first", "last") else "string"


def answer(call: ToolCall, brief: Brief) -> str:
    """Text for the model, never longer than `MOST`; what is wrong with the call is said in it. Never raises."""
    return answered(call, brief).text


def answered(call: ToolCall, brief: Brief) -> Answer:
    """The same, with the files that it shows."""
    tool = next((t for t in TOOLS if t.name == call.name and t.offered(brief)), None)
    if tool is None:
        known = ", ".join(t.name for t in TOOLS if t.offered(brief))
        return Answer(f"There is no tool {call.name[:80]!r}. The tools are {known}.")
    try:
        found = tool.tell(brief, Reader(_arguments(call.arguments), "", tool.fields))
    except (_Cannot, SchemaError) as error:
        return Answer(cut(f"{tool.name}: {error}", MOST - _FRAME))
    except Exception as error:  # noqa: BLE001 - a question of the model must not end a run
        return Answer(f"{tool.name}: it cannot be told (internal error: {where(error)})")
    text = found.text if found.files else veil_of(brief)(found.text)
    return replace(found, text=block(f"answer of {tool.name}", cut(text, MOST - _FRAME)))


def _arguments(text: str) -> object:
    if not text.strip():
        return {}
    found, problem = objects(text[:_ARGUMENTS])
    if len(found) != 1:
        raise _Cannot(
            f"the arguments must be one JSON object{f': {problem.what}' if isinstance(problem, NotJson) else ''}"
        )
    return found[0]


# ------------------------------------------------------------------------------------------------------------- sources


def _source(brief: Brief, given: Reader) -> Answer:
    symbol, path = given.text("symbol", ""), given.text("path", "")
    if symbol:
        return _symbol(brief, symbol, path)
    if not path:
        raise _Cannot(f"give a symbol or a path. The files are {_few(sorted(brief.texts))}")
    if path not in brief.texts:
        raise _Cannot(f"there is no file {path[:200]!r}. The files are {_few(sorted(brief.texts))}")
    lines = telling.plain(brief.texts[path]).split("\n")
    first = given.integer("first", least=1, default=1)
    last = min(given.integer("last", least=first, default=first + _LINES - 1), first + _LINES - 1, len(lines))
    if first > len(lines):
        raise _Cannot(f"{path} has {len(lines)} lines")
    return Answer(f"{path}, lines {first} to {last} of {len(lines)}:\n" + "\n".join(lines[first - 1 : last]), (path,))


def _symbol(brief: Brief, symbol: str, within: str) -> Answer:
    last = re.split(r"::|\.", symbol.partition("(")[0].strip())[-1]
    if not re.fullmatch(r"~?[A-Za-z_]\w*", last):
        raise _Cannot(f"{symbol[:80]!r} is no name")
    parts: list[str] = []
    files: list[str] = []
    for path, text in sorted(brief.texts.items()):
        if (within and path != within) or last.encode() not in text:
            continue
        for start, end in _places(brief, path, text, symbol, last):
            line = LineIndex.of(text).line_at(start) + 1
            parts.append(f"{path}:{line}:\n{telling.plain(text[start:end])}")
            files.append(path)
    if not parts:
        raise _Cannot(f"no file of those that may be shown defines {symbol[:80]!r}")
    return Answer("\n\n".join(parts), tuple(dict.fromkeys(files)))


def _places(brief: Brief, path: str, text: bytes, symbol: str, last: str) -> list[tuple[int, int]]:
    """Definitions of functions, types and macros of that name in one file."""
    if path.endswith((".py", ".pyi")):
        module = brief.analysis.program.modules.get(path)
        functions = module.functions if module is not None else ()
        return [(f.base, f.base + f.span[1]) for f in functions if f.name == last]
    found = [(d.start, d.end) for d in named(definitions(text), symbol)]
    word = re.escape(last).encode()
    found += [
        m.span()
        for m in re.finditer(rb"^[ \t]*#[ \t]*define[ \t]+%b\b(?:[^\n\\]|\\\r?\n|\\.)*" % word, text, re.MULTILINE)
    ]
    for match in re.finditer(
        rb"\b(?:struct|class|enum|union)\s+(?:class\s+)?(?:\w+\([^)]*\)\s*)?%b\b[^;{}()]*\{" % word, text
    ):
        depth, at = 1, match.end()
        while at < len(text) and depth:
            depth += {123: 1, 125: -1}.get(text[at], 0)
            at += 1
        found.append((match.start(), at))
    return sorted(found)


def _few(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "") if names else "none"


# --------------------------------------------------------------------------------------------------------- the program


def _graph(brief: Brief, given: Reader) -> Answer:
    function = given.text("function", "") or None
    analysis = brief.analysis
    graph = execution_graph(analysis.timelines, analysis.program, analysis.sources, function)
    if function is not None and not graph.nodes:
        raise _Cannot(f"no function {function[:80]!r} does CUDA work")
    kept, hidden = _visible(graph, brief)
    note = f"\n{hidden} operations stand in files that are not sent and are left out.\n" if hidden else ""
    return Answer(to_text(kept) + note)


def _visible(graph: ExecutionGraph, brief: Brief) -> tuple[ExecutionGraph, int]:
    """The graph without what stands in files that are not sent, and how many nodes that is."""
    nodes = tuple(n for n in graph.nodes if {n.path, *(c.path for c in n.calls)} <= brief.texts.keys())
    ids = {n.id for n in nodes}
    return (
        replace(
            graph,
            nodes=nodes,
            edges=tuple(e for e in graph.edges if e.source in ids and e.target in ids),
            overlaps=tuple(o for o in graph.overlaps if o.one in ids and o.other in ids),
        ),
        len(graph.nodes) - len(nodes),
    )


def _effects(brief: Brief, given: Reader) -> Answer:
    name = given.text("kernel")
    program = brief.analysis.program
    last = name.rpartition("::")[2]
    uids = [*program.by_name.get(last, ()), *program.declarations.get(last, ())]
    kernels = [program.functions[uid] for uid in uids if program.functions[uid].space == "global"]
    kernels = [k for k in kernels if k.path in brief.texts and k.qualified.endswith(name)]
    defined = [k for k in kernels if k.body is not None] or kernels
    if not defined:
        known = {f.qualified for f in program.functions.values() if f.space == "global" and f.path in brief.texts}
        raise _Cannot(f"there is no kernel {name[:80]!r}. The kernels are {_few(sorted(known))}")
    parts = []
    for kernel in defined:
        effects = kernel_effects(program, kernel.uid)
        lines = [f"{kernel.qualified} ({kernel.path})"]
        touched = {effect.name for effect in effects.params}
        lines += [f"  {_effect(effect)}" for effect in effects.params]
        lines += [f"  {p.name}: no memory is reached through it" for p in kernel.params if p.name not in touched]
        lines += [f"  device variable {symbol}: {mode.value}" for symbol, mode in effects.symbols]
        if effects.prints:
            lines.append("  it prints or asserts")
        if effects.calls_unknown or effects.supplied:
            lines.append("  it runs code that is not known: there may be more")
        parts.append("\n".join(lines))
    return Answer("\n\n".join(parts))


def _effect(effect: ParamEffect) -> str:
    member = f".{effect.member}" if effect.member else ""
    modes = " and ".join(sorted(mode.value for mode in effect.modes))
    how = "always" if effect.certainty.value == "must" else "perhaps"
    element = f" of {effect.element}" if effect.element else ""
    shape = ", each thread its own element" if effect.shape.value == "thread" else ""
    if effect.first is None or effect.extent is None:
        where_ = ", where is not known"
    else:
        where_ = f", elements [{effect.first}, {effect.first + effect.extent})"
    return f"{effect.name}{member}: {modes}{element}, {how}{shape}{where_}"


# -------------------------------------------------------------------------------------------- the run and the machine


def _trace(brief: Brief, given: Reader) -> Answer:
    assert brief.trace is not None
    return Answer(telling.trace_text(brief.trace))


def _resources(brief: Brief, given: Reader) -> Answer:
    assert brief.build is not None
    wanted = ("resources", "device_code", "new_warnings", "notes")
    told = {name: brief.build.evidence[name] for name in wanted if name in brief.build.evidence}
    warnings = [f"{f.path}:{f.line}: {f.what}" if f.path else f.what for f in brief.build.findings]
    text = json.dumps(told, indent=1, sort_keys=True, default=str, ensure_ascii=False)
    return Answer("\n".join(["What kernels take, [original, this version] where it changed:", text, *warnings]))


def _device(brief: Brief, given: Reader) -> Answer:
    facts: Mapping[str, Any] = brief.capabilities
    return Answer(json.dumps(facts, indent=1, sort_keys=True, default=str, ensure_ascii=False))


def _finding(brief: Brief, given: Reader) -> Answer:
    code = given.text("code").strip().lower()
    if code not in ALL_CODES:
        raise _Cannot(f"no finding has the code {code[:80]!r}. The codes are {', '.join(sorted(ALL_CODES))}")
    return Answer(documentation(code))


TOOLS: tuple[Tool, ...] = (
    Tool(
        "source",
        "The source of a function, kernel, type or macro by name, or lines of a file.",
        _source,
        {
            "symbol": "a name, such as layer_norm or Model::forward",
            "path": "a file; alone, its lines are shown",
            "first": "first line to show, from 1",
            "last": f"last line to show, at most {_LINES} lines at once",
        },
    ),
    Tool(
        "execution_graph",
        "What runs on which stream, after what, over which buffers, and what the host waits for, as sentences.",
        _graph,
        {"function": "only what runs inside this function"},
        offered=lambda brief: bool(brief.analysis.timelines),
    ),
    Tool(
        "kernel_effects",
        "What a kernel reads and writes, by parameter, with the elements as formulas where they are known.",
        _effects,
        {"kernel": "the kernel's name"},
        ("kernel",),
    ),
    Tool(
        "trace_summary",
        "The traced run: calls, kernels and copies with their counts and times.",
        _trace,
        {},
        offered=lambda brief: brief.trace is not None,
    ),
    Tool(
        "kernel_resources",
        "Registers, stack, shared memory and spills of the kernels, as the compiler reports them.",
        _resources,
        {},
        offered=lambda brief: brief.build is not None,
    ),
    Tool(
        "device",
        "What the machine and its GPU are.",
        _device,
        {},
        offered=lambda brief: bool(brief.capabilities),
    ),
    Tool("explain_finding", "The documentation of a finding's code.", _finding, {"code": "the code"}, ("code",)),
)
