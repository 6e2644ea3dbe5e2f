"""The journal: one folder a run, in the user's cache folder, from which the run can be read and its versions made again
(docs/runs.md).

Every file is written to the side and renamed, so that a reader or a crash sees a whole file or none; `events.jsonl` is appended
to, and a torn last line is not read. What later files rest on is written before them: texts, then units, then versions. A run
without `result.json` did not end.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stitchcuda.agent import unit_json, versions
from stitchcuda.agent.outcome import Kind
from stitchcuda.agent.transforms.transform import Refusal
from stitchcuda.agent.units import Unit
from stitchcuda.analysis.contract.jsonread import Reader, SchemaError, text
from stitchcuda.gpu_validate.cache_folder import cache_folder
from stitchcuda.gpu_validate.verdict_json import verdict_from_json
from stitchcuda.gpu_validate.version import Version

SCHEMA = 1
INVENTION = "invention.json"
TRACE = "trace.json"
_NAME = re.compile(r"\d{8}-\d{6}-\d{6}")
_DIGEST = re.compile(r"[0-9a-f]{16,64}")  # they name files


class JournalError(Exception):
    """A run cannot be found, read or written. The text is for the user."""


@dataclass(frozen=True, slots=True)
class Made:
    """A version that the run made: its units, its digest (`Version.digest`), and the digest of every file it replaces."""

    units: tuple[str, ...]
    digest: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Applied:
    """What `runs apply` wrote into the tree: the chosen units, and the digest of every file written."""

    units: tuple[str, ...]
    files: Mapping[str, str]


@dataclass(frozen=True)
class Record:
    """A run as read from its folder. `root` is the absolute path of the program; `result` is None when the run did not end."""

    folder: Path
    root: Path
    started: str
    contract: Mapping[str, Any] | None = None
    files: Mapping[str, str] = field(default_factory=dict)  # digest of every source file of the original
    units: tuple[Unit, ...] = ()
    made: tuple[Made, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    result: Mapping[str, Any] | None = None
    applied: tuple[Applied, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def best(self) -> tuple[str, ...]:
        """The units of the best version, empty when there is none."""
        return tuple(self.result["best"]["units"]) if self.result is not None and self.result.get("best") else ()


def runs_folder() -> Path:
    return cache_folder() / "runs"


def text_digest(content: bytes) -> str:
    """Names a file's content: 32 hex digits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


# ------------------------------------------------------------------------------------------------------------- writing


class Run:
    """A run's folder while it is written. Every method raises JournalError when the disk does not take it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._steps = 0

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """One JSON object, whole or not at all."""
        content = json.dumps({"schema": SCHEMA, **value}, indent=1).encode()
        write_whole(self.folder / name, content)

    def event(self, kind: str, **data: Any) -> None:
        """One step of the loop, appended."""
        self._steps += 1
        moment = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"step": self._steps, "time": moment, "kind": kind, **data}) + "\n"
        try:
            with open(self.folder / "events.jsonl", "a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise JournalError(_not_written(self.folder, error)) from None

    def baseline(self, files: Mapping[str, bytes]) -> None:
        """The digest of every source file of the original."""
        self.write("baseline.json", {"files": {path: text_digest(content) for path, content in sorted(files.items())}})

    def units(self, base: Mapping[str, bytes], units: Sequence[Unit]) -> None:
        """All units so far, in sequence, and before them the original texts of the files that they edit."""
        for path in sorted({e.path for u in units for e in u.edits} & set(base)):
            write_whole(_text_file(self.folder, text_digest(base[path])), base[path])
        self.write("units.json", {"units": [unit_json.unit_to_json(u) for u in units]})

    def trace(self, trace: Mapping[str, Any]) -> None:
        """How the original ran, as `gpu_validate/trace/store.py` writes it."""
        write_whole(self.folder / TRACE, json.dumps(trace, separators=(",", ":")).encode())

    def texts(self, texts: Mapping[str, bytes]) -> None:
        """Original texts beside those of edited files: what a model was told is made again from them."""
        for content in texts.values():
            write_whole(_text_file(self.folder, text_digest(content)), content)

    def made(self, made: Sequence[Made]) -> None:
        """All versions that were judged so far."""
        rows = [{"units": list(m.units), "digest": m.digest, "files": dict(m.files)} for m in made]
        self.write("versions.json", {"versions": rows})

    def verdict(self, digest: str, verdict: Mapping[str, Any]) -> None:
        write_whole(self.folder / "verdicts" / f"{digest}.json", json.dumps(verdict, indent=1).encode())

    def refusals(self, refusals: Sequence[Refusal]) -> None:
        self.write("refusals.json", {"refused": unit_json.refusals_to_json(refusals)})

    def applied(self, applied: Sequence[Applied]) -> None:
        """What the tree may hold; written before the tree is."""
        self.write("applied.json", {"applied": [{"units": list(a.units), "files": dict(a.files)} for a in applied]})


def start(root: Path, *, stitchcuda: str, folder: Path | None = None) -> Run:
    """A new run about the program at `root`. Raises JournalError."""
    while True:
        moment = datetime.datetime.now(datetime.UTC)
        path = (folder or runs_folder()) / f"{moment:%Y%m%d-%H%M%S-%f}"
        try:
            path.mkdir(parents=True, mode=0o700)
            break
        except FileExistsError as error:
            if not path.is_dir():
                raise JournalError(_not_written(path, error)) from None
        except OSError as error:
            raise JournalError(_not_written(path, error)) from None
    run = Run(path)
    run.write(
        "run.json",
        {"root": str(root.absolute()), "started": moment.isoformat(timespec="seconds"), "stitchcuda": stitchcuda},
    )
    return run


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file to the side and renames it. Raises JournalError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise JournalError(_not_written(path, error)) from None


def _not_written(path: Path, error: OSError) -> str:
    return f"{path}: the run's record cannot be written ({error.strerror}); XDG_CACHE_HOME can name another folder"


def _text_file(folder: Path, digest: str) -> Path:
    return folder / "texts" / digest


# ------------------------------------------------------------------------------------------------------------- reading


def find(name: str | None, folder: Path | None = None) -> Record:
    """The run of that name (or the only one whose name starts or ends so), the newest without a name, or the run in the
    folder that is named. A whole name is always the run's; a part of one that is also a folder here is an error. Raises
    JournalError."""
    folder = folder or runs_folder()
    names = _names(folder)
    if name is None:
        if not names:
            raise JournalError(f"no run is kept in {folder}; `stitchcuda stitch` makes one")
        return read(folder / names[-1])
    if name in names:
        return read(folder / name)
    fitting = [n for n in names if name and (n.startswith(name) or n.endswith(name))]
    if (Path(name) / "run.json").is_file():
        if fitting:
            raise JournalError(
                f"{name}: a folder here is called so, and {', '.join(fitting)} fits, too; write "
                f"{os.path.join(os.curdir, name)} for the folder, or the whole name of the run"
            )
        return read(Path(name))
    if len(fitting) != 1:
        which = f"several runs fit: {', '.join(fitting)}" if fitting else f"no run of that name in {folder}"
        raise JournalError(f"{name}: {which}; `stitchcuda runs list` shows them")
    return read(folder / fitting[0])


def folders_about(root: Path, folder: Path | None = None) -> Iterator[Path]:
    """The folders of the runs about the program at `root`, the newest first."""
    folder = folder or runs_folder()
    for name in reversed(_names(folder)):
        try:
            head = _load(folder / name, "run.json") or {}
        except (OSError, ValueError, RecursionError):
            continue
        if head.get("root") == str(root.absolute()):
            yield folder / name


def read_all(folder: Path | None = None) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Every run that can be read, oldest first, and what is wrong with the others."""
    folder = folder or runs_folder()
    found, wrong = [], []
    for name in _names(folder):
        try:
            found.append(read(folder / name))
        except JournalError as error:
            wrong.append(str(error))
    return tuple(found), tuple(wrong)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(p.name for p in folder.iterdir() if _NAME.fullmatch(p.name) and (p / "run.json").is_file())
    except OSError:
        return []


def read(folder: Path) -> Record:
    """A run as far as it got. Raises JournalError when a file is not what was written."""
    at = ""
    try:
        at = "run.json"
        head = _load(folder, at) or {}
        reader = Reader(head, "", ("schema", "root", "started", "stitchcuda"))
        reader.schema(SCHEMA)
        root, started = Path(reader.text("root")), reader.text("started")
        at = "baseline.json"
        files = _texts((_load(folder, at) or {}).get("files", {}), "files")
        at = "units.json"
        units = unit_json.units_from_json(_rows(folder, at, "units"), "units")
        versions.check_sequence(units)
        at = "versions.json"
        made = tuple(_made(m, f"versions[{k}]") for k, m in enumerate(_rows(folder, at, "versions")))
        at = "refusals.json"
        rows = _rows(folder, at, "refused")
        refusals = tuple(unit_json.refusal_from_json(r, f"refused[{k}]") for k, r in enumerate(rows))
        at = "applied.json"
        rows = _rows(folder, at, "applied")
        applied = tuple(_applied(a, f"applied[{k}]") for k, a in enumerate(rows))
        at = "contract.json"
        contract = _load(folder, at)
        at = "result.json"
        result = _load(folder, at)
        if result is not None:
            _must_be_result(result)
    except (OSError, ValueError, RecursionError) as error:
        raise JournalError(f"{folder / at}: cannot be read ({_why(error)})") from None
    return Record(folder, root, started, contract, files, units, made, refusals, result, applied)


def verdict(record: Record, digest: str) -> Mapping[str, Any] | None:
    """What the hub said of the version with that digest, if it was judged. Raises JournalError."""
    at = f"verdicts/{digest}.json"
    try:
        return _load(record.folder, at)
    except (OSError, ValueError, RecursionError) as error:
        raise JournalError(f"{record.folder / at}: cannot be read ({_why(error)})") from None


def invention(record: Record) -> Mapping[str, Any] | None:
    """What a model was asked for and what was decided then, as `invention/record.py` reads it; None: no model was asked. Raises
    JournalError."""
    return object_in(record, INVENTION)


def object_in(record: Record, name: str) -> Mapping[str, Any] | None:
    """A JSON object that `Run.write` wrote, None when the run has none of that name. Raises JournalError."""
    try:
        return _load(record.folder, name)
    except (OSError, ValueError, RecursionError) as error:
        raise JournalError(f"{record.folder / name}: cannot be read ({_why(error)})") from None


def events(record: Record) -> tuple[Mapping[str, Any], ...]:
    """The steps of the loop; a line that a crash cut off is left out."""
    try:
        lines = _content(record.folder / "events.jsonl").split(b"\n")
    except (OSError, ValueError):
        return ()
    found = []
    for line in lines[:-1]:
        with contextlib.suppress(ValueError, RecursionError):
            found.append(json.loads(line))
    return tuple(step for step in found if isinstance(step, dict))


def base_texts(record: Record) -> dict[str, bytes]:
    """The original text of every edited file that the original tree has. Raises JournalError."""
    return _original(record, {e.path for u in record.units for e in u.edits} & set(record.files))


def all_texts(record: Record) -> dict[str, bytes]:
    """The original text of every source file; a run keeps them when a model was asked. Raises JournalError."""
    return _original(record, set(record.files))


def original_tree(record: Record, texts: Mapping[str, bytes], folder: Path) -> Path:
    """Writes the original sources (`all_texts`) below `folder`, and where the program is then: the folder, or the one file that it
    is. Raises JournalError."""
    for path, content in texts.items():
        file = folder / path
        if not file.resolve().is_relative_to(folder.resolve()):
            raise JournalError(f"{path}: lies outside of the program's folder")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder / record.root.name if record.root.suffix and record.root.name in texts else folder


def _original(record: Record, paths: set[str]) -> dict[str, bytes]:
    texts = {}
    for path in sorted(paths):
        name = _text_file(record.folder, record.files[path])
        try:
            content = _content(name)
        except (OSError, ValueError) as error:
            raise JournalError(f"{name}: cannot be read ({_why(error)})") from None
        if text_digest(content) != record.files[path]:
            raise JournalError(f"{name}: is not the original text of {path} any more; the run cannot be used")
        texts[path] = content
    return texts


@dataclass(frozen=True, slots=True)
class Replayed:
    """One version made again. `differing` are the files whose bytes are not those of the run, empty when all are."""

    made: Made
    differing: tuple[str, ...]


def replay(record: Record) -> tuple[Replayed, ...]:
    """Makes every version again from the journal alone and compares it with what the run had. Raises JournalError, UnitError."""
    base = base_texts(record)
    done = []
    for made in record.made:
        texts = versions.compose(base, record.units, made.units)
        now = {path: text_digest(content) for path, content in texts.items()}
        differing = {path for path in now.keys() | made.files.keys() if now.get(path) != made.files.get(path)}
        if not differing and Version(record.root, texts).digest != made.digest:
            differing = set(now)
        done.append(Replayed(made, tuple(sorted(differing))))
    return tuple(done)


def _load(folder: Path, name: str) -> dict[str, Any] | None:
    """Raises ValueError for what is no JSON object of this schema, OSError."""
    path = folder / name
    if not path.exists():
        return None
    value = json.loads(_content(path))
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise ValueError(f'no object with "schema": {SCHEMA}')
    return value


def _rows(folder: Path, name: str, member: str) -> Sequence[object]:
    """A list that a file holds; empty without the file. Raises ValueError, OSError."""
    rows = (_load(folder, name) or {}).get(member, [])
    if not isinstance(rows, list):
        raise SchemaError(member, rows, "a list")
    return rows


def _content(path: Path) -> bytes:
    """Raises ValueError for what is no regular file (a pipe would be waited for), OSError."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("no regular file")
    return path.read_bytes()


def _must_be_result(value: Mapping[str, Any]) -> None:
    """Raises ValueError unless the members that are read again are what was written."""
    reader = Reader(value, "", tuple(value))
    reader.choice("outcome", [kind.value for kind in Kind])
    reader.text("reason")
    best = value.get("best")
    if best is not None:
        Reader(best, "best", ("units", "digest", "measured")).items("units", text)
    if value.get("verdict") is not None:
        verdict_from_json(value["verdict"])
    if "verdict" not in value:
        raise SchemaError("verdict", None, "a verdict or null")


def _made(value: object, at: str) -> Made:
    reader = Reader(value, at, ("units", "digest", "files"))
    digest = reader.text("digest")
    if not _DIGEST.fullmatch(digest):
        raise SchemaError(reader.path("digest"), digest, "a digest")
    return Made(reader.items("units", text), digest, reader.record("files", _texts))


def _applied(value: object, at: str) -> Applied:
    reader = Reader(value, at, ("units", "files"))
    return Applied(reader.items("units", text), reader.record("files", _texts))


def _texts(value: object, at: str) -> dict[str, str]:
    """The digest of each file."""
    if not isinstance(value, dict) or not all(isinstance(v, str) and _DIGEST.fullmatch(v) for v in value.values()):
        raise SchemaError(at, value, "an object of digests")
    return value


def _why(error: OSError | ValueError | RecursionError) -> str:
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
