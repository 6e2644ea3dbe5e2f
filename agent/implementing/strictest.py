"""G1 of a host stage: the strictest caller that the declaration allows, and what the hazard rules say of it.

The caller gives it memory that is still being written on its stream, uses its outputs there right behind it, writes its inputs again,
reads and writes the memory of the host as soon as it has returned, and calls it twice. A stage that uses another stream without an
order, returns before what it leaves on the host is there, or keeps using memory that the caller has back, is a hazard in that caller.
What is not followed is no pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from stitchcuda.agent.implementing.parameters import LIBRARIES, flat, is_pointer, pointee
from stitchcuda.agent.implementing.placing import opened
from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, RuleInput
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.order.symbolic import ZERO, Poly, at_least
from stitchcuda.analysis.order.timeline import Access, Buffer, Certainty, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import RELEASES, Api, ApiKind, Delete, Function, New, Site, Span, walk
from stitchcuda.analysis.rules import RULES
from stitchcuda.gpu_validate.verdict import GateFinding, GateState

CALLER = "stitchcuda_caller"
_FILLS, _TAKES = "stitchcuda_fills", "stitchcuda_takes"
_WRITES = frozenset({Mode.WRITE, Mode.ATOMIC})
_PAIRS = ((ApiKind.STREAM_CREATE, ApiKind.STREAM_DESTROY), (ApiKind.EVENT_CREATE, ApiKind.EVENT_DESTROY))
_MADE = {ApiKind.STREAM_CREATE: "a stream", ApiKind.EVENT_CREATE: "an event"}
_ALLOCATES = frozenset({ApiKind.ALLOC, ApiKind.HOST_ALLOC})
_ON_HOST = frozenset({ApiKind.HOST_READ, ApiKind.HOST_WRITE})
_BY_NAME = (  # what makes something that the Timeline does not follow to its end, what ends it, and what it is
    (r"cudaGraphCreate|cudaGraphClone|cudaStreamEndCapture", "cudaGraphDestroy", "a graph"),
    (r"cudaGraphInstantiate\w*", "cudaGraphExecDestroy", "an executable graph"),
    (r"cudaMemPoolCreate", "cudaMemPoolDestroy", "a memory pool"),
    (r"cudaHostRegister", "cudaHostUnregister", "a registration of host memory"),
    (r"cudaCreateTextureObject", "cudaDestroyTextureObject", "a texture object"),
    (r"cudaCreateSurfaceObject", "cudaDestroySurfaceObject", "a surface object"),
    (r"cufftPlan\w+|cufftCreate", "cufftDestroy", "a plan"),
    *((make, end, "a handle") for make, _, end in LIBRARIES.values()),
)
_OWNS = re.compile(r"\b(?:unique_ptr|shared_ptr)\b")


@dataclass(frozen=True)
class Looked:
    """What was found. `accesses` are the modes by parameter."""

    state: GateState
    findings: tuple[GateFinding, ...] = ()
    accesses: Mapping[str, list[str]] | None = None

    @property
    def reason(self) -> str:
        return self.findings[0].what if self.findings and self.state is not GateState.PASSED else ""


def caller_of(stage: Stage, allocate: str = "cudaMalloc") -> str:
    """The text of the caller. `allocate` makes what it has on the device."""
    on_host = {buffer.name: buffer.extent for buffer in stage.host}
    pointers = {p.name: pointee(t) for p, t in zip(stage.parameters, stage.texts, strict=True) if is_pointer(p)}
    kinds = {name: "char" if kind == "void" else kind for name, kind in pointers.items()}
    device = {name: kind for name, kind in kinds.items() if name not in on_host}
    apart = (stage.stream, *stage.handles)
    values = [
        t for p, t in zip(stage.parameters, stage.texts, strict=True) if not is_pointer(p) and p.name not in apart
    ]
    handles = [(p.name, p.type.name, *LIBRARIES[p.type.name]) for p in stage.parameters if p.name in stage.handles]
    stream = stage.stream or "0"

    def kernel(name: str, use: str) -> str:
        const = "const " if name == _TAKES else ""
        declared = ", ".join(f"{const}{kind} *{p}" for p, kind in device.items()) or "int none"
        body = " ".join(use.format(p=p) for p in device)
        return f"__global__ void {name}({declared}) {{ {body} }}"

    launch = "{}<<<1, 1, 0, " + stream + ">>>(" + (", ".join(device) or "0") + ");"
    called = f"{stage.name}({', '.join(p.name for p in stage.parameters)});"
    lines = [
        kernel(_FILLS, "{p}[threadIdx.x] = {p}[threadIdx.x] + 1;"),
        kernel(_TAKES, "auto v_{p} = {p}[threadIdx.x];"),
        f"void {CALLER}({', '.join([*values, 'size_t stitchcuda_bytes'])}) {{",
        *(f"{kind} *{name};" for name, kind in kinds.items()),
        *(
            [f"cudaStream_t {stream};", f"cudaStreamCreateWithFlags(&{stream}, cudaStreamNonBlocking);"]
            if stage.stream
            else []
        ),
        *(f"{allocate}(&{name}, stitchcuda_bytes);" for name in device),
        *(f"cudaMallocHost(&{name}, {_bytes(kinds[name], of)});" for name, of in on_host.items()),
        *(f"{kind} {name}; {make}(&{name}); {bind}({name}, {stream});" for name, kind, make, bind, _ in handles),
        "for (int stitchcuda_k = 0; stitchcuda_k < 2; ++stitchcuda_k) {",
        *(f"{name}[0] = {name}[0] + 1;" for name in kinds if name in on_host),
        launch.format(_FILLS),
        called,
        *(f"{name}[0] = {name}[0] + 1;" for name in kinds if name in on_host),
        launch.format(_TAKES),
        "}",
        launch.format(_FILLS),
        f"cudaStreamSynchronize({stream});",
        *(f"{end}({name});" for name, _, _, _, end in handles),
        *(f"cudaFree({name});" for name in device),
        *(f"cudaFreeHost({name});" for name in kinds if name in on_host),
        *([f"cudaStreamDestroy({stream});"] if stage.stream else []),
        "}",
    ]
    heads, tails = opened(stage, b"\n")
    return "\n" + heads.decode() + "\n".join(lines) + "\n" + tails.decode()


def _bytes(kind: str, extent: str) -> str:
    return f"({extent}) * sizeof({kind})" if extent else "stitchcuda_bytes"


def looked_at(after: Analysis, stage: Stage, constants: frozenset[str]) -> Looked:
    """`after` is the program with the definition, `constants` are the device constants that it brings."""
    found = _with_caller(after, stage)
    functions = [f for f in found.program.functions.values() if f.body is not None]
    caller = next((f for f in functions if f.name == CALLER), None)
    own = next((f for f in functions if f.qualified == stage.function.qualified and f.path == stage.file), None)
    if caller is None or caller.has_error or own is None or own.has_error:
        what = f"the definition of `{stage.name}` was not understood"
        return Looked(GateState.UNTESTED, (GateFinding(what, stage.file, 0),))
    return _Look(found, stage, constants, caller, own).looked(lambda: _used_on_host(after, stage))


def _used_on_host(after: Analysis, stage: Stage) -> Iterator[tuple[Site, str]]:
    """Where the host reads or writes what is memory of the device. It is asked with managed memory in its place: what the host does
    with that is followed, by whatever name it goes."""
    found = _with_caller(after, stage, "cudaMallocManaged")
    caller = next(f for f in found.program.functions.values() if f.name == CALLER)
    timeline, on_host = found.executed(caller.uid, Options()), {buffer.name for buffer in stage.host}
    for op in timeline.ops:
        for access in op.accesses if op.kind in _ON_HOST and op.function != caller.uid else ():
            buffer = timeline.buffers[access.buffer]
            if buffer.site is not None and buffer.site.function == caller.uid and buffer.name not in on_host:
                yield op.site, buffer.name


def _with_caller(after: Analysis, stage: Stage, allocate: str = "cudaMalloc") -> Analysis:
    """The analysis of what the stage's file sees, with the caller at its end."""
    seen = after.program.visible.get(stage.file, frozenset()) | after.program.linked.get(stage.file, frozenset())
    index = Index(findings=False)
    for path in sorted({stage.file, *seen} & after.sources.keys()):
        text = after.sources[path]
        index.put(path, text + caller_of(stage, allocate).encode() if path == stage.file else text)
    return index.analyse()


def _outside(access: Access, size: Poly | None) -> bool:
    """Surely before the beginning or behind the end of a buffer of that many bytes."""
    placed = access.range
    if access.certainty is not Certainty.MUST or access.one_of or placed.member or placed.offset is None:
        return False
    behind = size is not None and placed.extent is not None and at_least(size, placed.offset + placed.extent) is False
    return behind or at_least(placed.offset, ZERO) is False


class _Look:
    """The caller's Timeline, read."""

    def __init__(
        self, found: Analysis, stage: Stage, constants: frozenset[str], caller: Function, own: Function
    ) -> None:
        self._found, self._stage, self._constants = found, stage, constants
        self._caller, self._own = caller, own
        self._line = self._at_line(own.path, own.base)
        self._timeline: Timeline = found.executed(caller.uid, Options())
        self._inside = [op for op in self._timeline.ops if op.function != caller.uid]
        self._on_host = {buffer.name for buffer in stage.host}

    def looked(self, used_on_host: Callable[[], Iterator[tuple[Site, str]]]) -> Looked:
        accesses = self._accesses()
        if unknown := tuple(dict.fromkeys(self._not_followed())):
            return Looked(GateState.UNTESTED, unknown, accesses)
        wrong = [*self._beyond(), *self._hazards()]
        for site, name in used_on_host():
            what = f"the host uses `{name}`, which is memory of the device (host= names others)"
            wrong.append((self._at(site, what), True))
        for sure in (True, False):
            if told := tuple(dict.fromkeys(one for one, certain in wrong if certain or not sure)):
                return Looked(GateState.FAILED if sure else GateState.UNTESTED, told, accesses)
        return Looked(GateState.PASSED, (), accesses)

    def _not_followed(self) -> Iterator[GateFinding]:
        for cut in self._timeline.cuts:
            yield self._at(cut.site, f"it could not be followed: {cut.what}")
        for site in sorted(self._timeline.unresolved, key=lambda s: (s.path, s.function, s.span)):
            place = self._found.program.locate(site)
            words = self._found.sources[place.path][place.start : place.end].decode("utf-8", "replace").split()
            yield self._at(site, f"`{' '.join(words)[:80]}` calls code that is not known")
        for op in self._inside:
            if op.unknown:
                yield self._at(op.site, f"what `{op.kernel or op.api}` does to memory is not known")

    def _hazards(self) -> Iterator[tuple[GateFinding, bool]]:
        """Findings of the hazard rules, and leaks; sure unless they are only possible."""
        given = RuleInput(self._timeline, self._found.program, self._found.sources)
        for rule in RULES:
            for finding in rule.check(given):
                leaks = finding.code == "leak" and finding.site.function != self._caller.uid
                if finding.group is Group.CORRECTNESS or leaks:
                    yield self._told(finding), finding.confidence is not Confidence.POSSIBLE

    def _told(self, finding: Finding) -> GateFinding:
        """At a line of the stage where one has to do with it."""
        said = finding.message
        for kernel in (_FILLS, _TAKES):
            said = said.replace(f"`{kernel}`", "work of its caller")
        sites = (finding.site, *(r.site for r in finding.related))
        site = next((s for s in sites if s.function != self._caller.uid), finding.site)
        promised = (
            f"{finding.code}: with a caller that does no more than the declaration of `{self._stage.name}` allows"
        )
        return self._at(site, f"{promised}, {said}")

    def _beyond(self) -> Iterator[tuple[GateFinding, bool]]:
        """What the declaration does not give it, and what it does not give back."""
        written: set[str] = set()
        freed: set[int] = set()
        for op in self._inside:
            for access in op.accesses:
                buffer = self._timeline.buffers[access.buffer]
                if op.kind in RELEASES:
                    freed.add(buffer.id)
                if self._is_callers(buffer):
                    written |= {buffer.name} if access.mode in _WRITES and op.kind not in RELEASES else set()
                    if what := self._misused(op, access, buffer.name):
                        yield self._at(op.site, what), True
                elif buffer.origin == "global" and (buffer.name not in self._constants or access.mode in _WRITES):
                    yield self._at(op.site, f"it uses `{buffer.name}`, which the declaration does not give it"), True
        for name in self._stage.outputs:
            if name not in written:
                yield GateFinding(f"it never writes `{name}`, an output of the stage", self._own.path, self._line), True
        for op in self._inside:
            made = [b for b in self._timeline.buffers if b.alloc_op == op.id] if op.kind in _ALLOCATES else []
            if made and made[0].id not in freed:
                yield self._at(op.site, f"it never releases `{made[0].name}`, which it allocates"), True
        for make, end in _PAIRS:
            makes = [op for op in self._inside if op.kind is make]
            if len(makes) > len([op for op in self._inside if op.kind is end]):
                yield self._at(makes[0].site, f"{_MADE[make]} that it makes is never destroyed"), True
        yield from self._never_ended()

    def _misused(self, op: Op, access: Access, name: str) -> str:
        """What it does to memory of its caller that the declaration does not say."""
        if op.kind in (ApiKind.REGISTER, ApiKind.UNREGISTER):
            return f"`{op.api}` is given `{name}`, which its caller may have pinned already: do without it"
        if op.kind in RELEASES:
            return f"it releases `{name}`, which is its caller's"
        if access.mode in _WRITES and any(p.name == name and flat(p.type).const for p in self._stage.parameters):
            return f"it writes `{name}`, which is declared const"
        if name in self._on_host and _outside(access, self._timeline.buffers[access.buffer].size):
            (extent,) = (h.extent for h in self._stage.host if h.name == name)
            return f"it reaches beyond `{name}`, which has {extent} elements there (host=)"
        if op.kind is ApiKind.LAUNCH and name in self._on_host:
            return f"`{op.kernel}` is given `{name}`, which is memory of the host: copy it"
        return ""

    def _never_ended(self) -> Iterator[tuple[GateFinding, bool]]:
        """By the names in its own text, which are there or not on whatever path."""
        body = self._own.body
        assert body is not None
        nodes = list(walk(body))
        calls = [n for n in nodes if isinstance(n, Api)]
        names = {n.name for n in calls}
        for make, end, what in _BY_NAME:
            made = next((n for n in calls if re.fullmatch(make, n.name)), None)
            if made is not None and end not in names:
                yield self._at(self._here(made.span), f"{what} that it makes is never destroyed: {end}"), True
        new = [n for n in nodes if isinstance(n, New)]
        text = self._found.sources[self._own.path][self._own.base : self._own.base + self._own.span[1]]
        if new and not any(isinstance(n, Delete) for n in nodes) and not _OWNS.search(text.decode("utf-8", "replace")):
            yield self._at(self._here(new[0].span), "what it makes with `new` is never deleted"), True

    def _here(self, span: Span) -> Site:
        return Site(self._own.uid, self._own.path, span)

    def _is_callers(self, buffer: Buffer) -> bool:
        return buffer.site is not None and buffer.site.function == self._caller.uid

    def _accesses(self) -> dict[str, list[str]]:
        modes: dict[str, set[str]] = {}
        for op in self._inside:
            for access in op.accesses:
                if self._is_callers(buffer := self._timeline.buffers[access.buffer]):
                    modes.setdefault(buffer.name, set()).add(access.mode.value)
        return {name: sorted(found) for name, found in sorted(modes.items())}

    def _at(self, site: Site, what: str) -> GateFinding:
        """In the user's files: what is only in the caller is told where the stage begins."""
        if site.function == self._caller.uid:
            return GateFinding(what, self._own.path, self._line)
        place = self._found.program.locate(site)
        return GateFinding(what, place.path, self._at_line(place.path, place.start))

    def _at_line(self, path: str, offset: int) -> int:
        return self._found.sources[path].count(b"\n", 0, offset) + 1
