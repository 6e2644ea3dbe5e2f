"""A version of a program: the user's tree, which is never written, and the texts that replace files in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Version:
    """`root` is a folder, or a single source file. `texts` are files to replace or add, by path relative to the folder
    (to the file's folder for a single file), with forward slashes."""

    root: Path
    texts: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.root if self.root.is_dir() else self.root.parent

    def read(self, path: str) -> bytes:
        """The text of one file in this version. Raises OSError."""
        text = self.texts.get(path)
        return (self.folder / path).read_bytes() if text is None else text

    def with_texts(self, texts: Mapping[str, bytes]) -> Version:
        """This version with more files replaced."""
        return Version(self.root, {**self.texts, **texts})

    @property
    def digest(self) -> str:
        """Names the replaced texts: equal for equal edits of one tree."""
        h = hashlib.blake2b(digest_size=8)
        for path, text in sorted(self.texts.items()):
            h.update(path.encode(errors="surrogateescape") + b"\0" + len(text).to_bytes(8, "little") + text)
        return h.hexdigest()
