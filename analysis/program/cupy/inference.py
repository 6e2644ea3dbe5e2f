"""What the names of a Python file hold, as far as it can be told without running it.

Flow-insensitive: a name has a kind when every assignment to it agrees. Parameters get theirs from the calls in the same
file, and from how they are used. What does not agree is unknown; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.program.cupy import table, torch_kinds
from stitchcuda.analysis.program.cupy.kinds import (
    MEMORY,
    PLAIN,
    UNKNOWN,
    Binder,
    FileKinds,
    Kind,
    Scope,
    arguments_of,
    called_name,
    cuda_string,
    element_of,
    join,
    listed,
    listed_fields,
    literal,
    own_nodes,
    parameters_of,
    self_name,
)
from stitchcuda.analysis.syntax.python import children_of, text_of
from tree_sitter import Node

ROUNDS = 6  # of propagation through calls


class Inference:
    def __init__(self, root: Node) -> None:
        self.file = FileKinds()
        self._declared: dict[tuple[str, str], Kind] = {}  # (class, attribute), by annotations in the class
        self._attributes: dict[tuple[str, str], Kind] = {}  # as the round at hand finds them
        self._given: dict[tuple[str, str], Kind] = {}  # (function, parameter), by the calls of the round at hand
        self._annotations: dict[tuple[str, str], Kind] = {}
        self._collect_imports(root)
        roots = {name.split(".")[0] for name in self.file.imports.values()}
        self.file.torch = "torch" in roots and "cupy" not in roots
        self.file.module = Scope("", root, [])
        self._collect_functions(root, "", "")
        for _ in range(ROUNDS):
            before = self._state()
            self._attributes = dict(self._declared)
            for scope in [self.file.module, *self.file.functions.values()]:
                self._assignments(scope)
            self._given = {}
            for scope in [self.file.module, *self.file.functions.values()]:
                self._calls(scope)
            for (function, name), kind in self._given.items():
                self.file.functions[function].kinds[name] = kind
            self.file.attributes = self._attributes  # what an earlier round did not know yet is not kept
            if self._state() == before:
                break

    def _state(self) -> object:
        assert self.file.module is not None
        scopes = [self.file.module, *self.file.functions.values()]
        return [(dict(s.kinds), s.returns) for s in scopes], dict(self.file.attributes)

    # ---------------------------------------------------------------------------------------------------- collecting

    def _collect_imports(self, root: Node) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            if node.type == "import_statement":
                for child in children_of(node, "name"):
                    if child.type == "aliased_import":
                        alias, name = child.child_by_field_name("alias"), child.child_by_field_name("name")
                        if alias is not None and name is not None:
                            self.file.imports[text_of(alias)] = text_of(name)
                    else:
                        first = text_of(child).split(".")[0]
                        self.file.imports[first] = first
            elif node.type == "import_from_statement":
                origin = node.child_by_field_name("module_name")
                for child in children_of(node, "name"):
                    target = child.child_by_field_name("name") if child.type == "aliased_import" else child
                    alias = child.child_by_field_name("alias") if child.type == "aliased_import" else child
                    if origin is not None and target is not None and alias is not None:
                        self.file.imports[text_of(alias)] = f"{text_of(origin)}.{text_of(target)}"
            else:
                stack.extend(node.named_children)

    def _collect_functions(self, node: Node, prefix: str, owner: str) -> None:
        for child in node.named_children:
            if child.type == "function_definition":
                name = text_of(child.child_by_field_name("name") or child)
                made = self._decorated(child)
                if made != UNKNOWN and self.file.module is not None:
                    self.file.module.kinds[name] = made
                    continue
                params = [p for p, _, _ in parameters_of(child)]
                if owner and params:
                    params = params[1:]
                qualified = f"{prefix}{name}"
                scope = self.file.functions[qualified] = Scope(name, child, params, owner, qualified)
                for param, _, annotation in parameters_of(child):
                    if annotation is not None and (kind := self._annotated(annotation)) != UNKNOWN:
                        scope.kinds[param] = self._annotations[qualified, param] = kind
                for inner in own_nodes(child):
                    if inner.type == "global_statement":
                        scope.globals.update(text_of(n) for n in inner.named_children)
                body = child.child_by_field_name("body")
                if body is not None:
                    self._collect_functions(body, f"{qualified}.", "")
            elif child.type == "class_definition":
                name = text_of(child.child_by_field_name("name") or child)
                self.file.classes.add(name)
                body = child.child_by_field_name("body")
                if body is not None:
                    self._collect_functions(body, f"{prefix}{name}.", name)
                    self._collect_fields(name, body)
            else:
                self._collect_functions(child, prefix, owner)

    def _collect_fields(self, name: str, body: Node) -> None:
        """What the constructor of a data class takes."""
        listed = listed_fields(body)
        if not listed or f"{name}.__init__" in self.file.functions:
            return
        self.file.fields[name] = {field: default for field, (_, default) in listed.items()}
        for field, (annotation, _) in listed.items():
            kind = self._annotated(annotation)
            if kind != UNKNOWN:
                self._declared[name, field] = kind

    def _decorated(self, function: Node) -> Kind:
        """Functions that a decorator turns into device code: `@cupy.fuse()`, `@cupyx.jit.rawkernel()`."""
        parent = function.parent
        if parent is None or parent.type != "decorated_definition":
            return UNKNOWN
        for decorator in (c for c in parent.named_children if c.type == "decorator"):
            inner: Node | None = decorator.named_children[0] if decorator.named_children else None
            if inner is not None and inner.type == "call":
                inner = inner.child_by_field_name("function")
            name = (self.canonical(inner) if inner is not None else None) or ""
            if name in table.FUSED:
                return Kind("snippet")
            if name.startswith("cupyx.jit"):
                return Kind("kernel")
        return UNKNOWN

    def _annotated(self, node: Node) -> Kind:
        name = self.canonical(node.named_children[0]) if node.named_children else None
        if name in table.STREAMS:
            return Kind("stream")
        if name in table.EVENTS:
            return Kind("event")
        if name == "cupy.ndarray":
            return Kind("array")
        if name == "numpy.ndarray":
            return Kind("host")
        return Kind("instance", name) if name in self.file.classes and name is not None else UNKNOWN

    # --------------------------------------------------------------------------------------------------- propagation

    def _assignments(self, scope: Scope) -> None:
        found: dict[str, Kind] = {}

        def bind(target: Node, kind: Kind) -> None:
            if target.type == "identifier":
                name = text_of(target)
                found[name] = join(found.get(name), kind)
            elif target.type == "attribute":
                owner = self._owner_of(target, scope)
                if owner:
                    key = (owner, text_of(target.child_by_field_name("attribute") or target))
                    self._attributes[key] = join(self._attributes.get(key), kind)

        returns: Kind | None = None
        again: list[tuple[Node, Node]] = []
        for node in scope.nodes():
            if node.type == "assignment":
                left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
                if left is None or right is None:
                    continue
                if left.type == "identifier" and _names(right, text_of(left)):
                    again.append((left, right))  # `x = x / 2`: for what `x` is otherwise
                    continue
                if scope is self.file.module and left.type == "identifier" and cuda_string(right):
                    self.file.sources[text_of(left)] = right
                if left.type in ("pattern_list", "tuple_pattern") and right.type in ("expression_list", "tuple"):
                    for one, given in zip(left.named_children, right.named_children, strict=False):
                        bind(one, self.kind(given, scope))
                elif left.type in ("pattern_list", "tuple_pattern"):
                    for one in left.named_children:
                        bind(one, UNKNOWN)
                else:
                    bind(left, self.kind(right, scope))
            elif node.type == "augmented_assignment":
                target = node.child_by_field_name("left")
                if target is not None and target.type == "identifier" and not self._name(text_of(target), scope).what:
                    bind(target, PLAIN)
            elif node.type == "for_statement" or node.type == "for_in_clause":
                self._loop_targets(node, scope, bind)
            elif node.type == "with_item":
                value = node.child_by_field_name("value")
                if value is not None and value.type == "as_pattern" and len(value.named_children) == 2:
                    bind(value.named_children[1].named_children[0], self.kind(value.named_children[0], scope))
            elif node.type == "return_statement" and node.named_children:
                returns = join(returns, self.kind(node.named_children[0], scope))
            self._used_as(node, scope)
        scope.returns = returns
        for target, kind in self._appended(scope):
            if target.type != "identifier" or text_of(target) in found:
                bind(target, kind)
        for left, right in again:
            name = text_of(left)
            if name in found and name not in scope.globals and name not in scope.params:
                scope.kinds[name] = found[name]
            bind(left, self.kind(right, scope))
        for name, kind in found.items():
            if name in scope.globals and self.file.module is not None:
                known = self.file.module.kinds.get(name)
                self.file.module.kinds[name] = join(known, kind)
            elif name not in scope.params:
                scope.kinds[name] = kind

    def _appended(self, scope: Scope) -> Iterator[tuple[Node, Kind]]:
        """The lists that something is appended to, and what they are then."""
        for node in scope.nodes():
            function = node.child_by_field_name("function") if node.type == "call" else None
            if function is None or function.type != "attribute":
                continue
            target, name = function.child_by_field_name("object"), function.child_by_field_name("attribute")
            given, _ = arguments_of(node)
            if target is not None and name is not None and text_of(name) == "append" and len(given) == 1:
                yield target, listed(self.kind(given[0], scope))

    def _loop_targets(self, node: Node, scope: Scope, bind: Binder) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return
        if left.type == "identifier":
            bind(left, self._element(right, scope))
            return
        called = called_name(right)
        arguments = arguments_of(right)[0] if right.type == "call" else []
        if called == "enumerate" and len(left.named_children) == 2 and arguments:
            bind(left.named_children[0], PLAIN)
            bind(left.named_children[1], self._element(arguments[0], scope))
        elif called == "zip":
            for one, argument in zip(left.named_children, arguments, strict=False):
                bind(one, self._element(argument, scope))

    def _element(self, iterable: Node, scope: Scope) -> Kind:
        if called_name(iterable) == "range":
            return PLAIN
        kind = self.kind(iterable, scope)
        if kind.what == "list":
            return element_of(kind)
        return kind if kind.what in MEMORY else UNKNOWN

    def _used_as(self, node: Node, scope: Scope) -> None:
        """A parameter of which no call is seen, by what only one kind can do."""
        base = node.child_by_field_name("object") if node.type == "attribute" else None
        what = ""
        if base is not None:
            attribute = text_of(node.child_by_field_name("attribute") or node)
            if attribute in ("wait_event", "wait_stream", "use", "launch_host_func", "begin_capture", "end_capture"):
                what = "stream"
        if base is None or base.type != "identifier" or not what:
            return
        name = text_of(base)
        if name in scope.params and scope.kinds.get(name, UNKNOWN) == UNKNOWN:
            scope.kinds[name] = Kind(what)

    def _calls(self, scope: Scope) -> None:
        """Arguments give parameters their kinds."""
        for node in scope.nodes():
            if node.type != "call":
                continue
            positional, named = arguments_of(node)
            self._fields_given(called_name(node), positional, named, scope)
            callee = self.callee(node, scope)
            if callee is None and (begun := self._begun(node, named)) is not None:
                callee, positional, named = begun
            if callee is None:
                continue
            given = dict(zip(callee.params, positional, strict=False))
            given.update({n: v for n, v in named.items() if n in callee.params})
            for name, value in given.items():
                self._passed(callee, name, self.kind(value, scope))

    def _begun(self, node: Node, named: dict[str, Node]) -> tuple[Scope, list[Node], dict[str, Node]] | None:
        """What `threading.Thread(target=f, args=(x,))` calls, and with what."""
        function, target, args = node.child_by_field_name("function"), named.get("target"), named.get("args")
        if function is None or target is None or self.canonical(function) != "threading.Thread":
            return None
        callee = self.file.functions.get(text_of(target)) if target.type == "identifier" else None
        given = args.named_children if args is not None and args.type in ("tuple", "list") else []
        return None if callee is None else (callee, given, {})

    def _passed(self, callee: Scope, name: str, kind: Kind) -> None:
        now = self._given.get((callee.qualified, name))
        before = callee.kinds.get(name, UNKNOWN) if now is None else now
        if kind.what in ("", "plain") and before.what not in ("", "function"):
            return
        known = self._annotations.get((callee.qualified, name)) if now is None else now
        self._given[callee.qualified, name] = join(known, kind)

    def _fields_given(self, name: str, positional: list[Node], named: dict[str, Node], scope: Scope) -> None:
        """What a data class is made with gives its fields their kinds."""
        fields = self.file.fields.get(name)
        if fields is None:
            return
        given: dict[str, Node | None] = {**fields, **dict(zip(fields, positional, strict=False)), **named}
        for field, value in given.items():
            kind = self.kind(value, scope) if value is not None else UNKNOWN
            known = self._attributes.get((name, field))
            if field in fields and kind.what not in ("", "plain"):
                wider = known is None or known.what == "plain" or (known.what, kind.what) == ("host", "pinned")
                self._attributes[name, field] = kind if wider else join(known, kind)

    # ------------------------------------------------------------------------------------------------------- queries

    def canonical(self, node: Node) -> str | None:
        """The dotted name that an expression spells, imports resolved; None when it is rooted in a variable."""
        if node.type == "identifier":
            return self.file.imports.get(text_of(node))
        if node.type == "attribute":
            base, name = node.child_by_field_name("object"), node.child_by_field_name("attribute")
            if base is None or name is None:
                return None
            inner = self.canonical(base)
            return f"{inner}.{text_of(name)}" if inner is not None else None
        return None

    def callee(self, call: Node, scope: Scope) -> Scope | None:
        """The function of this file that a call means."""
        function = call.child_by_field_name("function")
        if function is None:
            return None
        if function.type == "identifier":
            name = text_of(function)
            if name in self.file.classes:
                return self.file.functions.get(f"{name}.__init__")
            return self.file.functions.get(name)
        if function.type == "attribute":
            owner = self._owner_of(function, scope)
            if owner:
                return self.file.functions.get(
                    f"{owner}.{text_of(function.child_by_field_name('attribute') or function)}"
                )
        return None

    def _owner_of(self, attribute: Node, scope: Scope) -> str:
        """The class of the object in `object.attribute`."""
        base = attribute.child_by_field_name("object")
        if base is None:
            return ""
        if base.type == "identifier" and scope.owner and text_of(base) == self_name(scope.node):
            return scope.owner
        kind = self.kind(base, scope)
        return kind.detail if kind.what == "instance" else ""

    def _name(self, name: str, scope: Scope) -> Kind:
        if name in scope.kinds:
            return scope.kinds[name]
        if name in scope.params or self.file.module is None:
            return UNKNOWN
        return self.file.module.kinds.get(name, UNKNOWN)

    def kind(self, node: Node, scope: Scope) -> Kind:
        match node.type:
            case "identifier":
                return self._name(text_of(node), scope)
            case "integer" | "float" | "true" | "false" | "none" | "not_operator":
                return PLAIN
            case "comparison_operator":
                return Kind("array") if any(self.kind(c, scope).what == "array" for c in node.named_children) else PLAIN
            case "string" if self.file.torch and torch_kinds.on_cuda(node, lambda _: UNKNOWN):
                return torch_kinds.CUDA
            case "string" | "concatenated_string":
                return Kind("source") if cuda_string(node) else PLAIN
            case "parenthesized_expression" | "named_expression" | "await":
                return self.kind(node.named_children[-1], scope) if node.named_children else UNKNOWN
            case "conditional_expression":
                parts = node.named_children
                return join(self.kind(parts[0], scope), self.kind(parts[-1], scope)) if len(parts) == 3 else UNKNOWN
            case "list" | "tuple" | "expression_list":
                elements = [self.kind(c, scope) for c in node.named_children]
                if not elements:
                    return Kind("list")
                alike = all(e == elements[0] for e in elements)
                what = elements[0].what if all(e.what == elements[0].what for e in elements) else ""
                return listed(elements[0] if alike else Kind(what))
            case "list_comprehension" | "generator_expression":
                body = node.child_by_field_name("body")
                return listed(self.kind(body, scope) if body is not None else UNKNOWN)
            case "binary_operator" | "unary_operator" | "boolean_operator":
                kinds = [self.kind(c, scope) for c in node.named_children]
                for what in ("array", "pinned", "host"):
                    if any(k.what == what for k in kinds):
                        return Kind("array" if what == "array" else "host")
                if any(k.what == "list" for k in kinds):  # `[x] * n`
                    return next(k for k in kinds if k.what == "list")
                return PLAIN if all(k == PLAIN for k in kinds) else UNKNOWN
            case "subscript":
                base = node.child_by_field_name("value")
                kind = self.kind(base, scope) if base is not None else UNKNOWN
                if kind.what == "list":
                    return element_of(kind)
                return Kind(kind.what, kind.detail) if kind.what in MEMORY else UNKNOWN
            case "attribute":
                return self._attribute(node, scope)
            case "call":
                return self._call(node, scope)
        return UNKNOWN

    def _attribute(self, node: Node, scope: Scope) -> Kind:
        canonical = self.canonical(node)
        if canonical in ("cupy.cuda.Stream.null", "cupy.cuda.Stream.ptds", "cupy.cuda.stream.Stream.null"):
            return Kind("stream")
        if canonical is not None:
            if canonical in table.NEUTRAL:
                return PLAIN
            return Kind("function", canonical) if table.makes_arrays(canonical) else UNKNOWN
        name = text_of(node.child_by_field_name("attribute") or node)
        owner = self._owner_of(node, scope)
        if owner:
            return self.file.attributes.get((owner, name), UNKNOWN)
        base = node.child_by_field_name("object")
        kind = self.kind(base, scope) if base is not None else UNKNOWN
        if kind.what in MEMORY:
            if name in table.VIEWS or name == "data":
                return Kind(kind.what, kind.detail)
            return PLAIN if name in table.FACTS else UNKNOWN
        return UNKNOWN

    def _call(self, node: Node, scope: Scope) -> Kind:
        function = node.child_by_field_name("function")
        if function is None:
            return UNKNOWN
        canonical = self.canonical(function)
        positional, named = arguments_of(node)
        if canonical is not None:
            return self._library(canonical, positional, named, scope)
        if function.type == "identifier":
            name = text_of(function)
            if name in self.file.classes:
                return Kind("instance", name)
            if name in self.file.functions:
                return self.file.functions[name].returns or UNKNOWN
            if name in table.HOST_BUILTINS:
                if name in ("list", "tuple", "sorted", "reversed") and positional:
                    return self.kind(positional[0], scope)
                return UNKNOWN if name in ("next", "getattr", "iter") else PLAIN
            kind = self._name(name, scope)
            if kind.what == "function" and kind.detail:
                return self._library(kind.detail, positional, named, scope)
            return Kind("array") if kind.what == "snippet" else UNKNOWN
        if function.type == "attribute":
            return self._method(node, function, positional, named, scope)
        return UNKNOWN

    def _library(self, name: str, positional: list[Node], named: dict[str, Node], scope: Scope) -> Kind:
        if name == "threading.Thread":
            return Kind("thread")
        if name.startswith("torch."):
            return torch_kinds.result(name, positional, named, lambda n: self.kind(n, scope))
        if name in table.STREAMS or name in table.CURRENT_STREAM or name == "cupy.cuda.ExternalStream":
            return Kind("stream")
        if name in table.EVENTS:
            return Kind("event")
        if name in table.DEVICES:
            return Kind("device")
        if name in table.PINNED:
            return Kind(
                "pinned", self._element_type(name, positional, named), self._dimensions(positional, named, scope)
            )
        if name in table.RAW_KERNELS:
            return Kind("kernel", literal(named.get("name") or (positional[1] if len(positional) > 1 else None)))
        if name in table.KERNEL_MODULES:
            return Kind("module")
        if name in table.SNIPPET_KERNELS or name in table.FUSED:
            return Kind("snippet")
        if name in table.DOWNLOADS:
            out = named.get("out")
            return self.kind(out, scope) if out is not None else Kind("host")
        if name in table.NEUTRAL or name.startswith("cupy.cuda."):
            return PLAIN if name in table.NEUTRAL else UNKNOWN
        if name.startswith(table.ARRAY_MODULES):
            flat = name in table.EMPTY | {"cupy.zeros", "cupy.ones"}
            dimensions = self._dimensions(positional, named, scope) if flat else 0
            return Kind("array", self._element_type(name, positional, named), dimensions)
        root = name.split(".")[0]
        if root == "numpy":
            last = name.rsplit(".", 1)[-1]
            if last == "frombuffer" and positional and self.kind(positional[0], scope).what == "pinned":
                return Kind("pinned", self._element_type(name, positional, named))
            return PLAIN if last in table.ELEMENT_TYPES or last == "prod" else Kind("host")
        return PLAIN if root in table.HOST_MODULES else UNKNOWN

    def _dimensions(self, positional: list[Node], named: dict[str, Node], scope: Scope) -> int:
        """1 when the shape of a new array is a number, else not known."""
        shape = positional[0] if positional else named.get("shape")
        return 1 if shape is not None and self.kind(shape, scope) == PLAIN else 0

    def _element_type(self, name: str, positional: list[Node], named: dict[str, Node]) -> str:
        given = named.get("dtype")
        if given is None and name in table.EMPTY | table.PINNED | {"cupy.zeros", "cupy.ones"} and len(positional) > 1:
            given = positional[1]
        if given is None:
            return table.DEFAULT_ELEMENT if name in ("cupy.empty", "cupy.zeros", "cupy.ones") else ""
        word = literal(given) or (self.canonical(given) or text_of(given)).rsplit(".", 1)[-1]
        return table.ELEMENT_TYPES.get(word, "")

    def _method(self, node: Node, function: Node, positional: list[Node], named: dict[str, Node], scope: Scope) -> Kind:
        name = text_of(function.child_by_field_name("attribute") or function)
        own = self.callee(node, scope)
        if own is not None:
            return own.returns or UNKNOWN
        base = function.child_by_field_name("object")
        kind = self.kind(base, scope) if base is not None else UNKNOWN
        if self.file.torch and kind.what in ("", *MEMORY, "snippet"):
            found = torch_kinds.of_method(kind, name, positional, named, lambda n: self.kind(n, scope))
            if found is not None:
                return found
        if self.file.torch and self.kind(function, scope).what == "snippet":
            return Kind("array")
        if kind.what == "stream":
            return {"record": Kind("event"), "record_event": Kind("event"), "end_capture": Kind("graph")}.get(
                name, kind if name == "use" else PLAIN
            )
        if kind.what == "module" and name == "get_function":
            return Kind("kernel", literal(positional[0] if positional else named.get("name")))
        if kind.what == "array":
            if name == "get":
                out = named.get("out")
                return self.kind(out, scope) if out is not None else Kind("host", kind.detail)
            if name == "item":
                return PLAIN
            return PLAIN if name in ("set", "fill") else Kind("array", kind.detail)
        if kind.what in ("pinned", "host"):
            return Kind(kind.what, kind.detail) if name in table.VIEWS else Kind("host")
        if kind.what == "list":
            return element_of(kind) if name == "pop" and kind.detail else PLAIN
        return UNKNOWN


def _names(node: Node, name: str) -> bool:
    """An expression that has this name in it."""
    stack = [node]
    while stack:
        inner = stack.pop()
        if inner.type == "identifier" and text_of(inner) == name:
            return True
        stack.extend(inner.named_children)
    return False
