"""What the source says for sure of kernels that a trace names."""

from __future__ import annotations

import re

from stitchcuda.analysis.order.timeline import Mode
from stitchcuda.analysis.program.device.environment import is_scalar
from stitchcuda.analysis.program.device.first_element import first_elements, may_wait_for_others
from stitchcuda.analysis.program.effects import kernel_effects
from stitchcuda.analysis.program.ir import Function, Program
from stitchcuda.gpu_validate.trace.model import Call


class LaunchedKernels:
    """The kernels of a program, by the names in its traces."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._kernels: dict[str, Function | None] = {}
        self._touched: dict[str, frozenset[tuple[int, Mode]]] = {}
        self._waits: dict[str, bool] = {}

    def touches_first(self, call: Call, address: int, mode: Mode) -> bool:
        """Whether a kernel touches the byte at an address that it was given, for sure."""
        if call.kernel not in self._touched:
            self._touched[call.kernel] = self._first_elements(call.kernel)
        sure, function = self._touched[call.kernel], self._function(call.kernel)
        if function is None or len(call.pointers) != sum(p.type.pointer > 0 for p in function.params):
            return False  # one is null, or a word of another argument looks like an address
        return any(pointer == address and (k, mode) in sure for k, pointer in enumerate(call.pointers))

    def _first_elements(self, kernel: str) -> frozenset[tuple[int, Mode]]:
        """By the number of the pointer among the kernel's."""
        function = self._function(kernel)
        if function is None:
            return frozenset()
        pointers = [p.name for p in function.params if p.type.pointer]
        touched = first_elements(self._program, function)
        return frozenset((pointers.index(name), mode) for name, mode in touched)

    def _function(self, kernel: str) -> Function | None:
        """The source of a kernel of a trace, when that is the only one that it can be and its arguments are told apart."""
        if kernel not in self._kernels:
            self._kernels[kernel] = self._sought(kernel)
        return self._kernels[kernel]

    def _sought(self, kernel: str) -> Function | None:
        name = re.sub(r"<.*", "", kernel).replace("(anonymous namespace)::", "")
        uids = self._program.by_name.get(name.rsplit("::", 1)[-1], ())
        function = self._program.functions[uids[0]] if len(uids) == 1 else None
        if function is None or function.qualified != name:
            return None
        known = kernel_effects(self._program, function.uid)
        if known.calls_unknown or known.supplied:
            return None
        plain = all(
            p.type.pointer == 1 or is_scalar(p.type) or p.type.name in function.template for p in function.params
        )
        return function if plain else None

    def may_wait(self, kernel: str) -> bool:
        """Whether it may wait for other work by itself."""
        if kernel not in self._waits:
            function = self._function(kernel)
            self._waits[kernel] = function is None or may_wait_for_others(self._program, function)
        return self._waits[kernel]
