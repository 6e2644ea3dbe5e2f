"""`check --changed-since REV`: which lines are new since a git revision, in every repository and submodule that the files lie in."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.git import GitRefused, git
from stitchcuda.server.report.rows import Place, Row

_HUNK = re.compile(rb"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
# A line taken away that can have waited, ordered or led elsewhere: a call, a condition, a way out. A declaration, a sum and a comment cannot.
_MATTERS = re.compile(
    rb"^-[ \t]*+(?:#[ \t]*(?:if|el|end|def|undef|incl)|(?!//|#)[^\n]*(?:[(<]|\b(?:return|break|continue|goto|else|throw|try|with|await|yield)\b))",
    re.MULTILINE,
)
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--ignore-submodules=all")


@dataclass(frozen=True, slots=True)
class Changes:
    """Of one file, 1-based: lines that are new or changed, and lines behind which something is gone that ran."""

    all: bool = False
    lines: frozenset[int] = frozenset()
    gone: tuple[int, ...] = ()

    def touch(self, place: Place) -> bool:
        return self.all or any(line in self.lines for line in range(place.line, place.end_line + 1))

    def gone_between(self, one: int, other: int) -> bool:
        """Whether a line was taken away between two lines: a wait that is no longer there leaves no line of its own."""
        first, last = min(one, other), max(one, other)
        at = bisect_left(self.gone, first)
        return at < len(self.gone) and self.gone[at] < last


class ChangedSince:
    """Answers for findings. Repositories are asked when a file of theirs comes up. Raises CannotRun."""

    def __init__(self, revision: str, paths: Sequence[str]) -> None:
        self._option = f"--changed-since {revision}"
        self._revision = revision
        if revision.startswith("-") or not revision.strip():
            raise CannotRun(f"{self._option}: not a revision")
        self._roots: dict[Path, Path | None] = {}
        self._repositories: dict[Path, _Repository] = {}
        self._named: set[Path] = set()  # the repositories that the revision is one of
        for path in paths:
            if not os.path.exists(path):
                continue  # told by others
            real = Path(os.path.realpath(path))
            root = self._root(real if real.is_dir() else real.parent)
            if root is None:
                raise CannotRun(f"{self._option}: {path} lies in no git repository")
            self._named.add(root)
        for root in sorted(self._named):
            self._repository(root)  # what is wrong with the revision is told whether or not anything is found

    def touches(self, row: Row) -> bool:
        """Whether a finding or one of the places that it names stands on a changed line, or something is gone between them."""
        here = self._changes(row.place.path)
        if here.touch(row.place):
            return True
        for related in row.related:
            if self._changes(related.place.path).touch(related.place):
                return True
            if related.place.path == row.place.path and here.gone_between(row.place.line, related.place.line):
                return True
        return False

    def _changes(self, path: str) -> Changes:
        real = Path(os.path.realpath(path))
        root = self._root(real.parent)
        return Changes() if root is None else self._repository(root).changes(real.relative_to(root).as_posix())

    def _root(self, folder: Path) -> Path | None:
        """The work tree around a folder: the nearest folder with a `.git`."""
        if folder not in self._roots:
            if (folder / ".git").exists():
                self._roots[folder] = folder
            else:
                self._roots[folder] = self._root(folder.parent) if folder.parent != folder else None
        return self._roots[folder]

    def _repository(self, root: Path) -> _Repository:
        if root not in self._repositories:
            commit = self._commit(root)
            self._repositories[root] = _Repository(root, commit, self._option)
        return self._repositories[root]

    def _commit(self, root: Path) -> str | None:
        """What a work tree is compared with; None when all of it is new. A submodule is compared with the commit that the
        repository around it had at the revision."""
        if root in self._named:
            return self._resolved(root, self._revision)
        around = self._ask(root, "rev-parse", "--show-superproject-working-tree").strip()
        if not around:
            return self._resolved(root, self._revision)
        outer = Path(os.path.realpath(os.fsdecode(around)))
        before = self._repository(outer).commit
        if before is None:
            return None
        inside = os.path.relpath(root, outer).replace(os.sep, "/")
        entry = self._ask(outer, "ls-tree", "-z", before, "--", inside).split()
        if len(entry) < 3 or entry[1] != b"commit":
            return None  # no submodule at that time
        return self._resolved(root, entry[2].decode())

    def _resolved(self, root: Path, revision: str) -> str | None:
        self._ask(root, "rev-parse", "--git-dir")  # says why when git does not want this repository
        try:
            found = self._ask(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        except GitRefused:
            if not self._ask(root, "rev-list", "--max-count=1", "--all").strip():
                if revision == "HEAD":
                    return None  # before the first commit everything is new
                raise CannotRun(f"{self._option}: {root} has no commits yet") from None
            hint = ""
            if self._ask(root, "rev-parse", "--is-shallow-repository").strip() == b"true":
                hint = "; the clone is shallow, `git fetch --unshallow` brings the older commits"
            raise CannotRun(f"{self._option}: no commit {revision} in {root}{hint}") from None
        return found.decode().strip()

    def _ask(self, root: Path, *words: str) -> bytes:
        return git(root, *words, option=self._option)


@dataclass
class _Repository:
    """One work tree and the commit that it is compared with."""

    root: Path
    commit: str | None
    option: str
    _known: dict[str, Changes] = field(default_factory=dict)
    _listed: dict[str, tuple[str, str]] | None = None  # changed path -> status and old path
    _tracked: frozenset[str] = frozenset()

    def changes(self, path: str) -> Changes:
        """Of a file, by its path below the root."""
        if self.commit is None:
            return Changes(all=True)
        if self._listed is None:
            self._list()
        if path not in self._known:
            self._known[path] = self._look(path)
        return self._known[path]

    def _list(self) -> None:
        assert self.commit is not None
        words = os.fsdecode(git(self.root, *_DIFF, "--name-status", "-z", self.commit, "--", option=self.option))
        fields = iter(words.split("\0"))
        self._listed = {}
        for status in fields:
            if not status:
                break
            old = next(fields)
            new = next(fields) if status[0] in "RC" else old
            self._listed[new] = (status[0], old)
        tracked = os.fsdecode(git(self.root, "ls-files", "-z", option=self.option))
        self._tracked = frozenset(tracked.split("\0"))

    def _look(self, path: str) -> Changes:
        assert self.commit is not None and self._listed is not None
        if path not in self._tracked:
            return Changes(all=True)
        if path not in self._listed:
            return Changes()
        status, old = self._listed[path]
        if status not in "MRC":
            return Changes(all=True)
        names = dict.fromkeys((old, path))
        patch = git(self.root, *_DIFF, "--unified=0", "--text", self.commit, "--", *names, option=self.option)
        return _hunks(_of_file(patch, status, old, path))


def _of_file(patch: bytes, status: str, old: str, new: str) -> bytes:
    """Of a patch over a copy and its origin, the part about the copy."""
    parts = re.split(rb"^(?=diff --git )", patch, flags=re.MULTILINE)
    if status == "M" or len(parts) <= 2:
        return patch
    word = b"rename to " if status == "R" else b"copy to "
    return next((part for part in parts if re.search(rb"^" + word, part, re.MULTILINE)), patch)


def _hunks(patch: bytes) -> Changes:
    lines: set[int] = set()
    gone: list[int] = []
    end = len(patch)
    for match in reversed(list(_HUNK.finditer(patch))):
        start, put = int(match[1]), int(match[2] or 1)
        lines.update(range(start, start + put))
        if _MATTERS.search(patch, match.end(), end):
            gone.append(start if put == 0 else start - 1)
        end = match.start()
    return Changes(False, frozenset(lines), tuple(sorted(gone)))
