"""Memory that classes of the program allocate for others: allocators of containers, and `operator new`."""

from __future__ import annotations

from stitchcuda.analysis.order.host.names import Names, plain
from stitchcuda.analysis.order.timeline import Memory
from stitchcuda.analysis.program.ir import Api, ApiKind, Function, Record, TypeRef, walk

_BY_NAME = {
    "pinned": Memory.PINNED,
    "managed": Memory.MANAGED,
    "universal": Memory.MANAGED,
    "aligned": Memory.PAGEABLE,
}


def of_container(type: TypeRef, names: Names) -> Memory:
    """Where the elements of a container of the host live, by its allocator."""
    if len(type.args) < 2 or plain(type.name) not in ("vector", "deque", "host_vector"):
        return Memory.PAGEABLE
    allocator = names.resolve(type.args[1])
    if allocator is None or allocator.name == "std::allocator":
        return Memory.PAGEABLE
    record = names.record(allocator)
    if record is not None:
        found = _of_method(record, "allocate", names)
        return Memory.PAGEABLE if found is None else found
    word = plain(allocator.name).lower()
    return next((memory for part, memory in _BY_NAME.items() if part in word), Memory.UNKNOWN)


def of_new(record: Record | None, names: Names) -> Memory:
    """Where `new T` puts an object of a class: classes for managed memory have an `operator new` of their own."""
    found = _of_method(record, "operatornew", names) if record is not None else None
    return Memory.PAGEABLE if found is None else found


def _of_method(record: Record, name: str, names: Names, depth: int = 0) -> Memory | None:
    """What a method of a class, or of one of its bases, allocates; None when no method of that name is seen."""
    program = names.program
    for uid in program.by_name.get(name, ()):
        function = program.functions[uid]
        if function.record == record.name and function.body is not None:
            return _made_in(function, uid in program.reaches_cuda)
    for base in record.bases if depth < 4 else ():
        parent = names.record(TypeRef(base))
        found = _of_method(parent, name, names, depth + 1) if parent is not None and parent is not record else None
        if found is not None:
            return found
    return None


def _made_in(function: Function, reaches_cuda: bool) -> Memory:
    for node in walk(function.body) if function.body is not None else ():
        if isinstance(node, Api) and node.kind is ApiKind.HOST_ALLOC:
            return Memory.PINNED
        if isinstance(node, Api) and node.kind is ApiKind.ALLOC:
            return Memory.MANAGED if "managed" in node.flags else Memory.DEVICE
    return Memory.UNKNOWN if reaches_cuda else Memory.PAGEABLE
