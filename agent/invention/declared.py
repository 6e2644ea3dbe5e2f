"""Names that a text declares itself, by what they may be used for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from stitchcuda.analysis.syntax.parse import Syntax, parse_cuda
from tree_sitter import Node

_NAMES = frozenset(
    ["identifier", "type_identifier", "field_identifier", "namespace_identifier", "statement_identifier"]
)
_NAMED = frozenset(
    [
        "struct_specifier", "class_specifier", "union_specifier", "enum_specifier", "enumerator", "alias_declaration",
        "namespace_definition", "namespace_alias_definition", "preproc_def", "preproc_function_def", "concept_definition",
        "template_template_parameter_declaration",
    ]
)  # fmt: skip
_TYPES = frozenset(["struct_specifier", "class_specifier", "union_specifier", "enum_specifier", "alias_declaration"])
_LOOSE = frozenset(
    [
        "type_parameter_declaration",
        "optional_type_parameter_declaration",
        "variadic_type_parameter_declaration",
        "preproc_params",
    ]
)
_CALLED = frozenset(
    ["placeholder_type_specifier", "type_identifier", "template_type", "qualified_identifier", "dependent_type"]
)


@dataclass
class Declared:
    """`values` are all names; `called` those of them that a call may name: functions with a body, types, macros, and variables
    whose type may have a call operator. `prototypes` are functions without a body; `aliases` other names of types and namespaces, with
    the first word of what they stand for; `types` are among the values. `built` are where the names of variables of library types stand
    that are made from values in parentheses, `std::vector<float> v(n);`, which is no call of `v`."""

    values: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    prototypes: set[str] = field(default_factory=set)
    macros: set[str] = field(default_factory=set)
    aliases: dict[str, str] = field(default_factory=dict)
    types: set[str] = field(default_factory=set)
    built: set[int] = field(default_factory=set)
    error_bytes: int = 0
    error_line: int = 0


def together(parts: Iterable[Declared]) -> Declared:
    """What several texts declare."""
    whole = Declared()
    for part in parts:
        whole.values |= part.values
        whole.called |= part.called
        whole.prototypes |= part.prototypes
        whole.macros |= part.macros
        whole.aliases.update(part.aliases)
    return whole


@lru_cache(maxsize=64)
def declared(text: bytes) -> Declared:
    """What a text declares. Never raises."""
    shift = 3 if text.startswith(b"\xef\xbb\xbf") else 0
    syntax = parse_cuda(text[shift:])
    found = Declared(error_bytes=syntax.error_bytes)
    unclear: list[tuple[str, Node]] = []
    stack = [(syntax.root, False)]
    while stack:
        node, inside = stack.pop()
        _declares(syntax, node, inside, found, unclear)
        if (node.is_error or node.is_missing) and not found.error_line:
            found.error_line = node.start_point[0] + 1
        deeper = inside or node.type in ("compound_statement", "lambda_expression")
        stack += [(child, deeper) for child in reversed(node.children)]
    for name, declarator in unclear:
        if not _takes_values(syntax, declarator, found):
            found.prototypes.add(name)
            continue
        found.values.add(name)
        if _of_library(syntax, declarator):
            found.built.add(declarator.start_byte + shift)
    return found


def _of_library(syntax: Syntax, declarator: Node) -> bool:
    """Whether a variable is of a class of a library, by the namespace that its type names first."""
    kind = declarator.parent.child_by_field_name("type") if declarator.parent is not None else None
    if kind is None or kind.type != "qualified_identifier":
        return False
    return re.match(r"(?:std|thrust|cub)::", _read(syntax, kind)) is not None


def _takes_values(syntax: Syntax, declarator: Node, found: Declared) -> bool:
    """Whether `dim3 grid(n, m);` in a function declares a variable: what stands in the parentheses are values."""
    parameters = declarator.child_by_field_name("parameters")
    for parameter in parameters.named_children if parameters is not None else ():
        kind = parameter.child_by_field_name("type")
        if parameter.type != "parameter_declaration" or kind is None or kind.type != "type_identifier":
            return False
        name = _read(syntax, kind)
        if len(parameter.named_children) != 1 or name in found.types:
            return False
        if name not in found.values and not re.fullmatch(r"[A-Z][A-Z0-9_]+|k[A-Z]\w*", name):
            return False
    return parameters is not None and bool(parameters.named_children)


def _declares(syntax: Syntax, node: Node, inside: bool, found: Declared, unclear: list[tuple[str, Node]]) -> None:
    if node.type in _NAMED:
        name = node.child_by_field_name("name")
        if name is not None and name.type in _NAMES:
            found.values.add(_read(syntax, name))
            _alias(syntax, node, _read(syntax, name), found)
            if node.type.startswith("preproc"):
                found.macros.add(_read(syntax, name))
            if node.type in _TYPES:
                found.types.add(_read(syntax, name))
            if node.type in _TYPES or node.type.startswith("preproc"):
                found.called.add(_read(syntax, name))
    elif node.type in _LOOSE:
        for child in node.named_children:
            if child.type in _NAMES:
                found.values.add(_read(syntax, child))
                found.called.add(_read(syntax, child))
                found.types |= {_read(syntax, child)} if node.type != "preproc_params" else set()
    elif node.type in ("labeled_statement", "lambda_capture_initializer"):
        for child in node.named_children[:1]:
            if child.type in _NAMES:
                found.values.add(_read(syntax, child))
    for child in node.children_by_field_name("declarator"):
        _declarator(syntax, node, child, inside, found, unclear)


def _declarator(
    syntax: Syntax, owner: Node, node: Node, inside: bool, found: Declared, unclear: list[tuple[str, Node]]
) -> None:
    """One declarator of a declaration; what is itself part of another declarator was counted with that one."""
    if owner.type.endswith("_declarator") and owner.type != "init_declarator":
        return
    if owner.type == "init_declarator":
        return
    kind = owner.child_by_field_name("type")
    callable_ = kind is not None and kind.type in _CALLED
    for name, function in _names(node):
        text = _read(syntax, name)
        if owner.type == "type_definition" or (function and owner.type == "function_definition"):
            found.values.add(text)
            found.called.add(text)
            if owner.type == "type_definition":
                found.types.add(text)
            _alias(syntax, owner, text, found)
        elif function and inside and callable_:
            unclear.append((text, _function(node)))
        elif function:
            found.prototypes.add(text)
        else:
            found.values.add(text)
            if callable_:
                found.called.add(text)


def _function(node: Node) -> Node:
    while node.type != "function_declarator":
        inner = node.child_by_field_name("declarator")
        if inner is None:
            return node
        node = inner
    return node


def _alias(syntax: Syntax, node: Node, name: str, found: Declared) -> None:
    target = node.child_by_field_name("type")
    if node.type == "namespace_alias_definition":
        target = node.named_children[-1]
    elif node.type not in ("alias_declaration", "type_definition"):
        target = None
    words = re.findall(r"\w+", _read(syntax, target)) if target is not None else []
    words = [word for word in words if word not in ("typename", "const", "struct")]
    if words:
        found.aliases[name] = words[0]


def _names(node: Node) -> Iterator[tuple[Node, bool]]:
    """The names that a declarator declares, and whether as functions."""
    function = False
    while True:
        if node.type in _NAMES:
            yield node, function
            return
        if node.type == "structured_binding_declarator":
            for child in node.named_children:
                if child.type in _NAMES:
                    yield child, False
            return
        if node.type in ("qualified_identifier", "template_function"):
            inner = node.child_by_field_name("name")
        else:
            if node.type == "function_declarator":
                function = True
            elif node.type in ("parenthesized_declarator", "array_declarator"):
                function = False  # of a pointer to functions, the pointer is what is declared
            inner = node.child_by_field_name("declarator")
            if inner is None:
                inner = next(
                    (c for c in node.named_children if c.type in _NAMES or c.type.endswith("declarator")), None
                )
        if inner is None:
            return
        node = inner


def _read(syntax: Syntax, node: Node) -> str:
    return syntax.text[node.start_byte : node.end_byte].decode("latin-1")
