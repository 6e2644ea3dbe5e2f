"""What of a client's message can be understood. One capability of a newer protocol, or one odd diagnostic of another server, must not
cost the whole message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_SNAKE = re.compile(r"_([a-z])")
ROUNDS = 8  # each leaves out what the one before made incomplete

Path = tuple[str | int, ...]


def leave_out(message: dict[str, Any], error: BaseException) -> list[Path]:
    """Takes out of `message` what `error` (cattrs', of structuring it) says cannot be read; returns what that was. Nothing when a member is
    at fault without which the message says nothing."""
    paths = sorted(set(_faults(error, ())), key=lambda path: tuple(map(str, path)))
    gone = [there for path in paths if (there := _there(message, path)) is not None]
    if len(gone) != len(paths):
        return []
    # From the end, for the places of a list to stay what they are; what holds another that goes takes that along.
    for path in sorted(set(gone), key=lambda path: [(isinstance(p, int), p) for p in path], reverse=True):
        holder: Any = message
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
    return gone


def _faults(error: BaseException, path: Path) -> Iterator[Path]:
    for note in getattr(error, "__notes__", ()):
        step = getattr(note, "name", None)
        if isinstance(step, str):
            path = (*path, _SNAKE.sub(lambda found: found[1].upper(), step))
        elif isinstance(getattr(note, "index", None), int):
            path = (*path, note.index)
    inner = getattr(error, "exceptions", None)
    if inner is None:
        yield path
    for each in inner or ():
        yield from _faults(each, path)


def _there(message: Any, path: Path) -> Path | None:
    """The innermost member on the way of a path that is there; None when that is all of the parameters."""
    found: Path = ()
    for step in path:
        inside = isinstance(message, dict) and step in message
        if not inside and not (isinstance(message, list) and isinstance(step, int) and step < len(message)):
            break
        message, found = message[step], (*found, step)
    return found if len(found) > 1 and found[0] == "params" else None
