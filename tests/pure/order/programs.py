"""Timelines of CUDA text, for the tests of the ordering rows: kernels are named in the questions.

The text given is the body of `main`, after four kernels `a`, `b`, `c`, `d` that update what they get.
"""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.analysis.index import Index
from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind

KERNELS = "".join(f"__global__ void {k}(float* x) {{ x[threadIdx.x] += 1; }}\n" for k in "abcd")
SETUP = "  float* x; float* y; cudaMalloc(&x, 4096); cudaMalloc(&y, 4096);\n"


@dataclass(frozen=True)
class Run:
    timeline: Timeline

    def op(self, name: str, which: int = 0) -> Op:
        """The kernel of that name, or the call of that API."""
        return [op for op in self.timeline.ops if name in (op.kernel, op.api)][which]

    def host_reads(self) -> list[Op]:
        return [op for op in self.timeline.ops if op.kind is ApiKind.HOST_READ]

    def ordered(self, first: str, second: str) -> bool:
        """Whether the first is complete before the second starts."""
        return self.timeline.ordered(self.op(first).id, self.op(second).id)

    def waited(self, call: str) -> set[str]:
        """Kernels and copies that the host knows complete after a call."""
        op = self.op(call)
        return {o.kernel or o.api for o in self.timeline.ops if op.waits >> o.id & 1}

    def before(self, op: Op, name: str) -> bool:
        return self.timeline.ordered(self.op(name).id, op.id)


def run(body: str, *, before: str = "", per_thread: bool = False) -> Run:
    text = f"#include <cuda_runtime.h>\n{KERNELS}{before}int main() {{\n{SETUP}{body}\n  return 0;\n}}\n"
    index = Index(Options(per_thread_default_stream=per_thread), strict=True)
    index.put("a.cu", text.encode())
    (timeline,) = index.analyse().timelines
    return Run(timeline)
