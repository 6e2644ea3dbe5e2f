"""The device code inside a program: which kernels, what they take, and a name under which equal code is equal.

nvcc keeps device code in the section `.nv_fatbin` (`__nv_relfatbin` for what the device linker read): containers of entries,
each a GPU program (ELF) or PTX text, possibly compressed. Lines and files stand in it too, so that code which merely moved
down a line gives other bytes; and names of kernels with internal linkage hold a hash of the file's text. Both are left out
of the name: what counts is every section that is loaded, with its relocations and the symbols it defines.

The layout of the containers is read from `fatbinary_section.h` of the toolkit and from what nvcc 13 writes; a container that
does not look like that raises `UnknownLayout`, and then nothing is claimed.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.gpu_validate.building.elf import SHT_REL, SHT_RELA, Elf, NotElf, Section, Symbol, read_elf
from stitchcuda.gpu_validate.building.model import Resources

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
CONTAINER = 0xBA55ED50
PTX, GPU_ELF = 1, 2
COMPRESSED = 0xA000  # flags of an entry: LZ4 0x2000, Zstandard 0x8000
_ATTRIBUTE_WORD_PAIR = 4  # .nv.info entries of this format are a size and that many bytes
REGISTERS, FRAME = 0x2F, 0x11
RESERVED_SHARED = 1024  # bytes a block that the system takes from sm_80 on; ptxas does not report them as the kernel's
_INTERNAL = re.compile(r"(\d+)(_GLOBAL__N__|_INTERNAL_)")
_NOT_CODE = re.compile(
    r"(\.nv\.merc)?(\.rela?)?\.?((nv_)?debug|(sh)?strtab|symtab|note)|$"
)  # .nv.merc: sm_100 and newer
_ATTRIBUTES = ".nv.info."  # of a kernel: they count symbols of the whole file, others than the kernel's, too
_PTX_LINES = re.compile(rb"^\s*(\.loc|\.file|//).*$|^\s*\.section\s+\.debug\w*\s*\{[^}]*\}", re.MULTILINE)
_AT_RUN_TIME = re.compile(
    rb"\0(nvrtcCompileProgram|nvrtcCreateProgram|cuModuleLoad\w*|cuLibraryLoad\w*|cuLinkAddData\w*)\0"
)


class UnknownLayout(Exception):
    """The section does not look as described above."""


@dataclass(frozen=True)
class DeviceCode:
    """`digest` is "" when there is no device code. `kernels` are those of `arch`, by mangled name (internal linkage: with
    the file's hash taken out), `functions` names the code there that is no kernel's own. `archs` are those with machine code, `ptx` those with PTX."""

    digest: str
    kernels: dict[str, Resources]
    functions: str
    archs: frozenset[int]
    ptx: frozenset[int]
    compiles_at_run_time: bool


def read_device_code(programs: dict[str, bytes], arch: int | None) -> DeviceCode:
    """Of a program and the libraries built with it, by relative path. `arch` picks whose kernels are listed (90 for sm_90;
    None, or one that is not there: the newest that is). Raises UnknownLayout."""
    parts: list[bytes] = []
    images: dict[int, list[Elf]] = {}
    ptx: set[int] = set()
    at_run_time = False
    for name, data in sorted(programs.items()):
        try:
            elf = read_elf(data)
        except NotElf:
            continue
        at_run_time |= _makes_code_at_run_time(elf)
        for section in elf.sections:
            if section.name not in SECTIONS:
                continue
            for entry in _entries(section.data):
                content, image = _content(entry)
                parts.append(f"{name} {section.name} {entry.kind} {entry.arch} ".encode() + content)
                if entry.kind == PTX:
                    ptx.add(entry.arch)
                elif image is not None:
                    images.setdefault(entry.arch, []).append(image)
    listed = arch if arch in images else max(images, default=None)
    kernels = {k: r for image in images.get(listed, []) for k, r in _kernels(image)} if listed is not None else {}
    digest = hashlib.blake2b(b"".join(sorted(parts)), digest_size=16).hexdigest() if parts else ""
    functions = [part for image in images.get(listed, []) for part in _functions(image)] if listed is not None else []
    called = hashlib.blake2b(b"".join(sorted(functions)), digest_size=8).hexdigest()
    return DeviceCode(digest, kernels, called, frozenset(images), frozenset(ptx), at_run_time)


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: int
    arch: int
    compressed: bool
    data: bytes


def _entries(data: bytes) -> Iterator[_Entry]:
    at = 0
    while at + 16 <= len(data):
        magic, _version, head, size = struct.unpack_from("<IHHQ", data, at)
        if magic == 0:
            at += 8  # padding between containers
            continue
        if magic != CONTAINER or head < 16 or at + head + size > len(data):
            raise UnknownLayout(f"no container at byte {at}")
        end = at + head + size
        at += head
        while at + 64 <= end:
            kind, _version, entry_head = struct.unpack_from("<HHI", data, at)
            (entry_size,) = struct.unpack_from("<Q", data, at + 8)
            (arch,) = struct.unpack_from("<I", data, at + 28)
            (flags,) = struct.unpack_from("<Q", data, at + 40)
            if kind == 0 and entry_head == 0:
                break
            if entry_head < 64 or at + entry_head + entry_size > end:
                raise UnknownLayout(f"an entry at byte {at} is longer than its container")
            body = data[at + entry_head : at + entry_head + entry_size]
            yield _Entry(kind, arch, bool(flags & COMPRESSED), body)
            at += entry_head + entry_size
        at = end


def _content(entry: _Entry) -> tuple[bytes, Elf | None]:
    """What counts of an entry, and the GPU program when it can be read. Compressed entries count as they are."""
    if entry.compressed:
        return hashlib.blake2b(entry.data, digest_size=16).digest(), None
    if entry.kind == GPU_ELF:
        try:
            image = read_elf(entry.data)
        except NotElf as error:
            raise UnknownLayout(f"machine code {error}") from error
        return _image_digest(image), image
    if entry.kind == PTX:
        text = _PTX_LINES.sub(b"", entry.data.rstrip(b"\0 "))
        kept = b"\n".join(filter(None, map(bytes.strip, text.split(b"\n"))))
        return hashlib.blake2b(plain_name(kept.decode("utf-8", "replace")).encode(), digest_size=16).digest(), None
    return hashlib.blake2b(entry.data, digest_size=16).digest(), None


def _image_digest(image: Elf) -> bytes:
    symbols = image.symbols()
    parts = [_section_content(image, s) for s in image.sections if not _NOT_CODE.match(s.name)]
    for symbol in symbols:
        home = image.sections[symbol.section].name if symbol.section < len(image.sections) else str(symbol.section)
        if symbol.name and not _NOT_CODE.match(home) and not _NOT_CODE.match(symbol.name):
            parts.append(
                f"symbol {plain_name(symbol.name)} {symbol.info} {symbol.other} {plain_name(home)} "
                f"{symbol.value} {symbol.size}".encode()
            )
    h = hashlib.blake2b(digest_size=16)
    for part in sorted(parts):
        h.update(len(part).to_bytes(8, "little") + part)
    return h.digest()


def _section_content(image: Elf, section: Section) -> bytes:
    head = f"{plain_name(section.name)} {section.kind} {section.flags} {section.size} ".encode()
    if section.kind not in (SHT_REL, SHT_RELA):
        return head + section.data
    symbols = image.symbols()
    form = "<QQq" if section.kind == SHT_RELA else "<QQ"
    rows = struct.iter_unpack(form, section.data[: len(section.data) // struct.calcsize(form) * struct.calcsize(form)])
    named = [(row[0], row[1] & 0xFFFFFFFF, _symbol_name(image, symbols, row[1] >> 32), *row[2:]) for row in rows]
    return head + repr(named).encode()


def _symbol_name(image: Elf, symbols: list[Symbol], index: int) -> str:
    if index >= len(symbols):
        return str(index)
    symbol = symbols[index]
    if symbol.name:
        return plain_name(symbol.name)
    return (
        plain_name(image.sections[symbol.section].name) if symbol.section < len(image.sections) else str(symbol.section)
    )


def plain_name(name: str) -> str:
    """A name without the hash of the file's text that nvcc puts into names with internal linkage."""
    out, at = "", 0
    for match in _INTERNAL.finditer(name):
        if match.start() < at:
            continue
        out += name[at : match.start()] + match[2]
        at = match.start(2) + int(match[1])
    return out + name[at:]


def _makes_code_at_run_time(elf: Elf) -> bool:
    """Whether it calls what compiles or loads kernels as it runs. cudart holds such names too, as text, so that only
    symbols count."""
    tables = (elf.find(".dynstr"), elf.find(".strtab"))
    return any(table is not None and _AT_RUN_TIME.search(table.data) for table in tables)


def _kernels(image: Elf) -> Iterator[tuple[str, Resources]]:
    symbols = image.symbols()
    registers, frames = _attributes(image)
    sections = {s.name: s for s in image.sections}
    reserved = RESERVED_SHARED if any(s.name.startswith(".nv.shared.reserved") for s in image.sections) else 0
    for index, symbol in enumerate(symbols):
        text = sections.get(f".text.{symbol.name}")
        if text is None or not symbol.name or f".nv.info.{symbol.name}" not in sections:
            continue
        shared = sections.get(f".nv.shared.{symbol.name}")
        own = [s for s in image.sections if s.name.endswith(f".{symbol.name}") and not s.name.startswith(_ATTRIBUTES)]
        parts = sorted(_section_content(image, s) for s in own if not _NOT_CODE.match(s.name))
        code = hashlib.blake2b(b"\0".join(parts), digest_size=8).hexdigest()
        yield (
            plain_name(symbol.name),
            Resources(
                registers.get(index, 0),
                frames.get(index, 0),
                max(0, shared.size - reserved) if shared else 0,
                None,
                code,
            ),
        )


def _functions(image: Elf) -> Iterator[bytes]:
    """The code of functions that kernels call and that stand by themselves."""
    infos = {s.name.removeprefix(".nv.info") for s in image.sections if s.name.startswith(".nv.info.")}
    for section in image.sections:
        if section.name.startswith(".text.") and section.name.removeprefix(".text") not in infos:
            yield hashlib.blake2b(_section_content(image, section), digest_size=16).digest()


def _attributes(image: Elf) -> tuple[dict[int, int], dict[int, int]]:
    """Registers and stack frame bytes by symbol index, from `.nv.info`."""
    section = image.find(".nv.info")
    registers: dict[int, int] = {}
    frames: dict[int, int] = {}
    data, at = section.data if section else b"", 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != _ATTRIBUTE_WORD_PAIR:
            continue
        if size == 8 and at + 8 <= len(data) and attribute in (REGISTERS, FRAME):
            index, value = struct.unpack_from("<II", data, at)
            (registers if attribute == REGISTERS else frames)[index] = value
        at += size
    return registers, frames
