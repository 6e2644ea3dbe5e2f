"""Does a request forbid or allow the thing that it names?"""

from __future__ import annotations

import re

from stitchcuda.analysis.contract.intent.clauses import Clause
from stitchcuda.analysis.contract.intent.reading import Span, pattern_of

_WELCOME = pattern_of(
    r"\b(?:no (?:problem|objections?|issues?|harm|trouble|worries)|(?:don't|do not|doesn't|does not|not|wouldn't) (?:mind|object|oppose|hesitate|be afraid|against|opposed|forget|only|just)|not against|not opposed|not only|nothing against|why not|forgot to|feel free)\b|不反对|不介意|没意见|没问题|不仅|不只|不光|不妨|别忘|不排除|无妨"
)
_INDIFFERENT = pattern_of(
    r"\b(?:no need|not (?:needed|necessary|required)|(?:don't|doesn't|do not|does not) (?:need|have|care|require|matter)|needn't|need not)\b|不(?:需要|必|要求|一定)|无(?:需|须)|没(?:有)?必要|不在乎|无所谓"
)
_FORBIDS_BEFORE = pattern_of(
    r"(?:\b(?:no|not|never|without|avoid(?:ing)?|forbid(?:s|den)?|disallow(?:ed)?|ban(?:s|ned)?|disabl(?:e|ed|ing)|exclud(?:e|es|ing)|except(?: for)?|prohibit(?:ed)?|rather than|instead of|other than|rule out|stay away from|refrain from|skip|nor|turn off|switch off|steer clear of|cannot|mustn't)\b|n't\b"
    r"|不(?:要|能|得|可以?|许|允许|准|用|使用|想|希望|应|应该|支持|接受|考虑|再|做|改|动)|禁(?:止|用)|别|避免|勿|莫|关闭|排除|拒绝|杜绝|不(?=(?:用|使用|引入|采用|做|开|改|加)))"
)
_FORBIDS_AFTER = pattern_of(
    r"\s*:\s*(?:no|off|forbidden|never|disabled|disallowed|否|禁止|禁用|不)(?![a-z])|[\s)\"'`]*(?:(?:precision|mode|transforms?|optimi[sz]ations?|math|arithmetic|quanti[sz]ation|计算|精度|优化|方式|量化)\s*)?(?:(?:is|are|be|must|should|may|can)\s*){0,2}(?:not\b(?! only)|n't|cannot\b|isn't\b|aren't\b|mustn't\b|can't\b|forbidden\b|disallowed\b|off\b(?!-)|off-limits\b|banned\b|disabled\b|prohibited\b|off the table\b|unacceptable\b|out of the question\b|(?:也|都|一律|绝对)?(?:不(?:行|可以?|能|允许|许|得|接受|要|准)|禁止|禁用|免谈))"
)
_ALLOWS_BEFORE = pattern_of(
    r"(?:\b(?:only|just|keep(?:s|ing)?(?: it| everything| all)?|stay(?:s|ing)?|us(?:e|es|ing)|allow(?:s|ed|ing)?|may|can|in|with|remain(?:s|ing)?|permit(?:s|ted)?|switch(?:ing)? to|convert(?:ing)? to|mov(?:e|ing) to|ok|okay|fine|accept|exclusively|solely|pure|strictly|nothing but|lower to|drop to|down to|precision|precisions|run|computed?)\b"
    r"|仅|只|用|使用|允许|可以|可用|可|保持|采用|改用|接受|换成|转成|转为|转换为|改成|降到|坚持|限|全程|统一|支持)"
)
_ALLOWS_AFTER = pattern_of(
    r"[\s)\"'`]*(?:(?:precision|mode|math|arithmetic|计算|精度|运算)\s*)?(?:only\b|exclusively\b|everywhere\b|throughout\b|(?:is|are|would be|'s)?\s*(?:also |both |all )?(?:ok|okay|fine|allowed|permitted|acceptable|good|welcome|enough)\b|(?:也|都|是|就)?(?:可以|行|允许|没问题|可接受|即可|好|够了?|足够|ok|okay))"
)
_SMALL = pattern_of(
    r"(?:\s|[\"'`(,、/:]|\b(?:any|the|a|an|to|use|using|of|on|in|with|it|them|be|we|you|i|want|allow|allowed|allowing|please|do|let|add|adding|introduce|enable|enabling|turn|apply|applying|try|perform|rely|relying|switch|switching|convert|converting|more|extra|additional|new|or|and|nor|either|also|pure|plain|strictly|everything|all|computation|compute|math|precision|stay|keep|go|going|down|drop|lower|lowering|reorder|rearrange|below|touch|change|changing|modify|alter|rewrite|into|for|at|should|must|may|can|ever|my|our|its|this|that|by|make|as|such|well|even|kind|sort|there|is|are|me|own|have|rather|see|reduced|do(?:ing)?|create|creating)\b"
    r"|使用|采用|引入|开启|启用|任何|做|改|动|用|把|换|转|成|为|到|降|给|我|的|了|进行|去|再|加|添加|增加|更|新|想|要|改变|修改|更改|调整|碰|计算|精度|和|或|及|与|也|都|全部|一律|保持|是|在|以|能|被)*"
)


def polarity(text: str, clause: Clause, span: Span) -> str | None:
    """ "forbid", "allow", or None where the clause does neither. A list of names shares its words: `span` is the list's."""
    start = clause.start
    before, after = text[start : span[0]], text[span[1] : min(clause.end, span[1] + 64)]
    if _INDIFFERENT.search(before) or _INDIFFERENT.search(after[:32]):
        return None
    if _WELCOME.search(before):
        return "allow"
    if _FORBIDS_AFTER.match(after):
        return "forbid"
    if _reaches(_FORBIDS_BEFORE, before):
        return "forbid"
    if _ALLOWS_AFTER.match(after) or _reaches(_ALLOWS_BEFORE, before):
        return "allow"
    return None


def speaks_for_itself(text: str, at: int) -> bool:
    """What ends at `at` is followed by a word of its own: "no tf32, fp32 only"."""
    return bool(_FORBIDS_AFTER.match(text, at) or _ALLOWS_AFTER.match(text, at))


def _reaches(pattern: re.Pattern[str], before: str) -> bool:
    """Some match has only small words between it and the end."""
    return any(_SMALL.fullmatch(before, match.end()) for match in pattern.finditer(before))
