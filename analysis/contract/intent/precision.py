"""Precisions that may and may not be used: "fp32 only", "no tf32", 不要用半精度."""

from __future__ import annotations

from stitchcuda.analysis.contract.intent import clauses as speech
from stitchcuda.analysis.contract.intent.clauses import Clause
from stitchcuda.analysis.contract.intent.polarity import polarity, speaks_for_itself
from stitchcuda.analysis.contract.intent.reading import Found, Reading, Span, pattern_of

_NAMES = {
    "fp64": r"fp-?64|float-?64|f64|double[- ]precision|双精度(?:浮点数?)?",
    "tf32": r"tf-?32|tensor ?float-?(?:32)?",
    "fp32": r"fp-?32|float-?32|f32|single[- ]precision|单精度(?:浮点数?)?|full[- ]precision|全精度",
    "bf16": r"bf-?16|bfloat-?16|brain float(?: 16)?",
    "fp16": r"fp-?16|float-?16|f16|half[- ]precision|(?:(?<=use )|(?<=using )|(?<=no )|(?<=without ))half(?: floats?)?(?!\s+(?:the|of|as|a)\b)|半精度(?:浮点数?)?",
    "fp8": r"fp-?8|float-?8|e4m3|e5m2",
    "int8": r"int-?8|i8|8-bit integers?|8位整数",
}
_NAME = "|".join(f"(?P<{name}>{pattern})" for name, pattern in _NAMES.items())
_ONE = pattern_of(rf"(?<![a-z0-9_])(?:{_NAME})(?![a-z0-9_])")
_BETWEEN = pattern_of(
    r"\s*(?:[,、，/&+]|\bor\b|\band\b|\bnor\b|和|或者?|与|及|以及|,\s*(?:or|and|nor))?\s*(?:even\s+|any\s+)?"
)
_ORDER = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
_NOT_BELOW = pattern_of(
    r"(?:\b(?:no(?:thing|t)?|never)\s+(?:precisions? |be |go |drop )?(?:lower|less|below|under)(?: than)?|\b(?:at least))\s*$|(?:不(?:能|得|要)?低于|至少)\s*(?:用|是|为)?\s*$"
)
_QUANTIZE = pattern_of(r"\bquanti[sz](?:e|ed|ing|ation)\b|量化")
_MIXED = pattern_of(r"\b(?:mixed|reduced|lower|low)[- ]precision\b|混合精度|低精度|更低(?:的)?精度")


def read_precision(reading: Reading, parts: list[Clause]) -> tuple[list[Found[str]], list[Found[str]]]:
    """What may be used and what may not."""
    allowed: list[Found[str]] = []
    forbidden: list[Found[str]] = []
    for group in _groups(reading):
        span = (group[0].span[0], group[-1].span[1])
        clause = speech.joined(parts, span)
        if clause is None:
            continue
        clause = Clause(clause.start, max(clause.end, _clause_end(parts, span)), clause.joiner, clause.question)
        if _NOT_BELOW.search(reading.text, max(clause.start, span[0] - 24), span[0]) and len(group) == 1:
            start = _NOT_BELOW.search(reading.text, max(clause.start, span[0] - 24), span[0])
            place = (start.start() if start else span[0], span[1])
            reading.take(place)
            forbidden += [Found(name, place) for name in _ORDER[_ORDER.index(group[0].value) + 1 :]]
            continue
        side = (
            None
            if clause.question or speech.CONDITION.search(reading.text, clause.start, span[0])
            else polarity(reading.text, clause, span)
        )
        if side is None:
            continue
        for one in group:
            reading.take(one.span)
        (allowed if side == "allow" else forbidden).extend(group)
    for match in list(reading.matches(_QUANTIZE)):
        clause = speech.joined(parts, match.span())
        if _ONE.search(reading.text, max(0, match.start() - 8), match.start()):
            continue  # "no int8 quantization" says which
        if clause is not None and polarity(reading.text, clause, match.span()) == "forbid":
            reading.take(match.span())
            forbidden += [
                Found(name, match.span()) for name in ("fp8", "int8") if name not in [f.value for f in forbidden]
            ]
    for match in list(reading.matches(_MIXED)):
        clause = speech.joined(parts, match.span())
        if clause is not None and not clause.question and polarity(reading.text, clause, match.span()) == "allow":
            reading.take(match.span())
            reading.ask(
                "precision",
                f"Which precisions does {reading.words(match.span())!r} allow?",
                "tf32",
                "fp16",
                "bf16",
                "fp8",
                "int8",
            )
    return _without_contradictions(reading, allowed, forbidden)


def _clause_end(parts: list[Clause], span: Span) -> int:
    return next((part.end for part in parts if part.start < span[1] <= part.end), span[1])


def _groups(reading: Reading) -> list[list[Found[str]]]:
    """Names that a comma or an "or" lists together."""
    groups: list[list[Found[str]]] = []
    for match in reading.matches(_ONE):
        one = Found(str(match.lastgroup), match.span())
        between = _BETWEEN.fullmatch(reading.text, groups[-1][-1].span[1], match.start()) if groups else None
        if between and not (between[0].strip() in (",", "，") and speaks_for_itself(reading.text, match.end())):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _without_contradictions(
    reading: Reading, allowed: list[Found[str]], forbidden: list[Found[str]]
) -> tuple[list[Found[str]], list[Found[str]]]:
    both = {one.value for one in allowed} & {one.value for one in forbidden}
    for name in sorted(both):
        reading.ask("precision", f"May {name} be used? The request says both.", "yes", "no")
    return _once(allowed, both), _once(forbidden, both)


def _once(found: list[Found[str]], left_out: set[str]) -> list[Found[str]]:
    kept: dict[str, Found[str]] = {}
    for one in found:
        if one.value not in left_out:
            kept.setdefault(one.value, one)
    return list(kept.values())
