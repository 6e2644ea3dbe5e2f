"""Where the memory and the streams come from that reach an operation by ways of their own: arrays in parameter blocks,
addresses that are numbers, objects behind untyped pointers."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.order.timeline import Op, StreamKind, Timeline

KERNEL = "__global__ void k(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1.f; }\n"


def found(text: str, name: str) -> tuple[Timeline, Op]:
    index = Index(strict=True)
    index.put("a.cu", f"#include <cuda.h>\n#include <cuda_runtime.h>\n{KERNEL}{text}".encode())
    (timeline,) = index.analyse().timelines
    return timeline, [op for op in timeline.ops if name in (op.kernel, op.api)][-1]


def memory(text: str, name: str) -> list[tuple[str, str]]:
    timeline, op = found(text, name)
    assert not op.unknown
    return [(timeline.buffers[a.buffer].name, a.mode.value) for a in op.accesses]


ARRAYS = """
int main() {
    float* h = (float*)malloc(65536);
    cudaChannelFormatDesc d = cudaCreateChannelDesc<float>();
    cudaExtent size = make_cudaExtent(64, 64, 4);
    cudaArray* first; cudaArray_t second;
    cudaMalloc3DArray(&first, &d, size);
    cudaMalloc3DArray(&second, &d, size);
    cudaMemcpy3DParms p = {0};
    p.extent = size;
    BLOCK
    cudaMemcpy3D(&p);
}
"""


@pytest.mark.parametrize(
    ("block", "source", "target"),
    [
        ("p.srcPtr = make_cudaPitchedPtr(h, 256, 64, 64); p.dstArray = first;", "h", "first"),
        ("p.srcArray = second; p.dstPtr = make_cudaPitchedPtr(h, 256, 64, 64);", "second", "h"),
        ("p.srcArray = first; p.dstArray = second;", "first", "second"),
    ],
)
def test_copies_from_and_to_arrays(block: str, source: str, target: str) -> None:
    assert memory(ARRAYS.replace("BLOCK", block), "cudaMemcpy3D") == [(source, "read"), (target, "write")]


@pytest.mark.parametrize(
    "address",
    [
        "(float*)(d + 4 * n)",
        "(float*)((CUdeviceptr)((char*)(d) + n))",
        "reinterpret_cast<float*>(static_cast<CUdeviceptr>(d) + n)",
    ],
)
def test_an_address_that_is_a_number_stays_one(address: str) -> None:
    made = f"int main(int n, char**) {{ CUdeviceptr d; cuMemAlloc(&d, 65536); k<<<1, 32>>>({address}, n); }}"
    given = f"void f(CUdeviceptr d, int n) {{ k<<<1, 32>>>({address}, n); }}"
    kept = f"struct P {{ CUdeviceptr d; }}; void f(P& p, int n) {{ CUdeviceptr d = p.d; k<<<1, 32>>>({address}, n); }}"
    assert memory(made, "k") == [("d", "write")]
    assert memory(given, "k") == [("d", "write")]
    assert memory(kept, "k") == [("p.d", "write")]


OBJECT = """
struct Context { cudaStream_t streams[4]; float* scratch; int device; };
struct Block { short scale; char q[32]; };
struct Handle { void* opaque; };
"""


@pytest.mark.parametrize("cast", ["(Context*)h->opaque", "static_cast<Context*>(h->opaque)"])
def test_the_object_behind_an_untyped_pointer(cast: str) -> None:
    text = (
        f"{OBJECT}void f(Handle* h) {{ Context* c = {cast}; k<<<1, 32, 0, c->streams[c->device]>>>(c->scratch, 32); }}"
    )
    timeline, op = found(text, "k")
    assert op.stream is not None and timeline.streams[op.stream].kind is StreamKind.PARAMETER
    assert [timeline.buffers[a.buffer].name for a in op.accesses] == ["h.opaque.scratch"]


def test_plain_numbers_behind_one_are_elements() -> None:
    text = f"{OBJECT}__global__ void q(Block* b) {{ b[threadIdx.x].scale = 0; }}\n"
    text += "void f(Handle* h) { Block* b = (Block*)h->opaque; q<<<1, 32>>>(b + 32); q<<<1, 32>>>(b); }"
    assert memory(text, "q") == [("h.opaque", "write")]


def test_a_helper_that_fails_leaves_no_memory_unknown() -> None:
    text = """
float* load(const char* name) { FILE* f = fopen(name, "rb"); if (!f) return 0; return (float*)malloc(4096); }
int main() {
    float* d; cudaMalloc(&d, 4096);
    float* h = load("a");
    cudaMemcpy(d, h, 4096, cudaMemcpyHostToDevice);
}
"""
    assert memory(text, "cudaMemcpy")[-1:] == [("d", "write")]
    timeline, _ = found(text, "cudaMemcpy")
    assert not any(op.unknown for op in timeline.ops)
    _, op = found(text.replace("float* load", "float* other").replace('load("a")', "elsewhere()"), "cudaMemcpy")
    assert op.unknown == ("src",)


@pytest.mark.parametrize("default", ["0", "nullptr", "cudaStreamPerThread"])
def test_a_default_argument_stands_on_the_prototype(default: str) -> None:
    text = f"""
void fill(float* x, int n, cudaStream_t stream = {default});
int main() {{ float* d; cudaMalloc(&d, 4096); fill(d, 32); }}
void fill(float* x, int n, cudaStream_t stream) {{ k<<<1, n, 0, stream>>>(x, n); }}
"""
    timeline, op = found(text, "k")
    expected = StreamKind.PER_THREAD if default == "cudaStreamPerThread" else StreamKind.LEGACY
    assert op.stream is not None and timeline.streams[op.stream].kind is expected
