"""The functions that a request is about: "only touch forward()", 只改函数 forward, "in `attention`"."""

from __future__ import annotations

import re

from stitchcuda.analysis.contract.intent.reading import Found, Reading, pattern_of

_ID = r"[a-z_][a-z0-9_]*(?:(?:::|\.|->)[a-z_][a-z0-9_]*)*"
_WORD = r"(?<![a-z])(?:functions?|kernels?|methods?|func|routines?)(?![a-z])"
_MARKED = r"(?:[a-z_][a-z0-9]*(?:_[a-z0-9_]*|::[a-z_][a-z0-9_:]*|\d[a-z0-9_]*))"  # no English word looks like it
_NOT_A_NAME = r"(?!(?:the|a|an|this|that|these|those|is|are|in|of|to|and|or|only|be|should|must|it|calls?|on|which|with|that|time|launch(?:es)?|fusion|for|code|under|at|from|itself|may|can|changes?|runs?|takes?|needs?|has|not|body|scope|whole|entire|main loop)(?![a-z0-9_]))"
_PATTERNS = (
    pattern_of(rf"(?<![a-z0-9_.:>]){_NOT_A_NAME}(?P<name>{_ID})\s?\(\s*\)"),
    # quoted names are of functions only beside words that say so: files, options and variables are quoted, too
    pattern_of(rf"(?:\b(?:only|just|touch|change|modify|edit|optimi[sz]e|accelerate|speed up|rewrite|within|inside|scope|functions?|kernels?|methods?|restrict(?:ed)? to|limit(?:ed)? to|confined? to|outside|except|but)(?: (?:the|of|in|code|function|kernel|method|body|is|inside))*\s*:?\s*|函数\s*|[改动]\s*|优化\s*|加速\s*|除了?\s*)`(?P<name>{_ID})(?:\(\))?`"),
    pattern_of(rf"`(?P<name>{_ID})(?:\(\))?`(?=\s*(?:functions?\b|kernels?\b|methods?\b|only\b|函数|方法))"),
    pattern_of(rf"(?:函数|方法|核函数)\s*(?:名为|叫|:|为|是)?\s*[`'\"]?{_NOT_A_NAME}(?P<name>{_ID})(?![a-z0-9_])(?:\(\))?[`'\"]?"),
    pattern_of(rf"(?:{_WORD})\s+(?:named|called)\s+[`'\"]?(?P<name>{_ID})(?![a-z0-9_])(?:\(\))?[`'\"]?"),
    pattern_of(rf"(?:{_WORD})\s*:?\s*['\"]?(?P<name>{_MARKED})(?![a-z0-9_])['\"]?"),
    pattern_of(rf"\b(?:the|in|only|of|touch|change) (?:function|method|routine|kernel) ['\"]?{_NOT_A_NAME}(?P<name>{_ID})['\"]?(?=\s*(?:$|[,.;!)，。]|must\b|should\b|has\b|under\b|below\b|within\b))"),
    pattern_of(rf"(?<![a-z0-9_])[`'\"]?(?P<name>{_ID})[`'\"]?\s*(?:函数|方法)"),
    pattern_of(rf"(?<![a-z0-9_])['\"]?(?P<name>{_MARKED})['\"]?\s+(?:functions?|method|kernel)(?![a-z])"),
    pattern_of(rf"\b(?:only|just|restrict|limit|confine)\b[a-z ]{{0,24}}?\bthe ['\"]?{_NOT_A_NAME}(?P<name>{_ID})['\"]?\s+(?:functions?|method|kernel)(?![a-z])"),
    pattern_of(
        rf"\b(?:only|just)\s+(?:be\s+)?(?:touch|change|modify|edit|optimi[sz]e|rewrite|look at|work on|consider|alter)\s+(?:the\s+)?(?:function\s+|kernel\s+|code\s+(?:in|of)\s+)?[`'\"]?{_NOT_A_NAME}(?P<name>{_ID})[`'\"]?(?=\s*(?:$|[,.;!，。；)]|and\b|function|method))"
    ),
    pattern_of(rf"\b(?:restrict|limit|confine)\s+(?:yourself|changes|edits|the changes|all changes|it|modifications|the scope|scope)\s+to\s+(?:the\s+)?(?:function\s+)?[`'\"]?{_NOT_A_NAME}(?P<name>{_ID})[`'\"]?(?![a-z0-9_])"),
    pattern_of(rf"\b(?:scope)\s*(?:is|:|=|should be|must be|limited to)\s*(?:the\s+)?(?:function\s+)?[`'\"]?{_NOT_A_NAME}(?P<name>{_ID})[`'\"]?(?![a-z0-9_])"),
    pattern_of(rf"(?:只|仅)(?:能|可以?|允许|许|要|需)?(?:改|修改|优化|动|碰|调整|编辑|处理|关注|加速)(?:一下)?(?:函数|kernel|核函数)?\s*[`'\"]?(?P<name>{_ID})[`'\"]?"),
    pattern_of(rf"除了?\s*(?:函数)?\s*[`'\"]?(?P<name>{_ID})[`'\"]?(?=\s*(?:函数)?(?:以外|之外|外))"),
    pattern_of(rf"(?:范围|作用域)(?:仅限|限于|为|是|限制在|:)+\s*(?:函数)?\s*[`'\"]?(?P<name>{_ID})[`'\"]?"),
)  # fmt: skip
_LISTED = pattern_of(
    rf"\s*(?:\(\))?\s*(?:,|，|、|and|和|与|及|以及|or)+\s*(?:the\s+)?[`'\"]?(?P<name>{_ID})[`'\"]?(?P<mark>\s?\(\s*\))?(?=\s*(?:$|[,.;!，。；、)]|and\b|functions?|的|函数|和|这))"
)
_ONLY_API = pattern_of(
    r"cuda[a-z]|cu(?:ctx|mem|stream|event|launch|graph|module|func|device|init|blas|fft|dnn|rand|solver|sparse)|nccl|std::|torch\.|printf|malloc|free$|memcpy|assert$"
)
_EXCLUDED = pattern_of(
    r"(?:\b(?:not|no|never|without|except(?: for)?|besides|outside(?: of)?|leave|apart from|other than|don't|calls? to|calling|via|using|use|replace|remove|removing|call)\b|n't\b)\s*(?:(?:touch|change|modify|edit|alter|optimi[sz]e|rewrite|the|any|in|to|of|function|kernel|method|code|call)\s+)*[`'\"]?$"
    r"|(?:不要?|别|勿|禁止|不能|不得|除了?|以外|不准|不许|调用)(?:改|动|碰|修改|触碰|优化|调整|使用|调用)?(?:函数|方法|kernel)?\s*[`'\"]?$"
)


_ALL_BUT = pattern_of(
    r"\b(?:leave|touch|change|modify|edit)\b[a-z ]{0,24}\b(?:everything|nothing|anything|all)\s+(?:else\s+)?(?:except|but|other than|besides|outside)\s*(?:of\s+|for\s+)?(?:the\s+)?(?:function\s+)?[`'\"]?$|(?<!only )\bnothing\s+(?:else\s+)?(?:except|but|other than|outside)\s*(?:of\s+)?(?:the\s+)?[`'\"]?$"
)
_ALL_BUT_AFTER = pattern_of(r"[`'\"]?\s*(?:函数)?(?:以外|之外|外)[^，。;]{0,10}(?:不|别|勿|禁止)")


def read_scope(reading: Reading) -> list[Found[str]]:
    """Names of functions, each once; takes their words. What may *not* be touched has no field and is asked."""
    found: dict[str, Found[str]] = {}
    for pattern in _PATTERNS:
        for match in list(reading.matches(pattern)):
            _name(reading, match, found)
            position = match.end()
            while following := _LISTED.match(reading.text, position):
                if not reading.free(following.span("name")) or not (
                    following["mark"] or _plainly_listed(reading, following)
                ):
                    break
                _name(reading, following, found)
                position = following.end()
    return sorted(found.values(), key=lambda one: one.span)


def _plainly_listed(reading: Reading, match: re.Match[str]) -> bool:
    """A bare word after "and" is a function only when it looks like one."""
    name = match["name"]
    if pattern_of(r"\s*(?:的|函数|这|都|必须)").match(reading.text, match.end("name")):
        return True
    return "_" in name or "::" in name or reading.text[match.end("name") : match.end("name") + 1] == "`"


def _name(reading: Reading, match: re.Match[str], found: dict[str, Found[str]]) -> None:
    start = match.start("name") - (reading.text[match.start("name") - 1 : match.start("name")] == "`")
    span = (start, match.end())
    if _ONLY_API.match(match["name"]):
        return
    all_but = _ALL_BUT.search(reading.text, max(0, start - 64), start) or _ALL_BUT_AFTER.match(
        reading.text, match.end()
    )
    if not all_but and _EXCLUDED.search(reading.text, max(0, start - 48), start):
        reading.take(span)
        reading.ask("scope", f"{reading.words(span)!r} is left out: which functions may change?")
        return
    reading.take(match.span() if match.re is not _LISTED else span)
    name = reading.raw[match.start("name") : match.end("name")]
    found.setdefault(name, Found(name, span))
