"""Files of a version that the analysis does not read: what is proved of the sources says nothing about them."""

from __future__ import annotations

import re

from stitchcuda.analysis.index.index import Analysis
from stitchcuda.gpu_validate.version import Version

# What neither a build nor a run reads, as a rule, and the project file, which is read from the original alone.
_DOCUMENT = re.compile(
    r"(?:.*/)?(?:[^/]+\.(?:md|rst|adoc|pdf|png|jpe?g|svg)|LICEN[CS]E\S*|COPYING|AUTHORS|NOTICE|\.git(?:ignore|attributes)|"
    r"\.clang-(?:format|tidy)|\.editorconfig|stitchcuda\.toml)",
    re.IGNORECASE,
)


def unread_changes(baseline: Version, candidate: Version, analysis: Analysis) -> tuple[str, ...]:
    """Files that differ between two versions of one tree and that the candidate's analysis has not read, such as build files."""
    changed = []
    for path in sorted({*baseline.texts, *candidate.texts}):
        if path in analysis.sources or _DOCUMENT.fullmatch(path):
            continue
        if _text(baseline, path) != _text(candidate, path):
            changed.append(path)
    return tuple(changed)


def _text(version: Version, path: str) -> bytes | None:
    try:
        return version.read(path)
    except OSError:
        return None
