"""Does a changed version compute what the original computes, in an order that keeps every value?

`prove` compares two analyses of one program. `proved` means: the versions differ only in statements that are modelled
(`edits.py`); their operations correspond one to one but for waits, allocations and what the change declares
(`matching.py`); every two conflicting operations that the original orders are ordered alike and every read sees the same
value (`order.py`, `resident.py`); nothing relies on a wait that is gone (`waiting.py`); and what must be conserved is
(`quantities.py`). Whatever is not known and matters gives `untested`, with the line.

`kept` is said when device code changed as well, which must be declared: then groups of launches stand for others
(`recomposed.py`, `groups.py`), everything above holds of the groups, and what the kernels compute is left to a run.

It rests on what the analysis takes for granted: no memory that is read was never written, kernels stay within the buffers
they are given, parameters of `main` hold no device memory, and one process drives the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.order.execute import execute_entry
from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.program.ir import HOST_WAITS, Api, ApiKind, Launch, Program, Site, walk
from stitchcuda.analysis.proof.context import may_create_context
from stitchcuda.analysis.proof.correspond import Correspondence, Unlike, correspond, line_of
from stitchcuda.analysis.proof.device_code import DeviceChange, device_change, strange_device_code
from stitchcuda.analysis.proof.device_loops import fewer_rounds
from stitchcuda.analysis.proof.edits import unmodelled
from stitchcuda.analysis.proof.folded import folded
from stitchcuda.analysis.proof.groups import told
from stitchcuda.analysis.proof.handles import strange_handles
from stitchcuda.analysis.proof.hidden import hidden_memory, starts_early
from stitchcuda.analysis.proof.includes import strange_includes
from stitchcuda.analysis.proof.lines import moving_lines
from stitchcuda.analysis.proof.matching import MOVING, Pairing, pair, where
from stitchcuda.analysis.proof.misuse import misuse
from stitchcuda.analysis.proof.model import Declared, May, Proof, ProofFinding, ProofState, Quantity
from stitchcuda.analysis.proof.obligations import grouped
from stitchcuda.analysis.proof.order import keeps_order
from stitchcuda.analysis.proof.points import Points
from stitchcuda.analysis.proof.quantities import conserved
from stitchcuda.analysis.proof.recomposed import Recomposed, recomposed
from stitchcuda.analysis.proof.resident import resident
from stitchcuda.analysis.proof.rounds import hands_on, settled
from stitchcuda.analysis.proof.shapes import shape_of
from stitchcuda.analysis.proof.sooner import sooner
from stitchcuda.analysis.proof.surroundings import unfollowed
from stitchcuda.analysis.proof.waiting import relies

# Operations of which the comparison does not know enough, with what they are called.
_NOT_COMPARED = {
    ApiKind.GRAPH_LAUNCH: "CUDA graphs",
    ApiKind.CAPTURE_BEGIN: "CUDA graphs",
    ApiKind.GRAPH_UPDATE: "CUDA graphs",
    ApiKind.HOST_FUNC: "host functions in streams",
    ApiKind.QUERY: "queries whose answer depends on time",
}


@dataclass(frozen=True)
class Pieces:
    """What changed on the device, and what host code that means."""

    parts: Recomposed = field(default_factory=Recomposed)
    change: DeviceChange = field(default_factory=DeviceChange)

    def concern(self, program: Program, functions: Iterable[str]) -> bool:
        """Whether an entry that executes these functions runs what changed."""
        uids = [uid for uid in functions if uid in program.functions]
        return any(program.functions[uid].name in self.change.touched or uid in self.parts.numbered for uid in uids)


@dataclass
class Account:
    failed: list[ProofFinding] = field(default_factory=list)
    unknown: list[ProofFinding] = field(default_factory=list)
    told: list[ProofFinding] = field(default_factory=list)  # decides nothing
    quantities: list[Quantity] = field(default_factory=list)
    pairs: int = 0
    rests_on: set[str] = field(default_factory=set)
    entries: list[str] = field(default_factory=list)
    device: bool = False  # device code changed, or launches
    kernels: dict[str, list[str]] = field(default_factory=dict)
    groups: list[dict[str, object]] = field(default_factory=list)
    run: tuple[set[Site], set[Site]] = field(default_factory=lambda: (set(), set()))  # calls that were executed


def prove(before: Analysis, after: Analysis, declared: Declared) -> Proof:
    """Compares all entries that a change reaches. Both analyses name their files alike. Pure; never raises on broken
    code."""
    account = Account()
    try:
        both = correspond(before, after, device=declared.device is May.ANY)
        parts = recomposed(both) if both.device else Recomposed()
        change = device_change(before, after, parts.values) if both.device else DeviceChange()
        account.unknown += parts.unknown
        account.unknown += strange_device_code(before, after, change)
        account.unknown += unmodelled(both, parts.spare, parts.added)
        account.unknown += strange_handles(both)
        account.unknown += strange_includes(both)
        if not account.unknown:
            account.unknown += moving_lines(both)
            account.device = both.device and bool(change.touched or parts.regions or parts.values or parts.spare)
            account.kernels = change.listed() if account.device else {}
            account.told += fewer_rounds(before, after, change)
            _compare_entries(both, Pieces(parts, change), declared, account)
    except Unlike as difference:
        account.unknown.append(difference.finding)
    return _proof(account, declared)


def _proof(account: Account, declared: Declared) -> Proof:
    failed = tuple(dict.fromkeys(account.failed))
    unknown = tuple(dict.fromkeys(account.unknown))
    good = ProofState.KEPT if account.device else ProofState.PROVED
    state = ProofState.FAILED if failed else ProofState.UNTESTED if unknown else good
    first = (*failed, *unknown)[:1]
    return Proof(
        state,
        first[0].what if first else "",
        failed + unknown + tuple(dict.fromkeys(account.told)),
        tuple(account.quantities),
        account.pairs,
        declared,
        {"rests_on": sorted(account.rests_on), "entries": account.entries, **_of_device(account)},
    )


def _of_device(account: Account) -> dict[str, object]:
    if not account.device:
        return {}
    groups = [g for k, g in enumerate(account.groups) if g not in account.groups[:k]]
    return {**account.kernels, "groups": groups, "left_to_G3": "the values that the changed kernels compute"}


def _compare_entries(both: Correspondence, pieces: Pieces, declared: Declared, account: Account) -> None:
    before, after = both.before.program, both.after.program
    if not both.changed and not account.device:
        return  # the same text, but for a function that nobody calls
    if set(before.entries) != set(after.entries):
        odd = min(set(before.entries) ^ set(after.entries))
        account.unknown.append(
            ProofFinding(f"`{odd.rsplit('::', 1)[-1]}` starts or stopped being an entry of the program")
        )
        return
    reached: set[str] = set()
    for old in both.before.timelines:
        if set(both.changed).isdisjoint(old.functions) and not pieces.concern(before, old.functions):
            continue
        reached |= old.functions
        account.entries.append(before.functions[old.entry].qualified)
        compare_entry(both, old.entry, declared, account, pieces)
    account.unknown += _never_run(both, account)
    for uid in both.changed:
        body = before.functions[uid].body
        if uid not in reached and body is not None:
            path = before.functions[uid].path
            what = f"`{before.functions[uid].qualified}` changed, and no entry of the program is known to run it"
            account.unknown.append(
                ProofFinding(what, path, line_of(both.before, path, before.functions[uid].base), True)
            )


def _never_run(both: Correspondence, account: Account) -> Iterator[ProofFinding]:
    """Changed calls that no entry is seen to reach: what they do was not compared."""
    for uid, changed in both.changed.items():
        for p, q in changed.rows:
            if p is not None and q is not None:
                continue
            side, piece, analysis, original = (
                (changed.before, p, both.before, True) if p is not None else (changed.after, q, both.after, False)
            )
            if piece is None:
                continue
            node = shape_of(analysis.program, side, piece).node
            if not isinstance(node, Launch) and not (isinstance(node, Api) and node.kind is not ApiKind.NEUTRAL):
                continue
            path = side.function.path
            if Site(uid, path, node.span) not in account.run[not original]:
                line = line_of(analysis, path, piece.span[0])
                yield ProofFinding("this changed, and it is not known when it runs", path, line, original)


def compare_entry(
    both: Correspondence, entry: str, declared: Declared, account: Account, pieces: Pieces | None = None
) -> None:
    """One entry: executes it in both versions with the points where the host may look, and compares."""
    begins = both.before.program.functions[entry].name == "main"
    whole = begins and not Points(both.before.program).dies_with_the_program()
    first = next(t for t in both.before.timelines if t.entry == entry)
    functions = first.functions
    points = Points(both.before.program).of(functions, first.unresolved)
    timed = _measured(both.before, functions)
    images = {image: reason for site, reason in points.items() if (image := both.site(site)) is not None}
    strange = Points(both.before.program).strange(functions, both.before.sources)
    if strange is not None:
        what, path, offset = strange
        account.unknown.append(ProofFinding(what, path, line_of(both.before, path, offset), True))
    for what, path, offset in unfollowed(both.before.program, functions, both.before.sources):
        account.unknown.append(ProofFinding(what, path, line_of(both.before, path, offset), True))
    old = both.before.executed(entry, Options(observed=frozenset(points)))  # compared with many versions
    new = execute_entry(
        both.after.program, entry, options=Options(observed=frozenset(images)), sources=both.after.sources
    )
    for line, analysis in ((old, both.before), (new, both.after)):
        for cut in line.cuts[:1]:
            at = analysis.program.locate(cut.site)
            account.unknown.append(ProofFinding(cut.what, at.path, line_of(analysis, at.path, at.start), line is old))
    account.run[0].update(op.site for op in old.ops)
    account.run[1].update(op.site for op in new.ops)
    if pieces is not None and both.device:
        groups = grouped(both, old, new, pieces.parts, pieces.change, whole=whole)
        account.groups += told(both, old, new, groups.groups)
        account.failed += groups.failed
        account.unknown += groups.unknown
        account.told += groups.told
        if groups.failed or groups.unknown:
            return
        as_one = folded(old, new, groups)
        old, new = as_one.before, as_one.after
        made, inside = pair(both, old, new, given=as_one.given, apart=as_one.apart), as_one.apart
    else:
        made, inside = pair(both, old, new), (frozenset(), frozenset())
    _unmatched(both, made, inside, account)
    copies = resident(both, made)
    hiding = hidden_memory(both.before.program, old)
    handed = hands_on(both.before.program, old) or hands_on(both.after.program, new)
    order = keeps_order(both, made, copies, by_name=handed is None, hiding=hiding)
    if handed is not None and (copies.carries or made.freed or any(op.kind is ApiKind.ALLOC for op in made.new)):
        path, start = handed.path, both.before.program.locate(handed).start
        what = "memory is handed on from round to round here, and allocations or copies changed"
        account.unknown.append(ProofFinding(what, path, line_of(both.before, path, start), True))
    for op in made.gone:
        if (op.kind in HOST_WAITS or op.kind in (ApiKind.EVENT_RECORD, ApiKind.EVENT_WAIT)) and not settled(old, op):
            what = f"it is not known for which work this `{op.api}` was, and it is gone"
            account.unknown.append(where(both, op, what, original=True))
        if begins and op.kind in HOST_WAITS and may_create_context(old, op):
            what = "it may be the first call of the CUDA runtime, which creates the context, and it is gone"
            account.unknown.append(where(both, op, what, original=True))
    waits = relies(
        both, made, images, whole=whole, timed=timed, hiding=frozenset(made.pairs[a] for a in hiding if a in made.pairs)
    )
    if hiding and copies.carries:
        first_hiding = old.ops[min(hiding)]
        what = f"`{first_hiding.kernel}` may reach memory that is not listed, and copies are gone"
        account.unknown.append(where(both, first_hiding, what, original=True))
    account.failed += [*copies.failed, *order.failed, *waits.failed, *misuse(both, made)]
    account.unknown += [*copies.unknown, *order.unknown, *waits.unknown]
    account.unknown += sooner(both, made, images)
    if not copies.carries:
        account.unknown += both.swapped
    account.pairs += order.pairs
    account.rests_on |= order.rests_on
    for quantity, finding in conserved(both, made, declared):
        account.quantities.append(quantity)
        if finding is not None:
            account.failed.append(finding)


def _measured(analysis: Analysis, functions: Iterable[str]) -> bool:
    """Whether times of events are taken anywhere."""
    bodies = (analysis.program.functions[uid].body for uid in functions if uid in analysis.program.functions)
    return any(
        isinstance(n, Api) and n.kind is ApiKind.ELAPSED_TIME for body in bodies if body is not None for n in walk(body)
    )


def _unmatched(
    both: Correspondence, made: Pairing, inside: tuple[frozenset[int], frozenset[int]], account: Account
) -> None:
    """Operations that are not compared, or of one version only; those in `inside` stand between launches of a group."""
    line = made.before
    for op in line.ops:
        what = "launches that may start early" if starts_early(op) else _NOT_COMPARED.get(op.kind, "")
        if what:
            account.unknown.append(where(both, op, f"{what} are not compared", original=True))
            break
    threads = next((op for op in line.ops if op.thread != line.ops[0].thread), None)
    if threads is not None:
        account.unknown.append(where(both, threads, "several host threads issue work", original=True))
    for op in line.ops:
        if not op.certain:
            account.unknown.append(where(both, op, "this is reached through something not resolved", original=True))
            break
    for op in made.gone:
        if op.kind in MOVING or op.kind is ApiKind.COPY or op.kind in (ApiKind.EVENT_RECORD, ApiKind.EVENT_WAIT):
            continue
        if op.id in inside[0] and op.kind is ApiKind.NEUTRAL:
            continue  # asks how launches went, between them
        account.unknown.append(where(both, op, f"`{op.api or op.kind.value}` has no counterpart", original=True))
    for op in made.new:
        if op.id in inside[1] and op.kind is ApiKind.NEUTRAL:
            continue
        if op.kind not in MOVING and op.kind not in (ApiKind.EVENT_RECORD, ApiKind.EVENT_WAIT):
            account.unknown.append(where(both, op, f"`{op.api or op.kind.value}` has no counterpart in the original"))
    for _, b, what in made.unlike:
        account.unknown.append(where(both, b, f"`{b.api or b.kind.value}` {what}"))
