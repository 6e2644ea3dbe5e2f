"""Does the GPU work? A context, an allocation, a memset and a wait, in a process of its own with a time limit.

Run as a program it prints what failed, or nothing. The driver is asked through its C library, so that neither a compiler nor
an optional package is needed.
"""

from __future__ import annotations

import ctypes
import os
import sys

from stitchcuda.gpu_validate.toolchain import ask

PROBE_SECONDS = 20.0  # a first context on a machine with eight GPUs took several seconds
_BYTES = 1 << 20


def probe_gpu() -> str:
    """Why nothing can be run on the GPU now, "" when it works."""
    answer = ask([sys.executable, "-P", "-m", "stitchcuda.gpu_validate.health"], PROBE_SECONDS)
    if answer.problem.startswith("no answer"):
        return f"the GPU does not answer ({answer.problem}): it may need a reset"
    return answer.text.strip().splitlines()[-1] if answer.problem and answer.text.strip() else answer.problem


def _use_gpu() -> str:
    names = ("nvcuda.dll",) if os.name == "nt" else ("libcuda.so.1", "libcuda.so")
    library = next((found for name in names if (found := _load(name)) is not None), None)
    if library is None:
        return "there is no GPU here: no NVIDIA driver is installed"
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_ulonglong()
    steps = (
        ("cuInit", (ctypes.c_uint(0),)),
        ("cuDeviceGet", (ctypes.byref(device), ctypes.c_int(0))),
        ("cuDevicePrimaryCtxRetain", (ctypes.byref(context), device)),
        ("cuCtxSetCurrent", (context,)),
        ("cuMemAlloc_v2", (ctypes.byref(memory), ctypes.c_size_t(_BYTES))),
        ("cuMemsetD8_v2", (memory, ctypes.c_ubyte(1), ctypes.c_size_t(_BYTES))),
        ("cuCtxSynchronize", ()),
        ("cuMemFree_v2", (memory,)),
    )
    for name, arguments in steps:
        code = int(getattr(library, name)(*arguments))
        if code == 100:  # CUDA_ERROR_NO_DEVICE
            return "there is no GPU here: the driver sees none"
        if code == 2:  # CUDA_ERROR_OUT_OF_MEMORY
            return "the GPU has no memory left: another process holds it"
        if code:
            return f"the GPU cannot be used: {name} gives error {code}"
    return ""


def _load(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


if __name__ == "__main__":
    problem = _use_gpu()
    if problem:
        sys.exit(problem)
