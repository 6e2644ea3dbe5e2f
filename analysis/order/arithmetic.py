"""Operators on symbolic values."""

from __future__ import annotations

import zlib

from stitchcuda.analysis.order.symbolic import ONE, ZERO, Poly, at_least, equal, number, symbol, unfollowed
from stitchcuda.analysis.order.values import (
    Either,
    Handle,
    Instance,
    Num,
    Pointer,
    Text,
    Truth,
    Unknown,
    Value,
    either,
    options_of,
    size_of,
)
from stitchcuda.analysis.program.ir import TypeRef

MAX_KEY = 96
NULL = Num(ZERO)
TRUE = Num(ONE)


def key_of(value: Value) -> str:
    """A name for a value: equal names mean equal values as long as nothing is written in between."""
    match value:
        case Num(value=poly):
            return str(poly)
        case Unknown(key=key):
            return key
        case Truth(op="atom", key=key):
            return key
        case Truth(op=op, parts=parts):
            return f"{op}({','.join(key_of(p) for p in parts)})"
        case Text(value=text):
            return repr(text)
    return str(value)


def short(text: str) -> str:
    """Long names are cut by a digest, so that they stay names."""
    return text if len(text) <= MAX_KEY else f"{text[:40]}#{zlib.crc32(text.encode()):x}"


_NARROW = {
    f"{std}{name}": size_of(TypeRef(name))
    for std in ("", "std::")
    for name in ("int8_t", "uint8_t", "int16_t", "uint16_t")
}
_NARROW |= {name: size_of(TypeRef(name)) for name in (
    "char", "signed char", "unsigned char", "uchar", "short", "unsigned short", "short int", "unsigned short int"
)}  # fmt: skip


def narrowed(value: Value, kind: TypeRef | None) -> Value:
    """What a variable of that type holds of a number: one of fewer than 32 bits holds another number when it does not fit."""
    size = None if kind is None or kind.pointer or kind.reference or kind.dims else _NARROW.get(kind.name)
    if kind is None or size is None or not isinstance(value, Num):
        return value
    constant = value.value.constant
    above = 1 << 8 * size if "u" in kind.name else 1 << 8 * size - 1
    least = 0 if "u" in kind.name else -above
    if constant is not None and least <= constant < above:
        return value
    return Num(symbol(short(f"({kind.name}){value.value}")))


def divide(a: Poly, b: Poly) -> Poly:
    k = b.constant
    if k:
        if a.constant is not None:
            return number(int(a.constant / k) if abs(a.constant) < 1 << 52 else a.constant // k)
        if all(c % k == 0 for _, c in a.terms):
            return Poly(tuple((m, c // k) for m, c in a.terms))
    return symbol(short(f"({a}/{b})"))


def modulo(a: Poly, b: Poly) -> Poly:
    k = b.constant
    if k:
        if a.constant is not None:
            return number(a.constant % k)
        if all(c % k == 0 for m, c in a.terms if m):  # everything but the constant term vanishes
            rest = sum(c for m, c in a.terms if not m)
            return number(rest % k)
    return symbol(short(f"({a}%{b})"))


def binary(op: str, left: Value, right: Value) -> Value:
    """`left op right` for everything but `&&`, `||`, `,`."""
    if op in COMPARISONS:
        return compare(op, left, right)
    if isinstance(left, Either) or isinstance(right, Either):
        results = [binary(op, a, b) for a in options_of(left) for b in options_of(right)]
        return either(results) or Unknown(short(f"({key_of(left)}{op}{key_of(right)})"))
    if isinstance(left, Pointer) or isinstance(right, Pointer):
        return _pointer(op, left, right)
    if isinstance(left, Num) and isinstance(right, Num):
        return Num(_numbers(op, left.value, right.value))
    return Unknown(short(f"({key_of(left)}{op}{key_of(right)})"))


def _numbers(op: str, a: Poly, b: Poly) -> Poly:
    match op:
        case "+":
            total = a + b
            return total if total.followed() else unfollowed(op, a, b)
        case "-":
            total = a - b
            return total if total.followed() else unfollowed(op, a, b)
        case "*":
            return a * b
        case "/":
            return divide(a, b)
        case "%":
            return modulo(a, b)
        case "<<" if b.constant is not None and 0 <= b.constant < 64:
            return a * number(1 << b.constant)
        case ">>" if b.constant is not None and 0 <= b.constant < 64:
            return divide(a, number(1 << b.constant))
        case "&" if b.constant is not None and b.constant >= 0 and (b.constant & (b.constant + 1)) == 0:
            return modulo(a, number(b.constant + 1))
    x, y = a.constant, b.constant
    if x is not None and y is not None:
        match op:
            case "&":
                return number(x & y)
            case "|":
                return number(x | y)
            case "^":
                return number(x ^ y)
    return symbol(short(f"({a}{op}{b})"))


def _pointer(op: str, left: Value, right: Value) -> Value:
    if isinstance(left, Pointer) and isinstance(right, Pointer):
        if op == "-" and left.place == right.place and left.index is not None and right.index is not None:
            return Num(left.index - right.index)
        return Unknown(short(f"({key_of(left)}{op}{key_of(right)})"))
    if isinstance(right, Pointer) and op == "+":
        left, right = right, left
    if isinstance(left, Pointer) and op in ("+", "-"):
        if isinstance(right, Num) and left.index is not None:
            step = right.value if op == "+" else -right.value
            return Pointer(left.place, True, left.index + step, left.element)
        return Pointer(left.place, True, None, left.element)
    return Unknown(short(f"({key_of(left)}{op}{key_of(right)})"))


COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


def compare(op: str, left: Value, right: Value) -> Value:
    """A known truth as a number, else a `Truth` in terms of `<` and `==` only, so that opposite tests are recognised."""
    known = _known(op, left, right)
    if known is not None:
        return TRUE if known else NULL
    match op:
        case "<":
            return _less(left, right)
        case ">":
            return _less(right, left)
        case ">=":
            return negate(_less(left, right))
        case "<=":
            return negate(_less(right, left))
    first, second = sorted((key_of(left), key_of(right)))
    difference = left.value - right.value if isinstance(left, Num) and isinstance(right, Num) else None
    same = Truth("atom", short(f"({first}=={second})"), (), difference, difference is not None)
    return same if op == "==" else negate(same)


def _less(a: Value, b: Value) -> Truth:
    low = b.value - a.value - ONE if isinstance(a, Num) and isinstance(b, Num) else None
    return Truth("atom", short(f"({key_of(a)}<{key_of(b)})"), (), low)


def _known(op: str, left: Value, right: Value) -> bool | None:
    if isinstance(left, Num) and isinstance(right, Num):
        a, b = left.value, right.value
        match op:
            case "==":
                return equal(a, b)
            case "!=":
                same = equal(a, b)
                return None if same is None else not same
            case "<":
                answer = at_least(a, b)
                return None if answer is None else not answer
            case ">=":
                return at_least(a, b)
            case ">":
                answer = at_least(b, a)
                return None if answer is None else not answer
            case "<=":
                return at_least(b, a)
    if isinstance(left, Either) and len(left.options) > 1 and not isinstance(right, Either):
        answers = {_known(op, option, right) for option in left.options}
        return answers.pop() if len(answers) == 1 else None
    if op in ("==", "!="):
        solid = (Pointer, Handle, Instance)
        if isinstance(left, solid) and right == NULL or isinstance(right, solid) and left == NULL:
            return op == "!="
        if isinstance(left, Pointer | Handle | Text) and left == right:
            return op == "=="
        if isinstance(left, Text) and isinstance(right, Text):
            return (left == right) == (op == "==")
    return None


def as_truth(value: Value) -> Truth:
    if isinstance(value, Truth):
        return value
    return Truth("atom", key_of(value))


def negate(value: Value) -> Value:
    if isinstance(value, Num) and value.value.constant is not None:
        return NULL if value.value.constant else TRUE
    if isinstance(value, Pointer | Handle | Instance):
        return NULL
    t = as_truth(value)
    return t.parts[0] if t.op == "not" else Truth("not", "", (t,))


def combine(op: str, left: Value, right: Value) -> Value:
    return Truth("and" if op == "&&" else "or", "", (as_truth(left), as_truth(right)))
