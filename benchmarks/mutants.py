"""How many synchronisation faults the analysis finds: waits, events, joins and barriers of clean programs, deleted one at a time.

    python benchmarks/mutants.py sample --seed 1 --each 40 -o MUTANTS.json TREE...
    python benchmarks/mutants.py measure MUTANTS.json --root DIR

`sample` draws statements by kind. Which of them matter is for a person (or a run
on a GPU under delays) to say, never for the analysis: `matters` is filled in by hand, with `why`; entries left null do not count.
`measure` deletes each that matters and looks for a correctness or device finding that was not there before; programs that have such
findings as they are do not count. Paths are relative to
`--root`; the trees themselves are not kept here.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from stitchcuda.analysis.index import Index
from stitchcuda.analysis.syntax.parse import parse_cuda
from stitchcuda.server.cli import inputs, programs
from stitchcuda.server.report.rows import rows
from tree_sitter import Node

KINDS = {
    "device wait": ("cudaDeviceSynchronize", "cudaThreadSynchronize", "cuCtxSynchronize"),
    "stream wait": ("cudaStreamSynchronize", "cuStreamSynchronize", "cudaEventSynchronize", "cuEventSynchronize"),
    "event": ("cudaEventRecord", "cuEventRecord", "cudaStreamWaitEvent", "cuStreamWaitEvent"),
    "block barrier": ("__syncthreads", "sync", "barrier_wait"),
    "warp barrier": ("__syncwarp",),
    "copy wait": ("__pipeline_wait_prior", "cp_async_wait", "cp_async_wait_all", "__threadfence"),
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
GROUPS = ("correctness", "device")


@dataclass(frozen=True)
class Mutant:
    """A statement to delete: bytes `[start, end)` of a file."""

    path: str
    line: int
    start: int
    end: int
    kind: str
    text: str
    context: str = ""
    matters: bool | None = None
    why: str = ""


def statements(text: bytes) -> Iterator[tuple[Node, str]]:
    """Statements that are one call of a synchronising function, alone or inside the call of a macro."""
    waiting = [parse_cuda(text).root]
    while waiting:
        node = waiting.pop()
        if node.type == "expression_statement":
            name = _synchronises(node.named_children[0] if node.named_children else None, text)
            if name is not None:
                yield node, name
                continue
        waiting += node.children


def _synchronises(node: Node | None, text: bytes) -> str | None:
    if node is None or node.type != "call_expression":
        return None
    function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if function is None or arguments is None:
        return None
    name = text[function.start_byte : function.end_byte].decode(errors="replace")
    short = name.rsplit("::", 1)[-1].rsplit(".", 1)[-1]
    if short in KIND_OF and (short != "sync" or name != short):
        return short
    inner = [child for child in arguments.named_children if child.type == "call_expression"]
    return _synchronises(inner[0], text) if inner and arguments.named_children[0] == inner[0] else None


def analysed(group: programs.Group, changed: dict[str, bytes]) -> Counter[tuple[str, str]]:
    """Shown correctness and device findings by code and file."""
    index = Index()
    for path, text in {**group.texts(), **changed}.items():
        index.put(path, text)
    shown = (r for r in rows(index.analyse()) if r.confidence != "possible" and r.group in GROUPS)
    return Counter((r.code, r.place.path) for r in shown)


def sample(trees: Sequence[str], seed: int, each: int) -> list[Mutant]:
    chosen = random.Random(seed)
    by_kind: dict[str, list[Mutant]] = defaultdict(list)
    for tree in trees:
        found = inputs.find([tree])
        for group in programs.plan(found.files, [tree]).groups:
            for path in group.sources:
                text = inputs.read(path).text
                if text is None or not any(name.encode() in text for name in KIND_OF):
                    continue
                for node, name in statements(text):
                    line = node.start_point[0]
                    around = text.splitlines()[max(0, line - 4) : line + 5]
                    context = b"\n".join(around).decode(errors="replace")
                    call = text[node.start_byte : node.end_byte].decode(errors="replace")
                    by_kind[KIND_OF[name]].append(
                        Mutant(path, line + 1, node.start_byte, node.end_byte, KIND_OF[name], call, context)
                    )
    out = []
    for kind in KINDS:
        chosen.shuffle(by_kind[kind])
        taken: Counter[str] = Counter()
        for mutant in by_kind[kind]:
            if taken[mutant.path] < 2 and sum(m.kind == kind for m in out) < each:  # no file speaks for a kind
                taken[mutant.path] += 1
                out.append(mutant)
    return out


def measured(task: tuple[Mutant, programs.Group]) -> list[str] | None:
    """The codes of the findings that deleting the statement brings; None when the program has some as it is."""
    mutant, group = task
    text = inputs.read(mutant.path).text
    if text is None or text[mutant.start : mutant.end].decode(errors="replace") != mutant.text:
        return ["the file is another one"]
    after = text[: mutant.start] + b";" + text[mutant.end :]
    before = analysed(group, {})
    if before:
        return None
    return sorted({code for code, _ in analysed(group, {mutant.path: after})})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    sampling = commands.add_parser("sample")
    sampling.add_argument("trees", nargs="+")
    sampling.add_argument("--seed", type=int, default=1)
    sampling.add_argument("--each", type=int, default=40, help="of each kind at most")
    sampling.add_argument("-o", "--output", type=Path, required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("mutants", type=Path)
    measuring.add_argument("--root", type=Path, required=True)
    measuring.add_argument("--jobs", type=int, default=os.cpu_count())
    measuring.add_argument("--all", action="store_true", help="also those that nobody has judged")
    measuring.add_argument("-o", "--output", type=Path, help="default: into the file itself")
    arguments = parser.parse_args()
    if arguments.command == "sample":
        found = sample(arguments.trees, arguments.seed, arguments.each)
        root = os.path.commonpath([os.path.abspath(t) for t in arguments.trees])
        value = [{**asdict(m), "path": os.path.relpath(m.path, root)} for m in found]
        arguments.output.write_text(json.dumps({"mutants": value}, indent=1) + "\n", encoding="utf-8")
        print(f"{len(found)} mutants; paths relative to {root}")
        return 0
    return measure(arguments)


def measure(arguments: argparse.Namespace) -> int:
    value = json.loads(arguments.mutants.read_text(encoding="utf-8"))
    wanted = [m for m in value["mutants"] if m["matters"] or (arguments.all and m["matters"] is None)]
    tasks = []
    for entry in wanted:
        path = str(arguments.root / entry["path"])
        folder = os.path.dirname(path)
        plan = programs.plan(inputs.find([folder]).files, [folder])
        group = next((g for g in plan.groups if path in g.sources), programs.Group((path,)))
        names = ("line", "start", "end", "kind", "text")
        tasks.append((Mutant(path, **{name: entry[name] for name in names}), group))
    by_kind: dict[str, list[bool]] = defaultdict(list)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for entry, codes in zip(wanted, pool.map(measured, tasks), strict=True):
            entry["found"] = codes
            if codes is not None:
                by_kind[entry["kind"]].append(bool(codes))
            result = "not clean" if codes is None else "found" if codes else "missed"
            print(f"{result:<9} {entry['path']}:{entry['line']} {entry['text'][:60]} {codes or ''}", flush=True)
    for kind, found in sorted(by_kind.items()):
        print(f"{kind:<14} {sum(found)}/{len(found)}")
    whole = [f for found in by_kind.values() for f in found]
    print(f"all            {sum(whole)}/{len(whole)} = {100 * sum(whole) / max(1, len(whole)):.1f} %")
    (arguments.output or arguments.mutants).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
