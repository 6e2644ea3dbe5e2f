"""The little of the ELF format that device code and programs need: sections, symbols, relocations (System V ABI, 64 bits)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 2, 4, 8, 9
ET_EXEC, ET_DYN = 2, 3
PT_INTERP = 3
MOST_TIMES = 4  # a section is a copy of its bytes, and a damaged file can name the same ones again and again


class NotElf(Exception):
    """The bytes are no 64-bit little-endian ELF file, or a damaged one."""


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    kind: int
    flags: int
    size: int
    link: int
    info: int
    data: bytes  # empty for sections that take no room in the file


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    info: int
    other: int
    section: int
    value: int
    size: int


@dataclass(frozen=True)
class Elf:
    kind: int
    sections: tuple[Section, ...]
    starts_by_itself: bool  # it names an interpreter: a program, not a library

    def find(self, name: str) -> Section | None:
        return next((s for s in self.sections if s.name == name), None)

    def symbols(self) -> list[Symbol]:
        """The symbol table, in order; [] without one."""
        table = next((s for s in self.sections if s.kind == SHT_SYMTAB), None)
        if table is None:
            return []
        names = self.sections[table.link].data
        return [
            Symbol(_text(names, name), info, other, section, value, size)
            for name, info, other, section, value, size in struct.iter_unpack("<IBBHQQ", _whole(table.data, 24))
        ]


def read_elf(data: bytes) -> Elf:
    """Raises NotElf."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotElf("no 64-bit ELF file")
    try:
        kind = struct.unpack_from("<H", data, 16)[0]
        program_at, section_at = struct.unpack_from("<QQ", data, 32)
        program_size, programs, section_size, count, names_at = struct.unpack_from("<HHHHH", data, 54)
        starts = any(
            struct.unpack_from("<I", data, program_at + n * program_size)[0] == PT_INTERP for n in range(programs)
        )
        heads = [struct.unpack_from("<IIQQQQIIQQ", data, section_at + n * section_size) for n in range(count)]
        names = data[heads[names_at][4] : heads[names_at][4] + heads[names_at][5]] if heads else b""
    except (struct.error, IndexError, OverflowError) as error:
        raise NotElf(f"damaged: {error}") from error
    if sum(min(head[5], len(data)) for head in heads if head[1] not in (0, SHT_NOBITS)) > MOST_TIMES * len(data):
        raise NotElf("damaged: its sections overlap")
    sections = tuple(
        Section(
            _text(names, name),
            section_kind,
            flags,
            size,
            link,
            info,
            b"" if section_kind in (0, SHT_NOBITS) else data[offset : offset + size],
        )
        for name, section_kind, flags, _address, offset, size, link, info, _align, _entry in heads
    )
    return Elf(kind, sections, starts)


def _text(table: bytes, start: int) -> str:
    end = table.find(b"\0", start)
    return table[start : end if end >= 0 else None].decode("utf-8", "replace")


def _whole(data: bytes, entry: int) -> bytes:
    return data[: len(data) - len(data) % entry]
