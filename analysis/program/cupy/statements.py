"""Python statements to IR. Blocks open no scope: a Python name lives as long as its function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stitchcuda.analysis.program.cupy.expressions import UFUNCS
from stitchcuda.analysis.program.cupy.kinds import CONSUMERS, arguments_of, called_name
from stitchcuda.analysis.program.cupy.lifetimes import Lifetimes
from stitchcuda.analysis.program.cupy.lowering import STATIC, type_of
from stitchcuda.analysis.program.ir import (
    ApiKind,
    Assign,
    Block,
    Break,
    Call,
    Const,
    Continue,
    Declare,
    Evaluate,
    Expr,
    If,
    Index,
    Loop,
    Member,
    Name,
    Return,
    Stmt,
    Throw,
    Try,
    TypeRef,
)
from stitchcuda.analysis.syntax.python import text_of
from tree_sitter import Node


@dataclass(frozen=True, slots=True)
class Restore:
    """What a `with` puts back when it is left, by any way."""

    statement: Stmt
    loops: int  # loops around the `with`


class Statements(Lifetimes):
    restores: list[Restore]

    def body(self, node: Node) -> Block:
        """The whole function (or module), with its variables declared up front."""
        self.restores, self.loops, self.owned = [], 0, {}
        block = node if node.type in ("module", "block") else node.child_by_field_name("body") or node
        statements = self.statements(block)
        if not (statements and isinstance(statements[-1], Return)):
            statements += self._drops(block)
        return Block(self.span(block), (*self._declarations(), *statements), scope=False)

    def _declarations(self) -> list[Declare]:
        made = list(self.temporaries)
        module = self.scope is self.inference.file.module
        for name, kind in self.scope.kinds.items():
            if name in self.scope.params or name == self.self_name or kind.what in STATIC or module:
                continue
            made.append(Declare((0, 0), name, type_of(kind)))
        return made

    def statements(self, block: Node) -> list[Stmt]:
        out: list[Stmt] = []
        for child in block.named_children:
            out += self.statement(child)
        return out

    def block(self, node: Node | None) -> Block:
        return (
            Block((0, 0), (), scope=False)
            if node is None
            else Block(self.span(node), tuple(self.statements(node)), False)
        )

    def statement(self, node: Node) -> list[Stmt]:
        span = self.span(node)
        match node.type:
            case "expression_statement":
                made = [s for child in node.named_children for s in self._expression(child)]
                return [*self._comprehensions(node), *made]
            case "return_statement":
                return [*self._comprehensions(node), *self._return(node)]
            case "if_statement":
                return self._if(node)
            case "for_statement":
                return self._for(node)
            case "while_statement":
                condition = node.child_by_field_name("condition")
                test = self.consume(condition) if condition is not None else Const(span, True)
                return [Loop(span, "while", self._loop_body(node), condition=test)]
            case "with_statement":
                return self._with(node)
            case "try_statement":
                return [self._try(node)]
            case "break_statement":
                return [*self._leaving(self.loops), Break(span)]
            case "continue_statement":
                return [*self._leaving(self.loops), Continue(span)]
            case "raise_statement":
                value = [self.expr(c) for c in node.named_children]
                return [Throw(span, value[0] if value else None)]
            case "assert_statement":
                return [Evaluate(span, self.consume(c)) for c in node.named_children]
            case "delete_statement":
                return self._delete(node)
            case "block" | "module":
                return self.statements(node)
            case "ERROR":
                return [Evaluate(span, self.opaque(node, "syntax error"))]
            case "match_statement":
                return [Evaluate(span, self.opaque(node, "match"))]
        return []  # imports, definitions (lowered on their own), pass, comments

    # --------------------------------------------------------------------------------------------------- assignments

    def _expression(self, node: Node) -> list[Stmt]:
        span = self.span(node)
        if node.type == "assignment":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is None or right is None:
                return []
            return self._assign(node, left, right)
        if node.type == "augmented_assignment":
            return self._augmented(node)
        if node.type == "comment":
            return []
        return [Evaluate(span, self.expr(node))]

    def _assign(self, node: Node, left: Node, right: Node) -> list[Stmt]:
        span = self.span(node)
        if right.type == "assignment":  # a = b = value
            inner_left, inner_right = right.child_by_field_name("left"), right.child_by_field_name("right")
            if inner_left is None or inner_right is None:
                return []
            return [*self._assign(right, inner_left, inner_right), *self._assign(node, left, inner_left)]
        if left.type in ("pattern_list", "tuple_pattern"):
            targets = left.named_children
            if right.type in ("expression_list", "tuple") and len(right.named_children) == len(targets):
                held = [self.temporary(v, TypeRef("auto")) for v in right.named_children]
                swap = any(text_of(t) in text_of(right) for t in targets)
                if not swap:
                    pairs = zip(targets, right.named_children, strict=True)
                    return [s for target, value in pairs for s in self._assign(node, target, value)]
                first: list[Stmt] = [
                    Evaluate(span, Assign(span, h, self.expr(v)))
                    for h, v in zip(held, right.named_children, strict=True)
                ]
                second = [s for t, h in zip(targets, held, strict=True) for s in self._store(node, t, h)]
                return first + second
            value = Evaluate(span, self.expr(right))
            return [value, *(s for t in targets for s in self._store(node, t, self.opaque(t, "part")))]
        if left.type == "identifier" and self.kind(left).what in STATIC:
            return []
        kind = self.kind(right)
        if kind.what == "list" and (made := self._list(node, left, right)) is not None:
            return made
        if left.type == "subscript":
            base = left.child_by_field_name("value")
            if base is not None and self.kind(base).what == "array":
                return self._store_part(node, left, right)
        if right.type in ("subscript", "attribute") and (named := self._named_object(left, self.expr(right))):
            return named
        hint = text_of(left) if left.type in ("identifier", "attribute") else ""
        value_ = self.typed(right, self.expr(right, hint), kind)
        stored = self._store(node, left, value_)
        if left.type == "identifier" and self._dies_here(left, right):
            stream = self.temporary(right, TypeRef("cudaStream_t"))
            self.owned[text_of(left)] = stream
            stored.append(Evaluate(span, Assign(span, stream, self.current_stream(right))))
        return stored

    def _named_object(self, name: Node, value: Expr) -> list[Stmt]:
        """Another name for an object of a class of this file, which is not copied; nothing for what is none."""
        kind = self.kind(name)
        if name.type != "identifier" or kind.what != "instance" or kind.detail not in self.inference.file.classes:
            return []
        if not isinstance(value, Index | Member):
            return []
        return [Declare(self.span(name), text_of(name), TypeRef(kind.detail, reference=True), value)]

    def _store(self, node: Node, target: Node, value: Expr) -> list[Stmt]:
        span = self.span(node)
        if target.type == "identifier":
            return [Evaluate(span, Assign(span, Name(self.span(target), text_of(target)), value))]
        if target.type in ("attribute", "subscript"):
            base = target.child_by_field_name("value")
            if target.type == "subscript" and base is not None and self.kind(base).what in ("pinned", "host"):
                return [Evaluate(span, self.write_part(target, base, value))]
            place = self.expr(target)
            if isinstance(place, Member | Index):
                return [Evaluate(span, Assign(span, place, value))]
            return [Evaluate(span, value), Evaluate(span, place)]
        return [Evaluate(span, value)]

    def _store_part(self, node: Node, left: Node, right: Node) -> list[Stmt]:
        """`array[...] = value` on the device."""
        span = self.span(node)
        target = self.expr(left)
        kind = self.kind(right)
        if kind.what in ("pinned", "host"):
            roles = [("dst", target), ("src", self.expr(right)), ("bytes", self.extent(left))]
            copy = self.api(node, f"{self.array_type}.__setitem__", ApiKind.COPY, roles, frozenset({"async", "h2d"}))
            return [Evaluate(span, copy)]
        roles_ = [("dst", target), *self.sources([right])]
        return [Evaluate(span, self.api(node, f"{self.array_type}.__setitem__", ApiKind.LIBRARY_CALL, roles_))]

    def _augmented(self, node: Node) -> list[Stmt]:
        span = self.span(node)
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None or operator is None:
            return []
        op = text_of(operator).removesuffix("=")
        if self.kind(left).what == "array":
            target = self.expr(left)
            roles = [("dst", target), *self.sources([left, right])]
            call = self.api(node, f"{self.library}.{UFUNCS.get(op, op)}", ApiKind.LIBRARY_CALL, roles)
            return [Evaluate(span, call)]
        value = self.consume(right)
        if self.kind(left).what in ("pinned", "host"):
            element = self.element(left, self.expr(left))
            return [Evaluate(span, Assign(span, element, value, "+"))]
        place = self.expr(left)
        if isinstance(place, Name | Member | Index):
            plain = {"//": "/"}.get(op, op)
            if plain in ("+", "-", "*", "%", "<<", ">>", "&", "|", "^") or op == "//":
                return [Evaluate(span, Assign(span, place, value, plain))]
            return [Evaluate(span, Assign(span, place, self.opaque(node, op, [value])))]
        return [Evaluate(span, value)]

    def _comprehensions(self, node: Node) -> list[Stmt]:
        """What the comprehensions in a statement do, ahead of it: `print([f(x) for x in xs])`, `sum(f(x) for x in xs)`."""
        found: list[Stmt] = []
        stack = [node]
        while stack:
            inner = stack.pop()
            if inner.type in ("lambda", "function_definition"):
                continue
            if inner.type in ("list_comprehension", "generator_expression") and self._runs_through(inner):
                found += self._comprehension(inner)
            else:
                stack.extend(inner.named_children)
        return found

    def _runs_through(self, node: Node) -> bool:
        """The comprehension is run where it stands, and is no list that a name gets (`_list`)."""
        outer = node.parent
        if outer is not None and outer.type == "assignment" and self.kind(node).what == "list":
            left = outer.child_by_field_name("left")
            named = left is not None and left.type in ("identifier", "attribute")
            if named and node.type == "list_comprehension" and _fills_a_list(node):
                return False
            return self.kind(node).detail in ("plain", "host")
        if node.type == "list_comprehension":
            return True
        call = outer.parent if outer is not None and outer.type == "argument_list" else outer
        return call is not None and called_name(call) in CONSUMERS

    def _comprehension(self, node: Node) -> list[Stmt]:
        value = node.child_by_field_name("body")
        clauses = [c for c in node.named_children if c.type == "for_in_clause"]
        tests = [c for c in node.named_children if c.type == "if_clause"]
        if value is None or len(clauses) != 1:
            return []
        head, loop = self._loop_head(clauses[0])
        inner: Stmt = Evaluate(self.span(value), self.expr(value))
        for test in tests:
            inner = If(self.span(test), self.consume(test.named_children[0]), Block(self.span(value), (inner,), False))
        body = Block(self.span(value), (*head, inner), scope=False)
        return [Loop(self.span(node), "range", body, target=loop[0], iterable=loop[1])]

    def _list(self, node: Node, left: Node, right: Node) -> list[Stmt] | None:
        """`xs = [a, b]` and `xs = [f() for ... in ...]` of handles or arrays: a container filled one by one."""
        if left.type not in ("identifier", "attribute") or right.type not in ("list", "list_comprehension"):
            return None
        span = self.span(node)
        container = self.expr(left)
        hint = text_of(left)

        def push(value: Node) -> Evaluate:
            element = self.typed(value, self.expr(value, hint), self.kind(value))
            return Evaluate(self.span(value), Call(self.span(value), Member(span, container, "push_back"), (element,)))

        clear: Stmt = Evaluate(span, Call(span, Member(span, container, "clear"), ()))
        if right.type == "list":
            return [clear, *(push(c) for c in right.named_children if c.type != "comment")]
        value = right.child_by_field_name("body")
        if value is None or not _fills_a_list(right):
            return None
        head, loop = self._loop_head(next(c for c in right.named_children if c.type == "for_in_clause"))
        body = Block(self.span(value), (*head, push(value)), scope=False)
        return [clear, Loop(self.span(right), "range", body, target=loop[0], iterable=loop[1])]

    # ------------------------------------------------------------------------------------------------------- control

    def _if(self, node: Node) -> list[Stmt]:
        condition = node.child_by_field_name("condition")
        consequence = node.child_by_field_name("consequence")
        if condition is None:
            return []
        if _is_main_guard(condition):
            return self.statements(consequence) if consequence is not None else []
        otherwise: Stmt | None = None
        for clause in reversed(node.children_by_field_name("alternative")):
            if clause.type == "else_clause":
                otherwise = self.block(clause.child_by_field_name("body"))
            elif clause.type == "elif_clause":
                test = clause.child_by_field_name("condition")
                inner = self.consume(test) if test is not None else Const(self.span(clause), True)
                then = self.block(clause.child_by_field_name("consequence"))
                otherwise = If(self.span(clause), inner, then, otherwise)
        return [If(self.span(node), self.consume(condition), self.block(consequence), otherwise)]

    def _loop_body(self, node: Node, head: Sequence[Stmt] = ()) -> Block:
        self.loops += 1
        try:
            inner = self.block(node.child_by_field_name("body"))
        finally:
            self.loops -= 1
        return Block(inner.span, (*head, *inner.body), scope=False)

    def _for(self, node: Node) -> list[Stmt]:
        head, (target, iterable) = self._loop_head(node)
        return [Loop(self.span(node), "range", self._loop_body(node, head), target=target, iterable=iterable)]

    def _loop_head(self, node: Node) -> tuple[list[Stmt], tuple[Declare, Expr]]:
        """What a round begins with, the loop's variable, and what it runs over. `enumerate` and `zip` over lists count."""
        span = self.span(node)
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return [], (Declare(span, "_", TypeRef("auto")), self.opaque(node, "loop"))
        called = called_name(right)
        lists = arguments_of(right)[0] if called in ("enumerate", "zip") else []
        if left.type != "identifier" and lists and all(self.kind(a).what == "list" for a in lists):
            names = left.named_children
            counter = text_of(names[0]) if called == "enumerate" else f"$i{len(self.temporaries)}"
            targets = names[1:] if called == "enumerate" else names
            head: list[Stmt] = []
            for one, source in zip(targets, lists, strict=False):
                value = Index(self.span(source), self.expr(source), Name(span, counter))
                head += self._named_object(one, value) or self._store(one, one, value)
            size = Call(span, Member(span, self.expr(lists[0]), "size"), ())
            iterable = Call(span, Name(span, "range"), (size,))
            return head, (Declare(span, counter, TypeRef("int"), name_span=self.span(left)), iterable)
        if left.type == "identifier":
            kind = self.kind(left)
            target = Declare(self.span(left), text_of(left), type_of(kind), name_span=self.span(left))
            return [], (target, self.expr(right))
        targets_ = [s for t in left.named_children for s in self._store(t, t, self.opaque(t, "part"))]
        return targets_, (Declare(span, f"$i{len(self.temporaries)}", TypeRef("auto")), self.expr(right))

    def _return(self, node: Node) -> list[Stmt]:
        span = self.span(node)
        value = self.expr(node.named_children[0]) if node.named_children else None
        leaving = [*self._leaving(-1), *(self._drops(node) if self.loops == 0 and not self.restores else [])]
        if not leaving:
            return [Return(span, value)]
        if value is None:
            return [*leaving, Return(span)]
        held = self.temporary(node, type_of(self.kind(node.named_children[0])))
        return [Evaluate(span, Assign(span, held, value)), *leaving, Return(span, held)]

    def _leaving(self, loops: int) -> list[Stmt]:
        """What the `with` statements inside the innermost `loops` loops put back, innermost first."""
        return [r.statement for r in reversed(self.restores) if r.loops >= loops]

    def _with(self, node: Node) -> list[Stmt]:
        span = self.span(node)
        before: list[Stmt] = []
        after: list[Stmt] = []
        count = 0
        for item in (
            c for clause in node.named_children if clause.type == "with_clause" for c in clause.named_children
        ):
            value = item.child_by_field_name("value") if item.type == "with_item" else item
            alias: Node | None = None
            if value is not None and value.type == "as_pattern" and len(value.named_children) == 2:
                alias = value.named_children[1].named_children[0]
                value = value.named_children[0]
            if value is None:
                continue
            kind = self.kind(value)
            captured = self._captured(value) if kind.what == "capture" and value.type == "call" else None
            if captured is not None:
                before += captured[0]
                after.insert(0, captured[1])
                self.restores.append(Restore(captured[1], self.loops))
                count += 1
            elif kind.what in ("stream", "device") or (kind.what == "" and self._only_context(value)):
                opened, restore = self._enter(value, kind.what, alias)
                before += opened
                if restore is not None:
                    after.insert(0, restore)
                    self.restores.append(Restore(restore, self.loops))
                    count += 1
            elif alias is not None:
                before += self._store(value, alias, self.expr(value))
            else:
                before.append(Evaluate(self.span(value), self.expr(value)))
        inner = self.statements(node.child_by_field_name("body") or node)
        del self.restores[len(self.restores) - count :]
        if inner and isinstance(inner[-1], Return | Break | Continue):
            after = []
        return [Block(span, (*before, *inner, *after), scope=False)]

    def _only_context(self, value: Node) -> bool:
        """A parameter that is entered with `with`: a stream or a device, which one is not known."""
        return value.type == "identifier" and text_of(value) in self.scope.params

    def _enter(self, value: Node, what: str, alias: Node | None) -> tuple[list[Stmt], Stmt | None]:
        span = self.span(value)
        if what == "device":
            outer = self.opaque(value, "device") if any(r.loops >= 0 for r in self.restores) else Const(span, 0)
            back = self.api(value, "cupy.cuda.Device.__exit__", ApiKind.SET_DEVICE, [("device", outer)])
            return [Evaluate(span, self.set_device(value, value))], Evaluate(span, back)
        previous = self.temporary(value, TypeRef("cudaStream_t"))
        opened: list[Stmt] = [Evaluate(span, Assign(span, previous, self.current_stream(value)))]
        stream: Expr = self.expr(value, text_of(alias) if alias is not None else "stream")
        if not isinstance(stream, Name | Const):
            held: Expr = (
                Name(self.span(alias), text_of(alias))
                if alias is not None
                else self.temporary(value, TypeRef("cudaStream_t"))
            )
            opened.append(Evaluate(span, Assign(span, held, stream)))
            stream = held
        elif alias is not None:
            opened += self._store(value, alias, stream)
        opened.append(
            Evaluate(
                span, self.api(value, f"{self.library}.cuda.Stream.__enter__", ApiKind.SET_STREAM, [("stream", stream)])
            )
        )
        back = self.api(value, f"{self.library}.cuda.Stream.__exit__", ApiKind.SET_STREAM, [("stream", previous)])
        return opened, Evaluate(span, back)

    def _try(self, node: Node) -> Stmt:
        body = self.block(node.child_by_field_name("body"))
        handlers: list[Block] = []
        final: Block | None = None
        rest: tuple[Stmt, ...] = ()
        for clause in node.named_children:
            inner = next((c for c in clause.named_children if c.type == "block"), None)
            if clause.type in ("except_clause", "except_group_clause"):
                handlers.append(self.block(inner))
            elif clause.type == "finally_clause":
                final = self.block(inner)
            elif clause.type == "else_clause":
                rest = self.block(clause.child_by_field_name("body") or inner).body
        return Try(self.span(node), Block(body.span, (*body.body, *rest), scope=False), tuple(handlers), final)

    # ------------------------------------------------------------------------------------------ the end of an array


def _is_main_guard(condition: Node) -> bool:
    words = text_of(condition).replace('"', "'").split()
    return words in (["__name__", "==", "'__main__'"], ["'__main__'", "==", "__name__"])


def _fills_a_list(comprehension: Node) -> bool:
    """`[f(x) for x in xs]`: an element for each round of one loop."""
    clauses = [c.type for c in comprehension.named_children if c.type in ("for_in_clause", "if_clause")]
    return clauses == ["for_in_clause"]
