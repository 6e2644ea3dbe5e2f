"""The file walk: functions, classes, globals, type aliases, enumerators and includes, in all `#if` branches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stitchcuda.analysis.program.cuda import declare, macros
from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.branches import preproc_condition
from stitchcuda.analysis.program.cuda.context import Context, Environment, Segment, Tally
from stitchcuda.analysis.program.cuda.declarators import base_type, declared, described_type, specifiers
from stitchcuda.analysis.program.cuda.platforms import of_another_platform
from stitchcuda.analysis.program.ir import Binary, Const, Declare, Expr, Record, Stmt, TypeRef
from stitchcuda.analysis.syntax.parse import parse_tree
from tree_sitter import Node

_MAX_NESTING = 60
_CONTAINERS = frozenset(
    g.kind(name)
    for name in (
        "linkage_specification",
        "declaration_list",
        "field_declaration_list",
        "preproc_if",
        "preproc_ifdef",
        "preproc_else",
        "preproc_elif",
        "preproc_elifdef",
        "ERROR",
        "export_declaration",
    )
)
_NAMESPACE = g.kind("namespace_definition")
_TEMPLATE = g.kind("template_declaration")
_FIELD_DECLARATION = g.kind("field_declaration")
_TYPEDEF = g.kind("type_definition")
_ALIAS = g.kind("alias_declaration")
_INCLUDE = g.kind("preproc_include")
_ENUMERATOR = g.kind("enumerator")
_BASES = g.kind("base_class_clause")
_FRIEND = g.kind("friend_declaration")
_INVOCATIONS = frozenset({g.EXPRESSION_STATEMENT, g.DECLARATION, g.FUNCTION_DEFINITION})
_IGNORED = frozenset(
    g.kind(name)
    for name in (
        "comment",
        "preproc_def",
        "preproc_function_def",
        "preproc_call",
        "using_declaration",
        "access_specifier",
    )
)


@dataclass(frozen=True, slots=True)
class Expansion:
    """Text that a macro invocation at file level stands for; `segments` say where its bytes were written."""

    text: bytes
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class FunctionItem:
    """A function definition or declaration found in the file. `start` is that of a `template <...>` in front. Of a
    function that a macro defines, `start` and `end` are the invocation's, the nodes belong to the expansion."""

    node: Node
    start: int
    end: int
    declarator: Node
    scope: tuple[str, ...]  # enclosing namespaces and classes
    record: str  # qualified name of the class whose body it stands in, or ""
    template: tuple[str, ...]
    hidden: bool  # in an anonymous namespace
    expansion: Expansion | None = None

    @property
    def is_definition(self) -> bool:
        return self.node.kind_id == g.FUNCTION_DEFINITION


@dataclass(slots=True)
class Outline:
    """Everything a file declares, functions still as syntax."""

    functions: list[FunctionItem] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    globals: list[Declare] = field(default_factory=list)
    aliases: list[tuple[str, TypeRef]] = field(default_factory=list)
    constants: list[tuple[str, Expr]] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    namespaces: set[str] = field(default_factory=set)
    record_nodes: list[tuple[Node, tuple[str, ...], str]] = field(default_factory=list)
    global_nodes: list[Node] = field(default_factory=list)
    enum_nodes: list[Node] = field(default_factory=list)
    alias_nodes: list[Node] = field(default_factory=list)
    elsewhere: set[int] = field(default_factory=set)  # where that of other platforms starts


@dataclass(frozen=True, slots=True)
class _Scope:
    names: tuple[str, ...] = ()
    record: str = ""
    template: tuple[str, ...] = ()
    start: int = -1
    hidden: bool = False
    elsewhere: bool = False  # in a branch of `#if` for another platform


def outline(cx: Context, root: Node) -> Outline:
    """Find the declarations of a file. Values and types are lowered by `complete`, once the names are known."""
    found = Outline()
    _walk(cx, root, _Scope(), found, 0)
    if found.elsewhere:
        _leave_out(cx, found)
    return found


def _leave_out(cx: Context, found: Outline) -> None:
    """Of what is there for CUDA as well, that for other platforms is left out. What only they have is kept."""
    functions = {_key(cx, f) for f in found.functions if f.is_definition and f.node.start_byte not in found.elsewhere}
    variables = {_declared_name(cx, n) for n in found.global_nodes if n.start_byte not in found.elsewhere}
    records = {name for node, _, name in found.record_nodes if node.start_byte not in found.elsewhere}
    found.functions = [
        f for f in found.functions if f.node.start_byte not in found.elsewhere or _key(cx, f) not in functions
    ]
    found.global_nodes = [
        n for n in found.global_nodes if n.start_byte not in found.elsewhere or _declared_name(cx, n) not in variables
    ]
    found.record_nodes = [
        each for each in found.record_nodes if each[0].start_byte not in found.elsewhere or each[2] not in records
    ]


def _key(cx: Context, item: FunctionItem) -> tuple[tuple[str, ...], str]:
    return item.scope, _declared_name(cx, item.declarator)


def _declared_name(cx: Context, node: Node) -> str:
    """The name in a declaration or declarator; of several, that of the first."""
    inner: Node | None = node
    while inner is not None:
        node, inner = inner, inner.child_by_field_id(g.F_DECLARATOR)
    return cx.read(node)


def local_types(cx: Context, node: Node) -> Outline:
    """What a type declared inside a function adds to the file. Its methods are left out."""
    found = Outline()
    _visit(cx, node, _Scope(), found, 0)
    complete(cx, found)
    return found


def _walk(cx: Context, node: Node, scope: _Scope, found: Outline, depth: int) -> None:
    if depth > _MAX_NESTING:
        return
    for child in node.named_children:
        _visit(cx, child, scope, found, depth)


def _visit(cx: Context, child: Node, scope: _Scope, found: Outline, depth: int) -> None:
    kind = child.kind_id
    if kind in _IGNORED:
        return
    if cx.env.macros and kind in _INVOCATIONS and _expanded(cx, child, scope, found):
        return
    if kind == g.FUNCTION_DEFINITION:
        _function(cx, child, scope, found)
    elif kind == g.DECLARATION or kind == _FIELD_DECLARATION:
        _declaration(cx, child, scope, found, depth)
    elif kind in g.RECORDS:
        _record(cx, child, scope, found, "", depth)
    elif kind == g.ENUM:
        found.enum_nodes.append(child)
    elif kind == _TYPEDEF or kind == _ALIAS:
        _named_type(cx, child, scope, found, depth)
    elif kind == _TEMPLATE:
        start = scope.start if scope.start >= 0 else child.start_byte
        names = (*scope.template, *_template_names(cx, child.child_by_field_id(g.F_PARAMETERS)))
        inner = replace(scope, template=names, start=start)
        for part in child.named_children:
            if part.kind_id != g.kind("template_parameter_list"):
                _visit(cx, part, inner, found, depth + 1)
    elif kind == _NAMESPACE:
        name = child.child_by_field_id(g.F_NAME)
        parts = tuple(cx.read(name).replace(" ", "").split("::")) if name is not None else ()
        names = (*scope.names, *parts)
        found.namespaces.add("::".join(names))
        body = child.child_by_field_id(g.F_BODY)
        if body is not None:
            inner = _Scope(names, hidden=scope.hidden or not parts, elsewhere=scope.elsewhere)
            _walk(cx, body, inner, found, depth + 1)
    elif kind == _INCLUDE:
        path = child.child_by_field_id(g.F_PATH)
        if path is not None:
            found.includes.append(cx.read(path).strip('"<> '))
    elif kind == _FRIEND:
        _walk(cx, child, replace(scope, record="", names=scope.names[:-1]), found, depth + 1)
    elif kind == g.PREPROC_IF or kind == g.PREPROC_IFDEF:
        _conditional(cx, child, scope, found, depth + 1)
    elif kind in _CONTAINERS:
        _walk(cx, child, scope, found, depth + 1)


def _conditional(cx: Context, node: Node, scope: _Scope, found: Outline, depth: int) -> None:
    """All branches of an `#if` but `#if 0`."""
    above: list[str] = []
    current: Node | None = node
    while current is not None and depth <= _MAX_NESTING:
        condition = preproc_condition(cx, current)
        alternative = current.child_by_field_id(g.F_ALTERNATIVE)
        inner = scope
        if not scope.elsewhere:
            spelled = " && ".join([*above, *([f"({condition})"] if condition else [])])
            inner = replace(scope, elsewhere=True) if of_another_platform(spelled) else scope
        if condition != "0" or current.kind_id != g.PREPROC_IF:
            for child in current.named_children:
                if alternative is None or child.start_byte != alternative.start_byte:
                    _visit(cx, child, inner, found, depth)
        above.append(f"!({condition})")
        current = alternative
        depth += 1


def _function(cx: Context, node: Node, scope: _Scope, found: Outline) -> None:
    declarator = node.child_by_field_id(g.F_DECLARATOR)
    if declarator is None:
        return
    start = scope.start if scope.start >= 0 else node.start_byte
    if scope.elsewhere:
        found.elsewhere.add(node.start_byte)
    found.functions.append(
        FunctionItem(node, start, node.end_byte, declarator, scope.names, scope.record, scope.template, scope.hidden)
    )


def _expanded(cx: Context, node: Node, scope: _Scope, found: Outline) -> bool:
    """Add the functions that a macro invocation defines: `DEFINE(float)`, `KERNEL(scale) { ... }`. False when `node` is no
    invocation of a macro that defines any."""
    expanded = macros.expand_item(cx, node)
    if expanded is None:
        return False
    text, segments = expanded
    inner = Outline()
    root = parse_tree(text).root_node
    _walk(Context(text, 0, Environment(), Tally()), root, scope, inner, _MAX_NESTING - 8)
    if not any(item.node.kind_id == g.FUNCTION_DEFINITION for item in inner.functions):
        return False
    start = scope.start if scope.start >= 0 else node.start_byte
    expansion = Expansion(text, segments)
    found.functions.extend(
        replace(item, start=start, end=node.end_byte, expansion=expansion) for item in inner.functions
    )
    return True


def _declaration(cx: Context, node: Node, scope: _Scope, found: Outline, depth: int) -> None:
    typed = node.child_by_field_id(g.F_TYPE)
    if typed is not None and typed.child_by_field_id(g.F_BODY) is not None:
        if typed.kind_id in g.RECORDS:
            _record(cx, typed, scope, found, "", depth)
        elif typed.kind_id == g.ENUM:
            found.enum_nodes.append(typed)
    has_variable = False
    if scope.elsewhere:
        found.elsewhere.add(node.start_byte)
    for declarator in node.children_by_field_id(g.F_DECLARATOR):
        if _is_prototype(declarator):
            start = scope.start if scope.start >= 0 else node.start_byte
            found.functions.append(
                FunctionItem(
                    node, start, node.end_byte, declarator, scope.names, scope.record, scope.template, scope.hidden
                )
            )
        else:
            has_variable = True
    if has_variable and node.kind_id == g.DECLARATION and not scope.record:
        found.global_nodes.append(node)


def _is_prototype(node: Node | None) -> bool:
    """Whether a declarator declares a function (and no pointer to one)."""
    while node is not None:
        kind = node.kind_id
        if kind == g.FUNCTION_DECLARATOR:
            inner = node.child_by_field_id(g.F_DECLARATOR)
            return inner is None or inner.kind_id != g.PARENTHESIZED_DECLARATOR
        if kind == g.OPERATOR_CAST:
            return True
        if kind in (g.POINTER_DECLARATOR, g.REFERENCE_DECLARATOR, g.ATTRIBUTED_DECLARATOR):
            node = next((c for c in node.named_children if c.kind_id in g.DECLARATORS), None)
        else:
            return False
    return False


def _record(cx: Context, node: Node, scope: _Scope, found: Outline, given_name: str, depth: int) -> None:
    body = node.child_by_field_id(g.F_BODY)
    if body is None:
        return
    name_node = node.child_by_field_id(g.F_NAME)
    name = base_type(cx, name_node).name if name_node is not None else given_name
    names = (*scope.names, *name.split("::")) if name else scope.names
    if name:
        found.record_nodes.append((node, scope.names, "::".join(names)))
        if scope.elsewhere:
            found.elsewhere.add(node.start_byte)
    inner = _Scope(names, "::".join(names), scope.template, hidden=scope.hidden, elsewhere=scope.elsewhere)
    _walk(cx, body, inner, found, depth + 1)


def _named_type(cx: Context, node: Node, scope: _Scope, found: Outline, depth: int) -> None:
    typed = node.child_by_field_id(g.F_TYPE)
    if typed is not None and typed.child_by_field_id(g.F_BODY) is not None:
        if typed.kind_id in g.RECORDS:
            declarator = node.child_by_field_id(g.F_DECLARATOR)
            plain = declarator is not None and declarator.kind_id == g.TYPE_IDENTIFIER
            _record(cx, typed, scope, found, cx.read(declarator) if plain and declarator is not None else "", depth)
        elif typed.kind_id == g.ENUM:
            found.enum_nodes.append(typed)
    found.alias_nodes.append(node)


def _template_names(cx: Context, parameters: Node | None) -> tuple[str, ...]:
    names = []
    for child in parameters.named_children if parameters is not None else ():
        leaf = child.child_by_field_id(g.F_NAME) or child.child_by_field_id(g.F_DECLARATOR)
        if leaf is None:
            leaf = next((c for c in child.named_children if c.kind_id in (g.TYPE_IDENTIFIER, g.IDENTIFIER)), None)
        names.append(cx.read(leaf).lstrip("*&. ") if leaf is not None else "")
    return tuple(names)


# ------------------------------------------------------------------------------------------------ values and types


def complete(cx: Context, found: Outline) -> None:
    """Lower what is outside functions: fields, globals, aliases, enumerators."""
    for node, scope, qualified in found.record_nodes:
        found.records.append(_lower_record(cx, node, scope, qualified))
    for node in found.global_nodes:
        out: list[Stmt] = []
        declare.declaration(cx, node, out, local=False)
        found.globals.extend(s for s in out if isinstance(s, Declare))
    for node in found.alias_nodes:
        _alias(cx, node, found)
    for node in found.enum_nodes:
        _enumerators(cx, node, found)


def _lower_record(cx: Context, node: Node, scope: tuple[str, ...], qualified: str) -> Record:
    bases: list[TypeRef] = []
    for child in node.named_children:
        if child.kind_id == _BASES:
            for base in child.named_children:
                if base.kind_id in (g.TYPE_IDENTIFIER, g.QUALIFIED, g.TEMPLATE_TYPE):
                    bases.append(base_type(cx, base))
    fields: list[Declare] = []
    body = node.child_by_field_id(g.F_BODY)
    if body is not None:
        _fields(cx, body, fields, 0)
    return Record(
        qualified, "", cx.span(node), tuple(fields), tuple(base.name for base in bases),
        defaults=_template_defaults(cx, node.parent), base_types=tuple(bases),
    )  # fmt: skip


def _template_defaults(cx: Context, node: Node | None) -> tuple[tuple[str, TypeRef], ...]:
    """The types that a template's parameters are when they are left out."""
    if node is None or node.kind_id != _TEMPLATE:
        return ()
    parameters = node.child_by_field_id(g.F_PARAMETERS)
    found = []
    for child in parameters.named_children if parameters is not None else ():
        name, given = child.child_by_field_id(g.F_NAME), child.child_by_field_name("default_type")
        if name is not None and given is not None:
            whole = given.type == "type_descriptor"
            found.append((cx.read(name), described_type(cx, given) if whole else base_type(cx, given)))
    return tuple(found)


def _fields(cx: Context, node: Node, fields: list[Declare], depth: int) -> None:
    for child in node.named_children:
        kind = child.kind_id
        if kind == _FIELD_DECLARATION:
            out: list[Stmt] = []
            declare.declaration(cx, child, out, local=False)
            fields.extend(s for s in out if isinstance(s, Declare))
            typed = child.child_by_field_id(g.F_TYPE)
            anonymous = typed is not None and typed.kind_id in g.RECORDS and typed.child_by_field_id(g.F_NAME) is None
            if (
                anonymous
                and typed is not None
                and child.child_by_field_id(g.F_DECLARATOR) is None
                and depth < _MAX_NESTING
            ):
                inner = typed.child_by_field_id(g.F_BODY)
                if inner is not None:
                    _fields(cx, inner, fields, depth + 1)
        elif kind in _CONTAINERS and depth < _MAX_NESTING:
            _fields(cx, child, fields, depth + 1)


def _alias(cx: Context, node: Node, found: Outline) -> None:
    if node.kind_id == _ALIAS:
        name = node.child_by_field_id(g.F_NAME)
        typed = node.child_by_field_id(g.F_TYPE)
        if name is not None and typed is not None:
            found.aliases.append((cx.read(name), described_type(cx, typed)))
        return
    spec = specifiers(cx, node)
    anonymous = not spec.type.name
    for declarator in node.children_by_field_id(g.F_DECLARATOR):
        what = declared(cx, declarator, spec.type)
        if what.name is None:
            continue
        name_text = cx.read(what.name)
        if not (anonymous and declarator.kind_id == g.TYPE_IDENTIFIER) and what.type.name != name_text:
            found.aliases.append((name_text, what.type))


def _enumerators(cx: Context, node: Node, found: Outline) -> None:
    name_node = node.child_by_field_id(g.F_NAME)
    prefix = f"{cx.read(name_node)}::" if name_node is not None else ""
    body = node.child_by_field_id(g.F_BODY)
    previous: Expr | None = None
    stack = list(reversed(body.named_children)) if body is not None else []
    while stack:
        child = stack.pop()
        if child.kind_id != _ENUMERATOR:
            if child.kind_id in _CONTAINERS:
                stack.extend(reversed(child.named_children))
            continue
        name = child.child_by_field_id(g.F_NAME)
        if name is None:
            continue
        value = child.child_by_field_id(g.F_VALUE)
        span = cx.span(child)
        current: Expr
        if value is not None:
            current = cx.expr(value)
        elif previous is None:
            current = Const(span, 0)
        elif isinstance(previous, Const) and isinstance(previous.value, int):
            current = Const(span, previous.value + 1)
        else:
            current = Binary(span, "+", previous, Const(span, 1)) if len(found.constants) < 4096 else Const(span, 0)
        previous = current
        found.constants.append((cx.read(name), current))
        if prefix:
            found.constants.append((prefix + cx.read(name), current))
