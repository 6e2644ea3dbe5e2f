"""The deterministic reader of intents: a table of sentences with their whole contracts, and what holds for any text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stitchcuda.analysis.contract.intent import parse_intent
from stitchcuda.analysis.contract.intent.numbers import chinese_number
from stitchcuda.analysis.contract.intent.reading import one_spelling
from stitchcuda.analysis.contract.intent.restrictions import IDS
from stitchcuda.analysis.contract.types import Bound, Contract, contract_from_json, contract_to_json

from tests.pure.contract.notation import lines
from tests.pure.contract.sentences import SENTENCES


@pytest.mark.parametrize(("text", "expected"), SENTENCES, ids=[text or "(empty)" for text, _ in SENTENCES])
def test_sentence(text: str, expected: str) -> None:
    contract = parse_intent(text)
    assert lines(contract) == sorted(part.strip() for part in expected.split(";") if part.strip()), contract.questions
    _holds_for_any_text(text, contract)


def _holds_for_any_text(text: str, contract: Contract) -> None:
    assert contract_from_json(json.loads(json.dumps(contract_to_json(contract)))) == contract
    fields = {
        f"{name}[{k}]"
        for name in ("bounds", "inputs", "outputs", "precision", "precision_forbidden", "forbid", "scope")
        for k in range(len(getattr(contract, name)))
    }
    fields |= {"task"} if contract.task else set()
    fields |= {"hardware"} if contract.hardware.device or contract.hardware.arch else set()
    fields |= {"max_streams"} if contract.max_streams is not None else set()
    assert {e.field for e in contract.evidence} - {"tolerance"} == fields
    for evidence in contract.evidence:
        start, end = evidence.span
        assert 0 <= start < end <= len(text)
        assert text[start:end] == evidence.text
        assert evidence.text == evidence.text.strip()


FRAGMENTS = st.sampled_from(
    [word for text, _ in SENTENCES for word in (text, *text.split())] + list("，。、；：（）%～×≤≥<>=+-.,/ \n\t8０１二半十百千万亿K") + ["ms", "不", "not", "or", "and", "到", "e9", "1e999", "10^", "²", "½", "٣", "\ud800", "\x00"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.lists(FRAGMENTS, max_size=8).flatmap(lambda parts: st.sampled_from(["", " "]).map(lambda gap: gap.join(parts)))
    | st.text(max_size=60)
)
def test_any_text_is_read(text: str) -> None:
    _holds_for_any_text(text, parse_intent(text))


TIMES = {
    "us": ("{}us", "{} us", "{}µs", "{}μs", "{} microseconds", "{}微秒", "{} 微秒"),
    "ms": ("{}ms", "{} ms", "{}-ms", "{} milliseconds", "{}毫秒", "{} 毫秒", "{} msec", "{}MS"),
    "s": ("{}s", "{} s", "{} seconds", "{} sec", "{}秒", "{} 秒"),
}
PLACES = {"us": 6, "ms": 3, "s": 0}
FRAMES = (
    "latency under {}", "Latency < {}", "延迟低于{}", "延迟小于{}", "get the latency below {} please", "延迟 ＜ {}", "延遲低於{}", "LATENCY UNDER {}",
)  # fmt: skip


@given(st.integers(1, 10**7), st.sampled_from(sorted(TIMES)), st.data())
def test_one_duration_in_every_spelling(microseconds: int, unit: str, data: st.DataObject) -> None:
    digits = _shifted(microseconds, 6 - PLACES[unit])
    spelled = data.draw(st.sampled_from(TIMES[unit])).format(data.draw(st.sampled_from((digits, _wide(digits)))))
    contract = parse_intent(data.draw(st.sampled_from(FRAMES)).format(spelled))
    assert contract.bounds == (Bound("latency", "mean", "<", float(f"{microseconds}e-6"), "s"),)
    assert not contract.questions


def _shifted(value: int, places: int) -> str:
    """The decimal digits of value / 10**places."""
    if places <= 0:
        return str(value * 10**-places)
    digits = str(value).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}".rstrip("0").rstrip(".")


def _wide(digits: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) for c in digits)


@pytest.mark.parametrize(
    "text",
    ["延迟低于八毫秒", "latency under eight milliseconds", "latency below 8e-3 s", "latency < 8×10⁻³ s", "latency < 8 * 10^-3 s", "latency_ms < 8", "延迟(ms) < 8", "latency lower than 8,000 us", "latency < 8 000 us"],
)  # fmt: skip
def test_eight_milliseconds(text: str) -> None:
    assert parse_intent(text).bounds == (Bound("latency", "mean", "<", 0.008, "s"),)


@given(st.integers(0, 99_999_999))
def test_chinese_numerals(value: int) -> None:
    assert chinese_number(_in_chinese(value)) == value


def _in_chinese(value: int) -> str:
    digits = "零一二三四五六七八九"
    if value >= 10_000:
        rest = value % 10_000
        gap = "零" if 0 < rest < 1000 else ""
        return _in_chinese(value // 10_000) + "万" + gap + (_in_chinese(rest) if rest else "")
    for scale, name in ((1000, "千"), (100, "百"), (10, "十")):
        if value >= scale:
            rest = value % scale
            gap = "零" if 0 < rest < scale // 10 else ""
            return digits[value // scale] + name + gap + (_in_chinese(rest) if rest else "")
    return digits[value]


@given(st.text())
def test_spellings_keep_every_position(text: str) -> None:
    assert len(one_spelling(text)) == len(text)


@pytest.mark.parametrize("name", IDS)
def test_every_transform_can_be_forbidden_by_its_id(name: str) -> None:
    for text in (f"no {name}", f"don't use {name}", f"不要用{name}", f"禁用 {name}", f"forbid: {name}"):
        assert parse_intent(text).forbid == (name,), text


@pytest.mark.parametrize(
    "text",
    ["{} under 8 ms is not needed", "we don't care whether the {} is under 8 ms", "{}不需要低于8ms", "不关心{}是否低于8ms", "the {} was under 8 ms before", "compared to 8 ms {}"],
)  # fmt: skip
@pytest.mark.parametrize("metric", ["latency", "p99 latency", "延迟"])
def test_what_is_denied_is_no_bound(text: str, metric: str) -> None:
    assert parse_intent(text.format(metric)).bounds == ()


@pytest.mark.parametrize(
    "word", [" ", "a ", "的", "一", "8 ", "reduce the time ", "latency under 8 ms on an H100 and 60 fps, "]
)
def test_no_text_explodes(word: str) -> None:
    """Patterns that try every cut of a run would not come back from this within hours."""
    _holds_for_any_text(word * 400, parse_intent(word * 400))
