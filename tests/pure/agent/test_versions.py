"""Units put together: every choice that holds together is one well-defined text, byte for byte."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stitchcuda.agent import versions
from stitchcuda.agent.units import TextEdit, Unit
from stitchcuda.agent.versions import MissingParents, UnitError
from stitchcuda.analysis.proof.model import Declared

BASE = {"a.cu": b"one\r\ntwo\r\nthree\r\n", "b.cu": "/* 延迟 */\nx\n".encode()}


def draft(*edits: TextEdit, transform: str = "t", parents: tuple[str, ...] = (), id: str = "") -> Unit:
    return Unit(id, parents, transform, "why", edits, Declared())


def sequential(base: dict[str, bytes], units: tuple[Unit, ...]) -> dict[str, bytes]:
    """The obvious way: one unit after the other, each unit's edits from the last to the first."""
    texts = dict(base)
    for unit in units:
        for edit in sorted(unit.edits, key=lambda e: (e.path, e.start, e.end), reverse=True):
            text = texts.get(edit.path, b"")
            texts[edit.path] = text[: edit.start] + edit.text + text[edit.end :]
    return texts


@st.composite
def sequences(data: st.DrawFn) -> tuple[dict[str, bytes], tuple[Unit, ...]]:
    """A tree of small files and units for it, some of which add a file; every edit differs from the others by its text."""
    alphabet = st.sampled_from([b"a", b"b", b"\r\n", b"\n", "é".encode(), b"\xff"])
    base = {name: b"".join(data(st.lists(alphabet, max_size=8))) for name in ("a.cu", "b.cu")}
    units: tuple[Unit, ...] = ()
    for number in range(data(st.integers(1, 5))):
        texts = sequential(base, units)
        edits: list[TextEdit] = []
        for path in data(st.lists(st.sampled_from(["a.cu", "b.cu", "new.cu"]), min_size=1, max_size=2, unique=True)):
            size = len(texts.get(path, b""))
            cuts = sorted(data(st.lists(st.integers(0, size), min_size=2, max_size=4)))
            for k, (start, end) in enumerate(zip(cuts[::2], cuts[1::2], strict=False)):
                if not any(e.path == path and (e.start, e.end) == (start, end) for e in edits):
                    text = data(st.sampled_from([b"", b"<%d%d>" % (number, k)]))
                    edits.append(TextEdit(path, start, end, text))
        units = versions.extend(base, units, [draft(*edits, transform=f"t{number}")])
    return base, units


@settings(max_examples=150, deadline=None)
@given(sequences())
def test_every_choice_that_holds_together_is_its_edits_one_after_the_other(
    case: tuple[dict[str, bytes], tuple[Unit, ...]],
) -> None:
    base, units = case
    everything = [u.id for u in units]
    assert {**base, **versions.compose(base, units, everything)} == sequential(base, units)
    assert versions.compose(base, units, []) == {}  # reverted: nothing of the original is replaced
    for size in range(len(units) + 1):
        for chosen in itertools.combinations(everything, size):
            if versions.missing_parents(units, chosen):
                with pytest.raises(MissingParents):
                    versions.compose(base, units, chosen)
                continue
            alone = versions.rebased(base, units, chosen)
            assert {**base, **versions.compose(base, units, chosen)} == sequential(base, alone)


@settings(max_examples=60, deadline=None)
@given(sequences())
def test_parents_are_what_the_edits_need_and_no_order_of_leaving_out_matters(
    case: tuple[dict[str, bytes], tuple[Unit, ...]],
) -> None:
    """Leaving units out one at a time, each time from the text that was left, gives what leaving them out at once gives."""
    base, units = case
    left = units
    for unit in reversed(units):
        if any(unit.id in u.parents for u in left):
            continue
        rest = [u.id for u in left if u.id != unit.id]
        at_once = versions.compose(base, units, rest)
        left = tuple(u for u in left if u.id != unit.id)
        again = versions.rebased(base, units, rest)
        assert {**base, **at_once} == sequential(base, again)


def test_units_of_one_text_are_independent_and_can_be_taken_in_any_choice() -> None:
    first, second, third = (
        draft(TextEdit("a.cu", 5, 10, b""), transform="remove"),
        draft(TextEdit("a.cu", 0, 3, b"ONE"), TextEdit("b.cu", 0, 0, b"// x\n"), transform="change"),
        draft(TextEdit("a.cu", 10, 15, b"THREE"), transform="change"),
    )
    units = versions.extend(BASE, (), [first, second, third])
    assert [u.parents for u in units] == [(), (), ()]
    a, b, c = (u.id for u in units)
    assert versions.compose(BASE, units, [a, b, c])["a.cu"] == b"ONE\r\nTHREE\r\n"
    assert versions.compose(BASE, units, [c]) == {"a.cu": b"one\r\ntwo\r\nTHREE\r\n"}
    assert versions.compose(BASE, units, [b])["b.cu"] == "// x\n/* 延迟 */\nx\n".encode()
    assert versions.rebased(BASE, units, [c])[0].edits == third.edits


def test_a_unit_that_touches_anothers_text_builds_on_it() -> None:
    units = versions.extend(BASE, (), [draft(TextEdit("a.cu", 5, 5, b"1.5\r\n"))])
    units = versions.extend(BASE, units, [draft(TextEdit("a.cu", 6, 7, b",")), draft(TextEdit("a.cu", 10, 10, b"+"))])
    assert [u.parents for u in units] == [(), (units[0].id,), ()]
    with pytest.raises(MissingParents) as error:
        versions.compose(BASE, units, [units[1].id, units[2].id])
    assert error.value.missing == {units[1].id: (units[0].id,)}
    assert units[0].id in str(error.value)
    assert versions.with_parents(units, [units[1].id]) == (units[0].id, units[1].id)
    assert versions.compose(BASE, units, [units[2].id]) == {"a.cu": b"one\r\n+two\r\nthree\r\n"}


@pytest.mark.parametrize(
    ("second", "rests"),
    [
        (TextEdit("a.cu", 5, 5, b"x"), True),  # before or after the removed line?
        (TextEdit("a.cu", 4, 6, b"x"), True),  # spans it
        (TextEdit("a.cu", 5, 7, b"x"), False),  # replaces what follows it
        (TextEdit("a.cu", 3, 5, b"x"), False),
    ],
)
def test_a_unit_that_spans_or_borders_a_removal_builds_on_it(second: TextEdit, rests: bool) -> None:
    units = versions.extend(BASE, (), [draft(TextEdit("a.cu", 5, 10, b""))])
    units = versions.extend(BASE, units, [draft(second)])
    assert units[1].parents == ((units[0].id,) if rests else ())


def test_a_new_file_needs_the_unit_that_makes_it() -> None:
    units = versions.extend(BASE, (), [draft(TextEdit("new/c.h", 0, 0, b"#pragma once\n"))])
    units = versions.extend(BASE, units, [draft(TextEdit("new/c.h", 13, 13, b"int x;\n"))])
    assert units[1].parents == (units[0].id,)
    assert versions.compose(BASE, units, [u.id for u in units]) == {"new/c.h": b"#pragma once\nint x;\n"}


def test_declared_parents_survive_by_the_name_that_the_draft_had() -> None:
    first = draft(TextEdit("a.cu", 0, 0, b"A"), id="draft 1")
    second = draft(TextEdit("b.cu", 0, 0, b"B"), parents=("draft 1",))
    units = versions.extend(BASE, (), [first, second])
    assert units[1].parents == (units[0].id,)


def test_ids_are_hashes_of_the_content() -> None:
    edit = TextEdit("a.cu", 0, 1, b"x")
    (unit,) = versions.extend(BASE, (), [draft(edit)])
    assert unit.id == versions.unit_id("t", [edit]) and len(unit.id) == 16
    others = [TextEdit("b.cu", 0, 1, b"x"), TextEdit("a.cu", 1, 1, b"x"), TextEdit("a.cu", 0, 1, b"y")]
    assert len({unit.id, versions.unit_id("u", [edit]), *(versions.unit_id("t", [e]) for e in others)}) == 5
    with pytest.raises(UnitError, match="its edits were changed"):
        versions.check_sequence([Unit(unit.id, (), "t", "", (others[0],), Declared())])


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([TextEdit("a.cu", 0, 99, b"")], "lies outside of the file, which has 17"),
        ([TextEdit("a.cu", 0, 4, b""), TextEdit("a.cu", 3, 5, b"")], "overlap"),
        ([TextEdit("a.cu", 4, 3, b"")], "no range"),
        ([TextEdit("new.cu", 1, 1, b"x")], "lies outside"),
    ],
)
def test_edits_that_do_not_fit_are_refused(edits: list[TextEdit], message: str) -> None:
    with pytest.raises(UnitError, match=message):
        versions.extend(BASE, (), [draft(*edits)])
    if len(edits) == 2:
        with pytest.raises(UnitError, match=message):
            versions.extend(BASE, (), [draft(e) for e in edits])


def test_an_unknown_id_is_told_with_those_there_are() -> None:
    (unit,) = versions.extend(BASE, (), [draft(TextEdit("a.cu", 0, 0, b"x"))])
    with pytest.raises(UnitError, match=f"no unit has the id nope; the units are {unit.id}"):
        versions.compose(BASE, (unit,), ["nope"])


def test_an_offset_is_found_in_the_original() -> None:
    edits = (TextEdit("a.cu", 0, 0, b"zero\r\n"), TextEdit("a.cu", 5, 10, b""))
    units = versions.extend(BASE, (), [draft(*edits)])
    text = versions.compose(BASE, units, [units[0].id])["a.cu"]
    for word in (b"one", b"three"):
        found = versions.original_offset(BASE, units, "a.cu", text.index(word))
        assert found == BASE["a.cu"].index(word)
    assert versions.original_offset(BASE, units, "a.cu", 2) == 0  # inside what was inserted
    assert versions.original_offset(BASE, units, "b.cu", 4) == 4


@settings(max_examples=100, deadline=None)
@given(sequences())
def test_changes_of_the_original_lead_to_the_same_version(
    case: tuple[dict[str, bytes], tuple[Unit, ...]],
) -> None:
    base, units = case
    for chosen in ([u.id for u in units], list(versions.with_parents(units, [units[-1].id]))):
        texts = dict(base)
        found = versions.changes(base, units, chosen)
        assert all(set(c.units) <= set(chosen) and c.units for c in found)
        for path in {c.edit.path for c in found}:
            edits = [c.edit for c in found if c.edit.path == path]
            assert all(a.end < b.start for a, b in itertools.pairwise(edits)), "they do not even touch"
            for edit in reversed(edits):
                text = texts.get(path, b"")
                texts[path] = text[: edit.start] + edit.text + text[edit.end :]
        version = {**base, **versions.compose(base, units, chosen)}
        assert texts == {
            path: text for path, text in version.items() if text or path in base
        }  # an empty new file is no edit


@st.composite
def attempts(data: st.DrawFn) -> tuple[dict[str, bytes], tuple[Unit, ...], dict[tuple[str, ...], dict[str, bytes]]]:
    """Units that were each made on some version of those before them, and the texts of all versions on the way."""
    base = {"a.cu": b"one\ntwo\nthree\n"}
    units: tuple[Unit, ...] = ()
    expected: dict[tuple[str, ...], dict[str, bytes]] = {(): dict(base)}
    for number in range(data(st.integers(1, 6))):
        on = data(st.sampled_from(sorted(expected)))
        texts = expected[on]
        path = data(st.sampled_from(["a.cu", "new.cu"]))
        start, end = sorted(data(st.tuples(*[st.integers(0, len(texts.get(path, b"")))] * 2)))
        edit = TextEdit(path, start, end, data(st.sampled_from([b"", b"<%d>" % number, b"\n"])))
        units = versions.extend(base, units, [draft(edit, transform=f"t{number}", parents=on)], on)
        expected[(*on, units[-1].id)] = sequential(texts, (draft(edit),))
    return base, units, expected


@settings(max_examples=200, deadline=None)
@given(attempts())
def test_an_attempt_counts_in_the_version_that_it_was_made_on_whatever_was_tried_beside_it(
    case: tuple[dict[str, bytes], tuple[Unit, ...], dict[tuple[str, ...], dict[str, bytes]]],
) -> None:
    base, units, expected = case
    versions.check_sequence(units)
    for chosen, texts in expected.items():
        assert {**base, **versions.compose(base, units, chosen)} == texts
        alone = versions.rebased(base, units, chosen)
        assert sequential(base, alone) == texts
        changed = [c.edit for c in versions.changes(base, units, chosen)]
        assert {p: t for p, t in sequential(base, (draft(*changed),)).items() if t} == {
            p: t
            for p, t in texts.items()
            if t  # an empty new file is no change of a text
        }


def test_two_attempts_at_one_place_do_not_know_each_other() -> None:
    """Both replace the same text of the same version; only what either was made on is among its parents."""
    first = versions.extend(BASE, (), [draft(TextEdit("b.cu", 0, 0, b"// rule\n"))])
    on = (first[0].id,)
    units = versions.extend(BASE, first, [draft(TextEdit("a.cu", 0, 3, b"1"), transform="model", parents=on)], on)
    units = versions.extend(BASE, units, [draft(TextEdit("a.cu", 0, 8, b"12"), transform="model", parents=on)], on)
    assert [u.parents for u in units] == [(), on, on]
    assert versions.compose(BASE, units, [on[0], units[1].id])["a.cu"] == b"1\r\ntwo\r\nthree\r\n"
    assert versions.compose(BASE, units, [on[0], units[2].id])["a.cu"] == b"12\r\nthree\r\n"
    assert versions.original_offset(BASE, units, "a.cu", 3, [on[0], units[2].id]) == 9
    with pytest.raises(UnitError):
        versions.check_sequence([units[0], Unit(**{f: getattr(units[1], f) for f in units[1].__slots__} | {"on": ()})])
