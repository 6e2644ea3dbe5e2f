"""The transforms as users choose them one by one. Apart from the transforms themselves, which are slow to import: an editor lists
these while its user types. `agent/transforms/__init__.py` has the same ones in the same order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Named:
    """`needs`: kinds of calls (`ApiKind`) of which a function must hold one to give the transform anything to do; empty: not known.
    `lacking` says so when it holds none."""

    id: str
    title: str  # what it does, as a menu says it
    needs: frozenset[str] = frozenset()
    lacking: str = ""


_WAITS = frozenset({"device_sync", "stream_sync", "event_sync"})
_COPIES = frozenset({"copy"})
_ALLOCATIONS = frozenset({"alloc", "free"})

NAMED: tuple[Named, ...] = (
    Named("hoist-allocation", "Take allocations out of what is repeated", _ALLOCATIONS, "nothing is allocated in it"),
    Named("remove-wait", "Remove host waits that nothing relies on", _WAITS, "the host waits for nothing in it"),
    Named("keep-resident", "Keep data on the device between kernels", _COPIES, "nothing is copied in it"),
)
IDS = tuple(named.id for named in NAMED)
BY_ID = {named.id: named for named in NAMED}
