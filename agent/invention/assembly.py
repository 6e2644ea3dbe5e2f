"""Inline assembly: PTX for arithmetic and memory, inside device code, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stitchcuda.agent.invention.known_names import PTX
from stitchcuda.agent.invention.tokens import Token, balanced, literal

_REGISTERS = re.compile(
    r"%(?:clock|globaltimer|smid|nsmid|warpid|nwarpid|envreg|pm\d|lanemask_none|total_smem|dynamic_smem)"
)

_OF_HOSTS = re.compile(r"\b(?:syscall|sysenter|sysexit|svc|int|call|callq|jmp|ret|iret|hlt)\b")  # wherever they stand


def assembly(found: tuple[Token, ...], k: int, on_device: bool) -> str:
    """What is wrong with inline assembly, "" when it is PTX that device code may use."""
    if not on_device or found[k].directive:
        return "inline assembly stands in device functions only"
    at = k + 1
    while _text(found, at) in ("volatile", "__volatile__", "inline"):
        at += 1
    if _text(found, at) != "(":
        return 'inline assembly must be asm("...")'
    end = balanced(found, at)
    if any(t.kind == "string" and "C" in literal(t) for t in _operands(found, at, end)):
        return "what stands in inline assembly is not put together from other texts"
    text = ""
    for token in found[at + 1 : end - 1]:
        if token.text in (":", "::"):
            break
        if token.kind != "string":
            return "the text of inline assembly must be written out as strings"
        text += literal(token)
    if _REGISTERS.search(text):
        return "inline assembly may not read clocks or where it runs"
    if found_ := _OF_HOSTS.search(text):
        return f"inline assembly `{found_[0]}` is not arithmetic or memory of the kernel"
    for statement in re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL).split(";"):
        words = re.sub(r"^[{}\s]*(?:\$?\w+(?:%=)?:(?!:)\s*)?(?:@!?[%\w]+\s+)?[{}\s]*", "", statement).split()
        if not words or words[0] == ".reg":
            continue
        if words[0].split(".")[0] not in PTX:
            return f"inline assembly `{words[0][:30]}` is not arithmetic or memory of the kernel"
    return ""


def _operands(found: Sequence[Token], at: int, end: int) -> Sequence[Token]:
    """All that stands behind the text."""
    start = next((k for k in range(at, end) if found[k].text in (":", "::")), end)
    return found[start:end]


def _text(found: Sequence[Token], k: int) -> str:
    return found[k].text if 0 <= k < len(found) else ""
