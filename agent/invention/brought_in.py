"""What the tokens of one file bring in. An item that the file had before, word for word, is not new."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from stitchcuda.agent.invention.assembly import assembly
from stitchcuda.agent.invention.declared import Declared, declared
from stitchcuda.agent.invention.definitions import Definition, definitions
from stitchcuda.agent.invention.directives import defines, directive_items
from stitchcuda.agent.invention.item import Item
from stitchcuda.agent.invention.known_names import (
    AMBIGUOUS,
    ATTRIBUTES,
    DENIED,
    KEYWORDS,
    ROOTS,
    allowed,
    denied_cuda,
    of_library,
    standard,
)
from stitchcuda.agent.invention.surroundings import Surroundings
from stitchcuda.agent.invention.tokens import Token, balanced, literal, tokens

MOST_NAMES = 10  # unknown names told of one file
_STATEMENT = 60  # tokens of a statement that make it the same one
_SUB_SPACES = frozenset(["ranges", "numbers", "literals", "string_literals"])  # of std, with members of their own
_FULL_ROOTS = frozenset(["thrust", "cub", "cuda", "cooperative_groups", "nvcuda"])
_OF_ROOTS = frozenset(["sync", "wait"])  # of cooperative groups, though words of the system
_BEFORE_CALL = frozenset(
    [
        "return", "else", "do", "case", "throw", "co_return", "co_yield", "co_await", "goto", "new", "delete", "sizeof", "typeid",
        "and", "or", "not", "xor", "compl", "bitand", "bitor", "and_eq", "or_eq", "xor_eq", "not_eq",
    ]
)  # fmt: skip
_PATHS = re.compile(
    r"^\s*[/~]\w|^[A-Za-z]:[\\/]|://|\.\.[\\/]|\\\\|LD_PRELOAD|LD_LIBRARY|CUDA_[A-Z]|/proc/|/dev/|/etc/|\.so\b|\.dll\b|\bsh -c\b"
)
_STREAM_TYPES = frozenset(["FILE", "ofstream", "ifstream", "fstream", "ostream", "istream", "iostream"])


def brought_in(before: bytes | None, after: bytes, around: Surroundings, names: Declared) -> list[Item]:
    """What is new in the text of one file; `before` is None for a new file. `names` are declared in the edited files."""
    had = (
        Counter(item.key for item in _items(before, False, around, defines(before), names))
        if before is not None
        else Counter()
    )
    new = []
    for item in _items(after, before is None, around, defines(before), names):
        if had[item.key]:
            had[item.key] -= 1
        else:
            new.append(item)
    return [*new, *_names(after, around, names), *_unchecked(before, after, around)]


def _items(text: bytes, fresh: bool, around: Surroundings, before: dict[str, str], names: Declared) -> Iterator[Item]:
    found = _as_compiled(text)
    yield from _below_tokens(text)
    functions = definitions(text)
    streams, given = _streams(found, functions, len(text)), _given(found, functions)
    inside_device = [(d.start, d.end) for d in definitions(text) if d.space in ("global", "device")]

    def on_device(token: Token) -> bool:
        return any(start <= token.start < end for start, end in inside_device)

    yield from directive_items(found, fresh, around, before, on_device)
    for k, token in enumerate(found):
        if token.kind == "odd" or (token.kind == "word" and token.end - token.start != len(token.text)):
            near = " ".join(t.text for t in found[max(0, k - 2) : k + 3])
            yield Item(
                "hidden",
                f"odd {near}",
                token.line,
                f"`{token.text}` hides what the code says: write it plainly, in ASCII",
            )
        elif token.kind == "string" and _PATHS.search(literal(token)):
            yield Item(
                "path",
                f"path {token.text}",
                token.line,
                f"the text {token.text[:60]} names a place outside of the program",
            )
        elif token.kind == "punct":
            yield from _shapes(found, k)
        elif token.kind == "word":
            yield from _word(found, k, names, around, on_device)
            if any(start <= token.start < end for start, end in streams.get(token.text, ())) and not _member(found, k):
                what = f"`{_shown(found, k)}`: {token.text} is a stream of a file or of the terminal, and what goes there stays"
                yield Item("output", f"stream {_rest_of_statement(found, k)}", token.line, what)
            if any(start <= token.start < end for start, end in given.get(token.text, ())) and not _member(found, k):
                what = f"`{_shown(found, k)}`: {token.text} leads to the arguments and the environment, and is used no further"
                yield Item("environment", f"given {_rest_of_statement(found, k)}", token.line, what)


def _as_compiled(text: bytes) -> tuple[Token, ...]:
    """The tokens with the directives behind all others: `#define D .` between two lines of code does not part these, and its
    last token does not stand before what follows."""
    return tuple(sorted(tokens(text), key=lambda token: token.headline))


def _below_tokens(text: bytes) -> Iterator[Item]:
    """What a reader of tokens does not see: characters that compilers or people read otherwise, and comments that silence us."""
    for kind, pattern, what in _UNSEEN:
        for match in pattern.finditer(text):
            line = text.count(b"\n", 0, match.start()) + 1
            near = text[max(0, match.start() - 8) : match.end() + 8].decode("latin-1")
            yield Item(kind, f"{kind} {near}", line, what)
    lines = text.splitlines()
    for k, content in enumerate(lines):
        if re.search(rb"stitchcuda\s*:", content, re.IGNORECASE):
            following = next((line.strip() for line in lines[k + 1 :] if line.strip()), b"")
            key = f"comment {content.strip().decode('latin-1')} {following.decode('latin-1')}"
            yield Item("check", key, k + 1, "comments that tell stitchcuda what to do are the user's")


_UNSEEN = (
    ("hidden", re.compile(rb"\?\?[=/'()!<>-]"), "a trigraph is another character to some compilers"),
    ("hidden", re.compile(rb"\r(?!\n)"), "a carriage return alone is the end of a line to some, and none to others"),
    (
        "hidden",
        re.compile(rb"\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xa9]|(?<!\A)\xef\xbb\xbf"),
        "characters without a shape of their own hide what stands there",
    ),
)


def _given(found: tuple[Token, ...], functions: Sequence[Definition]) -> dict[str, list[tuple[int, int]]]:
    """Variables like argv, behind which the environment lies, with the functions in which they are declared."""
    out: dict[str, list[tuple[int, int]]] = {}
    for k, token in enumerate(found):
        if token.text != "char" or _text(found, k + 1) not in ("*", "const"):
            continue
        at = k + 1
        while _text(found, at) in ("*", "const"):
            at += 1
        stars = [t.text for t in found[k:at]].count("*")
        name = _text(found, at)
        if at < len(found) and found[at].kind == "word" and (stars > 1 or (stars == 1 and _text(found, at + 1) == "[")):
            out.setdefault(name, []).extend((d.start, d.end) for d in functions if d.start <= token.start < d.end)
    return out


def _streams(found: tuple[Token, ...], functions: Sequence[Definition], size: int) -> dict[str, list[tuple[int, int]]]:
    """Variables that are files or streams, with the ranges in which their names mean them: a function, or the whole text."""
    out: dict[str, list[tuple[int, int]]] = {}
    for k, token in enumerate(found):
        if token.kind != "word" or token.text not in _STREAM_TYPES:
            continue
        at = k + 1
        while _text(found, at) in ("*", "&", "&&", "const"):
            at += 1
        if at < len(found) and found[at].kind == "word" and found[at].text not in KEYWORDS:
            inside = [(d.start, d.end) for d in functions if d.start <= token.start < d.end]
            out.setdefault(found[at].text, []).extend(inside or [(0, size)])
    return out


# ------------------------------------------------------------------------------------------------------------------ words


def _word(
    found: tuple[Token, ...], k: int, names: Declared, around: Surroundings, on_device: Callable[[Token], bool]
) -> Iterator[Item]:
    token, word = found[k], found[k].text
    if _member(found, k):
        return
    root = _root(found, k)
    call = _text(found, k + 1) == "("
    if word in ("asm", "__asm", "__asm__"):
        statement = _statement(found, k)
        if problem := assembly(found, k, on_device(token)):
            yield Item("assembly", statement, token.line, problem)
    elif word in ("__attribute__", "__declspec"):
        inside = found[k + 1 : balanced(found, k + 1)]
        if any(t.kind == "string" or (t.kind == "word" and t.text not in ATTRIBUTES) for t in inside):
            yield Item(
                "attribute", _statement(found, k), token.line, f"`{_shown(found, k)}` may change how code is compiled"
            )
    elif word == "_Pragma" or word == "__pragma":
        yield Item(
            "directive", _statement(found, k), token.line, "pragmas are written as `#pragma unroll`, nothing else"
        )
    elif word == "operator" and _text(found, k + 1) in ("new", "delete", '""'):
        yield Item(
            "interpose", _statement(found, k), token.line, f"`operator {_text(found, k + 1)}` is not defined anew"
        )
    elif word == "namespace" and _text(found, k + 2) == "=" and {"std"} & {t.text for t in found[k + 3 : k + 6]}:
        yield Item("hidden", _statement(found, k), token.line, "no other name for std")
    elif word == "namespace" and _text(found, k + 1) in {"std", *ROOTS} and _text(found, k + 2) in ("{", "::"):
        what = f"nothing is put into the namespace {_text(found, k + 1)}"
        yield Item("interpose", _statement(found, k), token.line, what)
    elif word == "namespace" and _text(found, k + 2) == "=" and _text(found, k + 1) in _FULL_ROOTS:
        yield Item("hidden", _statement(found, k), token.line, f"nothing else is named {_text(found, k + 1)}")
    elif root in ROOTS and re.search(r"clock|timer|get_sreg", word):
        yield Item("timer", _statement(found, k), token.line, f"`{_shown(found, k)}`: {_WHAT['timer']}")
    elif word in around.pasting and call:
        yield Item(
            "macro", _statement(found, k), token.line, f"`{_shown(found, k)}`: the macro {word} builds names with ##"
        )
    elif word in DENIED and not (root == "thrust" and word == "system"):
        yield Item(DENIED[word], _statement(found, k), token.line, f"`{_shown(found, k)}`: {_WHAT[DENIED[word]]}")
    elif kind := denied_cuda(word):
        yield Item(kind, _statement(found, k), token.line, f"`{_shown(found, k)}`: {_WHAT[kind]}")
    elif word in AMBIGUOUS and _means_the_system(found, k, root, call, names, around, on_device(token)):
        kind = AMBIGUOUS[word]
        yield Item(
            kind,
            _statement(found, k),
            token.line,
            f"`{_shown(found, k)}` could mean the system's {word}: {_WHAT[kind]}, and what means something else needs another name",
        )
    elif (
        root == "std"
        and _text(found, k - 2) == "std"
        and not standard(word)
        and word not in _SUB_SPACES
        and not allowed(word)
    ):
        yield Item(
            "name", _statement(found, k), token.line, f"`std::{word}` is not among what may be used of the C++ library"
        )
    elif call and word in around.reaching and not _declares(found, k, names, around):
        # Once more, or with other texts, is refused; with other values, or elsewhere, is how a loop is restructured.
        kind = around.reaching[word]
        what = (
            f"`{_shown(found, k)}`: {word} is called once more or with other texts, and reaches further ({_WHAT[kind]})"
        )
        inside = found[k + 1 : balanced(found, k + 1)]
        texts = " ".join(t.text for t in inside if t.kind == "string")  # which file, say, stays written out
        yield Item(kind, f"reaching {word} {texts}", token.line, what)


_WHAT = {
    "process": "no processes, exits or jumps out of the program",
    "network": "no network",
    "file": "no files or streams",
    "environment": "no environment or identity of the process",
    "loading": "no loading of code",
    "signal": "no signals or timers of the system",
    "timer": "no clocks or timers",
    "thread": "no new host threads",
    "output": "nothing new is printed",
    "device": "no changes to the device, its limits, or host callbacks",
}


def _means_the_system(
    found: tuple[Token, ...], k: int, root: str | None, call: bool, names: Declared, around: Surroundings, device: bool
) -> bool:
    word = found[k].text
    if root is not None:
        # Whatever namespace may have taken in all of std, or of the global one.
        known = (
            word in around.defined
            or root == "template"
            or (word in _OF_ROOTS and (root in ROOTS or names.aliases.get(root) in ROOTS))
            or (word == "remove" and root == "thrust")
        )
        return root == "" or (not standard(word) if root == "std" else not known)
    own = word in around.values or (device and word != "clock")
    if _declares(found, k, names, around):
        return not own and not device  # a name for a later version to hide the system's behind
    if call:
        return word not in around.defined
    return word not in names.values or not own


def _member(found: tuple[Token, ...], k: int) -> bool:
    return _text(found, k - 1) in (".", "->")


def _root(found: tuple[Token, ...], k: int) -> str | None:
    """The first name of `a::b::c` before the last; "" for `::c`; None when the name stands alone."""
    root: str | None = None
    while _text(found, k - 1) == "::":
        before = found[k - 2] if k >= 2 else None
        if before is None or before.kind != "word" or before.text in _BEFORE_CALL | KEYWORDS:
            closing = before is not None and before.text in (">", ">>")
            return "template" if closing else ""
        root = before.text
        k -= 2
    return root


def _declares(found: tuple[Token, ...], k: int, names: Declared, around: Surroundings) -> bool:
    """Whether the name stands where a declaration has it: right after a type. `a * f(x)` is taken for a product."""
    before = found[k - 1] if k else None
    if before is None or before.directive != found[k].directive:
        return False
    if before.kind == "word":
        if before.text in _BEFORE_CALL or before.text in names.macros or before.text in around.macros:
            return False
        # Some macro of a header: CUDART_CB is nothing at all.
        return before.text in names.called or not re.fullmatch(r"[A-Z_][A-Z0-9_]+", before.text)
    if _text(found, k + 1) == "(":
        return False
    return before.text in (">", "&", "&&", "*") and k >= 2 and found[k - 2].kind == "word" and _at_start(found, k - 2)


def _at_start(found: tuple[Token, ...], k: int) -> bool:
    """Whether the word at `k` begins a statement or a parameter, past const and qualifiers."""
    while k > 0 and (
        found[k - 1].text in ("const", "static", "::", "unsigned", "struct")
        or (found[k - 1].kind == "word" and _text(found, k) == "::")
    ):
        k -= 1
    return k == 0 or found[k - 1].text in (";", "{", "}", "(", ",", "<") or found[k - 1].text.startswith("__")


def _text(found: tuple[Token, ...], k: int) -> str:
    return found[k].text if 0 <= k < len(found) else ""


def _statement(found: tuple[Token, ...], k: int) -> str:
    """What makes an occurrence the same one: the whole call, or the rest of the statement."""
    if _text(found, k + 1) == "(":
        end = balanced(found, k + 1)
        end = end if _text(found, end) not in ("<<", ".", "->") else _end(found, k)
    else:
        end = _end(found, k)
    before = _text(found, k - 1)
    return f"{before if before in ('::', '&', '*') else ''} {' '.join(t.text for t in found[k:end])}"


def _rest_of_statement(found: tuple[Token, ...], k: int) -> str:
    before = k
    while before > 0 and k - before < _STATEMENT and found[before - 1].text not in (";", "{", "}"):
        before -= 1
    return " ".join(t.text for t in found[before : _end(found, k)])


def _end(found: tuple[Token, ...], k: int) -> int:
    for at in range(k, min(len(found), k + _STATEMENT)):
        if found[at].text in (";", "{", "}"):
            return at
    return min(len(found), k + _STATEMENT)


def _shown(found: tuple[Token, ...], k: int) -> str:
    text = " ".join(t.text for t in found[k : min(_end(found, k), k + 8)])
    return text if len(text) <= 60 else f"{text[:57]}..."


def _shapes(found: tuple[Token, ...], k: int) -> Iterator[Item]:
    """Attributes in brackets, and casts to functions."""
    token = found[k]
    if token.text == "[" and _text(found, k + 1) == "[" and found[k + 1].start == token.end:
        inside = found[k + 2 : balanced(found, k + 1)]
        if any(t.kind == "word" and t.text not in ATTRIBUTES for t in inside) or any(t.text == "::" for t in inside):
            yield Item(
                "attribute",
                f"[[ {' '.join(t.text for t in inside)}",
                token.line,
                f"the attribute `[[{_shown(found, k + 2)}` is not allowed",
            )
    if token.text == "(" and _text(found, k + 1) == "*" and _text(found, k + 2) == ")" and _text(found, k + 3) == "(":
        near = " ".join(t.text for t in found[max(0, k - 6) : balanced(found, k + 3)])
        yield Item("hidden", f"function pointer {near}", token.line, "nothing is cast to a function")


# ------------------------------------------------------------------------------------------------------------------ names


def _names(text: bytes, around: Surroundings, names: Declared) -> list[Item]:
    """Names that neither the program, nor the language, nor CUDA's device code has."""
    found, built = _as_compiled(text), declared(text).built
    unknown: dict[str, Item] = {}
    for k, token in enumerate(found):
        word = token.text
        if token.kind != "word" or word in unknown or word in DENIED or word in AMBIGUOUS or denied_cuda(word):
            continue
        if token.directive and (k == 0 or found[k - 1].text == "#"):
            continue
        call = _text(found, k + 1) == "(" and not _declares(found, k, names, around) and token.start not in built
        if _member(found, k) or allowed(word) or standard(word) or word in ATTRIBUTES:
            continue
        if word in around.words and not (call and word not in around.called and word not in names.called):
            continue
        root = _root(found, k)
        if (
            root in ROOTS
            or names.aliases.get(root or "") in ROOTS
            or (root == "std" and word in _SUB_SPACES)
            or _under(found, k)
        ):
            continue
        if word in names.values and not (call and word not in names.called):
            continue
        if of_library(word, around.headers):
            continue
        unknown[word] = Item(
            "name",
            f"name {word}",
            token.line,
            f"`{word}` is no name of the program, of CUDA's device code, or of what may be used of the C++ library",
        )
    return list(unknown.values())[:MOST_NAMES]


def _under(found: tuple[Token, ...], k: int) -> bool:
    """`std::numbers::pi`: a member of one of the open parts of std."""
    return _text(found, k - 1) == "::" and _text(found, k - 2) in _SUB_SPACES and _text(found, k - 4) == "std"


def _unchecked(before: bytes | None, after: bytes, around: Surroundings) -> Iterator[Item]:
    """CUDA calls whose result is dropped, where the program checks the same call elsewhere."""
    had = Counter(t.text for t in _dropped(tokens(before or b"")))
    for token in _dropped(tokens(after)):
        if had[token.text]:
            had[token.text] -= 1
        elif token.text in around.checked:
            yield Item(
                "check",
                f"unchecked {token.text}",
                token.line,
                f"the result of {token.text} is not checked, as the program checks it elsewhere",
            )


def _dropped(found: tuple[Token, ...]) -> Iterator[Token]:
    for k, token in enumerate(found):
        if token.kind != "word" or not token.text.startswith("cuda") or token.directive or _text(found, k + 1) != "(":
            continue
        if _text(found, k - 1) in (";", "{", "}") and _text(found, balanced(found, k + 1)) == ";":
            yield token
