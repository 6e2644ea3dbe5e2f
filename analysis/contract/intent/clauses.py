"""Clauses: the stretches of a request in which words qualify each other; and how a clause speaks of a value."""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.analysis.contract.intent.reading import Reading, Span, pattern_of

_BOUNDARY = pattern_of(
    r"(?P<stop>[;!?\n。]|\.(?=\s|$)|—+|\s-\s|\s--\s)"
    r"|(?P<or>\b(?:or else|or)\b(?!\s+(?:less|more|better|fewer|lower|higher|below|above|under|over|equal|faster|so|greater|shorter|remove|use|add|change|touch|introduce|enable|apply|drop|move|modify|fuse|hoist|pin|create|alter)\b)|或者|或(?!更|以|者|等))"
    r"|(?P<but>\b(?:but|however|though|although|yet|while|whereas)\b|但是|但|不过(?!\d)|然而)"
    r"|(?P<and>\b(?:and|plus|also)\b|&|并且|而且|同时|以及|且|和|与|跟)"
    r"|(?P<comma>[,，、](?!\d{3}(?!\d)))"
)
_STATISTIC_EDGE = r"(?:t?p-?\d{2,3}(?:\.\d)?|mean|median|average|avg|平均|中位数?|max|最大|worst[- ]case)"
_LISTED = pattern_of(rf"{_STATISTIC_EDGE}\s*$")
_LISTED_NEXT = pattern_of(rf"\s*(?:the )?{_STATISTIC_EDGE}")
_MORE = pattern_of(r"\s*(?:和|与|及|the\s)?")

# ----------------------------------------------------------------------------------------------- how a clause speaks

STATE = pattern_of(
    r"\b(?:currently|current|now|nowadays|today|at the moment|right now|at present|presently|already|so far|as of"
    r"|baseline|was|were|used to|previously|before|originally|yesterday|last (?:week|month|time)|measured|profiled?)\b"
    r"|(?<!比)(?:现在|目前|当前|现阶段|如今|眼下|原来(?!的)|原本|之前|以前|本来|已经)|已(?=[达低超])|基线|从前|实测|测得"
)
STATE_BEFORE = pattern_of(
    r"(?:\b(?:from|instead of|rather than|compared (?:to|with)|than the (?:current|old)|versus|vs\.?)|从|由|而不是|相比|比起|代替)\s*(?:the |our |its )?(?:current |old |原来的|现在的|当前的|目前的)?$"
)
DESCRIBES = pattern_of(
    r"\b(?:takes|took|spends|spent|costs?|gets|got|runs at|ran at|running at|is running at|sits at|does|is)\s+(?:only |just |about |around |at |up to )*$|(?<![需要])(?:花了|用了|花费|用掉)\s*$"
)
REQUIRES = pattern_of(
    r"\b(?:must|should|shall|has to|have to|needs?(?: to)?|needed|want|wants|wanted|would like|'d like|require[sd]?|requirement|target(?:s|ing)?|goals?|aim(?:ing)?|please|ensure"
    r"|guarantee|budget|deadline|limit|cap|slo|sla|make|get|bring|keep|push|drive|reduce|cut|lower|hit|reach|achieve|sustain|deliver|maintain|stay|allowed)\b"
    r"|必须|必需|需要|应该|应当|希望|想要?|要求|目标|请|务必|保证|确保|控制|不得|不能|不要|预算|上限|下限|(?<!需)要(?!求)|降到|降至|达到|力争|争取"
)
_NEVER_MIND = (
    r"\b(?:does|do|did|need|is|are|it's|has|have)(?:n't| not)(?: really| even| actually| necessarily| strictly)? (?:need(?:ed)?|have to|has to|require[d]?|necessary|necessarily|care|matter|important|bother|worry|mind|a (?:goal|requirement|concern|target|problem|must)|relevant|critical|a hard)"
    r"|\bno longer (?:matters?|needs?|needed|important|required|necessary|a (?:goal|requirement|concern)|have to|has to|must|relevant|care)"
    r"|\bno need\b|\birrelevant\b|\bunimportant\b|\bignor(?:e|ing)\b|\bforget\b|\bregardless\b|\bnot (?:important|required|needed|necessary|necessarily|relevant|a (?:goal|requirement|concern|target|must)|critical|care)\b|\bneed(?:n't| not)\b"
    r"|\bno (?:\w+ ){0,2}(?:requirements?|constraints?|limits?|bounds?|targets?|restrictions?|budgets?)\b|\bwithout (?:\w+ ){0,2}(?:requirements?|constraints?|limits?)\b|\b(?:doesn't|don't) count\b|\bnever mind\b|\bwhatever\b|\bnor\b|\bno matter\b|\bdrop the\b|\bcancel\b|\bused to (?:need|want|require)\b"
    r"|\bnobody (?:needs|cares|wants)\b|\boverkill\b"
    r"|不(?:再)?(?:需要|要求|必要?|用管|用(?=[低高小大少多超达到])|关心|在乎|在意|重要|强求|一定|追求|作要求|做要求|限制|设限)|无(?:需|须|所谓|要求|关紧要|限制)|没(?:有)?(?:必要|要求|关系|限制)|并?不是(?:要求|目标|必须|为了)?"
    r"|忽略|别管|不管|取消|不限"
)
NEVER_MIND = pattern_of(_NEVER_MIND)
CONDITION = pattern_of(
    r"\b(?:maybe|perhaps|might|if|when|whenever|unless|once|in case|as long as|suppose|assuming|until)\b(?! possible)|也许|或许|如果|假如|若(?!干)|要是|除非|一旦|只要|当(?!前)|的时候|的话|直到"
)
_QUESTION = pattern_of(
    r"^\s*(?:(?:is|are)(?! (?:it|there) (?:possible|any|a) )|does|did|was|were|why|how(?! about)|what|which|(?:do|have) (?:we|you|i|they|the|these)|has (?:it|the|this))\b(?!n't)|吗\s*$|^\s*(?:为什么|为何|怎么|如何|是否|是不是|多少)|多少\s*$|呢\s*$|是否|是不是"
)
UNRELATED_TIME = pattern_of(
    r"\b(?:compil\w+|build\w*|nvcc|link(?:ing)?|search(?:ing)?|tuning|optimi[sz]ation (?:time|run|budget)|optimi[sz]ing (?:for|within)|spend|startup|start-up|warm-?up|time-?out|deadline is in|answer me|reply"
    r"|session|meeting|by tomorrow|agent|ci (?:job|run)|test suite|development|sleep|interval|poll\w*)\b|编译|构建|搜索|调优时间|优化时间|优化(?:过程|花)|启动|预热|超时|开发|回复|等待我"
)


@dataclass(frozen=True, slots=True)
class Clause:
    """`joiner`: how it follows the one before: "start", "stop", "comma", "and", "or" or "but". `question`: it stands in a
    sentence that asks for a fact."""

    start: int
    end: int
    joiner: str
    question: bool

    @property
    def span(self) -> Span:
        return self.start, self.end


def split(reading: Reading, whole: list[Span]) -> list[Clause]:
    """`whole`: spans that no boundary may cut (shapes, ranges, numbers)."""
    text, out = reading.text, []
    start, joiner = 0, "start"
    for match in _BOUNDARY.finditer(text):
        kind = match.lastgroup or ""
        if any(a < match.end() and match.start() < b for a, b in whole):
            continue
        if kind in ("and", "or", "comma") and _LISTED.search(text, max(0, match.start() - 16), match.start()):
            after = _MORE.match(text, match.end())
            if _LISTED_NEXT.match(text, after.end() if after else match.end()):
                continue  # "p50 and p99 under 8 ms"
        if match.start() > start and text[start : match.start()].strip():
            out.append((start, match.start(), joiner))
            joiner = kind
        elif kind in ("or", "stop", "but"):
            joiner = kind if joiner != "or" else joiner
        start = match.end()
    if text[start:].strip():
        out.append((start, len(text), joiner))
    return [Clause(a, b, how, _asks(text, out, k)) for k, (a, b, how) in enumerate(out)]


def _asks(text: str, cut: list[tuple[int, int, str]], k: int) -> bool:
    first = last = k
    while first > 0 and cut[first][2] not in ("start", "stop"):
        first -= 1
    while last + 1 < len(cut) and cut[last + 1][2] != "stop":
        last += 1
    return bool(_QUESTION.search(text[cut[first][0] : cut[last][1]].strip()))


def joined(clauses: list[Clause], span: Span) -> Clause | None:
    """The clause in which a span begins."""
    return next((clause for clause in clauses if clause.start <= span[0] < clause.end), None)
