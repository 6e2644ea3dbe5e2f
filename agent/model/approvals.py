"""What the user has agreed to: which endpoint gets which files of a workspace, and which commands of a workspace file are executed.

`needed` decides, from values alone, what must be asked; `record` keeps a yes in the user's state folder, one file an answer, never
in the workspace: whoever writes the workspace must not be able to agree in the user's place. Any change of the address, the
model, the command or the key's going along is another question; new files are asked about by themselves.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from stitchcuda.agent.model.endpoint import NO_KEY, Endpoint, Origin
from stitchcuda.agent.user_folders import state_folder

SCHEMA = 1
_SHOWN_FILES, _SHOWN_CHARACTERS = 12, 400  # of the files in a question: what asks it may show only so much
_LARGEST = 1 << 22  # bytes of a kept answer


class Kind(StrEnum):
    SEND = "send"  # the texts of `files` go to the endpoint `subject`
    EXECUTE = "execute"  # the command `subject`, from a workspace file, is executed


@dataclass(frozen=True, slots=True)
class Question:
    """`root` is the workspace's folder. `detail` is what else the yes is for: the model, and whether a key goes along, or the file
    that the command stands in. `text` is what the user is asked, whole sentences."""

    kind: Kind
    root: str
    subject: str
    detail: str
    files: tuple[str, ...] = ()
    text: str = ""

    @property
    def digest(self) -> str:
        """Names the answer: all but the files."""
        parts = (self.kind.value, self.root, self.subject, self.detail)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Command:
    """A command that would be executed, and the workspace file that it stands in; "" for what stitchcuda found by itself or the
    user typed, which nobody is asked about."""

    text: str
    file: str = ""


class ApprovalsError(Exception):
    """An answer cannot be kept. The text is for the user."""


def needed(
    root: Path,
    endpoint: Endpoint | None,
    files: Iterable[str] = (),
    commands: Sequence[Command] = (),
    *,
    key: str = NO_KEY,
    approved: Iterable[Question],
) -> tuple[Question, ...]:
    """What must be asked before `files` (relative paths) go to the endpoint and the commands are executed; empty: nothing.
    `approved` is what the user said yes to (`Approvals.all`)."""
    known = {q.digest: q for q in approved}
    asked = []
    if endpoint is not None:
        question = _send(root, endpoint, files, key != NO_KEY)
        before = known.get(question.digest)
        new = tuple(f for f in question.files if before is None or f not in before.files)
        if before is None or new:
            asked.append(_send(root, endpoint, new, key != NO_KEY, more=before is not None))
    for command in commands:
        if command.file:
            question = _execute(root, command)
            if question.digest not in known and question not in asked:
                asked.append(question)
    return tuple(asked)


def _send(root: Path, endpoint: Endpoint, files: Iterable[str], with_key: bool, more: bool = False) -> Question:
    files = tuple(sorted(set(files)))
    detail = f"{endpoint.model or 'its only model'}, {'with a key' if with_key else 'without a key'}"
    shown = list(map(visible, files[:_SHOWN_FILES]))
    while len(shown) > 1 and len(", ".join(shown)) > _SHOWN_CHARACTERS:
        shown.pop()
    listed = ", ".join(shown) + (f" and {len(files) - len(shown)} more" if len(files) > len(shown) else "")
    who = f"the model {visible(endpoint.model)}" if endpoint.model else "the model"
    text = f"Send {'also ' if more else ''}{_counted(files)} to {who} at {_address(endpoint.base_url)}? {listed}"
    if files:
        text += "\nKeys, tokens and passwords that are found in them are taken out first."
    if endpoint.origin is Origin.WORKSPACE:
        text += f"\nThe address stands in {visible(endpoint.said_by)}: it is the workspace's, not yours."
    if with_key:
        text += "\nYour key goes along."
    if not endpoint.is_encrypted and not endpoint.is_local:
        text += "\nThe connection is not encrypted: others on the way can read " + (
            "the key and the files." if with_key else "the files."
        )
    return Question(Kind.SEND, _place(root), endpoint.base_url, detail, files, text)


def _counted(files: Sequence[str]) -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}" if files else "what is asked (no files)"


def _execute(root: Path, command: Command) -> Question:
    text = f"Execute this command on your machine? It stands in {visible(command.file)}, a file of the workspace:\n{visible(command.text)}"
    return Question(Kind.EXECUTE, _place(root), command.text, command.file, (), text)


def _place(root: Path) -> str:
    """The folder of a workspace, or of a program that is one file."""
    return os.path.realpath(root.parent if root.is_file() else root)


def _address(url: str) -> str:
    """Letters of other alphabets look like Latin ones and lead elsewhere."""
    return ascii(url)[1:-1]


# Letters and marks that have no ink although they count as printable: fillers, the blank of Braille, selectors of variants.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def visible(text: str) -> str:
    """Without what a terminal or a line end could hide the rest behind."""
    return "".join(c if c.isprintable() and not _BLANK.match(c) else ascii(c)[1:-1] for c in text)


class Approvals:
    """What the user said yes to, in `folder` (the user's state folder)."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (folder or state_folder()) / "approvals"

    def all(self, root: Path) -> tuple[Question, ...]:
        """All that is agreed to for the workspace at `root`. What cannot be read, or does not lie under its own name, does not
        count."""
        if self._inside(_place(root)):
            return ()
        return tuple(q for q in self._read() if q.root == _place(root))

    def record(self, question: Question) -> None:
        """Keeps a yes; files are added to those agreed to before. Raises ApprovalsError."""
        if self._inside(question.root):
            raise ApprovalsError(
                f"{self._folder}: lies in the workspace, where others could agree in your place; "
                "let XDG_STATE_HOME name a folder outside of it"
            )
        before = next((q for q in self.all(Path(question.root)) if q.digest == question.digest), None)
        files = tuple(sorted({*question.files, *(before.files if before is not None else ())}))
        value = question_to_value(replace(question, files=files))
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(value, file, indent=1)
            os.replace(name, self._file(question))
        except OSError as error:
            raise ApprovalsError(f"{self._folder}: your answer cannot be kept ({error.strerror})") from None

    def revoke(self, root: Path, kind: Kind | None = None) -> tuple[Question, ...]:
        """Takes back what was agreed to for a workspace, or only one kind of it; what that was. Raises ApprovalsError."""
        taken = tuple(q for q in self._read() if q.root == _place(root) and kind in (None, q.kind))
        for question in taken:
            try:
                self._file(question).unlink(missing_ok=True)
            except OSError as error:
                raise ApprovalsError(f"{self._folder}: cannot be changed ({error.strerror})") from None
        return taken

    def _inside(self, root: str) -> bool:
        return Path(os.path.realpath(self._folder)).is_relative_to(root)

    def _file(self, question: Question) -> Path:
        return self._folder / f"{question.digest}.json"

    def _read(self) -> Iterable[Question]:
        try:
            files = sorted(self._folder.glob("*.json"))
        except OSError:
            return
        for file in files:
            question = _question(file)
            if question is not None and file.stem == question.digest:
                yield question


def _question(file: Path) -> Question | None:
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return None
        return question_of_value(json.loads(file.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return None


def question_to_value(question: Question) -> dict[str, Any]:
    """For JSON, as answers are kept."""
    return {"schema": SCHEMA, **asdict(question), "files": list(question.files)}


def question_of_value(value: Any) -> Question | None:
    """None for what is none of this schema."""
    try:
        texts = [value[name] for name in ("root", "subject", "detail", "text")]
        files = value["files"]
        if value["schema"] != SCHEMA or not all(isinstance(t, str) for t in (*texts, *files)):
            return None
        return Question(Kind(value["kind"]), texts[0], texts[1], texts[2], tuple(files), texts[3])
    except (ValueError, KeyError, TypeError):
        return None
