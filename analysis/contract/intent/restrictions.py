"""Transforms that may not be applied, and how many streams the result may use."""

from __future__ import annotations

import re

from stitchcuda.analysis.contract.intent import clauses as speech
from stitchcuda.analysis.contract.intent.clauses import Clause
from stitchcuda.analysis.contract.intent.numbers import chinese_number, find_numbers
from stitchcuda.analysis.contract.intent.polarity import polarity
from stitchcuda.analysis.contract.intent.reading import Found, Reading, Span, pattern_of

_HOST_COPY = r"(?:memory )?(?:copies|copy|transfers?|memcpy(?:s)?|uploads?)"
TRANSFORMS: tuple[tuple[str, str], ...] = (
    ("remove-wait", r"(?:remov(?:e|ing|al of)|drop(?:ping)?|eliminat(?:e|ing)|delet(?:e|ing)|sink(?:ing)?|touch(?:ing)?|chang(?:e|ing)|mov(?:e|ing)) (?:any |the |my |our |existing |host |device |explicit )*(?:waits?|syncs?|synchroni[sz]ations?(?: calls?| points?)?|cudadevicesynchronize(?:\(\))?|cudastreamsynchronize(?:\(\))?)|wait removal|(?:去掉|删除|移除|去除|删|改动|改|动|移动)(?:任何|现有的?|主机|设备)?(?:同步|等待)(?:点|调用)?"),
    ("narrow-wait", r"narrow(?:ing)? (?:any |the )?(?:waits?|syncs?)|wait narrowing|收窄(?:同步|等待)"),
    ("hoist-allocation", r"(?:hoist(?:ing)?|mov(?:e|ing)|chang(?:e|ing)|touch(?:ing)?) (?:any |the |of |my |memory )*(?:allocations?|cudamallocs?|mallocs?)|allocation hoisting|stream-ordered (?:allocations?|memory|pools?)|(?:memory|allocation|mem) pools?|内存池|显存池|(?:提升|外提|移动|上提|改动?)(?:内存|显存)?分配"),
    ("keep-resident", r"keep(?:ing)? (?:the )?(?:data|buffers?|weights|everything|intermediates?) (?:resident|on (?:the )?(?:gpu|device))|(?:device|gpu) residency|数据?常驻(?:gpu|显存)?"),
    ("hoist-upload", rf"(?:hoist(?:ing)?|mov(?:e|ing)) (?:any |the |of )*{_HOST_COPY}|upload hoisting|(?:提升|外提|上提)(?:上传|拷贝)"),
    ("pin-host", r"pin(?:ning)?(?: the| any)? (?:host )?(?:memory|buffers?)|pinned(?: host)?(?: memory| buffers?)?|page-?locked(?: memory| buffers?)?|cudamallochost|cudahostregister|cudahostalloc|锁页(?:内存)?|页锁定(?:内存)?|固定内存"),
    ("async-copy", rf"async(?:hronous)? {_HOST_COPY}|cudamemcpyasync|mak(?:e|ing) (?:the )?copies async(?:hronous)?|异步(?:内存|数据)?(?:拷贝|传输|复制)"),
    ("pipeline-loop", r"(?:loop )?pipelining|pipelin(?:e|ed) (?:the )?loops?|double[- ]buffer(?:ing|s|ed)?|triple[- ]buffer(?:ing|s|ed)?|流水线(?:化|并行)?|双缓冲|三缓冲"),
    ("parallel-branches", r"parallel branches|branch parallelism|concurrent branches|并行分支|分支并行"),
    ("cuda-graph", r"cuda[- ]?graphs?(?: capture| replay)?|cudagraphs?|graph (?:capture|replay|launch(?:es)?)|stream capture|graphs(?![a-z0-9])|cuda\s*图(?!像|片)|图捕获|graph(?=\s*(?:$|[,.;!，。]))"),
    ("fuse-elementwise", r"(?:elementwise |kernel |operator |op |layer )?fusion|fus(?:e|ing) (?:any |the |of |elementwise )*(?:kernels?|ops?|operators?|layers?|elementwise[a-z ]*|anything)|kernels? (?:to be )?fused|fused kernels?|(?:kernel|算子|内核|核函数|逐元素)?\s*融合(?:kernel|算子|内核|核函数)?"),
    ("reuse-buffers", r"(?:buffer|memory|workspace) (?:reuse|sharing|aliasing)|reus(?:e|ing) (?:any |the |of )*(?:buffers?|memory|workspaces?)|(?:缓冲区?|显存|内存|buffer)\s*复用|复用(?:缓冲区?|显存|内存|buffer)"),
    ("tune-launch", r"launch (?:config(?:uration)?s?|param(?:eter)?s?|dimensions?|bounds|tuning)|(?:block|grid|thread[- ]block)[- ](?:sizes?|dim(?:ension)?s?|shapes?)|blockdim|griddim|(?:线程块|block|grid|网格)\s*的?(?:大小|尺寸|维度|配置)|启动(?:配置|参数)"),
    ("vector-loads", r"vector(?:i[sz]ed?)? (?:loads?|memory access(?:es)?|access(?:es)?)|vectori[sz](?:ation|ing|e)(?: loads?)?|float4|__restrict__|向量化(?:加载|访存|读取|访问)?"),
    ("dependent-launch", r"programmatic dependent launch(?:es)?|(?<![a-z0-9])pdl(?![a-z0-9])|dependent launch(?:es)?|程序化依赖启动|依赖启动"),
    ("batch-copies", r"(?:batch(?:ing)?|merg(?:e|ing)|coalesc(?:e|ing)|combin(?:e|ing)) (?:any |the |of |small |memory )*(?:copies|memcpys?|transfers?)|copy batching|(?:合并|批量)(?:小?拷贝|传输|复制)"),
)  # fmt: skip
IDS = tuple(name for name, _ in TRANSFORMS)
_EDGE = r"(?<![a-z0-9_-])(?:{})(?![a-z0-9_-])"
_CONCEPTS = tuple((name, pattern_of(_EDGE.format(rf"{name}|{pattern}"))) for name, pattern in TRANSFORMS)
_KEEPS = (
    ("remove-wait", pattern_of(r"\b(?:keep|leave|preserve) (?:all |every |the |my |our |existing |host )*(?:waits?|syncs?|synchroni[sz]ations?(?: points?| calls?)?)\b|保留(?:所有|全部|现有的?)?(?:的)?同步")),
    ("tune-launch", pattern_of(r"\b(?:keep|leave|preserve) (?:all |the |my |our |existing |current )*(?:launch (?:config(?:uration)?s?|param(?:eter)?s?)|(?:block|grid) (?:sizes?|dim(?:ension)?s?)(?: (?:and|or) (?:block|grid) (?:sizes?|dim(?:ension)?s?))?)\b|保持(?:block|线程块|grid|启动)(?:大小|配置|参数|尺寸)")),
)  # fmt: skip
_LIST = pattern_of(r"\s*(?:[,、，/&]|\bor\b|\band\b|\bnor\b|和|或者?|与|及|以及)+\s*(?:use |any |no |使用)?")
_DESCRIBES = pattern_of(r"\bwithout (?:the )?$|不用$|没有?$")
_TAKES = pattern_of(r"\b(?:takes|took|runs at|ran|is (?:at|slow)|it's|was|is \d)\b|(?:耗时|需要|要)\s*\d")

_STREAM = r"(?:cuda |gpu |concurrent |parallel |extra |separate |additional )*streams?(?![a-z0-9])|(?:个|条|路)?\s*(?:cuda|gpu|并发|并行)?\s*(?:流(?![水程畅式量行体])|streams?)"
_COUNT = (
    r"(?P<n>\d{1,4}|one|a single|two|three|four|five|six|seven|eight|nine|ten|sixteen|[一二两三四五六七八九十]{1,9})"
)
_AT_MOST = pattern_of(
    rf"(?:\b(?P<le>at most|up to|no more than|not more than|(?:a )?max(?:imum)?(?: of)?|limit(?:ed)?(?: it)? to|within|(?:not|n't|never) (?:use |using |create |creating |exceed |go over |have |want |need |open |allow )?(?:more than|exceed(?:ing)?|over)?|not to exceed|or fewer|<=|≤|only)|(?P<lt>fewer than|less than|under|below|<)"
    rf"|(?P<cle>最多|至多|不(?:能|得|要|可|许)?(?:超过|多于)|上限(?:为|是)?|限制(?:在|为|到)|控制在|顶多|只(?:能|用|许|允许)*|仅(?:用|使用|能用)?)|(?P<clt>少于|低于|小于))\s*(?:使用|用|开|创建|有|use\s+|using\s+|have\s+)*\s*{_COUNT}\s*(?:{_STREAM})(?:以内|之内)?"
)
_AFTERWARDS = pattern_of(
    rf"{_COUNT}\s*(?:{_STREAM})\s*(?:\(?(?:max(?:imum)?|at most|or (?:less|fewer)|tops|only)\b\)?|以内|之内|以下|封顶)"
)
_NAMED_LIMIT = pattern_of(
    r"(?:max[_ -]?streams?|(?<![a-z] )(?:cuda )?streams?(?=\s*[:=<≤])|流(?:的)?数量?|stream count|number of (?:cuda )?streams?)\s*(?:is|must be|should be|:|=|<=|≤|at most|不超过|最多|上限|不大于|为|是|limited to|must not exceed|to|max|\s)+\s*(?P<n>\d{1,4}|[一二两三四五六七八九十]{1,9})"
)
_CHINESE_LIMIT = pattern_of(
    r"流(?![水程畅式量行体])(?:的?数量?|数)?\s*(?:不(?:能|得|要|可)?(?:超过|多于|大于)|最多|至多|上限(?:为|是)?|限制(?:为|在)|控制在|≤|<=)\s*(?P<n>\d{1,4}|[一二两三四五六七八九十]{1,9})\s*(?:个|条)?"
)
_SINGLE = pattern_of(
    r"\b(?:keep (?:to |it (?:to|on) )?|stay (?:on|in|with) |use |using |on |with |in )?(?:only |just )?(?:a single|single|one single|just one|only one|the same|one) (?:cuda )?stream\b(?: only)?|\bsingle-stream(?:ed)?\b|单(?:个|条|一)?\s*(?:cuda)?\s*流(?![水程畅量])|同一(?:个|条)流|(?:一个|一条)流"
)
_NO_MORE = pattern_of(
    r"(?:(?:\b(?:don't|do not|never|not|n't|avoid|without|no|cannot|must not|mustn't)\b\s*)(?:to |be )*(?:(?:add(?:ing|ed)?|creat(?:e|ing)|us(?:e|ing)|introduc(?:e|ing)|spawn(?:ing)?|open(?:ing)?|allow(?:ed)?|want|have|need)\s+)*(?:(?:any|more|extra|additional|new|multiple|multi|other|second|further|side|several|another|a)[ -]*)*(?:cuda |gpu )*(?:multi-?stream(?:ing|s)?|streams?)\b"
    r"|(?:不(?:要|能|得|许|可以?|准|允许)?|别|勿|禁止|禁用|避免)(?:再)?(?:增加|添加|新增|新建|加|用|使用|引入|创建|开|搞|启用)*(?:任何|更多|额外|新|多|其他|多个|多条|额外的|新的)*的?\s*(?:cuda)?\s*流(?![水程畅量]))"
)
_PLAIN = pattern_of(rf"(?<![a-z0-9]){_COUNT}\s*(?:{_STREAM})")


def read_restrictions(reading: Reading, parts: list[Clause]) -> tuple[list[Found[str]], Found[int] | None]:
    """The forbidden transform ids, and the most streams; takes their words."""
    streams = _streams(reading, parts)
    forbidden: dict[str, Found[str]] = {}
    mentions: list[tuple[Span, str]] = []
    for name, pattern in _CONCEPTS:
        mentions += [(match.span(), name) for match in reading.matches(pattern)]
    for group in _groups(reading.text, _widest(mentions)):
        span = (group[0][0][0], group[-1][0][1])
        clause = speech.joined(parts, span)
        if clause is None:
            continue
        side = polarity(reading.text, clause, span)
        before = reading.text[clause.start : span[0]]
        told = (
            side == "forbid"
            and _DESCRIBES.search(before)
            and _TAKES.search(reading.text[clause.start : min(len(reading.text), span[1] + 48)])
        )
        if side != "forbid" or told or clause.question or speech.CONDITION.search(before):
            continue
        for place, name in group:
            reading.take(place)
            forbidden.setdefault(name, Found(name, place))
    for name, pattern in _KEEPS:
        for match in list(reading.matches(pattern)):
            if not re.search(
                r"(?a)(?:\b(?:not|no need to)\s*|n't (?:have to |need to )?)$|不(?:必|用|需要|要)\s*$",
                reading.text[: match.start()],
            ):
                reading.take(match.span())
                forbidden.setdefault(name, Found(name, match.span()))
    return sorted(forbidden.values(), key=lambda one: one.span), streams


def _widest(mentions: list[tuple[Span, str]]) -> list[tuple[Span, str]]:
    kept: list[tuple[Span, str]] = []
    for span, name in sorted(mentions, key=lambda one: (one[0][0], -one[0][1])):
        if not kept or kept[-1][0][1] <= span[0]:
            kept.append((span, name))
    return kept


def _groups(text: str, mentions: list[tuple[Span, str]]) -> list[list[tuple[Span, str]]]:
    """ "no CUDA graphs, kernel fusion or pinned memory": a list shares its negation."""
    groups: list[list[tuple[Span, str]]] = []
    for span, name in mentions:
        if groups and _LIST.fullmatch(text, groups[-1][-1][0][1], span[0]):
            groups[-1].append((span, name))
        else:
            groups.append([(span, name)])
    return groups


def _streams(reading: Reading, parts: list[Clause]) -> Found[int] | None:
    found: list[Found[int]] = []

    def keep(value: int | None, span: Span) -> None:
        clause = speech.joined(parts, span)
        reading.take(span)
        words = reading.words(span)
        if value is None or value < 1:
            reading.ask("max_streams", f"How many streams may {words!r} use?")
        elif clause is not None and (clause.question or speech.CONDITION.search(reading.text, clause.start, span[0])):
            reading.ask("max_streams", f"Is {words!r} a limit?", f"at most {value}", "no limit")
        elif clause is None or not speech.NEVER_MIND.search(reading.text, clause.start, clause.end):
            found.append(Found(value, span))

    for match in list(reading.matches(_AT_MOST)):
        count = _count(match["n"])
        keep(count - 1 if count is not None and (match["lt"] or match["clt"]) else count, match.span())
    for pattern in (_AFTERWARDS, _NAMED_LIMIT, _CHINESE_LIMIT):
        for match in list(reading.matches(pattern)):
            keep(_count(match["n"]), match.span())
    for match in list(reading.matches(_NO_MORE)):
        keep(1, match.span())
    for match in list(reading.matches(_SINGLE)):
        before = reading.text[max(0, match.start() - 16) : match.start()]
        if re.search(r"(?a)(?:\bnot|n't|不(?:要|再|能)?|别)\s*(?:用|使用|just|only|be)?\s*$", before) or re.search(
            r"(?a)\b(?:at least|more than)\b|至少|超过", before
        ):
            continue
        keep(1, match.span())
    for match in list(reading.matches(_PLAIN)):
        clause = speech.joined(parts, match.span())
        before = reading.text[clause.start if clause else 0 : match.start()]
        if re.search(
            r"(?a)\b(?:use|with|want|need|run on|over|across|on)\s*$|(?:用|使用|开)\s*$", before
        ) and not speech.STATE.search(before):
            reading.take(match.span())
            count = _count(match["n"])
            reading.ask(
                "max_streams",
                f"Is {reading.words(match.span())!r} the most that may be used?",
                f"at most {count}",
                "no limit",
            )
    values = dict.fromkeys(one.value for one in found)
    if len(values) > 1:
        reading.ask("max_streams", "How many streams may be used at most?", *map(str, values))
        return None
    return found[0] if found else None


def _count(words: str) -> int | None:
    if words == "a single":
        return 1
    if words.isascii():
        numbers = find_numbers(words)
        value = numbers[0].value if numbers else None
    else:
        value = chinese_number(words)
    return None if value is None else int(value)
