"""The reference version: the program with its missing kernels, each launch of them handed to the reference on the CPU.

The kernel's declaration becomes a pointer to a host function of the same name: the compiler calls it with the launch's own
configuration, whatever the launch looks like (in a macro, through a wrapper), so that no launch has to be edited. Lines keep their
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.analysis.syntax.text import LineIndex

BEGIN, END = 4099, 6151  # bytes of the copies that mark a stand-in in a trace, for the stage number 0 (stand_in.cuh)
MOST_STAGES = 1024
_MARK = b"\xef\xbb\xbf"


def reference_texts(texts: Mapping[str, bytes], stages: Sequence[Stage]) -> dict[str, bytes]:
    """The files that declare a stage, with its stand-in. `texts` are the files as the stages' analysis read them, a byte-order mark
    may be there. A stage's number is its place in `stages`."""
    by_path: dict[str, list[tuple[int, Stage]]] = {}
    for number, stage in enumerate(stages):
        by_path.setdefault(stage.path, []).append((number, stage))
    return {path: _with_stand_ins(texts[path], numbered) for path, numbered in by_path.items()}


def _with_stand_ins(text: bytes, numbered: Sequence[tuple[int, Stage]]) -> bytes:
    mark = _MARK if text.startswith(_MARK) else b""
    text = text.removeprefix(_MARK)
    lines = LineIndex.of(text)
    parts, at = [mark, prelude(), b"#line 1\n"], 0
    for number, stage in sorted(numbered, key=lambda item: item[1].start):
        after = lines.line_at(stage.end) + 1
        first = lines.line_at(stage.start) + 1
        parts += [text[at : stage.start], b"\n#line %d\n" % first, stand_in(stage, number).encode()]
        parts.append(b"\n#line %d\n" % after)
        at = stage.end
    return b"".join([*parts, text[at:]])


@lru_cache(maxsize=1)
def prelude() -> bytes:
    return (Path(__file__).parent / "stand_in.cuh").read_bytes()


def stand_in(stage: Stage, number: int) -> str:
    """What stands for the declaration of a kernel, on one line: what a compiler says about it, it says about that declaration."""
    declared = ", ".join(stage.texts)
    given = ", ".join(
        f"stitchcuda_launch.host({p.name})" if p.type.pointer or p.type.dims else p.name for p in stage.parameters
    )
    own = f"stitchcuda_stand_in_{stage.name}"
    lines = []
    if stage.declare:
        static = "static " if stage.reference.static else ""
        lines.append(f"{static}void {stage.reference.name}({', '.join(_of_reference(stage))});")
    lines += [
        f"static void {own}({declared}) {{",
        f'::stitchcuda_stand_in::Launch stitchcuda_launch("{stage.name}", {number});',
        f"{stage.marker.reference}({given});",
        "stitchcuda_launch.done(); }",
        f"static __attribute__((unused)) void (*{stage.name})({declared}) = {own};",
    ]
    return " ".join(lines)


def _of_reference(stage: Stage) -> list[str]:
    """The reference's own parameters: one may be taken by reference where the kernel takes a value."""
    return [
        f"const {text.removeprefix('const ').rpartition(ours.name)[0].strip()}& {ours.name}"
        if theirs.type.reference
        else text
        for text, ours, theirs in zip(stage.texts, stage.parameters, stage.reference.params, strict=True)
    ]
