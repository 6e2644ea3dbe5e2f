"""Which part of one version is which part of the other, from their texts.

The versions may differ only in statements that the proof models: calls of the CUDA API, declarations of device pointers
and of the host vectors that carried data, and calls, returns and signatures that hand such a pointer on (`edits.py`).
Everything else must be the same text. So both versions take the same branches as long as the host sees the same values,
and every call site, loop and operation of one has its place in the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.order.timeline import closing_brace
from stitchcuda.analysis.program.ir import Api, Block, Expr, Function, Launch, Loop, Site, Span, Stmt, walk
from stitchcuda.analysis.proof.additions import Item, Strange, compare_items, items
from stitchcuda.analysis.proof.device_code import WORD, is_device
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.proof.pieces import Body, Piece, Token, align, split, tokens_of
from stitchcuda.analysis.syntax.parse import parse_cuda
from tree_sitter import Node

Includes: TypeAlias = list[tuple[int, Token]]  # each with how much stands before it


class Unlike(Exception):
    """The versions differ in something that is not modelled."""

    def __init__(self, finding: ProofFinding) -> None:
        super().__init__(finding.what)
        self.finding = finding


@dataclass(frozen=True)
class Side:
    """One version of a changed function. `nodes` are the IR nodes of each statement, outermost first."""

    function: Function
    body: Body
    nodes: dict[Piece, list[Expr | Stmt]]
    glue_nodes: list[Expr | Stmt]

    def words_outside(self) -> list[str]:
        return [t.text for t in self.body.glue]


@dataclass(frozen=True)
class Changed:
    """A host function whose text differs: its statements aligned, slot by slot, in order."""

    before: Side
    after: Side
    slots: tuple[tuple[tuple[Piece | None, Piece | None], ...], ...]

    @property
    def rows(self) -> Iterator[tuple[Piece | None, Piece | None]]:
        for slot in self.slots:
            yield from slot


@dataclass
class Correspondence:
    """`spans` maps the span of a node of the original, by function, to that of the changed version. `changed` holds the
    host functions whose text differs."""

    before: Analysis
    after: Analysis
    changed: dict[str, Changed] = field(default_factory=dict)
    added: dict[str, Side] = field(default_factory=dict)  # host functions of the changed version alone
    spans: dict[str, dict[Span, Span]] = field(default_factory=dict)
    includes: tuple[tuple[str, str, int], ...] = ()  # added: path, name as written, line
    swapped: list[ProofFinding] = field(default_factory=list)  # launches that name another variable
    device: bool = False  # device code may change, and launches may be composed of others
    values: set[str] = field(default_factory=set)  # constants and macros of another value
    words: frozenset[str] = frozenset()  # all words of the original's text, when device code may change

    def site(self, site: Site) -> Site | None:
        """Where a site of the original is in the changed version; None: nowhere."""
        if not site.function:
            return self._part(site)
        span = self.spans.get(site.function, {}).get(site.span)
        if span is None and self._initialises(site):
            return site
        return None if span is None else Site(site.function, site.path, span)

    def _initialises(self, site: Site) -> bool:
        """A member initialiser: it stands before the body, in a signature that is the same."""
        old, new = self.before.program.functions.get(site.function), self.after.program.functions.get(site.function)
        if old is None or new is None or old.body is None or new.body is None:
            return False
        same = old.body.span[0] == new.body.span[0] and old.initializers == new.initializers
        return same and site.span[1] <= old.body.span[0]

    def _part(self, site: Site) -> Site | None:
        """A class, or a member of it, by name."""
        for name, record in self.before.program.records.items():
            other = self.after.program.records.get(name)
            if record.path != site.path or other is None or other.path != site.path:
                continue
            if record.span == site.span:
                return Site("", site.path, other.span)
            member = next((f.name for f in record.fields if f.span == site.span), None)
            if member is not None:
                return next((Site("", site.path, f.span) for f in other.fields if f.name == member), None)
        return None

    def map(self, uid: str, old: Expr | Stmt, new: Expr | Stmt) -> None:
        spans = self.spans.setdefault(uid, {})
        spans.setdefault(old.span, new.span)
        if isinstance(old, Block) and isinstance(new, Block):
            spans.setdefault(closing_brace(old.span), closing_brace(new.span))
        if isinstance(old, Loop) and isinstance(new, Loop):
            spans.setdefault(loop_head(old), loop_head(new))


def loop_head(loop: Loop) -> Span:
    """What a Timeline calls the site of a loop."""
    return loop.span[0], loop.body.span[0]


class Trees:
    """Parsed files of one version."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._roots: dict[str, Node] = {}
        self._texts: dict[str, bytes] = {}

    def of(self, path: str) -> tuple[Node, bytes]:
        if path not in self._roots:
            syntax = parse_cuda(self._analysis.sources.get(path, b""))  # a file of the other version: no text
            self._roots[path], self._texts[path] = syntax.root, syntax.text
        return self._roots[path], self._texts[path]


def line_of(analysis: Analysis, path: str, offset: int) -> int:
    return analysis.sources[path].count(b"\n", 0, offset) + 1


def correspond(before: Analysis, after: Analysis, *, device: bool = False) -> Correspondence:
    """`device`: device code may change, and constants may have other values. Raises `Unlike`."""
    both = Correspondence(before, after, device=device)
    if device:
        both.words = frozenset(w.decode() for text in before.sources.values() for w in WORD.findall(text))
    odd = before.sources.keys() - after.sources.keys() if device else before.sources.keys() ^ after.sources.keys()
    if odd:
        raise Unlike(ProofFinding("a file was added or removed", min(odd), 1, min(odd) in before.sources))
    old_trees, new_trees = Trees(before), Trees(after)
    includes: list[tuple[str, str, int]] = []
    for path in after.sources:
        if before.sources.get(path) != after.sources[path]:
            includes += _compare_file(both, old_trees, new_trees, path)
    for uid, function in before.program.functions.items():
        if device and is_device(function):
            continue
        if function.path in before.sources and uid not in both.spans and function.body is not None:
            _map_equal(both, function, after.program.functions[uid])
    both.includes = tuple(includes)
    return both


# ------------------------------------------------------------------------------------------------------------ one file


def _compare_file(both: Correspondence, old: Trees, new: Trees, path: str) -> list[tuple[str, str, int]]:
    if path.endswith((".py", ".pyi")):
        raise Unlike(ProofFinding("changes in Python programs are not compared", path, 1))
    functions, others = (
        {u: f for u, f in a.program.functions.items() if f.path == path and not (both.device and is_device(f))}
        for a in (both.before, both.after)
    )
    for uid, function in functions.items():
        if uid not in others:
            what = f"function `{function.qualified}` was removed"
            raise Unlike(ProofFinding(what, path, line_of(both.before, path, function.base), True))
    added = [f for uid, f in others.items() if uid not in functions]
    for function in added:
        both.added[function.uid] = side_of(both.after, new, function)
    changed = [u for u in functions if _text(both.before, functions[u]) != _text(both.after, others[u])]
    if both.device:
        old_includes, new_includes = _beside(both, old, new, path, changed, added)
    else:
        old_includes, new_includes = _same_outside(both, old, new, path, changed, added)
    for uid in changed:
        _compare_function(both, old, new, functions[uid], others[uid])
    return _added_includes(both, path, old_includes, new_includes)


def _same_outside(
    both: Correspondence, old: Trees, new: Trees, path: str, changed: list[str], added: list[Function]
) -> tuple[Includes, Includes]:
    """Outside the changed functions the versions have the same text."""
    functions, others = both.before.program.functions, both.after.program.functions
    old_rest, old_includes = _outside(*old.of(path), [functions[u] for u in changed], [])
    new_rest, new_includes = _outside(*new.of(path), [others[u] for u in changed], added)
    for k, token in enumerate(new_rest):
        if k >= len(old_rest) or old_rest[k].text != token.text:
            raise Unlike(
                ProofFinding("code outside functions changed here", path, line_of(both.after, path, token.start))
            )
    if len(old_rest) > len(new_rest):
        start = old_rest[len(new_rest)].start
        raise Unlike(ProofFinding("code outside functions was removed", path, line_of(both.before, path, start), True))
    return old_includes, new_includes


def _beside(
    both: Correspondence, old: Trees, new: Trees, path: str, changed: list[str], added: list[Function]
) -> tuple[Includes, Includes]:
    """Outside the host's functions, where device code may change."""
    sides: list[list[Item]] = []
    for analysis, trees, left_out in ((both.before, old, []), (both.after, new, added)):
        functions = analysis.program.functions
        marked = [(f.base, f.base + f.span[1], uid) for uid in changed for f in [functions[uid]]]
        marked += [(f.base, f.base + f.span[1], "") for f in left_out]
        marked += [(f.base, f.base + f.span[1], "") for f in functions.values() if f.path == path and is_device(f)]
        sides.append(list(items(*trees.of(path), sorted(marked))))
    try:
        found = compare_items(sides[0], sides[1], both.words.__contains__, fresh=path not in both.before.sources)
    except Strange as odd:
        line = line_of(both.before if odd.original else both.after, path, odd.offset)
        raise Unlike(ProofFinding(odd.what, path, line, odd.original)) from None
    both.values |= found.constants
    return list(found.old_includes), list(found.new_includes)


def _text(analysis: Analysis, function: Function) -> bytes:
    return analysis.sources[function.path][function.base : function.base + function.span[1]]


def _outside(
    root: Node, text: bytes, functions: list[Function], left_out: list[Function]
) -> tuple[list[Token], list[tuple[int, Token]]]:
    """The tokens that belong to none of the functions (each of `functions` stands as one mark), and the includes, each with
    how many of these tokens stand before it."""
    ranges = sorted((f.base, f.base + f.span[1], f.uid) for f in functions)
    ranges += [(f.base, f.base + f.span[1], "") for f in left_out]
    ranges.sort()
    rest: list[Token] = []
    includes: list[tuple[int, Token]] = []
    for child in _top(root):
        if child.type == "preproc_include":
            written = text[child.start_byte : child.end_byte].decode(errors="replace").strip()
            includes.append((len(rest), Token(written, child.start_byte, child.end_byte)))
            continue
        at = child.start_byte
        for start, end, uid in ranges:
            if start >= child.end_byte or end <= at:
                continue
            rest += tokens_of(child, text, at, start)
            if uid:
                rest.append(Token(f"\0{uid}", start, end))
            at = end
        rest += tokens_of(child, text, at, child.end_byte)
    return rest, includes


def _top(root: Node) -> Iterator[Node]:
    """The top-level items; what an include guard holds counts as such."""
    for child in root.children:
        if child.type in ("preproc_ifdef", "preproc_if"):
            yield from _top(child)
        else:
            yield child


def _added_includes(
    both: Correspondence, path: str, old: list[tuple[int, Token]], new: list[tuple[int, Token]]
) -> list[tuple[str, str, int]]:
    """An include of the original stands where it stood: what it brings may depend on macros, and on a condition around it."""
    added: list[tuple[str, str, int]] = []
    left = [(place, t.text) for place, t in old]
    for place, token in new:
        if left and left[0] == (place, token.text):
            left.pop(0)
        else:
            added.append(
                (path, token.text.removeprefix("#").split(maxsplit=1)[-1], line_of(both.after, path, token.start))
            )
    if left:
        raise Unlike(ProofFinding(f"`{left[0][1]}` was removed or moved", path, 1, True))
    return added


# -------------------------------------------------------------------------------------------------------- one function


def _compare_function(both: Correspondence, old: Trees, new: Trees, f: Function, g: Function) -> None:
    one, other = side_of(both.before, old, f), side_of(both.after, new, g)
    if f.body is not None and g.body is not None and one.body.words == other.body.words:
        pieces = [[p.words for p in slot] for slot in one.body.slots]
        if pieces == [[p.words for p in slot] for slot in other.body.slots]:
            _map_equal(both, f, g)  # only white space or comments differ
            return
    line = line_of(both.after, g.path, g.base)
    if f.space != "host" or g.space != "host":
        raise Unlike(ProofFinding(f"device code changed here: `{g.qualified}`", g.path, line))
    if f.has_error or g.has_error:
        raise Unlike(ProofFinding(f"`{g.qualified}` could not be parsed completely", g.path, line))
    head_f, head_g = _head(f, one.body), _head(g, other.body)
    words_f, words_g = one.body.words[head_f:], other.body.words[head_g:]
    if words_f != words_g:
        k = next(
            (k for k, (a, b) in enumerate(zip(words_f, words_g, strict=False)) if a != b),
            min(len(words_f), len(words_g)),
        )
        tokens = other.body.glue[head_g:]
        at = tokens[min(k, len(tokens) - 1)].start if tokens else g.base
        raise Unlike(
            ProofFinding("the control flow of the host code changed here", g.path, line_of(both.after, g.path, at))
        )
    slots = []
    rest_f, rest_g = one.body.slots[head_f:], other.body.slots[head_g:]
    for a, b in zip(rest_f, rest_g, strict=True):
        slots.append(tuple(align(a, b, lambda p: _weight(one.nodes.get(p, [])))))
    changed = Changed(one, other, tuple(slots))
    both.changed[f.uid] = changed
    if f.body is None or g.body is None:
        return
    both.spans.setdefault(f.uid, {})[f.name_span] = g.name_span
    _zip(both, f, one.glue_nodes, other.glue_nodes, line)
    for p, q in changed.rows:
        if p is not None and q is not None:
            _zip(both, f, one.nodes[p], other.nodes[q], line_of(both.after, g.path, q.span[0]))


def _head(function: Function, body: Body) -> int:
    """How many tokens stand before the body: the signature, compared on its own."""
    if function.body is None:
        return len(body.glue)
    opening = function.base + function.body.span[0]
    return sum(1 for t in body.glue if t.start < opening)


def _weight(nodes: list[Expr | Stmt]) -> int:
    """Statements that must have a counterpart decide the alignment, calls that may come and go yield."""
    return 1 if any(isinstance(n, Api) for n in nodes) and not any(isinstance(n, Launch) for n in nodes) else 1000


def side_of(analysis: Analysis, trees: Trees, function: Function) -> Side:
    root, text = trees.of(function.path)
    body = split(root, text, function.base, function.base + function.span[1])
    nodes: dict[Piece, list[Expr | Stmt]] = {p: [] for p in body.pieces}
    glue: list[Expr | Stmt] = []
    if function.body is not None:
        ordered = list(nodes)
        for node in walk(function.body):
            start, end = function.base + node.span[0], function.base + node.span[1]
            piece = next((p for p in ordered if p.span[0] <= start and end <= p.span[1]), None)
            (glue if piece is None else nodes[piece]).append(node)
    return Side(function, body, nodes, glue)


def _zip(both: Correspondence, f: Function, old: list[Expr | Stmt], new: list[Expr | Stmt], line: int) -> None:
    """Equal text gives equal trees: node by node."""
    if [type(n) for n in old] != [type(n) for n in new]:
        raise Unlike(ProofFinding("the host code means something else here", f.path, line))
    for a, b in zip(old, new, strict=True):
        both.map(f.uid, a, b)


def _map_equal(both: Correspondence, f: Function, g: Function) -> None:
    both.spans.setdefault(f.uid, {})[f.name_span] = g.name_span  # the end of the program is said to be there
    if f.body is None or g.body is None:
        return
    if f.body is g.body:
        for node in walk(f.body):
            both.map(f.uid, node, node)
        return
    line = line_of(both.after, g.path, g.base)
    _zip(both, f, list(walk(f.body)), list(walk(g.body)), line)
