"""Parsing CUDA, C and C++ with tree-sitter.

`parse_cuda` never raises. Files whose raw tree has errors are parsed again behind a *mask*: the same bytes with the
words blanked that the grammar does not know (attribute macros, `__align__(..)`, ...). Byte offsets and lines stay, and
the masked tree is kept only when it has fewer error bytes; a clean file is never masked, since masking can break it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import tree_sitter_cuda
from stitchcuda.analysis.syntax.differences import edited
from tree_sitter import Language, Node, Parser, Tree

CUDA = Language(tree_sitter_cuda.language())
_parser = Parser(CUDA)


@dataclass(frozen=True, slots=True)
class Syntax:
    """A parsed file. `text` is the source as given (with a final newline); `tree` may come from a masked copy of it, so
    read names from `text`, not from the tree."""

    text: bytes
    tree: Tree
    masked: bool = False
    error_bytes: int = 0  # bytes inside ERROR nodes, plus one for each missing token
    parsed: bytes = b""  # what the tree was parsed from, when that matters

    @property
    def root(self) -> Node:
        return self.tree.root_node


def parse_tree(text: bytes) -> Tree:
    """The raw tree of some bytes."""
    return _parser.parse(text)


def parse_cuda(text: bytes, before: Syntax | None = None) -> Syntax:
    """Parse a whole file, masking where that gives a better tree. `before`: an earlier text of it without errors, of which
    most is still there."""
    if not text.endswith(b"\n"):
        text += b"\n"  # a directive on an unfinished last line would count as an error
    if before is not None and not before.masked:
        tree = _parser.parse(text, edited(before.tree, before.text, text))
        if not tree.root_node.has_error:  # what is made of errors depends on what was there before: start anew
            return Syntax(text, tree)
    tree = _parser.parse(text)
    if not tree.root_node.has_error:
        return Syntax(text, tree)
    best = Syntax(text, tree, False, error_bytes(tree.root_node), text)
    masked_text = mask(text)
    if masked_text != text:
        best = _better(best, masked_text)
    for which in (_touched, _split, None):
        if best.error_bytes > 0 and b"#" in text:
            one_branch = _single_branch(best.root, best.parsed, which)
            if one_branch is not None:
                best = _better(best, one_branch)
    return best


def _better(best: Syntax, candidate: bytes) -> Syntax:
    tree = _parser.parse(candidate)
    errors = error_bytes(tree.root_node)
    return Syntax(best.text, tree, True, errors, candidate) if errors < best.error_bytes else best


def error_bytes(root: Node) -> int:
    """How much of a tree could not be parsed."""
    total = 0
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_error:
            total += max(1, node.end_byte - node.start_byte)
        elif node.is_missing:
            total += 1
        elif node.has_error:
            stack.extend(node.children)
    return total


# ----------------------------------------------------------------------------------------------------------- tier one

_DIRECTIVE = re.compile(rb"^[ \t]*#(?:[^\n\\]|\\[^\n]|\\\r?\n)*", re.MULTILINE)
_CALL_LIKE = re.compile(
    rb"\b(?:__align__|__attribute__|__cluster_dims__|__block_size__|__maxnreg__|_Pragma|__declspec)\s*\("
)
_BOUNDS = re.compile(rb"\b__launch_bounds__\s*\(")
_AFTER_LAMBDA = re.compile(rb"(\])((?:\s*\b__(?:device|host|global|forceinline)__\b)+)")
_TYPENAME = re.compile(rb"\btypename\b")
_BEFORE_VALUE = re.compile(rb"(?:[(=,{!&|?:]|return)\Z")
_MOST_SPACE = 1000  # bytes before it
_LONE_CAPS = re.compile(rb"^[ \t]*([A-Z][A-Z0-9_]{2,})[ \t]*(//[^\r\n]*)?\r?$", re.MULTILINE)
_CAPS = re.compile(rb"[A-Z][A-Z0-9_]{2,60}[ \t]")  # in every line with a match of the next
_BEFORE_DECL = re.compile(
    rb"(?:^|(?<=[;{}>])|(?<=__global__)|(?<=__device__)|(?<=__host__)|(?<=static)|(?<=inline)|(?<=extern)|(?<=struct)|(?<=class))"
    rb"([ \t]*)((?:[A-Z][A-Z0-9_]{2,}[ \t]+)+)(?=[A-Za-z_:][\w:<>,]*[ \t*&]+[\w:~*&]|for\b|while\b|[A-Z]\w*[ \t]*[{:])",
    re.MULTILINE,
)
_CAPS_CALL = re.compile(
    rb"\b(?!(?:return|sizeof|if|while|for|switch|alignof|decltype|typeid|operator)\b)"
    rb"(?:[A-Z][A-Z0-9_]{2,}[ \t]*\(([^;{}()]*)\)|\w+[ \t]*\(([^;{}()]*,[^;{}()]*)\))"
)
_TYPE_ARG = re.compile(rb"(?<=[(,])(\s*)(int|float|double|char|short|long|bool|void|unsigned|half)(?=\s*[,)])")
_EMPTY_DEFINE = re.compile(
    rb"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(?:[ \t]+((?:inline|static|extern|const|constexpr|__\w+__|__attribute__\s*\(\(.*\)\)"
    rb"|__declspec\s*\(\w+\)|__forceinline|\[\[\w+\]\]|[ \t])+))?[ \t]*(?://[^\n]*)?\r?$",
    re.MULTILINE,
)
_NEW_POINTERS = re.compile(rb"\bnew\b\s*(?:const\s+)?[\w:]+(?:<[\w:, ]*>)?\s*(\*[\s*]*)(?=\[)")
_NEW_CONST = re.compile(rb"\bnew\s+(const)\b")
_PACK_OF_POINTERS = re.compile(rb"\w[ \t]*(\*[ \t*]*)(?=\.\.\.[ \t]*[A-Za-z_])")  # T*... args
_MACRO_AT_END = re.compile(rb"[;{}][ \t]*([A-Z][A-Z0-9_]{2,})[ \t]*(//[^\r\n]*)?\r?(\n)(?![ \t]*[#.?:+\-*/%&|=<>,)\]])")
_EXTERN_C = re.compile(
    rb"^[ \t]*#[ \t]*if(?:def[ \t]+__cplusplus|[ \t]+defined[ \t(]*__cplusplus\)?)[ \t]*\r?\n\s*(extern\s+\"C\"\s*\{|\})"
    rb"\s*(?:/\*.*?\*/|//[^\n]*)?\s*#[ \t]*endif",
    re.MULTILINE,
)
_TYPEID = re.compile(rb"\btypeid\b(?=\s*\()")
_ASM = re.compile(rb"\b(?:asm|__asm__|__asm)\b[ \t]*(?:(?:volatile|__volatile__)[ \t]*)?\(")
_ASM_TEXT = re.compile(rb"\"\s*\b([A-Z][A-Z0-9_]*)\b(?=\s*\")")  # "mov." TYPE " x"
_ASM_OPERAND = re.compile(rb"(?<=[:,])\s*\b([A-Z][A-Z0-9_]{2,})(?=\s*\()")  # : PTR(a), "r"(b)
_NOT_NEWLINE = re.compile(rb"[^\n\r]")
# Calling conventions that headers define, empty where CUDA programs mostly run.
_CONVENTIONS = frozenset({b"CUDART_CB", b"CUDA_CB", b"CUDAAPI", b"CUDARTAPI", b"APIENTRY", b"WINAPI", b"CALLBACK"})


def _blank(buffer: bytearray, start: int, end: int) -> None:
    buffer[start:end] = _NOT_NEWLINE.sub(b" ", bytes(buffer[start:end]))


def _end_statement(buffer: bytearray, comment: tuple[int, int], newline: int) -> None:
    """A statement macro: the comment behind it, or else the newline, becomes its semicolon."""
    if comment[0] < 0:
        buffer[newline] = 59
    else:
        _blank(buffer, *comment)
        buffer[comment[0]] = 59


def _close(text: bytes, opening: int) -> int:
    """Offset just after the parenthesis that closes the one at `opening`, or -1."""
    depth = 0
    for at in range(opening, min(len(text), opening + 2000)):
        byte = text[at]
        if byte == 40:
            depth += 1
        elif byte == 41:
            depth -= 1
            if depth == 0:
                return at + 1
    return -1


def _found(pattern: re.Pattern[bytes], word: bytes, text: bytes) -> Iterable[re.Match[bytes]]:
    """The matches of a pattern that holds a word: most files have no such word."""
    return pattern.finditer(text) if word in text else ()


def _lines_with(pattern: re.Pattern[bytes], text: bytes) -> Iterator[tuple[int, int]]:
    """The lines that hold a match: looking for a plain word first is many times as fast as trying a rich pattern at every byte."""
    at = 0
    while (m := pattern.search(text, at)) is not None:
        end = text.find(b"\n", m.end())
        at = end if end >= 0 else len(text)
        yield text.rfind(b"\n", 0, m.start()) + 1, at


def mask(text: bytes) -> bytes:
    """The text with what the grammar does not know blanked or replaced, byte for byte."""
    buffer = bytearray(text)
    directives = [m.span() for m in _DIRECTIVE.finditer(text)]
    attributes = {bytes(m.group(1)) for m in _EMPTY_DEFINE.finditer(text)} | _CONVENTIONS
    if attributes:
        for m in re.finditer(rb"\b(?:" + b"|".join(sorted(attributes, reverse=True)) + rb")\b(?![ \t]*\()", text):
            _blank(buffer, *m.span())
    for pattern in (_CALL_LIKE, _BOUNDS):
        for m in pattern.finditer(text):
            end = _close(text, m.end() - 1)
            if end > 0 and (pattern is _CALL_LIKE or text.count(b",", m.end(), end) > 1 or b"?" in text[m.end() : end]):
                _blank(buffer, m.start(), end)
    for m in _AFTER_LAMBDA.finditer(text):
        _blank(buffer, *m.span(2))
    for m in _found(_TYPENAME, b"typename", text):
        start = len(text[max(0, m.start() - _MOST_SPACE) : m.start()].rstrip()) + max(0, m.start() - _MOST_SPACE)
        if _BEFORE_VALUE.search(text, max(0, start - 6), start):
            _blank(buffer, start, m.end())
    for m in _found(_EXTERN_C, b"__cplusplus", text):
        _blank(buffer, *m.span(1))
    for m in _found(_TYPEID, b"typeid", text):
        buffer[m.start() : m.end()] = b"sizeof"  # takes a type or a value, too
    for m in _found(_NEW_POINTERS, b"new", text):
        _blank(buffer, *m.span(1))
    for m in _found(_NEW_CONST, b"new", text):
        _blank(buffer, *m.span(1))
    for m in _found(_PACK_OF_POINTERS, b"...", text):
        _blank(buffer, *m.span(1))
    for m in _found(_ASM, b"asm", text):
        end = _close(text, m.end() - 1)
        for part in _ASM_TEXT.finditer(text, m.end(), end):
            _blank(buffer, *part.span(1))
        for part in _ASM_OPERAND.finditer(text, m.end(), end):
            start, stop = part.span(1)
            buffer[start:stop] = b'"' + b"r" * (stop - start - 2) + b'"'
    for m in _LONE_CAPS.finditer(text):
        before = (
            text[: m.start()].rstrip()[-1:] if m.start() < 4096 else text[m.start() - 4096 : m.start()].rstrip()[-1:]
        )
        if text[m.start() : m.start() + 1] in b" \t" and before in (b";", b"{", b"}", b")"):
            _end_statement(buffer, m.span(2), m.end())
        else:
            _blank(buffer, *m.span(1))
    for m in _MACRO_AT_END.finditer(text):
        _end_statement(buffer, m.span(2), m.start(3))
    for start, end in _lines_with(_CAPS, text):
        for m in _BEFORE_DECL.finditer(text, start, end):
            _blank(buffer, *m.span(2))
    for m in _CAPS_CALL.finditer(text):
        inside = m.span(1) if m.group(1) is not None else m.span(2)
        for argument in _TYPE_ARG.finditer(text, inside[0] - 1, inside[1] + 1):
            start, end = argument.span(2)
            buffer[start:end] = b"t" + b"_" * (end - start - 1)
    for start, end in directives:
        buffer[start:end] = text[start:end]
    return bytes(buffer)


# ----------------------------------------------------------------------------------------------------------- tier two

_CONDITIONAL = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b[^\n]*", re.MULTILINE)
MAX_CUT = 2000  # bytes
_OUTER = ("namespace_definition", "linkage_specification", "declaration_list", "preproc_ifdef", "preproc_if")


_Group: TypeAlias = list[re.Match[bytes]]  # the directives of one `#if`, its `#endif` last
_Spans: TypeAlias = list[tuple[int, int]]
_Choice: TypeAlias = Callable[[bytes, _Group, _Spans], bool]  # given the errors


def _single_branch(root: Node, text: bytes, which: _Choice | None) -> bytes | None:
    """The text with one branch of every `#if` kept in those top-level items that hold an error, directives blanked.
    `which` picks among these `#if`s."""
    buffer = bytearray(text)
    changed = False
    if root.is_error:  # nothing at all came out of the file
        changed = which is _split and _keep_one_branch(buffer, text, root, which)
        return bytes(buffer) if changed else None
    stack = [root]
    while stack:
        node = stack.pop()
        for child in node.children:
            if not (child.has_error or child.is_error):
                continue
            if child.type in _OUTER and not _cuts_through(child):
                stack.append(child)
            else:
                changed |= _keep_one_branch(buffer, text, child, which)
    return bytes(buffer) if changed else None


def _touched(text: bytes, group: _Group, errors: _Spans) -> bool:
    """A directive of it is what could not be parsed: it stands in the middle of a statement."""
    return any(start < m.end() and m.start() < end for m in group for start, end in errors)


def _split(text: bytes, group: _Group, errors: _Spans) -> bool:
    """Its branches do not balance their brackets: they cut through statements."""
    return not all(_balanced(text, a.end(), b.start()) for a, b in pairwise(group))


def _errors(node: Node) -> _Spans:
    found: _Spans = []
    stack = [node]
    while stack:
        node = stack.pop()
        if node.is_error:
            found.append((node.start_byte, node.end_byte))
        elif node.has_error:
            stack.extend(node.children)
    return found


def _cuts_through(node: Node) -> bool:
    """An `#if` at the top level that stands in the middle of something else: a short one, or one whose `#endif` the grammar
    has taken for a part of that."""
    if node.type.startswith("preproc") and any(child.is_missing for child in node.children):
        return True
    short = node.type.startswith("preproc") and node.end_byte - node.start_byte < MAX_CUT
    return short and any(child.is_error for child in node.children)


def _keep_one_branch(buffer: bytearray, text: bytes, node: Node, which: _Choice | None) -> bool:
    """Of the branches of an `#if`, the one with the most CUDA in it is kept, else the first that is not `#if 0`."""
    open_groups: list[list[re.Match[bytes]]] = []
    groups: list[list[re.Match[bytes]]] = []
    for m in _CONDITIONAL.finditer(text, node.start_byte, node.end_byte):
        if m.group(1) in (b"if", b"ifdef", b"ifndef"):
            open_groups.append([m])
        elif open_groups:
            open_groups[-1].append(m)
            if m.group(1) == b"endif":
                groups.append(open_groups.pop())
    changed = False
    errors = _errors(node)
    for group in groups:
        bodies = [(a.end(), b.start()) for a, b in pairwise(group)]
        if which is not None and not which(text, group, errors):
            continue
        scores = [
            text.count(b"<<<", *body) * 8 + text.count(b"cuda", *body) * 2 + (0 if _dead(head) else 1)
            for head, body in zip(group, bodies, strict=False)
        ]
        kept = scores.index(max(scores))
        for position, body in enumerate(bodies):
            if position != kept:
                _blank(buffer, *body)
        for m in group:
            _blank(buffer, *m.span())
        changed = True
    return changed


def _balanced(text: bytes, start: int, end: int) -> bool:
    return text.count(b"{", start, end) == text.count(b"}", start, end) and text.count(b"(", start, end) == text.count(
        b")", start, end
    )


def _dead(directive: re.Match[bytes]) -> bool:
    words = directive.group(0).split()
    return words[-1] == b"0" or b"__CUDA_ARCH__" in directive.group(0)
