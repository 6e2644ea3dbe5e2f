"""Programmatic dependent launch: a kernel that may start before the one in front of it in the stream is complete (O1)."""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.order.cuda.launch_configs import LaunchConfigs
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.values import Num
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind, Program

SERIALIZATION = 6  # cudaLaunchAttributeProgrammaticStreamSerialization
TRIGGER = "cudaTriggerProgrammaticLaunchCompletion"
SYNCHRONIZE = "cudaGridDependencySynchronize"
MAX_CALLS = 4  # depth


class EarlyLaunches(LaunchConfigs):
    """Layer of the executor: launches that may start early."""

    def starts_early(self, expr: ir.Launch, kernels: tuple[str, ...], stream: int, state: State) -> bool:
        """The launch allows it, the kernel in front of it triggers it, and this kernel does not wait for the other one."""
        if not isinstance(expr.stream, ir.Member) or not kernels or not self._allows(expr.stream.base, state):
            return False
        front = [self.ops[t] for t in state.order.tails.get(stream, ())]
        if not front or any(op.kind is not ApiKind.LAUNCH or op.launched is None for op in front):
            return False
        triggered = all(
            op.launched is not None and any(calls(self.program, k, TRIGGER) for k in op.launched.kernels)
            for op in front
        )
        return triggered and not any(calls(self.program, k, SYNCHRONIZE) for k in kernels)

    def _allows(self, config: ir.Expr, state: State) -> bool:
        for which, one in self.attributes(config, state) or ():
            allowed = self.part(one, "val.programmaticStreamSerializationAllowed", state)
            if which == SERIALIZATION and isinstance(allowed, Num) and allowed.value.constant:
                return True
        return False


def calls(program: Program, uid: str, name: str) -> bool:
    """Whether a kernel, or a function that it calls, calls a function of that name, or may: by assembly."""
    return any(found in (name, "asm") if name == SYNCHRONIZE else found == name for found in _called(program, uid, 0))


def _called(program: Program, uid: str, depth: int) -> Iterator[str]:
    body = program.functions[uid].body
    for node in ir.walk(body) if body is not None else ():
        if isinstance(node, ir.Api):
            yield node.name
        elif isinstance(node, ir.Opaque) and "asm" in node.what:
            yield "asm"
        elif isinstance(node, ir.Call) and isinstance(node.callee, ir.Name):
            plain = node.callee.name.rsplit("::", 1)[-1]
            yield plain
            if depth < MAX_CALLS:
                for other in program.by_name.get(plain, ()):
                    yield from _called(program, other, depth + 1)
