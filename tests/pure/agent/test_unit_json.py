"""Units as JSON: what runs of earlier versions wrote is still read."""

from __future__ import annotations

import pytest
from stitchcuda.agent.unit_json import unit_to_json, units_from_json
from stitchcuda.agent.units import TextEdit, Unit
from stitchcuda.analysis.contract.jsonread import SchemaError
from stitchcuda.analysis.proof.model import Declared, May

UNIT = Unit("a", (), "t", "why", (TextEdit("a.cu", 0, 1, b"x"),), Declared(("t",), waits=May.FEWER, device=May.ANY))


def test_changed_device_code_is_declared() -> None:
    written = unit_to_json(UNIT)
    assert written["declared"]["device"] == "any"
    assert units_from_json([written], "units") == (UNIT,)


def test_what_does_not_name_device_code_leaves_it_the_same() -> None:
    written = unit_to_json(UNIT)
    del written["declared"]["device"]
    (read,) = units_from_json([written], "units")
    assert read.declared.device is May.SAME and read.declared.waits is May.FEWER


def test_an_unknown_word_is_refused() -> None:
    written = unit_to_json(UNIT)
    written["declared"]["device"] = "some"
    with pytest.raises(SchemaError, match="device"):
        units_from_json([written], "units")


def test_together_changes_may_do_what_either_may() -> None:
    both = Declared(("a",), waits=May.FEWER) | Declared(("b",), device=May.ANY)
    assert both == Declared(("a", "b"), waits=May.FEWER, device=May.ANY)
