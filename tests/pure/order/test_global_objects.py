"""Objects whose memory or life is out of the ordinary: those at namespace scope, and classes with an `operator new`."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.program.ir import ApiKind

from tests.pure.order.programs import run

LAYER = """struct Layer {
  float* data; cudaStream_t s;
  Layer(int n) { cudaMalloc(&data, n); cudaStreamCreate(&s); }
  ~Layer() { cudaFree(data); cudaStreamDestroy(s); }
};
"""


@pytest.mark.parametrize("declared", ["Layer first(4), second(8);", "Layer first = Layer(4);\nstatic Layer second{8};"])
def test_they_are_constructed_and_destroyed(declared: str) -> None:
    result = run("a<<<1, 1, 0, first.s>>>(first.data); b<<<1, 1, 0, second.s>>>(second.data);", before=LAYER + declared)
    ops = result.timeline.ops
    assert [op.kind for op in ops if op.kind in (ApiKind.ALLOC, ApiKind.FREE)][-4:].count(ApiKind.FREE) == 2
    first, second = result.op("a"), result.op("b")
    assert first.stream != second.stream
    assert {a.buffer for a in first.accesses}.isdisjoint({a.buffer for a in second.accesses})
    released = [a.buffer for op in ops if op.kind is ApiKind.FREE for a in op.accesses]
    assert len(released) == len(set(released)) == 2


def test_one_of_another_file_is_the_programs_too() -> None:
    index = Index(strict=True)
    index.put("layer.h", f"{LAYER}".encode())
    index.put("net.cu", b'#include "layer.h"\nLayer net(16);\n')
    index.put("main.cu", b'#include "net.cu"\nint main() { cudaDeviceSynchronize(); }\n')
    (timeline,) = index.analyse().timelines
    assert [op.kind for op in timeline.ops] == [
        ApiKind.ALLOC, ApiKind.STREAM_CREATE, ApiKind.DEVICE_SYNC, ApiKind.FREE, ApiKind.STREAM_DESTROY
    ]  # fmt: skip


def test_an_operator_new_of_a_class_is_executed() -> None:
    managed = """struct Managed {
      void* operator new(size_t n) { void* p; cudaMallocManaged(&p, n); return p; }
      void operator delete(void* p) { cudaDeviceSynchronize(); cudaFree(p); }
    };
    struct Item : public Managed { float v; };
    __global__ void use(Item* i) { i->v += 1; }
    """
    body = (
        "Item* one = new Item; Item* two = new Item(); use<<<1, 1>>>(one); use<<<1, 1>>>(two); delete one; delete two;"
    )
    result = run(body, before=managed)
    ops = [op for op in result.timeline.ops if "Managed" in op.function or op.kernel == "use"]
    kinds = [op.kind for op in ops]
    assert kinds == [
        ApiKind.ALLOC, ApiKind.ALLOC, ApiKind.LAUNCH, ApiKind.LAUNCH,
        ApiKind.DEVICE_SYNC, ApiKind.FREE, ApiKind.DEVICE_SYNC, ApiKind.FREE,
    ]  # fmt: skip
    used = [{a.buffer for a in op.accesses} for op in ops if op.kind in (ApiKind.LAUNCH, ApiKind.FREE)]
    assert used[0] == used[2] != used[1] == used[3]


@pytest.mark.parametrize("word", ["static", "thread_local", "static thread_local", "__thread"])
def test_one_that_lives_as_long_as_its_thread_is_made_once(word: str) -> None:
    """A logger, say: otherwise each message makes another, and its closing brace ends what is handed out."""
    result = run(
        "for (int i = 0; i < 2; i++) a<<<1, 1, 0, layer().s>>>(layer().data); b<<<1, 1, 0, layer().s>>>(layer().data);",
        before=LAYER + f"Layer& layer() {{ {word} Layer one(4); return one; }}\n",
    )
    kinds = [op.kind for op in result.timeline.ops]
    assert kinds.count(ApiKind.STREAM_CREATE) == 1
    assert ApiKind.STREAM_DESTROY not in kinds
    assert result.op("a").stream == result.op("b").stream


def test_a_global_that_only_some_paths_set_is_either() -> None:
    """Its initialiser counts where no path wrote it."""
    before = """bool fast = false; int asked(const char* what);
    void go(float* p) { if (fast) a<<<1, 1>>>(p); else b<<<1, 1>>>(p); }
    """
    result = run('if (asked("fast")) fast = true; go(x);', before=before)
    assert [op.kernel for op in result.timeline.ops if op.kernel] == ["a", "b"]
