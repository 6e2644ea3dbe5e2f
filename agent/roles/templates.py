"""Prompt templates: shipped as files of this package, each replaced by a file of the same name in the user's own folder."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NAMES = ("anchor", "architect", "coder", "repairer")
MOST = 64 * 1024  # bytes of a template
_SHIPPED = Path(__file__).parent / "prompts"
_HEADER = re.compile(r"<!-- prompt: (?P<name>[a-z]+) version (?P<version>[0-9A-Za-z.-]{1,32}) -->")
_PLACE = re.compile(r"\{\{ *([a-z_]+) *\}\}")
_USER = "## Request"  # what stands before is told as the system, what follows as the user


class TemplateError(Exception):
    """A template cannot be used. The text names the file, what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Template:
    """`system` and `user` hold places such as `{{contract}}`. `label` names it in the record of a run."""

    name: str
    label: str
    system: str
    user: str

    def fill(self, values: Mapping[str, str]) -> tuple[str, str]:
        """Both texts with every place filled. What is filled in is not looked at again."""
        return tuple(_PLACE.sub(lambda m: values[m[1]], text).strip() for text in (self.system, self.user))  # type: ignore[return-value]


@dataclass(frozen=True)
class Templates:
    """By role. `origins` are the files that replace a shipped one."""

    by_name: Mapping[str, Template]
    origins: Mapping[str, Path]

    def __getitem__(self, name: str) -> Template:
        return self.by_name[name]


def user_folder() -> Path:
    """Where the user's own templates stand, which need not exist: never inside a workspace."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    if named and Path(named).is_absolute():
        home = Path(named)
    elif sys.platform == "win32":
        home = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        home = Path.home() / "Library" / "Application Support"
    else:
        home = Path.home() / ".config"
    return home / "stitchcuda" / "prompts"


def load(folder: Path | None = None) -> Templates:
    """The shipped templates, and those of `folder` in their place. Raises TemplateError."""
    templates: dict[str, Template] = {}
    origins: dict[str, Path] = {}
    for name in NAMES:
        shipped = _SHIPPED / f"{name}.md"
        template = parse(name, _text(shipped), str(shipped))
        own = folder / f"{name}.md" if folder is not None else None
        if own is not None and own.is_file():
            text = _text(own)
            template = parse(name, text, str(own), needed=places(template), own=True)
            origins[name] = own
        templates[name] = template
    return Templates(templates, origins)


def _text(file: Path) -> str:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise TemplateError(f"{file}: cannot be read ({error.strerror or error})") from None
    if len(data) > MOST:
        raise TemplateError(f"{file}: {len(data)} bytes; a template has at most {MOST}")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise TemplateError(f"{file}: is not UTF-8") from None


def places(template: Template) -> frozenset[str]:
    """The names that a template has places for."""
    return frozenset(_PLACE.findall(template.system + template.user))


def parse(name: str, text: str, where: str, needed: frozenset[str] | None = None, own: bool = False) -> Template:
    """A template from its text. `needed` are the places that it must have; no others may be in it. Raises TemplateError."""
    first, _, rest = text.partition("\n")
    header = _HEADER.fullmatch(first.strip())
    if header is None or header["name"] != name:
        raise TemplateError(f"{where}: the first line must be <!-- prompt: {name} version N -->, found {first[:60]!r}")
    system, mark, user = rest.partition(f"\n{_USER}\n")
    if not mark:
        raise TemplateError(f"{where}: there is no line {_USER!r}, which parts the instructions from the request")
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    label = f"{name} {header['version']} {'own ' if own else ''}{digest}"
    template = Template(name, label, system, user)
    found = places(template)
    if needed is not None:
        if missing := sorted(needed - found):
            raise TemplateError(f"{where}: it lacks {', '.join(f'{{{{{m}}}}}' for m in missing)}")
        if strange := sorted(found - needed):
            known = ", ".join(sorted(needed))
            raise TemplateError(f"{where}: nothing fills {', '.join(f'{{{{{s}}}}}' for s in strange)} (known: {known})")
    return template
