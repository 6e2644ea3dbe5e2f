"""From a Program and one of its entry functions to a Timeline, by symbolic execution."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from stitchcuda.analysis.order.effort import CUT_WITHOUT_WORK
from stitchcuda.analysis.order.host.global_objects import GlobalObjects
from stitchcuda.analysis.order.recorder import Frame, Options, OutOfEffort
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.timeline import Cut, Memory, Timeline
from stitchcuda.analysis.order.values import Identity, Place
from stitchcuda.analysis.program.ir import ApiKind, Expr, Program, Site, TypeRef

END = "the end of the program"  # the op that stands for it when `Options.observed` asks for such ops
RECURSION_LIMIT = 12_000  # the executor recurses over expressions, statements and calls, each of them bounded


class Executor(GlobalObjects):
    """The top layer: runs one entry function, once."""

    def __init__(
        self,
        program: Program,
        options: Options,
        sources: Mapping[str, bytes] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(program, options)
        self._sources = sources or {}
        self._cancelled = cancelled

    def source_of(self, expr: Expr | None) -> str:
        if expr is None:
            return ""
        function = self.frame.function
        text = self._sources.get(function.path)
        if text is None:
            return ""
        start, end = function.base + expr.span[0], function.base + expr.span[1]
        return " ".join(text[start:end].decode("utf-8", "replace").split())

    def run(self, entry: str) -> Timeline:
        function = self.program.functions[entry]
        frame = Frame(function, (), [{}])
        self.frames = [frame]
        idle = function.language != "python" and entry not in self.program.reaches_cuda
        if idle:
            self.effort.cut = CUT_WITHOUT_WORK
        self.runs(function)
        state = State()
        try:
            if function.record:
                whose = Identity("parameter", "", "", 0, 0, (), (), f"this:{function.record}")
                frame.this = Place(self.object_for(whose, "this", type=TypeRef(function.record), origin="parameter").id)
            for param in function.params:
                if param.name:
                    identity = Identity(
                        "parameter", function.path, entry, param.span[0], param.span[1], (), (), param.name
                    )
                    obj = self.object_for(
                        identity, param.name, type=param.type, origin="parameter", memory=Memory.PAGEABLE
                    )
                    frame.scopes[0][param.name] = Place(obj.id)
            if function.body is not None:
                made = (
                    self.construct_globals(function, state) if function.name == "main" and not function.record else []
                )
                for end, _ in self.run_body(function.body, state):
                    self.run_registered(end)
                    self.destroy_globals(made, function, end)
                    if self.options.observed is not None:
                        self.emit_host(end, ApiKind.NEUTRAL, END, function.name_span)
        except (OutOfEffort, RecursionError) as stop:
            what = f"analysis stopped early: {stop if isinstance(stop, OutOfEffort) else 'nesting too deep'}"
            if idle and not self.ops and isinstance(stop, OutOfEffort):
                what = "no device work is reached from here: not followed further"
            self.cuts[Cut(Site(entry, function.path, function.name_span), what)] = None
        return self.timeline(entry)

    def done(self) -> None:
        """It is not used any more: it lets go of what refers to it, so that all goes now and not with some later collection."""
        self._evaluators.clear()


def execute_entry(
    program: Program,
    entry: str,
    *,
    options: Options | None = None,
    sources: Mapping[str, bytes] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Timeline:
    """The Timeline of one entry function. `sources` (path -> text) is only used to quote grid and block expressions. Raises Cancelled
    soon after `cancelled` is true."""
    if sys.getrecursionlimit() < RECURSION_LIMIT:
        sys.setrecursionlimit(RECURSION_LIMIT)
    executor = Executor(program, options or Options(), sources, cancelled)
    try:
        return executor.run(entry)
    finally:
        executor.done()
