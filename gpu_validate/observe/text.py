"""Printed text compared token by token: what varies between runs of the *same* program is not held against another one.

A `Template` is learnt from several runs of the baseline. Lines are aligned by their shape (the line with its numbers left out),
so that a different number of lines in one run costs only the place where it differs; inside a line only the tokens that varied
are masked. Everything else must come out the same, under the contract's tolerance for numbers with a fraction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from stitchcuda.analysis.contract.types import Tolerance

_TOKEN = re.compile(
    r"(?:(?<!\w)[-+])?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"  # a number, with its sign
    r"|[^\W\d]\w*|\s+|[^\w\s]"
)
_NUMBER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
_WORD = re.compile(r"[^\W\d]\w*")
_UNIT = re.compile(
    r"\s*(?:(?:[munµμ]?s|m?secs?|(?:milli|micro|nano)?seconds?|minutes?|min|h|hours?|fps|[kmgtp]?flops?)\b|\w+/s(?:ec\w*)?\b)",
    re.IGNORECASE,
)
_TIMING_WORD = re.compile(
    r"\b(?:time|times|timing|elapsed|took|duration|latency|throughput|bandwidth|speed|speedup|rate|fps|[kmgt]?flops?|wall)\b",
    re.IGNORECASE,
)
_OWN_CHECK = re.compile(
    r"\b(?:pass(?:ed|es)?|success(?:ful|fully)?|ok|correct|verified|match(?:es|ed)?|valid)\b", re.IGNORECASE
)
_ROUNDING = 1e-3  # relative: values that are nearer to each other differ by the order of their sums, as a rule
_AWAY = 10  # times as far as the baseline's values are from each other
_ALIGNED_LINES = 4000  # above it only the lines before and after the varying part are aligned


@dataclass(frozen=True, slots=True)
class Slot:
    """One place in a line: what the baseline printed there in its runs (one text each, equal ones once). An empty `texts`
    stands for any number of tokens."""

    texts: tuple[str, ...]
    masked: bool = False


@dataclass(frozen=True, slots=True)
class TextDifference:
    """`line` is 1-based in what the candidate printed. `timing`: the place reads like a measured time or rate, which may differ
    although it did not vary in the baseline. `far`: the place varies in the baseline, by far less than this."""

    line: int
    expected: str
    found: str
    timing: bool = False
    far: bool = False


@dataclass(frozen=True, slots=True)
class TextResult:
    """`compared` counts the numbers (and the words of the program's own checks) that were compared and agreed or not;
    `masked` the places left out; `words` every other word compared."""

    differences: tuple[TextDifference, ...]
    compared: int
    masked: int
    words: int


Line = tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """What the baseline prints. A None between lines is a place where the number of lines varied."""

    lines: tuple[Line | None, ...]
    tolerance: Tolerance
    ignore: tuple[str, ...] = ()

    @property
    def varying(self) -> tuple[str, ...]:
        """The lines that vary, as far as they were kept, for a human."""
        return tuple(_shown(line) for line in self.lines if line is not None and any(s.masked for s in line))


def learn(texts: Sequence[str], tolerance: Tolerance, ignore: Sequence[str] = ()) -> Template:
    """The template of what these runs printed. Raises ValueError without a text, and `re.error` for a bad `ignore`."""
    if not texts:
        raise ValueError("a template needs at least one run")
    runs = [_lines(text, ignore) for text in texts]
    first = runs[0]
    partners: list[list[list[str] | None]] = [[line] for line in first]
    gaps: list[set[str]] = [set() for _ in range(len(first) + 1)]  # shapes of the lines without a partner before line i
    for run in runs[1:]:
        paired, additional = _align(first, run)
        for i, other in enumerate(paired):
            partners[i].append(None if other is None else run[other])
        for i, shapes in additional.items():
            gaps[i] |= shapes
    lines: list[Line | set[str]] = []
    for i, together in enumerate(partners):
        present = [tokens for tokens in together if tokens is not None]
        lines += [gaps[i]] if gaps[i] else []
        lines.append(_line(present, tolerance) if len(present) == len(together) else {_shape(first[i])})
    lines += [gaps[-1]] if gaps[-1] else []
    return Template(_absorbed(lines), tolerance, tuple(ignore))


def compare(template: Template, text: str, most: int = 5) -> TextResult:
    """Compares what another run printed with the template; at most `most` differences are told."""
    found = _lines(text, template.ignore)
    differences = tuple(sorted(_differences(template, found), key=lambda d: d.timing or d.far))[:most]
    slots = [slot for line in template.lines if line is not None for slot in line]
    kept = [slot.texts[0] for slot in slots if slot.texts and not slot.masked]
    numbers = sum(_NUMBER.fullmatch(t) is not None for t in kept)
    checks = sum(_OWN_CHECK.fullmatch(t) is not None for t in kept)
    words = sum(_WORD.fullmatch(t) is not None for t in kept) - checks
    masked = sum(slot.masked for slot in slots) + sum(line is None for line in template.lines)
    return TextResult(differences, numbers + checks, masked, words)


# ------------------------------------------------------------------------------------------------------------- learning


def _lines(text: str, ignore: Sequence[str]) -> list[list[str]]:
    """The tokens of every line; a carriage return ends a line too (progress bars)."""
    out = []
    for line in re.split(r"\r\n|\n|\r", text):
        for pattern in ignore:
            line = re.sub(pattern, "", line)
        if line.strip():
            out.append(_TOKEN.findall(line.rstrip()))
    return out


def _shape(tokens: Sequence[str]) -> str:
    return " ".join("#" if _NUMBER.fullmatch(t) else t for t in tokens if not t.isspace())


def _absorbed(lines: list[Line | set[str]]) -> tuple[Line | None, ...]:
    """One gap for neighbouring ones, with the lines beside it that look like those it stands for: where two of three progress
    lines are in every run, a run could as well have none."""
    out: list[Line | set[str]] = []
    for line in lines:
        if isinstance(line, set):
            while out and (isinstance(last := out[-1], set) or _line_shape(last) in line):
                gone = out.pop()
                line = line | gone if isinstance(gone, set) else line
            out.append(line)
        elif not (out and isinstance(out[-1], set) and _line_shape(line) in out[-1]):
            out.append(line)
    return tuple(None if isinstance(line, set) else line for line in out)


def _line_shape(line: Line) -> str:
    return _shape([slot.texts[0] for slot in line if slot.texts])


def _align(first: list[list[str]], run: list[list[str]]) -> tuple[list[int | None], dict[int, set[str]]]:
    """For every line of `first` its line in `run`, and the shapes of the lines of `run` that have none, by the line before which
    they stand."""
    a, b = [_shape(t) for t in first], [_shape(t) for t in run]
    partner: list[int | None] = [None] * len(a)
    gaps: dict[int, set[str]] = {}
    for tag, i1, i2, j1, j2 in _opcodes(a, b):
        if tag == "equal" or i2 - i1 == j2 - j1:
            partner[i1:i2] = range(j1, j2)
        else:
            gaps.setdefault(i1, set()).update(b[j1:j2])
    return partner, gaps


def _opcodes(a: list[str], b: list[str]) -> list[tuple[str, int, int, int, int]]:
    if a == b:
        return [("equal", 0, len(a), 0, len(b))]
    if max(len(a), len(b)) <= _ALIGNED_LINES:
        return [tuple(code) for code in SequenceMatcher(None, a, b, autojunk=False).get_opcodes()]  # type: ignore[misc]
    before, after = _common(a, b)
    middle = ("replace", before, len(a) - after, before, len(b) - after)
    return [("equal", 0, before, 0, before), middle, ("equal", middle[2], len(a), middle[4], len(b))]


def _common(a: Sequence[str], b: Sequence[str]) -> tuple[int, int]:
    """Lengths of the common beginning and of the common end, which do not overlap."""
    most = min(len(a), len(b))
    before = next((i for i in range(most) if a[i] != b[i]), most)
    after = next((i for i in range(most - before) if a[-1 - i] != b[-1 - i]), most - before)
    return before, after


def _line(together: list[list[str]], tolerance: Tolerance) -> Line:
    if len({len(tokens) for tokens in together}) == 1:
        slots = [_slot(texts, tolerance) for texts in zip(*together, strict=True)]
    else:
        shapes = [["#" if _NUMBER.fullmatch(t) else t for t in tokens] for tokens in together]
        pairs = [_common(shapes[0], shape) for shape in shapes[1:]]
        before, after = min(p[0] for p in pairs), min(p[1] for p in pairs)
        slots = [_slot(texts, tolerance) for texts in zip(*(t[:before] for t in together), strict=True)]
        slots.append(Slot((), True))
        ends = [t[len(t) - after :] for t in together]
        slots += [_slot(texts, tolerance) for texts in zip(*ends, strict=True)]
    # Columns shift with the width of a number that varies: the space beside it is not compared.
    return tuple(
        Slot(slot.texts, True)
        if slot.texts
        and slot.texts[0].isspace()
        and any(slots[k].masked for k in (i - 1, i + 1) if 0 <= k < len(slots))
        else slot
        for i, slot in enumerate(slots)
    )


def _slot(texts: Sequence[str], tolerance: Tolerance) -> Slot:
    distinct = tuple(dict.fromkeys(texts))
    return Slot(distinct, any(not _same(distinct[0], other, tolerance) for other in distinct[1:]))


# ------------------------------------------------------------------------------------------------------------ comparing


def _differences(template: Template, found: list[list[str]]) -> list[TextDifference]:
    segments: list[list[Line]] = [[]]
    for line in template.lines:
        if line is None:
            segments.append([])
        else:
            segments[-1].append(line)
    if len(segments) == 1:
        return _pairwise(segments[0], found, 0, template.tolerance, exact=True)
    head, tail = segments[0], segments[-1]
    if len(head) + len(tail) > len(found):
        return [TextDifference(len(found), f"at least {len(head) + len(tail)} lines", f"{len(found)} lines")]
    out = _pairwise(head, found[: len(head)], 0, template.tolerance)
    at, end = len(head), len(found) - len(tail)
    for segment in segments[1:-1]:
        place = next(
            (k for k in range(at, end - len(segment) + 1) if _stands(segment, found, k, template.tolerance)), None
        )
        if place is None:
            out.append(TextDifference(at + 1, _shown(segment[0]), "no such line here"))
        else:
            at = place + len(segment)
    return out + _pairwise(tail, found[end:], end, template.tolerance)


def _stands(segment: list[Line], found: list[list[str]], at: int, tolerance: Tolerance) -> bool:
    return all(_matches(line, found[at + k], tolerance) is None for k, line in enumerate(segment))


def _pairwise(
    lines: list[Line], found: list[list[str]], offset: int, tolerance: Tolerance, exact: bool = False
) -> list[TextDifference]:
    out = []
    for k, (line, tokens) in enumerate(zip(lines, found, strict=False)):
        wrong = _matches(line, tokens, tolerance)
        if wrong is not None:
            out.append(TextDifference(offset + k + 1, _shown(line), "".join(tokens), _reads_as_timing(line, wrong)))
        elif _far(line, tokens):
            out.append(TextDifference(offset + k + 1, _shown(line), "".join(tokens), far=True))
    if exact and len(lines) > len(found):
        out.append(TextDifference(offset + len(found), _shown(lines[len(found)]), "(no line)"))
    elif exact and len(found) > len(lines):
        out.append(TextDifference(offset + len(lines) + 1, "(no line)", "".join(found[len(lines)])))
    return out


def _matches(line: Line, tokens: list[str], tolerance: Tolerance) -> int | None:
    """The first slot that does not match, or None. -1: another number of tokens."""
    gap = next((i for i, slot in enumerate(line) if not slot.texts), None)
    if gap is None:
        if len(line) != len(tokens):
            # the width of a masked number decides whether there is a space before it at all
            squeezed = tuple(s for s in line if not (s.masked and s.texts[0].isspace()))
            bare = [t for t in tokens if not t.isspace()]
            solid = tuple(s for s in squeezed if not s.texts[0].isspace())
            if len(squeezed) == len(line) or len(solid) != len(bare):
                return -1
            return _matches(solid, bare, tolerance)
        return next((i for i, slot in enumerate(line) if not _fits(slot, tokens[i], tolerance)), None)
    after = len(line) - gap - 1
    if len(tokens) < gap + after:
        return -1
    ends = [*enumerate(tokens[:gap]), *((gap + 1 + i, t) for i, t in enumerate(tokens[len(tokens) - after :]))]
    return next((i for i, token in ends if not _fits(line[i], token, tolerance)), None)


def _fits(slot: Slot, token: str, tolerance: Tolerance) -> bool:
    return slot.masked or any(_same(text, token, tolerance) for text in slot.texts)


def _far(line: Line, tokens: list[str]) -> bool:
    """Whether a result that the baseline repeats but for its rounding is another one here, or no number: what varies is not
    compared, and that must not hide it."""
    if len(line) != len(tokens):
        return False
    for i, (slot, token) in enumerate(zip(line, tokens, strict=True)):
        if not slot.masked or not slot.texts or not any(map(_fraction, slot.texts)) or _reads_as_timing(line, i):
            continue
        if not all(map(_NUMBER.fullmatch, slot.texts)):
            continue
        values = [float(text) for text in slot.texts]
        if not _NUMBER.fullmatch(token):
            return True
        low, high = min(values), max(values)
        rounding = _ROUNDING * max(abs(low), abs(high))
        away = max(low - float(token), float(token) - high)
        if high - low <= rounding and away > max(rounding, _AWAY * (high - low)):
            return True
    return False


def _same(expected: str, found: str, tolerance: Tolerance) -> bool:
    if expected == found:
        return True
    if tolerance.mode not in ("relative", "absolute") or not (_fraction(expected) or _fraction(found)):
        return False  # whole numbers are counts, classes and indices: never nearly equal
    if not (_NUMBER.fullmatch(expected) and _NUMBER.fullmatch(found)):
        return False
    a, b = float(expected), float(found)
    if not (math.isfinite(a) and math.isfinite(b)):
        return False
    return abs(a - b) <= (tolerance.atol or 0.0 if tolerance.mode == "absolute" else (tolerance.rtol or 0.0) * abs(a))


def _fraction(token: str) -> bool:
    return (
        _NUMBER.fullmatch(token) is not None
        and token[:3].lower().lstrip("+-")[:2] != "0x"
        and any(c in token for c in ".eE")
    )


def _reads_as_timing(line: Line, wrong: int) -> bool:
    """Whether the number at `wrong` has a unit of time or rate behind it, or the line speaks of one."""
    if wrong < 0 or not line[wrong].texts or not _NUMBER.fullmatch(line[wrong].texts[0]):
        return False
    behind = "".join(slot.texts[0] if slot.texts else " " for slot in line[wrong + 1 :])
    return _UNIT.match(behind) is not None or _TIMING_WORD.search(_shown(line)) is not None


def _shown(line: Line) -> str:
    return "".join("…" if slot.masked and not slot.texts[:1] else slot.texts[0] for slot in line)
