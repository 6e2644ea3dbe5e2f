"""The part of the tracer that keeps what copies bring, in a program without CUDA: the file, the digests, the room."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.processes import Limits, clean_environment
from stitchcuda.gpu_validate.toolchain import find_cupti, find_nvcc
from stitchcuda.gpu_validate.trace import session
from stitchcuda.gpu_validate.trace.library import NATIVE, _includes
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.trace.records import CAPACITY
from stitchcuda.gpu_validate.trace.session import TraceRequest, run_traced

pytestmark = pytest.mark.nvcc

PROGRAM = r"""
#include <cstring>
#include <thread>
#include <vector>
#include "channel.h"
#include "host_reads.h"

using namespace stitch;

void done(std::uint64_t call, const void* at, std::uint64_t bytes, std::uint64_t width = 0, std::uint64_t pitch = 0) {
    host_copy_done({call, reinterpret_cast<std::uint64_t>(at), bytes, width, pitch});
}

int main(int count, char**) {
    if (!open_channel()) return 3;
    char rows[300];
    for (int i = 0; i < 300; ++i) rows[i] = static_cast<char>(i);
    done(0, rows, 200);
    done(1, rows, 6, 3, 100);
    std::vector<char> packed = {0, 1, 2, 100, 101, 102};
    done(2, packed.data(), 200 - 194);
    done(3, rows, 200);  // the same again
    if (count > 1) {  // more than there is room for
        std::vector<char> large(std::size_t{1} << 18);
        for (int k = 0; k < 5; ++k) {
            large[0] = static_cast<char>(k + 1);
            done(4 + k, large.data(), large.size());
        }
        done(9, rows + 1, 200);
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([t] {
            unsigned own[64];
            for (unsigned k = 0; k < 50; ++k) {
                for (unsigned& word : own) word = k % 5 + 10 * t;
                done(100 + 50 * t + k, own, sizeof own);
            }
        });
    }
    for (auto& thread : threads) thread.join();
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keeping")
    nvcc, _ = find_nvcc()
    root = nvcc.root if nvcc else None
    cupti = find_cupti(root)
    if cupti is None:
        pytest.skip("no CUPTI")
    (folder / "main.cpp").write_text(PROGRAM, encoding="utf-8")
    sources = [NATIVE / f"{name}.cpp" for name in ("channel", "driver", "handles", "host_reads")]
    includes = [f"-I{path}" for path in (NATIVE, *_includes(cupti, root))]
    made = folder / "keeping"
    flags = ["-std=c++17", "-O2", "-Wall", "-Werror", "-Wno-unused-function", "-pthread"]
    subprocess.run(["g++", *flags, *includes, folder / "main.cpp", *sources, "-o", made, "-ldl"], check=True)
    return made


def run(program: Path, *words: str, contents: bool = True) -> Trace:
    ended, trace = run_traced(
        [str(program), *words],
        cwd=program.parent,
        env=clean_environment(),
        limits=Limits(seconds=60),
        request=TraceRequest("timing", contents=contents),
        library=program.parent / "none.so",
    )
    assert ended.code == 0 and trace is not None, ended
    return trace


def test_contents_are_those_of_the_digest_and_rows_have_no_gaps(program: Path) -> None:
    trace = run(program)
    plain = run(program, contents=False)
    assert all(read.contents is None for read in plain.reads)
    assert [(r.call, r.bytes, r.digest) for r in trace.reads] == [(r.call, r.bytes, r.digest) for r in plain.reads]
    by_call = {read.call: read for read in trace.reads}
    assert by_call[0].contents == by_call[3].contents == bytes(i % 256 for i in range(200))
    assert by_call[1].contents == bytes([0, 1, 2, 100, 101, 102])
    for t in range(4):
        for k in range(50):
            assert by_call[100 + 50 * t + k].contents == (k % 5 + 10 * t).to_bytes(4, "little") * 64


def test_there_is_room_for_so_much_and_what_finds_none_has_its_digest(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SIZE", CAPACITY + (1 << 20))
    by_call = {read.call: read for read in run(program, "large").reads}
    kept = [by_call[4 + k].contents for k in range(5)]
    assert [part is not None for part in kept] == [True, True, True, False, False]  # the first ones took a little
    assert len({by_call[4 + k].digest for k in range(5)}) == 5
    assert by_call[9].contents == bytes((i + 1) % 256 for i in range(200))  # there is room for small ones
