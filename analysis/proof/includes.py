"""Includes that a change added: they may bring nothing that the file's text already means otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stitchcuda.analysis.program import cuda
from stitchcuda.analysis.proof.correspond import Correspondence
from stitchcuda.analysis.proof.model import ProofFinding

# Headers of CUDA and of the standard library add names of their own only.
_KNOWN = re.compile(
    r"^<(cuda(_runtime(_api)?|_pipeline(_primitives)?|_fp16|_bf16)?\.h|mma\.h|math_constants\.h|cooperative_groups(/\w+)?\.h"
    r"|c?std(int|def|io|lib)(\.h)?|vector|array|string|memory|utility|limits|climits)>$"
)
_WORD = re.compile(rb"[A-Za-z_]\w*")
_PLACE = re.compile(rb"\b(__LINE__|__COUNTER__|source_location)\b")
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define\b(?:[^\n\\]|\\[^\n]|\\\r?\n)*", re.MULTILINE)


def strange_includes(both: Correspondence) -> Iterator[ProofFinding]:
    """Findings for added includes, and for text that depends on where it stands."""
    for path, written, line in both.includes:
        if _KNOWN.match(written) or (written.startswith('"') and _harmless(both, path, written)):
            continue
        yield ProofFinding(f"`#include {written}` may change what this file means", path, line)
    for path, text in both.before.sources.items():
        if both.after.sources[path] != text:
            found = _PLACE.search(_DEFINE.sub(lambda m: b"\n" * m.group().count(b"\n"), text))
            if found is not None:
                yield ProofFinding(f"`{found.group().decode()}` depends on where it stands", path, 0, True)


def _harmless(both: Correspondence, path: str, written: str) -> bool:
    """A header of the program none of whose names the file used before, or that it saw already."""
    old = both.before.program.visible.get(path, frozenset())
    brought = both.after.program.visible.get(path, frozenset()) - old
    suffix = written.strip('"').rsplit("/", 1)[-1]
    if not any(p.rsplit("/", 1)[-1] == suffix for p in both.after.program.visible.get(path, frozenset())):
        return False
    words = {w.decode() for w in _WORD.findall(both.before.sources.get(path, b""))}
    for header in brought:
        module = both.after.program.modules.get(header)
        if module is None:
            return False
        names = set(cuda.collect_macros(both.after.sources[header]))
        names |= {f.name for f in module.functions} | {r.name.rsplit("::", 1)[-1] for r in module.records}
        names |= {d.name for d in module.globals} | {n for n, _ in module.aliases} | {n for n, _ in module.constants}
        if names & words:
            return False
    return True
