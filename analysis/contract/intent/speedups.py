"""Changes against the program as it is: "twice as fast", "30 % less time", 快一倍, 减半. All become bounds on `speedup`."""

from __future__ import annotations

import re
from decimal import Decimal

from stitchcuda.analysis.contract.intent import clauses as speech
from stitchcuda.analysis.contract.intent import relations
from stitchcuda.analysis.contract.intent.clauses import Clause
from stitchcuda.analysis.contract.intent.numbers import chinese_number, find_numbers
from stitchcuda.analysis.contract.intent.reading import Found, Reading, pattern_of
from stitchcuda.analysis.contract.intent.statistics import statistics_in
from stitchcuda.analysis.contract.types import Bound

_N = r"(?P<n>(?:\d[\d,]*(?:\.\d+)?|\.\d+|one|two|three|four|five|six|seven|eight|nine|ten|twenty|fifty|a hundred|hundred))"
_C = r"(?P<n>\d+(?:\.\d+)?|[零一二两三四五六七八九十百]{1,9}(?:点[零一二三四五六七八九]+)?)"
_P = r"(?P<p>\d+(?:\.\d+)?)\s*(?:%|percent\b|per cent\b|pct\b)"
_CP = r"(?:(?P<p>\d+(?:\.\d+)?)\s*%|百分之(?P<cp>[零一二两三四五六七八九十百]{1,9}(?:点[零一二三四五六七八九]+)?|\d+(?:\.\d+)?)|(?P<ten>[一二三四五六七八九])成(?P<half>半)?)"
_TIMES = r"\s*-?\s*(?:x|×|times|fold)"
_LESS = r"(?:reduc(?:e[sd]?|ing|tion)|cut(?:s|ting)?|lower(?:s|ed|ing)?|shav(?:e|ing)|decreas(?:e[sd]?|ing)|drop(?:s|ped|ping)?|shrink(?:s|ing)?|trim(?:s|ming)?|slash(?:es|ing)?|shorten(?:s|ed|ing)?|bring(?:s|ing)? down|knock|take|save|saving|get rid of|remove|eliminate)"
_MORE = r"(?:increas(?:e[sd]?|ing)|improv(?:e[sd]?|ing|ement)|rais(?:e[sd]?|ing)|boost(?:s|ed|ing)?|speed(?:s|ing)? ?up|sped up|accelerat(?:e[sd]?|ing)|gain|grow|speed(?:ing)? (?:it|this|that|things|everything) up)"
_TIME = r"(?:latency|run ?-?time|time|duration|execution time|wall ?-?clock(?: time)?|response time|delay)"
_ANY = r"[^,;.!?，。、\n]{0,60}?"
_GAP = r"(?P<gap>[^,;.!?，。、\n]{0,60}?)"
_CTIME = r"(?:延迟|时延|耗时|用时|时间|运行时间|响应时间)"
_CLESS = r"(?:减少|降低|缩短|下降|压缩|节省|减小|降|减|省|砍掉?|(?<![至最不减缺])少用?|削减)"
_CMORE = r"(?:提高|提升|增加|加快|增长|改善|加速|提速|快|变快|优化|涨)"
_CGAP = r"(?P<gap>[^,;.!?，。、\n]{0,24}?)"
_CFRACTION = (
    r"(?:(?P<one>一)?半|(?P<of>[二三四五六七八九十\d]+)分之(?P<part>[一二三四五六七八九\d]+)|(?P<num>\d+)/(?P<den>\d+))"
)
_FRACTION = r"(?:(?:one[- ])?(?P<word>half|third|quarter|fifth|tenth)|(?P<num>\d+)/(?P<den>\d+))"

# What a pattern says: `faster` n times the speed or p percent more, `less` time by n times, p percent or a half, `to` a share of the time.
_PATTERNS: tuple[tuple[str, str], ...] = (
    # English
    ("faster", rf"{_N}{_TIMES} (?:the )?(?:faster|quicker|speed-?ups?|as fast|as quick(?:ly)?|speed|throughput|performance|improvement|acceleration|better|higher throughput|more throughput|gain)\b"),
    ("faster", rf"{_N}{_TIMES} (?:the )?(?:current|original|baseline|old|present) (?:speed|throughput|performance)\b"),
    ("faster", r"\b(?P<twice>twice|double|triple|quadruple|thrice) (?:as (?:fast|quick(?:ly)?|many [a-z ]{1,24}? per second)|the (?:current |original |baseline )?(?:speed|throughput|performance|rate|fps|frame ?rate))\b"),
    ("faster", rf"\b(?P<twice>doubl(?:e|es|ing)|tripl(?:e|es|ing)|quadrupl(?:e|es|ing)) {_GAP}\b(?P<what>speed|throughput|performance|frame ?rate|fps)\b"),
    ("faster", r"\b(?P<order>(?:an|one) order of magnitude) (?:faster|quicker|speed-?up)\b"),
    ("faster", rf"\b{_P} (?:faster|quicker|speed-?up|higher (?:throughput|performance)|more throughput|better (?:throughput|performance)|(?:performance |throughput )?(?:gain|boost|improvement)(?: in (?:throughput|performance|speed))?)"),
    ("faster", rf"\b(?:faster|quicker)\b(?: than [a-z ]{{1,20}}?)? by (?:a factor of )?(?:{relations.FILLER})(?:{_P}|{_N}(?:{_TIMES})?)(?![a-z0-9])"),
    ("faster", rf"\b{_MORE}\b{_GAP}\b(?:by )(?P<rel>(?:at least|more than|over|at most|up to|a factor of|about|around)\s+)*(?:{_P}|{_N}(?:{_TIMES})(?![a-z0-9]))"),
    ("faster", rf"\b{_MORE}\b{_GAP}\bby a factor of (?:at least )?{_N}(?![a-z0-9%])"),
    ("faster", rf"\b(?:speed(?:s|ing)? ?up|accelerat(?:e|ing)|sped up)\b{_GAP}\s(?:{_N}{_TIMES})(?![a-z0-9])(?! (?:faster|less))"),
    ("faster", rf"\bspeed-?up\s*(?:factor|ratio)?\s*(?:of|is|must be|should be|to be|>=?|≥|:|=)?\s*(?:{relations.FILLER})(?P<rel>>\s*=?|≥|at least|more than|over|above|a minimum of|no less than|not less than|of|exceed(?:ing|s)?)?\s*(?:{relations.FILLER}){_N}(?:{_TIMES})?(?![a-z0-9%])"),
    ("faster", rf"\b{_N}\s*-?x(?![a-z0-9])(?= *(?:$|[,.;!，。]|on\b|with\b|and\b|or (?:more|better)))"),
    ("less", rf"\b{_LESS}\b{_GAP} (?:at least )?{_P}(?=$|[ ]*[,;.!?，。)]| (?:and|on|with|or more)\b)"),
    ("faster", rf"\b{_MORE}\b{_GAP} (?:at least )?{_P}(?=$|[ ]*[,;.!?，。)]| (?:and|on|with|or more)\b)"),
    ("faster", rf"\bgain(?:s|ing)? (?P<rel>(?:at least|more than|over|a|an)\s+)?{_P}"),
    ("less", rf"\b(?P<halve>halv(?:e|es|ed|ing))\b{_GAP}(?=$|[,;.!?，。\n])"),
    ("less", rf"\b{_LESS}\b{_GAP}\b(?P<halve>in half|by half|by a half|in two|by one half|by 1/2)\b"),
    ("less", rf"\b{_LESS}\b{_GAP}\b(?:by )(?:(?:at least|more than|over|at most|up to|about|around|a full)\s+)*(?:{_P}|(?:a factor of )?(?:at least )?{_N}(?:{_TIMES})?(?![a-z0-9.%]| *(?:ms|us|ns|s|[kmg]i?b|kib|mib|gib|μs|milli|micro|sec|byte)))"),
    ("less", rf"\b(?:{_LESS}\b{_GAP}\b(?:by )?(?:at least )?(?P<third>a third|one third|a quarter|one quarter|a fifth))\b"),
    ("less", rf"\b{_P} (?:(?:less|lower|shorter|smaller) (?:total |overall |end-to-end |mean |average |p\d+ )*(?:{_TIME})|(?:reduction|decrease|drop|cut) (?:in|of) (?:the )?{_ANY}(?P<what>{_TIME})|(?:{_TIME}) (?:reduction|decrease|savings?)|off (?:of )?(?:the |its )?{_ANY}(?P<what2>{_TIME})|(?:latency|time) saved)\b"),
    ("less", rf"\b{_TIME} (?:reduced|cut|lowered|decreased|down|reduction|decrease) (?:by |of )?(?:at least )?{_P}"),
    ("less", rf"\b{_LESS} (?:at least )?{_P} (?:off|of|from)? ?(?:the |its )?{_GAP}(?P<what>{_TIME})\b"),
    ("less", rf"\b{_P} (?P<bare>less|lower|shorter|smaller|reduction)\b(?! than)"),
    ("to", rf"\b{_FRACTION} (?:of )?(?:the |its |as much )?(?:current |original |baseline |present |old )?(?:{_TIME})\b"),
    ("to", rf"\b(?:to|in) {_P} of (?:the |its )?(?:current |original |baseline |present |old )?(?P<what>{_TIME}|latency|value|it|what it is now|baseline|original)\b"),
    ("to", rf"\b{_LESS}\b{_GAP}\bto (?:{_P}|(?:a |one )?{_FRACTION})(?: of (?:the |its )?(?:current|original|baseline|present|old|what)[a-z ]{{0,16}})?"),
    # Chinese
    ("to", rf"{_CGAP}(?:降低|缩短|减少|降|减|压缩|压|缩|变|控制|缩减)(?:到|至|为|成)(?:{relations.FILLER})(?:{_CFRACTION}|{_CP})(?:以下|以内)?"),
    ("to", rf"(?:原来|现在|目前|当前|原先|基线)的?(?:{_CFRACTION}|{_CP})的?(?P<what>时间|延迟|耗时)"),
    ("to", rf"{_CTIME}(?:{relations.FILLER})(?:不(?:能|得|要)?(?:超过|高于|大于|多于)|低于|小于|少于|最多|至多)(?:原来|现在|目前|当前|原先|以前|基线)的?(?:{_CFRACTION}|{_CP})"),
    ("to", rf"(?:{_CFRACTION})的(?P<what>时间|延迟|耗时)"),
    ("less", rf"{_CGAP}(?:{_CLESS}了?|缩减)(?:推理|整体|运行|处理|计算|端到端|平均)?(?:{_CTIME})?(?:{relations.FILLER})(?P<rel>至少|不低于|不少于|超过|最少|大于)?(?:{relations.FILLER})(?:{_CP}|(?P<halve>一半)|{_CFRACTION})(?:以上|的?时间|的?延迟)?"),
    ("less", rf"{_CGAP}(?P<halve>减半|砍半|折半|腰斩|减一半|砍一半)"),
    ("faster", rf"{_CGAP}(?P<twice>翻倍|翻一?番|加倍)"),
    ("faster", rf"{_CGAP}(?:(?:提高|提升|增加|加快|加速|提速|达到|变成|变为|是|为|到|做到|跑到|涨|(?=至少|不低于|不少于|超过|大于|最少|不小于))(?:到|至|为|成)?(?:{relations.FILLER})(?P<rel>至少|不低于|不少于|超过|大于|最少|不小于)?(?:原来|现在|目前|当前|原先|以前|基线|原始版本|原版)的?(?:{relations.FILLER})(?:至少)?){_C}\s*倍(?:以上|速度?)?"),
    ("faster", rf"{_CGAP}(?:提高|提升|增加|加快|加速|提速|涨)(?:到|至|为|成){_C}\s*倍(?:以上)?"),
    ("faster", rf"(?:加速比|速度比|speedup)\s*(?:{relations.FILLER})(?P<rel>至少|不低于|不少于|超过|大于等于|大于|高于|>\s*=?|≥|达到|最少|不小于)?\s*(?:{relations.FILLER}){_C}(?!\s*%)\s*(?:倍|x)?(?:以上)?"),
    ("faster", rf"(?P<rel>至少|不低于|不少于|超过|大于|最少)?(?:{relations.FILLER}){_C}\s*(?:倍|x)的?(?:加速|提速|速度|性能|吞吐量?|加速比|速)(?!提)(?:以上)?"),
    ("grow", rf"{_CGAP}{_CMORE}了?(?:推理|整体|运行|处理|计算)?(?:吞吐量?|吞吐率|性能|速度|帧率|效率)?(?:{relations.FILLER})(?P<rel>至少|不低于|不少于|超过|大于|最少)?(?:{relations.FILLER})(?:{_CP}|{_C}\s*倍)(?:以上)?"),
    ("grow", rf"{_CGAP}比(?:原来|现在|目前|当前|以前|基线)快(?:{relations.FILLER})(?P<rel>至少|超过)?(?:{_CP}|{_C}\s*倍)(?:以上)?"),
    ("same", r"\b(?:no|not|never|isn't|aren't|n't be|n't get) slower(?! than *\d)(?: than)?(?: (?:before|now|today|the baseline|the original|it is(?: now)?|baseline|currently))?|不(?:能|得|要)?(?:比(?:现在|原来|目前|以前|基线))慢|(?:不(?:能|得|要|许|可以?)?|别)变慢|\b(?:don't|do not|must not|never|not) (?:make (?:it|anything|things) |get |be |become |run )?(?:any )?slower\b(?! than *\d)|不慢于(?:现在|原来|基线)"),
)  # fmt: skip
_COMPILED = tuple((kind, pattern_of(pattern)) for kind, pattern in _PATTERNS)

_MOST_EVER = 1e9  # a larger gain is no request
_MULTIPLES = {"tw": 2, "do": 2, "tr": 3, "th": 3, "qu": 4, "翻": 2, "加": 2}
_SHARES = {
    "half": Decimal(1) / 2,
    "third": Decimal(1) / 3,
    "quarter": Decimal(1) / 4,
    "fifth": Decimal(1) / 5,
    "tenth": Decimal(1) / 10,
}
_NOT_TIME = pattern_of(
    r"\b(?:memory|vram|footprint|transfer\w*|cop(?:y|ies)|traffic|bytes|launch(?:es)?|kernels?|registers?|power|energy|cost|code|lines|size|binary|error|allocations?|syncs?|synchroni[sz]ations?|batch|occupancy|bandwidth|utili[sz]ation|streams?|precision|accuracy|resolution|gpus?|data|images?|block|grid|calls|loss|buffers?|price|models?|layers?|params?|parameters?|weights)\b"
    r"|显存|内存|传输|拷贝|流量|功耗|能耗|成本|代码|启动次数|调用次数|误差|分配|同步|占用|带宽|利用率|精度|大小|数量|个数|次数|体积|参数"
)
_IS_TIME = pattern_of(rf"\b(?:{_TIME})\b|{_CTIME}")
_IS_SPEED = pattern_of(r"\b(?:throughput|speed|performance|fps|frame ?rate|rate|qps)\b|吞吐量?|速度|性能|帧率|效率")
_RELATIVE = pattern_of(
    r"\b(?:more|over|greater|higher|better) than\s*$|\b(?:over|exceed(?:s|ing)?|above)\s*$|(?:超过|大于|高于|不止)\s*$"
)
_MOST = pattern_of(
    r"\b(?:at most|up to|no more than|max(?:imum)?|not more than|less than|under|below)\s*$|(?:最多|至多|不超过|低于|小于|不到)\s*$"
)
_SLOWER = pattern_of(r"\b(?:slower|slow(?:s|ed)? down|regress\w*)\b|变慢|慢了|更慢")
_ROUGHLY = pattern_of(
    r"\b(?:about|around|roughly|approximately|nearly|almost|close to|some)\s*$|(?:约|大约|大概|将近|接近|差不多)\s*$"
)


def read_speedups(reading: Reading, parts: list[Clause]) -> list[Found[Bound]]:
    """The bounds on `speedup`; takes the words they stand in, also of those that are asked about."""
    found: list[Found[Bound]] = []
    for kind, pattern in _COMPILED:
        for match in reading.matches(pattern):
            groups = match.groupdict()
            clause = speech.joined(parts, match.span())
            if clause is None or match.end() > clause.end + 1:
                continue
            found += _read(reading, kind, match, groups, clause)
    return found


def _read(
    reading: Reading, kind: str, match: re.Match[str], groups: dict[str, str | None], clause: Clause
) -> list[Found[Bound]]:
    text = reading.text
    start = _core_start(match, groups)
    span = (start, match.end())
    words = reading.words(span)
    around = text[clause.start : match.end()]
    object_words = (
        (groups.get("gap") or "") + " " + text[max(clause.start, match.start() - 40) : start] + " " + match[0]
    )
    if (
        kind == "less"
        and groups.get("bare")
        and not _IS_TIME.search(around)
        and _NOT_TIME.search(text[clause.start : clause.end])
    ):
        reading.take(span)
        _ask_other(reading, words)
        return []
    says_time, says_speed = bool(_IS_TIME.search(object_words)), bool(_IS_SPEED.search(object_words))
    other = bool(
        _NOT_TIME.search((groups.get("gap") or "") + text[max(clause.start, match.start() - 24) : match.start()])
    )
    statistics = statistics_in(reading, clause.span) or ["mean"]
    _take(reading, match, groups, start)
    if (
        speech.NEVER_MIND.search(text, clause.start, clause.end)
        or speech.STATE.search(around)
        and not speech.REQUIRES.search(around)
        and kind not in ("same", "to")
    ):
        return []
    if (
        _negated(text, clause.start, start, kind)
        or clause.question
        or speech.CONDITION.search(around)
        or _SLOWER.search(around)
        and kind != "same"
    ):
        reading.ask("bounds", f"Is {words!r} something that must be reached?", "yes", "no")
        return []
    if other and not says_time and not says_speed:
        _ask_other(reading, words)
        return []
    value = _value(reading, kind, groups, words, says_time, says_speed)
    if value is None or value > _MOST_EVER:
        return []
    number_at = next(
        (
            match.start(name)
            for name in ("n", "p", "cp", "ten", "twice", "halve", "word", "order", "third")
            if groups.get(name)
        ),
        start,
    )
    before = text[max(clause.start, number_at - 24) : number_at] + (groups.get("rel") or "")
    plain = text[max(clause.start, number_at - 24) : number_at]
    relation = ">="
    outer = relations.before(text, clause.start, number_at)
    if _RELATIVE.search(before) and not (outer is not None and outer.negated):
        relation = ">"
    elif (
        _MOST.search(plain)
        and kind != "same"
        and not (outer is not None and outer.negated and outer.sign.startswith(">"))
    ):
        if kind != "to":
            reading.ask(
                "bounds", f"Is {words!r} an upper limit of the gain, or what must be reached?", f"speedup >= {value:g}"
            )
            return []
        relation = ">" if outer is not None and outer.sign == "<" else ">="
    if kind == "to" and match[0].endswith("以下"):
        relation = ">"
    if _ROUGHLY.search(plain):
        reading.ask("bounds", f"How far may it be from {words!r}?", f"speedup >= {value:g}")
        return []
    if unusable := [name for name in statistics if name.startswith("?")]:
        reading.ask("bounds", f"Which statistic is {unusable[0][1:]!r}?", "mean", "p50", "p90", "p95", "p99", "max")
        return []
    return [Found(Bound("speedup", statistic, relation, value, "1"), span) for statistic in statistics]


def _take(reading: Reading, match: re.Match[str], groups: dict[str, str | None], start: int) -> None:
    """The words of the change, not those between its verb and its number: they name the task."""
    if "gap" in groups and match.start("gap") > match.start():
        reading.take((match.start(), match.start("gap")))
        reading.take((match.end("gap"), match.end()))
    else:
        reading.take((start, match.end()))


def _core_start(match: re.Match[str], groups: dict[str, str | None]) -> int:
    """Chinese patterns begin with whatever stands before the verb: the words of the evidence begin after it."""
    return match.end("gap") if "gap" in groups and match.start() == match.start("gap") else match.start()


def _negated(text: str, start: int, at: int, kind: str) -> bool:
    return kind != "same" and bool(
        re.search(
            r"(?a)(?:\b(?:not|never|without|no)\b|n't)(?: (?:be|make|necessarily|it|to|get|just|try|want|need|expect|a|any|have|require))*\s*$|(?:不|别|无法|没有?)(?:要|能|会|用|必|可能|是|需要?|让它|指望)?(?:让|使|把|它|再)?\s*$",
            text[start:at],
        )
    )


def _ask_other(reading: Reading, words: str) -> None:
    reading.ask(
        "bounds",
        f"{words!r}: a change of something else than time has no bound; what is its limit?",
        "time",
        "an absolute limit",
    )


def _value(
    reading: Reading, kind: str, groups: dict[str, str | None], words: str, says_time: bool, says_speed: bool
) -> float | None:
    share = _share(groups)
    times = _times(groups)
    if kind == "same":
        return 1.0
    if kind == "to":
        if share is None or not 0 < share < 1 or says_speed and not says_time:
            return _unclear(reading, words)
        return _rounded(1 / share)
    if kind == "less" and not (says_speed and not says_time):
        if share is not None:
            return _rounded(1 / (1 - share)) if 0 < share < 1 else _unclear(reading, words)
        return _rounded(times) if times is not None and times > 1 else _unclear(reading, words)
    if kind in ("faster", "grow") and not (
        says_time and not says_speed and ("gap" in groups and _IS_TIME.search(groups["gap"] or ""))
    ):
        if share is not None:
            if share > 1:
                return _unclear(reading, words, f"speedup >= {float(share):g}", f"speedup >= {float(1 + share):g}")
            return _rounded(1 + share) if share > 0 else _unclear(reading, words)
        if times is None or times <= 0:
            return _unclear(reading, words)
        if kind == "grow" and times != 1:
            if re.match(r"(?a)加速|提速", words):
                return _rounded(times)
            return _unclear(reading, words, f"speedup >= {float(times):g}", f"speedup >= {float(times + 1):g}")
        if kind == "grow":
            return 2.0
        return _rounded(times) if times > 1 else _unclear(reading, words)
    if kind == "grow" and share is not None and 0 < share < 1 and re.match(r"(?a)优化|改善", words):
        return _rounded(1 / (1 - share))
    return _unclear(reading, words)


def _unclear(reading: Reading, words: str, *options: str) -> float | None:
    reading.ask("bounds", f"What must {words!r} reach?", *options)
    return None


def _rounded(value: Decimal) -> float:
    """Four places: more would pretend to what "30 % less" does not say."""
    return float(round(value, 4))


def _share(groups: dict[str, str | None]) -> Decimal | None:
    if p := groups.get("p"):
        return Decimal(p) / 100
    if p := groups.get("cp"):
        number = Decimal(p) if p[0].isdigit() else chinese_number(p)
        return None if number is None else number / 100
    if ten := groups.get("ten"):
        tenths = chinese_number(ten) or Decimal(0)
        return (tenths + (Decimal("0.5") if groups.get("half") else 0)) / 10
    if groups.get("halve"):
        return Decimal("0.5")
    if third := groups.get("third"):
        return _SHARES[third.split()[-1]]
    if word := groups.get("word"):
        return _SHARES[word]
    if (num := groups.get("num")) and (den := groups.get("den")):
        return Decimal(num) / Decimal(den) if int(den[:9]) else None
    if (of := groups.get("of")) and (part := groups.get("part")):
        whole, some = _chinese_or_digits(of), _chinese_or_digits(part)
        return some / whole if whole and some else None
    return Decimal("0.5") if "one" in groups and not groups.get("n") else None


def _times(groups: dict[str, str | None]) -> Decimal | None:
    if groups.get("order"):
        return Decimal(10)
    if twice := groups.get("twice"):
        return Decimal(_MULTIPLES[twice[:2] if twice.isascii() else twice[0]])
    n = groups.get("n")
    if not n:
        return None
    if n[0].isdigit() or n[0] == ".":
        numbers = find_numbers(n)
        return numbers[0].value if numbers else None
    if n.isascii():
        numbers = find_numbers(n)
        return numbers[0].value if numbers else None
    return chinese_number(n)


def _chinese_or_digits(characters: str) -> Decimal | None:
    return (
        Decimal(characters)
        if characters.isdecimal()
        else None
        if any(c.isdecimal() for c in characters)
        else chinese_number(characters)
    )
