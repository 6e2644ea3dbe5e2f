"""What a name can hold, and the look at a syntax tree that finding it out takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from stitchcuda.analysis.program.cupy.sources import cuda_text, looks_like_cuda
from stitchcuda.analysis.syntax.python import text_of
from tree_sitter import Node


@dataclass(frozen=True, slots=True)
class Kind:
    """`what`: "" (unknown), array, pinned, host, stream, event, graph, capture (`with torch.cuda.graph(g)`), thread, device, module, kernel, snippet, list, instance,
    source, function, or plain (a number, text, ...). `detail`: element type of arrays, name of a kernel, class of an
    instance, what the elements of a list are, the dotted name of a library's function."""

    what: str
    detail: str = ""
    dimensions: int = 0  # of arrays; 0: not known


UNKNOWN = Kind("")
PLAIN = Kind("plain")
MEMORY = frozenset({"array", "pinned", "host"})


Binder: TypeAlias = Callable[[Node, Kind], None]


# what runs through a generator on the spot
CONSUMERS = frozenset({"sum", "list", "tuple", "sorted", "max", "min", "any", "all", "set", "print"})
_MIXED = "?"  # what a list holds when that differs, or is not known


def listed(element: Kind) -> Kind:
    """A list of such elements."""
    named = element.what == "instance" and element.detail
    return Kind("list", f"instance {element.detail}" if named else element.what or _MIXED)


def element_of(kind: Kind) -> Kind:
    """What the elements of a list are."""
    what, _, detail = kind.detail.partition(" ")
    return UNKNOWN if what in ("", _MIXED) else Kind(what, detail)


def join(a: Kind | None, b: Kind) -> Kind:
    if a is None or a == b:
        return b
    if a.what == b.what == "list" and "" in (a.detail, b.detail):  # `xs = []` before there is something in it
        return b if not a.detail else a
    if a.what == b.what:
        detail = a.detail if a.detail == b.detail else _MIXED if a.what == "list" else ""
        return Kind(a.what, detail, a.dimensions if a.dimensions == b.dimensions else 0)
    if PLAIN in (a, b):  # `x = None` before the real value
        return b if a == PLAIN else a
    return UNKNOWN


@dataclass
class Scope:
    """A function (or the module itself): its node, its parameters and the kinds of its names."""

    name: str
    node: Node
    params: list[str]
    owner: str = ""  # the class it is a method of
    qualified: str = ""
    kinds: dict[str, Kind] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)  # names declared `global` in it
    returns: Kind | None = None
    _nodes: tuple[Node, ...] | None = None

    def nodes(self) -> tuple[Node, ...]:
        """`own_nodes` of it, walked once."""
        if self._nodes is None:
            self._nodes = tuple(own_nodes(self.node))
        return self._nodes


@dataclass
class FileKinds:
    imports: dict[str, str] = field(default_factory=dict)  # name -> canonical dotted name
    torch: bool = False  # arrays are tensors of PyTorch
    module: Scope | None = None
    functions: dict[str, Scope] = field(default_factory=dict)  # qualified name -> scope
    attributes: dict[tuple[str, str], Kind] = field(default_factory=dict)  # (class, attribute)
    classes: set[str] = field(default_factory=set)
    fields: dict[str, dict[str, Node | None]] = field(
        default_factory=dict
    )  # of data classes: name -> default, in order
    sources: dict[str, Node] = field(default_factory=dict)  # module-level name -> string with CUDA text


def own_nodes(node: Node) -> Iterator[Node]:
    """The nodes of a function body, without those of functions and classes inside it."""
    stack = list(reversed(node.named_children))
    while stack:
        current = stack.pop()
        if current.type in ("function_definition", "class_definition"):
            continue
        yield current
        stack.extend(reversed(current.named_children))


def parameters_of(node: Node) -> list[tuple[str, Node | None, Node | None]]:
    """(name, default, annotation) of each parameter."""
    found: list[tuple[str, Node | None, Node | None]] = []
    listed = node.child_by_field_name("parameters")
    for child in listed.named_children if listed is not None else ():
        name = child if child.type == "identifier" else child.child_by_field_name("name")
        if name is None and child.named_children and child.named_children[0].type == "identifier":
            name = child.named_children[0]
        if name is not None:
            annotation = child.child_by_field_name("type") if child.type != "identifier" else None
            found.append((text_of(name), child.child_by_field_name("value"), annotation))
    return found


def self_name(function: Node) -> str:
    params = parameters_of(function)
    return params[0][0] if params else ""


def called_name(node: Node) -> str:
    """The plain name that a call calls, else ""."""
    if node.type != "call":
        return ""
    function = node.child_by_field_name("function")
    return text_of(function) if function is not None and function.type == "identifier" else ""


def arguments_of(call: Node) -> tuple[list[Node], dict[str, Node]]:
    positional: list[Node] = []
    named: dict[str, Node] = {}
    listed = call.child_by_field_name("arguments")
    if listed is not None and listed.type == "generator_expression" and called_name(call) in CONSUMERS:
        return [listed], {}  # it is run as a loop, ahead of the statement
    for child in listed.named_children if listed is not None else ():
        if child.type == "keyword_argument":
            name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
            if name is not None and value is not None:
                named[text_of(name)] = value
        elif child.type != "comment":
            positional.append(child)
    return positional, named


def listed_fields(body: Node) -> dict[str, tuple[Node, Node | None]]:
    """The fields of a data class, as its body lists them: name -> annotation and default."""
    found: dict[str, tuple[Node, Node | None]] = {}
    for statement in body.named_children:
        node = statement.named_children[0] if statement.type == "expression_statement" else statement
        name, kind = node.child_by_field_name("left"), node.child_by_field_name("type")
        if node.type == "assignment" and name is not None and kind is not None and name.type == "identifier":
            default = node.child_by_field_name("right")
            if default is not None and called_name(default) == "field":
                default = _made_by(arguments_of(default)[1])
            found[text_of(name)] = (kind, default)
    return found


def _made_by(named: dict[str, Node]) -> Node | None:
    """`field(default=x)`, `field(default_factory=lambda: x)`: x."""
    factory = named.get("default_factory")
    return factory.child_by_field_name("body") if factory is not None else named.get("default")


def literal(node: Node | None) -> str:
    """The value of a plain string literal, else ""."""
    if node is None or node.type not in ("string", "concatenated_string"):
        return ""
    found = cuda_text(node)
    return found[1].decode("utf-8", "replace").strip() if found is not None else ""


def cuda_string(node: Node) -> bool:
    if node.type not in ("string", "concatenated_string"):
        return False
    found = cuda_text(node)
    return found is not None and looks_like_cuda(found[1])
