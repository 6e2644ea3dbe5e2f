"""What CUDA calls do: name -> kind, roles of the arguments, flags.

A row is `name kind role role ... / flag flag`. Roles are positional. The names, on which the executor relies:

`out`             address that receives a new pointer, stream, event, graph, exec, or a queried value (may occur twice)
`dst` `src` `bytes` `kind`      copy and memset; `kind` is the direction argument
`stream` `event` `end_event`    `end_event` only in elapsed time (`event`, `end_event`, `out`)
`value`           memset value, attribute value, advice
`ptr`             the thing freed, registered, prefetched, advised, queried
`flags` `device` `src_device` `dst_device` `pool` `mode` `callback` `user_data` `graph` `exec` `handle`
`symbol` `offset` the device variable of a to-symbol or from-symbol copy
`width` `height` `dpitch` `spitch` `pitch_out`   2-D copies; `pitch_out` receives a pitch
`params`          pointer to a parameter structure (`cudaMemcpy3DParms`, node parameters, ...)
`kernel` `grid` `block` `shared` `packed` `config`   kernel launches written as calls (the frontend makes `Launch` of them)
`name`            the user's name for what a call with flag "returns" gives back (a string constant)
`src1` `src2` ... further arrays that a library call reads; `inout` `inout1` what it reads and writes
`argN`            anything else: the argument at position N of the call, counted from 0

Flags: "async" (returns before the work is done as far as the API is concerned), "2d", "3d", "peer", "to-symbol",
"from-symbol", "symbol", "array" (a cudaArray), "pooled" (stream-ordered), "pitched", "managed", "driver", "library",
"cooperative", "graph-node" (adds or changes a node of an explicitly built graph), "may-sync" (documented to possibly wait
for the device), "returns" (gives back a new object instead of storing it through `out`), "current" (asks for the current
stream), "destroys" (ends the graph or executable graph it is given), "staged" (a copy whose host source goes through pinned memory of the library), "multi-device",
"resource" (hands out memory that exists already), "function" (hands out a kernel), "interop" (work shared with another
API), "awaits" (the stream waits for what is done elsewhere),
"barrier" (ordered with all work of the devices that take part), "stream-memory" (writes to, or waits for, a flag in memory),
"capture-status" (asks whether the stream is captured), "capture-mode" (exchanges what the thread may do meanwhile), "says-done" (a query that answers true or false, not a status), and the copy direction when the name says it: "h2d", "d2h", "d2d", "h2h".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from stitchcuda.analysis.program import api_driver, api_library, api_runtime
from stitchcuda.analysis.program.ir import ApiKind


@dataclass(frozen=True, slots=True)
class ApiRow:
    """One API function. `roles[i]` names argument i; further arguments are called `argN`."""

    name: str
    kind: ApiKind
    roles: tuple[str, ...]
    flags: frozenset[str]


def _rows(text: str, always: frozenset[str] = frozenset()) -> dict[str, ApiRow]:
    rows: dict[str, ApiRow] = {}
    for line in text.splitlines():
        left, _, right = line.partition("/ ")
        words = left.split()
        if not words:
            continue
        name, kind, *roles = words
        spelled = tuple(f"arg{i}" if role == "-" else role for i, role in enumerate(roles))
        flags = frozenset(right.split()) | always
        if "Async" in name and "async" not in flags:
            flags |= {"async"}
        rows[name] = ApiRow(name, ApiKind(kind), spelled, flags)
    return rows


ROWS: dict[str, ApiRow] = {
    **_rows(api_runtime.ROWS),
    **_rows(api_driver.ROWS, frozenset({"driver"})),
    **_rows(api_library.ROWS, frozenset({"library"})),
}

_VARIANT = re.compile(r"(?:_v\d+)?(?:_ptsz|_ptds)?$")
_CUDA_NAME = re.compile(r"(?:cuda|cu)[A-Z]\w*$")
_COMPLEX = re.compile(r"cu(?:C(?:real|imag|add|sub|mul|div|abs|fma)f?|Conjf?|Complex\w*|DoubleComplex|FloatComplex)$")
_CHECK_NAME = re.compile(r"check|err|assert|safe|try|verify|must|require|throw|wrap", re.IGNORECASE)


@lru_cache(maxsize=8192)
def lookup(name: str, argc: int) -> ApiRow | None:
    """The row for a call of `name` with `argc` arguments, or None when `name` is no modelled API function. `_v2` and
    per-thread-stream (`_ptsz`) spellings are the same function; some names mean different roles by argument count."""
    row = ROWS.get(f"{name}#{argc}") or ROWS.get(name)
    if row is None:
        plain = _VARIANT.sub("", name)
        if plain != name:
            row = ROWS.get(f"{plain}#{argc}") or ROWS.get(plain)
    if row is None and name.startswith("cu") and name[2:3].isupper():
        twin = lookup(f"cuda{name[2:]}", argc)  # the runtime function of the same shape
        if twin is not None:
            row = ApiRow(name, twin.kind, twin.roles, twin.flags | {"driver"})
    if row is None and not _CHECK_NAME.search(name):
        found = api_library.guess(name)
        if found is not None:
            kind, roles, flags = found
            row = ApiRow(name, ApiKind(kind), roles, frozenset(flags))
    return row


def is_listed(name: str) -> bool:
    """Whether a name has a row of its own, rather than being classified by how it is spelled."""
    return name in ROWS or _VARIANT.sub("", name) in ROWS


@lru_cache(maxsize=8192)
def is_work(name: str) -> bool:
    """Whether a name is that of a listed function that does work or waits: whoever is handed it may call it."""
    name = name.removeprefix("::")
    row = ROWS.get(name) if name.startswith("cu") else None
    return row is not None and row.kind is not ApiKind.NEUTRAL


@lru_cache(maxsize=8192)
def looks_like_cuda(name: str) -> bool:
    """Whether an unknown function name is spelled like one of CUDA's own (`cudaFooBar`, `cuFooBar`), so that a call of
    it must be taken as unmodelled unless the program defines it. Names of types and of checking wrappers are not."""
    if not _CUDA_NAME.match(name) or name.endswith("_t") or _COMPLEX.match(name):
        return False
    return not _CHECK_NAME.search(name)


def assign_roles(row: ApiRow, argc: int) -> tuple[str, ...]:
    """The role of each of `argc` arguments."""
    roles = row.roles
    if argc <= len(roles):
        return roles[:argc]
    return roles + tuple(f"arg{i}" for i in range(len(roles), argc))
