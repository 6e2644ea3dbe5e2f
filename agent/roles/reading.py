"""Replies to values: JSON as models write it, then a strict check of every field.

What is forgiven: a byte-order mark, code fences and prose around the object, comments, trailing commas, line ends inside strings.
What is not, because it would have to be guessed: an object that is cut off, a key that stands twice, two different answers.
Nothing in a reply is executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from stitchcuda.agent.model.messages import Finish, Reply
from stitchcuda.agent.roles.answers import Malformed
from stitchcuda.analysis.contract.jsonread import SchemaError

T = TypeVar("T")
MOST = 1_000_000  # characters of a reply
DEEPEST = 40  # objects and lists inside each other
_TRIES = 200  # places at which an object may begin
_BLANK = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|#[^\n]*)*")
_COMMENT = 10_000  # characters of a comment between /* and */
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,99})(?:\.\d{1,99})?(?:[eE][+-]?\d{1,3})?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_]\w{0,30}")
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_VALUES: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_THOUGHT = "</think>"
_AROUND = 30  # characters shown on each side of an error


class NotJson(Exception):
    """What stands here is no JSON. `at` is the place in the text; `cut` when only the end of it is missing."""

    def __init__(self, what: str, at: int, *, cut: bool = False) -> None:
        super().__init__(what)
        self.what, self.at, self.cut = what, at, cut


def read_reply(reply: Reply, read: Callable[[object], T]) -> T | Malformed:
    """The reply's answer, made by `read` from a JSON object; `read` raises SchemaError for what does not fit."""
    if reply.finish is Finish.REFUSED:
        return Malformed("the model refuses to answer", "The answer is a JSON object of the given form, nothing else.")
    text = reply.text
    if len(text) > MOST:
        return Malformed(
            f"the reply has {len(text)} characters", f"The answer has more than {MOST} characters. Change less at once."
        )
    if not text.strip("\ufeff \t\r\n\0"):
        return Malformed("the reply is empty", "The answer is empty. It must be a JSON object of the given form.")
    thought, _, said = text.rpartition(_THOUGHT)
    if thought and "{" in said:
        text = said  # drafts in what a reasoning model thinks aloud are no answers
    found, problem = objects(text)
    if not found:
        cut = reply.finish is Finish.LENGTH or (problem is not None and problem.cut)
        if cut:
            return Malformed(
                "the reply is cut off",
                "The answer is cut off: its JSON object has no end. Answer shorter: change less.",
            )
        where = _where(text, problem)
        return Malformed(f"the reply holds no JSON object{where}", f"The answer holds no JSON object{where}.")
    answers: list[T] = []
    wrong: SchemaError | None = None
    for value in found:
        try:
            answer = read(value)
        except SchemaError as error:
            wrong = wrong or error
            continue
        if answer not in answers:
            answers.append(answer)
    if len(answers) == 1:
        return answers[0]
    if answers:
        return Malformed(
            f"the reply holds {len(answers)} answers",
            f"There are {len(answers)} different answers. Give one JSON object.",
        )
    if reply.finish is Finish.LENGTH:
        return Malformed("the reply is cut off", "The answer is cut off. Answer shorter: change less.")
    return Malformed(f"a field of the reply is wrong: {wrong}", f"The answer does not have the given form. {wrong}.")


def _where(text: str, problem: NotJson | None) -> str:
    if problem is None:
        return ""
    shown = text[max(0, problem.at - _AROUND) : problem.at + _AROUND]
    line = text.count("\n", 0, problem.at) + 1
    return f": line {line}, {problem.what}, near {shown!r}"


def objects(text: str) -> tuple[list[dict[str, Any]], NotJson | None]:
    """All JSON objects of a text that do not stand inside another one; of what is none, the error that came furthest."""
    found: list[dict[str, Any]] = []
    furthest: NotJson | None = None
    at = text.find("{")
    for _ in range(_TRIES):
        if at < 0:
            break
        try:
            value, after = _Parser(text).value(at, 0)
        except NotJson as error:
            # An object that runs to the end hides what stands inside it: its parts are no answers.
            if furthest is None or error.at > furthest.at or error.cut:
                furthest = error
            if error.cut and _looks_like_json(text, at):
                break
            at = text.find("{", at + 1)
            continue
        found.append(value)
        at = text.find("{", after)
    return found, furthest


def _looks_like_json(text: str, at: int) -> bool:
    """`{` and a key, not the brace of a piece of code."""
    return re.match(r'\{\s*(?:"|$)', text[at : at + 200]) is not None


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        """The value that begins at `at`, and where it ends. Raises NotJson."""
        text = self.text
        first = text[at : at + 1]
        if first == "":
            raise NotJson("the text ends", at, cut=True)
        if first in "{[":
            if depth >= DEEPEST:
                raise NotJson(f"more than {DEEPEST} objects and lists inside each other", at)
            return self._object(at, depth) if first == "{" else self._list(at, depth)
        if first == '"':
            return self._string(at)
        if word := _WORD.match(text, at):
            if word[0] in _VALUES:
                return _VALUES[word[0]], word.end()
            cut = word.end() == len(text) and any(known.startswith(word[0]) for known in _VALUES)
            raise NotJson(f"{word[0]} is no JSON value", at, cut=cut)
        if number := _NUMBER.match(text, at):
            digits = number[0]
            value = int(digits) if re.fullmatch(r"-?\d+", digits) else float(digits)
            if value in (float("inf"), float("-inf")):
                raise NotJson(f"{digits} is too large", at)
            return value, number.end()
        raise NotJson(f"{first!r} begins no JSON value", at)

    def _blank(self, at: int) -> int:
        """Past blanks and comments."""
        while True:
            match = _BLANK.match(self.text, at)
            at = match.end() if match else at
            end = self.text.find("*/", at + 2, at + _COMMENT) if self.text.startswith("/*", at) else -1
            if end < 0:
                return at
            at = end + 2

    def _next(self, at: int, closing: str) -> tuple[bool, int]:
        """Past a comma; True when the object or list ends here."""
        at = self._blank(at)
        here = self.text[at : at + 1]
        if here == closing:
            return True, at + 1
        if here != ",":
            raise NotJson(f"expected a comma or {closing}", at, cut=here == "")
        at = self._blank(at + 1)
        return (True, at + 1) if self.text[at : at + 1] == closing else (False, at)

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        out: dict[str, Any] = {}
        at = self._blank(at + 1)
        if self.text[at : at + 1] == "}":
            return out, at + 1
        while True:
            if self.text[at : at + 1] != '"':
                raise NotJson("expected a key in double quotes", at, cut=at >= len(self.text))
            start = at
            key, at = self._string(at)
            at = self._blank(at)
            if self.text[at : at + 1] != ":":
                raise NotJson("expected a colon", at, cut=at >= len(self.text))
            if key in out:
                raise NotJson(f"the key {key[:40]!r} stands twice", start)
            out[key], at = self.value(self._blank(at + 1), depth + 1)
            ended, at = self._next(at, "}")
            if ended:
                return out, at

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        out: list[Any] = []
        at = self._blank(at + 1)
        if self.text[at : at + 1] == "]":
            return out, at + 1
        while True:
            value, at = self.value(at, depth + 1)
            out.append(value)
            ended, at = self._next(at, "]")
            if ended:
                return out, at

    def _string(self, at: int) -> tuple[str, int]:
        text, parts = self.text, []
        at += 1
        while True:
            if plain := _PLAIN.match(text, at):
                parts.append(plain[0])
                at = plain.end()
            here = text[at : at + 2]
            if len(here) < 2 and here != '"':
                raise NotJson("a string does not end", at, cut=True)
            if here[0] == '"':
                return self._whole("".join(parts), at), at + 1
            if here[1] == "u":
                digits = text[at + 2 : at + 6]
                if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                    raise NotJson(f"\\u{digits} is no character", at, cut=len(digits) < 4)
                parts.append(chr(int(digits, 16)))
                at += 6
            elif here[1] in _ESCAPES:
                parts.append(_ESCAPES[here[1]])
                at += 2
            else:
                raise NotJson(f"{here} is no escape; a backslash in a string is written \\\\", at)

    def _whole(self, value: str, at: int) -> str:
        """Pairs of surrogates as the characters that they are."""
        try:
            value = value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise NotJson("half a character: a surrogate stands alone", at) from None
        if "\0" in value:
            raise NotJson("the character \\u0000 cannot stand in a text", at)
        return value
