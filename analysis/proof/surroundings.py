"""What a program does around the code that is compared, and that keeps a comparison from holding: handlers of exceptions
that go on with the device, memory that other processes share, default streams of threads, parallel regions within macros."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from stitchcuda.analysis.findings.waits import callee_name, last_name
from stitchcuda.analysis.order.host import host_library
from stitchcuda.analysis.program.ir import (
    Api,
    Block,
    Call,
    Evaluate,
    Function,
    Index,
    Launch,
    Name,
    Program,
    Return,
    Stmt,
    Throw,
    Try,
    walk,
)

# Memory and events that other processes or runtimes use, at times that no program here shows (X1).
_SHARED = re.compile(
    r"^cu(da)?(Ipc|ImportExternal|ExternalMemory|Graphics|WaitExternal|SignalExternal|MemPool(Ex|Im)port|MemExport)"
)
_PARALLEL_MACRO = re.compile(rb'\b_Pragma\s*\(\s*"\s*(omp|acc)\b')
_PER_THREAD = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+CUDA_API_PER_THREAD_DEFAULT_STREAM\b", re.MULTILINE)

Place = tuple[str, str, int]  # what, path, offset in the file


def unfollowed(program: Program, functions: Iterable[str], sources: Mapping[str, bytes]) -> Iterator[Place]:
    """What the Timelines of these functions leave out."""
    paths = set()
    for uid in functions:
        function = program.functions.get(uid)
        if function is None or function.body is None or function.space in ("global", "device"):
            continue
        paths.add(function.path)
        for node in walk(function.body):
            picked = node.index if isinstance(node, Index) else None
            if picked is not None and any(isinstance(n, Name) and n.name in function.template for n in walk(picked)):
                what = "a template argument picks what is used here, which is not followed"
                yield what, function.path, function.base + node.span[0]
            elif isinstance(node, Api) and _SHARED.match(node.name):
                yield f"`{node.name}`: others use this memory", function.path, function.base + node.span[0]
            elif isinstance(node, Try) and _works(program, node.body):
                for handler in node.handlers:
                    if not ends(function, handler) or _works(program, handler):
                        what = "the program goes on when an exception is handled here, which is not followed"
                        yield what, function.path, function.base + handler.span[0]
    seen = set().union(paths, *(program.visible.get(path, frozenset()) for path in paths))
    for path in sorted(seen & sources.keys()):
        found = _PARALLEL_MACRO.search(sources[path])
        if found is not None:
            yield "several host threads run where this is used", path, found.start()
        found = _PER_THREAD.search(sources[path])
        if found is not None and not path.endswith(".cu"):  # O7: no effect in what nvcc compiles
            yield "each host thread has a default stream of its own", path, found.start()


def _works(program: Program, block: Block) -> bool:
    """It works on the device, itself or in what it calls."""
    return any(
        isinstance(n, (Api, Launch))
        or (
            isinstance(n, Call)
            and not program.reaches_cuda.isdisjoint(program.by_name.get(last_name(callee_name(n)), ()))
        )
        for n in walk(block)
    )


def ends(function: Function, branch: Stmt) -> bool:
    """The program is over behind a branch of a function."""
    last: Stmt | None = branch
    while isinstance(last, Block):
        last = last.body[-1] if last.body else None
    if isinstance(last, Return):
        return function.name == "main"
    if isinstance(last, Evaluate) and isinstance(last.expr, Call):
        return last_name(callee_name(last.expr)) in host_library.ENDS
    return isinstance(last, Throw)
