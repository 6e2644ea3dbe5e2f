"""Builds versions of a program outside of the user's tree.

All versions are built, and run, at one and the same path: build trees hold absolute paths, kernels' names come from them,
and a program must not be able to tell which version it is. A version that was built is kept aside as the build left it;
`placed` puts a copy back where it was built. A version is built from a copy of the original's build, so that only what an
edit touched is compiled again, unless the build tool might overlook the change.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from stitchcuda.analysis.contract.project import Project
from stitchcuda.gpu_validate.building.detect import SOURCES, detect
from stitchcuda.gpu_validate.building.device_code import plain_name
from stitchcuda.gpu_validate.building.diagnostics import errors, for_user, read_diagnostics, read_spills, warnings
from stitchcuda.gpu_validate.building.layout import Layout, lay_out
from stitchcuda.gpu_validate.building.model import BuildFailed, BuildPlan, Built, Problem, Resources
from stitchcuda.gpu_validate.building.products import Product, find_program, read_product, scripts_product
from stitchcuda.gpu_validate.building.steps import Transcript, Workshop, run_plan
from stitchcuda.gpu_validate.building.trees import (
    TooLarge,
    code_files,
    copy_tree,
    including,
    read_text,
    state_of,
    write_texts,
)
from stitchcuda.gpu_validate.nvml import NvmlError, read_driver
from stitchcuda.gpu_validate.processes import Ended
from stitchcuda.gpu_validate.removal import remove_tree
from stitchcuda.gpu_validate.toolchain import find_nvcc
from stitchcuda.gpu_validate.version import Version

# what shells and make say of a compiler that is not there: `sh: 1: nvcc: not found`, `make: nvcc: No such file or directory`
_NO_NVCC = re.compile(r"\bnvcc: (?:command not found|not found|No such file or directory)")


class Builder:
    """Builds versions of one program. One build or run at a time: the place is shared, and guarded by a lock."""

    def __init__(
        self,
        baseline: Version,
        project: Project,
        *,
        scratch: Path,
        arch: str | None = None,
        nvcc_setting: str = "",
        cancel: Callable[[], bool] | None = None,
    ) -> None:
        """`scratch` is a folder of our own, outside of the program's tree; `arch` ("sm_90") is the contract's, None: the
        local GPU's."""
        self.baseline, self.project = baseline, project
        self._scratch = Path(os.path.realpath(scratch))
        self._place = self._scratch / "place"
        self._nvcc, self._nvcc_problem = find_nvcc(nvcc_setting)
        self.arch = arch or local_arch()
        self._cancel = cancel
        self.plan: BuildPlan | Problem = detect(baseline.root, project)
        inside = self._scratch.is_relative_to(os.path.realpath(baseline.folder))
        if isinstance(self.plan, BuildPlan) and self.plan.whole_folder and inside:
            self.plan = Problem(
                f"the folder for copies, {scratch}, lies in the program's own folder; use one outside of it"
            )
        self._layout: Layout | None = None
        self._done: dict[str, Built | BuildFailed] = {}
        self._states: dict[Path, str] = {}  # of the built trees
        self._lock = threading.RLock()
        for name in ("home", "versions", "logs") if isinstance(self.plan, BuildPlan) else ():
            (self._scratch / name).mkdir(parents=True, exist_ok=True)

    def build(self, version: Version) -> Built | BuildFailed:
        """Builds a version, or gives what the same texts gave before. Whatever goes wrong is in the answer."""
        if isinstance(self.plan, Problem):
            return BuildFailed(self.plan.what, missing_tool=self.plan.missing_tool)
        if self._nvcc is None and self.plan.kind in ("cmake", "units"):
            why = f" ({self._nvcc_problem})" if self._nvcc_problem else ""
            return BuildFailed(f"there is no CUDA compiler on this machine{why}", missing_tool=True)
        with self._lock:
            key = version.digest
            if key not in self._done:
                result = self._build(self.plan, version)
                if isinstance(result, BuildFailed) and result.limit == "cancelled":
                    return result
                self._done[key] = result
            return self._done[key]

    @contextlib.contextmanager
    def placed(self, built: Built) -> Iterator[Path]:
        """The program's folder, in a fresh copy of the built tree at the path where it was built. `Built.run_command` is valid
        inside. What a run writes there is gone afterwards; nobody else builds or runs meanwhile. Raises OSError, also when
        something has changed the built tree since: a run could slow the original down for the next ones."""
        assert self._layout is not None
        with self._lock:
            self._clear_place()
            self._must_be_unchanged(built)
            copy_tree(built.tree, self._place)
            try:
                yield self._place / self._layout.inside
            finally:
                self._clear_place()

    def _must_be_unchanged(self, built: Built) -> None:
        if state_of(built.tree) != self._states[built.tree]:
            raise OSError("a program or a build that ran since has changed it")

    def _build(self, plan: BuildPlan, version: Version) -> Built | BuildFailed:
        start = time.monotonic()
        try:
            layout = self._layout = self._layout or lay_out(plan)
            original = self._original(version)
            if isinstance(original, BuildFailed):
                return original
            result = self._attempt(plan, layout, version, original, start)
            if original is not None and self._maybe_stale(result, original):
                result = self._attempt(plan, layout, version, None, start)
        except TooLarge as error:
            return BuildFailed(
                f"{error}; name the folder that holds the whole program", seconds=time.monotonic() - start
            )
        except (OSError, ValueError) as error:
            return BuildFailed(
                f"the copy of {version.folder} could not be made: {error}", seconds=time.monotonic() - start
            )
        finally:
            self._clear_place()
        return result

    def _original(self, version: Version) -> Built | BuildFailed | None:
        """The built original to start from; None for the original itself, or when each version is built on its own."""
        if version.digest == self.baseline.digest or not self.project.build.incremental:
            return None
        original = self.build(self.baseline)
        return replace(original, of_baseline=True) if isinstance(original, BuildFailed) else original

    def _maybe_stale(self, result: Built | BuildFailed, original: Built) -> bool:
        """An incremental build may have overlooked the edit, or failed for its own reasons: then a fresh one decides."""
        if isinstance(result, BuildFailed):
            return not result.limit and not result.diagnostics
        return result.program_digest == original.program_digest

    def _attempt(
        self, plan: BuildPlan, layout: Layout, version: Version, original: Built | None, start: float
    ) -> Built | BuildFailed:
        self._clear_place()
        folder = self._place / layout.inside
        changed: list[str] | None = None
        home = self._scratch / "home"
        remove_tree(home)  # no build finds what another one left there
        home.mkdir()
        if original is not None:
            self._must_be_unchanged(original)
            copy_tree(original.tree, self._place)
            changed = write_texts(folder, {**self._undo(version), **version.texts})
            if not self._sees_changes(plan, folder, changed):
                self._clear_place()
                changed = None
        if changed is None:
            layout.copy_to(self._place, (plan.directory,) if plan.kind == "cmake" else ())
            write_texts(folder, version.texts)
        shop = Workshop(folder, self._place, layout.top, home, self._nvcc, self.arch, self._cancel)
        transcript = Transcript()
        ended = run_plan(plan, shop, transcript, changed)
        number = len(list((self._scratch / "logs").iterdir()))
        log = self._scratch / "logs" / f"{number:03d}-{version.digest}.txt"
        log.write_text(transcript.text, encoding="utf-8", errors="replace")
        where = (".", plan.directory, *dict.fromkeys(u.directory for u in plan.units))
        said = for_user(read_diagnostics(transcript.text), folder, layout.folder, str(version.folder), where)
        failed = BuildFailed("", errors(said), time.monotonic() - start, log)
        if not ended.ok:
            return self._why_failed(failed, ended, transcript)
        program = find_program(plan, folder, self._place)
        if isinstance(program, str):
            return replace(failed, reason=program)
        python = plan.kind == "python"
        product = scripts_product(self._place) if python else read_product(self._place, program, self.arch)
        if product.problem:
            return replace(failed, reason=product.problem)
        kept = self._scratch / "versions" / f"{number:03d}-{version.digest}"
        os.rename(self._place, kept)
        self._states[kept] = state_of(kept)
        return Built(
            name=version.digest,
            tree=kept,
            place=self._place,
            inside=layout.inside,
            shown=str(version.folder),
            run_command=(sys.executable, str(program)) if python else (str(program),),
            seconds=time.monotonic() - start,
            warnings=warnings(said),
            resources=_with_spills(product, read_spills(transcript.text), original),
            device_code=product.device_code,
            device_functions=product.device_functions,
            compiles_at_run_time=product.compiles_at_run_time,
            program_digest=product.program_digest,
            log=log,
            notes=(*plan.notes, *product.notes),
        )

    def _undo(self, version: Version) -> dict[str, bytes]:
        """What the original replaces and this version does not: as it is in the user's tree."""
        missing = set(self.baseline.texts) - set(version.texts)
        return {path: (self.baseline.folder / path).read_bytes() for path in missing}

    def _sees_changes(self, plan: BuildPlan, folder: Path, changed: Sequence[str]) -> bool:
        """Whether building on will compile everything that the changes reach. CMake and our own units follow includes; other
        builds are trusted only with sources that nothing includes."""
        if plan.kind == "python":
            return True
        if plan.kind in ("cmake", "units"):
            return all((self.baseline.folder / path).exists() or plan.kind == "cmake" for path in changed)
        if not all(Path(path).suffix.lower() in SOURCES for path in changed):
            return False
        return not including((Path(p).name for p in changed), (read_text(p) for p in code_files(folder)))

    def _why_failed(self, failed: BuildFailed, ended: Ended, transcript: Transcript) -> BuildFailed:
        if self._nvcc is None and _NO_NVCC.search(transcript.text):
            return replace(failed, reason="there is no CUDA compiler on this machine", missing_tool=True)
        if ended.stopped or ended.not_started:
            return replace(failed, reason=f"the build {ended.describe()}", limit=ended.stopped)
        if failed.diagnostics:
            first = failed.diagnostics[0]
            where = f"{first.path}:{first.line}: " if first.path else ""
            return replace(failed, reason=f"the build failed: {where}{first.message}")
        return replace(failed, reason=f"the build {ended.describe()} and named no error; its output is in {failed.log}")

    def _clear_place(self) -> None:
        remove_tree(self._place)


def _with_spills(product: Product, spills: dict[str, int], original: Built | None) -> dict[str, Resources]:
    """Spills come from the compiler's report; a kernel that was not compiled again has those it had."""
    before = original.resources if original is not None else {}
    spills = {plain_name(name): bytes_ for name, bytes_ in spills.items()}
    merged = {}
    for mangled, shown, resources in product.kernels:
        known = spills.get(mangled)
        old = before.get(shown)
        if known is None and old is not None and old.code == resources.code:
            known = old.spilled
        merged[shown] = replace(resources, spilled=known)
    return merged


def local_arch() -> str:
    """The architecture of the first GPU here ("sm_90"), "" without one."""
    try:
        gpus = read_driver().gpus
    except NvmlError:
        return ""
    return gpus[0].arch if gpus else ""
