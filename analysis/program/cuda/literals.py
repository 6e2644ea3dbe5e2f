"""Numbers, characters and strings to Python values."""

from __future__ import annotations

import re

_SUFFIX = re.compile(r"[uUlLzZ]+$")
_FLOAT_SUFFIX = re.compile(r"[fFlL]+$|(?:bf16|f16|f32|f64|h)$", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]+|[0-7]{1,3}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def number(text: str) -> int | float | None:
    """The value of a number literal, or None when it is not one (a user-defined suffix, broken text)."""
    if len(text) < 19 and text.isdecimal() and text.isascii() and (text[0] != "0" or text == "0"):
        return int(text)
    plain = text.replace("'", "")
    lower = plain.lower()
    try:
        if lower.startswith("0x"):
            if "p" in lower or "." in lower:
                return float.fromhex(_FLOAT_SUFFIX.sub("", plain) if "p" in lower else plain)
            return int(_SUFFIX.sub("", plain), 16)
        if lower.startswith("0b"):
            return int(_SUFFIX.sub("", plain), 0)
        if "." in plain or "e" in lower:
            return float(_FLOAT_SUFFIX.sub("", plain))
        if lower.endswith("f"):
            return float(plain[:-1])
        digits = _SUFFIX.sub("", plain)
        return int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits)
    except (ValueError, OverflowError):
        return None


def string(text: str) -> str:
    """The value of one string literal, prefix and quotes included."""
    quote = text.find('"')
    if quote > 0 and text[quote - 1] == "R":
        opening = text.find("(", quote)
        closing = text.rfind(")")
        return text[opening + 1 : closing] if opening >= 0 and closing > opening else ""
    body = text[quote + 1 : -1] if text.endswith('"') and len(text) > quote + 1 else text[quote + 1 :]
    return _ESCAPE.sub(_unescape, body) if "\\" in body else body


def character(text: str) -> int:
    """The code of a character literal."""
    body = string(text.replace("'", '"'))
    return ord(body[0]) if body else 0


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] == "x":
        return chr(int(code[1:], 16) & 0x10FFFF)
    if code[0] == "u" and len(code) == 5:
        return chr(int(code[1:], 16))
    if code[0].isdigit() and code != "0":
        return chr(int(code, 8)) if all(c in "01234567" for c in code) else code
    return _ESCAPES.get(code, code)
