"""Units after a number, with their factor to the SI base unit of their dimension."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from stitchcuda.analysis.contract.intent.reading import pattern_of

TIME, BYTES, RATE, PERCENT, TIMES, OTHER = "time", "bytes", "rate", "percent", "times", "other"

_TIME = {
    "1e-9": r"nano-?seconds?|nanos|nsecs?|ns|纳秒",
    "1e-6": r"micro-?seconds?|micros|μs|us|μsecs?|usecs?|微秒|㎲",
    "1e-3": r"milli-?seconds?|millis|msecs?|ms|毫秒|㎳",
    "1": r"seconds?|secs?|s|秒钟?",
    "60": r"minutes?|mins?|分钟",
    "3600": r"hours?|hrs?|h|小时",
    "86400": r"days?|天",
}
_BYTES = {
    "1": r"bytes?|字节|b",
    "1e3": r"kb|kilo-?bytes?|千字节",
    "1e6": r"mb|mega-?bytes?|兆字节",
    "1e9": r"gb|giga-?bytes?|吉字节",
    "1e12": r"tb|tera-?bytes?|太字节",
    str(2**10): r"kib|kibi-?bytes?",
    str(2**20): r"mib|mebi-?bytes?",
    str(2**30): r"gib|gibi-?bytes?",
    str(2**40): r"tib|tebi-?bytes?",
}
_END = r"(?![a-z0-9_])"
_GAP = r"(?:\s{0,3}-?\s{0,3})"
_PERIOD = (
    r"(?:(?P<p_ms>ms|millisecond|毫秒)|(?P<p_s>s|secs?|seconds?|秒钟?)|(?P<p_min>minutes?|mins?|分钟?)|(?P<p_hour>hours?|hr|h|小时))"
    + _END
)
COUNTED = (
    r"(?:张|帧|个|次|条|件|份|批|步|幅|样本|样例|请求|图像|图片|图|推理|token|tokens|frames|images|粒子|点|行|组|对)"
)
_NOT_AN_ITEM = (
    r"(?!(?:of|or|and|in|at|on|per|a|an|each|every|the|to|with|for|x|times|ms|us|ns|s|sec|seconds?|percent)\b)"
)
_ITEM = rf"{_NOT_AN_ITEM}[a-z][a-z-]*"
_RATE = (
    (rf"{_GAP}(?:fps|qps|rps|tps|ips|hz|it/s)" + _END, None),
    (rf"{_GAP}khz" + _END, "1000"),
    (rf"{_GAP}mhz" + _END, "1000000"),
    (rf"\s*(?:/|per|每)\s*{_PERIOD}", None),
    (
        rf"\s*(?P<m>m(?=[ -]))?{_GAP}{_ITEM}(?:\s+{_ITEM})?\s*(?:/|\bper\b|\ba\b|\beach\b|\bevery\b|每)\s*{_PERIOD}",
        None,
    ),
    (rf"\s*{COUNTED}(?:[\u3400-\u9fff]{{0,3}}?|\s*[a-z]+)\s*(?:/|每)\s*{_PERIOD}", None),
)
_OTHER = pattern_of(
    rf"{_GAP}(?:[kmgtp]?(?:i?b|bytes?|bits?)\s*(?:/|per)\s*s(?:ec(?:ond)?)?|[kmgt]b?ps|[kmgtp]?flops?(?:\s*(?:/|per)\s*s(?:ec(?:ond)?)?)?"
    rf"|[gt]?ops(?:/s)?|watts?|w|joules?|j|cycles?|registers?|个百分点|percentage points?|ulps?|decimals?|digits?"
    rf"|[kmgt]bits?|db|°c)" + _END
)
_PERCENT = pattern_of(r"\s*(?:%|percent\b|per cent\b|pct\b)")
_TIMES = pattern_of(r"(?:\s*-?\s*(?:x|×)(?![a-z0-9_])|\s*times\b|\s*-?\s*fold\b|\s*倍)")
_BARE = pattern_of(r"\s*(?:个\s*)?(?P<bare>[mgtk]|兆)(?![a-z0-9_/])")


@dataclass(frozen=True, slots=True)
class Unit:
    """`factor`: times the number gives the SI base unit. `doubt`: why the unit cannot be relied on, else empty."""

    dimension: str
    factor: Decimal
    end: int
    doubt: str = ""


def _table(dimension: str, rows: dict[str, str]) -> list[tuple[re.Pattern[str], str, Decimal]]:
    return [
        (pattern_of(rf"{_GAP}(?:个)?(?:{spelling}){_END}"), dimension, Decimal(factor))
        for factor, spelling in rows.items()
    ]


_SIMPLE = _table(TIME, _TIME) + _table(BYTES, _BYTES)
_RATES = [(pattern_of(pattern), None if factor is None else Decimal(factor)) for pattern, factor in _RATE]
_EACH = pattern_of(
    r"\s*(?:/|per |a |each |every |每)\s*(?:frame|image|batch|iteration|call|request|step|token|sample|inference|query|invocation|帧|张图?|次|批|步)s?"
    + _END
)


def unit_at(text: str, raw: str, at: int) -> Unit | None:
    """The unit that stands at `at`, after a number; None where there is none."""
    if match := _OTHER.match(text, at):
        return Unit(OTHER, Decimal(1), match.end())
    for pattern, factor in _RATES:
        if match := pattern.match(text, at):
            return Unit(RATE, factor if factor is not None else _rate_factor(match), match.end())
    for pattern, dimension, factor in _SIMPLE:
        if match := pattern.match(text, at):
            end = match.end()
            spelled = raw[at:end].strip(" -个")
            if dimension == BYTES and len(spelled) == 2 and spelled[0].isupper() and spelled[1] == "b":
                return Unit(BYTES, factor, end, f"{spelled} means bits: are bytes meant?")
            if dimension == TIME and (each := _EACH.match(text, end)):
                end = each.end()
            return Unit(dimension, factor, end)
    for pattern, dimension, factor in ((_PERCENT, PERCENT, Decimal("0.01")), (_TIMES, TIMES, Decimal(1))):
        if match := pattern.match(text, at):
            return Unit(dimension, factor, match.end())
    if match := _BARE.match(text, at):
        letter = {"兆": "M"}.get(match["bare"], match["bare"].upper())
        power = "KMGT".index(letter) + 1
        return Unit(BYTES, Decimal(1000) ** power, match.end(), f"{letter}B or {letter}iB?")
    return None


def _rate_factor(match: re.Match[str]) -> Decimal:
    groups = match.groupdict()
    factor = Decimal(10**6) if groups.get("m") else Decimal(1)
    if groups.get("p_ms"):
        return factor * 1000
    if groups.get("p_min"):
        return factor / 60
    if groups.get("p_hour"):
        return factor / 3600
    return factor
