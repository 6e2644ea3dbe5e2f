"""Kernel launches that reading a tree finds, against a plain count of `<<<` outside comments and strings.

    python benchmarks/launch_inventory.py TREE...

A launch counts as found when a lowered function holds it at that place, in whatever branch of `#if`, or when the
`#define` it stands in is understood with it. Every file counts once; HIP programs are left out.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from stitchcuda.analysis.program import cuda, ir
from stitchcuda.analysis.program.cuda import grammar
from stitchcuda.analysis.program.cuda.macro_bodies import MacroDef, template
from stitchcuda.analysis.syntax.parse import parse_tree
from stitchcuda.server.cli import inputs, programs
from tree_sitter import Node

_NOT_CODE = re.compile(
    rb'//[^\n]*|/\*.*?\*/|R"(\w{0,16})\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.){1,8}\'', re.DOTALL
)
_LAUNCH = re.compile(rb"(?<!<)<<<(?!<)")
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:[^\n\\]|\\\r?\n|\\[^\n])*", re.MULTILINE)


@dataclass
class Count:
    written: int = 0
    found: int = 0
    in_macros: int = 0
    misses: list[str] = field(default_factory=list)


def code_of(text: bytes) -> bytes:
    """The text with comments and strings blanked, byte for byte."""
    return _NOT_CODE.sub(lambda m: re.sub(rb"[^\n]", b" ", m.group(0)), text)


def lowered_spans(path: str, text: bytes, macros: dict[str, MacroDef]) -> list[tuple[int, int]]:
    """Where the launches lie that lowering makes of a file."""
    module = cuda.lower_module(path, text, macros=macros)
    return [
        (function.base + node.span[0], function.base + node.span[1])
        for function in module.functions
        if function.body is not None
        for node in ir.walk(function.body)
        if isinstance(node, ir.Launch)
    ]


def launches_below(node: Node) -> int:
    count, stack = 0, [node]
    while stack:
        current = stack.pop()
        count += current.kind_id == grammar.KERNEL_CALL
        stack += current.children
    return count


def understood(macro: MacroDef) -> int:
    """Launches in the body of a macro, as the frontend reads it."""
    body = template(macro).body
    held = sum(launches_below(node) for node in body.nodes) if body is not None else 0
    whole = parse_tree(b"void f(){" + macro.body.encode() + b";}\n")
    return max(held, launches_below(whole.root_node))


def count_file(path: str, text: bytes, macros: dict[str, MacroDef], total: Count) -> None:
    code = code_of(text)
    places = [m.start() for m in _LAUNCH.finditer(code) if b">>>" in code[m.end() :]]
    if not places:
        return
    spans = lowered_spans(path, text, macros)
    defines = [(m.start(), m.end(), m.group(1).decode()) for m in _DEFINE.finditer(code)]
    own = cuda.collect_macros(text)
    left = {name: understood(own[name]) for _, _, name in defines if name in own}
    for place in places:
        total.written += 1
        name = next((n for start, end, n in defines if start <= place < end), None)
        if name is not None:
            total.in_macros += 1
            if left.get(name, 0) > 0:
                left[name] -= 1
                total.found += 1
                continue
        elif any(start <= place < end for start, end in spans):
            total.found += 1
            continue
        line = text.count(b"\n", 0, place) + 1
        total.misses.append(f"{path}:{line}: {text.splitlines()[line - 1].strip().decode(errors='replace')[:120]}")


def count_tree(tree: str) -> Count:
    total = Count()
    done: set[str] = set()
    for group in programs.plan(inputs.find([tree]).files, [tree]).groups:
        files: Sequence[str] = (*group.sources, *group.context)
        texts = {path: text for path in files if (text := inputs.read(path).text) is not None}
        if any(b"hip/hip_runtime" in texts.get(path, b"") for path in group.sources):
            continue
        everywhere: dict[str, MacroDef] = {}
        for text in texts.values():
            everywhere.update(cuda.collect_macros(text))
        for path, text in texts.items():
            if path not in done and not path.endswith(".py") and b"<<<" in text:
                done.add(path)
                count_file(path, text, {**everywhere, **cuda.collect_macros(text)}, total)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trees", nargs="+", metavar="TREE")
    parser.add_argument("--misses", type=int, default=20, help="how many misses to list for a tree")
    arguments = parser.parse_args()
    enough = True
    for tree in arguments.trees:
        start = time.monotonic()
        total = count_tree(tree)
        share = 100 * total.found / total.written if total.written else 100.0
        enough &= share >= 99.5
        print(f"{tree}: {total.found} of {total.written} launches found = {share:.2f} %", end="")
        print(f" ({total.in_macros} of them in #define bodies), {time.monotonic() - start:.0f} s")
        for miss in total.misses[: arguments.misses]:
            print(f"    {miss}")
        sys.stdout.flush()
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
