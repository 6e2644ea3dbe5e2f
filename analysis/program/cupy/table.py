"""What CuPy's functions and methods do. Names are canonical (`cupy.cuda.Stream`), whatever they were imported as.

Sources: CuPy 13 and 14 reference (`cupy.ndarray`, `cupy.cuda.Stream`, `cupy.cuda.Event`, `cupy.asarray`: the copy runs
asynchronously on the current stream; `cupy.asnumpy`, `ndarray.get`: the host waits unless `blocking=False`).
"""

from __future__ import annotations

ARRAY_MODULES = ("cupy.", "cupyx.scipy.", "cupyx.")

UPLOADS = frozenset({"cupy.asarray", "cupy.array", "cupy.ascontiguousarray", "cupy.asfortranarray", "cupy.asanyarray"})
DOWNLOADS = frozenset({"cupy.asnumpy"})
EMPTY = frozenset({"cupy.empty", "cupy.empty_like", "cupy.ndarray"})
PINNED = frozenset(
    {
        "cupyx.empty_pinned",
        "cupyx.zeros_pinned",
        "cupyx.empty_like_pinned",
        "cupyx.zeros_like_pinned",
        "cupy.cuda.alloc_pinned_memory",
        "cupy.cuda.PinnedMemory",
    }
)
STREAMS = frozenset({"cupy.cuda.Stream", "cupy.cuda.stream.Stream"})
EVENTS = frozenset({"cupy.cuda.Event", "cupy.cuda.stream.Event"})
CURRENT_STREAM = frozenset({"cupy.cuda.get_current_stream", "cupy.cuda.stream.get_current_stream"})
DEVICES = frozenset({"cupy.cuda.Device"})
KERNEL_MODULES = frozenset({"cupy.RawModule", "cupy.cuda.compile_with_cache"})
RAW_KERNELS = frozenset({"cupy.RawKernel"})
# kernels made of a snippet: called like a function on arrays
SNIPPET_KERNELS = frozenset({"cupy.ElementwiseKernel", "cupy.ReductionKernel"})
FUSED = frozenset({"cupy.fuse", "cupy.vectorize"})

DEVICE_SYNC = frozenset({"cupy.cuda.runtime.deviceSynchronize", "cupy.cuda.Device.synchronize"})

# no array work, no wait
NEUTRAL = frozenset(
    {
        "cupy.cuda.get_device_id",
        "cupy.cuda.runtime.getDevice",
        "cupy.cuda.runtime.getDeviceCount",
        "cupy.cuda.runtime.getDeviceProperties",
        "cupy.cuda.runtime.memGetInfo",
        "cupy.cuda.runtime.runtimeGetVersion",
        "cupy.cuda.runtime.driverGetVersion",
        "cupy.cuda.is_available",
        "cupy.get_default_memory_pool",
        "cupy.get_default_pinned_memory_pool",
        "cupy.cuda.MemoryPool",
        "cupy.cuda.PinnedMemoryPool",
        "cupy.cuda.MemoryAsyncPool",
        "cupy.cuda.set_allocator",
        "cupy.cuda.set_pinned_memory_allocator",
        "cupy.show_config",
        "cupy.dtype",
        "cupy.float16",
        "cupy.float32",
        "cupy.float64",
        "cupy.int8",
        "cupy.int16",
        "cupy.int32",
        "cupy.int64",
        "cupy.uint8",
        "cupy.uint16",
        "cupy.uint32",
        "cupy.uint64",
        "cupy.bool_",
        "cupy.complex64",
        "cupy.complex128",
        "cupy.random.seed",
        "cupy.errstate",
        "cupyx.errstate",
        "cupy.cuda.nvtx.RangePush",
        "cupy.cuda.nvtx.RangePop",
        "cupyx.profiler.time_range",
        "cupy.get_array_module",
        "cupyx.scipy.get_array_module",
        "cupy.result_type",
        "cupy.shape",
        "cupy.ndim",
        "cupy.size",
    }
)

# the size of the result depends on the data, so the host waits for it
DATA_SIZED = frozenset(
    {"nonzero", "flatnonzero", "argwhere", "unique", "compress", "extract", "allclose", "array_equal", "bincount"}
)

# solvers, which look at their status on the host unless `cupyx.errstate` says otherwise
SOLVERS = frozenset(
    {"inv", "solve", "lstsq", "eigh", "eigvalsh", "svd", "qr", "cholesky", "slogdet", "det", "pinv", "matrix_rank"}
)

# methods of an array whose result shares its memory
VIEWS = frozenset({"reshape", "ravel", "view", "transpose", "squeeze", "swapaxes", "T", "real", "imag", "flat"})
# attributes of an array that say something about it
FACTS = frozenset({"shape", "size", "nbytes", "dtype", "ndim", "itemsize", "strides", "flags", "device"})
# methods of an array that write it
IN_PLACE = frozenset({"fill", "sort", "partition", "itemset", "put", "scatter_add", "__setitem__"})

# calls into these modules touch no GPU; what they read of pinned memory is a host access
HOST_MODULES = frozenset(
    [
        "numpy",
        "math",
        "time",
        "os",
        "sys",
        "random",
        "json",
        "argparse",
        "logging",
        "pathlib",
        "collections",
        "itertools",
        "functools",
        "statistics",
        "contextlib",
        "dataclasses",
        "typing",
        "re",
        "struct",
        "csv",
        "io",
        "shutil",
        "string",
        "textwrap",
        "warnings",
        "datetime",
        "enum",
        "operator",
        "timeit",
    ]
)
CLOCKS = frozenset(
    {
        "time.time",
        "time.time_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.monotonic",
        "time.monotonic_ns",
        "timeit.default_timer",
    }
)
HOST_BUILTINS = frozenset(
    [
        "print",
        "len",
        "range",
        "float",
        "int",
        "str",
        "bool",
        "abs",
        "min",
        "max",
        "sum",
        "sorted",
        "list",
        "tuple",
        "dict",
        "set",
        "enumerate",
        "zip",
        "isinstance",
        "repr",
        "round",
        "any",
        "all",
        "map",
        "filter",
        "open",
        "input",
        "hash",
        "id",
        "type",
        "divmod",
        "pow",
        "format",
        "iter",
        "next",
        "getattr",
        "hasattr",
        "setattr",
        "super",
        "slice",
    ]
)
# builtins that read the elements of an array given to them (an implicit download when it is on the device)
READING_BUILTINS = frozenset(
    [
        "print",
        "float",
        "int",
        "str",
        "bool",
        "abs",
        "min",
        "max",
        "sum",
        "sorted",
        "list",
        "tuple",
        "repr",
        "round",
        "any",
        "all",
    ]
)

ELEMENT_TYPES = {
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "single": "float",
    "double": "double",
    "float": "double",
    "float_": "double",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "int": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "bool": "bool",
    "bool_": "bool",
    "f4": "float",
    "f8": "double",
    "i4": "int",
    "i8": "int64_t",
    "u1": "uint8_t",
}
SIZES = {
    "half": 2,
    "float": 4,
    "double": 8,
    "int8_t": 1,
    "int16_t": 2,
    "int": 4,
    "int64_t": 8,
    "uint8_t": 1,
    "uint16_t": 2,
    "uint32_t": 4,
    "uint64_t": 8,
    "bool": 1,
}
DEFAULT_ELEMENT = "double"  # CuPy's default dtype is float64


def makes_arrays(name: str) -> bool:
    """A function of CuPy that computes on arrays, by its dotted name: `cupy.matmul`, `cupy.linalg.norm`."""
    others = NEUTRAL | UPLOADS | DOWNLOADS | EMPTY | PINNED | KERNEL_MODULES | RAW_KERNELS | SNIPPET_KERNELS | FUSED
    return (
        name.startswith(ARRAY_MODULES)
        and not name.startswith(("cupy.cuda.", "cupyx.profiler.", "cupyx.time.", "cupyx.jit."))
        and name not in others
        and name.rsplit(".", 1)[-1][:1].islower()
    )
