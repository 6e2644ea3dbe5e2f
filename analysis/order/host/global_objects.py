"""Objects at namespace scope: their constructors run before `main`, their destructors after it."""

from __future__ import annotations

from stitchcuda.analysis.order.host.loops import Loops
from stitchcuda.analysis.order.host.names import plain
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.values import Place
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Declare, Expr, Function, Record, Span

Made = tuple[Place, Record]


class GlobalObjects(Loops):
    """Layer of the executor: what objects at namespace scope do with CUDA."""

    _elsewhere: int = 0  # objects of other files than that of `main`

    def construct_globals(self, main: Function, state: State) -> list[Made]:
        """Those of the program that `main` belongs to, file by file."""
        made: list[Made] = []
        seen = (
            main.path,
            *sorted(self.program.visible.get(main.path, ())),
            *sorted(self.program.linked.get(main.path, ())),
        )
        for path in dict.fromkeys(seen):
            module = self.program.modules.get(path)
            for declared in module.globals if module is not None else ():
                record = self._constructed(declared)
                if record is None or state.dead:
                    continue
                place = self._global(path, declared)
                if isinstance(declared.init, ir.InitList):
                    self.initialise(place, declared.type, declared.init, state)
                else:
                    self.construct(
                        place,
                        declared.type,
                        _arguments(declared) or (),
                        state,
                        self._constructed_at(path, declared, main),
                    )
                made.append((place, record))
        return made

    def destroy_globals(self, made: list[Made], main: Function, state: State) -> None:
        for place, record in reversed(made):
            self.destroy_object(place, record, state, main.name_span)

    def _constructed(self, declared: Declare) -> Record | None:
        """The class of a variable whose constructor reaches CUDA."""
        type = declared.type
        if declared.space or type.pointer or type.reference or type.dims:
            return None
        args = _arguments(declared)
        record = self.names.record(self.names.resolve(type))
        if record is None or args is None:
            return None
        constructors = self._methods(record.name, plain(record.name), len(args))
        return record if any(f.uid in self.program.reaches_cuda for f in constructors) else None

    def _constructed_at(self, path: str, declared: Declare, main: Function) -> Span:
        """Where it is constructed, as a place in `main`: the declaration, when it stands in the same file."""
        if path == main.path:
            return declared.span[0] - main.base, declared.span[1] - main.base
        self._elsewhere += 1
        return main.name_span[0], main.name_span[0] + self._elsewhere  # each at a place of its own


def _arguments(declared: Declare) -> tuple[Expr, ...] | None:
    """What the constructor is given; None when that is not a constructor's call."""
    match declared.init:
        case None:
            return ()
        case ir.Construct(args=args) | ir.InitList(items=args):
            return args
        case ir.Call(callee=ir.Name(name=name), args=args) if plain(name) == plain(declared.type.name):
            return args  # `T x = T(1)`, with a `T` from another file
    return None
