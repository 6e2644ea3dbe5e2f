"""Text outside host functions, where device code may change: what came, what went, and which constants have another value.

Kernels, device functions and their declarations count for nothing here (`device_code.py`). What is left may gain names
that the original does not use anywhere, and constants may have another value; all else must stand as it stood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from stitchcuda.analysis.proof.pieces import Token, tokens_of
from tree_sitter import Node

_WRAPPERS = frozenset(
    {"preproc_ifdef", "preproc_if", "namespace_definition", "linkage_specification", "declaration_list"}
)
_TYPES = frozenset({"struct_specifier", "class_specifier", "union_specifier", "type_definition", "alias_declaration"})
_FURNITURE = frozenset({";", "namespace", "{", "}", "#pragma once"})  # means nothing by itself
_NUMBER_WORDS = frozenset(
    [
        "static",
        "inline",
        "constexpr",
        "const",
        "int",
        "unsigned",
        "signed",
        "long",
        "short",
        "char",
        "bool",
        "float",
        "double",
        "size_t",
        "std",
        "::",
        "int8_t",
        "int16_t",
        "int32_t",
        "int64_t",
        "uint8_t",
        "uint16_t",
        "uint32_t",
        "uint64_t",
    ]
)
_PLAIN_VALUE = re.compile(r"^(\w|[-+*/%()<>?:.&|^~! \t]|(?<=\d)')*$")
_ACTS = re.compile(r"\+\+|--|(?<!sizeof)(?<![-+*/%<>?:&|^~! (])[ \t]*\(")  # a call, or a variable that changes
_RUNS = frozenset(
    [
        "static",
        "inline",
        "friend",
        "operator",
        "virtual",
        "thread_local",
        "extern",
        "__attribute__",
        "__declspec",
        "asm",
    ]
)
_HEADERS_READ = re.compile(r"^(_|NDEBUG|CU|CUDA|cuda|NV|THRUST|CUB|GLIBCXX|BOOST|OMP|MPI|WIN|UNICODE|STD)")


class Strange(Exception):
    """An item that came, went or changed and is not of the kinds that may; `original`: in the original's text."""

    def __init__(self, what: str, offset: int, *, original: bool = False) -> None:
        super().__init__(what)
        self.what, self.offset, self.original = what, offset, original


@dataclass(frozen=True)
class Item:
    """One declaration, definition or directive at the top of a file, or what surrounds several."""

    kind: str
    tokens: tuple[Token, ...]
    include: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(t.text for t in self.tokens)

    @property
    def start(self) -> int:
        return self.tokens[0].start


@dataclass(frozen=True)
class Beside:
    """What differs: constants of another value by name, and the includes of both versions, each with how many items that
    both have stand before it."""

    constants: frozenset[str]
    old_includes: tuple[tuple[int, Token], ...]
    new_includes: tuple[tuple[int, Token], ...]


def items(root: Node, text: bytes, marked: Sequence[tuple[int, int, str]]) -> Iterator[Item]:
    """The items of a file. `marked` are ranges that stand as one token each, or as none when their name is empty."""
    for child in _flat(root):
        if child.type == "preproc_include":
            written = text[child.start_byte : child.end_byte].decode(errors="replace").strip()
            yield Item(child.type, (Token(written, child.start_byte, child.end_byte),), written)
            continue
        found: list[Token] = []
        at = child.start_byte
        for start, end, name in marked:
            if start >= child.end_byte or end <= at:
                continue
            found += tokens_of(child, text, at, start)
            if name:
                found.append(Token(f"\0{name}", start, end))
            at = end
        found += tokens_of(child, text, at, child.end_byte)
        if found:
            yield Item(child.type, tuple(found))


def _flat(root: Node) -> Iterator[Node]:
    for child in root.children:
        if child.type in _WRAPPERS and not child.is_error:
            yield from _flat(child)
        else:
            yield child


def compare_items(old: Sequence[Item], new: Sequence[Item], known: Callable[[str], bool], *, fresh: bool) -> Beside:
    """`known`: a word that the original's text holds anywhere; `fresh`: the file is new. Raises Strange."""
    before, after = ([i for i in side if not i.include] for side in (old, new))
    gone: list[Item] = []
    come: list[Item] = []
    kept: tuple[set[int], set[int]] = (set(), set())
    matcher = SequenceMatcher(None, [i.words for i in before], [i.words for i in after], autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            kept[0].update(id(x) for x in before[i:j])
            kept[1].update(id(x) for x in after[k:m])
        else:
            gone += before[i:j]
            come += after[k:m]
    changed: set[str] = set()
    for item in gone:
        name = constant_name(item)
        if item.words == (";",):
            continue
        partner = next((x for x in come if name and _same_constant(item, x)), None)
        if partner is None:
            raise Strange("code outside functions was removed", item.start, original=True)
        come.remove(partner)
        changed.add(name)
    for k, item in enumerate(come):
        _check_new(item, come[k - 1] if k else None, known, fresh=fresh)
    return Beside(frozenset(changed), _placed(old, kept[0]), _placed(new, kept[1]))


def _placed(side: Sequence[Item], kept: set[int]) -> tuple[tuple[int, Token], ...]:
    found: list[tuple[int, Token]] = []
    before = 0
    for item in side:
        if item.include:
            found.append((before, item.tokens[0]))
        before += id(item) in kept
    return tuple(found)


def constant_name(item: Item) -> str:
    """The name that `constexpr int N = 4;` or `#define N 4` gives to a number; "" for anything else."""
    words = item.words
    if item.kind == "preproc_def":
        value = " ".join(words[2:])
        return words[1] if len(words) > 2 and _PLAIN_VALUE.match(value) and not _ACTS.search(value) else ""
    if item.kind != "declaration" or "=" not in words or not {"constexpr", "const"} & set(words):
        return ""
    place = words.index("=")
    if place < 2 or set(words[: place - 1]) - _NUMBER_WORDS or "," in words[place:] or "=" in words[place + 1 :]:
        return ""
    if {"++", "--"} & set(words):
        return ""
    called = any(b == "(" and a.isidentifier() for a, b in zip(words[place:], words[place + 1 :], strict=False))
    if called and "constexpr" not in words[:place]:
        return ""  # a call may do anything
    return words[place - 1]


def _same_constant(old: Item, new: Item) -> bool:
    """The same constant with another value."""
    name = constant_name(old)
    if old.kind != new.kind or constant_name(new) != name:
        return False
    if old.kind == "preproc_def":
        return True
    return old.words[: old.words.index("=")] == new.words[: new.words.index("=")]


def _check_new(item: Item, previous: Item | None, known: Callable[[str], bool], *, fresh: bool) -> None:
    """An item of the changed version alone may bring a name that the original does not know, and do nothing."""
    words = item.words
    if len(words) == 1 and (words[0] in _FURNITURE or (previous is not None and previous.words == ("namespace",))):
        return
    if " ".join(words) == "#pragma once" or (fresh and words[0] in ("#ifndef", "#endif")):
        return
    guard = fresh and len(words) == 1 and previous is not None and previous.words == ("#ifndef",)
    if guard and words[0].isidentifier() and not known(words[0]):
        return
    name = constant_name(item)
    if not name and item.kind in ("preproc_def", "preproc_function_def"):
        name = words[1]
    if not name and item.kind == "template_declaration" and any(w in ("struct", "using") for w in words):
        name = _after(words, ("struct", "using"))
    if not name and item.kind in _TYPES:
        name = words[-2] if item.kind == "type_definition" and words[-1] == ";" else words[1] if len(words) > 1 else ""
    if not name and item.kind == "namespace_alias_definition":
        name = words[1]
    if not name.isidentifier() or known(name) or any("\0" in w for w in words):
        raise Strange("code outside functions changed here", item.start)
    typed = item.kind in _TYPES or item.kind == "template_declaration"
    special = words[:3] == ("template", "<", ">") or (name in words[:-1] and words[words.index(name) + 1] == "<")
    if typed and (_RUNS & set(words) or "[[" in words or special):
        raise Strange(f"`{name}` may do something by itself", item.start)
    if item.kind.startswith("preproc") and _HEADERS_READ.match(name):
        raise Strange(f"`{name}` may change what headers mean", item.start)


def _after(words: Sequence[str], keys: tuple[str, ...]) -> str:
    place = next(k for k, w in enumerate(words) if w in keys)
    return words[place + 1] if place + 1 < len(words) else ""
