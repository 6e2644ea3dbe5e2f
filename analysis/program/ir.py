"""The Program IR: what every frontend produces and the symbolic executor reads.

The IR is a small structured imperative language, independent of C++ and of Python. A frontend turns calls it
recognises (CUDA runtime and driver API, CuPy, ...) into `Api` and `Launch` nodes whose vocabulary is the one of
`ApiKind`; the executor never sees a CUDA function name except for display.

Positions: a `Span` holds byte offsets (UTF-8) **relative to the start of the enclosing function** (`Function.base`), so
that a function's lowered body can be reused unchanged when text before it moves. Module-level nodes (globals, records)
are relative to 0. `Site` pairs a span with the function it belongs to; `Program.locate` gives the absolute place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, TypeAlias, overload

from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.quick_init import quick_init

Span: TypeAlias = tuple[int, int]


# --------------------------------------------------------------------------------------------------------------- types


@dataclass(frozen=True, slots=True)
class TypeRef:
    """A type as written, with qualifiers taken apart. `name` is spelled without template arguments or `std::`-less
    aliases resolved: `std::vector<float>` is name `std::vector`, args `(TypeRef("float"),)`."""

    name: str
    args: tuple[TypeRef, ...] = ()
    pointer: int = 0  # number of `*`
    reference: bool = False  # `&` or `&&`
    const: bool = False  # the pointee (pointer > 0) or the value is const
    dims: tuple[Expr | None, ...] = ()  # `T x[N][M]`; None for `[]`


# --------------------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Const:
    span: Span
    value: int | float | str | bool | None  # None is a null pointer


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, function or enumerator; `name` may be qualified (`ns::f`), template arguments are in `template`."""

    span: Span
    name: str
    template: tuple[Expr | TypeRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """`base.name`. A frontend lowers `p->name` to `Member(Deref(p), name)`."""

    span: Span
    base: Expr
    name: str
    template: tuple[Expr | TypeRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Index:
    span: Span
    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Deref:
    span: Span
    operand: Expr


@dataclass(frozen=True, slots=True)
class AddressOf:
    span: Span
    operand: Expr


@dataclass(frozen=True, slots=True)
class Unary:
    span: Span
    op: str  # - + ! ~
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """`&&` and `||` evaluate their right side only when needed; `,` evaluates both and gives the right."""

    span: Span
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Conditional:
    span: Span
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Assign:
    """`target op= value`; `op` is "" for plain `=`. `++x` is `Assign(x, 1, "+")`, `x++` the same with `post=True`
    (its value is the old one)."""

    span: Span
    target: Expr
    value: Expr
    op: str = ""
    post: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call that no frontend table knows: a user function, a method (`callee` is a `Member`), a lambda, a standard
    library function. The executor resolves it."""

    span: Span
    callee: Expr
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str, Expr], ...] = ()  # Python only


@dataclass(frozen=True, slots=True)
class Construct:
    """`T(a)`, `T{a}`: a temporary of type `type`."""

    span: Span
    type: TypeRef
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class New:
    span: Span
    type: TypeRef
    count: Expr | None  # `new T[count]`
    args: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete:
    span: Span
    operand: Expr
    array: bool = False


@dataclass(frozen=True, slots=True)
class Cast:
    span: Span
    type: TypeRef
    operand: Expr


@dataclass(frozen=True, slots=True)
class InitList:
    """`{a, b}` or `{.x = a}`; Python lists and tuples too. Names are None where not designated."""

    span: Span
    items: tuple[Expr, ...]
    names: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Lambda:
    span: Span
    params: tuple[Param, ...]
    body: Block
    by_reference: tuple[str, ...] = ()
    by_copy: tuple[str, ...] = ()
    default_capture: str = ""  # "&", "=" or ""
    space: Space = "host"
    init_captures: tuple[tuple[str, Expr], ...] = ()  # `[c = expr]`: evaluated where the lambda is made


@dataclass(frozen=True, slots=True)
class SizeOf:
    span: Span
    type: TypeRef | None
    operand: Expr | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel launch. `kernel` is evaluated to a function (or several, by template or pointer)."""

    span: Span
    kernel: Expr
    grid: Expr | None
    block: Expr | None
    shared: Expr | None
    stream: Expr | None  # None: not written, hence the default (current) stream
    args: tuple[Expr, ...]
    api: str = "<<<>>>"
    packed_args: Expr | None = None  # cudaLaunchKernel's `void** args`: an array of addresses
    cooperative: bool = False


@dataclass(frozen=True, slots=True)
class Api:
    """A call of the runtime or driver API or a library, by role. `kind` says what it does; `roles` maps the role names of
    `program/api.py` (`dst`, `src`, `bytes`, `kind`, `stream`, `event`, `out`, ...) to argument expressions."""

    span: Span
    name: str  # as the user wrote it, for display
    kind: ApiKind
    roles: tuple[tuple[str, Expr], ...]
    flags: frozenset[str] = frozenset()  # facts from the API table, e.g. "async", "blocking", "to-symbol", "2d", "peer"
    name_span: Span = (0, 0)

    def role(self, name: str) -> Expr | None:
        for key, value in self.roles:
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class Opaque:
    """Syntax that could not be understood (a parse error, an unsupported form). `children` are still evaluated, in
    order; the value is unknown."""

    span: Span
    what: str
    children: tuple[Expr, ...] = ()


Expr: TypeAlias = (
    Const
    | Name
    | Member
    | Index
    | Deref
    | AddressOf
    | Unary
    | Binary
    | Conditional
    | Assign
    | Call
    | Construct
    | New
    | Delete
    | Cast
    | InitList
    | Lambda
    | SizeOf
    | Launch
    | Api
    | Opaque
)


# ---------------------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Declare:
    """`type name = init;` or `type name(args);` (then `init` is a `Construct`). `space` is the memory space word of a
    device variable ("shared", "constant", "device", "managed") or ""."""

    span: Span
    name: str
    type: TypeRef
    init: Expr | None = None
    static: bool = False
    space: str = ""
    name_span: Span = (0, 0)


@dataclass(frozen=True, slots=True)
class Evaluate:
    span: Span
    expr: Expr


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Block:
    """Statements with a scope of their own (locals die at its end, in reverse order)."""

    span: Span
    body: tuple[Stmt, ...]
    scope: bool = True


@dataclass(frozen=True, slots=True)
class If:
    span: Span
    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None
    init: Stmt | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """`for`, `while`, `do` and range loops. For `range`, `target` is declared anew in each round from `iterable`."""

    span: Span
    form: str  # "for" | "while" | "do" | "range"
    body: Stmt
    init: Stmt | None = None
    condition: Expr | None = None
    step: Expr | None = None
    target: Declare | None = None
    iterable: Expr | None = None


@dataclass(frozen=True, slots=True)
class Case:
    span: Span
    labels: tuple[Expr, ...]  # empty: default
    body: tuple[Stmt, ...]  # falls through into the next case unless it leaves


@dataclass(frozen=True, slots=True)
class Switch:
    span: Span
    subject: Expr
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Return:
    span: Span
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class Break:
    span: Span


@dataclass(frozen=True, slots=True)
class Continue:
    span: Span


@dataclass(frozen=True, slots=True)
class Goto:
    span: Span
    label: str


@dataclass(frozen=True, slots=True)
class Label:
    span: Span
    name: str


@dataclass(frozen=True, slots=True)
class Throw:
    span: Span
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class Try:
    span: Span
    body: Block
    handlers: tuple[Block, ...] = ()
    final: Block | None = None


@dataclass(frozen=True, slots=True)
class PreprocIf:
    """`#if` inside a function: one block a branch, with its condition as written (negated ones spelled out); `complete`
    when there is an `#else`. The executor takes every branch unless the build says which is live."""

    span: Span
    branches: tuple[tuple[str, Block], ...]
    complete: bool


Stmt: TypeAlias = (
    Declare | Evaluate | Block | If | Loop | Switch | Return | Break | Continue | Goto | Label | Throw | Try | PreprocIf
)


# ------------------------------------------------------------------------------------------------------------- program

Space: TypeAlias = str  # "host" | "global" | "device" | "host_device"


class ApiKind(StrEnum):
    """What an API call does. The first group are the kinds of execution-graph nodes, the second never become nodes."""

    LAUNCH = "launch"
    COPY = "copy"
    MEMSET = "memset"
    ALLOC = "alloc"
    FREE = "free"
    HOST_ALLOC = "host_alloc"
    HOST_FREE = "host_free"
    REGISTER = "register"
    UNREGISTER = "unregister"
    STREAM_CREATE = "stream_create"
    STREAM_DESTROY = "stream_destroy"
    EVENT_CREATE = "event_create"
    EVENT_DESTROY = "event_destroy"
    EVENT_RECORD = "event_record"
    EVENT_WAIT = "event_wait"
    EVENT_SYNC = "event_sync"
    STREAM_SYNC = "stream_sync"
    DEVICE_SYNC = "device_sync"
    QUERY = "query"
    HOST_FUNC = "host_func"
    CAPTURE_BEGIN = "capture_begin"
    CAPTURE_END = "capture_end"
    GRAPH_INSTANTIATE = "graph_instantiate"
    GRAPH_LAUNCH = "graph_launch"
    GRAPH_UPDATE = "graph_update"
    PREFETCH = "prefetch"
    LIBRARY_CALL = "library_call"
    HOST_READ = "host_read"
    HOST_WRITE = "host_write"

    ELAPSED_TIME = "elapsed_time"
    SET_DEVICE = "set_device"
    DEVICE_POINTER = "device_pointer"  # cudaHostGetDevicePointer, cudaGetSymbolAddress: `out` aliases `src`
    SET_STREAM = "set_stream"  # a library handle (or the current stream) is bound to a stream
    RESET = "reset"  # cudaDeviceReset
    NEUTRAL = "neutral"  # known to neither wait nor enqueue; `out` roles receive unknown values
    UNMODELLED = "unmodelled"  # a CUDA call this version does not model: order after it is uncertain


HOST_WAITS = frozenset({ApiKind.STREAM_SYNC, ApiKind.EVENT_SYNC, ApiKind.DEVICE_SYNC})
RELEASES = frozenset({ApiKind.FREE, ApiKind.HOST_FREE, ApiKind.UNREGISTER})  # each may wait for the device (W8)


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    type: TypeRef
    default: Expr | None = None
    span: Span = (0, 0)


@dataclass(frozen=True, slots=True)
class Function:
    """One function definition or declaration. `uid` is stable under edits elsewhere: path, qualified name and an ordinal
    among equal names. `body` is shared between snapshots while the function's own text is unchanged."""

    uid: str
    name: str  # unqualified, without template arguments: `forward`, `~Buffer`, `operator()`
    qualified: str  # `ns::Model::forward`
    path: str
    base: int  # absolute byte offset of the function's first byte; every span below is relative to it
    span: Span  # of the whole definition, relative to base: (0, length)
    name_span: Span
    params: tuple[Param, ...]
    returns: TypeRef
    body: Block | None  # None for a declaration
    space: Space = "host"
    record: str = ""  # qualified name of the class it is a member of
    static: bool = False  # internal linkage, or a static member
    template: tuple[str, ...] = ()  # template parameter names
    initializers: tuple[tuple[str, Expr], ...] = ()  # constructor member initialisers
    language: str = "c++"  # "c" | "c++" | "cuda" | "python"
    has_error: bool = False  # the text holds a parse error
    digest: str = ""  # of its text and of the macro definitions it uses
    launch_bounds: tuple[Expr, ...] = ()
    host_cuda_calls: int = 0  # API calls and launches written in it (after macro expansion)
    mentions: frozenset[str] = frozenset()  # names it may call or pass on: functions, methods, constructed types
    defaulted: bool = False  # `= default`


@dataclass(frozen=True, slots=True)
class Record:
    """A struct or class."""

    name: str  # qualified
    path: str
    span: Span
    fields: tuple[Declare, ...]
    bases: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()  # uids of functions defined in its body
    defaults: tuple[tuple[str, TypeRef], ...] = ()  # template parameters, and what they are when left out
    base_types: tuple[TypeRef, ...] = ()  # the bases as written, with the arguments of templates


@dataclass(frozen=True, slots=True)
class Problem:
    """Something the analysis could not use, told to the user: never an exception."""

    path: str
    line: int  # 1-based; 0 when the whole file is meant
    what: str
    consequence: str
    internal: bool = False  # an error of stitchcuda itself that was contained: the answer is not complete


@dataclass(frozen=True, slots=True)
class Module:
    """One file, lowered."""

    path: str
    language: str
    functions: tuple[Function, ...]
    records: tuple[Record, ...] = ()
    globals: tuple[Declare, ...] = ()  # spans relative to 0
    aliases: tuple[tuple[str, TypeRef], ...] = ()  # typedef, using
    constants: tuple[tuple[str, Expr], ...] = ()  # object-like macros with a value, enumerators
    includes: tuple[str, ...] = ()  # as written between the quotes or brackets
    imports: tuple[str, ...] = ()  # Python
    problems: tuple[Problem, ...] = ()
    entry: Function | None = None  # Python: the module's own top-level code


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the source that survives edits elsewhere."""

    function: str  # Function.uid, or "" with a module-level span
    path: str
    span: Span  # relative to the function's base

    def __lt__(self, other: Site) -> bool:
        return (self.path, self.function, self.span) < (other.path, other.function, other.span)


@dataclass(frozen=True, slots=True)
class Location:
    """An absolute byte range in a file."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Program:
    """Modules linked together: which definition a name means, seen from which file. Built by `program/link.py`."""

    modules: dict[str, Module]
    functions: dict[str, Function]  # by uid
    by_name: dict[str, tuple[str, ...]] = field(default_factory=dict)  # unqualified name -> uids of definitions
    records: dict[str, Record] = field(default_factory=dict)  # qualified name -> record
    visible: dict[str, frozenset[str]] = field(default_factory=dict)  # path -> paths whose names it sees (itself too)
    callers: dict[str, frozenset[str]] = field(default_factory=dict)  # uid -> uids of functions that call it
    entries: tuple[str, ...] = ()  # uids: each `main`, else every function that nobody calls and that reaches CUDA
    problems: tuple[Problem, ...] = ()
    declarations: dict[str, tuple[str, ...]] = field(default_factory=dict)  # unqualified name -> uids of prototypes
    linked: dict[str, frozenset[str]] = field(default_factory=dict)  # path -> paths of its build targets, when known
    with_main: frozenset[str] = frozenset()  # paths that define a `main`
    reaches_cuda: frozenset[str] = frozenset()  # uids of functions that transitively contain CUDA work

    def locate(self, site: Site) -> Location:
        base = self.functions[site.function].base if site.function else 0
        return Location(site.path, base + site.span[0], base + site.span[1])


Node: TypeAlias = Expr | Stmt

_OFTEN: tuple[type, ...] = (
    *(Assign, AddressOf, Api, Binary, Call, Cast, Const, Deref, Index, Member, Name, Unary),
    *(Block, Declare, Evaluate, If, Return, Location, Param, Site, TypeRef),
)
for _each in _OFTEN:
    quick_init(_each)


def _of_call(node: Call) -> tuple[Node, ...]:
    if node.keywords:
        return (node.callee, *node.args, *[value for _, value in node.keywords])
    return (node.callee, *node.args)


def _of_launch(node: Launch) -> tuple[Node, ...]:
    return _given(node.kernel, node.grid, node.block, node.shared, node.stream, *node.args, node.packed_args)


def _given(*parts: Node | None) -> tuple[Node, ...]:
    return tuple([part for part in parts if part is not None])


def _of_if(node: If) -> tuple[Node, ...]:
    return _given(node.init, node.condition, node.then, node.otherwise)


def _of_loop(node: Loop) -> tuple[Node, ...]:
    return _given(node.init, node.iterable, node.target, node.condition, node.body, node.step)


def _of_switch(node: Switch) -> tuple[Node, ...]:
    return (node.subject, *[part for case in node.cases for part in (*case.labels, *case.body)])


# The direct sub-nodes by type, in evaluation order as far as the IR fixes one; types that are not listed have none.
_PARTS: dict[type, Callable[[Any], tuple[Node, ...]]] = {
    Member: lambda n: (n.base,),
    Index: lambda n: (n.base, n.index),
    **dict.fromkeys((Deref, AddressOf, Unary, Delete, Cast), lambda n: (n.operand,)),
    Binary: lambda n: (n.left, n.right),
    Conditional: lambda n: (n.condition, n.then, n.otherwise),
    Assign: lambda n: (n.value, n.target),
    Call: _of_call,
    Construct: lambda n: tuple(n.args),
    New: lambda n: (n.count, *n.args) if n.count is not None else tuple(n.args),
    InitList: lambda n: tuple(n.items),
    Lambda: lambda n: (*[value for _, value in n.init_captures], n.body),
    SizeOf: lambda n: _given(n.operand),
    Launch: _of_launch,
    Api: lambda n: tuple([value for _, value in n.roles]),
    Opaque: lambda n: tuple(n.children),
    Declare: lambda n: _given(n.init),
    Evaluate: lambda n: (n.expr,),
    Block: lambda n: tuple(n.body),
    If: _of_if,
    Loop: _of_loop,
    Switch: _of_switch,
    **dict.fromkeys((Return, Throw), lambda n: _given(n.value)),
    Try: lambda n: _given(n.body, *n.handlers, n.final),
    PreprocIf: lambda n: tuple([block for _, block in n.branches]),
}


def children(node: Node) -> Iterator[Node]:
    """The direct sub-nodes of an IR node, in evaluation order as far as the IR fixes one."""
    parts = _PARTS.get(type(node))
    return iter(parts(node) if parts is not None else ())


_KEPT = 1_000_000  # nodes that are listed before `_below` is begun anew
_below: KeptWith[tuple[Node, ...]] = KeptWith()
_held = 0


@overload
def bare(expr: Expr) -> Expr: ...
@overload
def bare(expr: Expr | None) -> Expr | None: ...
def bare(expr: Expr | None) -> Expr | None:
    """An expression without the casts around it."""
    while isinstance(expr, Cast):
        expr = expr.operand
    return expr


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first. Nodes never change: what is below a block is listed once."""
    if type(node) is not Block:
        return iter(_flat(node))
    below = _below.get(node)
    if below is None:
        global _held
        below = tuple(_flat(node)[1:])
        if _held > _KEPT:
            _below.clear()
            _held = 0
        _held += len(below)
        _below.keep(node, below)
    return chain((node,), below)


def _flat(node: Node) -> list[Node]:
    out: list[Node] = []
    stack = [node]
    pop, extend, append, parts_of = stack.pop, stack.extend, out.append, _PARTS.get
    while stack:
        current = pop()
        append(current)
        parts = parts_of(type(current))
        if parts is not None:
            extend(parts(current)[::-1])
    return out


def walk_within(
    node: Expr | Stmt, span: Span, descend: Callable[[Expr | Stmt], bool] = lambda _: True
) -> Iterator[Expr | Stmt]:
    """The nodes whose span lies in `span`, parents first. A node's parts lie in its own span (bits of macro expansions
    apart), so whole parts of the tree are passed over; so is what lies below a node for which `descend` says no."""
    low, high = span
    stack: list[Expr | Stmt] = [node]
    while stack:
        current = stack.pop()
        start, end = current.span
        if end < low or start > high:
            continue
        if low <= start and end <= high:
            yield current
        if descend(current):
            stack.extend(reversed(list(children(current))))
