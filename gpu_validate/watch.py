"""Device times of a program as it stands, launch by launch, and what the sanitizer says of it: what is looked at on save and in CI.

The program is built and run alone, without another version beside it, so only times of single operations on the GPU are compared
between runs of different days: they depend neither on the host nor on what else it does. A baseline holds for one GPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from stitchcuda.analysis.contract.jsonread import Reader, SchemaError, integer
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.building.model import BuildFailed, Resources
from stitchcuda.gpu_validate.cache_folder import cache_folder
from stitchcuda.gpu_validate.hub import Tools
from stitchcuda.gpu_validate.regression import RUNS, SiteKey, SiteTime, site_times
from stitchcuda.gpu_validate.removal import remove_if_possible
from stitchcuda.gpu_validate.runs import Cancelled, Case, Room, cases
from stitchcuda.gpu_validate.trace.library import NoTracer
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.trace.session import TraceRequest
from stitchcuda.gpu_validate.verdict import GateFinding
from stitchcuda.gpu_validate.version import Version

SCHEMA = 1
TRACED = RUNS + 1  # the first one is a warm-up
SANITIZERS = ("memcheck",)  # the others take minutes on programs of any size


class CannotWatch(Exception):
    """The program was not measured: the sentence says why, with the first diagnostic of a build."""


@dataclass(frozen=True)
class Watched:
    """What was seen. `device` names the GPU; `reports` are the sanitizer's; `not_checked` is why there are none to be had. `kernels` says
    what each kernel takes, by its name with template arguments and parameters."""

    device: str
    sites: tuple[SiteTime, ...]
    reports: tuple[GateFinding, ...] = ()
    not_checked: str = ""
    kernels: Mapping[str, Resources] = field(default_factory=dict)


def watch(
    version: Version,
    project: Project,
    tools: Tools,
    *,
    sanitize: bool,
    progress: Callable[[str], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Watched:
    """Builds and runs the version. Raises CannotWatch, Cancelled."""
    if reason := tools.gpu():
        raise CannotWatch(reason)
    parent = cache_folder() / "work"
    parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="watch-", dir=parent))
    try:
        progress("building")
        builder = tools.builder(version, project, scratch=scratch / "builds", arch=None, cancel=cancelled)
        built = builder.build(version)
        if cancelled():
            raise Cancelled
        if isinstance(built, BuildFailed):
            raise CannotWatch(_why(built))
        case = cases(project, Contract())[0]
        room = Room(
            lambda: builder.placed(built),
            built.run_command,
            project,
            tools.run_traced,
            scratch=scratch,
            library=tools.library(),
            cancelled=cancelled,
        )
        traces = _traces(room, case, progress)
        watched = Watched(traces[0].device, site_times(traces), kernels=built.resources)
        if not sanitize:
            return replace(watched, not_checked="not asked for")
        progress("compute-sanitizer")
        found = tools.memory(
            builder, built, built, project, SANITIZERS, case, None, scratch=scratch, cancelled=cancelled
        )
        missing = found.reason if not found.evidence.get("tools") else ""
        return replace(watched, reports=found.findings, not_checked=missing)
    except (ValueError, NoTracer) as error:
        raise CannotWatch(str(error)) from error
    finally:
        remove_if_possible(scratch)


def _why(failed: BuildFailed) -> str:
    first = next((d for d in failed.diagnostics if d.severity == "error"), None)
    place = f"{first.path}:{first.line}: " if first and first.path else ""
    return f"it does not build: {place}{first.message if first else failed.reason}"


def _traces(room: Room, case: Case, progress: Callable[[str], None]) -> list[Trace]:
    traces = []
    for k in range(TRACED):
        progress(f"run {k + 1} of {TRACED}")
        shown = room.run_with_memory(TraceRequest("full"), case)
        if not shown.ended.ok:
            raise CannotWatch(f"the program {shown.ended.describe()}")
        if shown.trace is None:
            raise CannotWatch("the program ran, but its device work was not recorded")
        traces.append(shown.trace)
    return traces[1:]


# ------------------------------------------------------------------------------------------------------------ baselines


def to_json(watched: Watched) -> dict[str, Any]:
    """The times as a baseline file holds them; `from_json` reads them back."""
    return {"schema": SCHEMA, "device": watched.device, "sites": [_site_json(site) for site in watched.sites]}


def _site_json(site: SiteTime) -> dict[str, Any]:
    return {**asdict(site.key), "line": site.line, "count": site.count, "nanoseconds": list(site.medians)}


def from_json(value: Mapping[str, Any]) -> Watched:
    """Raises SchemaError."""
    reader = Reader(value, "", ("schema", "device", "sites"))
    reader.schema(SCHEMA)
    return Watched(reader.text("device"), reader.items("sites", _site))


def _site(value: object, at: str) -> SiteTime:
    reader = Reader(value, at, ("path", "function", "operation", "ordinal", "line", "count", "nanoseconds"))
    key = SiteKey(
        reader.text("path"), reader.text("function", ""), reader.text("operation"), reader.integer("ordinal", least=0)
    )
    medians = reader.items("nanoseconds", lambda item, where: integer(item, where, 1))
    if not medians:
        raise SchemaError(reader.path("nanoseconds"), list(medians), "the median of each run")
    return SiteTime(key, reader.integer("line", least=1), medians, reader.integer("count", least=1))
