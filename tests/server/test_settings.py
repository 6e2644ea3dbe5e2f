"""Settings: what is read, what is refused, and that the words agree with the engine's."""

from __future__ import annotations

from stitchcuda.analysis.findings.finding import Confidence, Severity
from stitchcuda.server.settings import CONFIDENCES, SEVERITIES, Settings, read_settings


def test_words_are_the_engines() -> None:
    assert set(CONFIDENCES) == {c.value for c in Confidence}
    assert {s.value for s in Severity} <= set(SEVERITIES)


def test_good_values() -> None:
    values = {
        "diagnosticsDelay": 0,
        "select": ["leak"],
        "severity": {"leak": "off"},
        "confidence": None,
        "codeLens": False,
    }
    settings, mistakes = read_settings(Settings(), {"stitchcuda": values})
    assert mistakes == ()
    assert settings == Settings(diagnosticsDelay=0, select=("leak",), severity={"leak": "off"}, codeLens=False)
    assert read_settings(settings, None) == (settings, ())


def test_mistakes_are_named_and_the_rest_counts() -> None:
    values = {"diagnosticsDelay": True, "selct": [], "select": "leak", "severity": {"leak": "fatal"}, "hover": False}
    settings, mistakes = read_settings(Settings(), values)
    assert settings == Settings(hover=False)
    assert [m.split("'")[1] for m in mistakes] == ["diagnosticsDelay", "selct", "select", "severity"]
    assert read_settings(Settings(), [1])[1] == ("settings must be an object, not a list",)


def test_what_the_extension_keeps_for_itself_is_no_mistake() -> None:
    assert read_settings(Settings(), {"server": {"path": "x"}, "trace": {"server": "off"}, "trusted": True})[1] == ()
