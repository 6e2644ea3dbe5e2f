"""Writes docs/rewrites.md from the docstrings of the transforms: one section a rewrite.

usage: python scripts/rewrite_docs.py [--check]

`--check` writes nothing and exits with 1 when the page is stale."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from stitchcuda.agent.transform_names import BY_ID
from stitchcuda.agent.transforms import TRANSFORMS

PAGE = Path(__file__).parents[1] / "docs" / "rewrites.md"
_HEAD = """\
# Rewrites

What `stitchcuda stitch` tries with the rules, in this order, again and again until none has anything left. `--only NAME` takes some of them, `--within F` what they change in one function; in an editor each is a
[code action](actions.md#refactorrewritestitchcudatransform). The texts are those of the modules in `agent/transforms/`.
"""


def page() -> str:
    parts = [_HEAD]
    for transform in TRANSFORMS:
        said = inspect.cleandoc(inspect.getdoc(transform) or "")
        # Headings of a docstring stand below the one of its section.
        body = re.sub(r"^(#+) ", r"#\1 ", said, flags=re.MULTILINE)
        parts.append(f"## `{transform.ID}`\n\n*{BY_ID[transform.ID].title}.* {body}\n")
    return "\n".join(parts)


def stale() -> bool:
    return not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page()


def main(arguments: list[str]) -> int:
    if not stale():
        return 0
    print(f"docs/{PAGE.name} {'is stale: run scripts/rewrite_docs.py' if arguments else 'is brought up to date'}")
    if arguments == ["--check"]:
        return 1
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
