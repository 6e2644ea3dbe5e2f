"""The IR as compact text, for tests, debugging and documentation."""

from __future__ import annotations

from stitchcuda.analysis.program.ir import (
    AddressOf,
    Api,
    Assign,
    Binary,
    Block,
    Break,
    Call,
    Case,
    Cast,
    Conditional,
    Const,
    Construct,
    Continue,
    Declare,
    Delete,
    Deref,
    Evaluate,
    Expr,
    Function,
    Goto,
    If,
    Index,
    InitList,
    Label,
    Lambda,
    Launch,
    Loop,
    Member,
    Module,
    Name,
    New,
    Opaque,
    Param,
    PreprocIf,
    Return,
    SizeOf,
    Stmt,
    Switch,
    Throw,
    Try,
    TypeRef,
    Unary,
)


def show_type(type_: TypeRef) -> str:
    args = f"<{', '.join(map(show_type, type_.args))}>" if type_.args else ""
    dims = "".join(f"[{show_expr(d) if d is not None else ''}]" for d in type_.dims)
    const = "const " if type_.const else ""
    return f"{const}{type_.name}{args}{'*' * type_.pointer}{'&' if type_.reference else ''}{dims}"


def _template(parts: tuple[Expr | TypeRef, ...]) -> str:
    if not parts:
        return ""
    return f"<{', '.join(show_type(p) if isinstance(p, TypeRef) else show_expr(p) for p in parts)}>"


def _list(parts: tuple[Expr, ...]) -> str:
    return ", ".join(map(show_expr, parts))


def show_expr(node: Expr) -> str:
    """One expression on one line."""
    match node:
        case Const(value=value):
            return (
                {None: "null", True: "true", False: "false"}[value] if isinstance(value, bool | None) else repr(value)
            )
        case Name(name=name, template=template):
            return name + _template(template)
        case Member(base=Deref(operand=base), name=name, template=template):
            return f"{show_expr(base)}->{name}{_template(template)}"
        case Member(base=base, name=name, template=template):
            return f"{show_expr(base)}.{name}{_template(template)}"
        case Index(base=base, index=index):
            return f"{show_expr(base)}[{show_expr(index)}]"
        case Deref(operand=operand):
            return f"*{show_expr(operand)}"
        case AddressOf(operand=operand):
            return f"&{show_expr(operand)}"
        case Unary(op=op, operand=operand):
            return f"{op}{show_expr(operand)}"
        case Binary(op=op, left=left, right=right):
            return f"({show_expr(left)} {op} {show_expr(right)})"
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return f"({show_expr(condition)} ? {show_expr(then)} : {show_expr(otherwise)})"
        case Assign(target=target, value=value, op=op, post=post):
            return f"{show_expr(target)} {op}={'(post) ' if post else ' '}{show_expr(value)}"
        case Call(callee=callee, args=args):
            return f"{show_expr(callee)}({_list(args)})"
        case Construct(type=type_, args=args):
            return f"{show_type(type_)}{{{_list(args)}}}"
        case New(type=type_, count=count, args=args):
            many = f"[{show_expr(count)}]" if count is not None else ""
            return f"new {show_type(type_)}{many}({_list(args)})"
        case Delete(operand=operand, array=array):
            return f"delete{'[]' if array else ''} {show_expr(operand)}"
        case Cast(type=type_, operand=operand):
            return f"({show_type(type_)}){show_expr(operand)}"
        case InitList(items=items, names=names):
            spelled = names or (None,) * len(items)
            return (
                "{"
                + ", ".join((f".{n} = " if n else "") + show_expr(i) for n, i in zip(spelled, items, strict=True))
                + "}"
            )
        case Lambda():
            captures = [node.default_capture] if node.default_capture else []
            captures += [f"&{n}" for n in node.by_reference] + list(node.by_copy)
            captures += [f"{n} = {show_expr(v)}" for n, v in node.init_captures]
            space = "" if node.space == "host" else f" {node.space}"
            body = " ".join(line.strip() for line in show_stmt(node.body))
            return f"[{', '.join(captures)}]{space}({_params(node.params)}) {body}"
        case SizeOf(type=type_, operand=operand):
            return f"sizeof({show_type(type_) if type_ is not None else show_expr(operand) if operand is not None else ''})"
        case Launch():
            config = [show_expr(p) if p is not None else "-" for p in (node.grid, node.block, node.shared, node.stream)]
            while config and config[-1] == "-":
                config.pop()
            api = "" if node.api == "<<<>>>" else f"@{node.api}"
            packed = f" packed {show_expr(node.packed_args)}" if node.packed_args is not None else ""
            coop = " cooperative" if node.cooperative else ""
            return f"launch{api}{coop} {show_expr(node.kernel)}<<<{', '.join(config)}>>>({_list(node.args)}){packed}"
        case Api(name=name, kind=kind, roles=roles, flags=flags):
            marks = f" /{' '.join(sorted(flags))}" if flags else ""
            return f"{kind}:{name}({', '.join(f'{r}={show_expr(v)}' for r, v in roles)}{marks})"
        case Opaque(what=what, children=children):
            return f"?{what.replace(' ', '-')}({_list(children)})"


def _params(params: tuple[Param, ...]) -> str:
    return ", ".join(
        f"{show_type(p.type)} {p.name}".strip() + (f" = {show_expr(p.default)}" if p.default is not None else "")
        for p in params
    )


def _case(case: Case, indent: str) -> list[str]:
    head = f"case {_list(case.labels)}:" if case.labels else "default:"
    return [indent + head, *(line for s in case.body for line in show_stmt(s, indent + "  "))]


def show_stmt(node: Stmt, indent: str = "") -> list[str]:
    """A statement as lines."""
    deeper = indent + "  "
    match node:
        case Declare():
            init = f" = {show_expr(node.init)}" if node.init is not None else ""
            words = ("static " if node.static else "") + (f"__{node.space}__ " if node.space else "")
            return [f"{indent}{words}{show_type(node.type)} {node.name}{init}"]
        case Evaluate(expr=expr):
            return [indent + show_expr(expr)]
        case Block(body=body, scope=scope):
            lines = [line for s in body for line in show_stmt(s, deeper)]
            return [f"{indent}{'{' if scope else '{-'}", *lines, f"{indent}}}"]
        case If():
            init = f"{' '.join(show_stmt(node.init))}; " if node.init is not None else ""
            lines = [f"{indent}if {init}{show_expr(node.condition)}", *show_stmt(node.then, deeper)]
            if node.otherwise is not None:
                lines += [f"{indent}else", *show_stmt(node.otherwise, deeper)]
            return lines
        case Loop():
            parts = []
            if node.init is not None:
                parts.append(" ".join(line.strip() for line in show_stmt(node.init)))
            if node.target is not None and node.iterable is not None:
                parts.append(f"{show_type(node.target.type)} {node.target.name} : {show_expr(node.iterable)}")
            else:
                parts.append(show_expr(node.condition) if node.condition is not None else "true")
            if node.step is not None:
                parts.append(show_expr(node.step))
            return [f"{indent}{node.form} {'; '.join(parts)}", *show_stmt(node.body, deeper)]
        case Switch(subject=subject, cases=cases):
            return [f"{indent}switch {show_expr(subject)}", *(line for c in cases for line in _case(c, deeper))]
        case Return(value=value):
            return [f"{indent}return{' ' + show_expr(value) if value is not None else ''}"]
        case Throw(value=value):
            return [f"{indent}throw{' ' + show_expr(value) if value is not None else ''}"]
        case Break():
            return [indent + "break"]
        case Continue():
            return [indent + "continue"]
        case Goto(label=label):
            return [f"{indent}goto {label}"]
        case Label(name=name):
            return [f"{indent}{name}:"]
        case Try(body=body, handlers=handlers, final=final):
            lines = [indent + "try", *show_stmt(body, deeper)]
            for handler in handlers:
                lines += [indent + "catch", *show_stmt(handler, deeper)]
            if final is not None:
                lines += [indent + "finally", *show_stmt(final, deeper)]
            return lines
        case PreprocIf(branches=branches, complete=complete):
            lines = []
            for condition, block in branches:
                lines += [f"{indent}#if {condition}", *show_stmt(block, deeper)]
            return [*lines, f"{indent}#end{'' if complete else ' (open)'}"]


def show_function(function: Function) -> str:
    """A function as text."""
    space = "" if function.space == "host" else f"{function.space} "
    head = f"{space}{show_type(function.returns)} {function.qualified}({_params(function.params)})"
    inits = "".join(f"\n  : {name}({show_expr(value)})" for name, value in function.initializers)
    if function.body is None:
        return f"{head};"
    return "\n".join([head + inits, *show_stmt(function.body)])


def show_module(module: Module) -> str:
    """A whole file as text."""
    parts = [f"include {i}" for i in module.includes]
    parts += [f"const {name} = {show_expr(value)}" for name, value in module.constants]
    parts += [f"alias {name} = {show_type(type_)}" for name, type_ in module.aliases]
    for record in module.records:
        bases = f" : {', '.join(record.bases)}" if record.bases else ""
        parts += [f"record {record.name}{bases}", *(line for f in record.fields for line in show_stmt(f, "  "))]
    parts += [line for g in module.globals for line in show_stmt(g)]
    parts += [show_function(f) for f in module.functions]
    return "\n".join(parts)
