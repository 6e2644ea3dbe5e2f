"""What the executor recovers where a program does not say plainly which function, pointer or memory is meant."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.order.timeline import Memory, Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import ApiKind

from tests.pure.order.programs import KERNELS, Run, run


def names(result: Run, op: Op) -> set[str]:
    return {result.timeline.buffers[a.buffer].name for a in op.accesses}


def whole(text: str, max_ops: int = 4000) -> list[Timeline]:
    index = Index(Options(max_ops=max_ops), strict=True)
    index.put("a.cu", (f"#include <cuda_runtime.h>\n{KERNELS}" + text).encode())
    return list(index.analyse().timelines)


# ------------------------------------------------------------------------------------------------------ one of several


def test_a_pointer_chosen_by_an_expression_may_be_either() -> None:
    result = run("a<<<1, 32>>>(argc > 1 ? x : y);")
    op = result.op("a")
    assert names(result, op) == {"x", "y"}
    assert all(access.one_of for access in op.accesses)
    assert op.unknown == ()


def test_an_element_at_an_unknown_index_may_be_any() -> None:
    result = run("float* slots[2]; slots[0] = x; slots[1] = y; int at = pick(); a<<<1, 32>>>(slots[at]);")
    assert names(result, result.op("a")) == {"x", "y"}


def test_a_copy_from_one_of_several_is_not_certain() -> None:
    result = run("float h[8]; cudaMemcpy(h, argc > 1 ? x : y, 32, cudaMemcpyDeviceToHost);")
    op = result.op("cudaMemcpy")
    assert not op.certain
    assert names(result, op) == {"x", "y", "h"}


def test_a_pointer_or_null_is_that_pointer() -> None:
    result = run("a<<<1, 32>>>(argc > 1 ? x : nullptr);")
    assert names(result, result.op("a")) == {"x"}


def test_releasing_one_of_several_releases_none_for_sure() -> None:
    result = run("float* p = y; if (argc > 1) p = x; cudaFree(argc > 2 ? p : y);")
    release = result.op("cudaFree")
    assert all(a.one_of for a in release.accesses) or len(release.accesses) == 1


# ---------------------------------------------------------------------------------------------------- which function


def test_a_table_of_functions_calls_any_of_them() -> None:
    table = """
      void first(float* p) { a<<<1, 32>>>(p); }
      void second(float* p) { b<<<1, 32>>>(p); }
    """
    result = run("void (*work[2])(float*) = {first, second}; work[pick()](x);", before=table)
    assert {op.kernel for op in result.timeline.ops if op.kernel} == {"a", "b"}


VIRTUAL = """
struct Stage { virtual void go(float* p) = 0; virtual ~Stage() {} };
struct Fill : Stage { void go(float* p) override { a<<<1, 32>>>(p); } };
struct Scale : Stage { void go(float* p) override { b<<<1, 32>>>(p); } };
"""


def test_a_virtual_call_goes_to_the_class_that_was_made() -> None:
    result = run("Stage* s = new Scale(); s->go(x);", before=VIRTUAL)
    assert [op.kernel for op in result.timeline.ops if op.kernel] == ["b"]


def test_a_virtual_call_on_an_object_from_elsewhere_goes_to_every_class() -> None:
    (timeline,) = whole(VIRTUAL + "void each(Stage* s, float* p) { s->go(p); }")
    assert {op.kernel for op in timeline.ops if op.kernel} == {"a", "b"}


def test_a_method_of_the_base_calls_what_the_derived_class_overrides() -> None:
    classes = """
      struct Base { void run(float* p) { step(p); } virtual void step(float* p) { a<<<1, 32>>>(p); } };
      struct Derived : Base { void step(float* p) override { b<<<1, 32>>>(p); } };
    """
    result = run("Derived d; d.run(x);", before=classes)
    assert [op.kernel for op in result.timeline.ops if op.kernel] == ["b"]


def test_delete_runs_the_destructor_of_the_class_that_was_made() -> None:
    owner = """
      struct Base { virtual ~Base() {} };
      struct Owner : Base { float* p; Owner() { cudaMalloc(&p, 64); } ~Owner() { cudaFree(p); } };
    """
    result = run("Base* held = new Owner(); delete held;", before=owner)
    assert [op.kind for op in result.timeline.ops].count(ApiKind.FREE) == 1


def test_functions_kept_for_the_event_loop_see_what_was_set_up_before_it() -> None:
    program = """
      float* state;
      void display() { a<<<1, 32>>>(state); }
      int main(int argc, char** argv) {
        glutDisplayFunc(display);
        cudaMalloc(&state, 4096);
        glutMainLoop();
      }
    """
    (timeline,) = whole(program)
    launch = next(op for op in timeline.ops if op.kernel == "a")
    assert timeline.buffers[launch.accesses[0].buffer].origin == "alloc"


# ----------------------------------------------------------------------------------------------------- which memory


def test_a_mapped_graphics_resource_is_device_memory_on_its_stream() -> None:
    result = run("""
      cudaGraphicsResource* vbo; float* p; size_t n; cudaStream_t s; cudaStreamCreate(&s);
      cudaGraphicsGLRegisterBuffer(&vbo, 1, 0);
      cudaGraphicsMapResources(1, &vbo, s);
      cudaGraphicsResourceGetMappedPointer((void**)&p, &n, vbo);
      a<<<1, 32, 0, s>>>(p);
      cudaGraphicsUnmapResources(1, &vbo, s);
    """)
    timeline = result.timeline
    assert {timeline.buffers[a.buffer].memory for a in result.op("a").accesses} == {Memory.DEVICE}
    assert timeline.ordered(result.op("cudaGraphicsMapResources").id, result.op("a").id)
    assert timeline.cuts == ()


def test_a_kernel_named_by_a_string_is_found_in_the_program() -> None:
    result = run("""
      CUmodule m; CUfunction f; CUdeviceptr p; cuModuleLoad(&m, "m.cubin"); cuModuleGetFunction(&f, m, "_Z1bPf");
      cuMemAlloc(&p, 64); void* args[] = {&p}; cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, 0, args, 0);
    """)
    op = result.op("b")
    assert names(result, op) == {"p"}


def test_copied_structures_carry_their_pointers() -> None:
    code = """
      struct Views { float* data; };
      __global__ void touch(Views* v) { v->data[threadIdx.x] = 1; }
    """
    result = run(
        "Views h; h.data = x; Views* d; cudaMalloc(&d, sizeof(Views));"
        "cudaMemcpy(d, &h, sizeof(Views), cudaMemcpyHostToDevice); touch<<<1, 32>>>(d);",
        before=code,
    )
    assert "x" in names(result, result.op("touch"))


def test_memory_that_a_long_host_function_hands_out_is_host_memory() -> None:
    lines = "".join(f"total += n * {k}; if (total > {k}) total -= {k};\n" for k in range(60))
    reader = (
        f"int load(const char* f, float** out, int n) {{ int total = 0; {lines} *out = (float*)malloc(n); return 0; }}"
    )
    result = run('float* h = nullptr; load("f", &h, 64); cudaMemcpy(x, h, 64, cudaMemcpyHostToDevice);', before=reader)
    op = result.op("cudaMemcpy")
    memories = {result.timeline.buffers[a.buffer].name: result.timeline.buffers[a.buffer].memory for a in op.accesses}
    assert memories == {"x": Memory.DEVICE, "h": Memory.PAGEABLE}


def test_a_host_function_that_sets_a_global_pointer_is_followed() -> None:
    lines = "".join(f"table[{k}] = {k};\n" for k in range(30))
    reader = f"float* table; void fill() {{ table = (float*)malloc(400); {lines} }}"
    result = run("fill(); cudaMemcpy(x, table, 64, cudaMemcpyHostToDevice);", before=reader)
    assert {result.timeline.buffers[a.buffer].origin for a in result.op("cudaMemcpy").accesses} == {"alloc"}


def test_an_array_inside_a_record_is_the_records_own_memory() -> None:
    code = """
      struct Matrix { float e[3][3]; };
      __global__ void turn(Matrix* m) { m[threadIdx.x].e[0][1] = m[threadIdx.x].e[1][0]; }
    """
    result = run("Matrix* d; cudaMalloc(&d, 4096); turn<<<1, 32>>>(d);", before=code)
    op = result.op("turn")
    assert op.unknown == () and names(result, op) == {"d"}


# ------------------------------------------------------------------------------------------------------------- effort


def test_a_check_with_constants_is_followed_once() -> None:
    check = """
      void check(cudaError_t status, const char* file, int line) {
        if (status != cudaSuccess) { printf("%s:%d", file, line); exit(1); }
      }
    """
    calls = "".join("check(cudaMemset(x, 0, 64), __FILE__, 7);\n" for _ in range(40))
    result = run(calls, before=check)
    assert [op.api for op in result.timeline.ops].count("cudaMemset") == 40
    assert result.timeline.cuts == ()


@pytest.mark.parametrize("status", ["1", "argc"])
def test_a_check_that_fails_or_may_fail_is_told_apart(status: str) -> None:
    check = "void must(int status) { if (status != 0) exit(1); }\n"
    result = run(f"must(0); a<<<1, 32>>>(x); must({status}); b<<<1, 32>>>(x);", before=check)
    assert ("b" in {op.kernel for op in result.timeline.ops}) == (status == "argc")


def test_what_a_cut_left_is_looked_at_from_its_own_start() -> None:
    program = """
      void late(float* p, cudaStream_t s) { b<<<1, 32, 0, s>>>(p); }
      int main() {
        float* x; cudaMalloc(&x, 4096); cudaStream_t s; cudaStreamCreate(&s);
        for (int i = 0; i < 4; i++) { a<<<1, 32, 0, s>>>(x); a<<<1, 32, 0, s>>>(x); a<<<1, 32, 0, s>>>(x); }
        late(x, s);
      }
    """
    timelines = whole(program, max_ops=10)
    assert [t.entry for t in timelines] == ["a.cu::main", "a.cu::late"]
    assert timelines[0].cuts
    late = next(op for op in timelines[1].ops if op.kernel == "b")
    assert late.stream is not None and timelines[1].streams[late.stream].kind is StreamKind.PARAMETER


def test_many_cases_of_one_template_stand_for_each_other() -> None:
    cases = "".join(f"case {k}: step<{k}>(x); break;\n" for k in range(12))
    before = "template <int N> void step(float* p) { a<<<N, 32>>>(p); }\n"
    result = run(f"switch (argc) {{ {cases} }}", before=before)
    assert 1 <= len([op for op in result.timeline.ops if op.kernel == "a"]) <= 4
    assert any("template arguments" in cut.what for cut in result.timeline.cuts)


def test_a_number_that_may_be_minus_one_is_compared_as_such() -> None:
    before = """
      int find(int n, const int* v) { int at = -1; for (int i = 0; i < n; i++) { if (v[i] == 3) at = i; } return at; }
    """
    result = run("if (find(argc, 0) != -1) return 0; a<<<1, 32>>>(x);", before=before)
    assert "a" in {op.kernel for op in result.timeline.ops}


# ------------------------------------------------------------------------------------------------------------- thrust

VECTOR = "thrust::device_vector<float> v(64); cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);\n"


def test_an_algorithm_is_work_that_the_host_waits_for() -> None:
    result = run(VECTOR + "thrust::sort(v.begin(), v.end()); a<<<1, 32, 0, s>>>(thrust::raw_pointer_cast(v.data()));")
    assert names(result, result.op("thrust::sort")) == {"v"}
    assert result.ordered("thrust::sort", "a")


def test_an_algorithm_runs_on_the_stream_of_its_policy() -> None:
    result = run(VECTOR + "a<<<1, 32, 0, s>>>(x); thrust::sort(thrust::cuda::par.on(s), v.begin(), v.end());")
    assert result.op("thrust::sort").stream == result.op("a").stream
    assert result.ordered("a", "thrust::sort")


def test_the_host_does_not_wait_for_an_algorithm_without_sync() -> None:
    result = run(VECTOR + "thrust::sort(thrust::cuda::par_nosync.on(s), v.begin(), v.end()); b<<<1, 32>>>(x);")
    assert not result.ordered("thrust::sort", "b")
