"""The situation in words: what each place of a prompt template is filled with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stitchcuda.agent.invention.definitions import definitions, named
from stitchcuda.agent.roles.answers import Plan
from stitchcuda.agent.roles.blocks import block, cut
from stitchcuda.agent.roles.situation import Brief, Scope
from stitchcuda.agent.roles.veil import veil_of
from stitchcuda.analysis.contract.types import Contract, contract_to_json
from stitchcuda.analysis.syntax.text import LineIndex, decode
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.trace.summary import to_text
from stitchcuda.gpu_validate.verdict import GateFinding, Verdict

MOST_SOURCE = 160_000  # characters of sources in one request
MOST_WHOLE = 24_000  # characters of a file of which only some functions are in scope; beyond, only these are shown
MOST_FACTS = 6_000
MOST_LISTED = 40  # refusals, attempts, files


def results(contract: Contract) -> str:
    """What equal results are, as a sentence."""
    t = contract.tolerance
    rule = {
        "relative": f"may differ by a relative error of at most {t.rtol}",
        "absolute": f"may differ by at most {t.atol}",
        "top_k": f"must have the same {t.k} best classes",
    }.get(t.mode)
    if rule is None:
        return "The contract gives no tolerance: results must be bitwise equal to the original's, for all inputs and sizes."
    return f"The contract gives a tolerance: results {rule}. Bitwise equal results always pass."


def contract_block(contract: Contract) -> str:
    return block("contract", _json(contract_to_json(contract)))


def scope_block(scope: Scope) -> str:
    lines = [f"files: {', '.join(scope.files)}"]
    if scope.functions:
        lines.append(f"only these functions in them, and new functions beside them: {', '.join(scope.functions)}")
    lines.append("new files may be made beside them" if scope.may_add_files else "no new files")
    return block("scope", "\n".join(lines))


def rules_block(brief: Brief) -> str:
    """What the rules did, and what they refused with the reasons."""
    lines = [f"done: {sentence}" for sentence in brief.applied] or ["done: nothing"]
    refusals = [f"refused: {r.transform} at {r.path}:{r.line}: {r.reason}" for r in brief.refusals]
    lines += refusals[:MOST_LISTED] or ["refused: nothing"]
    if len(refusals) > MOST_LISTED:
        lines.append(f"and {len(refusals) - MOST_LISTED} more refusals")
    return block("rules", veil_of(brief)("\n".join(lines)))


def measured_block(brief: Brief) -> str:
    if not brief.measured and brief.trace is None:
        return "Nothing was measured."
    parts = []
    if brief.measured:
        parts.append(block("figures", veil_of(brief)(cut(_json(brief.measured), MOST_FACTS))))
    if brief.trace is not None:
        parts.append(block("traced run", veil_of(brief)(trace_text(brief.trace))))
    return "\n".join(parts)


def trace_text(trace: Trace) -> str:
    return cut(to_text(trace), MOST_FACTS)


def history_block(brief: Brief) -> str:
    if not brief.history:
        return "Nothing was tried before."
    shown = brief.history[-MOST_LISTED:]
    lines = [f"- {a.summary} -> {a.outcome}{f': {a.issue}' if a.issue else ''}" for a in shown]
    return block("attempts", "\n".join(lines))


def plan_block(plan: Plan) -> str:
    value = {
        "summary": plan.summary,
        "steps": list(plan.steps),
        "targets": list(plan.targets),
        "constraints": list(plan.constraints),
        "risks": list(plan.risks),
    }
    return block("plan", _json(value))


def whole_words(whole: Sequence[str]) -> str:
    """What is asked where anchors failed."""
    if not whole:
        return 'Prefer edits of kind "replace"; give a function whole where most of it changes.'
    names = ", ".join(whole)
    return f'Anchors in {names} failed twice. Change these with edits of kind "function": the whole definition.'


def issue_block(verdict: Verdict) -> str:
    """The primary issue of a verdict with the diagnostics of its gate. Raises ValueError when there is none."""
    primary = verdict.primary
    if primary is None:
        raise ValueError("a verdict without a primary issue leaves nothing to repair")
    place = f" at {primary.path}:{primary.line}" if primary.path else ""
    lines = [f"issue: {primary.issue}{place}", f"why it matters: {primary.why}", f"fix: {primary.fix}"]
    gate = next((g for g in verdict.gates if g.reason == primary.issue or _names(g.findings, primary.issue)), None)
    if gate is not None:
        lines.insert(0, f"gate: {gate.gate}, {gate.state.value}")
        lines += [f"- {_placed(f)}" for f in gate.findings if not f.baseline][:8]
    return block("issue", cut("\n".join(lines), MOST_FACTS))


def _names(findings: Iterable[GateFinding], issue: str) -> bool:
    return any(f.what == issue for f in findings)


def _placed(finding: GateFinding) -> str:
    return f"{finding.path}:{finding.line}: {finding.what}" if finding.path else finding.what


def for_edits(brief: Brief, plan: Plan, whole: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """What everybody is told who is asked for edits, by place of the template, and the paths of the files shown."""
    files, shown = sources(brief)
    places = {
        "results": results(brief.contract),
        "plan": plan_block(plan),
        "whole": whole_words(whole),
        "contract": contract_block(brief.contract),
        "scope": scope_block(brief.scope),
        "files": files,
    }
    return places, shown


def sources(brief: Brief) -> tuple[str, tuple[str, ...]]:
    """The text of the files in scope, as far as there is room, what other files there are, and the paths of those shown."""
    parts: list[str] = []
    shown: list[str] = []
    room = MOST_SOURCE
    for path in brief.scope.files:
        if path not in brief.texts:
            continue
        text = plain(brief.texts[path])
        if brief.scope.functions and len(text) > MOST_WHOLE or len(text) > room:
            text = _functions(brief.texts[path], brief.scope.functions)
        if not text or len(text) > room:
            parts.append(f"{json.dumps(path)} is not shown: it is too long. The tool `source` shows its functions.")
            continue
        room -= len(text)
        parts.append(block(f"file {path}", text))
        shown.append(path)
    rest = [path for path in sorted(brief.texts) if path not in shown and path not in brief.scope.files]
    if rest:
        more = f"\nand {len(rest) - MOST_LISTED} more" if len(rest) > MOST_LISTED else ""
        parts.append(block("other files, which the tool `source` shows", "\n".join(rest[:MOST_LISTED]) + more))
    return "\n".join(parts), tuple(shown)


def plain(text: bytes) -> str:
    """A file's text as the model sees it: without byte-order mark, with plain line ends."""
    return decode(text).removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _functions(text: bytes, functions: Sequence[str]) -> str:
    """The definitions of some functions, with notes where text is left out."""
    here = definitions(text)
    wanted = sorted({d for name in functions for d in named(here, name)}, key=lambda d: d.start)
    lines = LineIndex.of(text)
    out, last = [], 0
    for definition in wanted:
        first = lines.line_at(definition.start)
        if first > last:
            out.append(f"[lines {last + 1} to {first} are not shown]")
        out.append(plain(text[definition.start : definition.end]))
        last = lines.line_at(definition.end) + 1
    if out and last < len(lines):
        out.append(f"[lines from {last + 1} on are not shown]")
    return "\n".join(out)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True, default=str)
