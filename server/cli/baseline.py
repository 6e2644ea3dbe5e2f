"""A file of known findings: `check --baseline` reports only what is new."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.writing import replace_file
from stitchcuda.server.report.rows import Row


def load(path: str) -> frozenset[str]:
    """The fingerprints of a baseline file; raises CannotRun when it cannot be used."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        if document["schema"] != 1:
            raise CannotRun(
                f"{path}: baseline schema {document['schema']!r} is not known; write it again with --update-baseline"
            )
        return frozenset(str(f["fingerprint"]) for f in document["findings"])
    except FileNotFoundError:
        raise CannotRun(f"{path}: no such baseline; create it with --update-baseline") from None
    except OSError as error:
        raise CannotRun(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CannotRun(f"{path}: not a baseline file; write it again with --update-baseline") from None


def save(path: str, rows: Sequence[Row]) -> None:
    """Replaces the baseline by these findings."""
    findings = [
        {"fingerprint": r.fingerprint, "code": r.code, "path": r.place.path.replace("\\", "/"), "message": r.message}
        for r in rows
    ]
    text = json.dumps({"schema": 1, "findings": findings}, indent=1, ensure_ascii=False) + "\n"
    replace_file(path, text.encode(errors="backslashreplace"))  # a name that is not UTF-8 becomes \udc.., as in JSON
