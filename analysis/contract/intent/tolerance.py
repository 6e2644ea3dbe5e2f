"""How equal results must be: "bitwise identical", "relative error below 1e-3", 绝对误差不超过1e-5, "same top-5"."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from stitchcuda.analysis.contract.intent import relations, units
from stitchcuda.analysis.contract.intent.clauses import Clause
from stitchcuda.analysis.contract.intent.quantities import NONE, Quantity
from stitchcuda.analysis.contract.intent.reading import Found, Reading, Span, pattern_of
from stitchcuda.analysis.contract.types import Tolerance

_ERROR = r"(?:tolerances?|tol|errors?|deviations?|differences?|diffs?|discrepanc(?:y|ies)|误差|偏差|差异|容差|误差容限|容忍度|差距|误差率)"
_RELATIVE = pattern_of(
    rf"\brtol\b|\brel(?:ative(?:ly)?)?\.?(?:[ _-]+(?:numerical |max(?:imum)? |numeric )?{_ERROR})|\b(?:{_ERROR})\s*\(?(?:of\s+)?rel(?:ative)?\b|\brelative(?:ly)?\b(?! to(?! the (?:original|reference|baseline|fp)))|相对(?!于|来说|较)"
)
_ABSOLUTE = pattern_of(
    rf"\batol\b|\babs(?:olute)?\.?(?:[ _-]+(?:numerical |max(?:imum)? |numeric )?{_ERROR})|\b(?:{_ERROR})\s*\(?(?:of\s+)?abs(?:olute)?\b|\babsolute\b(?! (?:must|max|minimum|latency|limit|value of))|绝对(?:误差|容差|偏差|差|差异|差值|值误差|容忍)|绝对(?=\s*[\d)])"
)
_WORD = pattern_of(rf"\b{_ERROR}\b|{_ERROR}|\brtol\b|\batol\b")
_WEAK = pattern_of(
    r"\b(?:match(?:es|ing)?|agree(?:s)?|differ(?:s|ing)?|deviat(?:e|es|ing)|accura(?:te|cy)|allclose|close|within|equal|identical|precise|relative|absolute|outputs?|results?|numerically|max diff)\b|一致|相差|偏离|结果|输出|相对|绝对"
)
_DIFFERS = pattern_of(r"\b(?:differ(?:s|ing)?|deviat(?:e|es|ing)|match(?:es|ing)?|agree)\b|相差|偏离")
_SAME = pattern_of(
    r"(?:不|别|不要|不能)(?:改变|影响|改动)(?:任何|计算|程序|输出|的)*(?:结果|输出|数值)|\bsame (?:results?|outputs?|numbers|values)\b|\b(?:results?|outputs?|numbers|values)\b[a-z ]{0,12}(?:\bnot|n't) (?:change|differ)\b|\bwithout changing (?:the |any )?(?:results?|outputs?)\b"
)
_FINEST = pattern_of(r"\d\s*(?:ulps?|(?:significant )?(?:decimals?|decimal places|digits)|位(?:小数|有效数字))")
_ACCURACY = pattern_of(
    r"\b(?:accuracy|map|f1|recall|psnr|top-?\d accuracy) (?:\w+ ){0,2}(?:loss|drop|degradation|decrease|within|change)|\baccuracy\b|准确率|精度(?:损失|下降|掉点)|掉点"
)
_BITWISE = pattern_of(
    r"\bbit[- ]?(?:wise|exact(?:ness|ly)?|identical|accurate|perfect|equal)\b(?:[ -](?:identical|equal|exact|equality|the same|same|reproducible|matching))?|\bbit[- ](?:for|by)[- ]bit\b(?: (?:identical|equal|the same|exact))?|\bexact(?:ly)? (?:the )?(?:same|equal|identical)(?: (?:results?|outputs?|numbers|values))?|\b(?:match(?:es|ing)?|agree) exactly\b|\bexactly match(?:es|ing)?\b|\b(?:results?|outputs?|numbers|values|logits)\b[a-z ]{0,16}\bunchanged\b|\bexact (?:results?|outputs?|match|equality)\b"
    r"|\b(?:numerically |strictly |completely |perfectly )?identical (?:results?|outputs?|numbers|values)\b|\b(?:results?|outputs?|numbers|values|logits)\b[a-z ]{0,24}\bidentical\b|\bnumerically identical\b|(?<!non-)\b(?:zero|no) (?:numerical )?(?:tolerance|error|deviation|differences?)\b(?! (?:requirement|limit|code|message|check|handling))"
    r"|逐(?:位|比特|字节|bit)(?:地)?(?:完全)?(?:一致|相同|相等|对齐|一样)?|按位(?:一致|相同|相等)|位级(?:一致|相同)?|(?:bit|比特)级(?:别)?(?:一致|相同|精确)?|完全(?:一致|相同|一样|相等)|一模一样|(?:结果|输出|数值)(?:必须|要|需要|应|应该)?(?:保持|完全)*不变|分毫不差|零误差|严格(?:一致|相等|相同)|(?:结果|输出|数值)(?:必须|要|需要?|应|应该)?(?:和|与|跟)?(?:原来|原版|原程序|基线|之前|现在)?的?(?:保持)?(?:一致|一样|相同)(?=\s*(?:$|[,;!?，。]))"
)
_TOP = pattern_of(
    r"(?<![a-z0-9])top[- ]?(?P<k>\d{1,4}|one|five|ten)(?![a-z0-9%])(?: (?:predictions?|classes|class|labels?|results?|accuracy))?|\b(?:same|identical) (?P<best>\d{1,3}) best\b|前(?P<ck>\d{1,3}|[一二三四五六七八九十])(?:个|名)?(?:类别?|分类|预测|结果|标签)"
)
_TOP_WORDS = {"one": 1, "five": 5, "ten": 10, **{c: k for k, c in enumerate("一二三四五六七八九十", 1)}}
_TOP_SAME = pattern_of(
    r"\b(?:same|unchanged|identical|match(?:es|ing)?|agree(?:s|ment)?|preserv(?:e|ed|ing)|keep(?:s|ing)?|equal|consistent|stay(?:s)?|must|tolerance|equivalence|only)\b|一致|不变|相同|一样|保持|吻合"
)
_NOT_EXACT = pattern_of(
    r"(?:\b(?:not|n't|no need|without|need not|needn't|doesn't|don't)\b|n't\b)[a-z ]{0,36}$|(?:不(?:要求|需要|必|用|一定|是)|无需|无须|没必要|不追求|未必)[^，。;]{0,10}$"
)
_NOT_EXACT_INSIDE = pattern_of(r"\bnot\b|n't\b|不(?!变)")
_NOT_EXACT_AFTER = pattern_of(
    r"^[^,;.，。]{0,12}(?:\b(?:not (?:needed|required|necessary|important)|isn't (?:needed|required|necessary)|is overkill)\b|不(?:要求|需要|必要?|重要)|没必要|无所谓)"
)
_SLACK = pattern_of(
    r"\b(?:small|slight|minor|tiny|some|little) (?:numerical |numeric |rounding )?(?:differences?|errors?|deviations?)\b(?:[a-z ]{0,20}\b(?:ok|okay|fine|allowed|acceptable|tolerable)\b)?|(?:允许|可以有|容许|接受)(?:有)?(?:一点|微小|少量|轻微|小的?|一定|些许)的?(?:数值)?(?:误差|差异|偏差)"
)
_NEVER_MIND = pattern_of(r"\b(?:don't|doesn't|do not|does not) (?:care|matter)\b|无所谓|不重要|不在乎")


def read_tolerance(reading: Reading, parts: list[Clause], quantities: list[Quantity]) -> Found[Tolerance] | None:
    """The tolerance if the request states exactly one; takes its words and asks about the rest."""
    before = len(reading.questions)
    for match in list(reading.matches(_FINEST)):
        reading.take(match.span())
        reading.ask("tolerance", f"What does {reading.words(match.span())!r} allow?", "relative", "absolute", "bitwise")
    found = _numbers(reading, parts, quantities) + _tops(reading, parts) + _exact(reading, parts)
    if not found and before == len(reading.questions):
        found = _same(reading, parts)
    if len({one.value for one in found}) > 1:
        reading.ask(
            "tolerance", "Which of these tolerances holds?", *dict.fromkeys(reading.words(one.span) for one in found)
        )
        return None
    return found[0] if found and len(reading.questions) == before else None


def _numbers(reading: Reading, parts: list[Clause], quantities: list[Quantity]) -> list[Found[Tolerance]]:
    text, out = reading.text, []
    for k, clause in enumerate(parts):
        inside = [
            q
            for q in quantities
            if clause.start <= q.start < clause.end and q.dimension in (NONE, units.PERCENT) and reading.free(q.span)
        ]
        for j, quantity in enumerate(inside):
            left = inside[j - 1].end if j else clause.start
            right = inside[j + 1].start if j + 1 < len(inside) else clause.end
            if (
                j == 0
                and k
                and clause.joiner in ("comma", "stop")
                and _lone(text, parts[k - 1], quantities)
                and clause.end - clause.start < 48
            ):
                left = parts[k - 1].start
            one = _number(reading, quantity, left, right, clause)
            if one is not None:
                out.append(one)
    return out


def _lone(text: str, clause: Clause, quantities: list[Quantity]) -> bool:
    """A clause that names a tolerance without its number: "tolerance: relative, 1e-3"."""
    return bool(_WORD.search(text, clause.start, clause.end)) and not any(
        clause.start <= q.start < clause.end for q in quantities
    )


def _number(reading: Reading, quantity: Quantity, left: int, right: int, clause: Clause) -> Found[Tolerance] | None:
    text = reading.text
    around = text[left : quantity.start] + "\0" + text[quantity.end : right]
    small = quantity.dimension == units.PERCENT or 0 < quantity.value < Decimal("0.5")
    words = _WORD.search(around)
    if _ACCURACY.search(around) and not words and (small or quantity.value < 5):
        if not (small or quantity.dimension == units.PERCENT) or _TOP.search(around):
            return None
        span = _span(text, quantity, left, right)
        reading.take(span)
        reading.ask(
            "tolerance",
            f"{reading.words(span)!r} is a loss of accuracy; how equal must results be?",
            "the same top-1 class",
            "a relative tolerance",
            "bitwise",
        )
        return None
    if not words and not (
        small and (_WEAK if quantity.dimension == NONE else _DIFFERS).search(around) and _tells(around)
    ):
        return None
    if words and words[0] in ("error", "errors") and re.search(r"(?a)\berror (?:rate|code|check|handling)", around):
        return None
    span = _span(text, quantity, left, right)
    reading.take(span)
    said = reading.words(span)
    if re.search(r"(?a)\b(?:does|do|is)(?:n't| not) matter\b|无所谓|不重要", around):
        return None
    relative, absolute = bool(_RELATIVE.search(around)), bool(_ABSOLUTE.search(around))
    value = float(quantity.value)
    if quantity.value == 0:
        return Found(Tolerance(), span)
    if quantity.doubt or not math.isfinite(value) or value <= 0 or quantity.low is not None:
        reading.ask("tolerance", f"Which tolerance is meant by {said!r}?")
        return None
    if relative == absolute:
        reading.ask("tolerance", f"Is {said!r} relative or absolute?", f"relative {value:g}", f"absolute {value:g}")
        return None
    return Found(Tolerance("relative", rtol=value) if relative else Tolerance("absolute", atol=value), span)


def _tells(around: str) -> bool:
    """A weak word is enough only where nothing says that the number measures something else."""
    return not re.search(
        r"(?a)\b(?:occupancy|utili[sz]ation|bandwidth|speed-?up|latency|throughput|learning|dropout|lr|version|alpha|beta|momentum|probability)\b|占用率|利用率|带宽|加速比|延迟|学习率",
        around,
    )


def _span(text: str, quantity: Quantity, left: int, right: int) -> Span:
    """From the words that make the number a tolerance to the last of them."""
    start, end = quantity.start, quantity.end
    marks = [m.span() for pattern in (_RELATIVE, _ABSOLUTE, _WORD) for m in pattern.finditer(text, left, right)]
    start = min([start, *(a for a, _ in marks)])
    end = max([end, *(b for _, b in marks)])
    behind = relations.after(text, quantity.end, right)
    return start, max(end, behind.end if behind is not None else end)


def _tops(reading: Reading, parts: list[Clause]) -> list[Found[Tolerance]]:
    out = []
    for match in list(reading.matches(_TOP)):
        clause = next((c for c in parts if c.start <= match.start() < c.end), None)
        if (
            clause is None
            or not _TOP_SAME.search(reading.text, clause.start, clause.end)
            or _NEVER_MIND.search(reading.text, clause.start, clause.end)
        ):
            continue
        text = next(g for g in (match["k"], match["best"], match["ck"]) if g)
        k = _TOP_WORDS.get(text) or (int(text) if text.isdecimal() else 0)
        reading.take(match.span())
        if _NOT_EXACT.search(reading.text[clause.start : match.start()]):
            reading.ask("tolerance", f"How equal must results be, if not in {reading.words(match.span())!r}?")
        elif k >= 1:
            out.append(Found(Tolerance("top_k", k=k), match.span()))
    return out


def _exact(reading: Reading, parts: list[Clause]) -> list[Found[Tolerance]]:
    out = []
    for match in list(reading.matches(_BITWISE)):
        clause = next((c for c in parts if c.start <= match.start() < c.end), None)
        if clause is None:
            continue
        if re.search(r"(?a)top[- ]?\d|前[\d一二三四五六七八九十]", reading.text[clause.start : match.start()]):
            continue  # "the same top-5 classes"
        reading.take(match.span())
        negated = (
            _NOT_EXACT_INSIDE.search(match[0])
            or _NOT_EXACT.search(reading.text[clause.start : match.start()])
            or _NOT_EXACT_AFTER.search(reading.text[match.end() : clause.end])
        )
        if clause.question or negated:
            reading.ask(
                "tolerance",
                f"How far may results differ, if not {reading.words(match.span())!r}?",
                "relative",
                "absolute",
                "bitwise",
            )
        else:
            out.append(Found(Tolerance(), match.span()))
    for match in list(reading.matches(_SLACK)):
        reading.take(match.span())
        reading.ask("tolerance", f"How large is {reading.words(match.span())!r}?", "relative", "absolute")
    return out


def _same(reading: Reading, parts: list[Clause]) -> list[Found[Tolerance]]:
    """ "The same results", where nothing else says how equal they must be."""
    out = []
    for match in list(reading.matches(_SAME)):
        clause = next((c for c in parts if c.start <= match.start() < c.end), None)
        if (
            clause is not None
            and not clause.question
            and not _NOT_EXACT.search(reading.text[clause.start : match.start()])
        ):
            reading.take(match.span())
            out.append(Found(Tolerance(), match.span()))
    return out
