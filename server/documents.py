"""The document store: the one place of the server that mutates text.

Everything else takes `Document` snapshots. The store also remembers the byte edits between versions, so that a fact
computed for an older version can be carried to the current one or dropped when an edit touched it.
"""

from __future__ import annotations

import itertools
import logging
import os
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from stitchcuda.analysis.syntax.text import ByteEdit, Change, Document, Encoding

log = logging.getLogger(__name__)

_HISTORY = 256  # versions whose edits are kept: more than any analysis can lag behind
_SUFFIX_OF_LANGUAGE = {
    "cuda": ".cu",
    "cuda-cpp": ".cu",
    "cpp": ".cpp",
    "c": ".c",
    "python": ".py",
}
_SUFFIXES = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".py")
MAX_DISK_FILE = 8 * 1024 * 1024


@dataclass
class _Open:
    document: Document
    # (revision before, edits), oldest first
    history: deque[tuple[int, tuple[ByteEdit, ...]]] = field(default_factory=lambda: deque(maxlen=_HISTORY))


class Documents:
    """Open documents by the client's URI, and files of the disk read on demand."""

    def __init__(self, encoding: Encoding = "utf-16"):
        self.encoding: Encoding = encoding  # negotiated at initialize, fixed from then on
        self._open: dict[str, _Open] = {}
        self._revisions = itertools.count(1)
        self._by_path: dict[str, str] = {}
        self._disk: dict[str, tuple[tuple[int, int], Document]] = {}

    def open(self, uri: str, language: str, version: int, text: str) -> Document:
        document = self._numbered(Document.of(uri, path_of(uri, language), version, text, language))
        self._open[uri] = _Open(document)
        self._by_path[document.path] = uri
        return document

    def change(self, uri: str, version: int, changes: Sequence[Change]) -> Document | None:
        """Applies a client's changes. None when they do not fit what the store knows; the reason is logged."""
        entry = self._open.get(uri)
        if entry is None:
            log.warning("ignored a change of a document that is not open")
            return None
        if version < entry.document.version:
            log.warning("ignored a change to version %d of a document at version %d", version, entry.document.version)
            return None
        document, edits = entry.document.changed(changes, version, self.encoding)
        entry.history.append((entry.document.revision, edits))
        entry.document = self._numbered(document)
        return entry.document

    def saved(self, uri: str, text: bytes | None) -> None:
        """The file holds `text` now. Editors do not tell that line ends became others (`:set fileformat`, "Change End of Line Sequence"), and
        some not whether the last line has one: then it is what was saved that counts."""
        entry = self._open.get(uri)
        if entry is None or text is None or text == entry.document.encoded:
            return
        if _without_line_ends(text) == _without_line_ends(entry.document.encoded):
            before = entry.document
            entry.history.append((before.revision, (ByteEdit(0, len(before.encoded), len(text)),)))
            same = Document(before.uri, before.path, before.version, text, before.language)
            entry.document = self._numbered(same)

    def _numbered(self, document: Document) -> Document:
        return replace(document, revision=next(self._revisions))

    def close(self, uri: str) -> Document | None:
        entry = self._open.pop(uri, None)
        if entry is None:
            log.warning("ignored the closing of a document that is not open")
            return None
        path = entry.document.path
        if self._by_path.get(path) == uri:
            # Another URI may mean the same file (%2B and +): its document is the file's from now on.
            self._by_path.pop(path)
            for other, left in self._open.items():
                if left.document.path == path:
                    self._by_path[path] = other
        return entry.document

    def get(self, uri: str) -> Document | None:
        entry = self._open.get(uri)
        return entry.document if entry is not None else None

    def at(self, path: str) -> Document | None:
        """The open document of a path."""
        uri = self._by_path.get(path)
        return self.get(uri) if uri is not None else None

    def is_of_its_file(self, document: Document) -> bool:
        """Whether a document is the one of its path: of two URIs that mean one file, the one that was opened last is."""
        return self._by_path.get(document.path) == document.uri

    def of_files(self) -> list[Document]:
        """One document for each path."""
        return [entry.document for uri, entry in self._open.items() if self._by_path[entry.document.path] == uri]

    def all(self) -> list[Document]:
        return [entry.document for entry in self._open.values()]

    def since(self, uri: str, revision: int) -> tuple[ByteEdit, ...] | None:
        """The edits that led from a revision to the current text; None when it is of another time that the document was
        open, or too long ago."""
        entry = self._open.get(uri)
        if entry is None:
            return None
        if revision == entry.document.revision:
            return ()
        later: list[tuple[ByteEdit, ...]] = []
        for before, edits in reversed(entry.history):
            later.append(edits)
            if before == revision:
                return tuple(edit for edits in reversed(later) for edit in edits)
        return None

    def snapshot(self, path: str) -> Document | None:
        """The text behind a path: the open document, else the file. None when there is neither."""
        document = self.at(path)
        if document is not None:
            return document
        try:
            status = os.stat(path)
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._disk.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            if status.st_size > MAX_DISK_FILE or not stat.S_ISREG(status.st_mode):
                return None
            text = Path(path).read_bytes()
        except (OSError, ValueError):
            return None
        document = Document(uri_of(path), path, 0, text.removeprefix(b"\xef\xbb\xbf"))
        if len(self._disk) > 64:
            self._disk.clear()
        self._disk[path] = (stamp, document)
        return document


def _without_line_ends(text: bytes) -> list[bytes]:
    """The lines; equal for texts that differ in their line ends alone, that of the last line included."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removesuffix(b"\n").split(b"\n")


def path_of(uri: str, language: str = "") -> str:
    """The path of a URI: that of the file where it can be one, as others name it too; else the URI itself, with a suffix that tells the
    language. Of a file only Python without a suffix gets one."""
    path = _file_of(uri)
    is_file = path is not None
    if path is None:
        path = uri.encode(errors="backslashreplace").decode()
    if PurePosixPath(path).suffix.lower() not in _SUFFIXES and (not is_file or language == "python"):
        path += _SUFFIX_OF_LANGUAGE.get(language, "")
    return path


def _file_of(uri: str) -> str | None:
    """The path of a `file:` URI; None of others, and where no file can have such a path: half a character or a NUL is in none."""
    try:
        parts = urlsplit(uri)
        if parts.scheme != "file":
            return None
        path = unquote(parts.path, errors="surrogateescape")
        if parts.netloc not in ("", "localhost"):
            path = f"//{unquote(parts.netloc)}{path}"
        elif os.name == "nt" and len(path) > 2 and path[0] == "/" and path[2] == ":":
            path = path[1].lower() + path[2:]  # file:///C:/x and file:///c%3A/x are one file
        return os.path.normpath(path) if b"\0" not in os.fsencode(path) else None
    except ValueError:
        return None


def uri_of(path: str) -> str:
    """A `file:` URI for a path that the client has not named itself."""
    if urlsplit(path).scheme not in ("", "file") and not Path(path).is_absolute():
        return path
    return Path(path).absolute().as_uri()
