"""The reference version: the program with what is missing, each launch or call of it handed to the reference on the CPU.

A kernel's declaration becomes a pointer to a host function of the same name: the compiler calls it with the launch's own
configuration, whatever the launch looks like (in a macro, through a wrapper), so that no launch has to be edited. A host stage is
defined where its definition is to stand. Lines keep their numbers.

A host stage that is written is compared with that in a version in which it has another name: under its own name stands a function that
marks where it begins and ends, and shows what it left on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from stitchcuda.agent.implementing.marker import DONE
from stitchcuda.agent.implementing.parameters import is_pointer
from stitchcuda.agent.implementing.placing import opened, place_of
from stitchcuda.agent.implementing.stages import STATUS, Stage
from stitchcuda.analysis.syntax.text import LineIndex

BEGIN, END = 4099, 6151  # bytes of the copies that mark a stand-in in a trace, for the stage number 0 (stand_in.cuh)
MOST_STAGES = 1024
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Written:
    """A host stage that a version defines, and its definition."""

    stage: Stage
    definition: bytes


@dataclass(frozen=True, slots=True)
class _Put:
    """Code in place of `[start, end)` of a file. `line` is what the compiler is to say of it."""

    start: int
    end: int
    code: bytes
    line: int


def files_of(stages: Sequence[Stage], written: Written | None = None) -> tuple[str, ...]:
    """The files that `reference_texts` changes."""
    paths = [stage.path if stage.is_kernel else stage.file for stage in stages]
    return tuple(dict.fromkeys([*paths, *([written.stage.file] if written is not None else [])]))


def reference_texts(
    texts: Mapping[str, bytes], stages: Sequence[Stage], written: Written | None = None
) -> dict[str, bytes]:
    """The files in which stand-ins are put. `texts` are the files as the stages' analysis read them, a byte-order mark may be there. A
    stage's number is its place in `stages`; what is written comes after them."""
    puts: dict[str, list[_Put]] = {path: [] for path in files_of(stages, written)}
    plain = {path: texts[path].removeprefix(_MARK) for path in puts}
    for number, stage in enumerate(stages):
        if stage.is_kernel:
            line = LineIndex.of(plain[stage.path]).line_at(stage.start) + 1
            puts[stage.path].append(_Put(stage.start, stage.end, stand_in(stage, number).encode(), line))
        else:
            puts[stage.file].append(_host_stand_in(stage, plain, number))
    if written is not None:
        puts[written.stage.file].append(_between_marks(written, plain[written.stage.file], len(stages)))
    return {path: _with(texts[path], made) for path, made in puts.items()}


def _with(text: bytes, puts: Sequence[_Put]) -> bytes:
    mark = _MARK if text.startswith(_MARK) else b""
    text = text.removeprefix(_MARK)
    lines = LineIndex.of(text)
    parts, at = [mark, prelude(), b"#line 1\n"], 0
    for put in sorted(puts, key=lambda p: p.start):
        after = lines.line_at(put.end) + 1
        parts += [text[at : put.start], b"\n#line %d\n" % put.line, put.code, b"\n#line %d\n" % after]
        at = put.end
    return b"".join([*parts, text[at:]])


@lru_cache(maxsize=1)
def prelude() -> bytes:
    return (Path(__file__).parent / "stand_in.cuh").read_bytes()


def stand_in(stage: Stage, number: int) -> str:
    """What stands for a kernel's declaration or defines a host stage, on one line: what a compiler says about it, it says about that
    declaration."""
    declared = ", ".join(stage.texts)
    lines = []
    if stage.declare:
        static = "static " if stage.reference.static else ""
        lines.append(f"{static}void {stage.reference.name}({', '.join(_of_reference(stage))});")
    if not stage.is_kernel:
        return " ".join([*lines, _of_host_stage(stage, number)])
    own = f"stitchcuda_stand_in_{stage.name}"
    lines += [
        f"static void {own}({declared}) {{",
        f'::stitchcuda_stand_in::Launch stitchcuda_launch("{stage.name}", {number});',
        f"{stage.marker.reference}({_given(stage)});",
        "stitchcuda_launch.done(); }",
        f"static __attribute__((unused)) void (*{stage.name})({declared}) = {own};",
    ]
    return " ".join(lines)


def _given(stage: Stage) -> str:
    """The arguments of the reference."""
    on_host = {buffer.name for buffer in stage.host}

    def given(name: str, pointer: bool) -> str:
        if not pointer:
            return name
        return f"stitchcuda_launch.{'own' if name in on_host else 'host'}({name})"

    return ", ".join(given(p.name, is_pointer(p)) for p in stage.given)


def _of_reference(stage: Stage) -> list[str]:
    """The reference's own parameters: one may be taken by reference where the kernel takes a value."""
    return [
        f"const {text.removeprefix('const ').rpartition(ours.name)[0].strip()}& {ours.name}"
        if theirs.type.reference
        else text
        for text, ours, theirs in zip(_given_texts(stage), stage.given, stage.reference.params, strict=True)
    ]


def _given_texts(stage: Stage) -> list[str]:
    given = {p.name for p in stage.given}
    return [text for text, p in zip(stage.texts, stage.parameters, strict=True) if p.name in given]


# --------------------------------------------------------------------------------------------------------- host stages


def _of_host_stage(stage: Stage, number: int) -> str:
    parts = [
        f"{stage.signature} {{",
        *(f"(void){name};" for name in stage.handles),
        f'::stitchcuda_stand_in::Launch stitchcuda_launch("{stage.name}", {number}, {stage.stream or "nullptr"});',
        f"{stage.marker.reference}({_given(stage)});",
        "stitchcuda_launch.done();",
        *_shown(stage),
        *(["return cudaSuccess;"] if stage.function.returns.name == STATUS else []),
        "}",
    ]
    return " ".join(parts)


def _shown(stage: Stage) -> list[str]:
    """What it left on the host, by the extents of its comment."""
    return [
        f'::stitchcuda_stand_in::shown("{stage.name}", {buffer.name}, static_cast<size_t>({buffer.extent}));'
        for buffer in stage.host
        if buffer.name in stage.outputs
    ]


def _host_stand_in(stage: Stage, texts: Mapping[str, bytes], number: int) -> _Put:
    text = texts[stage.file]
    place = place_of(stage, text)
    heads, tails = opened(stage, b"\n") if stage.file != stage.path else (b"", b"")
    line = place.line_in(text) - heads.count(b"\n")
    if stage.file == stage.path:
        line = LineIndex.of(text).line_at(stage.start) + 1
    return _Put(place.at, place.at, heads + stand_in(stage, number).encode() + b"\n" + tails, line)


def _between_marks(written: Written, text: bytes, number: int) -> _Put:
    stage = written.stage
    here = stage.file == stage.path
    start = text.index(written.definition, stage.end) if here else text.rindex(written.definition)
    lines = LineIndex.of(text)
    line = lines.line_at(stage.start + len(DONE) if here else start) + 1  # of the declaration, else of the definition
    own = f"stitchcuda_own_{stage.name}"
    status = stage.function.returns.name == STATUS
    called = f"{own}({', '.join(p.name for p in stage.parameters)});"
    parts = [
        f"{stage.signature} {{",
        "cudaError_t stitchcuda_status;" if status else "",
        f'{{ ::stitchcuda_stand_in::Span stitchcuda_span("{stage.name}", {number});',
        f"stitchcuda_status = {called} }}" if status else f"{called} }}",
        *_shown(stage),
        "return stitchcuda_status;" if status else "",
        "}",
    ]
    around = " ".join(part for part in parts if part)
    end = start + len(written.definition)
    code = (
        f"#define {stage.name} {own}\n#line {lines.line_at(start) + 1}\n".encode()
        + written.definition
        + f"\n#undef {stage.name}\n#line {line}\n{around}".encode()
    )
    return _Put(start, end, code, lines.line_at(start) + 1)
