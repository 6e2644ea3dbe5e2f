"""A plain read-modify-write of global memory is done concurrently by several threads.

## What

`x += v`, `x++`, `x = max(x, v)` or `if (v < x) x = v` on memory that several threads reach at once: one variable for all
of them, one place for a block, a bin that the data chooses, a sum that several rows or columns share. Shared memory
counts as well. It is no finding when one thread does it, when each thread has an element of its own, or behind a lock.

`if (owner == NONE && mine == best) owner = id;` with one `NONE` for all threads, and nothing else in the branch, chooses
one of several threads. Any of them may win, so it is told as `possible` only: which one does differs from run to run.

`out[place[i]] += v[i]` is told as `possible` as well: many a list names each place once. It is `likely` where the kernel
counts at the same places, where every launch has filled `out` with zero for it (who adds to zero expects several parts), and
where two lists stand for the entries of a matrix (`y[row[k]] += v[k] * x[col[k]]`) or for pairs (`out[a[k]] += f; out[b[k]] -= f`)
that are launched as a whole, not colour by colour.

## Why

Such a statement is a load, an operation and a store. Two threads that load the same old value both store what they made
of it, and one of the updates is lost. How many are lost differs from run to run. `__syncthreads()` does not help: all
threads of the block are in the statement at the same time, and other blocks do not take part in it.

## Example

```cuda
if (v[i] > limit) *count += 1;              // every thread
bins[data[i]]++;                            // equal data meet in one bin
if (threadIdx.x == 0) *total += blockSum;   // every block
```

## Use instead

```cuda
if (v[i] > limit) atomicAdd(count, 1);
atomicAdd(&bins[data[i]], 1);
if (threadIdx.x == 0) atomicAdd(total, blockSum);
```

With many threads on few places, add up within the warp or block first and let one thread do the atomic.

## Fix safety

The fix turns a sum or a count into `atomicAdd`. The result becomes the one that was meant; the order of additions stays
open, so sums of floating-point numbers differ in their last bits from run to run. It is offered for types that
`atomicAdd` takes, and when the value of the expression is not used. Other updates are left to you.

## References

Ordering row D5. CUDA programming guide, "Atomic Functions".
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings.finding import (
    Confidence,
    Edit,
    Finding,
    Fix,
    Group,
    KernelInput,
    KernelRule,
    Severity,
)
from stitchcuda.analysis.findings.kernel_wording import written
from stitchcuda.analysis.findings.shapes import agreed
from stitchcuda.analysis.findings.wording import called_from
from stitchcuda.analysis.kernel.conditions import Conditions, called_name, conditions_of, redefined, words
from stitchcuda.analysis.kernel.conflicts import SEPARATING
from stitchcuda.analysis.kernel.elections import emptiness
from stitchcuda.analysis.kernel.lists import entry, meets
from stitchcuda.analysis.kernel.model import Access, KernelTrace, Memory, Mode, Uniformity
from stitchcuda.analysis.kernel.sharing import Grid, Sharing, Who, sharing
from stitchcuda.analysis.kernel.trace import KernelTraces, kernel_traces
from stitchcuda.analysis.kernel.updates import Kind, Spelling, Update, update_of
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Site

CODE = "missing-atomic"
_ADDABLE = frozenset(
    {"int", "unsigned", "unsigned int", "unsigned long long", "unsigned long long int", "float", "double"}
    | {"int32_t", "uint32_t", "uint", "std::int32_t", "std::uint32_t"}
)
_SIGNED = frozenset({"int", "int32_t", "std::int32_t", "float", "double"})
_WHO = {
    Who.BLOCK: "several threads of a block",
    Who.GRID: "several blocks",
    Who.DATA: "all threads whose index is the same",
}


def check(given: KernelInput) -> Iterator[Finding]:
    traces = kernel_traces(given.program, given.kernel, given.sources, given.guesses)
    conditions = conditions_of(given.program)
    found = [_found(given, conditions, traces, t) for t in traces.traces if not t.broken and not t.uses_locks]
    yield from agreed(traces, found)


def _found(given: KernelInput, conditions: Conditions, traces: KernelTraces, trace: KernelTrace) -> dict[Site, Finding]:
    grid = Grid(traces, conditions, trace)
    if not traces.fixed and not grid.many_threads:
        return {}  # written for one thread, as far as anybody can see
    out: dict[Site, Finding] = {}
    for access in trace.accesses:
        if access.mode is not Mode.WRITE or access.site in out:
            continue
        if any(_calls_itself(given, conditions, call) for call in access.calls):
            continue  # or what is called has the same name and is something else
        spelled = _spelling(given, access)
        text = written(given.program, given.sources, access.site, 400)
        if redefined(given.sources.get(access.site.path, b"")) & words(text):
            continue  # which of its macros holds here is not known
        update = update_of(access, conditions, given.program.functions[access.site.function], spelled)
        if update is None or update.idempotent:
            continue
        if isinstance(ir.bare(update.node.value), ir.Name) and _parted(trace, access):
            continue  # all have read the old value before anybody writes, and what they made of it is told by its name only
        shared = sharing(access, trace, grid, conditions)
        level = _level(given, conditions, traces, access, update, shared) if shared is not None else None
        if shared is not None and level is not None:
            elects = emptiness(access, conditions, given.program, spelled) is not None
            level = Confidence.POSSIBLE if elects else level  # any thread may win, as far as anybody can see
            out[access.site] = _finding(given, access, update, shared, level, elects)
    return out


def _parted(trace: KernelTrace, write: Access) -> bool:
    """A barrier of the block stands between the last read of the place and the write."""
    barrier = False
    for event in reversed(trace.events):
        if event.at >= write.at:
            continue
        if not isinstance(event, Access):
            barrier = barrier or event.kind in SEPARATING
        elif event.mode is Mode.READ and event.buffer == write.buffer and event.offset == write.offset:
            return barrier
    return False


def _finding(
    given: KernelInput, access: Access, update: Update, shared: Sharing, level: Confidence, elects: bool
) -> Finding:
    target = written(given.program, given.sources, access.site) or access.buffer.name
    place = f"`{target}`{' in shared memory' if access.buffer.memory is Memory.SHARED else ''}"
    fix = _fix(given, access, update)
    does = f"update {place} at once, without an atomic: updates are lost"
    if elects:
        does = f"may find {place} empty and store at once: which of the values stays differs from run to run"
    return Finding(
        CODE,
        Group.DEVICE,
        Severity.ERROR,
        level,
        access.site,
        f"{_WHO[shared.who]} {does}",
        called_from(access.calls, access.site),
        (fix,) if fix is not None else (),
    )


def _calls_itself(given: KernelInput, conditions: Conditions, call: Site) -> bool:
    name = given.program.functions[call.function].name
    return any(
        isinstance(n, ir.Call) and n.span == call.span and called_name(n) == name
        for n in conditions.nodes(call.function)
    )


def _spelling(given: KernelInput, access: Access) -> Spelling:
    site = access.site
    return lambda part: written(given.program, given.sources, Site(site.function, site.path, part.span), 200)


def _level(
    given: KernelInput,
    conditions: Conditions,
    traces: KernelTraces,
    access: Access,
    update: Update,
    shared: Sharing,
) -> Confidence | None:
    if shared.who is Who.DATA:
        return _level_by_index(given, conditions, traces, access, update)
    if shared.sure and update.kind is not Kind.CHOICE:
        return Confidence.CERTAIN
    chosen = any(guard.uniformity is Uniformity.DATA for guard in access.guards)
    # the data may let one thread pass, and then `x = f(x)` is all right: whoever counts or compares thinks of several
    return Confidence.POSSIBLE if chosen and update.kind is Kind.OTHER else Confidence.LIKELY


def _level_by_index(
    given: KernelInput, conditions: Conditions, traces: KernelTraces, access: Access, update: Update
) -> Confidence | None:
    """Equal data meet in one place, unless the indexes are known to be different: a permutation, a list of places."""
    index = conditions.place(access.site.function, update.node.target)
    while isinstance(index, ir.Member):
        index = index.base
    if not isinstance(index, ir.Index):
        return Confidence.POSSIBLE
    where, chosen = _given(given.program, conditions, access, index.index)
    parts = list(conditions.values(where, chosen))
    if any(isinstance(p, ir.Call) and called_name(p).startswith(("atomic", "fetch_")) for p in parts):
        return None  # a place that nobody else has been given
    made_of = conditions.ingredients(where, chosen)
    if made_of.loads:
        # an element of a row that the data choose is more often one of a list of places, each of which stands there once
        counts = isinstance(update.node.value, ir.Const)
        own_part = conditions.ingredients(access.site.function, index.base).coordinates
        spelled = _spelling(given, access)
        listed = entry(conditions, where, chosen, spelled) is not None
        listed = listed and not _counted(conditions, access.site.function, index.index)
        listed = listed and not meets(conditions, traces.function, traces.launches, access, update.node, index, spelled)
        bin_only = update.kind is Kind.SUM and not made_of.coordinates and not own_part
        sure = counts or not made_of.stepped and not listed
        return Confidence.LIKELY if bin_only and sure else Confidence.POSSIBLE
    # `i / width` is the same for neighbours, unless `i % width` tells them apart
    guarding = [p for guard in access.guards for p in conditions.behind(guard)]
    remainder = any(isinstance(p, ir.Binary) and p.op in ("%", "&") for p in (*parts, *guarding))
    quotient = any(isinstance(p, ir.Binary) and p.op in ("/", ">>") for p in parts)
    clear = update.kind is Kind.SUM and not made_of.stepped
    return Confidence.LIKELY if clear and quotient and not remainder else None


def _counted(conditions: Conditions, function: str, index: ir.Expr) -> bool:
    """At the same index the kernel counts, or updates by an atomic: whoever wrote it expects several threads there."""
    name = _spelt(index)
    if not name:
        return False

    def there(place: ir.Expr) -> bool:
        return isinstance(place, ir.Index) and _spelt(place.index) == name

    for node in conditions.nodes(function):
        if isinstance(node, ir.Assign) and node.op and isinstance(node.value, ir.Const) and there(node.target):
            return True
        atomic = isinstance(node, ir.Call) and called_name(node).startswith("atomic")
        if atomic and any(isinstance(a, ir.AddressOf) and there(a.operand) for a in ir.children(node)):
            return True
    return False


def _spelt(index: ir.Expr) -> str:
    """`i`, `cell.left`: an index that is a name, to find it elsewhere; "" for others."""
    index = ir.bare(index)
    if isinstance(index, ir.Member):
        base = _spelt(index.base)
        return f"{base}.{index.name}" if base else ""
    return index.name if isinstance(index, ir.Name) else ""


def _given(program: ir.Program, conditions: Conditions, access: Access, index: ir.Expr) -> tuple[str, ir.Expr]:
    """An index as the caller writes it, where a function only passes on what it is given; with the function it stands in."""
    function = access.site.function
    for call in reversed(access.calls):
        name = ir.bare(index)
        params = program.functions[function].params
        position = next((k for k, p in enumerate(params) if isinstance(name, ir.Name) and p.name == name.name), None)
        changed = any(
            isinstance(n, ir.Assign) and isinstance(n.target, ir.Name) and n.target.name == getattr(name, "name", "")
            for n in conditions.nodes(function)
        )
        calls = [n for n in conditions.nodes(call.function) if isinstance(n, ir.Call) and n.span == call.span]
        if position is None or changed or not calls or len(calls[0].args) <= position:
            break
        function, index = call.function, calls[0].args[position]
    return function, index


# --------------------------------------------------------------------------------------------------------------- fix


def _fix(given: KernelInput, access: Access, update: Update) -> Fix | None:
    """`atomicAdd` where it takes the type, and where nobody asks for the value of the assignment."""
    function = given.program.functions[access.site.function]
    element = access.buffer.element.removeprefix("const ").strip()
    if element not in _ADDABLE or access.volatile or access.field or update.kind is not Kind.SUM:
        return None
    if any(p.type.pointer and p.type.name in function.template for p in function.params):
        return None
    node, spelled = update.node, _spelling(given, access)
    stands_alone = function.body is not None and any(
        isinstance(n, ir.Evaluate) and n.expr is node for n in ir.walk(function.body)
    )
    whole, target, added = spelled(node), spelled(node.target), _added(node, spelled)
    if not stands_alone or not target or added is None or not whole.lstrip("+- (").startswith(target.lstrip("(")):
        return None
    op, value = added
    address = spelled(node.target.operand) if isinstance(node.target, ir.Deref) else f"&{target}"
    if op == "-" and element in _SIGNED:
        call = f"atomicAdd({address}, -({value}))"
    elif op == "+" or "long" not in element:
        call = f"{'atomicAdd' if op == '+' else 'atomicSub'}({address}, {value})"
    else:
        return None
    edit = Edit(Site(access.site.function, access.site.path, node.span), call)
    return Fix(f"use `{call}`: each update counts, and they are done one after the other", (edit,), preferred=True)


def _added(node: ir.Assign, spelled: Spelling) -> tuple[str, str] | None:
    """`+` or `-`, and what is added or taken away."""
    if node.op:
        text = "1" if "=" not in spelled(node) else spelled(node.value)
        return (node.op, text) if text else None
    value, target = node.value, spelled(node.target)
    if not isinstance(value, ir.Binary) or value.op not in ("+", "-"):
        return None
    left, right = spelled(value.left), spelled(value.right)
    if left == target and right and target not in right:
        return value.op, right
    if value.op == "+" and right == target and left and target not in left:
        return "+", left
    return None


RULE = KernelRule(
    CODE,
    Group.DEVICE,
    Severity.ERROR,
    "a plain read-modify-write is done by several threads at once",
    __doc__ or "",
    check,
)
