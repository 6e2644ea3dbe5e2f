"""The records of a run as the tracer wrote them (native/wire.h), by process."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MAGIC = b"stitchT1"
DATA = 4096
CAPACITY = 2 << 30  # bytes of address space for records; memory is taken only for what is written
CONTENTS = 1 << 30  # and for the contents of reads, behind them
CHUNK_BYTES = 64 << 10
MOST_RECORDS = 3_000_000  # of a run: reading one takes about a kilobyte of memory
CAPTURED, RETURNED = 1, 2
DRIVER_BIT = 1 << 31
RUNTIME, DRIVER, KERNEL, MODULE, DEVICE, PROBLEM = range(1, 7)

OP_KINDS = {1: "kernel", 2: "copy", 3: "memset"}

_ALIGNED = 8  # every record is a multiple of so many bytes
_CHUNK_MAGIC = 0x6B6E6863
_HEADER = struct.Struct("<8sQQQ")
_CHUNK = struct.Struct("<IIIIQ")
_RECORD = struct.Struct("<HH")
_PROCESS_KIND, _CONTEXT_KIND, _TEXT_KIND, _CALL_KIND, _LAUNCH_KIND, _STACK_KIND, _OP_KIND, _READ_KIND, _STREAM_KIND = (
    range(1, 10)
)
_TEXT = struct.Struct("<4xIII")
_CONTEXT = struct.Struct("<4xIQ")
_CALL = struct.Struct("<4xIQQQIiIIQQQIIBB6x")
_LAUNCH = struct.Struct("<4xIQ8I")
_STACK = struct.Struct("<4xIQ")
_FRAME = struct.Struct("<I4xQ")
_OP = struct.Struct("<4xIQQIIIIQQI4x")
_READ = struct.Struct("<4xIQQ16sQ")
_STREAM = struct.Struct("<4xIII")


class Damaged(Exception):
    """The file does not hold together: something else wrote to it."""


class RawCall(NamedTuple):
    api: int
    number: int  # issue order
    start: int
    end: int
    correlation: int
    status: int
    stream: int
    event: int
    size: int
    source: int
    target: int
    flags: int
    stack: int
    copy_kind: int
    state: int


class RawLaunch(NamedTuple):
    name: int
    call: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    words: tuple[int, ...]


class RawOp(NamedTuple):
    kind: int
    start: int
    end: int
    correlation: int
    cupti_stream: int
    name: int
    registers: int
    size: int
    graph_node: int
    copy_kind: int


class RawRead(NamedTuple):
    nanoseconds: int
    call: int
    size: int
    digest: bytes
    contents: int  # where they are in the file; 0: not kept


class RawStream(NamedTuple):
    number: int
    origin: int
    flags: int


class RawFrame(NamedTuple):
    module: int
    offset: int


@dataclass
class Process:
    """What one process of the run told."""

    texts: dict[tuple[int, int], str] = field(default_factory=dict)  # by table and number
    problems: list[str] = field(default_factory=list)
    context_end: int = 0
    device: int = 0
    calls: list[tuple[int, RawCall]] = field(default_factory=list)  # with the thread
    launches: dict[int, RawLaunch] = field(default_factory=dict)  # by the call's index
    stacks: dict[int, tuple[RawFrame, ...]] = field(default_factory=dict)
    ops: list[RawOp] = field(default_factory=list)
    reads: list[RawRead] = field(default_factory=list)
    streams: list[RawStream] = field(default_factory=list)


def read_records(view: memoryview) -> tuple[dict[int, Process], int]:
    """The processes by their id, and how many records were dropped: those beyond `MOST_RECORDS` count as one. The program can
    write what it likes into the file, so nothing in it is taken for granted. Raises Damaged."""
    try:
        magic, capacity, cursor, dropped = _HEADER.unpack_from(view)
        if magic != MAGIC or capacity > len(view) or cursor < DATA:
            raise Damaged
        processes: dict[int, Process] = {}
        left = MOST_RECORDS
        for process, thread, records in _chunks(view, min(cursor, capacity)):
            left -= _take(processes.setdefault(process, Process()), thread, records, left)
            if left <= 0:
                return processes, dropped + 1
    except (struct.error, ValueError):
        raise Damaged from None
    return processes, dropped


def _chunks(view: memoryview, cursor: int) -> Iterator[tuple[int, int, memoryview]]:
    for at in range(DATA, cursor - _CHUNK.size, CHUNK_BYTES):
        magic, size, process, thread, used = _CHUNK.unpack_from(view, at)
        if magic == 0:  # the program ended while it took this chunk
            continue
        if magic != _CHUNK_MAGIC or size != CHUNK_BYTES or _CHUNK.size + used > size:
            raise Damaged
        yield process, thread, view[at + _CHUNK.size : at + _CHUNK.size + used]


def _take(process: Process, thread: int, records: memoryview, most: int) -> int:
    """How many records there were; at most `most` are taken."""
    at, size, taken = 0, len(records), 0
    while at < size and taken < most:
        kind, length = _RECORD.unpack_from(records, at)
        if length < _RECORD.size or length % _ALIGNED or at + length > size:
            raise Damaged
        record = records[at : at + length]
        at += length
        taken += 1
        if kind == _CALL_KIND:
            call = RawCall(*_CALL.unpack_from(record))
            _must_be_dense(call.stream, call.event)
            process.calls.append((thread, call))
        elif kind == _OP_KIND:
            op = RawOp(*_OP.unpack_from(record))
            if op.kind not in OP_KINDS:
                raise Damaged
            process.ops.append(op)
        elif kind == _LAUNCH_KIND:
            name, index, *numbers = _LAUNCH.unpack_from(record)
            gx, gy, gz, bx, by, bz, shared, count = numbers
            words = struct.unpack_from(f"<{count}Q", record, _LAUNCH.size)
            process.launches[index] = RawLaunch(name, index, (gx, gy, gz), (bx, by, bz), shared, words)
        elif kind == _READ_KIND:
            process.reads.append(RawRead(*_READ.unpack_from(record)))
        elif kind == _TEXT_KIND:
            table, number, count = _TEXT.unpack_from(record)
            text = bytes(record[_TEXT.size : _TEXT.size + count]).decode(errors="replace")
            if table == PROBLEM:
                process.problems.append(text)
            else:
                process.texts[table, number] = text
        elif kind == _STACK_KIND:
            number, count = _STACK.unpack_from(record)
            places = range(_STACK.size, _STACK.size + count * _FRAME.size, _FRAME.size)
            process.stacks[number] = tuple(RawFrame(*_FRAME.unpack_from(record, place)) for place in places)
        elif kind == _STREAM_KIND:
            stream = RawStream(*_STREAM.unpack_from(record))
            _must_be_dense(stream.number)
            process.streams.append(stream)
        elif kind == _CONTEXT_KIND and not process.context_end:
            process.device, process.context_end = _CONTEXT.unpack_from(record)
    return taken


def _must_be_dense(*numbers: int) -> None:
    """The tracer numbers streams and events from 1 on, so that there are never more than records; tables are made of them."""
    if max(numbers) > MOST_RECORDS:
        raise Damaged
