"""All safe fixes of one file, made as `check --fix` makes them, on the text that the editor has. Runs in the analysis process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stitchcuda.agent.invention.edits_between import edits_between
from stitchcuda.server.cli import autofix
from stitchcuda.server.report.codes import DEFAULT_CODES
from stitchcuda.server.report.rows import Row
from stitchcuda.server.settings import Settings, lets_through


def fix_all(
    index: Any, texts: Mapping[str, bytes], path: str, settings: Settings, check: Callable[[], None]
) -> tuple[tuple[int, int, str], ...]:
    """Edits `(start, end, text)` of the file `path`, of which `index` holds `texts`, as it does again afterwards. `check` is called now
    and then, and may raise."""

    def wanted(row: Row) -> bool:
        check()
        return lets_through(settings, row.code, row.group, row.confidence, row.code in DEFAULT_CODES)

    try:
        done = autofix.fix(index, dict(texts), wanted, lambda changed: changed == path)
    finally:
        index.put(path, texts[path])
    edits = edits_between({path: texts[path]}, done.texts)
    return tuple((edit.start, edit.end, edit.text.decode()) for edit in edits)
