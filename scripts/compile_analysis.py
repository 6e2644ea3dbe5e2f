"""The compiled build of `analysis` (docs/adr/0011-compiled-analysis.md): which modules, the text that mypyc gets, the extensions made
of it. setup.py uses this when STITCHCUDA_COMPILED is 1.

mypyc keeps what `@dataclass` writes as interpreted functions, and knows neither `functools.cached_property` nor weak references to
its objects. So it gets a copy of the package in which `__init__`, `__eq__` and `__hash__` of dataclasses, and what a cached property
does, are written out. The lines that tracebacks name are those of the original.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.errors import SetupError

REQUIRES = "mypy[mypyc]>=2.4"
PACKAGE = "stitchcuda.analysis"
GROUP = "stitchcuda.analysis.compiled"  # mypyc adds `__mypyc`: the library that holds all of the code
PARTS = ("findings", "kernel", "order", "program", "rules", "syntax")  # where the time goes
# Of those, what runs once (tables, packages' own modules), rarely (CuPy, printing), or as a decorator of what is interpreted.
INTERPRETED = ("**/__init__.py", "program/api_*.py", "program/cupy/*.py", "program/show.py")
_FUTURE = "from __future__ import annotations"
_HEADER = """\
from typing import Any as _Any, Final as _Final, cast as _said_to_be
from stitchcuda.analysis.kept import Life as _Life
"""
# Functions of the text, and what they return to say that they raised. What mypyc adds (`__mypyc_...`) calls some of them.
_FUNCTION = re.compile(rb"^(PyObject \*|char |CPyTagged )CPyDef_(?!\w*__mypyc_)\w+\([^\n]*\) \{\n", re.MULTILINE)
_FAILURE = {b"PyObject *": b"NULL", b"char ": b"2", b"CPyTagged ": b"CPY_INT_TAG"}
_PLACE = re.compile(rb'(CPy_(?:AddTraceback|AttributeError|TypeErrorTraceback)\("([^"]+)", "[^"]*", )(\d+)')


def modules(package: Path) -> list[PurePosixPath]:
    """The modules that are compiled, relative to the package's folder."""
    found = [PurePosixPath(p.relative_to(package).as_posix()) for part in PARTS for p in (package / part).rglob("*.py")]
    return sorted(m for m in found if not any(m.match(pattern) for pattern in INTERPRETED))


# ------------------------------------------------------------------------------------------------------------- the text


@dataclass(frozen=True)
class _Field:
    name: str
    type: str
    default: str | None = None
    factory: str | None = None
    init: bool = True
    compare: bool = True


def written_out(text: str) -> tuple[str, list[int]]:
    """What is compiled in place of a module, and for each of its lines the number of the one that it comes from."""
    said = ast.get_docstring(ast.parse(text), clean=False)
    docstring = [] if said is None else [f"__doc__ = {said!a}"]  # which mypyc leaves out
    text = _in_place(text)
    lines = text.split("\n")
    before: dict[int, list[str]] = {}
    after: dict[int, list[str]] = {}
    for cls in [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef)]:
        decorators = {ast.unparse(d).partition("(")[0]: d for d in cls.decorator_list}
        if "quick_init" in decorators:
            lines[decorators["quick_init"].lineno - 1] = ""
        if "dataclass" in decorators:
            hoisted, methods = _methods(cls, decorators["dataclass"])
            before.setdefault(min(d.lineno for d in cls.decorator_list), []).extend(hoisted)
            indent = " " * (cls.col_offset + 4)
            after.setdefault(cls.end_lineno or cls.lineno, []).extend(["", *(indent + line for line in methods)])
        base: list[str] = []
        for method, decorator in _cached(cls):
            name, bare = method.name, method.name.lstrip("_")
            indent, kept = " " * method.col_offset, f"_kept_{bare}"
            assert method.returns is not None
            returns = ast.unparse(method.returns)
            declared = [f"{kept}: {returns} | None = None"]
            if "dataclass" in decorators:  # of which it would be a field: it is the base's
                base += [] if base else [f"class _Kept{cls.name}:"]
                base.append(f"    {declared.pop()}")
            before.setdefault(decorator.lineno, []).extend(
                indent + line
                for line in (
                    *declared,
                    "@property",
                    f"def {name}(self) -> {returns}:",
                    f"    if self.{kept} is None:",
                    f"        self.{kept} = self._make_{bare}()  # type: ignore",
                    f"    return self.{kept}",
                )
            )
            lines[decorator.lineno - 1] = ""
            line = lines[method.lineno - 1]
            lines[method.lineno - 1] = line.replace(f"def {name}(", f"def _make_{bare}(", 1)
        if base:
            before.setdefault(min(d.lineno for d in cls.decorator_list), []).extend(base)
            lines[cls.lineno - 1] = lines[cls.lineno - 1].replace(
                f"class {cls.name}:", f"class {cls.name}(_Kept{cls.name}):"
            )
    made: list[str] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, 1):
        header = (*_HEADER.splitlines(), *docstring) if line == _FUTURE else ()
        for each in (*before.get(number, ()), line, *header, *after.get(number, ())):
            made.append(each)
            numbers.append(number)
    return "\n".join(made), numbers


def _in_place(text: str) -> str:
    """What mypyc makes better code of: `isinstance` with a tuple of classes, and constants of the module that are said to be. And
    what it cannot do: look in a tuple that others are unpacked in, and tell what `b` is in `a, b = b, a` where `a` becomes of another
    type."""
    tree = ast.parse(text)
    lines = [line.encode() for line in text.split("\n")]
    edits: list[tuple[int, int, int, bytes]] = []  # line, column, bytes that go, bytes that come
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            classes = _alternatives(node.args[1])
            if any(isinstance(each, ast.Constant) for each in classes):  # `None` is no class in a tuple
                continue
            if len(classes) > 1:
                edits += [(classes[0].lineno, classes[0].col_offset, 0, b"("), (*_end(classes[-1]), 0, b")")]
            for one in classes[:-1]:
                line, column = _end(one)
                while (bar := lines[line - 1].find(b"|", column)) < 0:
                    line, column = line + 1, 0
                edits.append((line, bar, 1, b","))
        elif isinstance(node, ast.Compare):
            for group in node.comparators:
                if isinstance(group, ast.Tuple) and any(isinstance(each, ast.Starred) for each in group.elts):
                    edits += [(group.lineno, group.col_offset, 0, b"tuple("), (*_end(group), 0, b")")]
        elif isinstance(node, ast.Assign) and _reads_what_it_sets(node.targets[0], node.value):
            start = node.value.lineno, node.value.col_offset
            edits += [(*start, 0, b"_said_to_be(_Any, ("), (*_end(node.value), 0, b"))")]
    returns = {n.name: ast.unparse(n.returns) for n in tree.body if isinstance(n, ast.FunctionDef) and n.returns}
    bound = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    bound += [name for n in ast.walk(tree) if isinstance(n, ast.Global) for name in n.names]
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not isinstance(target, ast.Name) or bound.count(target.id) != 1 or target.id.startswith("__"):
            continue
        if isinstance(node, ast.AnnAssign):
            if {"Final", "TypeAlias"}.isdisjoint(_names(node.annotation)):
                start = node.annotation.lineno, node.annotation.col_offset
                edits += [(*start, 0, b"_Final["), (*_end(node.annotation), 0, b"]")]
        elif target.id.isupper() or target.id.islower() and not isinstance(node.value, ast.Subscript | ast.BinOp):
            made_by = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
            kind = f"[{returns[made_by]}]" if made_by in returns else ""
            edits.append((*_end(target), 0, f": _Final{kind}".encode()))  # other spellings are those of types
    for line, column, gone, new in sorted(edits, key=lambda e: e[:2], reverse=True):
        old = lines[line - 1]
        lines[line - 1] = old[:column] + new + old[column + gone :]
    return b"\n".join(lines).decode()


def _alternatives(node: ast.expr) -> list[ast.expr]:
    """A, B and C of `A | B | C`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


def _reads_what_it_sets(target: ast.expr, value: ast.expr) -> bool:
    """`a, b = b, a`: a later value is of a name that is set before, as far as mypy sees, which takes it for what that becomes."""
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return False
    written: set[str] = set()
    for into, each in zip(target.elts, value.elts, strict=False):
        if any(isinstance(n, ast.Name) and n.id in written for n in ast.walk(each)):
            return True
        written |= {n.id for n in ast.walk(into) if isinstance(n, ast.Name)}
    return False


def _end(node: ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _names(node: ast.expr) -> Iterator[str]:
    """What an annotation names; strings are read as annotations."""
    if isinstance(node, ast.Attribute | ast.Name):
        yield ast.unparse(node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        with contextlib.suppress(SyntaxError):  # `Literal["..."]`
            yield from _names(ast.parse(node.value, mode="eval").body)
    else:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.expr):
                yield from _names(each)


def _cached(cls: ast.ClassDef) -> Iterator[tuple[ast.FunctionDef, ast.expr]]:
    """Its cached properties, with the decorators that say so."""
    for method in cls.body:
        if isinstance(method, ast.FunctionDef):
            yield from ((method, d) for d in method.decorator_list if ast.unparse(d) == "cached_property")


def _methods(cls: ast.ClassDef, decorator: ast.expr) -> tuple[list[str], list[str]]:
    """Lines to stand before a dataclass and at its end."""
    given = {k.arg: ast.unparse(k.value) == "True" for k in getattr(decorator, "keywords", ())}
    fields, own = list(_fields(cls)), {n.name for n in cls.body if isinstance(n, ast.FunctionDef)}
    hoisted, parameters, body, methods = [], [], [], []
    for each in fields:
        value, kind = each.name, each.type
        if each.factory is not None:
            made = f"{each.factory}()"
            if not each.factory.isidentifier():
                constant = f"_make_{cls.name}_{each.name}"
                hoisted.append(f"{constant}: _Any = {each.factory}")
                made = f"{constant}()"
            value = f"{made} if {each.name} is None else {each.name}" if each.init else made
            kind = f"{kind} | None"
        if each.init:
            default = "None" if each.factory is not None else each.default
            parameters.append(f"{each.name}: {kind}" + ("" if default is None else f" = {default}"))
        elif each.factory is None:
            if each.default is None:
                continue  # `__post_init__` sets it
            value = each.default
        body.append(f"self.{each.name} = {value}  # type: ignore")
    body += [f"self._kept_{method.name.lstrip('_')} = None  # type: ignore" for method, _ in _cached(cls)]
    if given.get("weakref_slot"):
        body.append("self._life = _Life()  # type: ignore")
    if "__post_init__" in own:
        body.append("self.__post_init__()")
    if "__init__" not in own and body:
        methods += [f"def __init__(self, {', '.join(parameters)}) -> None:", *(f"    {line}" for line in body)]
    compared = [each.name for each in fields if each.compare]
    if given.get("eq", True) and compared:
        if "__eq__" not in own:
            same = " and ".join(f"self.{name} == other.{name}" for name in compared)
            methods += [
                "def __eq__(self, other: _Any) -> bool:",
                "    if self is other:",
                "        return True",
                f"    if not isinstance(other, {cls.name}):",
                "        return NotImplemented",
                f"    return {same}",
            ]
        if given.get("frozen") and "__hash__" not in own:
            values = "".join(f"self.{name}, " for name in compared)
            methods += ["def __hash__(self) -> int:", f"    return hash(({values}))"]
    if all(each.init for each in fields):
        values = "".join(f"self.{each.name}, " for each in fields)
        methods += ["def __reduce__(self) -> tuple[_Any, ...]:", f"    return ({cls.name}, ({values}))"]
    return hoisted, methods


def _fields(cls: ast.ClassDef) -> Iterator[_Field]:
    if cls.bases:
        raise ValueError(f"{cls.name}: dataclasses with bases are not written out")
    for node in cls.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        name, kind = node.target.id, ast.unparse(node.annotation)
        if not isinstance(node.value, ast.Call) or ast.unparse(node.value.func) != "field":
            yield _Field(name, kind, None if node.value is None else ast.unparse(node.value))
            continue
        given = {k.arg: ast.unparse(k.value) for k in node.value.keywords}
        if unknown := given.keys() - {"default", "default_factory", "init", "compare", "repr"}:
            raise ValueError(f"{cls.name}.{name}: {', '.join(map(str, unknown))}")
        yield _Field(
            name,
            kind,
            given.get("default"),
            given.get("default_factory"),
            given.get("init") != "False",
            given.get("compare") != "False",
        )


# ------------------------------------------------------------------------------------------------------- the extensions


def extensions(package: Path, build: Path) -> list[Extension]:
    """Writes the C code below `build`, which is emptied, and says what is to be made of it. `package`: the folder of the sources.
    Ends the process, with messages, where the text is not one that can be compiled."""
    from mypyc.build import mypycify

    folder = PACKAGE.replace(".", "/")
    build = build.resolve()
    shutil.rmtree(build, ignore_errors=True)
    copy = build / "sources" / folder
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    numbers: dict[bytes, list[int]] = {}
    compiled = modules(package)
    for module in compiled:
        text, lines = written_out((package / module).read_text("utf-8"))
        (copy / module).write_text(text, "utf-8")
        numbers[f"{folder}/{module}".encode()] = lines
    settings = build / "mypy.ini"
    settings.write_text(
        "[mypy]\nexplicit_package_bases = True\nignore_missing_imports = True\nmypy_path = sources\n"
        f"cache_dir = {os.devnull}\n".replace("sources", str(build / "sources")),
        "utf-8",
    )
    with contextlib.chdir(build / "sources"):  # the paths given are those that tracebacks show
        made: list[Extension] = mypycify(
            [f"--config-file={settings}", folder],
            only_compile_paths=[f"{folder}/{module}" for module in compiled],
            opt_level="1",  # 2 takes half as long again to compile
            debug_level="0",
            multi_file=True,
            group_name=GROUP,
            target_dir=str(build / "c"),
        )

    def original(place: re.Match[bytes]) -> bytes:
        lines, line = numbers.get(place[2], []), int(place[3])
        return place[1] + (b"%d" % lines[line - 1] if 0 < line <= len(lines) else place[3])

    for path in (build / "c").rglob("*.c"):
        # A slice of bytes that ends before it starts is empty, and no SystemError (mypy 2.4).
        code = path.read_bytes().replace(
            b"slice_len = endn - startn;", b"slice_len = endn > startn ? endn - startn : 0;"
        )
        path.write_bytes(with_stack_limit(_PLACE.sub(original, code), path.name == "__native_compiled.c"))
    shutil.copy(Path(__file__).with_name("stack_limit.h"), build / "c")
    for each in made:
        each.include_dirs.append(str(build / "c" / folder))  # where the headers of a group in a package are
        each.extra_compile_args = [*each.extra_compile_args, "-w"]  # mypyc asks for warnings as errors
    return made


def with_stack_limit(code: bytes, here: bool) -> bytes:
    """C code of mypyc whose functions fail before the stack is used up. In one of the files is what tells (`here`)."""
    code, count = _FUNCTION.subn(lambda head: head[0] + b"    CHECK_STACK(%s);\n" % _FAILURE[head[1]], code)
    included = b'#include "stack_limit.h"\n' if here or count else b""
    return (b"#define STACK_LIMIT_HERE\n" if here else b"") + included + code


class BuildAnalysis(build_ext):  # type: ignore[misc]
    """Makes the extensions when they are built: setuptools asks several times before which there are."""

    def run(self) -> None:
        if self.inplace or self.editable_mode:
            raise SetupError("STITCHCUDA_COMPILED is for wheels: pip wheel . (a checkout runs what it holds)")
        root = Path(__file__).resolve().parents[1]
        self.distribution.ext_modules = extensions(root / "analysis", Path(self.build_temp) / "mypyc")
        self.reinitialize_command(self)
        self.ensure_finalized()
        super().run()

    def get_source_files(self) -> list[str]:
        return []  # generated

    def build_extensions(self) -> None:
        one_by_one = self.compiler.compile

        def compile_all(sources: list[str], **rest: Any) -> list[str]:
            largest_first = sorted(sources, key=lambda source: -Path(source).stat().st_size)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return [
                    o
                    for objects in pool.map(lambda source: one_by_one([source], **rest), largest_first)
                    for o in objects
                ]

        self.compiler.compile = compile_all
        super().build_extensions()


def options() -> dict[str, Any]:
    """For `setup()`. The one extension that is named stands for all, so that the wheel is one for this machine."""
    return {
        "setup_requires": [REQUIRES],
        "cmdclass": {"build_ext": BuildAnalysis},
        "ext_modules": [Extension(f"{GROUP}__mypyc", [])],
    }
