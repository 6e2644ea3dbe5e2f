"""The state of one group of paths: what the program's memory holds, which branch decisions were taken, what is ordered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import compress
from operator import is_not
from typing import TypeAlias

from stitchcuda.analysis.order import machine
from stitchcuda.analysis.order.machine import OrderState
from stitchcuda.analysis.order.symbolic import ONE, Covering, Poly, symbol
from stitchcuda.analysis.order.timeline import Condition, Released
from stitchcuda.analysis.order.values import (
    Either,
    Handle,
    Instance,
    Num,
    Place,
    Pointer,
    Step,
    Truth,
    Unknown,
    Value,
    either,
    solid,
)

Path = tuple[Step, ...]
Key = tuple[str, int, int]  # something that can be released: its kind, its number, and `Handle.made`
Families: TypeAlias = Mapping[int, tuple[tuple[Key, int, Released], ...]]
MAX_BOUNDS = 24


@dataclass(slots=True)
class State:
    """Mutable; `copy` before a fork. `memory` maps an object to what is stored below it; the inner dictionaries are
    shared between copies until one of them writes."""

    order: OrderState = field(default_factory=OrderState)
    memory: dict[int, dict[Path, Value]] = field(default_factory=dict)
    owned: set[int] = field(default_factory=set)
    facts: dict[str, bool] = field(default_factory=dict)
    bounds: tuple[Poly, ...] = ()  # polynomials known to be >= 0 on these paths
    conditions: tuple[Condition, ...] = ()
    device: int | None = 0
    current_stream: int | None = None  # Python frontends: the stream of `with stream:`
    library_streams: dict[str, int] = field(default_factory=dict)  # key of a library handle -> stream
    host_ops: dict[tuple[int, str], int] = field(default_factory=dict)  # host accesses since the last device op
    touched: frozenset[int] = frozenset()  # buffers that copies or kernels used so far
    released: dict[Key, tuple[Released, Place | None]] = field(
        default_factory=dict
    )  # and the object whose destructor did
    # A loop released all members of a family (by `Lifetimes._family_number`): one of them, the loop. Never changed in place.
    families: Families = field(default_factory=dict)
    doubtful: frozenset[Key] = frozenset()  # a place that names it held something else on some of these paths
    divided: frozenset[Key] = frozenset()  # one place held it on some paths, and another one on others
    dead: bool = False  # the paths ended inside an expression (`exit()`)
    capture_mode: int | None = 0  # G3: what the thread is prohibited from during captures; None: not known

    def copy(self) -> State:
        self.owned.clear()
        return State(
            self.order.copy(),
            dict(self.memory),
            set(),
            dict(self.facts),
            self.bounds,
            self.conditions,
            self.device,
            self.current_stream,
            dict(self.library_streams),
            dict(self.host_ops),
            self.touched,
            dict(self.released),
            self.families,
            self.doubtful,
            self.divided,
            self.dead,
            self.capture_mode,
        )

    def become(self, other: State) -> None:
        """Takes over everything of `other`."""
        for each in fields(State):
            setattr(self, each.name, getattr(other, each.name))

    # ---------------------------------------------------------------------------------------------------------- memory

    def load(self, place: Place) -> Value | None:
        entries = self.memory.get(place.object)
        return entries.get(place.path) if entries else None

    def store(self, place: Place, value: Value) -> None:
        self._own(place.object)[place.path] = value

    def below(self, place: Place) -> Iterator[tuple[Path, Value]]:
        """What is stored under a place, with paths relative to it (the place itself included as the empty path)."""
        n = len(place.path)
        for path, value in self.memory.get(place.object, {}).items():
            if path[:n] == place.path:
                yield path[n:], value

    def clear_below(self, place: Place) -> None:
        entries = self.memory.get(place.object)
        if not entries:
            return
        n = len(place.path)
        if not n:
            self.memory[place.object] = {}
            self.owned.add(place.object)
            return
        doomed = [p for p in entries if p[:n] == place.path]
        if doomed:
            own = self._own(place.object)
            for p in doomed:
                del own[p]

    def forget(self, objects: Iterable[int], kept: int | None) -> None:
        """These are gone, all but one: a state that is small is compared and merged at little cost."""
        for obj in objects:
            if obj != kept:
                self.memory.pop(obj, None)
                self.owned.discard(obj)
        if self.released and any(released.reset for released, _ in self.released.values()):
            self.released = {key: found for key, found in self.released.items() if not found[0].reset}

    def copy_below(self, source: Place, target: Place) -> None:
        """Copies a record's contents."""
        found = list(self.below(source))
        self.clear_below(target)
        if found:
            own = self._own(target.object)
            for path, value in found:
                own[target.path + path] = value

    def _own(self, obj: int) -> dict[Path, Value]:
        if obj not in self.owned:
            self.memory[obj] = dict(self.memory.get(obj, {}))
            self.owned.add(obj)
        return self.memory[obj]

    # ------------------------------------------------------------------------------------------------------- decisions

    def truth(self, value: Value) -> bool | None:
        """Whether a value counts as true, as far as it is known on these paths."""
        match value:
            case Num(value=poly):
                if poly.constant is not None:
                    return poly.constant != 0
                return self.facts.get(str(poly))
            case Truth():
                return self._truth(value)
            case Pointer() | Handle() | Instance():
                return True
            case Either(options=options):
                return True if len(options) > 1 and all(self.truth(o) for o in options) else None
            case Unknown(key=key):
                return self.facts.get(key)
        return None

    def _truth(self, t: Truth) -> bool | None:
        if t.op == "atom":
            known = self.facts.get(t.key)
            return known if known is not None or t.low is None else self._from_bounds(t.low, t.exact)
        answers = [self._truth(p) for p in t.parts]
        if t.op == "not":
            return None if answers[0] is None else not answers[0]
        absorbing = t.op == "or"
        if absorbing in answers:
            return absorbing
        if None not in answers:
            return not absorbing
        key, straight = _clause(t)
        known = self.facts.get(key)
        return known if known is None or straight else not known

    def _from_bounds(self, low: Poly, exact: bool) -> bool | None:
        """Whether `low >= 0` (or `low == 0`) follows from one known bound."""
        if not self.bounds:
            return None
        if exact:  # only "not equal" is looked for: strictly above or below
            above, below = Covering(low - ONE), Covering(-low - ONE)
            for bound in self.bounds:
                if above.covers(bound) or below.covers(bound):
                    return False
            return None
        under, against = Covering(low), Covering(-low - ONE)
        for bound in self.bounds:
            if under.covers(bound):
                return True
            if against.covers(bound):
                return False
        return None

    def assume(self, value: Value, outcome: bool) -> None:
        """Records a branch decision."""
        match value:
            case Num(value=poly) if poly.constant is None:
                self.facts[str(poly)] = outcome
            case Truth(op="atom", key=key, low=low, exact=exact):
                self.facts[key] = outcome
                if low is not None and len(self.bounds) < MAX_BOUNDS:
                    if not exact:
                        self.bounds += (low,) if outcome else (-low - ONE,)
                    elif outcome:
                        self.bounds += (low, -low)
            case Truth(op="not", parts=parts):
                self.assume(parts[0], not outcome)
            case Truth(op=op, parts=parts) if (op == "and") == outcome:
                for part in parts:
                    self.assume(part, outcome)
            case Truth():  # one of the parts decides it, which one is open
                name, straight = _clause(value)
                self.facts[name] = outcome if straight else not outcome
            case Unknown(key=key):
                self.facts[key] = outcome


def _clause(t: Truth) -> tuple[str, bool]:
    """The name of a combination as the "or" of its parts, in whatever order and way it is written; False with it when it is
    that one's contrary: `!a && !b` is not `a || b`."""
    straight = t.op == "or"
    parts: set[str] = set()
    waiting = list(t.parts)
    while waiting:
        part = waiting.pop()
        if part.op == t.op:
            waiting.extend(part.parts)
            continue
        positive = straight
        while part.op == "not":
            part, positive = part.parts[0], not positive
        if part.op == "atom":
            name = part.key
        else:
            name, same = _clause(part)
            positive = positive == same
        parts.add(name if positive else f"!{name}")
    return f"({' || '.join(sorted(parts))})", straight


def is_handle(value: Value | None) -> bool:
    """Values whose loss costs an answer: kept apart when paths merge."""
    return isinstance(value, Pointer | Handle | Instance)


def order_differs(a: State, b: State) -> bool:
    """Whether two groups of paths did different device work, or will put it elsewhere."""
    if a.order.earlier != b.order.earlier or a.order.host != b.order.host or a.order.streams != b.order.streams:
        return True
    return a.device != b.device or a.current_stream != b.current_stream or a.order.events != b.order.events


def handles_differ(a: State, b: State) -> bool:
    """Whether handle-valued memory differs between two groups of paths."""
    for obj in _apart(a.memory, b.memory):
        x, y = a.memory[obj], b.memory.get(obj)
        if y is None:
            continue
        for path, one in x.items():
            other = y.get(path)
            if other is None or one is other or one == other:
                continue
            if is_handle(one) and is_handle(other):
                return True
    return False


def _apart(a: dict[int, dict[Path, Value]], b: dict[int, dict[Path, Value]]) -> list[int]:
    """The objects of `a` that are not shared with `b`. Thousands are, and few are not: the loop is the library's own."""
    return list(compress(a, map(is_not, map(b.get, a), a.values())))


def merge(
    a: State, b: State, fresh: Callable[[], str], from_before: Callable[[int, Path], bool], forced: bool = False
) -> State:
    """One state for two groups of paths, which are gone then. What differs becomes unknown, except that a handle wins over
    nothing. `from_before` tells the places that held a number before anything was executed: where only one of the two wrote
    one, the other still holds that."""
    memory = a.memory
    apart = _apart(b.memory, memory)
    here, there = _held_by_some(a, b, apart)
    doubtful = a.doubtful | b.doubtful | here | there
    released = _released(a, b, doubtful) if a.released or b.released else {}
    alone = len(memory) > len(b.memory) - sum(obj not in memory for obj in apart)
    for obj in [obj for obj in memory if obj not in b.memory] if alone else ():
        memory[obj] = _opened(obj, memory[obj], {}, fresh, from_before)
    for obj in apart:
        x, y = memory.get(obj), b.memory[obj]
        new = _opened(obj, y, {}, fresh, from_before) if x is None else _merged_below(obj, x, y, fresh, from_before)
        memory[obj] = new
    facts = a.facts if a.facts == b.facts else {k: v for k, v in a.facts.items() if b.facts.get(k) == v}
    common = 0
    for p, q in zip(a.conditions, b.conditions, strict=False):
        if p != q:
            break
        common += 1
    library = {k: v for k, v in a.library_streams.items() if b.library_streams.get(k) == v}
    hosts = {k: v for k, v in a.host_ops.items() if b.host_ops.get(k) == v}
    return State(
        machine.merge(a.order, b.order, forced),
        memory,
        set(),
        facts,
        a.bounds if a.bounds == b.bounds else tuple(p for p in a.bounds if p in b.bounds),
        a.conditions[:common],
        a.device if a.device == b.device else None,
        a.current_stream if a.current_stream == b.current_stream else None,
        library,
        hosts,
        a.touched | b.touched,
        released,
        _common_families(a.families, b.families),
        doubtful,
        a.divided | b.divided | here & there,
        capture_mode=a.capture_mode if a.capture_mode == b.capture_mode else None,
    )


def _common_families(a: Families, b: Families) -> Families:
    if a is b or a == b:
        return a
    common = {number: tuple(f for f in found if f in b.get(number, ())) for number, found in a.items()}
    return {number: found for number, found in common.items() if found}


def _released(a: State, b: State, doubtful: frozenset[Key]) -> dict[Key, tuple[Released, Place | None]]:
    """What is released on both paths, and on one of them when what names it was left as it is: a pointer that was reset
    there is not the one that the other path still holds."""
    if a.released == b.released and doubtful.isdisjoint(a.released):
        return a.released
    out: dict[Key, tuple[Released, Place | None]] = {}
    for x, y in ((a, b), (b, a)):
        apart: list[int] | None = None
        for key, (here, owner) in x.released.items():
            there = y.released.get(key)
            if there is not None:
                if here.sure and (not there[0].sure or key in doubtful):
                    here = replace(here, sure=False)
                out.setdefault(key, (here, owner))
                continue
            if apart is None:
                apart = _apart(y.memory, x.memory)
            if not any(_only_named(key, y.memory[obj], x.memory.get(obj, {})) for obj in apart):
                out[key] = (replace(here, sure=False), owner)
            elif key[0] == "memory" and _named_elsewhere(key, x, apart):
                out[key] = (replace(here, sure=False, reset=True), owner)
    return out


def _named_elsewhere(key: Key, state: State, apart: list[int]) -> bool:
    """Something that is the same on both groups of paths names it."""
    rest = (entries for obj, entries in state.memory.items() if obj not in apart)
    return any(key_of_resource(value) == key for entries in rest for value in entries.values())


def _only_named(key: Key, here: dict[Path, Value], there: dict[Path, Value]) -> bool:
    """Something here names a thing that its counterpart there does not."""
    return any(key_of_resource(v) == key and key_of_resource(there.get(p)) != key for p, v in here.items())


def _held_by_some(a: State, b: State, apart: list[int]) -> tuple[set[Key], set[Key]]:
    """What a place names on the one paths only, and on the others only: who finds it there afterwards may be on the rest."""
    here: set[Key | None] = set()
    there: set[Key | None] = set()
    for obj in apart:
        x, y = a.memory.get(obj), b.memory[obj]
        if x is None:
            continue
        for path, mine in x.items():
            theirs = y.get(path)
            if theirs is not None and mine is not theirs and mine != theirs:
                one, other = key_of_resource(mine), key_of_resource(theirs)
                if one != other:
                    here.add(one)
                    there.add(other)
    return {key for key in here if key is not None}, {key for key in there if key is not None}


def key_of_resource(value: Value | None) -> Key | None:
    """What a value names, as `State.released` knows it."""
    match value:
        case Pointer(place=place):
            return ("memory", place.object, 0)
        case Handle(kind=kind, id=id, made=made):
            return (kind, id, made)
    return None


def merged_number(a: Poly, b: Poly, name: str) -> Poly:
    """A number that is one of two: a symbol that may be negative when one of them is, as "not found" often is."""
    negative = any(c < 0 for p in (a, b) if (c := p.constant) is not None)
    negative = negative or any(s.startswith("-") for p in (a, b) for s in p.symbols)
    return symbol(f"-{name}" if negative else name)


def _merged_below(
    obj: int,
    a: dict[Path, Value],
    b: dict[Path, Value],
    fresh: Callable[[], str],
    from_before: Callable[[int, Path], bool],
) -> dict[Path, Value]:
    """What an object holds on either of two groups of paths. Most of a large one is the same: it is copied as a whole."""
    out = dict(a)
    common = 0
    for path, mine in a.items():
        theirs = b.get(path)
        if theirs is not None:
            common += 1
            if mine is not theirs:
                out[path] = _merged(mine, theirs, fresh)
    if common < len(a):
        out = _opened(obj, out, b, fresh, from_before)
    if common < len(b):
        for path, theirs in _opened(obj, b, a, fresh, from_before).items():
            out.setdefault(path, theirs)
    return out


def _opened(
    obj: int,
    written: dict[Path, Value],
    other: Mapping[Path, Value],
    fresh: Callable[[], str],
    from_before: Callable[[int, Path], bool],
) -> dict[Path, Value]:
    """What only one of two groups of paths wrote below an object, as it is on either: the others hold another number when they
    have it from before; else it was made on these paths."""
    out = written
    for path, value in written.items():
        if path in other or solid(value) or isinstance(value, Unknown) or not from_before(obj, path):
            continue
        if out is written:
            out = dict(written)
        out[path] = Num(symbol(fresh())) if isinstance(value, Num) else Unknown(fresh())
    return out


def _merged(x: Value, y: Value, fresh: Callable[[], str]) -> Value:
    if x == y:
        return x
    if solid(x) != solid(y):
        return x if solid(x) else y
    if isinstance(x, Pointer) and isinstance(y, Pointer) and x.place == y.place:
        return Pointer(x.place, x.array, None, x.element if x.element == y.element else None)
    if isinstance(x, Num) and isinstance(y, Num):
        return Num(merged_number(x.value, y.value, fresh()))
    return either((x, y)) or Unknown(fresh())
