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
from typing import TypeAlias

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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Record:
    """A struct or class."""

    name: str  # qualified
    path: str
    span: Span
    fields: tuple[Declare, ...]
    bases: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()  # uids of functions defined in its body


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


@dataclass(frozen=True)
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


def children(node: Expr | Stmt) -> Iterator[Expr | Stmt]:
    """The direct sub-nodes of an IR node, in evaluation order as far as the IR fixes one."""
    match node:
        case Const() | Name() | Break() | Continue() | Goto() | Label():
            return
        case Member(base=b):
            yield b
        case Index(base=b, index=i):
            yield b
            yield i
        case Deref(operand=o) | AddressOf(operand=o) | Unary(operand=o) | Delete(operand=o) | Cast(operand=o):
            yield o
        case Binary(left=a, right=b):
            yield a
            yield b
        case Conditional(condition=c, then=t, otherwise=o):
            yield c
            yield t
            yield o
        case Assign(target=t, value=v):
            yield v
            yield t
        case Call(callee=c, args=args, keywords=keywords):
            yield c
            yield from args
            for _, value in keywords:
                yield value
        case Construct(args=args):
            yield from args
        case New(count=count, args=args):
            if count is not None:
                yield count
            yield from args
        case InitList(items=items):
            yield from items
        case Lambda(body=body, init_captures=init_captures):
            for _, value in init_captures:
                yield value
            yield body
        case SizeOf(operand=o):
            if o is not None:
                yield o
        case Launch():
            yield node.kernel
            for part in (node.grid, node.block, node.shared, node.stream):
                if part is not None:
                    yield part
            yield from node.args
            if node.packed_args is not None:
                yield node.packed_args
        case Api(roles=roles):
            for _, value in roles:
                yield value
        case Opaque(children=parts):
            yield from parts
        case Declare(init=init):
            if init is not None:
                yield init
        case Evaluate(expr=e):
            yield e
        case Block(body=body):
            yield from body
        case If():
            if node.init is not None:
                yield node.init
            yield node.condition
            yield node.then
            if node.otherwise is not None:
                yield node.otherwise
        case Loop():
            for piece in (node.init, node.iterable, node.target, node.condition):
                if piece is not None:
                    yield piece
            yield node.body
            if node.step is not None:
                yield node.step
        case Switch(subject=s, cases=cases):
            yield s
            for case in cases:
                yield from case.labels
                yield from case.body
        case Return(value=v) | Throw(value=v):
            if v is not None:
                yield v
        case Try(body=body, handlers=handlers, final=final):
            yield body
            yield from handlers
            if final is not None:
                yield final
        case PreprocIf(branches=branches):
            for _, block in branches:
                yield block


def walk(node: Expr | Stmt) -> Iterator[Expr | Stmt]:
    """The node and everything below it, parents first."""
    stack: list[Expr | Stmt] = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(list(children(current))))


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
