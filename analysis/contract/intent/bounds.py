"""Absolute bounds: "p99 latency under 8 ms", 每秒至少1200张, "at most 2 GiB of GPU memory"."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from stitchcuda.analysis.contract.intent import clauses as speech
from stitchcuda.analysis.contract.intent import relations, units
from stitchcuda.analysis.contract.intent.clauses import Clause
from stitchcuda.analysis.contract.intent.quantities import NONE, Quantity
from stitchcuda.analysis.contract.intent.reading import Found, Reading, Span, pattern_of
from stitchcuda.analysis.contract.intent.relations import Relation
from stitchcuda.analysis.contract.intent.statistics import statistics_in
from stitchcuda.analysis.contract.types import FRACTIONS, METRIC_UNITS, Bound

GOOD = {
    "latency": "<", "throughput": ">", "speedup": ">", "device_memory": "<", "transfer_bytes": "<",
    "memory_bandwidth_utilization": ">", "occupancy": ">",
}  # fmt: skip

_LATENCY = pattern_of(
    r"\b(?:latenc(?:y|ies)|lat|run ?-?time|execution time|response time|frame ?time|duration|elapsed|wall(?:[- ]clock)?(?: time)?|times?|takes?|delay)\b|延迟|时延|耗时|用时|时间|响应"
)
_HOST = pattern_of(
    r"\b(?:host|cpu|system|main|page-?locked|pinned|shared|local|l2|l1|cache|disk|swap)[ -]?(?:memory|ram|mem|cache)?\b|\bram\b|主机内存|系统内存|内存条|共享内存|缓存|主存|磁盘|锁页"
)
_TRANSFER = pattern_of(
    r"\b(?:transfer\w*|cop(?:y|ies|ied|ying)|traffic|pcie|nvlink|h2d|d2h|host[- ]to[- ]device|device[- ]to[- ]host|uploads?|downloads?|moved?|memcpy)\b|传输|拷贝|搬运|复制|上传|下载|流量"
)
_MEMORY = pattern_of(
    r"\b(?:vram|(?:gpu|device|video|peak|graphics) mem(?:ory)?|memory|mem|footprint|hbm|allocat\w+)\b|显存|gpu内存|设备内存|(?:gpu|设备|显卡)(?:上的)?内存"
)
_CHINESE_MEMORY = pattern_of(r"内存")
_UTILIZATION = pattern_of(r"\b(?:(?:memory|dram|hbm) )?bandwidth(?: (?:utili[sz]ation|usage|efficiency|use))?\b|带宽")
_OCCUPANCY = pattern_of(r"\boccupancy\b|占用率|occupancy")
_MEMORY_SHARE = pattern_of(
    r"(?:显存|内存)(?:的)?(?:占用|使用|利用)|\b(?:memory|vram) (?:usage|use|footprint|occupancy|consumption)\b"
)
_BUSY = pattern_of(
    r"\b(?:gpu|sm|compute|device|tensor core) (?:utili[sz]ation|usage|load|efficiency)\b|(?:gpu|sm|计算|显卡)(?:的)?(?:利用率|使用率|负载)|利用率|\butili[sz]ation\b"
)
_RATE_NAME = pattern_of(
    r"\b(?:fps|qps|rps|frames per second|frame ?rate|images? per second|images?/s|samples/s|tokens/s)\b|帧率|每秒(?:帧数|请求数|张数)"
)
_THROUGHPUT = pattern_of(r"\bthroughput\b|吞吐")
_SPEEDUP = pattern_of(r"\bspeed-?up\b|加速比")
_UNIT_IN_NAME = pattern_of(
    r"(?:\b(?:latency|time|runtime|p\d\d)|延迟|时延|耗时)[\s_]{0,2}[\[(]?\s?(?P<unit>ms|us|μs|ns|s|seconds|milliseconds)\s*[\])]?[\s:]*"
)
_ITEMS_IN = pattern_of(
    r"(?<!batch of )(?<!p)(?<![\d.])(?P<n>\d[\d,]*|[一二两三四五六七八九十百千万]{1,12})\s*(?:(?!ms|us|gb|mb|x)[a-z]{3,}(?: [a-z]+)?\s+(?:in|within|every)\s+|(?:张|帧|个|次|条)[^，。]{0,6}(?:在|用|只要)?)"
    + relations.FILLER
    + r"(?:under|below|less than|at most|不超过|低于)?\s*$"
)
_IN_ITEMS = pattern_of(
    r"(?:之?内|以内)?\s*(?:要|必须|能)?(?:处理|完成|推理|跑完?|渲染|生成|识别)\s*(?:\d+|[一二两三四五六七八九十百千万]{1,12})\s*(?:张|帧|个|次|条)"
)
_FROM = pattern_of(r"(?:\bfrom|从|由)\s*$")
_EXTRA = pattern_of(r"\b(?:extra|additional)\b|额外")
_THE = pattern_of(r"\b(?:the|this|that|our|my|its|these|those)\s*$")
_NOUN_AFTER_RATE = pattern_of(
    r"\s*(?:的)?\s*(?:video|stream|camera|footage|input|feed|source|视频|摄像头|相机|直播|输入)"
)
_STRONG = pattern_of(
    r"\b(?:must|should|has to|have to|needs?|want|require[sd]?|requirement|target|goal|budget|deadline|limit|cap|slo|sla|allowed|max(?:imum)?)\b|必须|必需|要求|目标|预算|上限|期限|需要|要(?!求)"
)
_NEEDS = pattern_of(r"需要|要(?!求)|needs?\b|do\b|in\b|at\b|require|want")  # "now it needs 12 ms" asks for nothing
_RESPECTIVELY = pattern_of(r"\brespectively\b|分别")


@dataclass(frozen=True, slots=True)
class _Place:
    """A quantity in its clause: between `left` and `right` no other one stands; from `context` on, none that a bound used."""

    quantity: Quantity
    clause: Clause
    left: int
    context: int
    right: int


def read_bounds(reading: Reading, parts: list[Clause], quantities: list[Quantity]) -> list[Found[Bound]]:
    """The bounds; takes their words, and asks about each quantity that could be one and is not surely so."""
    found: list[Found[Bound]] = []
    for clause in parts:
        inside = [q for q in quantities if clause.start <= q.start < clause.end and reading.free(q.span)]
        left = context = clause.start
        for k, quantity in enumerate(inside):
            right = inside[k + 1].start if k + 1 < len(inside) else clause.end
            before, asked = len(found), len(reading.questions)
            found += _read(reading, _Place(quantity, clause, left, context, right), parts)
            left = quantity.end
            if len(found) > before or len(reading.questions) > asked:
                context = left
    return found


def _read(reading: Reading, place: _Place, parts: list[Clause]) -> list[Found[Bound]]:
    text, quantity, clause = reading.text, place.quantity, place.clause
    relation = relations.before(text, place.left, quantity.start)
    behind = relations.after(text, quantity.end, place.right)
    if relation is None or (
        behind is not None and relation.sign in (">=", "<=") and behind.sign.rstrip("=") == relation.sign.rstrip("=")
    ):
        relation = behind or relation
    metric = _metric(reading, place, relation)
    if metric is None:
        return []
    span = _evidence(place, relation, reading)
    if _is_said_of_the_present(text, place, relation):
        reading.take(quantity.span)
        return []
    if speech.NEVER_MIND.search(text, clause.start, clause.end):
        return []
    statistics = _statistics(reading, place, parts, metric)
    reading.take(span)
    words = reading.words(span)
    if metric == "" or quantity.doubt:
        return _asked(reading, place, words, metric)
    good = GOOD[metric]
    if clause.question or speech.CONDITION.search(text, clause.start, quantity.start):
        return _ask(reading, f"Is {words!r} something that must be reached?", "yes", "no")
    if relation is not None:
        sign = relations.resolved(relation.sign, good)
    elif quantity.low is not None and quantity.explicit or _is_target(text, place, metric):
        sign = good + "="
    elif quantity.dimension == units.TIMES:
        return []
    else:
        return _ask(reading, f"What does {words!r} say?", f"it must be {good}= {_shown(quantity)}", "it is so today")
    if quantity.low is not None and _FROM.search(text, max(place.left, quantity.start - 24), quantity.start):
        if good == "<":
            return _ask(reading, f"Which limit does {words!r} set?")
        quantity, sign = replace(quantity, low=None), good + "="
    if quantity.approximate:
        return _ask(reading, f"How far may it be from {words!r}?", f"{metric} {good}= {_shown(quantity)}")
    value = float(quantity.value)
    if not math.isfinite(value) or value < 0 or (value == 0 and good == "<") or (metric in FRACTIONS and value > 1):
        return _ask(reading, f"{words!r} cannot be reached: which value is meant?")
    if quantity.low is None and sign[0] != good:
        return _ask(
            reading, f"{words!r} would keep {metric} from getting better: what must be reached?", f"{metric} {good} {_shown(quantity)}", "it is so today"
        )  # fmt: skip
    if unusable := [name for name in statistics if name.startswith("?")]:
        return _ask(
            reading, f"Which statistic is {unusable[0][1:]!r} in {words!r}?", "mean", "p50", "p90", "p95", "p99", "max"
        )
    if len(statistics) > 1 and _RESPECTIVELY.search(text, clause.start, min(len(text), clause.end + 40)):
        return _ask(reading, f"Which value belongs to which of {', '.join(statistics)}?")
    unit = METRIC_UNITS[metric]
    out = []
    for statistic in statistics:
        if quantity.low is not None and not quantity.falls:
            if relation is not None and not quantity.explicit and relation.sign not in ("<=", "<") and good == "<":
                return _ask(reading, f"Which limit does {words!r} set?")
            out.append(Found(Bound(metric, statistic, ">=", float(quantity.low), unit), span))
            out.append(Found(Bound(metric, statistic, "<=", value, unit), span))
        else:
            out.append(Found(Bound(metric, statistic, sign, value, unit), span))
    return out


def _ask(reading: Reading, text: str, *options: str) -> list[Found[Bound]]:
    reading.ask("bounds", text, *options)
    return []


def _asked(reading: Reading, place: _Place, words: str, metric: str) -> list[Found[Bound]]:
    """A quantity whose unit, or what it measures, must be asked."""
    quantity = place.quantity
    if quantity.doubt:
        options = (
            tuple(part.strip() for part in quantity.doubt.rstrip("?").split(" or "))
            if " or " in quantity.doubt and len(quantity.doubt) < 14
            else ()
        )
        return _ask(reading, f"{words!r}: {quantity.doubt}", *options)
    options = {
        units.BYTES: ("device_memory", "transfer_bytes"),
        units.PERCENT: ("occupancy", "memory_bandwidth_utilization", "speedup"),
        NONE: {"latency": ("s", "ms", "us")}.get(metric, ()),
        units.TIME: ("latency", "something else"),
    }.get(quantity.dimension, ())
    return _ask(reading, f"What is {words!r} a limit of?", *options)


def _metric(reading: Reading, place: _Place, relation: Relation | None) -> str | None:
    """The metric that a quantity limits; "" where it has to be asked, None where the quantity is none of a bound's."""
    text, quantity = reading.text, place.quantity
    clause = place.clause
    context = text[clause.start : quantity.start] + " " + text[quantity.end : place.right]
    near = text[place.context : quantity.start] + " " + text[quantity.end : place.right]
    dimension = quantity.dimension
    if dimension == units.TIME:
        if speech.UNRELATED_TIME.search(context) and not _LATENCY.search(near):
            return "" if relation is not None else None
        if speech.UNRELATED_TIME.search(near):
            return ""
        items = _ITEMS_IN.search(text, clause.start, quantity.start)
        if (items and items["n"] not in ("1", "一")) or _IN_ITEMS.match(text, quantity.end):
            return ""
        return "" if _THROUGHPUT.search(near) and not _LATENCY.search(near) else "latency"
    if dimension == units.RATE:
        return "throughput"
    if dimension == units.BYTES:
        return _bytes_metric(
            near
            if len(near.strip()) > 3 and (_MEMORY.search(near) or _TRANSFER.search(near) or _HOST.search(near))
            else context,
            relation,
        )
    if dimension == units.PERCENT:
        return _share_metric(context, relation)
    if dimension == units.TIMES:
        return "speedup" if _SPEEDUP.search(context) else ("" if relation is not None else None)
    if dimension == NONE:
        return _bare_metric(text, place, relation)
    return "" if relation is not None or _is_target(text, place, "throughput") else None


def _bytes_metric(context: str, relation: Relation | None) -> str | None:
    host, transfer, memory = _HOST.search(context), _TRANSFER.search(context), _MEMORY.search(context)
    if host and not transfer:
        return ""
    if transfer and memory and not re.search(r"(?a)(?:gpu|device|host)$", memory[0]):
        return "transfer_bytes" if transfer.start() < memory.start() and "bandwidth" not in context else ""
    if _EXTRA.search(context):
        return ""  # more than what: the metric is the whole
    if transfer:
        return "transfer_bytes"
    if memory:
        return "device_memory"
    if _CHINESE_MEMORY.search(context):
        return ""
    return "" if relation is not None else None


def _share_metric(context: str, relation: Relation | None) -> str | None:
    if _UTILIZATION.search(context):
        return "memory_bandwidth_utilization" if not _OCCUPANCY.search(context) or "带宽" in context else ""
    if _MEMORY_SHARE.search(context):
        return ""
    if _OCCUPANCY.search(context):
        return "occupancy"
    if _BUSY.search(context):
        return ""
    return "" if relation is not None else None


def _bare_metric(text: str, place: _Place, relation: Relation | None) -> str | None:
    """A number without a unit is a limit only behind a metric that has none, or whose name says the unit."""
    before = text[place.left : place.quantity.start]
    if relation is None and not re.search(r"(?a)[=:]\s*$", before) and not _is_target(text, place, "throughput"):
        return None
    if _SPEEDUP.search(before):
        return "speedup"
    if _OCCUPANCY.search(before) and not _MEMORY_SHARE.search(before):
        return "occupancy" if 0 < place.quantity.value <= 1 else ""
    if _UTILIZATION.search(before):
        return "memory_bandwidth_utilization" if 0 < place.quantity.value <= 1 else ""
    if _RATE_NAME.search(before):
        return "throughput"
    if relation is not None and (_LATENCY.search(before) or _THROUGHPUT.search(before) or _MEMORY.search(before)):
        return ""
    return None


def with_units_from_names(text: str, quantities: list[Quantity]) -> list[Quantity]:
    """In "latency_ms < 8" and "延迟(ms)低于8" the name holds the unit."""
    out = []
    for quantity in quantities:
        name = None
        if quantity.dimension == NONE:
            for name in _UNIT_IN_NAME.finditer(text, max(0, quantity.start - 40), quantity.start):
                pass
        if name is not None and (unit := units.unit_at(text, text, name.start("unit"))) is not None:
            rest = text[name.end() : quantity.start]
            if relations.before(text, name.end(), quantity.start) is not None or not rest.strip(" =:"):
                quantity = Quantity(
                    quantity.start, quantity.end, unit.dimension, quantity.value * unit.factor, doubt=quantity.doubt
                )
        out.append(quantity)
    return out


def _is_target(text: str, place: _Place, metric: str) -> bool:
    quantity, clause = place.quantity, place.clause
    if quantity.falls:
        return True
    if _THE.search(text, place.left, quantity.start):
        return False
    if relations.TARGET.search(text, max(place.left, quantity.start - 64), quantity.start):
        return True
    if metric == "throughput" and quantity.dimension == units.RATE:
        return not _NOUN_AFTER_RATE.match(text, quantity.end)
    return bool(_STRONG.search(text, clause.start, clause.end))


def _is_said_of_the_present(text: str, place: _Place, relation: Relation | None) -> bool:
    quantity, clause = place.quantity, place.clause
    start = relation.start if relation is not None and relation.start < quantity.start else quantity.start
    if quantity.falls:
        return False
    if quantity.low is None and speech.STATE_BEFORE.search(text, max(place.left, start - 40), start):
        return True
    if relation is None and speech.DESCRIBES.search(text, max(place.left, start - 40), start):
        return not _STRONG.search(text, clause.start, start)
    if speech.STATE.search(text, clause.start, clause.end):
        aim = relations.TARGET.search(text, max(place.left, start - 64), start)
        if relation is None and (aim is None or _NEEDS.match(aim[0])):
            return True
        return not speech.REQUIRES.search(text, clause.start, clause.end)
    return False


def _statistics(reading: Reading, place: _Place, parts: list[Clause], metric: str) -> list[str]:
    own = statistics_in(reading, (place.context, place.quantity.start)) or statistics_in(
        reading, (place.quantity.end, place.right)
    )
    if not own:
        k = parts.index(place.clause)
        if k and place.clause.joiner == "comma" and place.context == place.clause.start:
            before = parts[k - 1]
            if before.end - before.start < 40 and not re.search(
                r"(?a)\d\s*(?:ms|s|us|%|毫秒|秒)", reading.text[before.start : before.end]
            ):
                own = (
                    statistics_in(reading, before.span)
                    if not speech.NEVER_MIND.search(reading.text, *before.span)
                    else []
                )
    if metric in FRACTIONS:
        own = [name for name in own if name != "max"]  # "of the peak" is what a share is of
    return own or ["max" if metric == "device_memory" else "mean"]


_METRIC_WORDS = pattern_of(
    "|".join(p.pattern for p in (_LATENCY, _TRANSFER, _MEMORY, _UTILIZATION, _OCCUPANCY, _RATE_NAME, _THROUGHPUT))
)


def _evidence(place: _Place, relation: Relation | None, reading: Reading) -> Span:
    """From the metric's words, if only small words part them from the comparison, to the end of the value."""
    text, quantity = reading.text, place.quantity
    start = min(quantity.start, relation.start) if relation is not None else quantity.start
    end = max(quantity.end, relation.end) if relation is not None else quantity.end
    edge = start
    candidates = [m.span() for m in _METRIC_WORDS.finditer(text, place.context, edge)]
    for a, b in reversed(candidates):
        if re.fullmatch(
            r"(?a)(?:\s|\b(?:of|is|be|must|should|has to|have to|needs? to|stays?|remains?|to|for|at|the|in|a|usage|use|consumption|utili[sz]ation|占用|使用|必须|要|需要?|应|应该|控制|保持|在|量|率|需|为|的|也|都)\b|[占用使必须要需应该控制保持在量率为的也都:()])*",
            text[b:start],
        ):
            start = a
    from_statistic = [m for m in _STATISTIC_WORD.finditer(text, max(place.context, start - 24), start)]
    for match in reversed(from_statistic):
        if re.fullmatch(r"(?a)[\s(的:/,、]*(?:and|和|the)?\s*", text[match.end() : start]):
            start = match.start()
    while start < end and text[start].isspace():
        start += 1
    return start, end


_STATISTIC_WORD = pattern_of(
    r"(?<![a-z0-9])t?p-?\d\d(?:\.\d)?|\b(?:mean|average|avg|median|peak|max(?:imum)?|worst[- ]case)\b|平均|中位数?|峰值|最大|最坏|\d+分位数?"
)


def _shown(quantity: Quantity) -> str:
    return f"{float(quantity.value):g}" + {
        units.TIME: " s",
        units.BYTES: " B",
        units.RATE: " items/s",
        units.PERCENT: "",
    }.get(quantity.dimension, "")
