"""Numbers as people write them: digits with separators and exponents, English words, Chinese numerals. Exact, as Decimal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from stitchcuda.analysis.contract.intent.reading import pattern_of

_POWER = r"(?:\^\s*\(?\s*(?P<{0}>[+-]?\d{{1,3}})\s*\)?|(?P<{1}>[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{{1,3}}))"
_DIGITS = pattern_of(
    r"(?<![a-z0-9_.])(?<!\d,)(?P<sign>(?:(?<=[\s(=<>≤≥:~])|^)[+-])?"
    r"(?:10" + _POWER.format("p1", "s1") + r"|"
    r"(?P<digits>\d{1,3}(?:[, ]\d{3})+(?![\d,])(?:\.\d+)?|\d+(?:,\d+)+|\d[\d_]*(?:\.\d+)?|\.\d+)"
    r"(?:e(?P<e>[+-]?\d{1,3})(?![\d]))?"
    r"(?:\s*[x×*·]\s*10" + _POWER.format("p2", "s2") + r")?)"
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_THOUSANDS = pattern_of(r"\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?")

_WORDS = {
    word: value
    for value, words in {
        0: "zero", 1: "one single", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine",
        10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen", 14: "fourteen", 15: "fifteen", 16: "sixteen",
        17: "seventeen", 18: "eighteen", 19: "nineteen", 20: "twenty", 30: "thirty", 40: "forty", 50: "fifty",
        60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety",
    }.items()
    for word in words.split()
}  # fmt: skip
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_WORD = "|".join(sorted((*_WORDS, *_SCALES), key=len, reverse=True))
_ENGLISH = pattern_of(
    rf"(?<![a-z0-9_-])(?:a (?=hundred|thousand|million))?(?:{_WORD})(?:[ -](?:and )?(?:{_WORD}))*(?![a-z0-9_])"
)

_CHINESE_DIGITS = {character: k for k, character in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "俩": 2}
_CHINESE_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8}
_CHINESE = pattern_of(
    r"[百千万]分之(?:[一二两三四五六七八九十]+(?:点[零一二三四五六七八九]+)?|\d+(?:\.\d+)?)|一半|[零〇一二两三四五六七八九十百千万亿]+(?:点[零〇一二三四五六七八九]+)?|半(?=个?(?:毫秒|微秒|秒|小时|分钟))"
)
_AFTER_DIGITS = pattern_of(
    r"\s*(百万|千万|百亿|千亿|十万|万亿|万|亿|千|百|k(?![a-z0-9_])|million|thousand|billion)(?!字节)"
)
_AFTER_VALUES = {
    "百万": 10**6, "千万": 10**7, "百亿": 10**10, "千亿": 10**11, "十万": 10**5, "万亿": 10**12, "万": 10**4, "亿": 10**8,
    "千": 1000, "百": 100, "k": 1000, "million": 10**6, "thousand": 1000, "billion": 10**9,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Number:
    """`value` is None where the digits can be read in several ways ("1,5"). `spelled`: in words, which are only a number
    before a unit."""

    start: int
    end: int
    value: Decimal | None
    spelled: bool = False


def find_numbers(text: str) -> list[Number]:
    """All numbers, in the order of the text; `text` in one spelling."""
    found = [_digits(text, match) for match in _DIGITS.finditer(text)]
    for pattern, read in ((_ENGLISH, _english), (_CHINESE, _chinese)):
        for match in pattern.finditer(text):
            share = match[0] == "一半" or "分之" in match[0]
            overlaps = [n for n in found if n.start < match.end() and match.start() < n.end]
            if share:
                found = [n for n in found if n not in overlaps]
            elif overlaps:
                continue
            found.append(Number(match.start(), match.end(), read(match[0]), not share))
    return sorted(found, key=lambda number: number.start)


def _digits(text: str, match: re.Match[str]) -> Number:
    digits, end = match["digits"], match.end()
    exponent = sum(int(g.translate(_SUPERSCRIPTS)) for g in (match[n] for n in ("p1", "s1", "p2", "s2", "e")) if g)
    if digits is None:
        value: Decimal | None = Decimal(1)
    elif "," in digits or " " in digits:
        value = Decimal(digits.replace(",", "").replace(" ", "")) if _THOUSANDS.fullmatch(digits) else None
    else:
        value = Decimal(digits.replace("_", ""))
    if value is not None:
        value = _scaled(-value if match["sign"] == "-" else value, exponent)
    if after := _AFTER_DIGITS.match(text, end):
        value, end = None if value is None else value * _AFTER_VALUES[after[1]], after.end()
    return Number(match.start(), end, value)


def _scaled(value: Decimal, exponent: int) -> Decimal | None:
    """None beyond what a physical quantity can be (and a float can hold)."""
    return value.scaleb(exponent) if value == 0 or -90 < value.adjusted() + exponent < 90 else None


def _english(words: str) -> Decimal | None:
    total = current = Decimal(0)
    for word in re.split(r"(?a)[ -]", words):
        if word in _WORDS:
            current += _WORDS[word]
        elif word == "hundred":
            current = max(current, Decimal(1)) * 100
        elif word in _SCALES:
            total, current = total + max(current, Decimal(1)) * _SCALES[word], Decimal(0)
    return total + current


def _chinese(characters: str) -> Decimal | None:
    if characters == "一半":
        return Decimal("0.5")
    whole, divided, part = characters.partition("分之")
    if not divided:
        return chinese_number(characters)
    value = Decimal(part) if part[0].isdecimal() else chinese_number(part)
    return None if value is None else value / _CHINESE_SCALES[whole]


def chinese_number(characters: str) -> Decimal | None:
    """八 -> 8, 一百二十 -> 120, 两万 -> 20000, 零点五 -> 0.5; None where the characters are no number (一百三百)."""
    if characters == "半":
        return Decimal("0.5")
    whole, _, fraction = characters.partition("点")
    if fraction:
        tail = "".join(str(_CHINESE_DIGITS[c]) for c in fraction)
        front = chinese_number(whole)
        return None if front is None else front + Decimal(f"0.{tail}")
    if all(c in _CHINESE_DIGITS for c in whole):
        return Decimal("".join(str(_CHINESE_DIGITS[c]) for c in whole)) if len(whole) < 20 else None
    total = section = digit = 0
    last = 10**9
    for c in whole:
        if c in _CHINESE_DIGITS:
            if digit:
                return None
            digit = _CHINESE_DIGITS[c]
            continue
        scale = _CHINESE_SCALES[c]
        if scale >= 10**4:
            total, section, digit, last = (total + section + digit) * scale, 0, 0, scale
            continue
        if scale >= last:
            return None
        section, digit, last = section + (digit or 1) * scale, 0, scale
    return Decimal(total + section + digit)
