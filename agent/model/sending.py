"""What of a program may be sent to a model: never what `never_send` names, what lies outside of the program, binary and huge files;
what is left out is told."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.analysis.contract.globs import matches

LARGEST_FILE = 512 * 1024  # bytes

# Files that hold secrets, wherever they lie; nobody has to name them.
ALWAYS = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.asc", "*.gpg",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".pypirc", ".npmrc", ".htpasswd",
    ".git-credentials", ".ssh/", ".aws/", ".gnupg/", ".docker/", ".kube/", ".git/",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NeverSend:
    """Patterns of files, as `[check] exclude` has them, below `folder`; None: of every program of this user."""

    patterns: tuple[str, ...]
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    path: str
    why: str


@dataclass(frozen=True)
class Sendable:
    """`texts` by relative path, as they may be sent but for secrets inside of them."""

    texts: Mapping[str, bytes]
    left_out: tuple[LeftOut, ...] = ()


def sendable(root: Path, texts: Mapping[str, bytes], rules: Sequence[NeverSend]) -> Sendable:
    """`texts` are of the program at `root` (a folder, or one source file) by path relative to its folder. Links are followed: a
    file is left out also when a pattern names what it links to."""
    folder = root if root.is_dir() or not root.suffix else root.parent
    kept: dict[str, bytes] = {}
    left_out = []
    for path, content in texts.items():
        why = _why_not(folder, path, content, rules)
        if why:
            left_out.append(LeftOut(path, why))
        else:
            kept[path] = content
    return Sendable(kept, tuple(left_out))


def _why_not(folder: Path, path: str, content: bytes, rules: Sequence[NeverSend]) -> str:
    places = _places(folder, path)
    pattern = next((p for place in places for p in _naming(place, folder, rules)), None)
    if pattern is not None:
        return f"never sent: {pattern}"
    if not _inside(places[-1], folder):
        return "it lies outside of the program's folder"
    if len(content) > LARGEST_FILE:
        return f"larger than {LARGEST_FILE // 1024} KiB"
    if b"\0" in content:
        return "binary"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return "no UTF-8 text"
    return ""


def _places(folder: Path, path: str) -> list[Path]:
    """Where a file lies as it is named, and where it lies in truth."""
    named = Path(os.path.abspath(folder / path))
    return list(dict.fromkeys((named, Path(os.path.realpath(named)))))


def _inside(place: Path, folder: Path) -> bool:
    return place.is_relative_to(os.path.realpath(folder)) or place.is_relative_to(os.path.abspath(folder))


def _naming(place: Path, root: Path, rules: Sequence[NeverSend]) -> list[str]:
    found = [p for p in ALWAYS if _matches(p, _below(place, root))]
    for rule in rules:
        below = _below(place, rule.folder or root)
        found += [p for p in rule.patterns if _matches(p, below)]
    return found


def _below(place: Path, folder: Path) -> str:
    """Relative to the folder; as a whole, without the root, where it lies elsewhere."""
    for base in (Path(os.path.abspath(folder)), Path(os.path.realpath(folder))):
        if place.is_relative_to(base):
            return place.relative_to(base).as_posix()
    return place.relative_to(place.anchor).as_posix()


def _matches(pattern: str, path: str) -> bool:
    """Letters of both cases count as one: some file systems take them so, and what must not be sent must not slip through."""
    return matches(pattern.lower(), path.lower())
