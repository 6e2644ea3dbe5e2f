"""The finding codes: one rule a file, listed in one table."""

from __future__ import annotations

from stitchcuda.analysis.findings.finding import CommentRule, KernelRule, Measured, Rule
from stitchcuda.analysis.rules import (
    free_in_flight,
    host_read_before_sync,
    latency_regression,
    redundant_sync,
    sanitizer,
    stream_race_raw,
    sync_in_loop,
    unknown_suppression,
    unused_suppression,
)

RULES: tuple[Rule, ...] = (
    stream_race_raw.RULE,
    host_read_before_sync.RULE,
    free_in_flight.RULE,
    redundant_sync.RULE,
    sync_in_loop.RULE,
)

# About device code: one kernel at a time.
KERNEL_RULES: tuple[KernelRule, ...] = ()

# About the comments that silence findings, once all others are known; a later one sees what those before it found.
COMMENT_RULES: tuple[CommentRule, ...] = (unknown_suppression.RULE, unused_suppression.RULE)

# What only a run on the GPU can find.
MEASURED: tuple[Measured, ...] = (latency_regression.CODE, sanitizer.CODE)

# What the source text alone can give.
_FROM_SOURCE: tuple[Rule | KernelRule | CommentRule, ...] = (*RULES, *KERNEL_RULES, *COMMENT_RULES)
BY_CODE = {rule.code: rule for rule in _FROM_SOURCE}
ALL_CODES: dict[str, Rule | KernelRule | CommentRule | Measured] = {**BY_CODE, **{code.code: code for code in MEASURED}}


def documentation(code: str) -> str:
    """The Markdown page of a code: what `explain` prints and `docs/rules/<code>.md` holds. KeyError when unknown."""
    rule = ALL_CODES[code]
    headline, _, rest = rule.doc.partition("\n")
    default = "" if rule.default else ", off by default"
    facts = f"Group *{rule.group}*, default severity *{rule.severity}*{default}."
    return f"# {rule.code}\n\n{headline.strip()}\n\n{facts}\n\n{rest.strip()}\n"
