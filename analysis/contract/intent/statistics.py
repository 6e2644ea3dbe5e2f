"""Which statistic of a metric is meant: "p99", "99 % of requests", 中位数, "worst case"."""

from __future__ import annotations

import re

from stitchcuda.analysis.contract.intent.reading import Reading, Span, pattern_of
from stitchcuda.analysis.contract.types import STATISTICS

_METRIC = r"(?:\s*(?:gpu|end-to-end|inference|frame|batch|per-frame|推理|单帧|单次|每帧)?\s*(?:latency|latencies|time|delay|run ?time|duration|response|延迟|时延|耗时|用时|时间|响应|memory|footprint|显存|值))"
_CALLS = r"(?:all )?(?:the )?(?:\w+ )?(?:requests|frames|calls|queries|invocations|iterations|images|batches|runs|inferences|steps|samples|cases)"
_PATTERNS = (
    (pattern_of(r"(?<![a-z0-9])t?p-?\s?(?P<p>50|75|80|90|95|98|99(?:\.\d{1,3})?|999)(?![a-z0-9.]\d|[a-z0-9])"), None),
    (pattern_of(r"(?<![a-z0-9.])(?P<p>\d{1,2}(?:\.\d{1,3})?)\s*(?:st|nd|rd|th)?[ -]?(?:%\s*)?percentile\b"), None),
    (pattern_of(r"第?\s*(?P<p>\d{1,2}(?:\.\d{1,3})?)\s*(?:%|百)?\s*分位(?:数|点|值)?"), None),
    (pattern_of(rf"(?<![a-z0-9.])(?P<p>\d{{1,2}}(?:\.\d{{1,3}})?)\s*(?:%|percent) (?:of )?{_CALLS}\b"), None),
    (pattern_of(r"(?P<p>\d{1,2}(?:\.\d{1,3})?)\s*%\s*的\s*(?:请求|帧|调用|图片|图像|推理|情况|样本|次数|迭代)"), None),
    (pattern_of(r"(?P<tenths>[五九])成(?P<half>半|五)?的?(?:请求|帧|调用|图片|图像|推理|情况|样本|次数|迭代)"), None),
    (pattern_of(r"\b(?:mean|average|avg|on average|averaged)\b|平均(?:值)?|均值"), "mean"),
    (pattern_of(r"\bmedian\b|中位数?|中值"), "p50"),
    (pattern_of(rf"\bworst(?:[- ]case)?\b|\b(?:max(?:imum|imal)?|peak)(?={_METRIC})(?!\s*(?:memory |dram |hbm )?bandwidth)|最坏(?:情况)?|最差(?:情况)?|(?:最大|峰值|最长|最高|最慢)的?(?={_METRIC})"), "max"),
    (pattern_of(r"\btail(?=[ -](?:latency|latencies|delay|time))|尾部?(?=延迟|时延)|长尾"), "tail"),
)  # fmt: skip


def statistics_in(reading: Reading, span: Span) -> list[str]:
    """The statistics that text in the span names, in its order; "?..." for one that no bound can use."""
    found: list[tuple[int, int, str]] = []
    for pattern, name in _PATTERNS:
        for match in pattern.finditer(reading.text, *span):
            if any(a < match.end() and match.start() < b for a, b, _ in found) or not reading.free(match.span()):
                continue
            if name is None:
                name_found = _percentile(match)
                found.append((*match.span(), name_found if name_found in STATISTICS else f"?{name_found}"))
            else:
                found.append((*match.span(), "?tail" if name == "tail" else name))
    names = list(dict.fromkeys(name for _, _, name in sorted(found)))
    return [name for name in names if name != "?tail"] or names  # "p99 tail latency"


def _percentile(match: re.Match[str]) -> str:
    groups = match.groupdict()
    if tenths := groups.get("tenths"):
        return f"p{ {'五': 5, '九': 9}[tenths] }{5 if groups['half'] else 0}"
    return "p" + ("99.9" if groups["p"] == "999" else str(groups["p"]))


def statistic_spans(reading: Reading, span: Span) -> list[Span]:
    """Where they stand; numbers in them are no quantities."""
    return [m.span() for pattern, _ in _PATTERNS for m in pattern.finditer(reading.text, *span)]
