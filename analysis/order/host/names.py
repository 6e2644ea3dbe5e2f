"""What names mean beyond local variables: globals, constants, types, CUDA's own enumerators."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.order.host import statics
from stitchcuda.analysis.order.symbolic import integer
from stitchcuda.analysis.order.values import SIZES
from stitchcuda.analysis.program.ir import Declare, Expr, Program, Record, TypeRef

# Values of CUDA's enumerators that decide what a call does (CUDA 13 driver_types.h).
CUDA_CONSTANTS: dict[str, int] = {
    "cudaSuccess": 0,
    "CUDA_SUCCESS": 0,
    "CUBLAS_STATUS_SUCCESS": 0,
    "CUDNN_STATUS_SUCCESS": 0,
    "CUFFT_SUCCESS": 0,
    "CURAND_STATUS_SUCCESS": 0,
    "CUSOLVER_STATUS_SUCCESS": 0,
    "CUSPARSE_STATUS_SUCCESS": 0,
    "NVRTC_SUCCESS": 0,
    "NVML_SUCCESS": 0,
    "NPP_SUCCESS": 0,
    "ncclSuccess": 0,
    "MPI_SUCCESS": 0,
    "cudaErrorNotReady": 600,
    "CUDA_ERROR_NOT_READY": 600,
    "cudaStreamDefault": 0,
    "cudaStreamNonBlocking": 1,
    "CU_STREAM_DEFAULT": 0,
    "CU_STREAM_NON_BLOCKING": 1,
    "cudaEventDefault": 0,
    "cudaEventBlockingSync": 1,
    "cudaEventDisableTiming": 2,
    "cudaEventInterprocess": 4,
    "CU_EVENT_DEFAULT": 0,
    "CU_EVENT_BLOCKING_SYNC": 1,
    "CU_EVENT_DISABLE_TIMING": 2,
    "cudaMemcpyHostToHost": 0,
    "cudaMemcpyHostToDevice": 1,
    "cudaMemcpyDeviceToHost": 2,
    "cudaMemcpyDeviceToDevice": 3,
    "cudaMemcpyDefault": 4,
    "cudaHostAllocDefault": 0,
    "cudaHostAllocPortable": 1,
    "cudaHostAllocMapped": 2,
    "cudaHostAllocWriteCombined": 4,
    "cudaHostRegisterDefault": 0,
    "cudaHostRegisterPortable": 1,
    "cudaHostRegisterMapped": 2,
    "cudaStreamCaptureModeGlobal": 0,
    "cudaStreamCaptureModeThreadLocal": 1,
    "cudaStreamCaptureModeRelaxed": 2,
    "CU_STREAM_CAPTURE_MODE_GLOBAL": 0,
    "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL": 1,
    "CU_STREAM_CAPTURE_MODE_RELAXED": 2,
    "cudaStreamCaptureStatusNone": 0,
    "cudaStreamCaptureStatusActive": 1,
    "cudaStreamCaptureStatusInvalidated": 2,
    "CU_STREAM_CAPTURE_STATUS_NONE": 0,
    "CU_STREAM_CAPTURE_STATUS_ACTIVE": 1,
    "CU_STREAM_CAPTURE_STATUS_INVALIDATED": 2,
    "cudaLaunchAttributeAccessPolicyWindow": 1,
    "cudaLaunchAttributeCooperative": 2,
    "cudaLaunchAttributeSynchronizationPolicy": 3,
    "cudaLaunchAttributeClusterDimension": 4,
    "cudaLaunchAttributeClusterSchedulingPolicyPreference": 5,
    "cudaLaunchAttributeProgrammaticStreamSerialization": 6,
    "cudaLaunchAttributePriority": 8,
    "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION": 6,
    "cudaEventRecordDefault": 0,
    "cudaEventRecordExternal": 1,
    "cudaEventWaitDefault": 0,
    "cudaEventWaitExternal": 1,
    "CU_EVENT_RECORD_DEFAULT": 0,
    "CU_EVENT_RECORD_EXTERNAL": 1,
    "CU_EVENT_WAIT_DEFAULT": 0,
    "CU_EVENT_WAIT_EXTERNAL": 1,
    **{
        f"{prefix}{name}": code
        for prefix in ("cudaGraphNodeType", "CU_GRAPH_NODE_TYPE_")
        for name, code in (
            ("Kernel", 0),
            ("Memcpy", 1),
            ("Memset", 2),
            ("Host", 3),
            ("Graph", 4),
            ("Empty", 5),
            ("WaitEvent", 6),
            ("EventRecord", 7),
            ("MemAlloc", 10),
            ("MemFree", 11),
            ("Conditional", 13),
            ("KERNEL", 0),
            ("MEMCPY", 1),
            ("MEMSET", 2),
            ("HOST", 3),
            ("GRAPH", 4),
            ("EMPTY", 5),
            ("WAIT_EVENT", 6),
            ("EVENT_RECORD", 7),
            ("MEM_ALLOC", 10),
            ("MEM_FREE", 11),
            ("CONDITIONAL", 13),
        )
    },
    "cudaMemAttachGlobal": 1,
    "cudaMemAttachHost": 2,
    "cudaMemAttachSingle": 4,
}

STREAM_TYPES = frozenset({"cudaStream_t", "CUstream", "cudaStream"})
EVENT_TYPES = frozenset({"cudaEvent_t", "CUevent"})
MAPS = frozenset({"map", "unordered_map"})
CONTAINERS = frozenset({"vector", "array", "deque", "valarray", "host_vector", "span"}) | MAPS
DEVICE_CONTAINERS = frozenset({"device_vector"})
_DEVICE_VECTOR = re.compile(r"(?:^|::)thrust::(?:system::)?cuda(?:_cub)?::vector$")  # another name of it
OPTIONALS = frozenset({"std::optional", "optional", "std::experimental::optional"})
FUTURES = frozenset({"future", "shared_future"})
SMART_POINTERS = frozenset({"unique_ptr", "shared_ptr"})
NUMBERS = frozenset(SIZES) - {"dim3", "cudaStream_t", "cudaEvent_t"}


@lru_cache(maxsize=1 << 16)
def plain(name: str) -> str:
    """`std::vector` -> `vector`, `thrust::device_vector` -> `device_vector`."""
    return name.rsplit("::", 1)[-1]


_with_vectors: KeptWith[bool] = (
    KeptWith()
)  # by program: the names of all functions, which each of its entries would ask for


def mentions_device_vectors(program: Program) -> bool:
    """Whether some function makes, takes or hands on a vector of thrust that lives on the device."""
    known = _with_vectors.get(program)
    if known is not None:
        return known
    mentioned = (m for f in program.functions.values() for m in f.mentions)
    return _with_vectors.keep(
        program, any(plain(m) in DEVICE_CONTAINERS or m.endswith("cuda::vector") for m in mentioned)
    )


def holds_things(type: TypeRef | None) -> bool:
    """A container of functions, pointers, handles or objects: what is in it decides what runs."""
    return type is not None and bool(type.args) and (type.args[0].pointer > 0 or type.args[0].name not in NUMBERS)


def template_number(given: str) -> int | None:
    """The number that is given to a template, a truth value included (as written, and as it is read); None for types."""
    return int(given.lower() == "true") if given.lower() in ("true", "false") else integer(given)


@dataclass(slots=True)
class Names:
    """Look-up tables over a program, made once per run."""

    program: Program
    aliases: dict[str, TypeRef] = field(default_factory=dict)
    constants: dict[str, list[tuple[str, Expr]]] = field(default_factory=dict)  # name -> (path, value)
    globals: dict[str, list[tuple[str, Declare]]] = field(default_factory=dict)
    records: dict[str, list[Record]] = field(default_factory=dict)  # unqualified name -> records
    _targets: dict[str, TypeRef | None] = field(default_factory=dict)  # of type names: what their aliases stand for
    _seen: dict[tuple[str, str, str], tuple[str, Declare] | None] = field(default_factory=dict)  # globals looked up
    _field_types: dict[tuple[str, str], TypeRef | None] = field(default_factory=dict)

    @staticmethod
    def of(program: Program) -> Names:
        names = Names(program)
        for path, module in program.modules.items():
            for name, type in module.aliases:
                names.aliases.setdefault(name, type)
            for name, value in module.constants:
                names.constants.setdefault(name, []).append((path, value))
            for declaration in module.globals:
                names.globals.setdefault(plain(declaration.name), []).append((path, declaration))
        for record in program.records.values():
            names.records.setdefault(plain(record.name), []).append(record)
        return names

    def seen_from(self, path: str, found: list[tuple[str, Expr]]) -> tuple[str, Expr]:
        """The definition that a file sees: its own, one that it includes, else the first."""
        visible = self.program.visible.get(path, frozenset())
        for where, value in found:
            if where == path:
                return where, value
        for where, value in found:
            if where in visible:
                return where, value
        return found[0]

    def global_seen_from(self, path: str, name: str, record: str = "") -> tuple[str, Declare] | None:
        """The variable that a name means in a file, in a method of `record` if that is given."""
        key = (name, path, record)
        if key not in self._seen:
            self._seen[key] = self._global_seen_from(path, name, record)
        return self._seen[key]

    def _global_seen_from(self, path: str, name: str, record: str) -> tuple[str, Declare] | None:
        found = self.globals.get(plain(name))
        if not found:
            return None
        found = statics.fitting(found, name, record, self.records)
        visible = self.program.visible.get(path, frozenset())
        for where, declaration in found:
            if where == path:
                return where, declaration
        for where, declaration in found:
            if where in visible:
                return where, declaration
        # an `extern` in a header that was not seen: only one definition can be meant
        others = [f for f in found if not f[1].static]
        return others[0] if len(others) == 1 else None

    def resolve(self, type: TypeRef | None) -> TypeRef | None:
        """A type with aliases followed (bounded, an alias may name itself)."""
        if type is None:
            return None
        targets = self._targets
        for _ in range(8):
            name = type.name
            if name in targets:
                target = targets[name]
            else:
                target = targets[name] = self._target(name)
            if target is None or target.name == name:
                return type if name not in OPTIONALS else self._content(type)
            type = TypeRef(
                target.name,
                target.args or type.args,
                target.pointer + type.pointer,
                type.reference or target.reference,
                type.const or target.const,
                type.dims or target.dims,
            )
        return type

    def _target(self, name: str) -> TypeRef | None:
        """What an alias stands for. Scopes are not told apart, so that one may seem to be made of itself (`typedef vector<T>::iterator
        It`, and in a class `typedef filtered<It> iterator`): that one is left as it is, since who looks into it would never end."""
        target = self._written(name)
        seen: set[tuple[str, bool]] = set()
        below: list[tuple[TypeRef, bool]] = [] if target is None else [(target, False)]
        while below:
            type, inside = below.pop()
            if (type.name, inside) in seen:
                continue
            seen.add((type.name, inside))
            below.extend((argument, True) for argument in type.args)
            further = self._written(type.name)
            if further is not None:
                if inside and further is target:
                    return None
                below.append((further, inside))
        return target

    def _written(self, name: str) -> TypeRef | None:
        found = self.aliases.get(name) or self.aliases.get(plain(name))
        return TypeRef("thrust::device_vector") if found is None and _DEVICE_VECTOR.search(name) else found

    def _content(self, type: TypeRef) -> TypeRef:
        """An optional object, stream or event is taken for what it holds."""
        if type.pointer or type.dims or not type.args:
            return type
        held = self.resolve(type.args[0])
        if held is None or not (self.record(held) is not None or held.name in STREAM_TYPES | EVENT_TYPES):
            return type
        return TypeRef(held.name, held.args, held.pointer, type.reference, type.const or held.const, held.dims)

    def record(self, type: TypeRef | None) -> Record | None:
        """The record that a (non-pointer) type names."""
        if type is None or type.pointer or type.dims:
            return None
        exact = self.program.records.get(type.name)
        if exact is not None:
            return exact
        found = self.records.get(plain(type.name))
        return found[0] if found else None

    def field_type(self, record: Record, name: str) -> TypeRef | None:
        """The type of a field of a record or of its bases."""
        if self.program.records.get(record.name) is not record:
            return self._field_type(record, name)
        key = (record.name, name)
        if key not in self._field_types:
            self._field_types[key] = self._field_type(record, name)
        return self._field_types[key]

    def _field_type(self, record: Record, name: str) -> TypeRef | None:
        seen: set[str] = set()
        stack = [record]
        while stack:
            current = stack.pop()
            if current.name in seen:
                continue
            seen.add(current.name)
            for declaration in current.fields:
                if declaration.name == name:
                    return declaration.type
            for base in current.bases:
                parent = self.record(TypeRef(base))
                if parent is not None:
                    stack.append(parent)
        return None
