"""Types and declarators: `const float *const *a[3]` to a name and a `TypeRef`."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.context import MAX_DEPTH, Context
from stitchcuda.analysis.program.ir import Expr, Param, TypeRef
from tree_sitter import Node

_POINTERS = frozenset({g.POINTER_DECLARATOR, g.POINTER_TYPE_DECLARATOR, g.ABSTRACT_POINTER})
_REFERENCES = frozenset({g.REFERENCE_DECLARATOR, g.ABSTRACT_REFERENCE})
_ARRAYS = frozenset({g.ARRAY_DECLARATOR, g.ABSTRACT_ARRAY})
_FUNCTIONS = frozenset({g.FUNCTION_DECLARATOR, g.ABSTRACT_FUNCTION})
_WRAPPERS = frozenset(
    {g.PARENTHESIZED_DECLARATOR, g.ABSTRACT_PARENTHESIZED, g.ATTRIBUTED_DECLARATOR, g.VARIADIC_DECLARATOR}
)
_NAMES = frozenset(
    {
        g.IDENTIFIER,
        g.FIELD_IDENTIFIER,
        g.TYPE_IDENTIFIER,
        g.QUALIFIED,
        g.OPERATOR_NAME,
        g.DESTRUCTOR_NAME,
        g.TEMPLATE_FUNCTION,
    }
)
_MEMORY_WORDS = {
    b"__shared__": "shared",
    b"__constant__": "constant",
    b"__managed__": "managed",
    b"__device__": "device",
}

VOID = TypeRef("void")
AUTO = TypeRef("auto")


class Declared(NamedTuple):
    """What a declarator declares. `name` is None for an abstract one; `function` is the function declarator when the
    declared thing itself is a function (not a pointer to one)."""

    name: Node | None
    type: TypeRef
    function: Node | None


class Specifiers(NamedTuple):
    """The words before the declarators."""

    type: TypeRef
    static: bool
    extern: bool
    space: str
    thread: bool  # each host thread has its own
    record: Node | None  # a class, struct, union or enum defined right here


def base_type(cx: Context, node: Node) -> TypeRef:
    """A type specifier without declarator."""
    kind = node.kind_id
    if kind == g.PRIMITIVE_TYPE or kind == g.TYPE_IDENTIFIER or kind == g.IDENTIFIER:
        return _plain(cx.read(node))
    if kind == g.SIZED_TYPE:
        return _plain(" ".join(cx.read(node).split()))
    if kind == g.QUALIFIED:
        return _qualified_type(cx, node)
    if cx.tally.depth >= MAX_DEPTH:
        return _plain("...")
    if kind == g.TEMPLATE_TYPE or kind == g.TEMPLATE_FUNCTION:
        name = node.child_by_field_id(g.F_NAME)
        arguments = node.child_by_field_id(g.F_ARGUMENTS)
        cx.tally.depth += 1
        args = template_types(cx, arguments) if arguments is not None else ()
        cx.tally.depth -= 1
        return TypeRef(cx.read(name) if name is not None else "", args)
    if kind == g.DEPENDENT_TYPE or kind == g.TYPE_DESCRIPTOR or kind == g.DEPENDENT_NAME:
        return described_type(cx, node)
    if kind in g.RECORDS or kind == g.ENUM:
        name = node.child_by_field_id(g.F_NAME)
        return base_type(cx, name) if name else TypeRef("")
    text = cx.read(node)
    if text.startswith(("auto", "decltype")):
        return AUTO
    return TypeRef(" ".join(text.split()))


_PLAIN: dict[str, TypeRef] = {}


def _plain(name: str) -> TypeRef:
    found = _PLAIN.get(name)
    if found is None:
        if len(_PLAIN) > 20_000:
            _PLAIN.clear()
        found = _PLAIN[name] = TypeRef(name)
    return found


def _qualified_type(cx: Context, node: Node) -> TypeRef:
    """`ns::Outer::T<args>`: a loop, since qualified names nest to the right without bound."""
    scopes: list[str] = []
    current: Node | None = node
    while current is not None and current.kind_id == g.QUALIFIED:
        scopes.append(scope_name(cx, current.child_by_field_id(g.F_SCOPE)))
        current = current.child_by_field_id(g.F_NAME)
    inner = base_type(cx, current) if current is not None else TypeRef("")
    return replace(inner, name="::".join([*scopes, inner.name]))


def scope_name(cx: Context, scope: Node | None) -> str:
    """`Outer` of a scope node, template arguments left out."""
    if scope is None:
        return ""
    if scope.kind_id == g.TEMPLATE_TYPE:
        name = scope.child_by_field_id(g.F_NAME)
        return cx.read(name) if name is not None else ""
    return "".join(cx.read(scope).split())


def described_type(cx: Context, node: Node) -> TypeRef:
    """A `type_descriptor` (`const float*`), or a `typename X` around a type."""
    base = AUTO
    const = False
    for child in node.children:
        kind = child.kind_id
        if kind == g.TYPE_QUALIFIER:
            const = const or cx.read(child) == "const"
        elif (
            kind in g.DECLARATORS and node.kind_id == g.TYPE_DESCRIPTOR and kind not in (g.QUALIFIED, g.TYPE_IDENTIFIER)
        ):
            base = declared(cx, child, base).type
        elif child.is_named:
            base = base_type(cx, child)
    return replace(base, const=True) if const else base


def template_types(cx: Context, arguments: Node) -> tuple[TypeRef, ...]:
    """Template arguments as types; a value argument becomes a type named by its text."""
    found = []
    for child in arguments.named_children:
        if child.kind_id == g.TYPE_DESCRIPTOR:
            found.append(described_type(cx, child))
        elif child.kind_id != g.COMMENT:
            found.append(TypeRef(cx.read(child)))
    return tuple(found)


def template_values(cx: Context, arguments: Node) -> tuple[Expr | TypeRef, ...]:
    """Template arguments, values as expressions."""
    return tuple(
        described_type(cx, child) if child.kind_id == g.TYPE_DESCRIPTOR else cx.expr(child)
        for child in arguments.named_children
        if child.kind_id != g.COMMENT
    )


def specifiers(cx: Context, node: Node) -> Specifiers:
    """The specifiers of a declaration, field declaration, parameter or function definition."""
    base = AUTO
    const = static = extern = thread = False
    space = ""
    record: Node | None = None
    for child in node.children:
        kind = child.kind_id
        if kind == g.TYPE_QUALIFIER:
            word = cx.text[child.start_byte : child.end_byte]
            if word == b"const" or word == b"constexpr":
                const = True
            elif word in _MEMORY_WORDS:
                space = _MEMORY_WORDS[word]
        elif kind == g.STORAGE_CLASS:
            word = cx.text[child.start_byte : child.end_byte]
            static = static or word == b"static"
            extern = extern or word == b"extern"
            thread = thread or word in (b"thread_local", b"__thread")
        elif not child.is_named:
            space = space or _MEMORY_WORDS.get(cx.text[child.start_byte : child.end_byte], "")
    typed = node.child_by_field_id(g.F_TYPE)
    if typed is not None:
        base = base_type(cx, typed)
        if (typed.kind_id in g.RECORDS or typed.kind_id == g.ENUM) and typed.child_by_field_id(g.F_BODY) is not None:
            record = typed
    if const:
        base = replace(base, const=True)
    return Specifiers(base, static, extern, space, thread, record)


def declared(cx: Context, node: Node | None, base: TypeRef) -> Declared:
    """Apply a declarator to a base type. The innermost part binds last, as in C."""
    pointer = base.pointer
    reference = base.reference
    dims: list[Expr | None] = []
    function: Node | None = None
    type_ = base
    is_pointer_to_function = False
    while node is not None:
        kind = node.kind_id
        if kind in _NAMES:
            break
        if kind in _POINTERS:
            pointer += 1
            if function is not None:
                is_pointer_to_function = True
        elif kind in _REFERENCES:
            reference = True
            node = _inner(node)
            continue
        elif kind in _ARRAYS:
            size = node.child_by_field_id(g.F_SIZE)
            dims.insert(0, cx.expr(size) if size is not None else None)
        elif kind in _FUNCTIONS:
            if function is None:
                function = node
        elif kind in _WRAPPERS:
            node = _inner(node)
            continue
        elif kind == g.OPERATOR_CAST:
            return Declared(node, type_, node)
        else:
            break
        node = node.child_by_field_id(g.F_DECLARATOR)
    if function is not None and (is_pointer_to_function or node is None):
        parameters = function.child_by_field_id(g.F_PARAMETERS)
        inner = tuple(p.type for p in params(cx, parameters)) if parameters is not None else ()
        type_ = TypeRef("function", (base, *inner), 1, reference, False, tuple(dims))
        return Declared(node, type_, None)
    if pointer != base.pointer or reference != base.reference or dims:
        type_ = TypeRef(base.name, base.args, pointer, reference, base.const, (*dims, *base.dims))
    return Declared(node, type_, function)


def _inner(node: Node) -> Node | None:
    for child in node.named_children:
        if child.kind_id in g.DECLARATORS:
            return child
    return None


def params(cx: Context, node: Node) -> tuple[Param, ...]:
    """The parameters of a parameter list; `(void)` has none and a trailing `...` is a parameter named `...`."""
    found: list[Param] = []
    if cx.tally.depth >= MAX_DEPTH:
        return ()
    cx.tally.depth += 1
    for child in node.children:
        kind = child.kind_id
        if kind == g.PARAMETER or kind == g.OPTIONAL_PARAMETER or kind == g.VARIADIC_PARAMETER:
            spec = specifiers(cx, child)
            what = declared(cx, child.child_by_field_id(g.F_DECLARATOR), spec.type)
            name = cx.read(what.name) if what.name is not None else ""
            if kind == g.VARIADIC_PARAMETER:
                name += "..."
            default = child.child_by_field_id(g.F_DEFAULT)
            found.append(Param(name, what.type, cx.expr(default) if default is not None else None, cx.span(child)))
        elif not child.is_named and cx.text[child.start_byte : child.end_byte] == b"...":
            found.append(Param("...", TypeRef("..."), None, cx.span(child)))
    cx.tally.depth -= 1
    if len(found) == 1 and not found[0].name and found[0].type == VOID:
        return ()
    return tuple(found)
