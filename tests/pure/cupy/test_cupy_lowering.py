"""The CuPy frontend on small pieces: what is understood, what stays unknown, and where things stand in the file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stitchcuda.analysis.program.cupy import lower_module
from stitchcuda.analysis.program.ir import (
    Api,
    ApiKind,
    Call,
    Expr,
    Function,
    Launch,
    Module,
    Opaque,
    Stmt,
    children,
    walk,
)
from stitchcuda.analysis.program.show import show_function

HEAD = "import cupy as cp\nimport cupyx\nimport numpy as np\n"


def lowered(body: str) -> Module:
    return lower_module("a.py", (HEAD + body).encode())


def entry(body: str) -> Function:
    module = lowered(body)
    assert module.entry is not None
    return module.entry


def apis(function: Function) -> list[Api]:
    assert function.body is not None
    return [n for n in walk(function.body) if isinstance(n, Api)]


def kinds(body: str) -> list[str]:
    """API kinds in program order, without the bookkeeping of the current stream."""

    def inside_first(node: Expr | Stmt) -> Iterator[Expr | Stmt]:
        for child in children(node):
            yield from inside_first(child)
        yield node

    block = entry(body).body
    assert block is not None
    found = [n for n in inside_first(block) if isinstance(n, Api)]
    return [a.kind.value for a in found if a.kind is not ApiKind.SET_STREAM]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = cp.empty(4)", ["alloc"]),
        ("x = cp.zeros((4, 4))", ["library_call"]),
        ("h = np.ones(4)\nx = cp.asarray(h)", ["copy"]),
        ("x = cp.ones(4)\ny = cp.asarray(x)", ["library_call"]),
        ("x = cp.ones(4)\nh = cp.asnumpy(x)", ["library_call", "copy"]),
        ("x = cp.ones(4)\nx += 1", ["library_call", "library_call"]),
        ("x = cp.ones(4)\nif x.sum() > 0:\n    pass", ["library_call", "library_call", "library_call", "copy"]),
        ("s = cp.cuda.Stream()\ns.synchronize()", ["stream_create", "stream_sync"]),
        ("e = cp.cuda.Event()\ne.record()\ne.synchronize()", ["event_create", "event_record", "event_sync"]),
        ("cp.cuda.Stream.null.synchronize()", ["stream_sync"]),
        ("cp.cuda.Device(1).synchronize()", ["device_sync"]),
        ("cp.cuda.runtime.deviceSynchronize()", ["device_sync"]),
        ("m = cupyx.empty_pinned(8)", ["host_alloc"]),
        ("cp.cuda.nothing_known(3)", ["unmodelled"]),
        ("from cupy.cuda import Stream as S\nq = S(non_blocking=True)", ["stream_create"]),
        ("g = cp.random.rand(4) @ cp.ones(4)", ["library_call", "library_call", "library_call"]),
    ],
)
def test_what_a_line_does(body: str, expected: list[str]) -> None:
    assert kinds(body) == expected


def test_a_method_of_something_unknown_is_not_guessed() -> None:
    module = lowered("def f(thing):\n    thing.synchronize()\n")
    (function,) = module.functions
    assert [a.kind for a in apis(function)] == [ApiKind.UNMODELLED]


def test_a_name_with_two_kinds_is_unknown() -> None:
    text = "def f(flag):\n    x = cp.cuda.Stream()\n    x = cp.cuda.Event()\n    x.record()\n"
    assert ApiKind.UNMODELLED in [a.kind for a in apis(lowered(text).functions[0])]


def test_flags_that_are_not_literals_stay_unknown() -> None:
    create = next(a for a in apis(entry("flag = input()\ns = cp.cuda.Stream(non_blocking=flag)")))
    assert isinstance(create.role("flags"), Opaque)


def test_parameters_get_their_kind_from_calls() -> None:
    module = lowered("def f(q):\n    q.synchronize()\nf(cp.cuda.Stream())\n")
    assert [a.kind for a in apis(module.functions[0])] == [ApiKind.STREAM_SYNC]


def test_the_main_guard_is_taken() -> None:
    module = lowered("def main():\n    cp.ones(3)\nif __name__ == '__main__':\n    main()\n")
    assert module.entry is not None and module.entry.body is not None
    assert any(isinstance(n, Call) for n in walk(module.entry.body))


def test_a_file_that_only_defines_has_no_entry() -> None:
    assert lowered("def f():\n    return cp.ones(3)\n").entry is None


def test_with_restores_the_stream_before_a_return() -> None:
    module = lowered("s = cp.cuda.Stream()\ndef f(x):\n    with s:\n        return x\n")
    text = show_function(module.functions[0])
    assert text.index("__enter__") < text.index("__exit__") < text.index("return")


def test_break_leaves_only_the_with_inside_its_loop() -> None:
    body = "s = cp.cuda.Stream()\nwith s:\n    for i in range(3):\n        with cp.cuda.Stream():\n            break\n"
    text = show_function(entry(body))
    assert text.count("__exit__") == 2
    assert text.index("__exit__") < text.index("break")


def test_launch_takes_the_kernel_of_the_module_string() -> None:
    body = 'm = cp.RawModule(code=r"""__global__ void k(float* x) { x[0] = 1; }""")\nf = m.get_function("k")\n'
    body += "x = cp.empty(1, dtype='float32')\nargs = (x,)\nf((1,), (1,), args)\n"
    module = lowered(body)
    assert module.entry is not None and module.entry.body is not None
    (launch,) = [n for n in walk(module.entry.body) if isinstance(n, Launch)]
    assert len(launch.args) == 1
    (kernel,) = [f for f in module.functions if f.space == "global"]
    assert (HEAD + body).encode()[kernel.base :].startswith(b"__global__ void k")


def test_positions_in_strings_with_escapes() -> None:
    body = 'code = "// \\"note\\"\\n" "__global__ void k(int* x) {\\n\\tx[0] = 2; }"\nk = cp.RawKernel(code, "k")\n'
    (kernel,) = [f for f in lowered(body).functions if f.space == "global"]
    text = (HEAD + body).encode()
    assert text[kernel.base + kernel.name_span[0] : kernel.base + kernel.name_span[1]] == b"k"


def test_a_formatted_string_is_no_source() -> None:
    assert not [
        f for f in lowered('n = 3\ncode = f"__global__ void k() {{ {n}; }}"\n').functions if f.space == "global"
    ]


PIECES = st.sampled_from(
    ["with s:\n", "    ", "x = ", "cp.ones(", "4)", "\n", "def f(", "):", "s.record()", "[", "]", "for i in ", "'", '"""',
     "RawKernel(", "lambda", "class A:\n", "return ", "x[1:2]", "@", "del x", "try:", "é", "cp.cuda.Stream()", "="]
)  # fmt: skip


@given(st.lists(PIECES, max_size=25))
@settings(max_examples=150, deadline=None)
def test_broken_text_is_lowered_too(pieces: list[str]) -> None:
    module = lower_module("a.py", (HEAD + "".join(pieces)).encode())
    assert module.language == "python"


def test_bytes_that_are_no_text() -> None:
    assert lower_module("a.py", b"\xff\xfe\x00import cupy\n\x80").path == "a.py"
