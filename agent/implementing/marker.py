"""The comment that asks for a missing stage, and its grammar.

    // stitchcuda: implement reference=saxpy_cpu outputs=y tolerance="rtol 1e-5" : y = a*x + y, one thread per element
    __global__ void saxpy(int n, float a, const float* x, float* y);

    // stitchcuda: implement reference=norm_cpu host=norm[1] : the length of x, ready when it returns
    cudaError_t norm(const float* x, float* norm, int n, cudaStream_t stream);

Words `key=value` come first, in any order, a value with blanks in quotes; what follows a lone `:` says in words what is wanted. The
comment may go on over several lines. `reference` is needed, all else is optional.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.analysis.contract.types import Tolerance
from stitchcuda.analysis.syntax.text import LineIndex

WORD = b"stitchcuda: implement"
DONE = b"ed"  # what makes `implement` an `implemented` that nobody looks for any more
KEYS = ("reference", "inputs", "outputs", "host", "tolerance", "in")

_MARK = re.compile(rb"\bstitchcuda:[ \t]*implement(?![\w-])")
_COMMENTS = re.compile(
    rb"(?P<lines>//[^\r\n]*(?:(?:\r\n|\n|\r)[ \t]*//[^\r\n]*)*)"
    rb"|(?P<block>/\*.*?(?:\*/|\Z))"
    rb'|R"(?P<fence>[^()\\\s]{0,16})\(.*?(?:\)(?P=fence)"|\Z)'
    rb'|"(?:\\.|[^"\\\r\n])*"'
    rb"|(?<![0-9A-Za-z_])(?:u8|[uUL])?'(?:\\.|[^'\\\r\n])*'",
    re.DOTALL,
)
_ITEM = re.compile(
    r'\s*(?:(?P<intent>:)(?=\s|$)|(?P<key>[^\s=:"]+)=(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]*))|(?P<odd>\S+))'
)
_TOLERANCE = re.compile(r"(?:(?P<kind>rtol|atol)\s+(?P<value>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)|(?P<bitwise>bitwise))")
_NAME = re.compile(r"(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*")
_HOST = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\[(?P<extent>[\w+*/()\- ]+)\])?")


class MarkerError(Exception):
    """A marker cannot be used. The text is for the user: where, what is wrong, what to write."""

    def __init__(self, path: str, line: int, what: str) -> None:
        super().__init__(f"{path}:{line}: {what}")
        self.path, self.line, self.what = path, line, what


@dataclass(frozen=True, slots=True)
class HostBuffer:
    """A pointer parameter that leads to memory of the host, and how many elements are there: an expression over parameters, "" when
    it is not said."""

    name: str
    extent: str = ""


@dataclass(frozen=True, slots=True)
class Marker:
    """`[start, end)` are the bytes of the comment, `word_end` where the word `implement` ends. `inputs` and `outputs` are None when
    the declaration is to say them; `file` is where the definition goes, "" for right below the declaration."""

    path: str
    line: int
    start: int
    end: int
    word_end: int
    reference: str
    inputs: tuple[str, ...] | None
    outputs: tuple[str, ...] | None
    tolerance: Tolerance | None
    file: str
    intent: str
    host: tuple[HostBuffer, ...] = ()


def markers(path: str, text: bytes) -> tuple[Marker | MarkerError, ...]:
    """All of a CUDA or C++ file, in order; one that is malformed is the error about it. Text in strings counts for nothing."""
    if WORD.partition(b" ")[0] not in text:
        return ()
    lines = LineIndex.of(text)
    found: list[Marker | MarkerError] = []
    for start, end, at in _places(text):
        line = lines.line_at(at) + 1
        try:
            found.append(_marker(path, line, text, start, end, at))
        except MarkerError as error:
            found.append(error)
    return tuple(found)


def _places(text: bytes) -> Iterator[tuple[int, int, int]]:
    """Comments that begin with the mark: their bytes, and where the mark is."""
    for match in _COMMENTS.finditer(text):
        if match["lines"] is None and match["block"] is None:
            continue
        mark = _MARK.search(text, match.start(), match.end())
        if mark is None:
            continue
        begin = max(text.rfind(b"\n", 0, mark.start()) + 1, match.start())
        if not text[begin : mark.start()].strip(b"/*! \t"):
            yield match.start(), match.end(), mark.start()


def _marker(path: str, line: int, text: bytes, start: int, end: int, at: int) -> Marker:
    mark = _MARK.match(text, at)
    assert mark is not None
    values, intent = _read(path, line, _plain(text[mark.end() : end]))
    if "reference" not in values:
        raise MarkerError(
            path,
            line,
            "no reference: add reference=NAME, a function on the CPU with the same parameters that says what is right",
        )
    for name in (values["reference"], *_names(values.get("inputs", "")), *_names(values.get("outputs", ""))):
        if not _NAME.fullmatch(name):
            raise MarkerError(path, line, f"{name!r} is no name")
    return Marker(
        path,
        line,
        start,
        end,
        mark.end(),
        values["reference"],
        _names(values["inputs"]) if "inputs" in values else None,
        _names(values["outputs"]) if "outputs" in values else None,
        _tolerance(path, line, values["tolerance"]) if "tolerance" in values else None,
        values.get("in", ""),
        intent,
        tuple(_host(path, line, said) for said in _names(values.get("host", ""))),
    )


def _plain(comment: bytes) -> str:
    """What a comment says, without what makes it one, as one line."""
    said = re.sub(r"\*/\s*\Z", "", comment.decode("utf-8", "replace"))
    parts = [
        re.sub(r"^\s*(?://+[/!]?|\*)?\s?", "", part) if k else part
        for k, part in enumerate(re.split(r"\r\n|\n|\r", said))
    ]
    return " ".join(part.strip() for part in parts).strip()


def _read(path: str, line: int, said: str) -> tuple[dict[str, str], str]:
    values: dict[str, str] = {}
    at = 0
    while (item := _ITEM.match(said, at)) is not None:
        at = item.end()
        if item["intent"]:
            return values, said[at:].strip()
        if item["odd"]:
            raise MarkerError(
                path,
                line,
                f"{item['odd']!r} is not KEY=VALUE; keys are {', '.join(KEYS)}, and words for the model follow a lone `:`",
            )
        key, value = item["key"], item["quoted"] if item["quoted"] is not None else item["bare"]
        if key not in KEYS:
            raise MarkerError(path, line, f"unknown key {key!r}; keys are {', '.join(KEYS)}")
        if key in values:
            raise MarkerError(path, line, f"{key} is given twice")
        if not value.strip():
            raise MarkerError(path, line, f"{key} has no value")
        values[key] = value.strip()
    return values, ""


def _names(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _host(path: str, line: int, said: str) -> HostBuffer:
    match = _HOST.fullmatch(said)
    if match is None:
        raise MarkerError(
            path,
            line,
            f"host names {said!r}, which is not understood; write NAME[ELEMENTS], such as out[n] or out[2*n]",
        )
    return HostBuffer(match["name"], (match["extent"] or "").strip())


def _tolerance(path: str, line: int, value: str) -> Tolerance:
    match = _TOLERANCE.fullmatch(value)
    if match is None:
        raise MarkerError(
            path, line, f'tolerance {value!r} is not understood; write "rtol 1e-5", "atol 1e-6" or "bitwise"'
        )
    if match["bitwise"]:
        return Tolerance()
    number = float(match["value"])
    return Tolerance("relative", rtol=number) if match["kind"] == "rtol" else Tolerance("absolute", atol=number)
