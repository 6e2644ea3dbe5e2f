"""Which module may import what. Read from the syntax trees, so that imports inside functions count too."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("analysis", "gpu_validate", "agent", "server")  # each may import itself and those before it

IMPURE = {
    "subprocess", "socket", "ssl", "urllib", "http", "ftplib", "smtplib", "ctypes", "multiprocessing", "concurrent",
    "threading", "asyncio", "signal", "tempfile", "shutil", "requests", "httpx", "httpx2", "cupy", "torch", "numpy", "openai",
    "pynvml", "pygls", "lsprotocol", "logging",
}  # fmt: skip
HEAVY = {
    "cupy",
    "torch",
    "numba",
    "triton",
    "openai",
    "httpx2",
    "pynvml",
    "cuda",
    "cupti",
    "numpy",
}  # optional: only inside functions
PROTOCOL = {"pygls", "lsprotocol"}  # server only
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
LINES = 600
SOFT_LINES = 400  # from here on a file is listed in the warnings
ALLOWED = {
    "analysis/program/ir.py": 700
}  # one vocabulary, declarations only: splitting it would hide its parts from each other


def modules(*layers: str) -> list[Path]:
    return sorted(path for layer in layers for path in (ROOT / layer).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Dotted name, line, and whether it runs when the module is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    yield from _imports(tree, path, True)


def _imports(node: ast.AST, path: Path, at_import: bool) -> Iterator[tuple[str, int, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield alias.name, child.lineno, at_import
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                package = ("stitchcuda", *path.relative_to(ROOT).parent.parts)
                base = ".".join((*package[: len(package) - child.level + 1], *filter(None, [base])))
            for alias in child.names:
                yield f"{base}.{alias.name}", child.lineno, at_import
        elif isinstance(child, ast.Call) and ast.unparse(child.func) in ("importlib.import_module", "__import__"):
            if child.args and isinstance(child.args[0], ast.Constant):
                yield str(child.args[0].value), child.lineno, at_import
            yield from _imports(child, path, at_import)
        elif isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from ((name, line, False) for name, line, _ in _imports(child, path, False))
        else:
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _imports(child, path, at_import and not inside)


def test_dependencies_point_one_way() -> None:
    wrong = []
    for position, layer in enumerate(LAYERS):
        allowed = LAYERS[: position + 1]
        for path in modules(layer):
            for name, line, _ in imports(path):
                parts = name.split(".")
                if parts[0] in LAYERS:
                    wrong.append(f"{name_of(path)}:{line} imports {name}; write stitchcuda.{name}")
                elif parts[0] == "stitchcuda" and len(parts) > 1 and parts[1] in LAYERS and parts[1] not in allowed:
                    wrong.append(f"{name_of(path)}:{line} imports {name}; {layer} may import only {', '.join(allowed)}")
    assert not wrong, "\n".join(wrong)


def test_analysis_is_pure() -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {name}"
        for path in modules("analysis")
        for name, line, _ in imports(path)
        if name.split(".")[0] in IMPURE
    ]
    for path in modules("analysis"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _PROCESS_CALL.fullmatch(called := ast.unparse(node.func)):
                wrong.append(f"{name_of(path)}:{node.lineno} calls {called}")
    assert not wrong, "\n".join(wrong)


_PROCESS_CALL = re.compile(r"eval|exec|os\.(system|popen|exec.*|spawn.*|posix_spawn.*|fork.*|kill.*)")


def test_optional_libraries_are_imported_where_they_are_used() -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {name} when the module is imported"
        for path in modules(*LAYERS)
        for name, line, at_import in imports(path)
        if at_import and name.split(".")[0] in HEAVY
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_server_knows_the_protocol() -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {name}"
        for path in modules("analysis", "gpu_validate", "agent")
        for name, line, _ in imports(path)
        if name.split(".")[0] in PROTOCOL
    ]
    assert not wrong, "\n".join(wrong)


def test_protocol_positions_are_made_in_one_module() -> None:
    """Everything else counts in bytes; one module knows the client's encoding."""
    wrong = []
    for path in modules("server"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("Position", "Range"):
                wrong.append(f"{name_of(path)}:{node.lineno}")
    assert not [place for place in wrong if not place.startswith("server/convert.py:")], wrong


def test_module_names_say_what_is_inside() -> None:
    wrong = [name_of(path) for path in modules(*LAYERS, "tests", "scripts") if {path.stem, path.parent.name} & VAGUE]
    assert not wrong, wrong


def test_files_are_short_enough_to_read() -> None:
    sizes = {name_of(path): _lines(path) for path in modules(*LAYERS)}
    long = {name: size for name, size in sizes.items() if size > ALLOWED.get(name, LINES)}
    assert not long, f"over {LINES} lines; give the parts names and files: {long}"
    if growing := {name: size for name, size in sizes.items() if size > SOFT_LINES and name not in ALLOWED}:
        warnings.warn(f"over {SOFT_LINES} lines: {growing}", stacklevel=1)


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import stitchcuda.agent.loop", ("stitchcuda.agent.loop", True)),
        ("def f():\n    from stitchcuda.server import x", ("stitchcuda.server.x", False)),
        ("from ..program import ir", ("stitchcuda.analysis.program.ir", True)),
        ("from . import a", ("stitchcuda.analysis.order.a", True)),
        ("try:\n    import cupy\nexcept ImportError:\n    pass", ("cupy", True)),
        ("class C:\n    import cupy", ("cupy", True)),
        ("import importlib\nx = importlib.import_module('cupy')", ("cupy", True)),
        ("if TYPE_CHECKING:\n    import cupy", ("cupy", False)),
    ],
)
def test_the_reader_of_imports(source: str, expected: tuple[str, bool]) -> None:
    found = [(name, at) for name, _, at in _imports(ast.parse(source), ROOT / "analysis" / "order" / "x.py", True)]
    assert expected in found
