"""What one run showed, what the baseline's runs agree on, and the comparison of the two."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stitchcuda.analysis.contract.project import ObserveSection
from stitchcuda.analysis.contract.types import Tolerance
from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.gpu_validate.observe.contents import Kind, Reference, references
from stitchcuda.gpu_validate.observe.exchanges import Exchange
from stitchcuda.gpu_validate.observe.files import WrittenFile
from stitchcuda.gpu_validate.observe.numbers import Answer
from stitchcuda.gpu_validate.observe.reads import Expected, ReadState, compare_reads, expect
from stitchcuda.gpu_validate.observe.text import Template, TextDifference, TextResult, compare, learn
from stitchcuda.gpu_validate.observe.work import Work, changed_work, work_of
from stitchcuda.gpu_validate.processes import Ended
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.verdict import GateFinding

_QUERY_NOT_READY = 600  # cudaErrorNotReady: the answer of a query, no error
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY
_MEMORY_TEXT = re.compile(rb"out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY", re.IGNORECASE)


@dataclass(frozen=True)
class Shown:
    """One run. `trace` is None when the tracer brought none; `problem` says what of the run could not be collected."""

    ended: Ended
    trace: Trace | None
    files: Mapping[str, WrittenFile] = field(default_factory=dict)
    problem: str = ""

    @property
    def out_of_memory(self) -> bool:
        """The GPU had no memory left for it: that can be another process's doing."""
        if self.trace is not None and any(c.status == _OUT_OF_MEMORY for c in self.trace.calls):
            return True
        return not self.ended.ok and bool(_MEMORY_TEXT.search(self.ended.stderr + self.ended.stdout))

    @property
    def broken(self) -> bool:
        """It did not come to an end of its own."""
        return bool(self.ended.stopped or self.ended.not_started or self.ended.stuck) or self.ended.code is None


@dataclass(frozen=True)
class Expectation:
    """What several runs of the baseline agree on. `faults` say what of the baseline cannot be relied on."""

    code: int | None
    stdout: Template | None
    stderr: Template
    files: Mapping[
        str, Template | str | None
    ]  # a digest; a template for text that varies; None: varies and is not compared
    reads: Expected | None
    work: tuple[Work, ...]
    errors: frozenset[tuple[str, int]]  # API calls that fail in the baseline as well
    tolerance: Tolerance
    left_behind: int = 0  # processes that are there still when the program has ended
    references: tuple[Reference, ...] = ()  # of the reads, when contents are compared
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compared:
    """`failures` are differences; `unknown` what could not be decided; `compared` counts numbers, files and buffers. `buffers` is
    the evidence for each read whose numbers were compared, with its number in `read` (from 1). `differs`: those of `unknown` that
    are other results, of which only the tolerance keeps from saying that they are wrong."""

    failures: tuple[GateFinding, ...] = ()
    unknown: tuple[str, ...] = ()
    compared: int = 0
    masked: int = 0
    words: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    buffers: tuple[Mapping[str, Any], ...] = ()
    differs: tuple[str, ...] = ()


def by_contents(observe: ObserveSection, tolerance: Tolerance) -> bool:
    """Whether what copies bring to the host is compared number by number where it differs."""
    return observe.buffers == "host" and tolerance.mode != "bitwise"


def expectation(
    runs: Sequence[Shown],
    observe: ObserveSection,
    tolerance: Tolerance,
    kinds: Callable[[Trace], Sequence[Kind]] = lambda trace: [Kind()] * len(trace.reads),
) -> Expectation:
    """`kinds` says what the reads of a full trace of the baseline hold. Raises ValueError without a run and `re.error` for a bad
    `[observe] ignore`."""
    if not runs:
        raise ValueError("no run of the baseline")
    faults = [f"the baseline {run.ended.describe()}" for run in runs if run.broken]
    codes = {run.ended.code for run in runs}
    if len(codes) > 1 and not faults:
        faults.append("the baseline's exit code varies between its own runs")
    if observe.buffers == "host":
        faults += [problem for run in runs if (problem := _no_reads(run, "the baseline"))]
    faults += [run.problem for run in runs if run.problem]
    if observe.files and not faults and not any(run.files for run in runs):
        faults.append(f"the original writes no file that [observe] files names ({', '.join(observe.files)})")
    traces = [run.trace for run in runs if run.trace is not None]
    reads = expect([t.reads for t in traces]) if observe.buffers == "host" else None
    full = next((t for t in traces if t.mode == "full"), None)
    kept: tuple[Reference, ...] = ()
    if by_contents(observe, tolerance) and reads is not None and not reads.problem and full is not None and not faults:
        kept = references([t.reads for t in traces], kinds(full))
    return Expectation(
        code=runs[0].ended.code,
        stdout=learn([_text(r.ended.stdout) for r in runs], tolerance, observe.ignore) if observe.stdout else None,
        stderr=learn([_text(r.ended.stderr) for r in runs], tolerance, observe.ignore),
        files={name: _file(name, runs, observe, tolerance) for name in sorted({n for r in runs for n in r.files})},
        reads=reads,
        work=tuple(work_of(t) for t in traces if t.mode == "full" and not t.dropped),
        errors=frozenset((c.api, c.status) for t in traces for c in t.calls if c.status),
        tolerance=tolerance,
        left_behind=max(run.ended.left_behind for run in runs),
        references=kept,
        faults=tuple(dict.fromkeys(faults)),
    )


def against(
    wanted: Expectation,
    run: Shown,
    declared: Declared,
    *,
    timed: bool = False,
    exchanges: Sequence[Exchange] = (),
) -> Compared:
    """Compares one run of the candidate with the baseline. In a `timed` run, which records device operations, other work than in
    the checked runs is no difference (there are many of these runs, and few of the baseline's were counted) but no pass; contents
    are not kept in it, so that a buffer that differs must be one that was found near before."""
    if run.broken:
        return Compared((GateFinding(f"the program {run.ended.describe()}; the baseline ends with {wanted.code}"),))
    failures: list[GateFinding] = []
    unknown = [run.problem] if run.problem else []
    differs: list[str] = []
    compared = masked = words = 0
    counts: dict[str, int] = {}
    buffers: list[Mapping[str, Any]] = []
    if run.ended.code != wanted.code:
        failures.append(GateFinding(f"the program {run.ended.describe()}; the baseline ends with {wanted.code}"))
    if run.ended.left_behind > wanted.left_behind:  # what they still do is in no time and no result (row 1)
        failures.append(GateFinding(f"{run.ended.left_behind} of its processes were there still when it had ended"))
    if run.trace is not None:
        failures += _errors(wanted, run.trace)
    texts = [("stdout", wanted.stdout, run.ended.stdout), ("stderr", wanted.stderr, run.ended.stderr)]
    for name, template, found in texts:
        if template is not None:
            result = compare(template, _text(found))
            _judge_text(name, result, wanted.tolerance, failures, unknown, differs)
            compared, masked, words = compared + result.compared, masked + result.masked, words + result.words
            counts[f"{name} numbers"] = result.compared
    file_count = _judge_files(wanted, run, failures, unknown, differs)
    compared, counts["files"] = compared + file_count, file_count
    if wanted.reads is not None:
        missing = _no_reads(run, "the candidate")
        if missing or run.trace is None:
            unknown.append(missing)
        else:
            read_count = _judge_reads(wanted, run.trace, declared, failures, unknown, differs, buffers, timed)
            masked += sum(
                digest is None and not (k < len(wanted.references) and wanted.references[k].usable and not timed)
                for k, (_, digest) in enumerate(wanted.reads.reads)
            )
            compared, counts["buffers"] = compared + read_count, read_count
    elif wanted.work and (run.trace is None or run.trace.dropped):
        unknown.append("the tracer brought nothing whole back from the candidate's run, so that its work is not known")
    if run.trace is not None and (timed or run.trace.mode == "full") and not run.trace.dropped and wanted.work:
        work = changed_work(wanted.work, work_of(run.trace), declared, exchanges)
        unknown += work.unknown
        if timed:
            unknown += work.changed
        else:
            failures += map(GateFinding, work.changed)
    unknown += differs
    return Compared(
        tuple(failures),
        tuple(dict.fromkeys(unknown)),
        compared,
        masked,
        words,
        counts,
        tuple(buffers),
        tuple(dict.fromkeys(differs)),
    )


def _judge_text(
    name: str,
    result: TextResult,
    tolerance: Tolerance,
    failures: list[GateFinding],
    unknown: list[str],
    differs: list[str],
) -> None:
    for difference in result.differences:
        what = _said(name, difference)
        if difference.timing:
            unknown.append(
                f"{what}: it reads like a measured time or rate that happened not to vary in the baseline; "
                "name it in [observe] ignore, or print the result another way"
            )
        elif difference.far:
            unknown.append(
                f"{what}: it varies between runs of the original, but by far less; "
                "name it in [observe] ignore when it is no result"
            )
        elif tolerance.mode == "top_k":
            differs.append(f"{what}: the {tolerance.k} best classes cannot be told from printed text")
        else:
            failures.append(GateFinding(what))


def _said(name: str, difference: TextDifference) -> str:
    return f"{name} line {difference.line} is {difference.found.strip()!r}, the baseline prints {difference.expected.strip()!r}"


def _judge_files(
    wanted: Expectation, run: Shown, failures: list[GateFinding], unknown: list[str], differs: list[str]
) -> int:
    compared = 0
    for name in sorted({*wanted.files, *run.files}):
        found, expected = run.files.get(name), wanted.files.get(name, "")
        if found is None:
            failures.append(GateFinding(f"the file {name} was not written"))
        elif expected == "":
            failures.append(GateFinding(f"the file {name} was written, which the baseline does not"))
        elif isinstance(expected, Template):
            result = compare(expected, found.text) if found.text is not None else None
            if result is None:
                failures.append(GateFinding(f"the file {name} is no text any more"))
            else:
                _judge_text(name, result, wanted.tolerance, failures, unknown, differs)
                compared += min(1, result.compared)
        elif expected is not None:
            compared += 1
            if found.digest == expected:
                continue
            if wanted.tolerance.mode == "bitwise":
                failures.append(GateFinding(f"the file {name} has other contents"))
            else:
                differs.append(f"the file {name} differs, and binary files are compared bit by bit only")
    return compared


def _judge_reads(
    wanted: Expectation,
    trace: Trace,
    declared: Declared,
    failures: list[GateFinding],
    unknown: list[str],
    differs: list[str],
    buffers: list[Mapping[str, Any]],
    timed: bool,
) -> int:
    assert wanted.reads is not None
    digests = [digest for _, digest in wanted.reads.reads]

    def agrees(expected: int, found: int) -> Answer | None:
        if not wanted.references:
            return None
        reference, read = wanted.references[expected], trace.reads[found]
        if digests[expected] is None and (timed or not reference.usable):
            return None  # it varies in the baseline as well
        if timed and read.digest not in reference.digests and read.digest not in reference.answers:
            return Answer(None, "brought contents in a timed run that no run brought whose contents were compared")
        answer = reference.answer(read, wanted.tolerance)
        if answer.evidence:
            buffers.append({"read": found + 1, **answer.evidence})
        return answer

    result = compare_reads(wanted.reads, trace.reads, declared.copies is not May.SAME, agrees)
    if result.state is ReadState.DIFFERENT:
        site = next((s for c in trace.calls if 0 <= result.at < len(trace.reads)
                     and c.index == trace.reads[result.at].call for s in c.sites), None)  # fmt: skip
        if wanted.tolerance.mode == "bitwise" or result.at < 0 or result.by_contents:
            failures.append(GateFinding(result.detail, site.path if site else "", site.line if site else 0))
        else:
            differs.append(
                f"{result.detail}; buffers are compared by digest, which cannot tell whether they agree within the "
                'tolerance: print or write the result, or set [observe] buffers = "none"'
            )
    elif result.state in (ReadState.REORDERED, ReadState.UNKNOWN):
        (differs if result.other or result.state is ReadState.REORDERED else unknown).append(result.detail)
    return result.compared


def _errors(wanted: Expectation, trace: Trace) -> list[GateFinding]:
    """API calls that fail only in the candidate (row 4 of the known cheats: a failed launch that nobody checks)."""
    found: dict[tuple[str, int], GateFinding] = {}
    for call in trace.calls:
        key = (call.api, call.status)
        if call.status and call.status != _QUERY_NOT_READY and key not in wanted.errors and key not in found:
            site = call.sites[0] if call.sites else None
            what = f"{call.api} fails with error {call.status}, which it does not in the baseline"
            found[key] = GateFinding(what, site.path if site else "", site.line if site else 0)
    return list(found.values())


def _no_reads(run: Shown, whose: str) -> str:
    """Why nothing may be concluded about what the run read back, or ""."""
    if run.broken:
        return ""
    if run.trace is None:
        return f"the tracer brought nothing back from {whose}'s run"
    if run.trace.dropped:
        return f"{run.trace.dropped} records of {whose}'s trace were lost"
    return f"the trace of {whose} is not whole: {run.trace.problems[0]}" if run.trace.problems else ""


def _file(name: str, runs: Sequence[Shown], observe: ObserveSection, tolerance: Tolerance) -> Template | str | None:
    versions = [run.files.get(name) for run in runs]
    present = [v for v in versions if v is not None]
    texts = [v.text for v in present if v.text is not None]
    if len(present) < len(versions):
        return None
    textual = len(texts) == len(present)
    if len({v.digest for v in present}) == 1 and not (textual and (tolerance.mode != "bitwise" or observe.ignore)):
        return present[0].digest
    return learn(texts, tolerance, observe.ignore) if textual else None


def _text(data: bytes) -> str:
    """Bytes that are no UTF-8 stay what they are: two of them are no more equal than two letters."""
    return data.decode("utf-8", errors="surrogateescape")
