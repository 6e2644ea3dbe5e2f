"""Which files beside the program's folder its build needs, so that a copy has them at the same relative places."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.gpu_validate.building.model import BuildPlan
from stitchcuda.gpu_validate.building.trees import (
    TooLarge,
    closure,
    code_files,
    copy_file,
    copy_sources,
    read_text,
    references_outside,
)

LEVELS_UP = 4  # how far above the folder a build may reach when no repository says where the project ends
_BUILD_FILES = ("CMakeLists.txt", "Makefile", "makefile", "GNUmakefile")


@dataclass(frozen=True)
class Layout:
    """`top` is the folder whose place the copy takes; `beside` are files outside of the program's folder, below `top`."""

    top: Path
    folder: Path
    beside: frozenset[Path]
    alone: frozenset[Path] | None  # the only files of the folder that are copied; None: all

    @property
    def inside(self) -> Path:
        """The program's folder, relative to the copy."""
        return self.folder.relative_to(self.top)

    def copy_to(self, place: Path, skip: tuple[str, ...]) -> None:
        """A fresh copy of the sources. Raises OSError."""
        (place / self.inside).mkdir(parents=True, exist_ok=True)
        if self.alone is None:
            copy_sources(self.folder, place / self.inside, skip=skip)
        for source in self.beside | (self.alone or frozenset()):
            target = place / source.relative_to(self.top)
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_file(source, target)


def lay_out(plan: BuildPlan) -> Layout:
    """Raises TooLarge when the build refers to more beside its folder than can be copied."""
    folder, limit = plan.folder, _limit(plan.folder)
    if not plan.whole_folder:
        files = frozenset().union(*(closure([folder / u.source]) for u in plan.units))
        beside = frozenset(f for f in files if not f.is_relative_to(folder) and f.is_relative_to(limit))
        return Layout(_top(folder, beside), folder, beside, frozenset(f for f in files if f.is_relative_to(folder)))
    beside = frozenset(f for f in _beside(plan, limit) if not f.is_relative_to(folder))
    return Layout(_top(folder, beside), folder, beside, None)


def _beside(plan: BuildPlan, limit: Path) -> set[Path]:
    folder = plan.folder
    own = code_files(folder)
    build_texts = {p: read_text(p) for p in own if p.name in _BUILD_FILES or p.suffix in (".cmake", ".mk")}
    build_texts[folder / "command"] = " ".join((*plan.command, *(a for u in plan.units for a in u.arguments)))
    found = {f for p in own if p.suffix != ".txt" for f in closure([p]) if not f.is_relative_to(folder)}
    seen: set[Path] = set()
    ahead = references_outside(folder, build_texts)
    while ahead:
        goal = ahead.pop()
        if goal in seen or not goal.is_relative_to(limit):
            continue
        seen.add(goal)
        if goal.is_file():
            found |= closure([goal])
        elif not folder.is_relative_to(goal):
            files = code_files(goal)
            found |= set(files) | closure(f for f in files if f.suffix != ".txt")
            texts = {f: read_text(f) for f in files if f.name in _BUILD_FILES or f.suffix in (".cmake", ".mk")}
            ahead |= references_outside(goal, texts)
        else:  # an ancestor, given as a place for includes: what is included from there
            found |= _included_below(goal, own)
    if (too_many := len(found)) > 8000:
        raise TooLarge(
            f"the build of {folder} refers to {too_many} files outside of it; name the folder that holds the whole program"
        )
    return {f for f in found if f.is_relative_to(limit)}


def _included_below(root: Path, sources: list[Path]) -> set[Path]:
    found: set[Path] = set()
    for source in sources:
        for line in read_text(source).splitlines():
            words = line.replace("#", " ").split()
            if words[:1] == ["include"] and len(words) > 1 and words[1][:1] in '"<':
                path = root / words[1].strip('"<>')
                if path.is_file():
                    found |= closure([path])
    return found


def _limit(folder: Path) -> Path:
    """The folder above which nothing is taken: the repository's, else a few levels up."""
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return parent
    parents = [p for p in folder.parents if p != Path(p.anchor)]
    return parents[min(LEVELS_UP, len(parents)) - 1] if parents else folder


def _top(folder: Path, beside: frozenset[Path]) -> Path:
    return Path(os.path.commonpath([folder, *(p.parent for p in beside)]))
