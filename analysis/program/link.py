"""Linking: which definition a name means, seen from which file.

Without a build description a name resolves (1) in its own file, (2) in a file it includes, directly or not, where include
strings are matched to the given paths by suffix, or (3) to the only other file that defines it. Each `main` is a program
of its own: a file with a `main` never sees, by rule 3, a definition in a file with another `main`. Static functions and
those in anonymous namespaces are seen in their own file and in files that include it. With `targets` (sets of paths that
are linked together), rule 3 looks only at the targets that contain the calling file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from posixpath import dirname, normpath
from typing import Any, cast

from stitchcuda.analysis.program.api import is_listed, is_work, looks_like_cuda, lookup
from stitchcuda.analysis.program.ir import (
    Api,
    Block,
    Call,
    Function,
    Module,
    Name,
    Problem,
    Program,
    Record,
)

_HOST = ("host", "host_device")
THRUST = frozenset({  # the names of thrust that stand for work on the device
    "device_vector", "sort", "stable_sort", "sort_by_key", "stable_sort_by_key", "is_sorted", "is_sorted_until", "reduce",
    "reduce_by_key", "transform", "transform_if", "transform_reduce", "copy", "copy_n", "copy_if", "inclusive_scan",
    "exclusive_scan", "inclusive_scan_by_key", "exclusive_scan_by_key", "transform_inclusive_scan",
    "transform_exclusive_scan", "fill", "fill_n", "uninitialized_fill", "uninitialized_fill_n", "uninitialized_copy",
    "uninitialized_copy_n", "sequence", "tabulate", "generate", "generate_n", "for_each", "for_each_n", "count",
    "count_if", "all_of", "any_of", "none_of", "min_element", "max_element", "minmax_element", "unique", "unique_copy",
    "unique_count", "unique_by_key", "unique_by_key_copy", "remove", "remove_if", "remove_copy", "remove_copy_if",
    "replace", "replace_if", "replace_copy", "replace_copy_if", "gather", "gather_if", "scatter", "scatter_if",
    "adjacent_difference", "inner_product", "find", "find_if", "find_if_not", "equal", "mismatch", "merge",
    "merge_by_key", "partition", "stable_partition", "partition_copy", "stable_partition_copy", "is_partitioned",
    "partition_point", "reverse", "reverse_copy", "shuffle", "shuffle_copy", "swap_ranges", "lower_bound",
    "upper_bound", "binary_search", "equal_range", "set_union", "set_union_by_key", "set_intersection",
    "set_intersection_by_key", "set_difference", "set_difference_by_key", "set_symmetric_difference",
    "set_symmetric_difference_by_key",
})  # fmt: skip

CUB = re.compile(  # the algorithms of cub for the whole device, with `using namespace cub`, too
    r"(?:(?:::)?cub::Device\w+|Device(?:Reduce|Scan|Select|RadixSort|MergeSort|Histogram|RunLengthEncode|Partition|Segmented\w+|"
    r"AdjacentDifference|Merge|TopK|Transform|Memcpy|Copy))::\w+"
)


def link(modules: Iterable[Module], *, targets: Iterable[Iterable[str]] | None = None) -> Program:
    """One program of all modules."""
    by_path = {m.path: m for m in modules}
    functions: dict[str, Function] = {}
    definitions: dict[str, list[str]] = {}
    declarations: dict[str, list[str]] = {}
    records: dict[str, Record] = {}
    problems: list[Problem] = []
    for module in by_path.values():
        problems.extend(module.problems)
        for function in (*module.functions, *([module.entry] if module.entry is not None else ())):
            functions[function.uid] = function
            where = definitions if function.body is not None else declarations
            where.setdefault(function.name, []).append(function.uid)
        for record in module.records:
            known = records.get(record.name)
            if known is None or not known.fields:
                records[record.name] = record
    program = Program(
        modules=by_path,
        functions=functions,
        by_name={name: tuple(uids) for name, uids in definitions.items()},
        records=records,
        visible=_visible(by_path),
        problems=tuple(problems),
        declarations={name: tuple(uids) for name, uids in declarations.items()},
        linked=_linked(targets),
        with_main=frozenset(functions[u].path for u in definitions.get("main", ())),
    )
    _call_own_names(program)
    callees, callers = _call_graph(program)
    reaching = _reaching(program, callers)
    entries = _entries(program, callees, callers, reaching)
    return replace(program, callers=callers, reaches_cuda=reaching, entries=entries)


# ---------------------------------------------------------------------------------------------------------- resolution


def resolve(program: Program, from_path: str, name: str, argc: int, record: str | None = None) -> tuple[Function, ...]:
    """The definitions a call may mean. `record` is the class of the object a method is called on; a qualified `name`
    says the class or namespace itself. Several results are overloads or branches of `#if`; none means unknown."""
    name = name.removeprefix("::")
    last = name.rpartition("::")[2]
    uids = program.by_name.get(last)
    if not uids:
        return ()
    candidates = [program.functions[u] for u in uids]
    if record is not None:
        found: list[Function] = []
        for owner in _lineage(program, record):
            found = [f for f in candidates if f.record and _names_same(f.record, owner)]
            if found:
                break
        candidates = found
    elif last != name:
        candidates = [f for f in candidates if _suffix(f.qualified, name)]
    else:
        free = [f for f in candidates if not f.record]
        candidates = free or candidates
    candidates = [f for f in candidates if _accepts(program, f, argc)]
    if record is None or len(candidates) < 2:
        return tuple(_nearest(program, from_path, candidates))
    overloads: dict[object, list[Function]] = {}  # of a class, wherever they are defined
    for f in candidates:
        overloads.setdefault(tuple((p.type.name, p.type.pointer) for p in f.params), []).append(f)
    return tuple(f for alike in overloads.values() for f in _nearest(program, from_path, alike))


def _suffix(qualified: str, name: str) -> bool:
    return qualified == name or qualified.endswith("::" + name)


def _names_same(one: str, other: str) -> bool:
    return _suffix(one, other) or _suffix(other, one)


def _lineage(program: Program, record: str) -> list[str]:
    """The class and its bases, nearest first."""
    order = [record]
    for name in order:
        found = program.records.get(name)
        if found is None:
            found = next((r for n, r in program.records.items() if _suffix(n, name)), None)
        if found is not None and len(order) < 64:
            order.extend(b for b in found.bases if b not in order)
    return order


def _accepts(program: Program, function: Function, argc: int) -> bool:
    """Whether a function can be called with that many arguments. Defaults may stand on a prototype only."""
    if argc < 0:
        return True
    params = function.params
    variadic = bool(params) and params[-1].name.endswith("...")
    most = len(params) - 1 if variadic else len(params)
    if argc > most and not variadic:
        return False
    if argc >= sum(1 for p in params[:most] if p.default is None):
        return True
    prototypes = (program.functions[uid] for uid in program.declarations.get(function.name, ()))
    return any(
        len(p.params) == len(params)
        and p.record == function.record
        and argc >= sum(1 for each in p.params[:most] if each.default is None)
        for p in prototypes
    )


def _nearest(program: Program, from_path: str, candidates: list[Function]) -> list[Function]:
    if len(candidates) == 0:
        return candidates
    own = [f for f in candidates if f.path == from_path]
    if own:
        return own
    seen = program.visible.get(from_path, frozenset())
    included = [f for f in candidates if f.path in seen]
    if included:
        return included
    allowed = program.linked.get(from_path)
    others = [f for f in candidates if not f.static or f.record]
    if allowed is not None:
        others = [f for f in others if f.path in allowed or any(f.path in program.visible.get(p, ()) for p in allowed)]
    elif from_path in program.with_main:
        others = [f for f in others if f.path not in program.with_main]
    return others if len({f.path for f in others}) == 1 else []


# ---------------------------------------------------------------------------------------------------------- visibility


def _visible(modules: dict[str, Module]) -> dict[str, frozenset[str]]:
    """For each path, the paths it includes, directly or not, and itself."""
    by_tail: dict[str, list[str]] = {}
    for path in modules:
        by_tail.setdefault(path.replace("\\", "/").rpartition("/")[2], []).append(path)
    direct: dict[str, list[str]] = {}
    for path, module in modules.items():
        found = []
        for include in module.includes:
            match = _included(path, include, modules, by_tail)
            if match is not None:
                found.append(match)
        direct[path] = found
    visible: dict[str, frozenset[str]] = {}
    for path in modules:
        seen = {path}
        queue = [path]
        while queue:
            for each in direct[queue.pop()]:
                if each not in seen:
                    seen.add(each)
                    queue.append(each)
        visible[path] = frozenset(seen)
    return visible


def _included(path: str, include: str, modules: dict[str, Module], by_tail: dict[str, list[str]]) -> str | None:
    beside = normpath(f"{dirname(path)}/{include}") if dirname(path) else normpath(include)
    if beside in modules:
        return beside
    wanted = normpath(include).removeprefix("../")
    while wanted.startswith("../"):
        wanted = wanted[3:]
    candidates = [
        p
        for p in by_tail.get(wanted.rpartition("/")[2], ())
        if p == wanted or p.replace("\\", "/").endswith("/" + wanted)
    ]
    if not candidates:
        return None
    return max(candidates, key=lambda p: (_shared(p, path), -len(p), p))


def _shared(one: str, other: str) -> int:
    """How many leading directories two paths share."""
    count = 0
    for a, b in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if a != b:
            break
        count += 1
    return count


def _linked(targets: Iterable[Iterable[str]] | None) -> dict[str, frozenset[str]]:
    linked: dict[str, frozenset[str]] = {}
    for target in targets or ():
        paths = frozenset(target)
        for path in paths:
            linked[path] = linked.get(path, frozenset()) | paths
    return linked


# ---------------------------------------------------------------------------------------------------------- call graph


def _call_graph(program: Program) -> tuple[dict[str, set[str]], dict[str, frozenset[str]]]:
    """Callees and callers by the names a function mentions; an over-approximation (argument counts are not compared)."""
    callees: dict[str, set[str]] = {}
    callers: dict[str, set[str]] = {}
    memo: dict[tuple[str, str], tuple[str, ...]] = {}
    classes = {name.rpartition("::")[2] for name in program.records}
    functors = {program.functions[u].record.rpartition("::")[2] for u in program.by_name.get("operator()", ())}
    called = {  # members that are called as functions are
        f.name
        for record in program.records.values()
        if functors
        for f in record.fields
        if f.type.name.rpartition("::")[2] in functors
    }
    for function in program.functions.values():
        if function.body is None:
            continue
        reached: set[str] = set()
        for mention in function.mentions:
            key = (function.path, mention)
            targets = memo.get(key)
            if targets is None:
                meant = "operator()" if mention in called and mention not in program.by_name else mention
                targets = memo[key] = _mentioned(program, function.path, meant, classes)
            reached.update(targets)
        callees[function.uid] = reached
        for uid in reached:
            callers.setdefault(uid, set()).add(function.uid)
    return callees, {uid: frozenset(found - {uid}) for uid, found in callers.items() if found - {uid}}


def _mentioned(program: Program, path: str, name: str, classes: set[str]) -> tuple[str, ...]:
    """Definitions a mentioned name may mean; a class also means its constructors and destructor."""
    last = name.rpartition("::")[2]
    found: list[str] = []
    for each in (last, "~" + last) if last in classes else (last,):
        uids = program.by_name.get(each, ())
        candidates = [program.functions[u] for u in uids]
        if last != name and each == last:
            candidates = [f for f in candidates if _suffix(f.qualified, name) or f.name == f.record.rpartition("::")[2]]
        groups: dict[str, list[Function]] = {}  # free functions, and the methods of each class
        for f in candidates:
            groups.setdefault(f.record, []).append(f)
        found.extend(f.uid for group in groups.values() for f in _nearest(program, path, group))
    return tuple(found)


def _works(function: Function) -> bool:
    """There is CUDA work in the function's own text: calls, launches, algorithms of cub and thrust, vectors of thrust."""
    if function.host_cuda_calls:
        return True
    return function.space in _HOST and any(
        name.removeprefix("::").startswith("thrust::")
        and (name.rpartition("::")[2] in THRUST or name.endswith("cuda::vector"))
        or CUB.fullmatch(name)
        or is_work(name)
        for name in function.mentions
    )


def _reaching(program: Program, callers: dict[str, frozenset[str]]) -> frozenset[str]:
    queue = [f.uid for f in program.functions.values() if _works(f) and f.body is not None]
    reached = set(queue)
    while queue:
        for caller in callers.get(queue.pop(), ()):
            if caller not in reached:
                reached.add(caller)
                queue.append(caller)
    return frozenset(reached)


def _entries(
    program: Program,
    callees: dict[str, set[str]],
    callers: dict[str, frozenset[str]],
    reaching: frozenset[str],
) -> tuple[str, ...]:
    """Every `main` and Python module entry; in files that belong to none of them, every uncalled function with CUDA work."""
    mains = [program.functions[u] for u in program.by_name.get("main", ())]
    # in Python `main` is a name like any other: the module's own code calls it
    roots = [f.uid for f in mains if not f.record and not (f.language == "python" and f.uid in callers)]
    roots += [m.entry.uid for m in program.modules.values() if m.entry is not None]
    covered: set[str] = set()
    queue = list(roots)
    seen = set(queue)
    while queue:
        uid = queue.pop()
        path = program.functions[uid].path
        covered.update(program.visible.get(path, ()))
        covered.update(program.linked.get(path, ()))
        for callee in callees.get(uid, ()):
            if callee not in seen:
                seen.add(callee)
                queue.append(callee)
    uncalled = [
        f.uid
        for f in program.functions.values()
        if f.uid in reaching
        and f.uid not in callers
        and f.space in _HOST
        and f.path not in covered
        and f.uid not in seen
    ]
    return (*roots, *uncalled)


# ------------------------------------------------------------------------------------- functions named like CUDA's own


def _call_own_names(program: Program) -> None:
    """A call taken for CUDA's only because of how its name is spelled, while the program itself defines that name in
    another file, is a plain call after all. Functions that hold none are left as they are, the same objects."""
    own = {name for name in program.by_name if not is_listed(name) and (looks_like_cuda(name) or lookup(name, 1))}
    if not own:
        return
    for uid, function in program.functions.items():
        if function.body is not None and not own.isdisjoint(function.mentions):
            body = cast(Block, _as_calls(function.body, own))
            if body is not function.body:
                program.functions[uid] = replace(function, body=body)


def _as_calls(node: Any, own: set[str]) -> Any:
    if isinstance(node, tuple):
        made = tuple(_as_calls(each, own) for each in node)
        return node if all(a is b for a, b in zip(made, node, strict=True)) else made
    if not is_dataclass(node) or isinstance(node, type):
        return node
    if isinstance(node, Api) and node.name in own:
        return Call(node.span, Name(node.name_span, node.name), tuple(_as_calls(v, own) for _, v in node.roles))
    changes = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, tuple) or is_dataclass(value):
            new = _as_calls(value, own)
            if new is not value:
                changes[each.name] = new
    return replace(node, **changes) if changes else node
