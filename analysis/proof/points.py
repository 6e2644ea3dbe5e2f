"""Points of the host's own code where it matters that device work is complete though no memory is named there: a clock,
code that is not here, the end of the program.

The executor makes an op of each (`Options.observed`), so that what is complete there can be compared. A call is such a
point unless it is followed or known to leave the device alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stitchcuda.analysis.findings.waits import HARMLESS, callee_name, last_name, takes_time
from stitchcuda.analysis.order.host import host_library
from stitchcuda.analysis.program.ir import (
    Api,
    ApiKind,
    Call,
    Construct,
    Declare,
    Expr,
    Function,
    Lambda,
    Member,
    Name,
    New,
    Opaque,
    Program,
    Record,
    Site,
    Stmt,
    Throw,
    TypeRef,
    walk,
)
from stitchcuda.analysis.program.link import resolve
from stitchcuda.analysis.proof.standard import Standard

TIME = "takes a time"
HANDOVER = "hands data to other processes or devices"
UNKNOWN = "calls code that is not here"
LEAVES = "ends the program"
ASKS = "asks for the last error"

_HANDOVER = re.compile(r"^(MPI_|PMPI_|nccl|nvshmem|shmem_|cuFile|cufile|ucp_|ucx|gdr_|rdma|NvSci)")
_THREADS = re.compile(r"thread|async|^join$|^detach$|^lock$|^unlock$|^try_lock$|^notify_|^wait$|^wait_for$|atomic")
_DEPTH = 6  # of objects within objects
_MEASURES = frozenset({ApiKind.ELAPSED_TIME, ApiKind.QUERY})
_UNKNOWN_APIS = frozenset({ApiKind.RESET, ApiKind.UNMODELLED})
_ASKS_MEMORY = frozenset({"cudaMemGetInfo", "cuMemGetInfo", "cudaMemPoolTrimTo", "cudaMemPoolGetAttribute"})
# Calls that neither see how far the device has come nor change anything that running work uses.
CALM = re.compile(
    r"^cu(da)?(GetLastError|PeekAtLastError|GetError(String|Name)|GetDevice\w*|Device(Get|Can)\w+|DeviceEnablePeerAccess"
    r"|(Driver|Runtime)GetVersion|Func(Get|Set)\w+|Occupancy\w+|ChooseDevice|PointerGetAttributes?|Stream(Get|IsCapturing)\w*"
    r"|MemAdvise|MemPool[SG]etAttribute|Create(Channel|Texture|Surface)\w*|HostGetFlags|GetSymbol\w+|Init|InitDevice|Ctx(Get|Create)\w*"
    r"|Module(Load|Get)\w*|Event(Create|Destroy)\w*|Stream(Create|Destroy)\w*|dnnCreate\w*|(blas|fft|rand|sparse|solver)\w*(Create|Set|Get)\w*)$"
)
_ASKS_ERROR = frozenset({"cudaGetLastError", "cudaPeekAtLastError"})
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast", "sizeof", "alignof", "decltype"})
_PLAIN_TYPES = re.compile(
    r"^(std::.*|auto|void|bool|char|signed|unsigned|short|int|long|float|double|half|__half|__nv_bfloat16|dim3|FILE|size_t|ssize_t"
    r"|u?int\d*(_t)?|u?(char|short|long|float|double|int)[1-4]|(un)?signed .*|long .*|short .*|cu[A-Z]\w*|CU\w+|cuda\w+|time_t|timeval|timespec|.*_t)$"
)
_PARALLEL = re.compile(rb"#[ \t]*pragma[ \t]+(omp|acc)\b|\b_Pragma\b|\bpthread_create\b|\bstd::(j?thread|async)\b")


@dataclass
class Points:
    """The points of a program. `reasons` says of each what the host does there; memoised."""

    program: Program
    _inside: dict[str, tuple[str, str]] = field(default_factory=dict)  # of functions that are not followed
    _standard: Standard = field(init=False)

    def __post_init__(self) -> None:
        self._standard = Standard(self.program)

    def of(self, functions: Iterable[str], unresolved: frozenset[Site] = frozenset()) -> dict[Site, tuple[str, str]]:
        """Site -> (what the host does there, one of the constants above; the name it calls). `unresolved`: calls that the
        executor could not follow."""
        found: dict[Site, tuple[str, str]] = {}
        for uid in functions:
            function = self.program.functions.get(uid)
            if function is None or function.body is None or function.space in ("global", "device"):
                continue
            known = _lambdas(function)
            for node in walk(function.body):
                reason = self._reason(function, node, known)
                site = Site(uid, function.path, node.span)
                if reason is None and site in unresolved and isinstance(node, Call):
                    name = callee_name(node) or "a pointer"
                    reason = None if self._is_standard(function, name) else (UNKNOWN, name)
                if reason is not None:
                    found.setdefault(site, reason)
        return found

    def strange(self, functions: Iterable[str], sources: Mapping[str, bytes]) -> tuple[str, str, int] | None:
        """Code whose effect has no point of its own: objects of types that are not here, other host threads. As what, the
        path and the offset in the file."""
        aliases = {name for module in self.program.modules.values() for name, _ in module.aliases}
        for uid in functions:
            function = self.program.functions.get(uid)
            if function is None or function.body is None or function.space in ("global", "device"):
                continue
            text = sources.get(function.path, b"")[function.base : function.base + function.span[1]]
            parallel = _PARALLEL.search(text)
            if parallel is not None:
                return "several host threads run here", function.path, function.base + parallel.start()
            for node in walk(function.body):
                what = ""
                if isinstance(node, Api) and node.kind is ApiKind.UNMODELLED:
                    what = f"what `{node.name}` does is not modelled"
                if isinstance(node, Opaque) and node.what == "asm":
                    what = "assembly is written here"
                if isinstance(node, (Declare, New, Construct)):
                    what = self._strange(function, node.type, aliases)
                elif isinstance(node, Name) and node.template:  # std::make_unique<Timer>()
                    given = [t for t in node.template if isinstance(t, TypeRef)]
                    what = next((w for t in given if (w := self._strange(function, t, aliases))), "")
                elif isinstance(node, Call) and isinstance(node.callee, Name):
                    meant = resolve(self.program, function.path, node.callee.name, len(node.args))
                    if len(meant) > 1 and any(f.uid in self.program.reaches_cuda for f in meant):
                        what = f"`{node.callee.name}` may mean several functions"
                elif isinstance(node, Call) and isinstance(node.callee, Member) and self._overridden(node.callee.name):
                    what = f"which `{node.callee.name}` is called may be decided when the program runs"
                if what:
                    return what, function.path, function.base + node.span[0]
        return None

    def _overridden(self, name: str) -> bool:
        """Methods of that name stand in a class and in one of its bases, and work on the device."""
        uids = self.program.by_name.get(name, ())
        if len(uids) < 2 or self.program.reaches_cuda.isdisjoint(uids):
            return False
        owners = {last_name(self.program.functions[u].record) for u in uids}
        bases = {
            last_name(base)
            for record in self.program.records.values()
            if last_name(record.name) in owners
            for base in record.bases
        }
        return not owners.isdisjoint(bases)

    def dies_with_the_program(self) -> str:
        """The type of a global object whose destructor runs behind the end of `main`; "" for none."""
        for module in self.program.modules.values():
            for declared in module.globals:
                bare = last_name(declared.type.name)
                if not declared.type.pointer and self.program.by_name.get(f"~{bare}"):
                    return declared.type.name
        return ""

    def _strange(self, function: Function, type_: TypeRef, aliases: set[str], depth: int = 0) -> str:
        """What an object of this type, or one that it holds, may do when it is made or dies and that is not seen; "" for
        nothing."""
        bare = last_name(type_.name)
        if type_.pointer or type_.reference or not type_.name or depth > _DEPTH:
            return ""
        if type_.name in function.template or bare in function.template:
            return ""
        inner = list(type_.args)
        records = [r for name, r in self.program.records.items() if last_name(name) == bare]
        if bare in aliases:
            inner += [t for m in self.program.modules.values() for name, t in m.aliases if name == bare and t != type_]
        elif records:
            inner += [TypeRef(base) for r in records for base in r.bases]
            inner += [f.type for r in records for f in r.fields if not f.static]
            what = self._made_or_dies(bare, records)
            if what:
                return f"an object of type `{type_.name}` {what} when it is made or dies"
        elif not _PLAIN_TYPES.match(type_.name):
            return f"type `{type_.name}` is not here"
        return next((w for t in inner if (w := self._strange(function, t, aliases, depth + 1))), "")

    def _made_or_dies(self, bare: str, records: list[Record]) -> str:
        """What constructors, destructors and initial values of members do that is not seen; "" for nothing."""
        for uid in (*self.program.by_name.get(bare, ()), *self.program.by_name.get(f"~{bare}", ())):
            reason = self._body(uid) if uid not in self.program.reaches_cuda else None
            if reason is not None:
                return f"{reason[0]} (`{reason[1]}`)"
        for field_ in (f for r in records for f in r.fields if f.init is not None):
            for node in walk(field_.init) if field_.init is not None else ():
                if isinstance(node, Call) and takes_time(callee_name(node)):
                    return f"{TIME} (`{callee_name(node)}`)"
        return ""

    def _reason(self, function: Function, node: Stmt | Expr, known: frozenset[str]) -> tuple[str, str] | None:
        if isinstance(node, Throw):
            return LEAVES, "throw"
        if isinstance(node, Api):
            if node.kind in _MEASURES:
                return TIME, node.name
            if node.name in _ASKS_ERROR:
                return ASKS, node.name
            if node.kind in _UNKNOWN_APIS:
                return UNKNOWN, node.name
            if node.name in _ASKS_MEMORY or (node.kind is ApiKind.NEUTRAL and not CALM.match(node.name)):
                return UNKNOWN, node.name  # releases a texture, unloads a module, ends a profile, sets a limit, ...
            return None
        return self._call(function, node, known) if isinstance(node, Call) else None

    def _call(self, function: Function, call: Call, known: frozenset[str]) -> tuple[str, str] | None:
        name = callee_name(call)
        if not name:
            return UNKNOWN, "a pointer"
        if name in known or name in _CASTS or name in host_library.VARIADIC or name.removeprefix("std::") == "free":
            return None
        bare = last_name(name)
        method = isinstance(call.callee, Member)
        uids = (
            self.program.by_name.get(bare, ())
            if method
            else tuple(f.uid for f in resolve(self.program, function.path, name, len(call.args)))
        )
        uids = tuple(u for u in uids if self.program.functions[u].space not in ("global", "device"))
        if uids:
            reasons = [self._body(u) for u in uids if u not in self.program.reaches_cuda]
            return next((r for r in reasons if r is not None), None)
        if any(isinstance(a, Api) for a in call.args):
            return None  # looks at a status
        if _HANDOVER.match(bare):
            return HANDOVER, name
        if takes_time(name):
            return TIME, name
        if bare in host_library.ENDS:
            return LEAVES, name
        if _THREADS.search(name):
            return UNKNOWN, name
        if HARMLESS.match(name) or host_library.known(bare) or (method and bare in host_library.QUIET_METHODS):
            return None
        if any(last_name(record) == bare for record in self.program.records):
            return None  # a construction
        if re.match(r"^cuda(GetErrorString|GetErrorName)$", name) or bare == "dim3":
            return None
        return None if self._is_standard(function, name) else (UNKNOWN, name)

    def _is_standard(self, function: Function, name: str) -> bool:
        return self._standard.sees_only(function.path) and not self._standard.declares(last_name(name))

    def _body(self, uid: str) -> tuple[str, str] | None:
        if uid not in self._inside:
            self._inside[uid] = ("", "")  # recursion adds nothing
            function = self.program.functions[uid]
            nodes = walk(function.body) if function.body is not None else ()
            known = _lambdas(function)
            found = (self._reason(function, n, known) for n in nodes)
            self._inside[uid] = next((r for r in found if r is not None), ("", ""))
        reason = self._inside[uid]
        return reason if reason[0] else None


def _lambdas(function: Function) -> frozenset[str]:
    if function.body is None:
        return frozenset()
    return frozenset(n.name for n in walk(function.body) if isinstance(n, Declare) and isinstance(n.init, Lambda))
