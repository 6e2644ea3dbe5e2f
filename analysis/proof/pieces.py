"""The text of a function as what can be compared: statements that stand in a block of their own, and everything else.

Everything else (heads of loops and branches, braces, labels, directives, signatures) is *glue*, token by token. The
statements between two glue tokens are a *slot*. Two versions of a function have the same control flow exactly when their
glue is equal; then their slots correspond, and only statements of one slot are aligned with each other. Comments and
white space do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.program.ir import Span
from tree_sitter import Node

_STATEMENTS = frozenset({"expression_statement", "declaration", "return_statement"})
_HOLDERS = frozenset(
    {"compound_statement", "case_statement"}
)  # removing a statement elsewhere changes what an `if` guards
_BLANK = re.compile(rb"(?:\s|\\\r?\n|//[^\n]*|/\*.*?\*/)*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One statement with its semicolon. `span` counts in the file."""

    tokens: tuple[Token, ...]

    @property
    def span(self) -> Span:
        return self.tokens[0].start, self.tokens[-1].end

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(t.text for t in self.tokens)


@dataclass(frozen=True, slots=True)
class Body:
    """`slots[k]` stands before `glue[k]`; there is one slot more than glue."""

    glue: tuple[Token, ...]
    slots: tuple[tuple[Piece, ...], ...]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(t.text for t in self.glue)

    @property
    def pieces(self) -> Iterator[Piece]:
        for slot in self.slots:
            yield from slot


def tokens_of(node: Node, text: bytes, start: int, end: int) -> Iterator[Token]:
    """The tokens of a node within a range, in order. What the tree does not cover counts as a token of its own."""
    at = max(node.start_byte, start)
    for leaf in _leaves(node, start, end):
        if leaf.end_byte <= start or leaf.start_byte >= end:
            continue
        yield from _uncovered(text, at, leaf.start_byte)
        if leaf.type != "comment" and leaf.end_byte > leaf.start_byte:
            yield Token(
                text[leaf.start_byte : leaf.end_byte].decode("utf-8", "replace"), leaf.start_byte, leaf.end_byte
            )
        at = leaf.end_byte
    yield from _uncovered(text, at, min(node.end_byte, end))


def _leaves(node: Node, start: int, end: int) -> Iterator[Node]:
    stack = [node]
    while stack:
        current = stack.pop()
        if current.end_byte <= start or current.start_byte >= end:
            continue
        if current.children:
            stack.extend(reversed(current.children))
        else:
            yield current


def _uncovered(text: bytes, start: int, end: int) -> Iterator[Token]:
    if start < end:
        found = _BLANK.match(text, start, end)
        rest = found.end() if found is not None else start
        if rest < end:
            yield Token(" ".join(text[rest:end].decode("utf-8", "replace").split()), rest, end)


def split(root: Node, text: bytes, start: int, end: int) -> Body:
    """The function that stands in a range of a file."""
    glue: list[Token] = []
    slots: list[list[Piece]] = [[]]

    def add(token: Token) -> None:
        glue.append(token)
        slots.append([])

    at = start
    stack = [root]
    while stack:
        node = stack.pop()
        if node.end_byte <= start or node.start_byte >= end:
            continue
        inside = start <= node.start_byte and node.end_byte <= end
        if inside and node.type in _STATEMENTS and node.parent is not None and node.parent.type in _HOLDERS:
            for token in _uncovered(text, at, node.start_byte):
                add(token)
            tokens = tuple(tokens_of(node, text, node.start_byte, node.end_byte))
            if tokens:
                slots[-1].append(Piece(tokens))
            at = node.end_byte
        elif node.children:
            stack.extend(reversed(node.children))
        else:
            for token in _uncovered(text, at, node.start_byte):
                add(token)
            if node.type != "comment" and node.end_byte > node.start_byte:
                add(
                    Token(
                        text[node.start_byte : node.end_byte].decode("utf-8", "replace"), node.start_byte, node.end_byte
                    )
                )
            at = max(at, node.end_byte)
    for token in _uncovered(text, at, end):
        add(token)
    return Body(tuple(glue), tuple(tuple(slot) for slot in slots))


def align(
    before: Sequence[Piece], after: Sequence[Piece], weight: Callable[[Piece], int]
) -> list[tuple[Piece | None, Piece | None]]:
    """The heaviest common subsequence of two slots, by text: pairs of equal statements, and those of one version alone,
    in order."""
    a, b = [p.words for p in before], [p.words for p in after]
    low = 0
    while low < min(len(a), len(b)) and a[low] == b[low]:
        low += 1
    high = 0
    while high < min(len(a), len(b)) - low and a[-1 - high] == b[-1 - high]:
        high += 1
    middle_a, middle_b = before[low : len(before) - high], after[low : len(after) - high]
    pairs: list[tuple[Piece | None, Piece | None]] = list(zip(before[:low], after[:low], strict=True))
    pairs += _heaviest(middle_a, middle_b, weight)
    pairs += zip(before[len(before) - high :], after[len(after) - high :], strict=True)
    return pairs


def _heaviest(
    before: Sequence[Piece], after: Sequence[Piece], weight: Callable[[Piece], int]
) -> list[tuple[Piece | None, Piece | None]]:
    rows, columns = len(before), len(after)
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    words = [p.words for p in after]
    for i in range(rows - 1, -1, -1):
        own, gain = before[i].words, weight(before[i])
        for j in range(columns - 1, -1, -1):
            value = max(best[i + 1][j], best[i][j + 1])
            if own == words[j]:
                value = max(value, best[i + 1][j + 1] + gain)
            best[i][j] = value
    out: list[tuple[Piece | None, Piece | None]] = []
    i = j = 0
    while i < rows and j < columns:
        if before[i].words == words[j] and best[i][j] == best[i + 1][j + 1] + weight(before[i]):
            out.append((before[i], after[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            out.append((before[i], None))
            i += 1
        else:
            out.append((None, after[j]))
            j += 1
    out += [(p, None) for p in before[i:]]
    out += [(None, p) for p in after[j:]]
    return out
