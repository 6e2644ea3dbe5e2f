"""JSON as models write it: what is forgiven, what is not, and that nothing makes it fail."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stitchcuda.agent.model.messages import Finish, Reply
from stitchcuda.agent.roles.answers import Malformed
from stitchcuda.agent.roles.reading import DEEPEST, MOST, objects, read_reply
from stitchcuda.analysis.contract.jsonread import Reader

GOOD = '{"summary": "fuse", "steps": ["a", "b"]}'
VALUE = {"summary": "fuse", "steps": ["a", "b"]}


def read(value: object) -> dict[str, Any]:
    reader = Reader(value, "", ("summary", "steps"))
    return {"summary": reader.text("summary"), "steps": list(reader.items("steps", lambda item, _: item))}


def got(text: str, finish: Finish = Finish.STOP) -> dict[str, Any] | Malformed:
    return read_reply(Reply(text, finish=finish), read)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"\ufeff{GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```\nI hope this helps! {{}} is not used.",
        f"Here is the plan:\n\n{GOOD}\n\nIt calls `f() {{ return; }}`.",
        '{"summary": "fuse", "steps": ["a", "b",],}',
        '{ // the plan\n "summary": "fuse", /* two\n steps */ "steps": ["a", "b"] # done\n}',
        f"{GOOD} garbage }}",
        f"{GOOD}{GOOD}",
        f"In C++: if (x) {{ y(); }}\n{GOOD}",
        f'<think>maybe {{"summary": 1}}</think>{GOOD}',
    ],
)
def test_what_stands_around_and_between_is_forgiven(text: str) -> None:
    assert got(text) == VALUE


def test_drafts_of_a_model_that_thinks_aloud_are_no_answers() -> None:
    draft = '{"summary": "draft", "steps": []}'
    assert got(f"<think>{draft}</think>\n{GOOD}") == VALUE
    assert got(f"{GOOD}</think>") == VALUE


def test_line_ends_inside_strings_are_taken_as_they_are() -> None:
    assert got('{"summary": "one\n\ttwo", "steps": []}') == {"summary": "one\n\ttwo", "steps": []}


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "empty"),
        (" \n\ufeff", "empty"),
        ("I cannot do that.", "no JSON object"),
        ('{"summary": "fuse", "steps": ["a"', "cut off"),
        ('{"summary": "fuse", "steps": ["a", "b', "cut off"),
        ('```json\n{"summary": "fu', "cut off"),
        ('{"summary": "a {\\"summary\\": \\"x\\", \\"steps\\": []} b', "cut off"),
        ('{"steps": [{"summary": "x", "steps": []}, ', "cut off"),
        ('{"summary": "a", "summary": "b", "steps": []}', "'summary' stands twice"),
        ('{"summary": "a\\d", "steps": []}', "\\d is no escape"),
        ('{"summary": \'a\', "steps": []}', "begins no JSON value"),
        ('{"summary": NaN, "steps": []}', "NaN is no JSON value"),
        ('{"summary": 1e999, "steps": []}', "too large"),
        ('{"summary": "\\ud800", "steps": []}', "surrogate"),
        ('{"summary": "a\\u0000b", "steps": []}', "u0000"),
        ('{"summary": "a" "steps": []}', "expected a comma"),
        ('{"summary": 7, "steps": []}', "summary: expected a string, found 7"),
        ('{"summary": "a"}', "steps: missing"),
        ('{"summary": "a", "steps": [], "run": "rm -rf /"}', "run: expected no such field"),
        ('{"summary": "a", "steps": []} or {"summary": "b", "steps": []}', "2 different answers"),
        ('["a"]', "no JSON object"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_field_and_value(text: str, words: str) -> None:
    found = got(text)
    assert isinstance(found, Malformed)
    assert words in found.feedback, found


def test_a_reply_that_ended_at_the_limit_says_so_unless_it_is_whole() -> None:
    assert got(GOOD, Finish.LENGTH) == VALUE
    for text in ('{"summary": "a', '{"summary": "a"} and then'):
        found = got(text, Finish.LENGTH)
        assert isinstance(found, Malformed) and "cut off" in found.reason


def test_a_refusal_and_an_enormous_reply_are_not_read() -> None:
    assert isinstance(got(GOOD, Finish.REFUSED), Malformed)
    found = got(GOOD + "x" * MOST)
    assert isinstance(found, Malformed) and "characters" in found.reason


def test_nesting_has_an_end() -> None:
    for deep in ('{"a":' * 100_000, '{"summary": ' + "[" * 100_000, '{"steps":' + "[" * 60 + "]" * 60 + "}"):
        found = got(deep)
        assert isinstance(found, Malformed)
    inside: object = 1
    for _ in range(DEEPEST - 1):
        inside = [inside]
    assert objects(json.dumps({"a": inside}))[0] == [{"a": inside}]


@pytest.mark.parametrize(
    "text",
    ["{" * 500_000, '{"' * 300_000, '{"a":"' + "{" * 900_000, '{"a":1,' * 100_000, "/*{" * 200_000, '{"a":"{\\"b\\":\\"' * 50_000,
     '{"a": ' + "9" * 900_000 + "}", '{"a": /*' * 100_000, "{" + "#{" * 400_000],
)  # fmt: skip
def test_no_reply_takes_long(text: str) -> None:
    before = time.process_time()
    assert isinstance(got(text), Malformed)
    assert time.process_time() - before < 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="ascii", exclude_characters="\0")), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text('abc{}"\\/', max_size=4), JSON, max_size=4), st.booleans(), st.sampled_from([None, 2]))
def test_all_json_objects_are_read_as_they_are(value: dict[str, Any], ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=indent)
    assert objects(text) == ([value], None)
    assert objects(f"```json\n{text}\n```")[0] == [value]


@settings(max_examples=500, deadline=None)
@given(
    st.lists(
        st.sampled_from([*'{}[]",:\\/#*', "//", "\n", '"a"', "1", "true", '"summary"', '"steps"', "\\u", "\ufeff"]),
        max_size=40,
    ).map("".join)
)
def test_any_text_becomes_a_value_or_words(text: str) -> None:
    found = got(text)
    assert isinstance(found, Malformed) or set(found) == {"summary", "steps"}
    if isinstance(found, Malformed):
        assert found.reason and found.feedback


@settings(max_examples=200, deadline=None)
@given(st.integers(1, len(GOOD) - 1))
def test_every_beginning_of_an_answer_is_cut_off(length: int) -> None:
    found = got(GOOD[:length])
    assert isinstance(found, Malformed) and "cut off" in found.reason
