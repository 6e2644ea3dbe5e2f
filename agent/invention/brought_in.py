"""What the tokens of one file bring in. An item that the file had before, word for word, is not new."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.agent.invention.declared import Declared
from stitchcuda.agent.invention.definitions import definitions
from stitchcuda.agent.invention.known_names import (
    AMBIGUOUS,
    ATTRIBUTES,
    CONDITIONS,
    DENIED,
    KEYWORDS,
    PTX,
    ROOTS,
    STANDARD,
    allowed,
    denied_cuda,
    include_allowed,
    of_library,
)
from stitchcuda.agent.invention.surroundings import Surroundings, header_of
from stitchcuda.agent.invention.tokens import Token, balanced, literal, tokens

MOST_NAMES = 10  # unknown names told of one file
_STATEMENT = 60  # tokens of a statement that make it the same one
_SUB_SPACES = frozenset(
    ["ranges", "numbers", "execution", "literals", "string_literals"]
)  # of std, with members of their own
_BEFORE_CALL = frozenset(
    ["return", "else", "do", "case", "throw", "and", "or", "not", "co_return", "co_yield", "co_await"]
)
_CONDITIONAL = ("if", "ifdef", "ifndef", "elif", "elifdef", "elifndef")
_REFUSED_DIRECTIVES = frozenset(
    ["line", "error", "warning", "import", "include_next", "ident", "embed", "undef", "assert", "unassert", "sccs"]
)
_PATHS = re.compile(
    r"^\s*[/~]\w|^[A-Za-z]:[\\/]|://|\.\.[\\/]|\\\\|LD_PRELOAD|LD_LIBRARY|CUDA_[A-Z]|/proc/|/dev/|/etc/|\.so\b|\.dll\b|\bsh -c\b"
)
_TRIGRAPH = re.compile(rb"\?\?[=/'()!<>-]")
_REGISTERS = re.compile(
    r"%(?:clock|globaltimer|smid|nsmid|warpid|nwarpid|envreg|pm\d|lanemask_none|total_smem|dynamic_smem)"
)


@dataclass(frozen=True, slots=True)
class Item:
    """Something that a file has and a new one may not bring. `key` is equal for what is the same in both texts."""

    kind: str
    key: str
    line: int
    what: str


def brought_in(before: bytes | None, after: bytes, around: Surroundings, names: Declared) -> list[Item]:
    """What is new in the text of one file; `before` is None for a new file. `names` are declared in the edited files."""
    had = (
        Counter(item.key for item in _items(before, False, around, _defines(before), names))
        if before is not None
        else Counter()
    )
    new = []
    for item in _items(after, before is None, around, _defines(before), names):
        if had[item.key]:
            had[item.key] -= 1
        else:
            new.append(item)
    return [*new, *_names(after, around, names), *_unchecked(before, after, around)]


def _defines(text: bytes | None) -> dict[str, str]:
    out = {}
    for line in _directives(tokens(text or b"")):
        if len(line) > 2 and line[1].text == "define":
            out[line[2].text] = _said(line)
    return out


def _items(text: bytes, fresh: bool, around: Surroundings, before: dict[str, str], names: Declared) -> Iterator[Item]:
    found = tokens(text)
    for match in _TRIGRAPH.finditer(text):
        line = text.count(b"\n", 0, match.start()) + 1
        near = text[max(0, match.start() - 8) : match.end() + 8].decode("latin-1")
        yield Item(
            "hidden", f"trigraph {near}", line, f"`{match[0].decode()}` means another character to some compilers"
        )
    inside_device = [(d.start, d.end) for d in definitions(text) if d.space in ("global", "device")]

    def on_device(token: Token) -> bool:
        return any(start <= token.start < end for start, end in inside_device)

    yield from _directive_items(found, fresh, around, before, on_device)
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


# ------------------------------------------------------------------------------------------------------------- directives


def _directives(found: tuple[Token, ...]) -> list[list[Token]]:
    lines: dict[int, list[Token]] = {}
    for token in found:
        if token.headline >= 0:
            lines.setdefault(token.headline, []).append(token)
    return list(lines.values())


def _said(line: list[Token]) -> str:
    return " ".join(t.text for t in line)


def _directive_items(
    found: tuple[Token, ...], fresh: bool, around: Surroundings, before: dict[str, str], on_device: object
) -> Iterator[Item]:
    assert callable(on_device)
    own = {line[2].text for line in _directives(found) if len(line) > 2 and line[1].text == "define"}
    depth_allowed = 0
    for line in _directives(found):
        head = line[1].text if len(line) > 1 else ""
        said, at = _said(line), line[0].line
        if head == "include":
            name = header_of(line)
            if not (name and _include(name, line[2].kind == "header", around)):
                yield Item(
                    "include",
                    said,
                    at,
                    f"`{said}` may not be included: only device headers of CUDA, cub, thrust, numbers and containers of the C++ library, and the program's own headers",
                )
        elif head == "pragma":
            rest = [t.text for t in line[2:]]
            if rest[:1] not in (["unroll"], ["once"]) or (rest[:1] == ["once"] and len(rest) > 1):
                yield Item("directive", said, at, f"`{said}`: no pragma but `#pragma unroll` and `#pragma once`")
        elif head == "define":
            if problem := _define(line, around, before):
                yield Item(problem[0], said, at, problem[1])
        elif head in _CONDITIONAL:
            words = {t.text for t in line[2:] if t.kind == "word"} - {"defined"}
            fine = words <= CONDITIONS and bool(words) and on_device(line[0])
            if not fine and not (fresh and words and words <= CONDITIONS | own):
                yield Item(
                    "directive", said, at, f"`{said}`: no new conditions of the preprocessor outside of device code"
                )
            elif not head.startswith("elif"):
                depth_allowed += 1
        elif head in ("else", "endif"):
            continue
        elif head:
            yield Item("directive", said, at, f"`{said}`: this directive is not allowed")
    # A branch without a condition of its own would switch code on or off that stands there already.
    for word in ("else", "endif"):
        lines = [line for line in _directives(found) if len(line) > 1 and line[1].text == word]
        for number, line in enumerate(lines):
            if number >= depth_allowed or word == "else":
                yield Item("directive", f"#{word}", line[0].line, f"`#{word}`: no new branches of the preprocessor")


def _include(name: str, system: bool, around: Surroundings) -> bool:
    if name in around.headers and ".." not in name:
        return True
    if name.startswith("/") or ".." in name.split("/") or "\\" in name:
        return False
    own = any(path == name or path.endswith(f"/{name}") for path in around.paths)
    return include_allowed(name) or (own and not system)


def _define(line: list[Token], around: Surroundings, before: dict[str, str]) -> tuple[str, str] | None:
    """Kind and words when a macro may not be defined so."""
    if len(line) < 3 or line[2].kind != "word":
        return "macro", "this definition has no name"
    name, said = line[2].text, _said(line)
    if any(t.text in ("##", "%:%:") or t.kind == "odd" for t in line[3:]):
        return "macro", f"the macro {name} builds names with ##"
    if name in around.checks:
        return "check", f"the macro {name} checks errors: it stays as it is"
    if name in around.macros:
        old = before.get(name, "").split()[3:]
        new = [t.text for t in line[3:]]
        if old and new and _number(old) and _number(new):
            return None
        return "macro", f"the macro {name} is the program's own: it stays as it is"
    if (
        name in KEYWORDS
        or name in DENIED
        or name in AMBIGUOUS
        or allowed(name)
        or name in STANDARD
        or name in around.words
    ):
        return "macro", f"a macro named {name} would change what that name means elsewhere: `{said[:80]}`"
    return None


def _number(body: list[str]) -> bool:
    return all(re.fullmatch(r"[-+*/()]|\d[\w.]*|<<|>>", part) for part in body) and any(
        part[0].isdigit() for part in body
    )


# ------------------------------------------------------------------------------------------------------------------ words


def _word(found: tuple[Token, ...], k: int, names: Declared, around: Surroundings, on_device: object) -> Iterator[Item]:
    assert callable(on_device)
    token, word = found[k], found[k].text
    if _member(found, k):
        return
    root = _root(found, k)
    call = _text(found, k + 1) == "("
    if word in ("asm", "__asm", "__asm__"):
        statement = _statement(found, k)
        if problem := _assembly(found, k, on_device(token)):
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
    elif word in around.pasting and call:
        yield Item(
            "macro", _statement(found, k), token.line, f"`{_shown(found, k)}`: the macro {word} builds names with ##"
        )
    elif word in DENIED and root not in ROOTS:
        yield Item(DENIED[word], _statement(found, k), token.line, f"`{_shown(found, k)}`: {_WHAT[DENIED[word]]}")
    elif kind := denied_cuda(word):
        yield Item(kind, _statement(found, k), token.line, f"`{_shown(found, k)}`: {_WHAT[kind]}")
    elif word in AMBIGUOUS and _means_the_system(found, k, root, call, names, around):
        kind = AMBIGUOUS[word]
        yield Item(
            kind,
            _statement(found, k),
            token.line,
            f"`{_shown(found, k)}` could mean the system's {word}: {_WHAT[kind]}, and what means something else needs another name",
        )
    elif root == "std" and _text(found, k - 2) == "std" and word not in STANDARD | _SUB_SPACES and not allowed(word):
        yield Item(
            "name", _statement(found, k), token.line, f"`std::{word}` is not among what may be used of the C++ library"
        )
    elif call and word in around.reaching and not _declares(found, k, names, around):
        kind = around.reaching[word]
        yield Item(
            kind, _statement(found, k), token.line, f"`{_shown(found, k)}`: {word} reaches further ({_WHAT[kind]})"
        )


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
    found: tuple[Token, ...], k: int, root: str | None, call: bool, names: Declared, around: Surroundings
) -> bool:
    word = found[k].text
    if root is not None:
        return root == "" or (root == "std" and word not in STANDARD)
    if _declares(found, k, names, around):
        return False
    if call:
        return word not in around.defined
    return word not in names.values


def _member(found: tuple[Token, ...], k: int) -> bool:
    return _text(found, k - 1) in (".", "->", ".*", "->*")


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
        return before.text not in _BEFORE_CALL and before.text not in names.macros and before.text not in around.macros
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


def _assembly(found: tuple[Token, ...], k: int, on_device: bool) -> str:
    """What is wrong with inline assembly, "" when it is PTX that device code may use."""
    if not on_device or found[k].directive:
        return "inline assembly stands in device functions only"
    at = k + 1
    while _text(found, at) in ("volatile", "__volatile__", "inline"):
        at += 1
    if _text(found, at) != "(":
        return 'inline assembly must be asm("...")'
    end = balanced(found, at)
    text = ""
    for token in found[at + 1 : end - 1]:
        if token.text == ":":
            break
        if token.kind != "string":
            return "the text of inline assembly must be written out as strings"
        text += literal(token)
    if _REGISTERS.search(text):
        return "inline assembly may not read clocks or where it runs"
    for statement in re.split(r"[;\n{}]", re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)):
        words = re.sub(r"^\s*(?:\$?\w+(?:%=)?:(?!:)\s*)?(?:@!?[%\w]+\s+)?", "", statement).split()
        if not words or words[0] == ".reg":
            continue
        if words[0].split(".")[0] not in PTX:
            return f"inline assembly `{words[0][:30]}` is not arithmetic or memory of the kernel"
    return ""


# ------------------------------------------------------------------------------------------------------------------ names


def _names(text: bytes, around: Surroundings, names: Declared) -> list[Item]:
    """Names that neither the program, nor the language, nor CUDA's device code has."""
    found = tokens(text)
    unknown: dict[str, Item] = {}
    for k, token in enumerate(found):
        word = token.text
        if token.kind != "word" or word in unknown or word in DENIED or word in AMBIGUOUS or denied_cuda(word):
            continue
        if token.directive and (k == 0 or found[k - 1].text == "#"):
            continue
        if _member(found, k) or allowed(word) or word in STANDARD or word in around.words or word in ATTRIBUTES:
            continue
        root = _root(found, k)
        if (
            root in ROOTS
            or names.aliases.get(root or "") in ROOTS
            or (root == "std" and word in _SUB_SPACES)
            or _under(found, k)
        ):
            continue
        if word in names.values and not (
            _text(found, k + 1) == "(" and word not in names.called and not _declares(found, k, names, around)
        ):
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
