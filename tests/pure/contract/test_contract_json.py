"""Contract and blueprint JSON: round trips, and errors that name the field and the value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stitchcuda.agent import blueprint as bp
from stitchcuda.analysis.contract import types as ct
from stitchcuda.analysis.contract.jsonread import SchemaError

WORDS = st.text(max_size=12)
LISTS = st.lists(WORDS, max_size=3).map(tuple)
POSITIVE = st.floats(min_value=1e-12, max_value=1e12, allow_nan=False)


@st.composite
def bounds(draw: st.DrawFn) -> ct.Bound:
    metric = draw(st.sampled_from(sorted(ct.METRIC_UNITS)))
    value = draw(st.floats(0, 1) if metric in ct.FRACTIONS else POSITIVE)
    statistic, relation = draw(st.sampled_from(ct.STATISTICS)), draw(st.sampled_from(ct.RELATIONS))
    return ct.Bound(metric, statistic, relation, value, ct.METRIC_UNITS[metric])


TOLERANCES = st.one_of(
    st.just(ct.Tolerance()),
    POSITIVE.map(lambda x: ct.Tolerance("relative", rtol=x)),
    POSITIVE.map(lambda x: ct.Tolerance("absolute", atol=x)),
    st.integers(1, 100).map(lambda k: ct.Tolerance("top_k", k=k)),
)
SHAPES = st.none() | st.lists(st.integers(0, 4096) | st.text(min_size=1, max_size=4), max_size=4).map(tuple)
TENSORS = st.builds(ct.TensorSpec, WORDS, SHAPES, st.none() | WORDS)
SPANS = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda p: (min(p), max(p)))


@st.composite
def contracts(draw: st.DrawFn) -> ct.Contract:
    precision = draw(st.sets(st.sampled_from(ct.PRECISIONS)))
    forbidden = draw(st.sets(st.sampled_from(ct.PRECISIONS))) - precision
    return ct.Contract(
        task=draw(WORDS),
        scope=draw(LISTS),
        bounds=tuple(draw(st.lists(bounds(), max_size=3))),
        tolerance=draw(TOLERANCES),
        hardware=ct.Hardware(draw(st.none() | WORDS), draw(st.sampled_from([None, "sm_90", "sm_90a", "sm_120f"]))),
        precision=tuple(sorted(precision)),
        precision_forbidden=tuple(sorted(forbidden)),
        inputs=tuple(draw(st.lists(TENSORS, max_size=2))),
        outputs=tuple(draw(st.lists(TENSORS, max_size=2))),
        forbid=draw(LISTS),
        max_streams=draw(st.none() | st.integers(1, 64)),
        evidence=tuple(draw(st.lists(st.builds(ct.Evidence, WORDS, WORDS, SPANS), max_size=2))),
        questions=tuple(draw(st.lists(st.builds(ct.Question, WORDS, WORDS, LISTS), max_size=2))),
    )


@given(contracts())
def test_a_contract_survives_json(contract: ct.Contract) -> None:
    assert ct.contract_from_json(json.loads(json.dumps(ct.contract_to_json(contract)))) == contract


OPS = st.lists(st.integers(1, 99).map(lambda k: f"n{k}"), max_size=4, unique=True)


@st.composite
def blueprints(draw: st.DrawFn) -> bp.Blueprint:
    ops = draw(OPS)
    cut = draw(st.integers(0, len(ops)))
    waits = draw(OPS)
    kept = draw(st.integers(0, len(waits)))
    node = st.sampled_from(["n1", "n2", "n3"])
    return bp.Blueprint(
        lanes=(bp.Lane("a", tuple(ops[:cut])), bp.Lane("b", tuple(ops[cut:]))),
        events=tuple(draw(st.lists(st.builds(bp.EventEdge, node, node), max_size=2))),
        residency=tuple(
            draw(st.lists(st.builds(bp.Residency, WORDS, st.sampled_from(bp.SPACES), node, node), max_size=2))
        ),
        reuse=tuple(draw(st.lists(st.builds(bp.Reuse, st.just(("x", "y")), st.integers(0, 1 << 40)), max_size=1))),
        waits=bp.Waits(tuple(waits[:kept]), tuple(waits[kept:])),
        captures=tuple(draw(st.lists(st.builds(bp.CaptureRegion, OPS.map(tuple)), max_size=2))),
        critical_path=tuple(draw(OPS)),
        predicted=draw(
            st.none() | st.builds(bp.Predicted, st.sampled_from(sorted(ct.METRIC_UNITS)), POSITIVE, POSITIVE)
        ),
    )


@given(blueprints())
def test_a_blueprint_survives_json(blueprint: bp.Blueprint) -> None:
    assert bp.blueprint_from_json(json.loads(json.dumps(bp.blueprint_to_json(blueprint)))) == blueprint


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ct.FIELDS), inner, max_size=4),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_any_json_is_read_or_refused_with_a_reason(value: object) -> None:
    for read in (ct.contract_from_json, bp.blueprint_from_json):
        try:
            read(value)
        except SchemaError as error:
            assert str(error).startswith(f"{error.field or 'value'}: ")


BOUND = {"metric": "latency", "statistic": "p99", "relation": "<", "value": 0.008, "unit": "s"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bounds": [BOUND | {"unit": "ms"}]}, "bounds[0].unit: expected one of s, found 'ms'"),
        ({"bounds": [BOUND, BOUND | {"value": True}]}, "bounds[1].value: expected a finite number >= 0, found True"),
        ({"bounds": [{"metric": "latency"}]}, "bounds[0].relation: missing, expected one of <, <=, >, >="),
        ({"bounds": [BOUND | {"p": 1}]}, "bounds[0].p: expected no such field"),
        ({"tolerance": {"mode": "relative"}}, "tolerance.rtol: missing, expected a number"),
        ({"tolerance": {"mode": "bitwise", "rtol": 1}}, "tolerance.rtol: expected no rtol in mode bitwise, found 1"),
        ({"tolerance": {"mode": "absolute", "atol": 0}}, "tolerance.atol: expected a finite number > 0, found 0"),
        ({"hardware": {"arch": "H100"}}, "hardware.arch: expected an architecture such as \"sm_90\", found 'H100'"),
        ({"precision": ["tf32"], "precision_forbidden": ["tf32"]}, "precision[0]: expected a precision that"),
        ({"max_streams": 0}, "max_streams: expected an integer >= 1, found 0"),
        ({"inputs": [{"name": "x", "shape": [8, -1]}]}, "inputs[0].shape[1]: expected an integer >= 0, found -1"),
        ({"evidence": [{"field": "a", "text": "b", "span": [3, 1]}]}, "evidence[0].span: expected [start, end]"),
        ({"schema": 2}, "schema: expected 1, found 2"),
        ({"scope": "forward"}, "scope: expected a list, found 'forward'"),
    ],
)
def test_contract_errors_name_the_field_and_the_value(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        ct.contract_from_json({"schema": 1, **fields})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"lanes": [{"stream": "a", "ops": ["n1"]}, {"stream": "b", "ops": ["n2", "n1"]}]},
            "lanes[1].ops[1]: expected an op that lanes[0] does not hold already, found 'n1'",
        ),
        ({"waits": {"kept": ["n3"], "removed": ["n3"]}}, "waits.removed[0]: expected a wait that waits.kept"),
        ({"reuse": [{"buffers": ["x", "x"], "bytes_saved": 1}]}, "reuse[0].buffers: expected two different buffers"),
        (
            {"residency": [{"buffer": "x", "space": "gpu", "from": "n1", "to": "n2"}]},
            "residency[0].space: expected one",
        ),
        ({"predicted": {"metric": "speed", "before": 1, "after": 2}}, "predicted.metric: expected one of"),
        ({}, "schema: missing, expected 1"),
    ],
)
def test_blueprint_errors_name_the_field_and_the_value(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        bp.blueprint_from_json({"schema": 1, **fields} if fields else {})
    assert str(caught.value).startswith(message)


def test_defaults_are_the_documented_ones() -> None:
    contract = ct.contract_from_json(
        {
            "schema": 1,
            "bounds": [
                {"metric": "device_memory", "relation": "<=", "value": 8e9, "unit": "B"},
                {"metric": "latency", "relation": "<", "value": 0.008, "unit": "s"},
            ],
        }
    )
    assert [b.statistic for b in contract.bounds] == ["max", "mean"]
    assert contract.tolerance == ct.Tolerance("bitwise")
