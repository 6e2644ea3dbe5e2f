"""What is compiled in place of a module says the same as the module (scripts/compile_analysis.py); here without compiling it."""

from __future__ import annotations

import importlib.util
import pickle
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType

import pytest

from scripts.compile_analysis import modules, with_stack_limit, written_out

ROOT = Path(__file__).parents[2]
TEXT = """\
from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

NAMES = {"a": 1}
SEEN: list[int] = []


@dataclass(slots=True)
class Point:
    x: int
    tags: list[str] = field(default_factory=list)
    born: int = field(default_factory=count().__next__, compare=False)
    size: int = field(init=False, default=3)

    def fail(self) -> None:
        raise ValueError(self.x)


@dataclass(frozen=False, slots=True)
class Span:
    start: int
    end: int = 7

    def known(self, names: tuple[str, ...]) -> bool:
        return isinstance(self.start, int | str) and "a" in (*names, "b")


def in_order(left: int | str, right: int | str) -> tuple[int | str, int | str]:
    if isinstance(right, str):
        left, right = right, left
    return left, right


@dataclass
class Text:
    encoded: bytes
    revision: int = 0

    @cached_property
    def text(self) -> str:
        SEEN.append(1)
        return self.encoded.decode()


class Holder:
    @cached_property
    def memo(self) -> dict[str, int]:
        SEEN.append(1)
        return {}
"""


def loaded(text: str, name: str, folder: Path) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=("as it is", "written out"))
def module(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModuleType]:
    text = TEXT if request.param == "as it is" else written_out(TEXT)[0]
    yield loaded(text, "compiled_example", tmp_path)
    del sys.modules["compiled_example"]


def test_dataclasses_do_what_they_did(module: ModuleType) -> None:
    one, other = module.Point(1), module.Point(1)
    assert one == other and one.tags is not other.tags and (one.size, one.tags) == (3, [])
    assert (one.born, other.born) == (0, 1), "made anew for each"
    assert one != module.Point(1, ["t"]) and one != (1, [])
    span = module.Span(2)
    assert (span.start, span.end) == (2, 7) and replace(span, end=9) == module.Span(2, 9)
    assert pickle.loads(pickle.dumps(span)) == span and repr(span) == "Span(start=2, end=7)"
    assert span.known(("a",)) and not span.known(())


def test_cached_properties_are_made_once(module: ModuleType) -> None:
    holder = module.Holder()
    assert holder.memo is holder.memo and holder.memo is not module.Holder().memo
    assert module.SEEN == [1, 1]


def test_names_that_change_places(module: ModuleType) -> None:
    assert module.in_order(1, "a") == ("a", 1) and module.in_order("a", 1) == ("a", 1)


def test_a_value_that_is_read_from_a_name_set_beside_it_has_no_narrowed_type() -> None:
    """mypy takes the last `left` of `left, right = right, left` for what the first one becomes; mypyc then checks that."""
    assert "left, right = _said_to_be(_Any, (right, left))" in written_out(TEXT)[0]
    assert "a, b = 1, 2" in written_out("a, b = 1, 2\n")[0]


def test_a_cached_property_is_no_field_of_a_dataclass(module: ModuleType) -> None:
    text = module.Text(b"a")
    assert [each.name for each in fields(module.Text)] == ["encoded", "revision"]
    assert text.text is text.text and len(module.SEEN) == 1 and text == module.Text(b"a")
    assert replace(text, encoded=b"b").text == "b", "made anew in a copy"
    assert repr(text) == "Text(encoded=b'a', revision=0)"


def test_lines_are_those_of_the_original() -> None:
    text, numbers = written_out(TEXT)
    made, lines = text.split("\n"), TEXT.split("\n")
    assert len(made) == len(numbers) > len(lines) and numbers == sorted(numbers)
    assert lines[numbers[made.index("        raise ValueError(self.x)")] - 1] == "        raise ValueError(self.x)"


def test_every_compiled_module_can_be_written_out() -> None:
    package = ROOT / "analysis"
    found = modules(package)
    assert {m.parts[0] for m in found} >= {"kernel", "order", "program", "rules"} and not [
        m for m in found if m.stem == "__init__"
    ]
    for each in found:
        text = (package / each).read_text(encoding="utf-8")
        assert not re.search(r"\b(_Any|_Final|_Life|_said_to_be|_Kept\w+)\b", text), f"{each}: a name of the copy's own"
        compile(written_out(text)[0], str(each), "exec")


def test_functions_look_whether_there_is_stack_left() -> None:
    code = (
        b"PyObject *CPyDef_a___f(PyObject *cpy_r_x);\n"
        b"PyObject *CPyDef_a___f(PyObject *cpy_r_x) {\n    return cpy_r_x;\n}\n"
        b"char CPyDef_a___A_____mypyc_defaults_setup(PyObject *self) {\n    return 1;\n}\n"
        b"char CPyDef_a___g(char cpy_r_x) {\n    return CPyDef_a___g(cpy_r_x);\n}\n"
    )
    assert with_stack_limit(code, here=False).splitlines() == [
        b'#include "stack_limit.h"',
        b"PyObject *CPyDef_a___f(PyObject *cpy_r_x);",
        b"PyObject *CPyDef_a___f(PyObject *cpy_r_x) {",
        b"    CHECK_STACK(NULL);",
        b"    return cpy_r_x;",
        b"}",
        b"char CPyDef_a___A_____mypyc_defaults_setup(PyObject *self) {",
        b"    return 1;",
        b"}",
        b"char CPyDef_a___g(char cpy_r_x) {",
        b"    CHECK_STACK(2);",
        b"    return CPyDef_a___g(cpy_r_x);",
        b"}",
    ]
    assert with_stack_limit(b"int x;\n", here=False) == b"int x;\n"
    assert with_stack_limit(b"int x;\n", here=True).startswith(b"#define STACK_LIMIT_HERE\n#include")
