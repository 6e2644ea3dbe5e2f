"""A Python file to a Module: its functions, its own top-level code, and the CUDA in its strings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from stitchcuda.analysis.program.cupy.inference import Inference
from stitchcuda.analysis.program.cupy.kinds import UNKNOWN, FileKinds, Kind, Scope, cuda_string, parameters_of
from stitchcuda.analysis.program.cupy.lowering import STATIC, type_of
from stitchcuda.analysis.program.cupy.sources import cuda_text, lower_source
from stitchcuda.analysis.program.cupy.statements import Statements
from stitchcuda.analysis.program.ir import (
    Declare,
    Function,
    Module,
    Param,
    Problem,
    Record,
    TypeRef,
)
from stitchcuda.analysis.syntax.python import parse_python, text_of
from tree_sitter import Node


def lower_module(path: str, text: bytes) -> Module:
    """Lower one file. Never raises on broken code: what is not understood is `Opaque`, and syntax errors are problems.

    The kernels in its strings are functions of the same module, at their place in the file."""
    root = parse_python(text)
    inference = Inference(root)
    assert inference.file.module is not None
    embedded = [lower_source(path, *found) for found in map(cuda_text, _cuda_strings(root)) if found is not None]
    stamp = _stamp(inference)
    functions = [_function(path, inference, name, scope, stamp) for name, scope in inference.file.functions.items()]
    entry = _entry(path, inference, inference.file.module, stamp)
    own = {f.name for f in functions}
    works = entry.host_cuda_calls > 0 or bool(entry.mentions & own)
    return Module(
        path=path,
        language="python",
        functions=(*functions, *(f for m in embedded for f in m.functions)),
        records=(*_records(path, inference, functions), *(r for m in embedded for r in m.records)),
        globals=(*_globals(inference.file.module), *(g for m in embedded for g in m.globals)),
        aliases=tuple(a for m in embedded for a in m.aliases),
        constants=tuple(c for m in embedded for c in m.constants),
        imports=tuple(sorted(set(inference.file.imports.values()))),
        problems=tuple(_problems(path, root)),
        entry=entry if works else None,
    )


def _cuda_strings(root: Node) -> Iterable[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in ("string", "concatenated_string"):
            if cuda_string(node):
                yield node
            continue
        stack.extend(reversed(node.named_children))


def _function(path: str, inference: Inference, qualified: str, scope: Scope, stamp: bytes) -> Function:
    node = scope.node
    lowering = Statements(inference, scope, node.start_byte)
    body = lowering.body(node)
    name_node = node.child_by_field_name("name") or node
    params = []
    listed = parameters_of(node)
    for name, default, _ in listed[1:] if scope.owner else listed:
        value = lowering.expr(default) if default is not None else None
        params.append(Param(name, type_of(scope.kinds[name]) if name in scope.kinds else TypeRef("auto"), value))
    # a constructor has its class's name, as the linker expects
    name = scope.owner if scope.owner and scope.name == "__init__" else scope.name
    return Function(
        uid=f"{path}::{qualified}",
        name=name,
        qualified=qualified,
        path=path,
        base=node.start_byte,
        span=(0, node.end_byte - node.start_byte),
        name_span=lowering.span(name_node),
        params=tuple(params),
        returns=type_of(scope.returns) if scope.returns is not None else TypeRef("void"),
        body=body,
        record=scope.owner,
        language="python",
        has_error=node.has_error,
        digest=_digest(node, stamp),
        host_cuda_calls=lowering.cuda_calls,
        mentions=frozenset(lowering.mentions),
    )


def _entry(path: str, inference: Inference, scope: Scope, stamp: bytes) -> Function:
    """The module's own code, as a function."""
    lowering = Statements(inference, scope, 0)
    body = lowering.body(scope.node)
    return Function(
        uid=f"{path}::<module>",
        name="<module>",
        qualified="<module>",
        path=path,
        base=0,
        span=(0, scope.node.end_byte),
        name_span=(0, 0),
        params=(),
        returns=TypeRef("void"),
        body=body,
        language="python",
        has_error=scope.node.has_error,
        digest=_digest(scope.node, stamp),
        host_cuda_calls=lowering.cuda_calls,
        mentions=frozenset(lowering.mentions),
    )


def _digest(node: Node, stamp: bytes) -> str:
    """Of the text, and of what was inferred about the file's names: that decides how the text is lowered."""
    return hashlib.blake2b(node.text or b"", digest_size=16, key=stamp).hexdigest()


def _stamp(inference: Inference) -> bytes:
    file = inference.file
    scopes = [s for s in (file.module, *file.functions.values()) if s is not None]
    digest = hashlib.blake2b(digest_size=32)
    digest.update(repr([(s.name, s.params, sorted(s.kinds.items()), s.returns) for s in scopes]).encode())
    digest.update(repr((sorted(file.imports.items()), sorted(file.attributes.items()))).encode())
    fields = [
        [c, *((f, text_of(d) if d is not None else "") for f, d in names.items())] for c, names in file.fields.items()
    ]
    digest.update(repr(fields).encode())
    return digest.digest()


def _globals(scope: Scope) -> list[Declare]:
    return [Declare((0, 0), name, type_of(kind)) for name, kind in scope.kinds.items() if kind.what not in STATIC]


def _records(path: str, inference: Inference, functions: list[Function]) -> list[Record]:
    file = inference.file
    return [
        Record(
            name,
            path,
            (0, 0),
            tuple(
                Declare((0, 0), attribute, type_of(kind))
                for attribute, kind in _attributes(file, name)
                if kind.what not in STATIC
            ),
            methods=tuple(f.uid for f in functions if f.record == name),
        )
        for name in sorted(file.classes)
    ]


def _attributes(file: FileKinds, name: str) -> list[tuple[str, Kind]]:
    """What instances of a class hold; of a data class in the order in which its constructor takes it."""
    known = {attribute: kind for (owner, attribute), kind in file.attributes.items() if owner == name}
    listed = {field: known.get(field, UNKNOWN) for field in file.fields.get(name, {})}
    return list({**listed, **known}.items())


def _problems(path: str, root: Node) -> list[Problem]:
    if not root.has_error:
        return []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            line = node.start_point[0] + 1
            return [Problem(path, line, "syntax error", "what stands there is not analysed")]
        stack.extend(reversed([c for c in node.children if c.has_error or c.is_missing]))
    return []
