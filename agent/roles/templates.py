"""Prompt templates: shipped as files of this package, each replaced by a file of the same name in the user's own folder.

`deciding.md` is what several of them say in common; it has no places.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.agent.user_folders import config_folder

NAMES = ("anchor", "architect", "coder", "repairer")
SHARED = "deciding"
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

    @property
    def places(self) -> frozenset[str]:
        """The names of its places."""
        return frozenset(_PLACE.findall(self.system + self.user))


@dataclass(frozen=True)
class Templates:
    """By role, and what they share. `own` are the files that replace a shipped one."""

    by_role: Mapping[str, Template]
    deciding: str
    own: Mapping[str, Path]

    def fill(self, role: str, values: Mapping[str, str]) -> tuple[str, str]:
        """A role's two texts with every place filled. What is filled in is not looked at again."""
        template = self.by_role[role]
        known = {**values, SHARED: self.deciding}
        system, user = (_PLACE.sub(lambda m: known[m[1]], text).strip() for text in (template.system, template.user))
        return system, user

    def label(self, role: str) -> str:
        """Role, version and a digest of the text: what a record of a run says about the prompt."""
        digest = hashlib.blake2b(self.deciding.encode(), digest_size=2).hexdigest()
        return f"{self.by_role[role].label}-{digest}"


def user_folder() -> Path:
    """Where the user's own templates stand, which need not exist: never inside a workspace."""
    return config_folder() / "prompts"


def load(folder: Path | None = None) -> Templates:
    """The shipped templates, and those of `folder` in their place. Raises TemplateError."""
    roles: dict[str, Template] = {}
    own: dict[str, Path] = {}
    deciding = ""
    for name in (SHARED, *NAMES):
        shipped = _SHIPPED / f"{name}.md"
        file = folder / shipped.name if folder is not None and (folder / shipped.name).is_file() else shipped
        if file is not shipped:
            own[name] = file
        if name == SHARED:
            deciding = parse_shared(_text(file), str(file))
        elif file is shipped:
            roles[name] = parse(name, _text(file), str(file))
        else:
            needed = parse(name, _text(shipped), str(shipped)).places
            roles[name] = parse(name, _text(file), str(file), needed)
    return Templates(roles, deciding, own)


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


def parse(name: str, text: str, where: str, needed: frozenset[str] | None = None) -> Template:
    """A template from its text; `needed` are the places that a user's own one must have, all of them and no others. Raises
    TemplateError."""
    version, rest = _headed(name, text, where)
    system, mark, user = rest.partition(f"\n{_USER}\n")
    if not mark:
        raise TemplateError(f"{where}: there is no line {_USER!r}, which parts the instructions from the request")
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    template = Template(name, f"{name} {version} {'own ' if needed is not None else ''}{digest}", system, user)
    if needed is not None:
        if missing := sorted(needed - template.places):
            raise TemplateError(f"{where}: it lacks {_named(missing)}")
        if strange := sorted(template.places - needed):
            raise TemplateError(f"{where}: nothing fills {_named(strange)} (known: {_named(sorted(needed))})")
    return template


def parse_shared(text: str, where: str) -> str:
    """What templates share. Raises TemplateError."""
    shared = _headed(SHARED, text, where)[1].strip()
    if found := sorted(set(_PLACE.findall(shared))):
        raise TemplateError(f"{where}: nothing fills {_named(found)}: this text has no places")
    return shared


def _headed(name: str, text: str, where: str) -> tuple[str, str]:
    first, _, rest = text.partition("\n")
    header = _HEADER.fullmatch(first.strip())
    if header is None or header["name"] != name:
        raise TemplateError(f"{where}: the first line must be <!-- prompt: {name} version N -->, found {first[:60]!r}")
    return header["version"], f"\n{rest}"


def _named(names: list[str]) -> str:
    return ", ".join(f"{{{{{name}}}}}" for name in names)
