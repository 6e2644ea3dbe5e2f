"""Points of the host's own code that may rely on device work being complete, though they name none of its memory.

A clock that is read, a profiler, code that is not here (MPI, a file format, another thread), the end of the program.
The executor makes an op of each (`Options.observed`), so that what is complete there can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stitchcuda.analysis.findings.waits import HARMLESS, TIMER, asks_for_error, callee_name, last_name, takes_time
from stitchcuda.analysis.order.execute import END
from stitchcuda.analysis.order.host import host_library
from stitchcuda.analysis.order.host.summaries import SMALL_BODY
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
    New,
    Program,
    Site,
    Stmt,
    Throw,
    TypeRef,
    walk,
)
from stitchcuda.analysis.proof.points import CALM

_CHECK = re.compile(r"check|err|assert|safe|verify|must|require", re.IGNORECASE)
_OTHER_THREADS = frozenset(
    [
        "join",
        "detach",
        "lock",
        "unlock",
        "try_lock",
        "notify_one",
        "notify_all",
        "wait",
        "wait_for",
        "load",
        "store",
        "async",
    ]
)
_CASTS = frozenset(["raw_pointer_cast", "device_pointer_cast"])
_STANDARD_METHODS = frozenset(
    [
        "path",
        "extension",
        "filename",
        "stem",
        "string",
        "native",
        "parent_path",
        "is_regular_file",
        "is_directory",
        "seed",
    ]
)
_WRAPPERS = frozenset(["std::function", "std::thread", "std::jthread", "std::packaged_task"])
_STATUS = re.compile(r"^(::)?(cudaError(_t|_enum)?|CUresult|\w+(Status|Result)_t|cufftResult)$")
_NO_TIMER = re.compile(r"^(std::.*|time_t|timeval|timezone|timespec|tm|tms|clock_t|cuda\w+|auto)$")


@dataclass
class Observers:
    """The observers of a program, each with what it does, in words that go on "the host ...". Memoised."""

    program: Program
    _reasons: dict[str, tuple[str, str]] = field(default_factory=dict)  # uid -> of a host function that is not followed

    def sites(self, functions: Iterable[str]) -> dict[Site, str]:
        """The observers written in these functions."""
        return {site: reason for site, (reason, _) in self._found(functions)}

    def strangers(self, functions: Iterable[str]) -> dict[Site, str]:
        """The calls in these functions of code that is not here: it may start device work of its own."""
        return {site: stranger for site, (_, stranger) in self._found(functions) if stranger}

    def _found(self, functions: Iterable[str]) -> Iterator[tuple[Site, tuple[str, str]]]:
        for uid in sorted(functions):
            function = self.program.functions.get(uid)
            if function is None or function.body is None or function.space in ("global", "device"):
                continue
            quiet = _quiet_names(function)
            for node in walk(function.body):
                reason = self._reason(node, quiet)
                if any(reason):
                    yield Site(uid, function.path, node.span), reason

    def within(self, statement: Stmt) -> str:
        """What a statement does that relies on completion, empty when it does nothing of the kind."""
        return next((r for r, _ in (self._reason(n, frozenset()) for n in walk(statement)) if r), "")

    def measuring_object(self, functions: Iterable[str]) -> tuple[Site, str] | None:
        """An object that seems to measure by its lifetime and whose code is not followed: nothing says where it does."""
        for uid in functions:
            function = self.program.functions.get(uid)
            if function is None or function.body is None or function.space in ("global", "device"):
                continue
            for node in walk(function.body):
                if isinstance(node, (Declare, Construct, New)) and self._measures(node.type):
                    return Site(uid, function.path, node.span), f"`{node.type.name}` may measure time by its lifetime"
        return None

    def _measures(self, type: TypeRef) -> bool:
        name = type.name
        if type.pointer or not TIMER.search(name) or _NO_TIMER.match(name):
            return False
        bare = last_name(name)
        if name not in self.program.records and not any(last_name(r) == bare for r in self.program.records):
            return True
        ends = self.program.by_name.get(f"~{bare}", ())
        return any(uid not in self.program.reaches_cuda and self._large(uid) and self._inside(uid)[0] for uid in ends)

    def _large(self, uid: str) -> bool:
        body = self.program.functions[uid].body
        return body is not None and sum(1 for _ in walk(body)) > SMALL_BODY

    def _reason(self, node: Stmt | Expr, quiet: frozenset[str]) -> tuple[str, str]:
        """What the node does that relies on completion, and what code that is not here it calls; empty when nothing."""
        if isinstance(node, Throw):
            return "leaves by an exception", ""
        if isinstance(node, Api):
            if node.kind is ApiKind.ELAPSED_TIME:
                return f"measures time with `{node.name}`", ""
            if node.kind is ApiKind.RESET:
                return f"calls `{node.name}`", ""
            if node.kind is ApiKind.NEUTRAL and not CALM.match(node.name):
                return f"calls `{node.name}`, which running work may not get along with", ""
            return "", ""
        return self._call(node, quiet) if isinstance(node, Call) else ("", "")

    def _call(self, call: Call, quiet: frozenset[str]) -> tuple[str, str]:
        name = callee_name(call)
        if not name:
            return "calls through a pointer", "a call through a pointer"
        if name in quiet:
            return "", ""
        bare = last_name(name)
        functions = self.program.functions
        bodies = [u for u in self.program.by_name.get(bare, ()) if functions[u].space not in ("global", "device")]
        if bodies and "::" in name and not _of_the_program(name, [functions[u].qualified for u in bodies]):
            bodies = []  # `thrust::transform` is not the program's `transform`
        if bodies:
            if any(u in self.program.reaches_cuda for u in bodies):
                return "", ""  # followed
            found = [self._inside(u) for u in bodies]
            return next((r for r, _ in found if r), ""), next((s for _, s in found if s), "")
        if asks_for_error(self.program, call, set()):
            return "", ""
        return self._foreign(name, bare, isinstance(call.callee, Member))

    def _foreign(self, name: str, bare: str, method: bool) -> tuple[str, str]:
        """Of a call whose code is not here."""
        standard = "::" not in name.removeprefix("::") or name.removeprefix("::").startswith("std::")
        if bare in host_library.VARIADIC or bare in _CASTS:
            return "", ""
        if standard and bare == "free":
            return f"releases host memory with `{name}`", ""
        if takes_time(name):
            return f"takes a time with `{name}`", "" if standard else f"`{name}`"
        if not standard:
            return f"calls `{name}`, whose code is not here", f"`{name}`"
        if bare in host_library.ENDS:
            return f"ends the program with `{name}`", ""
        if bare in _OTHER_THREADS or "thread" in name:
            return f"meets other threads in `{name}`", f"another thread, met in `{name}`,"
        if _CHECK.search(bare) or HARMLESS.match(name) or host_library.known(bare):
            return "", ""
        if method and (bare in host_library.QUIET_METHODS or bare in _STANDARD_METHODS):
            return "", ""
        if bare in self.program.records or any(last_name(r) == bare for r in self.program.records):
            return "", ""  # `T(x)`: a construction
        return f"calls `{name}`, whose code is not here", f"`{name}`"

    def _inside(self, uid: str) -> tuple[str, str]:
        """Of a host function of the program."""
        known = self._reasons.get(uid)
        if known is None:
            self._reasons[uid] = ("", "")  # recursion adds nothing
            function = self.program.functions[uid]
            quiet = _quiet_names(function)
            nodes = walk(function.body) if function.body is not None else ()
            found = [self._reason(n, quiet) for n in nodes if not (_looks_at_status(function) and _gives_up(n))]
            known = next((r for r, _ in found if r), ""), next((s for _, s in found if s), "")
            self._reasons[uid] = known
        return known


def _of_the_program(name: str, qualified: Iterable[str]) -> bool:
    """Whether a qualified name means one of these functions."""
    wanted = name.removeprefix("::")
    return any(q == wanted or q.endswith(f"::{wanted}") or wanted.endswith(f"::{q}") and "::" in q for q in qualified)


def _looks_at_status(function: Function) -> bool:
    """A check of the program's own: it is given the status of a call."""
    return any(_STATUS.search(p.type.name) for p in function.params)


def _gives_up(node: Stmt | Expr) -> bool:
    """What a check does when something failed."""
    return isinstance(node, Throw) or (isinstance(node, Call) and last_name(callee_name(node)) in host_library.ENDS)


def reason_at(reasons: dict[Site, str], site: Site, api: str) -> str:
    """What the host does at an observer's op."""
    return "ends the program" if api == END else reasons.get(site, f"calls `{api}`")


def _quiet_names(function: Function) -> frozenset[str]:
    """Local names that are called but are no foreign code: lambdas, which are followed, and objects of the standard
    library (`uniform(generator)`)."""
    if function.body is None:
        return frozenset()
    declared = [n for n in walk(function.body) if isinstance(n, Declare)]
    standard = {n.name for n in declared if n.type.name.startswith("std::") and n.type.name not in _WRAPPERS}
    return frozenset({n.name for n in declared if isinstance(n.init, Lambda)} | standard)
