"""Same buffer, same bytes?"""

from __future__ import annotations

from stitchcuda.analysis.order.alias import alias, overlap
from stitchcuda.analysis.order.symbolic import Poly, number, symbol
from stitchcuda.analysis.order.timeline import Buffer, Memory, Range, Shape
from stitchcuda.analysis.program.ir import Site

HERE, THERE = Site("f", "a.cu", (1, 2)), Site("f", "a.cu", (3, 4))
n, chunk, i, d = (symbol(s) for s in ("n", "chunk", "i", "d"))


def allocation(number_: int, at: Site | None = HERE, *instance: Poly, origin: str = "alloc") -> Buffer:
    return Buffer(number_, f"b{number_}", Memory.DEVICE, at, origin, instance=instance)


def dense(offset: Poly, extent: Poly | None) -> Range:
    return Range(offset, extent, None, Shape.WHOLE)


def test_alias() -> None:
    assert alias(allocation(0), allocation(0)) is True
    assert alias(allocation(0), allocation(1, THERE)) is False
    assert alias(allocation(0, HERE, i), allocation(1, HERE, i)) is True
    assert alias(allocation(0, HERE, i), allocation(1, HERE, i + number(1) + d)) is False
    assert alias(allocation(0, HERE, i), allocation(1, HERE, d)) is None
    assert alias(allocation(0, HERE, i, i), allocation(1, HERE, d, i + number(1))) is False
    assert alias(allocation(0), allocation(1)) is None
    assert alias(allocation(0, origin="parameter"), allocation(1, THERE, origin="parameter")) is False
    assert alias(allocation(0, None, origin="parameter"), allocation(1, None, origin="parameter")) is False
    assert alias(allocation(0, None, origin="unknown"), allocation(1, THERE)) is None


def test_chunks_of_one_buffer() -> None:
    j = i + number(1) + d
    assert overlap(dense(i * chunk, chunk), dense(j * chunk, chunk)) is False
    assert overlap(dense(j * chunk, chunk), dense(i * chunk, chunk)) is False
    assert overlap(dense(i * chunk, chunk), dense(i * chunk, chunk)) is True
    assert overlap(dense(i * chunk, chunk + number(1)), dense(j * chunk, chunk)) is None
    assert overlap(dense(i * chunk, None), dense(j * chunk, chunk)) is None


def test_constant_ranges() -> None:
    assert overlap(dense(number(0), number(8)), dense(number(8), number(8))) is False
    assert overlap(dense(number(0), number(9)), dense(number(8), number(8))) is True
    assert overlap(dense(number(4), number(4)), dense(number(0), number(16))) is True


def test_fields_of_a_record() -> None:
    def field(*path: str) -> Range:
        return Range(number(0), number(4), None, Shape.WHOLE, path)

    assert overlap(field("latch"), field("done")) is False
    assert overlap(field("latch"), field("latch")) is True
    assert overlap(field("latch"), field()) is None
    assert overlap(field("[0]", "latch"), field("[i]", "latch")) is None
    assert overlap(field("[0]", "latch"), field("[0]", "done")) is False


def test_unknown_parts() -> None:
    anywhere = Range()
    assert overlap(anywhere, dense(number(0), n)) is None
    some = Range(number(0), n, None, Shape.SOME)
    assert overlap(some, dense(number(0), n)) is True  # whatever part it is, the other covers it
    assert (
        overlap(Range(number(4), number(4), None, Shape.SOME), Range(number(0), number(16), None, Shape.SOME)) is None
    )
    columns = Range(number(0), number(64), number(16), Shape.WHOLE)
    assert overlap(columns, dense(number(8), number(4))) is None  # a pitched copy leaves gaps
