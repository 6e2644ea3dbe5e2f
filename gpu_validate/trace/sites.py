"""From return addresses to the lines of the user's source that made a call.

Asks `addr2line` once a module, after the run. What lies between the user's line and CUDA is left out: the runtime's inline
wrappers, the stubs that nvcc makes for a kernel, and libraries.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

from stitchcuda.gpu_validate.trace.model import CallSite
from stitchcuda.gpu_validate.trace.symbols import plain_name

ASK_SECONDS = 60.0
BATCH = 500  # addresses of one command line
NEAR = 12  # lines of one statement that are looked at, each way
LONGEST_SOURCE = 32 << 20  # bytes of a source file that are read
DEEPEST = 16  # sites of one call

_TOOLKIT = re.compile(
    r"/(cuda_runtime(_api)?|host_runtime|device_launch_parameters|driver_types|cuda)\.h$|/(include|targets)/(thrust|cub|cuda|nv)/|"
    r"/usr/(include|lib)/|/include/c\+\+/|/(bits|ext)/[\w.]+$|/cccl/|/libcudacxx/"
)
_STUB = re.compile(r"__device_stub__|__wrapper__device_stub_|__nv_cudaEntityRegister|__sti____cudaRegister")
_LIBRARY = re.compile(r"(\w+ )*(thrust|cub|std|cuda)::")
_TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
_ENDS_STATEMENT = re.compile(r"[;{}]\s*(//.*)?$|^\s*(#.*|//.*)?$")
_INTERMEDIATE = re.compile(r"(?:.*/)?(?:tmpxft_[0-9a-f]+_[0-9a-f]+-\d+_)?([^/]+)\.cudafe1\.(cpp|gpu|stub\.c)$")


@dataclass(frozen=True, slots=True)
class Address:
    """A return address: its distance from where `module` (a file) was loaded."""

    module: str
    offset: int


@dataclass(frozen=True, slots=True)
class Place:
    """What debug information says of an address: one of the functions that the compiler put into one another there."""

    function: str
    path: str
    line: int


Ask = Callable[[str, Sequence[int]], dict[int, tuple[Place, ...]]]


def resolve(
    stacks: Mapping[int, Sequence[Address]], called: Mapping[int, tuple[str, str]], ask: Ask | None = None
) -> dict[int, tuple[CallSite, ...]]:
    """The sites of each stack, innermost first. `called` has for a stack the API that it called and, for a launch, the kernel.
    A stack without debug information has none. `ask` tells what stands at the offsets of a module (default: addr2line)."""
    ask = ask or ask_addr2line
    _lines.cache_clear()  # versions of a program are run at one path, one after the other
    _code_start.cache_clear()
    addresses: dict[str, set[int]] = defaultdict(set)
    for stack in stacks.values():
        for address in stack:
            addresses[address.module].add(address.offset)
    places: dict[Address, tuple[Place, ...]] = {}
    for module, offsets in addresses.items():
        for offset, found in ask(module, sorted(offsets)).items():
            places[Address(module, offset)] = found
    sources = _sources(places.values())
    result = {}
    for number, stack in stacks.items():
        api, kernel = called.get(number, ("", ""))
        result[number] = _user_sites([places.get(address, ()) for address in stack], api, kernel, sources)
    return result


def _user_sites(
    stack: Sequence[Sequence[Place]], api: str, kernel: str, sources: Mapping[str, str]
) -> tuple[CallSite, ...]:
    sites: list[CallSite] = []
    for inlined in stack:
        here: list[CallSite] = []  # of one address: what the compiler put into one another
        for place in inlined:
            function, path = plain_name(place.function), _source_of(place.path, sources)
            if not path or place.line <= 0 or not _is_users(place.function, path):
                continue
            if not sites and not here and _bare(function) == api:
                continue  # an inline wrapper, which can carry the user's file with a line of its own
            if not sites and not here and kernel and _bare(function) == _bare(kernel):
                continue  # the host function of the kernel's name, which nvcc makes
            if here and here[-1].function == function:
                continue  # the same function again: the compiler split it
            first = not sites and not here
            here.append(CallSite(path, _anchored(path, place.line, api, kernel) if first else place.line, function))
        sites += here
    return tuple(sites[:DEEPEST])


def _is_users(function: str, path: str) -> bool:
    """Whether a place is in the user's own source. One that is not on this machine is a library's that was built elsewhere."""
    return not (_STUB.search(function) or _LIBRARY.match(function) or _TOOLKIT.search(path)) and bool(_lines(path))


def _bare(name: str) -> str:
    return re.sub(r"<.*", "", name)


def _sources(found: Iterable[tuple[Place, ...]]) -> dict[str, str]:
    """The source files that were seen, by stem, where that is unique: a host instantiation of a template carries the name
    of an intermediate file with the line of the source."""
    by_stem: dict[str, set[str]] = defaultdict(set)
    for places in found:
        for place in places:
            if place.path and not _INTERMEDIATE.match(place.path):
                by_stem[Path(place.path).stem].add(place.path)
    return {stem: next(iter(paths)) for stem, paths in by_stem.items() if len(paths) == 1}


def _source_of(path: str, sources: Mapping[str, str]) -> str:
    """The file itself, or what an intermediate file was made from; "" when that is not known, and for stubs."""
    intermediate = _INTERMEDIATE.match(path)
    if not intermediate:
        return path
    return "" if intermediate[2] == "stub.c" else sources.get(intermediate[1], "")


def _anchored(path: str, line: int, api: str, kernel: str) -> int:
    """The line of the call's own name, when the statement at `line` has one: debug information can name another line of a
    call that goes over several. A call inside of a macro of the user's stays where it is."""
    lines = _lines(path)
    if not lines or not api or line > len(lines):
        return line
    name = _bare(kernel).split("::")[-1]
    token = re.compile(rf"\b{re.escape(name)}\b.*<<<" if name else rf"\b{re.escape(api)}\b")
    first, last = _statement(lines, line)
    named = [candidate for candidate in range(first, last + 1) if token.search(lines[candidate - 1])]
    if not named and name and _defines(lines[first - 1 : last], name):
        # the stub of a static kernel is put into its caller, with the line of the kernel
        named = [number for number, text in enumerate(lines, 1) if token.search(_TEXT.sub('""', text))]
        return named[0] if len(named) == 1 else line
    return min(named, key=lambda candidate: abs(candidate - line), default=line)


def _statement(lines: Sequence[str], line: int) -> tuple[int, int]:
    """The first and last line of the statement, or of the head of a definition, that a line belongs to."""
    first = last = line
    while first > max(1, line - NEAR) and not _ENDS_STATEMENT.search(lines[first - 2]):
        first -= 1
    while last < min(len(lines), line + NEAR) and not _ENDS_STATEMENT.search(lines[last - 1]):
        last += 1
    return first, last


def _defines(statement: Sequence[str], kernel: str) -> bool:
    text = " ".join(statement)
    return "__global__" in text and re.search(rf"\b{re.escape(kernel)}\s*\(", text) is not None


@cache
def _lines(path: str) -> tuple[str, ...]:
    try:
        with _opened(path) as file:
            return tuple(file.read(LONGEST_SOURCE).decode(errors="replace").splitlines())
    except (OSError, ValueError):
        return ()


def _opened(path: str) -> BinaryIO:
    """A file that the program named, which can be anything: a pipe would be waited for, and a device has no end. Raises
    OSError, ValueError."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path}: no regular file")
    return file


def ask_addr2line(module: str, offsets: Sequence[int]) -> dict[int, tuple[Place, ...]]:
    """What stands at the addresses of a module, innermost inlined function first."""
    program = shutil.which("addr2line")
    base = _code_start(module)
    if program is None or base is None:
        return {}
    found: dict[int, tuple[Place, ...]] = {}
    for at in range(0, len(offsets), BATCH):
        batch = offsets[at : at + BATCH]
        # a return address is behind its call, so one byte less is in it
        command = [program, "-a", "-f", "-C", "-i", "-e", module, *(f"{base + offset - 1:#x}" for offset in batch)]
        try:
            done = subprocess.run(
                command,
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=ASK_SECONDS,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return found
        for offset, places in zip(batch, read_answers(done.stdout), strict=False):
            found[offset] = places
    return found


def read_answers(text: str) -> list[tuple[Place, ...]]:
    """What `addr2line -a -f -i` printed: for each address its functions, innermost first."""
    answers: list[list[Place]] = []
    function = ""
    for line in text.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", line):
            answers.append([])
            function = ""
        elif not answers:
            continue
        elif not function:
            function = line
        else:
            path, _, number = re.sub(r" \(discriminator \d+\)$", "", line).rpartition(":")
            answers[-1].append(Place(function, "" if path == "??" else path, int(number) if number.isdigit() else 0))
            function = ""
    return [tuple(answer) for answer in answers]


@cache
def _code_start(module: str) -> int | None:
    """The address that the start of a loaded module has in its file; None without debug information (or no ELF file)."""
    try:
        with _opened(module) as file:
            head = file.read(64)
            if head[:6] != b"\x7fELF\x02\x01":
                return None
            program_at, section_at = struct.unpack_from("<QQ", head, 32)
            program_size, programs, section_size, sections, names_in = struct.unpack_from("<HHHHH", head, 54)
            file.seek(section_at)
            table = file.read(section_size * sections)
            names_at, names_size = struct.unpack_from("<QQ", table, names_in * section_size + 24)
            file.seek(names_at)
            if b".debug_line" not in file.read(min(names_size, LONGEST_SOURCE)):
                return None
            file.seek(program_at)
            programs_table = file.read(program_size * programs)
        for at in range(0, len(programs_table), program_size):
            if struct.unpack_from("<I", programs_table, at)[0] == 1:  # PT_LOAD
                address: int = struct.unpack_from("<Q", programs_table, at + 16)[0]
                return address & ~0xFFF
    except (OSError, ValueError, OverflowError, struct.error):  # a damaged file, or a name that no file can have
        return None
    return None
