"""The finding codes: one rule a file, listed in one table."""

from __future__ import annotations

from stitchcuda.analysis.rules import (
    free_in_flight,
    host_read_before_sync,
    redundant_sync,
    stream_race_raw,
    sync_in_loop,
)
from stitchcuda.analysis.rules.finding import Rule

RULES: tuple[Rule, ...] = (
    stream_race_raw.RULE,
    host_read_before_sync.RULE,
    free_in_flight.RULE,
    redundant_sync.RULE,
    sync_in_loop.RULE,
)

BY_CODE = {rule.code: rule for rule in RULES}


def documentation(code: str) -> str:
    """The Markdown page of a code: what `explain` prints and `docs/rules/<code>.md` holds. KeyError when unknown."""
    rule = BY_CODE[code]
    headline, _, rest = rule.doc.partition("\n")
    default = "" if rule.default else ", off by default"
    facts = f"Group *{rule.group}*, default severity *{rule.severity}*{default}."
    return f"# {rule.code}\n\n{headline.strip()}\n\n{facts}\n\n{rest.strip()}\n"
