"""What the program does, in the user's words: the object of the request's verb, or the subject of its limits."""

from __future__ import annotations

import re

from stitchcuda.analysis.contract.intent import clauses as speech
from stitchcuda.analysis.contract.intent.clauses import Clause
from stitchcuda.analysis.contract.intent.reading import CJK, Found, Reading, Span, pattern_of

VERB = pattern_of(
    r"\b(?:speed(?:ing)? up|accelerat(?:e|ing)|optimi[sz](?:e|ing)|improv(?:e|ing)|mak(?:e|ing)|tun(?:e|ing)|get(?:ting)?|bring(?:ing)?|halv(?:e|ing)|reduc(?:e|ing)|cut(?:ting)?|lower(?:ing)?(?! than)|doubl(?:e|ing)|tripl(?:e|ing)|stitch|push|boost(?:ing)?|shorten|minimi[sz](?:e|ing)|maximi[sz](?:e|ing)|increase|raise|drive|run|keep)\b"
    r"|最小化|最大化|加速(?!比)|优化|提速|加快|提升|提高|改进|缩短|降低|减少|让|把|将|使(?!用)|改善|调优"
)
_SPLIT_VERB = pattern_of(r"\bspeed (?P<object>(?!up\b)[^,.;，。]{2,60}?) up\b")
POLITE = pattern_of(
    r"(?:\s|[,，:\"'`]|\b(?:please|can you|could you|would you|will you|could we|can we|is it possible to|help me|help us|help|i want you to|i want to|i want|we want to|we want|i'd like to|i'd like|i would like to|we would like to|we'd like to|we need to|i need to|we need|i need|you to|let's|let us|hi|hello|hey|ok|so|our goal is to|the goal is to|goal|task|todo|try to|to|we must|i must|you must|you should)\b[:]?|请|帮我们?|帮忙|麻烦|我想要?|我们想要?|希望|我们?需要|需要|能不能|能否|可以|可否|想要|我要|我们要|你好|任务|目标是?|要|尽量|尽可能|帮|一下)*"
)
STOP = pattern_of(
    r"(?:\s|^)(?:so that|so|such that|without|while|must|should|shall|has to|have to|needs? to|needs|is|are|was|takes?|took|currently|now|runs?|running|as fast|faster|quicker|fast|slower|twice|by|using|use|that|which|because|if|when|with|keep(?:ing)?|stay(?:s|ing)?|and|but|from|to|can|will|does|do|up|in (?:under|less|at most|half|a )|delivers?|reach(?:es)?|achieves?|processes|hits?|at|under|below|within|at least|at most)(?=\s|$)"
    r"|(?:必须|应该?|需要|能够?|可以|要(?!素)|不能|不得|不要|不超过|达到|跑到|做到|更快|变快|快(?!速|照|取|排|递)|慢|低于|高于|超过|至少|最多|控制|保持|降到|降至|降低|提高到|提升到|提高|提升|缩短|减少|减半|翻倍|翻一番|加速到|在(?!线)|每秒|每帧|只|仅|并且|同时|耗时|到(?=\d)|跑(?=\d)|不到|压到|缩到|压缩|压至|目前|现在|当前|耗时)"
)
_METRIC = r"latency|latencies|runtimes?|run[- ]time|running time|execution time|response time|processing time|frame time|time|throughput|speed|performance|duration|frame rate|fps|qps|memory usage|memory footprint|memory|gpu memory|vram"
LEADING = pattern_of(
    rf"(?:\s|[\"'`(:,，]|\b(?:the|a|an|our|my|your|this|that|its|of|for|up|out|down|in|mean|average|avg|median|p\d+(?:\.\d+)?|tail|worst-case|worst case|maximum|max|peak|total|overall|end-to-end|currently|now|about|around|between|{_METRIC})\b(?!-)|一下|这个|该|此|我们的|我的|整个|平均|单次|每次|每帧|现在|目前|的|中(?!值|位|间)|上|了|延迟(?=的)|吞吐量?(?=的)|速度(?=的)|p\d+(?=的))*"
)
_TRAILING = pattern_of(
    rf"(?:\s|[\"'`),，:：;\-(]|(?<![a-z0-9-])(?:the|a|an|on|in|at|with|by|to|for|of|is|are|be|under|below|within|over|above|and|or|but|so|from|as|using|into|than|that|must|should|needs?|has|have|its|our|my|mean|average|avg|median|p\d+(?:\.\d+)?|max|maximum|peak|tail|run|runs|take|takes|only|just|still|get|each|every|per|all|less|more|faster|not|no|do|does|can|will|please|it|target|also|goal|limit|budget|nvidia|there|{_METRIC})"
    r"|的?(?:平均|单次|端到端|总|p\d+|峰值)*(?:延迟|时延|耗时|用时|时间|吞吐量?|吞吐率|速度|性能|帧率|运行时间|推理时间|处理时间|响应时间|显存占用|显存|效率)|的|在|上|中|里|为|是|要|到|得|跑得|变得|更|跑|了|使|让|必须|应|需|并|且|和|与|用|以|至|每秒|平均|请|从|对|将|把|时|下|也|都|不|就行|即可|就好|就可以|就够了)+$"
)
GENERIC = pattern_of(
    rf"(?:\s|[-/%.,'\"]|\d|(?<![a-z])(?:achieved|would|great|nice|good|than|lat|mem|launch(?:es)?|allocations?|registers?|syncs?|power|energy|than|slo|sla|rid|right|maybe|perhaps|size|sizes|sustain|deliver|achieve|reach|hit|maintain|guarantee|ensure|have|got|baseline|original|before|currently|aim|shoot|strive|shave|cut|drop|save|take|off|down|go|going|be|by|possible|it|this|that|them|things?|everything|something|anything|whole|entire|complete|the|a|an|my|our|its|your|program|programs|code|codebase|application|app|project|file|files|script|kernel|kernels|cuda|gpus?|functions?|job|stuff|software|system|one|part|sure|all|of|in|and|source|much|possible|as|fast|faster|me|you|us|we|i|now|loop|repo|repository|model|workload|version|results?|outputs?|inputs?|changes?|only|host|device|number|target|goal|requirements?|limits?|bounds?|for|on|to|not|no|more|less|use|using|please|hardware|precision|tolerance|total|overall|percentile|requests|frames?|images?|iterations?|calls?|batch|step|between|about|around|currently|finish|complete|process|run|runs|st|nd|rd|th|utili[sz]ation|usage|occupancy|bandwidth|transfers?|copy|copies|traffic|pcie|h2d|d2h|error|errors?|relative|absolute|may|compile|build|cpu|and|sm|per|single|each|every|streams?|latency|{_METRIC}|p\d+|worst|case|mean|average|median|max|min|spend|at|most|least)(?![a-z])"
    r"|程序|代码|它|这|那|个|段|份|项目|应用|整个|全部|所有|内核|核函数|函数|工程|文件|脚本|结果|输出|输入|我们?|你|的|其|部分|东西|系统|软件|一下|速度|性能|硬件|精度|目标|要求|最|尽|快|可能|量|显存|内存|误差|数据|传输|拷贝|主机|设备|到|和|之间|带宽|利用率|占用率?|坏|情况|分位数?|每|帧|次|张|单|处理|运行|大约|约|相对|绝对?|延迟|时延|耗时|时间|吞吐|峰值|中位数?|平均|流|端到端|分钟|秒|小时|[一二三四五六七八九十百千万两零]|成|请求|字节数?|整体|总体?|比|原来|现在|目前|以前)*"
)
_SENTENCE = pattern_of(
    r"\b(?:not|no|never|nothing|doesn't|don't|isn't|can't|won't|if|why|how|what|when|i|you|he|she|they|spend)\b|n't\b|[不没无别勿]|如果|为什么|怎么"
)
_DESCRIBED = pattern_of(r"\b(?:takes|took|currently|runs (?:at|in)|is (?:at|currently|now)|now)\b|目前|现在|当前|耗时")
_FOR_THE = pattern_of(r"\b(?:for|of|in) (?:the|our|my) ")
_OF_A_FUNCTION = pattern_of(r"\s*(?:functions?|methods?|kernels?|calls?|函数|方法)?\s*(?:of|in|for|的|里的|中的)?\s*")
_WEAK_VERB = pattern_of(
    r"mak|get|bring|run|keep|push|drive|让|把|将|使|提升|提高"
)  # ask for speed only beside a limit or "faster"
_FASTER = pattern_of(r"\bfast(?:er)?\b|\bquick(?:er|ly)?\b|快|加速|优化|提速|性能|速度|吞吐")


def read_task(reading: Reading, parts: list[Clause], bounds: list[Span]) -> Found[str] | None:
    """The first clause that names a piece of work; None where the request names none."""
    for k, clause in enumerate(parts):
        if clause.joiner == "or" or speech.NEVER_MIND.search(reading.text, *clause.span):
            continue
        limited = any(clause.start <= a < clause.end for a, _ in bounds)
        announced = (
            k == 0
            and len(parts) > 1
            and parts[1].joiner == "comma"
            and any(parts[1].start <= a < parts[1].end for a, _ in bounds)
        )
        described = bool(bounds) and _DESCRIBED.search(reading.text, *clause.span) is not None
        for span in _candidates(reading, clause, limited or announced or described):
            found = _trimmed(reading, span)
            if found is not None:
                return found
    return None


def _candidates(reading: Reading, clause: Clause, limited: bool) -> list[Span]:
    """Where the words for the task may stand. What has no verb is a task only as the subject of a limit."""
    text = reading.text
    start = POLITE.match(text, clause.start, clause.end)
    begin = start.end() if start else clause.start
    out: list[Span] = []
    if (split := _SPLIT_VERB.search(text, clause.start, clause.end)) is not None:
        out.append(split.span("object"))
    verb = VERB.search(text, begin, clause.end)
    if verb is not None and re.search(
        r"(?a)(?:\b(?:not|never|no|without)\b|n't)\s*$|[不别勿]\s*$", text[clause.start : verb.start()]
    ):
        verb = None
    subject = (begin, _end(reading, begin, min(clause.end, verb.start()) if verb is not None else clause.end, False))
    if verb is None or verb.start() - begin > 1:
        out += [subject] if limited else []
    if limited and (beneficiary := _FOR_THE.search(text, begin, clause.end)) is not None:
        out.append((beneficiary.end(), _end(reading, beneficiary.end(), clause.end, False)))
    if verb is not None and (limited or not _WEAK_VERB.match(verb[0]) or _FASTER.search(text, verb.end(), clause.end)):
        out.append((verb.end(), _end(reading, verb.end(), clause.end)))
    return out


def _end(reading: Reading, start: int, end: int, object_: bool = True) -> int:
    """Where the words of a task end: at what another reader has understood, or at a word that starts a condition."""
    position = _begin(reading, start, end, object_)
    stop = min([end, *(max(a, position) for a, b in reading.taken if b > position and a < end)])
    found = STOP.search(reading.text, position, stop)
    return found.start() if found else stop


def _begin(reading: Reading, start: int, end: int, object_: bool = True) -> int:
    """Past articles and the words for what is measured, and past the function in "the forward() function of our encoder"."""
    while True:
        lead = LEADING.match(reading.text, start, end)
        position = lead.end() if lead else start
        over = next((b for a, b in reading.taken if a <= position < b), None)
        if over is None or over >= end or not object_:
            return position
        after = _OF_A_FUNCTION.match(reading.text, over, end)
        if after is None or not after[0].strip():
            return end
        start = after.end()


def _trimmed(reading: Reading, span: Span) -> Found[str] | None:
    text = reading.text
    start, end = span
    start = min(_begin(reading, start, end), end)
    tail = _TRAILING.search(text[start:end])
    if tail:
        end = start + tail.start()
    words = text[start:end]
    if GENERIC.fullmatch(words) or _SENTENCE.search(words) or not re.search(rf"(?a)[a-z{CJK}]{{2}}|[a-z]\d", words):
        return None
    return Found(reading.raw[start:end], (start, end))
