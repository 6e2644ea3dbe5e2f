"""The statements in which two versions may differ, and nothing else: see `unmodelled`.

Each removed, added or replaced statement must be one whose effect the Timelines show. A variable whose declaration
changed (a host vector became a device pointer, a pointer came or went) may be named in such statements only, or handed on
whole to a function of the program; otherwise the host computes with something else than before.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator

from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import (
    HOST_WAITS,
    Api,
    ApiKind,
    Call,
    Cast,
    Const,
    Declare,
    Deref,
    Expr,
    Function,
    Index,
    Launch,
    Name,
    Return,
    Stmt,
    TypeRef,
    Unary,
    walk,
)
from stitchcuda.analysis.program.link import resolve
from stitchcuda.analysis.program.show import show_type
from stitchcuda.analysis.proof.arguments import only_accessed
from stitchcuda.analysis.proof.correspond import Changed, Correspondence, Side, line_of
from stitchcuda.analysis.proof.macro_words import Macros
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.proof.pieces import Piece
from stitchcuda.analysis.proof.shapes import (
    Shape,
    followed,
    is_number,
    is_pointer,
    is_vector,
    null_declaration,
    pure,
    pure_parts,
    shape_of,
    vector_declaration,
)

_ORDER = frozenset({ApiKind.EVENT_CREATE, ApiKind.EVENT_RECORD, ApiKind.EVENT_WAIT, ApiKind.EVENT_DESTROY})
_GO = HOST_WAITS | _ORDER | {ApiKind.ALLOC, ApiKind.FREE, ApiKind.COPY}
_COME = HOST_WAITS | _ORDER | {ApiKind.ALLOC, ApiKind.FREE}
_QUIET = HOST_WAITS | _ORDER | {ApiKind.ALLOC, ApiKind.FREE, ApiKind.MEMSET}  # they give the host no values
# They keep memory, and order nothing.
_POOL_SETTINGS = frozenset({"cudaGetDevice", "cudaDeviceGetDefaultMemPool", "cudaMemPoolSetAttribute"})
_HANDLES = frozenset({"cudaMemPool_t", "cudaEvent_t"})
_KEYS = {ApiKind.ALLOC: ("out",), ApiKind.FREE: ("ptr",), ApiKind.COPY: ("dst", "src")}  # by what two calls are paired
_NEW_ROLES = frozenset({"stream"})


def unmodelled(both: Correspondence, spare: Collection[int] = (), added: Collection[str] = ()) -> list[ProofFinding]:
    """What differs and is not modelled. Maps the calls of replaced statements onto each other, too. `spare` are statements,
    by identity, and `added` functions that need no counterpart (`recomposed.py`)."""
    found: list[ProofFinding] = []
    retyped = {uid: _retyped(both, uid) for uid in both.changed}
    for uid, changed in both.changed.items():
        found += _signature(both, changed)
        names_before, names_after = set(retyped[uid][0]), set(retyped[uid][1])
        for slot in changed.slots:
            rows = tuple((p, q) for p, q in slot if id(p) not in spare and id(q) not in spare) if spare else slot
            found += _slot(both, changed, rows, names_before, names_after)
        found += _mentions(both, changed, names_before, names_after)
    for uid, side in both.added.items():
        if uid not in added:
            found += _added(both, side)
    return found


def _added(both: Correspondence, side: Side) -> Iterator[ProofFinding]:
    """A function that the original lacks: one that takes and gives nothing and only calls what may be added."""
    f = side.function
    word = re.compile(rb"\b" + f.name.encode() + rb"\b")
    plain = (
        f.space == "host"
        and not (f.record or f.template or f.params or f.has_error)
        and f.returns.name == "void"
        and not f.returns.pointer
        and f.body is not None
        and not any(word.search(text) for text in both.before.sources.values())
    )
    if not plain or [t.text for t in side.body.glue if t.start >= f.base + (f.body.span[0] if f.body else 0)] != [
        "{",
        "}",
    ]:
        yield ProofFinding(f"function `{f.qualified}` was added", f.path, line_of(both.after, f.path, f.base))
        return
    for piece in side.body.pieces:
        yield from _alone(both, side, piece, shape_of(both.after.program, side, piece), set(), original=False)


# ----------------------------------------------------------------------------------------------------------- signatures


def _retyped(both: Correspondence, uid: str) -> tuple[set[str], set[str]]:
    """Parameters whose type or name changed, by their names before and after."""
    f, g = both.before.program.functions[uid], both.after.program.functions[uid]
    old: set[str] = set()
    new: set[str] = set()
    for p, q in zip(f.params, g.params, strict=False):
        if _type(p.type) != _type(q.type) or p.name != q.name:
            old.add(p.name)
            new.add(q.name)
    return old, new


def _type(type_: TypeRef) -> str:
    """A type as comparable text: its spans do not count."""
    return show_type(type_)


def _signature(both: Correspondence, changed: Changed) -> list[ProofFinding]:
    f, g = changed.before.function, changed.after.function
    head = _head_words(changed.before), _head_words(changed.after)
    if head[0] == head[1]:
        return []
    line = line_of(both.after, g.path, g.base)
    bad = [ProofFinding(f"the signature of `{g.qualified}` changed", g.path, line)]
    if f.record or g.record or f.template or g.template or len(f.params) != len(g.params) or f.initializers:
        return bad
    if any(len(resolve(side.program, f.path, f.name, len(f.params))) > 1 for side in (both.before, both.after)):
        return [ProofFinding(f"`{g.qualified}` is overloaded and its signature changed", g.path, line)]
    if f.uid in both.before.program.entries and f.body is not None:
        return [ProofFinding(f"`{g.qualified}` has callers that are not here, and its signature changed", g.path, line)]
    spare: set[str] = {"std", "::", "vector", "<", ">", "const", "&", "*"}
    pairs = [(p.type, q.type) for p, q in zip(f.params, g.params, strict=True)] + [(f.returns, g.returns)]
    for old, new in pairs:
        if _type(old) == _type(new):
            continue
        carried = old.args[0].name if is_vector(old) else old.name if is_pointer(old) else None
        if carried is None or not is_pointer(new) or new.name != carried:
            return bad
        spare |= {carried}
    for p, q in zip(f.params, g.params, strict=True):
        renamed = p.name != q.name and _type(p.type) == _type(q.type)  # the callers' values then go elsewhere
        if renamed or p.default is not None or q.default is not None:
            return bad
        spare |= {p.name, q.name}
    difference = (Counter(head[0]) - Counter(head[1])) + (Counter(head[1]) - Counter(head[0]))
    return bad if set(difference) - spare else []


def _head_words(side: Side) -> list[str]:
    f = side.function
    opening = f.base + f.body.span[0] if f.body is not None else f.base + f.span[1]
    return [t.text for t in side.body.glue if t.start < opening]


# ----------------------------------------------------------------------------------------------------------- statements


def _slot(
    both: Correspondence,
    changed: Changed,
    slot: tuple[tuple[Piece | None, Piece | None], ...],
    names_before: set[str],
    names_after: set[str],
) -> Iterator[ProofFinding]:
    kept = list(
        itertools.accumulate(p is not None and q is not None for p, q in slot)
    )  # how many stand before, in both
    removed = [
        (k, p, shape_of(both.before.program, changed.before, p))
        for k, (p, q) in zip(kept, slot, strict=True)
        if p is not None and q is None
    ]
    left = [
        (k, q, shape_of(both.after.program, changed.after, q))
        for k, (p, q) in zip(kept, slot, strict=True)
        if q is not None and p is None
    ]
    least: dict[int, int] = {}  # what stands for later statements stands later
    for place, piece, shape in removed:
        partner = next(
            (
                x
                for x in left
                if _same_role(changed, shape, x[2])
                and (
                    _moves(shape)
                    or (x[0] == place and x[1].span[0] >= least.get(place, 0))
                    or (isinstance(shape.node, Launch) and _passes(both, changed, slot, shape.node, place, x[0]))
                )
            ),
            None,
        )
        if partner is None:
            yield from _alone(both, changed.before, piece, shape, names_before, original=True)
            continue
        left.remove(partner)
        if not _moves(shape):
            least[place] = partner[1].span[0]
        yield from _replaced(both, changed, (piece, shape), (partner[1], partner[2]), names_before, names_after)
    for _, piece, shape in left:
        yield from _alone(both, changed.after, piece, shape, names_after, original=False)


def _passes(
    both: Correspondence,
    changed: Changed,
    slot: tuple[tuple[Piece | None, Piece | None], ...],
    launch: Launch,
    one: int,
    other: int,
) -> bool:
    """A launch may trade places with device work and waits alone, which change none of the values that it is given."""
    if any(isinstance(n, (Index, Deref)) for a in launch.args for n in walk(a)):
        return False
    between = [q for p, q in slot if p is not None and q is not None][min(one, other) : max(one, other)]
    shapes = [shape_of(both.after.program, changed.after, q) for q in between if q is not None]
    return all(
        s.kind == "launch" or (isinstance(s.node, Api) and s.node.kind in _QUIET and s.kind == "api") for s in shapes
    )


def _moves(shape: Shape) -> bool:
    """It may stand for a statement on the other side of host code: allocations and frees, whose order the Timelines show in
    full. What a launch, a copy, a call or a return does also depends on values that the host changes in between."""
    return isinstance(shape.node, Api) and shape.node.kind in (ApiKind.ALLOC, ApiKind.FREE)


def _alone(
    both: Correspondence, side: Side, piece: Piece, shape: Shape, names: set[str], *, original: bool
) -> Iterator[ProofFinding]:
    """A statement that one version has and the other does not."""
    declared = [n for n in side.nodes.get(piece, []) if isinstance(n, Declare)]
    if len(declared) > 1 and all(null_declaration(n) and not n.static for n in declared):  # float *x, *y;
        names.update(n.name for n in declared)
        return
    node = shape.node
    if isinstance(node, Api):
        if node.kind in (_GO if original else _COME) or (not original and node.name in _POOL_SETTINGS):
            return
    elif isinstance(node, Declare):
        if null_declaration(node) or (original and vector_declaration(node)):
            names.add(node.name)
            return
        asked = not original or not is_number(node.type) or node.static or not _gone(both, side, node.name)
        if not asked and (node.init is None or pure(node.init)):
            return  # a value that nobody asks for any more
        fresh = not original and not _mentioned(both, side, node.name)
        if fresh and node.init is None and node.type.name in _HANDLES and not node.type.pointer:
            return
        if fresh and is_number(node.type) and node.init is not None and _constant(node.init):
            return
    elif isinstance(node, Call):
        uid = followed(both.after.program, side.function.path, node)
        if not original and uid in both.added and not node.args:
            return
    elif piece.words == (";",):
        return
    elif not original and _points_elsewhere(side, piece.words):
        names.add(piece.words[0])  # the host must not look at what it points to
        return
    analysis = both.before if original else both.after
    what = "host code was removed here" if original else "host code changed here"
    yield ProofFinding(what, side.function.path, line_of(analysis, side.function.path, piece.span[0]), original)


def _points_elsewhere(side: Side, words: tuple[str, ...]) -> bool:
    """`p = q;` between pointers that are declared once: the Timelines tell what `p` points to then."""
    if len(words) != 4 or (words[1], words[3]) != ("=", ";"):
        return False
    one, other = (_declared(side.function, name) for name in (words[0], words[2]))
    return one is not None and other is not None and is_pointer(one) and _type(one) == _type(other)


def _gone(both: Correspondence, side: Side, name: str) -> bool:
    """Nothing of the changed function names something so."""
    changed = both.changed.get(side.function.uid)
    return changed is not None and not _named(both.after, changed.after, name)


def _mentioned(both: Correspondence, side: Side, name: str) -> bool:
    """The original of a function names something so: another declaration would hide it."""
    changed = both.changed.get(side.function.uid)
    return changed is not None and _named(both.before, changed.before, name)


def _named(analysis: Analysis, side: Side, name: str) -> bool:
    """Whether a function has a name in its text, in that of the macros it uses, or perhaps in what these put together."""
    words = {t.text for t in (*side.body.glue, *(t for p in side.body.pieces for t in p.tokens))}
    return name in words or name in Macros(analysis.sources).reached(words)


def _constant(node: Expr) -> bool:
    if isinstance(node, (Cast, Unary)):
        return _constant(node.operand)
    return isinstance(node, Const) or (isinstance(node, Name) and node.name.isupper())


def _same_role(changed: Changed, one: Shape, other: Shape) -> bool:
    a, b = one.node, other.node
    if one.kind != other.kind or one.check != other.check:
        return False
    if isinstance(a, Api) and isinstance(b, Api):
        return (
            a.kind is b.kind
            and a.kind in _KEYS
            and all(_same(changed, a.role(r), b.role(r), pointers=True) for r in _KEYS[a.kind])
        )
    if isinstance(a, Launch) and isinstance(b, Launch):
        return _text(changed.before, a.kernel) == _text(changed.after, b.kernel)
    if isinstance(a, Call) and isinstance(b, Call):
        return _text(changed.before, a.callee) == _text(changed.after, b.callee)
    if isinstance(a, Declare) and isinstance(b, Declare) and isinstance(a.init, Call) and isinstance(b.init, Call):
        return _text(changed.before, a.init.callee) == _text(changed.after, b.init.callee)
    return isinstance(a, Return) and isinstance(b, Return)


def _replaced(
    both: Correspondence,
    changed: Changed,
    old: tuple[Piece, Shape],
    new: tuple[Piece, Shape],
    names_before: set[str],
    names_after: set[str],
) -> Iterator[ProofFinding]:
    """A statement that stands for another one."""
    a, b = old[1].node, new[1].node
    function = changed.before.function
    fine = False
    if isinstance(a, Api) and isinstance(b, Api):
        roles = [r for r in dict.fromkeys([r for r, _ in (*a.roles, *b.roles)]) if r not in _NEW_ROLES]
        fine = all(_same(changed, a.role(r), b.role(r), pointers=r in ("out", "ptr", "dst", "src")) for r in roles)
        if fine:
            both.map(function.uid, a, b)
    elif isinstance(a, Launch) and isinstance(b, Launch):
        parts = [(a.grid, b.grid), (a.block, b.block), (a.shared, b.shared), (a.stream, b.stream)]
        fine = all(_same(changed, x, y, pointers=False) for x, y in parts) and _same_arguments(changed, a.args, b.args)
        fine = fine and a.packed_args is None and b.packed_args is None
        others = [
            k for k, x in enumerate(a.args) if fine and _text(changed.before, x) != _text(changed.after, b.args[k])
        ]
        kernel = a.kernel.name if isinstance(a.kernel, Name) else ""
        fine = fine and all(only_accessed(both.before.program, kernel, k) for k in others)
        if fine:
            both.map(function.uid, a, b)
            if others:
                line = line_of(both.after, function.path, new[0].span[0])
                both.swapped.append(ProofFinding("a kernel is given other memory here", function.path, line))
    elif isinstance(a, Call) and isinstance(b, Call):
        fine = _same_arguments(changed, a.args, b.args, carriers=True)
        if fine:
            both.map(function.uid, a, b)
    elif isinstance(a, Declare) and isinstance(b, Declare) and isinstance(a.init, Call) and isinstance(b.init, Call):
        kept = a.name == b.name and _type(a.type) == _type(b.type)
        fine = (
            (kept or ((is_vector(a.type) or is_pointer(a.type)) and is_pointer(b.type)))
            and followed(both.before.program, function.path, a.init) is not None
            and pure_parts((*a.init.args, *b.init.args))
            and _same_arguments(changed, a.init.args, b.init.args, carriers=True)
        )
        if fine and not kept:
            names_before.add(a.name)
            names_after.add(b.name)
        if fine:
            both.map(function.uid, a, b)
            both.map(function.uid, a.init, b.init)
    elif isinstance(a, Return) and isinstance(b, Return):
        fine = (
            isinstance(a.value, Name)
            and isinstance(b.value, Name)
            and _same(changed, a.value, b.value, pointers=True, carriers=True)
        )
    if not fine:
        line = line_of(both.after, function.path, new[0].span[0])
        yield ProofFinding("host code changed here", function.path, line)


def _same_arguments(changed: Changed, old: tuple[Expr, ...], new: tuple[Expr, ...], *, carriers: bool = False) -> bool:
    return len(old) == len(new) and all(
        _same(changed, a, b, pointers=True, carriers=carriers) for a, b in zip(old, new, strict=True)
    )


def _same(changed: Changed, old: Expr | None, new: Expr | None, *, pointers: bool, carriers: bool = False) -> bool:
    """The same text; or, where the Timelines tell which memory is meant, two variables that point to device data (or are
    the vector that carried it). `carriers`: only a vector that became a pointer, as host code may do anything with a
    pointer that it had before, too."""
    if old is None or new is None:
        return old is new
    if _text(changed.before, old) == _text(changed.after, new):
        return True
    if not pointers or type(old) is not type(new):
        return False
    if not isinstance(old, Name) or not isinstance(new, Name):
        return False
    before, after = _declared(changed.before.function, old.name), _declared(changed.after.function, new.name)
    if before is None or after is None or not is_pointer(after):
        return False
    return is_vector(before) or (is_pointer(before) and not carriers)


def _declared(function: Function, name: str) -> TypeRef | None:
    """The type of a local variable or parameter that is declared once."""
    types = [p.type for p in function.params if p.name == name]
    if function.body is not None:
        types += [n.type for n in walk(function.body) if isinstance(n, Declare) and n.name == name]
    return types[0] if len(types) == 1 else None


def _text(side: Side, node: Expr | Stmt) -> tuple[str, ...]:
    start, end = side.function.base + node.span[0], side.function.base + node.span[1]
    return tuple(t.text for p in side.body.pieces for t in p.tokens if start <= t.start and t.end <= end)


# ------------------------------------------------------------------------------------------------------------- mentions


def _mentions(both: Correspondence, changed: Changed, old: set[str], new: set[str]) -> Iterator[ProofFinding]:
    names = old | new
    if not names:
        return
    after = changed.after
    opening = after.function.base + (after.function.body.span[0] if after.function.body is not None else 1 << 40)
    for token in after.body.glue:
        if token.start >= opening and token.text in names:
            yield _mention(both, changed, token.text, token.start)
    macros = Macros(both.after.sources)
    outside = macros.reached([t.text for t in after.body.glue if t.start >= opening])
    for name in sorted(name for name in names if name in outside):
        yield _mention(both, changed, name, opening)
    for p, q in changed.rows:
        if p is None or q is None:
            continue
        by_macros = macros.reached(q.words)
        for name in sorted(name for name in names if name in by_macros):
            yield _mention(both, changed, name, q.span[0])
        if not names & set(q.words):
            continue
        shape = shape_of(both.after.program, after, q)
        modelled = shape.kind in ("api", "launch", "call") or (
            isinstance(shape.node, Declare)
            and followed(both.after.program, after.function.path, shape.node.init) is not None
        )
        declared = [n for n in after.nodes.get(q, ()) if isinstance(n, Declare)]
        if declared and all(null_declaration(n) for n in declared):  # float *x, *y;
            continue
        for k, token in enumerate(q.tokens):
            if token.text not in names:
                continue
            whole = q.words[k - 1] in ("(", ",", "&") and q.words[k + 1] in (")", ",")
            if not (modelled and whole) and not (shape.kind == "return" and len(q.words) == 3):
                yield _mention(both, changed, token.text, token.start)
    for name in (new - old) & {w for p in changed.before.body.pieces for w in p.words}:
        if _declared(changed.before.function, name) is None:
            yield _mention(both, changed, name, after.function.base)  # it hides something of that name


def _mention(both: Correspondence, changed: Changed, name: str, offset: int) -> ProofFinding:
    path = changed.after.function.path
    return ProofFinding(
        f"the host uses `{name}` here, whose declaration changed", path, line_of(both.after, path, offset)
    )
