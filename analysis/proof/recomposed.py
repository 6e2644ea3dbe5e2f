"""Host statements that may be other statements when launches are composed otherwise, and nothing else.

In one run of statements that issue device work, wait for it or look at its status, launches may stand for other launches;
what they do to memory is compared in `groups.py`. Numbers that the host computes for launches alone, and constants that
are used for these alone, may have other values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from stitchcuda.analysis.findings.waits import callee_name, last_name
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import (
    HOST_WAITS,
    Api,
    Assign,
    Block,
    Call,
    Construct,
    Declare,
    Delete,
    Evaluate,
    Expr,
    Function,
    If,
    Lambda,
    Launch,
    Member,
    Name,
    New,
    Opaque,
    Return,
    Span,
    Stmt,
    Throw,
    TypeRef,
    walk,
)
from stitchcuda.analysis.program.link import resolve
from stitchcuda.analysis.proof.additions import constant_name, items
from stitchcuda.analysis.proof.correspond import Changed, Correspondence, Side, Trees, line_of, side_of
from stitchcuda.analysis.proof.device_code import WORD, is_device, spread
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.proof.pieces import Piece
from stitchcuda.analysis.proof.shapes import PURE_METHODS, checks_only, followed, is_number, shape_of

_ASKS = frozenset({"cudaGetLastError", "cudaPeekAtLastError"})
_ISSUES = frozenset({"launch", "call", "quiet", "numbers", "setup"})  # statements that may come and go with launches
_KEEPS = frozenset({"quiet", "check", "numbers", "setup"})  # those of both versions that may stand between
_SETS_UP = frozenset({"cudaFuncSetAttribute", "cudaFuncSetCacheConfig"})  # of the kernel that they name
_NAMES_ERRORS = frozenset({"cudaGetErrorString", "cudaGetErrorName"})
_TELLS = frozenset({"printf", "fprintf", "puts", "fputs", "exit", "abort"})
_SMALLER = frozenset({"min", "max", "std::min", "std::max"})
_PLAIN = frozenset({"dim3", "float2", "float3", "float4", "int2", "int3", "int4", "uint2", "uint3", "uint4"})
_ATTRIBUTES = frozenset(
    {"__attribute__", "[[", "[", "__declspec", "alignas", "extern", "asm", "="}
)  # may run it by itself
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+((?:[^\n\\]|\\[^\n]|\\\r?\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Region:
    """One run of statements in which launches stand for others. `old` and `new` issue the work that is of one version alone;
    `around` are all statements of the run."""

    number: int
    old: tuple[Piece, ...]
    new: tuple[Piece, ...]
    around: tuple[frozenset[Piece], frozenset[Piece]]


@dataclass
class Recomposed:
    """`regions` by function; `spare`: statements, by identity, that need no counterpart; `numbered`: launches that both
    versions have and that are given numbers that changed, as spans of the original."""

    regions: dict[str, list[Region]] = field(default_factory=dict)
    spare: set[int] = field(default_factory=set)
    numbered: dict[str, set[Span]] = field(default_factory=dict)
    added: set[str] = field(default_factory=set)  # functions that only issue work, and their declarations
    unknown: list[ProofFinding] = field(default_factory=list)
    values: frozenset[str] = frozenset()  # constants, macros and functions whose value changed


def recomposed(both: Correspondence) -> Recomposed:
    """What in the host's text follows from launches that are composed otherwise."""
    found = Recomposed()
    reading = (Reading(both.before), Reading(both.after))
    found.values = _spread(both, reading[0], found)
    for uid, changed in both.changed.items():
        for slot in changed.slots:
            _runs(both, reading, uid, slot, changed, found)
        _spare_alone(reading, changed, found)
        _numbers(both, reading, changed, _declared_alone(reading, changed, found), found)
    if found.values:
        trees = Trees(both.before)
        for uid, function in sorted(both.before.program.functions.items()):
            if uid in both.changed or is_device(function) or uid in reading[0].values:
                continue
            text = both.before.sources.get(function.path, b"")[function.base : function.base + function.span[1]]
            used = found.values & {w.decode() for w in WORD.findall(text)}
            if used and function.body is None:  # a default value
                line = line_of(both.before, function.path, function.base)
                what = f"the value of `{min(used)}` changed, and more than launches depends on it here"
                found.unknown.append(ProofFinding(what, function.path, line, True))
            elif used:
                side = side_of(both.before, trees, function)
                same = Changed(side, side, tuple(tuple((p, p) for p in slot) for slot in side.body.slots))
                _numbers(both, (reading[0], reading[0]), same, set(), found, original=True)
    for uid, side in both.added.items():
        f = side.function
        plain = f.space in ("host", "host_device") and not f.record and f.name not in both.words
        plain = plain and not _ATTRIBUTES & {t.text for t in side.body.glue}
        if plain and (f.body is None or reading[1].issues_only(f) or reading[1].is_value(f)):
            found.added.add(uid)
    return found


# ---------------------------------------------------------------------------------------------------------- statements


class Reading:
    """What the statements of one version do. Memoised."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis, self._program = analysis, analysis.program
        self._trees = Trees(analysis)
        self._issues: dict[str, bool] = {}
        self._values: dict[str, bool] = {}
        self._pieces: dict[int, tuple[Piece, str]] = {}

    @property
    def values(self) -> set[str]:
        """Functions found to compute a value and nothing else."""
        return {uid for uid, is_value in self._values.items() if is_value}

    def kind(self, side: Side, piece: Piece) -> str:
        """launch, call (of a function that only issues work), quiet (waits for work or asks how it went), check (does that and
        may tell of it), numbers (for launches), setup (of a kernel), or "" for anything else."""
        known = self._pieces.get(id(piece))
        if known is None or known[0] is not piece:
            known = self._pieces[id(piece)] = (piece, self._kind(side, piece))
        return known[1]

    def _kind(self, side: Side, piece: Piece) -> str:
        nodes, path = side.nodes.get(piece, []), side.function.path
        if not nodes:
            return "quiet" if piece.words == (";",) else ""
        first = nodes[0]
        if isinstance(first, Evaluate) and isinstance(first.expr, Launch):
            parts = (first.expr.grid, first.expr.block, first.expr.shared, first.expr.stream, *first.expr.args)
            plain = first.expr.api == "<<<>>>" and isinstance(first.expr.kernel, Name)
            fine = plain and all(part is None or self.computed(path, part) for part in parts)
            return "launch" if fine and sum(isinstance(n, Launch) for n in nodes) == 1 else ""
        if isinstance(first, Evaluate) and isinstance(first.expr, Call):
            uid = followed(self._program, path, first.expr)
            if uid is not None and all(self.computed(path, a) for a in first.expr.args):
                return "call" if self.issues_only(self._program.functions[uid]) else ""
        if isinstance(first, Declare) and self._only_numbers(path, nodes):
            return "numbers"
        return self._quiet(side, piece, nodes)

    def _only_numbers(self, path: str, nodes: list[Expr | Stmt]) -> bool:
        statements = [n for n in nodes if isinstance(n, (Declare, Evaluate, If, Return, Block))]
        return all(
            isinstance(n, Declare)
            and not n.static
            and not n.space
            and (_numeric(n.type) or (n.type.name == "auto" and not n.type.pointer and _counts(n.init)))
            and (n.init is None or self.computed(path, n.init))
            for n in statements
        )

    def _quiet(self, side: Side, piece: Piece, nodes: list[Expr | Stmt]) -> str:
        """`quiet`: waits or asks, and acts on an error alone. `check`: does so, and may tell or end the program at any rate."""
        shape = shape_of(self._program, side, piece)
        if shape.kind == "api" and isinstance(shape.node, Api):
            if shape.node.name in _SETS_UP:
                return "setup"
            return "quiet" if shape.node.kind in HOST_WAITS or shape.node.name in _ASKS else ""
        asked = [n for n in nodes if isinstance(n, Api) and n.name not in _NAMES_ERRORS]
        if not asked or any(n.kind not in HOST_WAITS and n.name not in _ASKS for n in asked):
            return ""
        if any(isinstance(n, (Launch, Assign, Lambda, New, Delete, Opaque, Return, Throw)) for n in nodes):
            return ""
        if not all(last_name(callee_name(n)) in _TELLS for n in nodes if isinstance(n, Call)):
            return ""
        macro = piece.words[1:] == ("(", ")", ";") and len(asked) == 1
        return "quiet" if macro and checks_only(self._program, nodes, piece.words[0], asked[0]) else "check"

    def issues_only(self, function: Function) -> bool:
        """It issues device work, waits for it and asks how it went, always the same way, and does nothing else."""
        known = self._issues.get(function.uid)
        if known is None:
            self._issues[function.uid] = False  # as long as it is looked at: recursion
            known = self._issues[function.uid] = self._issues_only(function)
        return known

    def _issues_only(self, function: Function) -> bool:
        body = function.body
        if body is None or function.space != "host" or function.record or function.template or function.has_error:
            return False
        if function.returns.name != "void" or function.returns.pointer:
            return False
        side = side_of(self._analysis, self._trees, function)
        opening = function.base + body.span[0]
        if [t.text for t in side.body.glue if t.start >= opening] != ["{", "}"]:
            return False
        return all(self.kind(side, p) in _ISSUES for p in side.body.pieces)

    def computed(self, path: str, node: Expr) -> bool:
        """Evaluating it changes nothing, and calls only functions that compute values."""
        return all(self._harmless(path, n) for n in walk(node))

    def _harmless(self, path: str, node: Expr | Stmt) -> bool:
        if isinstance(node, (Assign, Lambda, New, Delete, Launch, Api, Opaque)):
            return False
        if isinstance(node, Construct):
            record = self._program.records.get(node.type.name)
            return _numeric(node.type) or (record is not None and not record.methods and not record.bases)
        if not isinstance(node, Call):
            return True
        if isinstance(node.callee, Member):
            return node.callee.name in PURE_METHODS and not node.args
        if callee_name(node) in _SMALLER:
            return True
        if not isinstance(node.callee, Name) or node.callee.template:
            return False
        meant = resolve(self._program, path, node.callee.name, len(node.args))
        return len(meant) == 1 and self.is_value(meant[0])

    def is_value(self, function: Function) -> bool:
        """It computes a number from numbers and constants, and nothing else."""
        known = self._values.get(function.uid)
        if known is None:
            self._values[function.uid] = False
            known = self._values[function.uid] = self._is_value(function)
        return known

    def _is_value(self, f: Function) -> bool:
        if f.body is None or f.record or f.template or f.has_error or is_device(f) or not _numeric(f.returns):
            return False
        if not all(_numeric(p.type) for p in f.params):
            return False
        for node in walk(f.body):
            if isinstance(node, Declare):
                if node.static or not _numeric(node.type):
                    return False
            elif isinstance(node, (Block, Return, If)):
                continue
            elif isinstance(node, Name) and self._is_variable(node.name):
                return False  # it may be another number at another time
            elif not isinstance(node, Expr) or not self._harmless(f.path, node):
                return False
        return True

    def _is_variable(self, name: str) -> bool:
        """A global that is no constant."""
        return any(
            d.name == name and not d.type.const and not name.isupper()
            for m in self._program.modules.values()
            for d in m.globals
        )


def _numeric(type_: TypeRef) -> bool:
    bare = TypeRef(type_.name, type_.args)
    return not (type_.pointer or type_.reference or type_.dims) and (is_number(bare) or type_.name in _PLAIN)


def _counts(init: Expr | None) -> bool:
    """What `auto` stands for is a number or sizes, by what it is made of."""
    if isinstance(init, Construct):
        return init.type.name == "dim3"
    return (
        init is not None
        and not isinstance(init, (Name, Member))
        and not any(isinstance(n, (Lambda, New)) for n in walk(init))
    )


# ----------------------------------------------------------------------------------------------------------------- runs


def _runs(
    both: Correspondence,
    reading: tuple[Reading, Reading],
    uid: str,
    slot: tuple[tuple[Piece | None, Piece | None], ...],
    changed: Changed,
    found: Recomposed,
) -> None:
    """The regions of one slot."""
    run: list[tuple[Piece | None, Piece | None]] = []
    for row in (*slot, (None, None)):
        kinds = {_kind(reading, changed, row)}
        both_have = row[0] is not None and row[1] is not None
        if row != (None, None) and kinds <= (_KEEPS if both_have else _ISSUES):
            run.append(row)
            continue
        _region(both, reading, uid, run, changed, found)
        run = []


def _kind(reading: tuple[Reading, Reading], changed: Changed, row: tuple[Piece | None, Piece | None]) -> str:
    p, q = row
    if q is not None:
        return reading[1].kind(changed.after, q)
    return reading[0].kind(changed.before, p) if p is not None else ""


def _region(
    both: Correspondence,
    reading: tuple[Reading, Reading],
    uid: str,
    run: list[tuple[Piece | None, Piece | None]],
    changed: Changed,
    found: Recomposed,
) -> None:
    alone = [row for row in run if row[0] is None or row[1] is None]
    kinds = {id(row): _kind(reading, changed, row) for row in alone}
    work = [row for row in alone if kinds[id(row)] in ("launch", "call")]
    old = tuple(p for p, _ in work if p is not None)
    new = tuple(q for _, q in work if q is not None)
    if old and new:
        around = tuple(frozenset(row[k] for row in run if row[k] is not None) for k in (0, 1))
        regions = found.regions.setdefault(uid, [])
        regions.append(Region(len(regions), old, new, (around[0], around[1])))  # type: ignore[arg-type]
        if _asks(both, changed.before, run, 0) and not _asks(both, changed.after, run, 1):
            line = line_of(both.after, changed.after.function.path, new[0].span[0])
            what = "whether launches were accepted is no longer asked here"
            found.unknown.append(ProofFinding(what, changed.after.function.path, line))
    for row in alone:
        if old and new:
            found.spare.update(id(piece) for piece in row if piece is not None)


def _asks(both: Correspondence, side: Side, run: list[tuple[Piece | None, Piece | None]], which: int) -> bool:
    """A run asks for the last error, which alone tells of a launch that was not accepted, or a function that it calls does."""
    program = (both.before, both.after)[which].program
    waiting: list[Expr | Stmt] = [n for row in run if (piece := row[which]) for n in side.nodes.get(piece, [])]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Api) and node.name in _ASKS:
            return True
        if isinstance(node, Call) and (uid := followed(program, side.function.path, node)) and uid not in seen:
            seen.add(uid)
            body = program.functions[uid].body
            waiting += list(walk(body)) if body is not None else []
    return False


# -------------------------------------------------------------------------------------------------------------- numbers


def _declared_alone(reading: tuple[Reading, Reading], changed: Changed, found: Recomposed) -> set[str]:
    """Names that statements of one version alone declare as numbers for launches."""
    names: set[str] = set()
    for which, side in ((0, changed.before), (1, changed.after)):
        for row in changed.rows:
            piece = row[which]
            if piece is not None and id(piece) in found.spare and reading[which].kind(side, piece) == "numbers":
                names |= _declares(side, piece)
    return names


def _spare_alone(reading: tuple[Reading, Reading], changed: Changed, found: Recomposed) -> None:
    """Numbers that one version alone declares, for launches or for what goes with them, need no counterpart either."""
    for which, side in ((0, changed.before), (1, changed.after)):
        pieces = [row[which] for row in changed.rows if row[1 - which] is None]
        for piece in pieces:
            kind = reading[which].kind(side, piece) if piece is not None else ""
            if piece is None or id(piece) in found.spare or kind not in ("numbers", "setup"):
                continue
            if kind == "setup":
                found.spare.add(id(piece))
                continue
            names = _declares(side, piece)
            leave = {id(p) for p in pieces} if which == 0 else set()  # what the changed version lacks as well
            users = [p for p in side.body.pieces if p is not piece and names & set(p.words) and id(p) not in leave]
            kinds = {reading[which].kind(side, p) for p in users}
            if kinds <= {"launch", "call", "numbers", "setup"} and names.isdisjoint(side.words_outside()):
                found.spare.add(id(piece))


def _declares(side: Side, piece: Piece) -> set[str]:
    return {n.name for n in side.nodes.get(piece, []) if isinstance(n, Declare)} if side.nodes.get(piece) else set()


def _numbers(
    both: Correspondence,
    reading: tuple[Reading, Reading],
    changed: Changed,
    declared: set[str],
    found: Recomposed,
    *,
    original: bool = False,
) -> None:
    """All uses of numbers that changed are for launches. `original`: the function is the same in both, and told as it was."""
    names = declared | found.values
    if not names:
        return
    function = changed.after.function
    before = {w for p in changed.before.body.pieces for w in p.words} | set(changed.before.body.words)
    made_before = {n for p, q in changed.rows if p is not None and q is None for n in _declares(changed.before, p)}
    for name in sorted(declared):
        hides = name not in made_before and (name in before or _known_elsewhere(both, name))
        if hides or _declarations(changed.before, name) > 1 or _declarations(changed.after, name) > 1:
            line = line_of(both.after, function.path, function.base)
            found.unknown.append(ProofFinding(f"`{name}` is also something else in this function", function.path, line))
    while True:
        more = {
            n
            for p, q in changed.rows
            if p is not None
            and q is not None
            and names & set(q.words)
            and reading[1].kind(changed.after, q) == "numbers"
            for n in _declares(changed.after, q)
        }
        if more <= names:
            break
        names |= more
    for token in changed.after.body.glue:
        if token.text in names:
            found.unknown.append(_used(both, changed, token.text, token.start, original=original))
    for p, q in changed.rows:
        used = names & set(q.words) if q is not None else set()
        if q is None or not used or id(q) in found.spare:
            continue
        kind = reading[1].kind(changed.after, q)
        if kind == "launch" and p is not None:
            launch = next(n for n in changed.before.nodes[p] if isinstance(n, Launch))
            found.numbered.setdefault(function.uid, set()).add(launch.span)
        elif kind in ("numbers", "setup") or (kind == "call" and p is None):
            continue
        else:
            token = next(t for t in q.tokens if t.text in used)
            found.unknown.append(_used(both, changed, token.text, token.start, original=original))


def _declarations(side: Side, name: str) -> int:
    own = sum(p.name == name for p in side.function.params)
    nodes = (n for nodes in (*side.nodes.values(), side.glue_nodes) for n in nodes)
    return own + sum(isinstance(n, Declare) and n.name == name for n in nodes)


def _known_elsewhere(both: Correspondence, name: str) -> bool:
    """A macro uses the name, or the program has it for something that every function sees."""
    if any(d.name == name for m in both.before.program.modules.values() for d in m.globals):
        return True
    word = name.encode()
    return any(word in WORD.findall(m[1]) for text in both.before.sources.values() for m in _DEFINE.finditer(text))


def _used(both: Correspondence, changed: Changed, name: str, offset: int, *, original: bool) -> ProofFinding:
    path = changed.after.function.path
    what = f"the value of `{name}` changed, and more than launches depends on it here"
    return ProofFinding(what, path, line_of(both.before if original else both.after, path, offset), original)


# --------------------------------------------------------------------------------------------------------------- values


def _spread(both: Correspondence, reading: Reading, found: Recomposed) -> frozenset[str]:
    """Constants of another value, and what is defined by them."""
    if not both.values:
        return frozenset()
    program = both.before.program
    bodies: dict[str, frozenset[str]] = {}
    others: list[tuple[str, int, frozenset[str]]] = []
    trees = Trees(both.before)
    for path in sorted(both.before.sources):
        if path.endswith((".py", ".pyi")):
            continue
        functions = [f for f in program.functions.values() if f.path == path]
        marked = sorted((f.base, f.base + f.span[1], "") for f in functions)
        for item in items(*trees.of(path), marked):
            words = _words_in(item.words)
            name = item.words[1] if item.kind.startswith("preproc_") and len(item.words) > 1 else constant_name(item)
            if item.kind in ("preproc_def", "preproc_function_def") or (name and not item.kind.startswith("preproc")):
                bodies[name] = bodies.get(name, frozenset()) | (words - {name})
            elif not item.include:
                others.append((path, item.start, words))
        for f in functions:
            if not is_device(f) and reading.is_value(f):
                text = both.before.sources[path][f.base : f.base + f.span[1]]
                bodies[f.name] = bodies.get(f.name, frozenset()) | {w.decode() for w in WORD.findall(text)} - {f.name}
    values = spread(both.values, bodies)
    for path, offset, words in others:
        used = values & words
        if used:
            what = f"the value of `{min(used)}` changed, and more than launches depends on it here"
            found.unknown.append(ProofFinding(what, path, line_of(both.before, path, offset), True))
    return values


def _words_in(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(w.decode() for text in texts for w in WORD.findall(text.encode()))
