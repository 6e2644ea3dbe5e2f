"""Comparisons before and after a value: "under", "no more than", 不超过, "or less", 以内."""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.analysis.contract.intent.reading import pattern_of

FLIPPED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "better": "worse=", "worse": "better="}

_EN_UP_TO = r"max(?:imum)?(?: of)?|cap(?:ped)? (?:at|to)|limit(?:ed)? (?:it |them )?(?:to|of)|upper (?:bound|limit)(?: of| is)?|ceiling(?: of)?|(?:budget|deadline|limit|cap)(?: of| is)?"
_TABLE = (
    ("<=", r"<\s*=|≤|=<|less than or equal to|lower than or equal to|smaller than or equal to|fewer than or equal to|小于等于|小于或等于|低于或等于|不多于"),
    (">=", r">\s*=|≥|=>|greater than or equal to|more than or equal to|higher than or equal to|larger than or equal to|大于等于|大于或等于|高于或等于"),
    ("<", r"<|\b(?:strictly )?(?:under|below|beneath|less than|lower than|fewer than|smaller than|shorter than|faster than|quicker than|beats?|beating)\b|\bsub\b-?|低于|小于|少于|短于|快于|不到|不足|低过|小过|压进"),
    (">", r">|\b(?:strictly )?(?:over|above|more than|greater than|higher than|larger than|bigger than|longer than|slower than|exceed(?:s|ing|ed)?|in excess of|north of|surpass(?:es|ing)?|go over|goes over)\b|高于|大于|多于|超过|超出|长于|慢于|高出|突破|高过|大过"),
    ("<=", rf"\b(?:at most|at the most|up to|within|not to exceed|{_EN_UP_TO})\b|最多|至多|顶多|最高|最大|最慢|最长|上限|控制在|控制到|限制在|限制为|限制到|限定在|封顶|压在"),
    (">=", r"\b(?:at least|at the very least|min(?:imum)?(?: of)?|lower bound(?: of)?|floor(?: of)?|upwards of|or more than)\b|至少|最少|起码|最低|最小|下限|不下"),
    ("better", r"\bbetter than\b|优于|好于|胜过"),
    ("worse", r"\bworse than\b|差于|逊于|劣于"),
)  # fmt: skip
_PATTERN = pattern_of("|".join(f"(?P<r{k}>{pattern})" for k, (_, pattern) in enumerate(_TABLE)))

FILLER = (
    r"(?:\s|\"|'|`|\(|\[|:|=|≈|~|,|\b(?:the|a|an|of|about|around|roughly|approximately|approx|just|only|total|by|to|at|equal to|is|be|was|mean|average|avg|median|p\d+(?:\.\d+)?|latency|target|some|real|its|gpu|device|memory|every|each|worst-case|on|single|using)\b"
    r"|每(?:秒钟?|分钟)|约|大约|大概|在|到|为|是|了|原来的|平均|处理|完成|推理|跑|渲染|生成|显存|延迟|时延|总共|共|的|其|个|在于|值|目标|也|就|再){0,16}"
)
_FILLER = pattern_of(FILLER + r"$")
_NOT_BEFORE = pattern_of(
    r"(?:\b(?:not|no|never|cannot|without|nor|avoid)\b|n't\b)\s*(?:(?:be|take|taking|go|run|get|gets|use|using|requiring|needing|spending|consume|ever|any|much|become|rise|grow|drop|fall|stay|even|it|let|that|to|allowed|need|exceed|going|letting|being|fall|dip|run|cost|last|need|occupy|require|a|latency|by)\s+){0,4}$"
    r"|(?:不|别|勿|莫|未|没|没有)(?:能|得|要|可以|可|应该|应|会|允许|许|准|再|是|让它?|大|曾)?(?:长期|总是|一直)?$"
)
_AFTER = (
    ("<=", r"\s*(?:,\s*)?(?:\(?(?:or less|or fewer|or lower|or below|or under|or faster|or shorter|at most|at the most|max(?:imum)?|tops|ceiling|cap|budget|limit|deadline|upper bound)\b)"),
    (">=", r"\s*(?:,\s*)?(?:\(?(?:or more|or higher|or above|or greater|or over|at least|min(?:imum)?|plus|floor|and up|upwards)\b)"),
    ("better=", r"\s*(?:,\s*)?(?:\(?(?:or better)\b)"),
    ("<=", r"\s*(?:的)?(?:时间)?(?:以内|之内|内|或更少|或更低|或更快|或更短|或以下|封顶|上限|为限|以里)"),
    ("<", r"\s*(?:的)?(?:以下|之下|开外以下)"),
    (">=", r"\s*\+(?!\s*\d)|\s*(?:及|或)?(?:以上|之上|起步|打底|或更多|或更高|开外)"),
    ("better=", r"\s*或更好"),
)  # fmt: skip
_AFTER_PATTERNS = tuple((relation, pattern_of(pattern)) for relation, pattern in _AFTER)

TARGET = pattern_of(
    r"(?:\b(?:to|in|at|reach(?:es|ing)?|hit(?:s|ting)?|achiev(?:e|es|ing)|target(?:s|ing)?|target is|target of|goal is|goal of|goal|deliver(?:s)?|sustain(?:s|ed)?|maintain(?:s)?|push(?:es)?|do|need(?:s)?|want(?:s)?|require(?:s)?|guarantee)"
    r"|到|至|达到|达|做到|跑到|跑满|跑出|实现|满足|目标(?:值)?(?:为|是)?|要求(?:为|是)?|降为|保持|变成|缩到|稳定|需要|要)"
    + FILLER
    + r"$"
)


@dataclass(frozen=True, slots=True)
class Relation:
    """`sign`: < <= > >= or, where only the metric says which way, better, better=, worse, worse=. `negated`: by a word
    before it, already worked into the sign."""

    sign: str
    start: int
    end: int
    negated: bool = False


def before(text: str, start: int, at: int) -> Relation | None:
    """The comparison in text[start:at] that the value at `at` completes: the last one, with only small words between."""
    found = None
    position = start
    while match := _PATTERN.search(text, position, at):
        found, position = match, max(match.end(), match.start() + 1)
    if found is None or not _FILLER.fullmatch(text, found.end(), at):
        return None
    sign = _TABLE[int((found.lastgroup or "r0")[1:])][0]
    no = _NOT_BEFORE.search(text, max(start, found.start() - 48), found.start())
    if no is not None:
        return Relation(FLIPPED.get(sign, sign), no.start(), found.end(), True)
    return Relation(sign, found.start(), found.end())


def after(text: str, at: int, end: int) -> Relation | None:
    """The comparison that directly follows a value: "or less", 以内."""
    for sign, pattern in _AFTER_PATTERNS:
        if match := pattern.match(text, at, end):
            return Relation(sign, match.start(), match.end())
    return None


def resolved(sign: str, good: str) -> str:
    """The plain relation; `good` is "<" where less is better and ">" where more is."""
    bad = ">" if good == "<" else "<"
    return {"better": good, "better=": good + "=", "worse": bad, "worse=": bad + "="}.get(sign, sign)
