"""Numbers, characters and strings to Python values."""

from __future__ import annotations

import re

_SUFFIX = re.compile(r"[uUlLzZ]+$")
_FLOAT_SUFFIX = re.compile(r"[fFlL]+$|(?:bf16|f16|f32|f64|h)$", re.IGNORECASE)
_LARGEST = (1 << 64) - 1  # of an integer type: what is larger has no type, and is no number to compute with
_ESCAPE = re.compile(
    r"\\(?:x(?:([0-9a-fA-F]+)|\{([0-9a-fA-F]+)\})|u(?:([0-9a-fA-F]{4})|\{([0-9a-fA-F]+)\})|U([0-9a-fA-F]{8})"
    r"|([0-7]{1,3})|o\{([0-7]+)\}|(\r?\n)|(.))",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_NO_CHARACTER = "\ufffd"


def number(text: str) -> int | float | None:
    """The value of a number literal, or None when it is not one (a user-defined suffix, broken text) or fits no type."""
    if len(text) < 19 and text.isdecimal() and text.isascii() and (text[0] != "0" or text == "0"):
        return int(text)
    if not text.isascii() or "_" in text:  # Python reads digits of all scripts, and 1_000
        return None
    plain = text.replace("'", "")
    lower = plain.lower()
    try:
        if lower.startswith("0x"):
            if "p" in lower or "." in lower:
                return float.fromhex(_FLOAT_SUFFIX.sub("", plain) if "p" in lower else plain)
            return _fitting(int(_SUFFIX.sub("", plain), 16))
        if lower.startswith("0b"):
            return _fitting(int(_SUFFIX.sub("", plain), 0))
        if "." in plain or "e" in lower:
            return float(_FLOAT_SUFFIX.sub("", plain))
        if lower.endswith("f"):
            return float(plain[:-1])
        digits = _SUFFIX.sub("", plain)
        return _fitting(int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits))
    except (ValueError, OverflowError):
        return None


def _fitting(value: int) -> int | None:
    return value if -_LARGEST <= value <= _LARGEST else None


def string(text: str) -> str:
    """The value of one string literal, prefix and quotes included. What is no character, such as half a surrogate pair, is
    U+FFFD."""
    quote = text.find('"')
    if quote > 0 and text[quote - 1] == "R":
        opening = text.find("(", quote)
        closing = text.rfind(")")
        return text[opening + 1 : closing] if opening >= 0 and closing > opening else ""
    return _unescaped(text, quote, '"')


def character(text: str) -> int:
    """The code of a character literal; 0 when it is empty."""
    body = _unescaped(text, text.find("'"), "'")
    return ord(body[0]) if body else 0


def _unescaped(text: str, quote: int, mark: str) -> str:
    body = text[quote + 1 : -1] if text.endswith(mark) and len(text) > quote + 1 else text[quote + 1 :]
    return _ESCAPE.sub(_unescape, body) if "\\" in body else body


def _unescape(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3] or match[4] or match[5]
    octal = match[6] or match[7]
    if hexadecimal or octal:
        code = int(hexadecimal, 16) if hexadecimal else int(octal, 8)
        return chr(code) if code < 0xD800 or 0xDFFF < code <= 0x10FFFF else _NO_CHARACTER
    other = match[9]
    return _ESCAPES.get(other, other) if other else ""  # a continued line
