"""Asks the NVIDIA driver which GPUs there are, through NVML's C library. Run as a program it prints the answer as JSON.

It is a program of its own because a driver in trouble can hang or end the process that calls it: `capabilities` starts it with a
time limit.
"""

from __future__ import annotations

import ctypes
import json
import os
from dataclasses import asdict, dataclass

_NAME_LENGTH = 96


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the driver describes it."""

    index: int
    name: str
    arch: str  # "sm_90"
    memory: int  # bytes


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver, and the GPUs that it sees."""

    version: str
    cuda: str  # newest CUDA version that it runs, "13.0"
    gpus: tuple[Gpu, ...]


class NvmlError(Exception):
    """NVML is missing or refused; the text says which call and why."""


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def read_driver() -> Driver:
    """The driver and its GPUs; raises NvmlError."""
    library = _load()
    _call(library, "nvmlInit_v2")
    try:
        text = ctypes.create_string_buffer(_NAME_LENGTH)
        _call(library, "nvmlSystemGetDriverVersion", text, ctypes.c_uint(_NAME_LENGTH))
        version = text.value.decode(errors="replace")
        cuda, count = ctypes.c_int(), ctypes.c_uint()
        _call(library, "nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(cuda))
        _call(library, "nvmlDeviceGetCount_v2", ctypes.byref(count))
        gpus = tuple(_gpu(library, index) for index in range(count.value))
        return Driver(version, f"{cuda.value // 1000}.{cuda.value % 1000 // 10}", gpus)
    finally:
        _call(library, "nvmlShutdown")


def _gpu(library: ctypes.CDLL, index: int) -> Gpu:
    handle, major, minor, memory = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int(), _Memory()
    name = ctypes.create_string_buffer(_NAME_LENGTH)
    _call(library, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
    _call(library, "nvmlDeviceGetName", handle, name, ctypes.c_uint(_NAME_LENGTH))
    _call(library, "nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
    _call(library, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    return Gpu(index, name.value.decode(errors="replace"), f"sm_{major.value}{minor.value}", memory.total)


def _load() -> ctypes.CDLL:
    names = ("nvml.dll",) if os.name == "nt" else ("libnvidia-ml.so.1", "libnvidia-ml.so")
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NvmlError(f"{names[0]} not found: no NVIDIA driver is installed")


def _call(library: ctypes.CDLL, function: str, *arguments: object) -> None:
    try:
        code = int(getattr(library, function)(*arguments))
    except AttributeError as error:
        raise NvmlError(f"{function} is missing: the driver is too old") from error
    if code != 0:
        explain = library.nvmlErrorString
        explain.restype = ctypes.c_char_p
        reason = explain(code)
        raise NvmlError(f"{function}: {reason.decode(errors='replace') if reason else code}")


if __name__ == "__main__":
    try:
        print(json.dumps(asdict(read_driver())))
    except NvmlError as error:
        print(json.dumps({"error": str(error)}))
