"""Inputs and outputs with shapes and element types: "input x is [8,3,224,224] float32", 输入 8x3x224x224."""

from __future__ import annotations

import re

from stitchcuda.analysis.contract.intent.reading import Found, Reading, Span, pattern_of
from stitchcuda.analysis.contract.types import TensorSpec

_DTYPES = {
    "float32": r"float-?32|fp-?32|f32|single[- ]precision|单精度|float(?![a-z0-9])",
    "float64": r"float-?64|fp-?64|f64|double(?:[- ]precision)?|双精度",
    "float16": r"float-?16|fp-?16|f16|half(?:[- ]precision)?|半精度",
    "bfloat16": r"bfloat-?16|bf-?16",
    "float8": r"fp-?8|float-?8",
    "int8": r"int-?8|i8", "uint8": r"uint-?8|u8|bytes?", "int16": r"int-?16|i16", "uint16": r"uint-?16|u16", "int32": r"int-?32|i32|int(?![a-z0-9])",
    "uint32": r"uint-?32|u32", "int64": r"int-?64|i64|long(?![a-z0-9])", "uint64": r"uint-?64|u64", "bool": r"bool(?:ean)?",
    "complex64": r"complex-?64", "complex128": r"complex-?128",
}  # fmt: skip
_DTYPE = "|".join(f"(?P<{{0}}{name}>{pattern})" for name, pattern in _DTYPES.items())
_DTYPE_BEFORE = (
    r"(?:(?:" + _DTYPE.replace("{0}", "before_") + r")\s*(?:tensor|array|张量|数组)?\s*(?:of\s*(?:shape|size)?\s*)?)"
)
_DTYPE_AFTER = (
    r"(?:\s*[,，(]?\s*(?:\s|的|of|in|as|and|with|has|dtype|type|类型(?:为|是)?|数据类型(?:为|是)?|元素类型(?:为|是)?|,|:|=)*\s*(?:"
    + _DTYPE.replace("{0}", "after_")
    + r")(?![a-z0-9_]))"
)
_SIZE = r"(?:\d{1,9}|[a-z_][a-z0-9_]{0,15})"
_BRACKETED = rf"[\[(]\s*(?P<list>{_SIZE}(?:\s*[,，x×*]\s*{_SIZE})*)\s*,?\s*[\])]"
_CROSSED = r"(?P<cross>(?:\d{1,9}|(?<![a-z0-9_])[a-z](?=[x×*]\d))(?:\s?[x×*]\s?\d{1,9})+)(?![a-z0-9_%]|\.\d)"
_KIND = r"(?P<kind>(?:\b(?:the )?(?:model |network )?(?:inputs?|outputs?|results? tensor)\b)|输入|输出)"
_NAME = r"(?P<name>(?!(?:inputs?|outputs?|(?:b?float|fp|bf|f|u?int|complex)-?(?:8|16|32|64|128)|is|are|has|shape|of|with|as|a(?!\s*(?:and|,|:|&)\s)|an|the|size|tensor|tensors|in|to|batch|float|double|half|int|image|images|data|and|dtype|dims?|must|should|will|be)\b)[a-z_][a-z0-9_.]{0,31})"
_SAYS = r"(?:\s*(?:is|are|has|have|of|with|:|=|,|shape[ds]?|size[ds]?|dims?|dimensions?|a|an|the|tensor|tensors|array|batch|images?|data|matrix|and|as|in|be|must|should|will|形状|尺寸|大小|维度|张量|为|是|的|图像|图片|矩阵|数据|数组|一个|形如|一张|一幅|均|都|both|each|all))*"
_PATTERN = pattern_of(
    rf"{_KIND}(?P<after_kind>{_SAYS}?)\s*(?:[\"'`]?{_NAME}[\"'`]?(?:\s*(?:,|and|&|、|和|与|及)\s*[\"'`]?(?P<second>(?!(?:is|are|of|with)\b)[a-z_][a-z0-9_.]{{0,31}})[\"'`]?(?=\s|[㐀-鿿:]))?)?{_SAYS}\s*{_DTYPE_BEFORE}?\s*(?:{_BRACKETED}|{_CROSSED}){_DTYPE_AFTER}?"
)
_NEXT = pattern_of(
    rf"\s*(?:[,，、;]|and|和|与|及)+\s*(?:[\"'`]?{_NAME}[\"'`]?){_SAYS}\s*{_DTYPE_BEFORE}?\s*(?:{_BRACKETED}|{_CROSSED}){_DTYPE_AFTER}?"
)
_NAMED_SHAPE = pattern_of(
    rf"(?<![a-z0-9_.]){_NAME}\s*(?::|=|is|has shape|of shape|为|是|的形状(?:为|是))\s*{_DTYPE_BEFORE}?\s*[\[(]\s*(?P<list>{_SIZE}(?:\s*[,，]\s*{_SIZE})+)\s*[\])]{_DTYPE_AFTER}?"
)
_TYPE_ONLY = pattern_of(
    rf"(?P<kind>\b(?:outputs?|results? tensor)\b|输出)(?:\s*[\"'`]?{_NAME}[\"'`]?)?{_SAYS}{_DTYPE_AFTER}"
)
_SIDE_AFTER = pattern_of(r"\s*(?:as |作为|是|为)?(?:the |an? )?(inputs?|outputs?|输入|输出)")
_SPLIT = pattern_of(r"\s*[,，]\s*|(?<=\d)\s*[x×*]\s*|\s*[x×*]\s*(?=\d)")


def read_tensors(reading: Reading) -> tuple[list[Found[TensorSpec]], list[Found[TensorSpec]]]:
    """Inputs and outputs, in the order of the text; takes their words."""
    inputs: list[Found[TensorSpec]] = []
    outputs: list[Found[TensorSpec]] = []
    position = 0
    while match := _PATTERN.search(reading.text, position):
        side = outputs if "out" in match["kind"] or "出" in match["kind"] or "result" in match["kind"] else inputs
        last = match
        _add(reading, match, side)
        while (following := _NEXT.match(reading.text, last.end())) is not None:
            _add(reading, following, side)
            last = following
        position = max(last.end(), match.start() + 1)
    for match in list(reading.matches(_TYPE_ONLY)):
        span = _span(match)
        if not outputs:  # one that has a shape was said more exactly
            reading.take(span)
            name = reading.raw[match.start("name") : match.end("name")] if match["name"] else "output"
            outputs.append(Found(TensorSpec(name, None, _dtype(match)), span))
    for match in list(reading.matches(_NAMED_SHAPE)):
        span = _span(match)
        reading.take(span)
        said = _SIDE_AFTER.match(reading.text, span[1])
        if said is not None:
            _add(reading, match, outputs if said[1] in ("output", "outputs", "输出") else inputs)
            continue
        reading.ask("inputs", f"Is {reading.words(span)!r} an input or an output?", "input", "output")
    return inputs, outputs


def _add(reading: Reading, match: re.Match[str], side: list[Found[TensorSpec]]) -> None:
    span = _span(match)
    shape = tuple(_size(reading, match, part) for part in _parts(match))
    if len(shape) < 2 and isinstance(shape[0], str):
        return  # a word in parentheses
    reading.take(span)
    dtype = _dtype(match)
    name = reading.raw[match.start("name") : match.end("name")] if match["name"] else ""
    if not name:
        name = (
            "input" if "kind" not in match.groupdict() or "in" in match["kind"] or "入" in match["kind"] else "output"
        ) + (f"_{len(side) + 1}" if side else "")
    side.append(Found(TensorSpec(name, shape, dtype), span))
    if match.groupdict().get("second"):
        side.append(Found(TensorSpec(reading.raw[match.start("second") : match.end("second")], shape, dtype), span))


def _dtype(match: re.Match[str]) -> str | None:
    found = [
        key
        for key, value in match.groupdict().items()
        if value and key.startswith(("before_", "after_")) and key != "after_kind"
    ]
    return found[0].split("_", 1)[1] if found else None


def _span(match: re.Match[str]) -> Span:
    start, end = match.span()
    while start < end and (match.string[start].isspace() or match.string[start] in ",，、;"):
        start += 1
    return start, end


def _parts(match: re.Match[str]) -> list[str]:
    return _SPLIT.split(match["list"]) if match["list"] else re.split(r"(?a)\s?[x×*]\s?", match["cross"])


def _size(reading: Reading, match: re.Match[str], part: str) -> int | str:
    """A number, or the name of a size as it is written in the request."""
    if part.isdecimal():
        return int(part)
    where = reading.text.find(part, match.start())
    return reading.raw[where : where + len(part)]
