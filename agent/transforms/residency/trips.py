"""Round trips on the Timelines: what a download brought to host memory, an upload takes back to the device unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.waits import members
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.order.alias import overlap
from stitchcuda.analysis.order.symbolic import ZERO, Poly, at_least, equal
from stitchcuda.analysis.order.timeline import Access, Buffer, Memory, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Site


@dataclass(frozen=True, slots=True)
class Lap:
    """One occurrence of a round trip in one Timeline."""

    timeline: Timeline
    down: Op
    up: Op
    source: Access  # of the device, by the download
    host_written: Access
    host_read: Access
    target: Access  # of the device, by the upload


@dataclass(frozen=True)
class Trip:
    """A download and an upload by their places in the source, with every occurrence of the pair."""

    down: Site
    up: Site
    laps: tuple[Lap, ...]

    @property
    def extent(self) -> Poly | None:
        return self.laps[0].host_read.range.extent


def find_trips(analysis: Analysis) -> list[Trip]:
    """Every pair of sites where an upload may read what a download wrote, in the order of the program."""
    laps: dict[tuple[Site, Site], list[Lap]] = {}
    for timeline in analysis.timelines:
        downs: dict[int, list[_Download]] = {}
        for op in timeline.ops:
            if op.kind is not ApiKind.COPY:
                continue
            read, written = _side(op, Mode.READ), _side(op, Mode.WRITE)
            if read is None or written is None:
                continue
            if op.copy_kind == "d2h":
                downs.setdefault(written.buffer, []).append((op, read, written))
            elif op.copy_kind == "h2d":
                for down, source, host in _latest(timeline, downs.get(read.buffer, []), op):
                    if overlap(host.range, read.range) is not False:
                        lap = Lap(timeline, down, op, source, host, read, written)
                        laps.setdefault((down.site, op.site), []).append(lap)
    return [Trip(down, up, tuple(found)) for (down, up), found in laps.items()]


_Download = tuple[Op, Access, Access]  # with its device side and its host side


def _latest(timeline: Timeline, downs: list[_Download], up: Op) -> Iterator[_Download]:
    """Those after which, on some way to the upload, no other one is known to come."""
    replaced = 0
    for down, _, _ in downs:
        if timeline.ordered(down.id, up.id):
            replaced |= timeline.before[down.id]
    for found in downs:
        if timeline.earlier[up.id] >> found[0].id & 1 and not replaced >> found[0].id & 1:
            yield found


def _side(op: Op, mode: Mode) -> Access | None:
    found = [a for a in op.accesses if a.mode is mode]
    return found[0] if len(found) == 1 else None


def broken(timelines: Iterable[Timeline], trips: Sequence[Trip], *, downs_all_used: bool) -> tuple[str, Site] | None:
    """Why these uploads do not always bring back exactly the bytes of these downloads, in every run that the Timelines tell
    of; None when they do. With `downs_all_used`, every download is also taken up again, once."""
    laps = [lap for trip in trips for lap in trip.laps]
    for lap in laps:
        found = _broken_lap(lap)
        if found is not None:
            return found
    ups = {(id(lap.timeline), lap.up.id) for lap in laps}
    downs = {(id(lap.timeline), lap.down.id) for lap in laps}
    if len(ups) != len(laps) or (downs_all_used and len(downs) != len(laps)):
        return "the data of one download is uploaded more than once, or an upload may take that of several", trips[0].up
    up_sites, down_sites = {t.up for t in trips}, {t.down for t in trips}
    for timeline in timelines:
        for op in timeline.ops:
            if op.site in up_sites and (id(timeline), op.id) not in ups:
                return "this upload also brings data that does not come from the download", op.site
            if downs_all_used and op.site in down_sites and (id(timeline), op.id) not in downs:
                return "what this download brings is not always uploaded again", op.site
    return None


def _broken_lap(lap: Lap) -> tuple[str, Site] | None:
    timeline, down, up = lap.timeline, lap.down, lap.up
    if timeline.cuts:
        return f"the analysis did not see all of the program: {timeline.cuts[0].what}", timeline.cuts[0].site
    for op in (down, up):
        if not op.certain or op.unknown or op.graph is not None:
            return "the analysis does not know for sure what this copy moves", op.site
    if set(down.conditions) != set(up.conditions) or set(down.decided) != set(up.decided):
        return "download and upload do not run under the same conditions", up.site
    if down.loop != up.loop or down.iteration != up.iteration:
        return "download and upload do not run in the same round of the same loop", up.site
    if down.thread != up.thread or down.device is None or down.device != up.device:
        return "download and upload belong to different threads or devices", up.site
    if not timeline.ordered(down.id, up.id):
        return "the upload is not known to come after the download", up.site
    for access, what in ((lap.source, "source"), (lap.target, "target")):
        if timeline.buffers[access.buffer].memory is not Memory.DEVICE:
            return f"the {what} is not plain device memory", down.site if access is lap.source else up.site
    host = timeline.buffers[lap.host_read.buffer]
    if host.memory not in (Memory.PAGEABLE, Memory.PINNED):
        return f"`{host.name}` is memory that the device may touch by itself", up.site
    if not _same_bytes(lap):
        return "the upload does not take back exactly the bytes that the download brought", up.site
    between = timeline.earlier[up.id] & ~(1 << down.id)
    for k in members(between):
        op = timeline.ops[k]
        touches_host = any(a.buffer == host.id and a.mode is not Mode.READ for a in op.accesses)
        if timeline.ordered(k, down.id):
            continue
        if touches_host:
            return f"`{host.name}` may be given other contents before the upload", op.site
        if op.unknown or not op.certain or op.kind is ApiKind.HOST_FUNC:
            return (
                f"it is not known whether {wording.operation(op)} leaves `{host.name}` and the device's copies of it alone",
                op.site,
            )
    return None


def _same_bytes(lap: Lap) -> bool:
    down, up = lap.host_written.range, lap.host_read.range
    parts = (down.offset, down.extent, up.offset, up.extent)
    if any(p is None for p in parts) or down.member != up.member:
        return False
    for a, b in ((down.offset, up.offset), (down.extent, up.extent)):
        if a is None or b is None or not equal(a, b):
            return False
    for access in (lap.source, lap.target):
        if access.range.extent is None or down.extent is None or not equal(access.range.extent, down.extent):
            return False
    return lap.down.bytes is not None and lap.up.bytes is not None and bool(equal(lap.down.bytes, lap.up.bytes))


def from_start(lap: Lap) -> bool:
    """Both device sides begin at the start of their allocations."""
    return all(
        a.range.offset is not None and not a.range.member and bool(equal(a.range.offset, ZERO))
        for a in (lap.source, lap.target)
    )


def as_large(lap: Lap) -> bool:
    """The download's buffer can stand for the upload's: it is provably no smaller."""
    source, target = buffers_of(lap)
    return source.size is not None and target.size is not None and bool(at_least(source.size, target.size))


def buffers_of(lap: Lap) -> tuple[Buffer, Buffer]:
    """Source of the download, target of the upload."""
    return lap.timeline.buffers[lap.source.buffer], lap.timeline.buffers[lap.target.buffer]


def amount(value: Poly | None) -> str:
    """For a person: a number of bytes, or that it is known by formula only."""
    if value is None:
        return "its"
    return f"{value.constant:,}" if value.constant is not None else "the same formula of"
