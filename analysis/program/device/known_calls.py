"""What the functions that device code can call without a body in the program do to memory.

Only functions that touch memory through a pointer argument, or that print, are listed: everything else (math, votes,
shuffles, barriers) has no effect on global memory.
"""

from __future__ import annotations

from stitchcuda.analysis.order.timeline import Mode

READ, WRITE, ATOMIC = Mode.READ, Mode.WRITE, Mode.ATOMIC

# name -> (argument position, mode) of each memory access
ACCESSES: dict[str, tuple[tuple[int, Mode], ...]] = {
    "__ldg": ((0, READ),),
    "__ldca": ((0, READ),),
    "__ldcg": ((0, READ),),
    "__ldcs": ((0, READ),),
    "__ldcv": ((0, READ),),
    "__ldlu": ((0, READ),),
    "__stcg": ((0, WRITE),),
    "__stcs": ((0, WRITE),),
    "__stwb": ((0, WRITE),),
    "__stwt": ((0, WRITE),),
    "memcpy": ((0, WRITE), (1, READ)),
    "memmove": ((0, WRITE), (1, READ)),
    "memset": ((0, WRITE),),
    "__pipeline_memcpy_async": ((0, WRITE), (1, READ)),
    "sincosf": ((1, WRITE), (2, WRITE)),
    "sincos": ((1, WRITE), (2, WRITE)),
    "sincospif": ((1, WRITE), (2, WRITE)),
    "sincospi": ((1, WRITE), (2, WRITE)),
    "modf": ((1, WRITE),),
    "modff": ((1, WRITE),),
    "frexp": ((1, WRITE),),
    "frexpf": ((1, WRITE),),
    "remquo": ((2, WRITE),),
    "remquof": ((2, WRITE),),
    "wmma::load_matrix_sync": ((1, READ),),
    "load_matrix_sync": ((1, READ),),
    "wmma::store_matrix_sync": ((0, WRITE),),
    "store_matrix_sync": ((0, WRITE),),
    "surf2Dwrite": (),
    "curand_init": ((3, WRITE),),
}

# cooperative copies: the first two pointer arguments, wherever they stand, are destination and source
COPY_CALLS = frozenset({"memcpy_async"})

CURAND_STATE_PREFIX = "curand"  # curand(&state), curand_uniform(&state): advance the generator state

PRINTS = frozenset({"printf", "vprintf", "assert", "__assert_fail", "__assertfail"})

PURE_POINTER_CALLS = frozenset(
    {
        "__cvta_generic_to_shared",
        "__cvta_generic_to_global",
        "__isGlobal",
        "__isShared",
        "__prefetch_global_l1",
        "__prefetch_global_l2",
        "__builtin_assume_aligned",
        "__builtin_assume",
        "isnan",
        "isinf",
    }
)

# the value of the call is its arguments' product or its one argument: index arithmetic sees through them
PRODUCTS = frozenset({"__umul24", "__mul24"})
IDENTITIES = frozenset({"static_cast", "__builtin_expect", "std::move", "std::forward", "__builtin_assume_aligned"})

THREAD_WORDS = frozenset({"threadIdx", "blockIdx"})
DIMENSION_WORDS = frozenset({"blockDim", "gridDim"})
COORDINATES = THREAD_WORDS | DIMENSION_WORDS


def is_atomic(name: str) -> bool:
    return name.startswith("atomic") and name[6:7].isupper() or name.startswith("__nv_atomic_")


def bare(name: str) -> str:
    return name.rsplit("::", 1)[-1]
