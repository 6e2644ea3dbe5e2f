"""What the symbolic executor recovers from programs as people write them: loops, families of streams, paths, helpers."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.order.timeline import Memory, StreamKind
from stitchcuda.analysis.program.ir import ApiKind

from tests.pure.order.programs import Run, run

STREAMS = """
  const int N = 16;
  cudaStream_t s[N]; float* p[N];
  for (int i = 0; i < N; i++) { cudaStreamCreate(&s[i]); cudaMalloc(&p[i], 4096); }
"""


def buffers(result: Run, kernel: str, which: int = 0) -> list[str]:
    timeline = result.timeline
    return [timeline.buffers[a.buffer].name for a in result.op(kernel, which).accesses]


def test_a_stream_array_filled_in_a_loop_is_read_back_in_another() -> None:
    result = run(STREAMS + "for (int j = 0; j < N; j++) a<<<1, 32, 0, s[j]>>>(p[j]);")
    first, second = result.op("a"), result.op("a", 1)
    timeline = result.timeline
    assert first.stream is not None and second.stream is not None and first.stream != second.stream
    assert timeline.streams[first.stream].kind is StreamKind.CREATED
    assert not timeline.ordered(first.id, second.id)
    # iteration j works on its own buffer: never the same memory as another iteration's
    assert first.accesses[0].buffer != second.accesses[0].buffer


def test_a_loop_that_waits_for_every_stream_waits_for_all() -> None:
    work = STREAMS + "for (int j = 0; j < N; j++) a<<<1, 32, 0, s[j]>>>(p[j]);\n"
    waits = "for (int k = 0; k < N; k++) cudaStreamSynchronize(s[k]);\n"
    result = run(work + waits + "b<<<1, 32>>>(x);")
    assert result.timeline.ordered(result.op("a").id, result.op("b").id)
    assert result.timeline.ordered(result.op("a", 1).id, result.op("b").id)
    unwaited = run(STREAMS.replace("cudaStreamCreate(&s[i])", "cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking)")
                   + "for (int j = 0; j < N; j++) a<<<1, 32, 0, s[j]>>>(p[j]);\nb<<<1, 32>>>(x);")  # fmt: skip
    assert not unwaited.timeline.ordered(unwaited.op("a").id, unwaited.op("b").id)


def test_a_wait_under_a_condition_does_not_wait_for_all() -> None:
    result = run(
        STREAMS
        + "for (int j = 0; j < N; j++) a<<<1, 32, 0, s[j]>>>(p[j]);\n"
        + "for (int k = 0; k < N; k++) if (k != 3) cudaStreamSynchronize(s[k]);\n"
        + "cudaStream_t t; cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking); b<<<1, 32, 0, t>>>(x);"
    )
    assert not result.timeline.ordered(result.op("a").id, result.op("b").id)


def test_ping_pong_slots_come_round_again() -> None:
    result = run(
        """cudaStream_t s[2]; float* slot[2];
        for (int i = 0; i < 2; i++) { cudaStreamCreate(&s[i]); cudaMalloc(&slot[i], 4096); }
        for (int i = 0; i < n(); i++) a<<<1, 32, 0, s[i % 2]>>>(slot[i % 2]);""",
        before="int n();\n",
    )
    runs = [op for op in result.timeline.ops if op.kernel == "a"]
    assert len(runs) == 3
    assert runs[0].stream == runs[2].stream != runs[1].stream
    assert result.timeline.ordered(runs[0].id, runs[2].id)
    assert not result.timeline.ordered(runs[0].id, runs[1].id)
    assert runs[0].accesses[0].buffer == runs[2].accesses[0].buffer != runs[1].accesses[0].buffer


def test_pointers_swapped_in_a_loop_are_followed() -> None:
    result = run("for (int i = 0; i < n(); i++) { a<<<1, 32>>>(x); std::swap(x, y); }", before="int n();\n")
    first, second = result.op("a"), result.op("a", 1)
    assert first.accesses[0].buffer != second.accesses[0].buffer


def test_a_condition_tested_twice_is_one_condition() -> None:
    result = run(
        """cudaStream_t s, t; cudaEvent_t e; cudaStreamCreate(&s); cudaStreamCreate(&t); cudaEventCreate(&e);
        bool overlap = flag();
        a<<<1, 32, 0, s>>>(x);
        if (overlap) cudaEventRecord(e, s); else cudaStreamSynchronize(s);
        c<<<1, 32, 0, s>>>(y);
        if (overlap) cudaStreamWaitEvent(t, e, 0);
        b<<<1, 32, 0, t>>>(x);""",
        before="bool flag();\n",
    )
    runs = [op for op in result.timeline.ops if op.kernel == "b"]
    assert runs and all(result.timeline.ordered(result.op("a").id, op.id) for op in runs)


def test_exclusive_branches_do_not_meet() -> None:
    result = run(
        """cudaStream_t s, t; cudaStreamCreate(&s); cudaStreamCreate(&t);
        if (flag()) a<<<1, 32, 0, s>>>(x); else b<<<1, 32, 0, t>>>(x);""",
        before="bool flag();\n",
    )
    a, b = result.op("a").id, result.op("b").id
    assert not result.timeline.earlier[b] >> a & 1 and not result.timeline.earlier[a] >> b & 1


def test_error_paths_end_and_do_not_blur_what_follows() -> None:
    result = run(
        """cudaStream_t s; cudaStreamCreate(&s);
        a<<<1, 32, 0, s>>>(x);
        if (cudaGetLastError() != cudaSuccess) goto failed;
        if (cudaStreamSynchronize(s) != cudaSuccess) goto failed;
        b<<<1, 32>>>(x);
        failed:
        cudaFree(x);"""
    )
    assert result.ordered("a", "b")
    assert result.ordered("b", "cudaFree") is False  # cudaFree promises no wait (W8)
    assert result.op("b").conditions == ()


def test_a_stream_kept_by_a_class_is_the_same_stream_everywhere() -> None:
    wrapper = """
    struct Stream {
      Stream() { cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking); }
      ~Stream() { cudaStreamDestroy(handle); }
      operator cudaStream_t() const { return handle; }
      void wait() const { cudaStreamSynchronize(handle); }
      cudaStream_t handle;
    };
    """
    result = run(
        "{ Stream s; a<<<1, 32, 0, s>>>(x); b<<<1, 32, 0, s.handle>>>(x); s.wait(); c<<<1, 32>>>(x); } d<<<1, 32>>>(y);",
        before=wrapper,
    )
    a, b = result.op("a"), result.op("b")
    assert a.stream == b.stream
    assert result.timeline.streams[a.stream or 0].blocking is False
    assert result.ordered("a", "c")
    kinds = [op.kind for op in result.timeline.ops]
    assert kinds.index(ApiKind.STREAM_DESTROY) > kinds.index(ApiKind.STREAM_SYNC)
    assert result.timeline.ops[kinds.index(ApiKind.STREAM_DESTROY)].id < result.op("d").id


def test_the_elements_of_a_local_array_are_destroyed_the_last_one_first() -> None:
    wrapper = """
    struct Stream {
      Stream() { cudaStreamCreate(&handle); }
      ~Stream() { cudaStreamDestroy(handle); }
      cudaStream_t handle;
    };
    """
    result = run("{ Stream s[2]; a<<<1, 32, 0, s[1].handle>>>(x); } d<<<1, 32>>>(y);", before=wrapper)
    kinds = {kind: [op for op in result.timeline.ops if op.kind is kind] for kind in ApiKind}
    made, gone = kinds[ApiKind.STREAM_CREATE], kinds[ApiKind.STREAM_DESTROY]
    assert [op.stream for op in gone] == [op.stream for op in reversed(made)]
    assert len(gone) == 2
    assert result.op("a").id < gone[0].id < gone[1].id < result.op("d").id


def test_handles_through_references_pointers_and_containers() -> None:
    result = run(
        """std::vector<cudaStream_t> pool(3);
        for (auto& s : pool) cudaStreamCreate(&s);
        cudaStream_t& first = pool[0];
        cudaStream_t* second = &pool[1];
        a<<<1, 32, 0, first>>>(x);
        b<<<1, 32, 0, pool.front()>>>(x);
        c<<<1, 32, 0, *second>>>(x);
        d<<<1, 32, 0, pool.at(1)>>>(x);"""
    )
    a, b, c, d = (result.op(k).stream for k in "abcd")
    assert a == b and c == d and a != c


def test_a_helper_names_the_buffer_after_its_caller() -> None:
    result = run(
        "float* weights = upload(1024); a<<<1, 32>>>(weights);",
        before="float* upload(int n) { float* made; cudaMalloc(&made, n * sizeof(float)); return made; }\n",
    )
    assert set(buffers(result, "a")) == {"weights"}
    size = result.timeline.buffers[result.op("a").accesses[0].buffer].size
    assert size is not None and size.constant == 4096


def test_memory_made_in_an_expression_is_named_after_the_variable_that_holds_it() -> None:
    result = run("""
        float* first = (float*)malloc(4096);
        float* second = new float[1024];
        float* again = first;
        cudaMemcpy(x, again, 4096, cudaMemcpyHostToDevice);
        cudaMemcpy(x, second, 4096, cudaMemcpyHostToDevice);
    """)
    names = [result.timeline.buffers[a.buffer].name for o in range(2) for a in result.op("cudaMemcpy", o).accesses]
    assert names == ["first", "x", "second", "x"]


def test_copies_know_where_their_bytes_are() -> None:
    result = run(
        """float* h; cudaMallocHost(&h, 4096); std::vector<float> v(1024);
        cudaMemcpyAsync(x + 16, h, 256, cudaMemcpyHostToDevice, 0);
        cudaMemcpy(v.data(), x, 1024 * sizeof(float), cudaMemcpyDefault);"""
    )
    up, down = result.op("cudaMemcpyAsync"), result.op("cudaMemcpy")
    memory = {a.via: result.timeline.buffers[a.buffer].memory for a in up.accesses}
    assert memory == {"src": Memory.PINNED, "dst": Memory.DEVICE}
    target = next(a for a in up.accesses if a.via == "dst")
    assert target.range.offset is not None and target.range.offset.constant == 64
    assert up.copy_kind == "h2d" and down.copy_kind == "d2h"
    assert down.bytes is not None and down.bytes.constant == 4096


def test_an_unresolved_call_makes_later_order_uncertain_but_not_certain() -> None:
    result = run(
        """cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
        a<<<1, 32, 0, s>>>(x); somewhere_else(); b<<<1, 32>>>(x);""",
        before="void somewhere_else();\n",
    )
    a, b = result.op("a").id, result.op("b").id
    assert not result.timeline.ordered(a, b)
    assert result.timeline.may_wait[b] >> a & 1


def test_a_status_wrapper_that_was_not_seen_is_no_such_call() -> None:
    result = run(
        """cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
        a<<<1, 32, 0, s>>>(x); checkCudaErrors(cudaGetLastError()); b<<<1, 32>>>(x);"""
    )
    assert not result.timeline.may_wait[result.op("b").id] >> result.op("a").id & 1


def test_a_thread_that_is_joined_before_anything_else_is_done_there() -> None:
    result = run(
        "std::thread t(work, x); t.join(); b<<<1, 32>>>(x);",
        before="void work(float* p) { a<<<1, 32>>>(p); }\n",
    )
    assert result.ordered("a", "b")
    assert result.op("a").thread == result.op("b").thread


@pytest.mark.parametrize(
    "rest", ["b<<<1, 32>>>(x); t.join();", "t.detach(); b<<<1, 32>>>(x);", "keep(&t); b<<<1, 32>>>(x);"]
)
def test_functions_given_to_a_thread_are_followed_without_an_order(rest: str) -> None:
    result = run(
        f"std::thread t(work, x); {rest}",
        before="void work(float* p) { a<<<1, 32>>>(p); }\n",
    )
    a, b = result.op("a"), result.op("b")
    assert a.thread != b.thread
    assert not result.timeline.earlier[b.id] >> a.id & 1


def test_a_loop_over_an_unbounded_recursion_ends() -> None:
    result = run(
        "again(x, 3);", before="void again(float* p, int n) { a<<<1, 32>>>(p); if (n > 0) again(p, n - 1); }\n"
    )
    assert len([op for op in result.timeline.ops if op.kernel == "a"]) >= 2


def test_numbers_on_a_path_decide_later_tests() -> None:
    result = run(
        """int n = count();
        if (n > 4) a<<<1, 32>>>(x);
        if (n > 2) b<<<1, 32>>>(x);
        if (n <= 2) c<<<1, 32>>>(x);""",
        before="int count();\n",
    )
    timeline = result.timeline
    c = result.op("c")
    assert not timeline.earlier[c.id] >> result.op("a").id & 1  # n > 4 and n <= 2 never hold together
    assert not timeline.earlier[c.id] >> result.op("b").id & 1


def test_parameter_packs_carry_their_arguments() -> None:
    result = run(
        "repeat(3, work, x, 2); send(0, y);",
        before="""void work(float* p, int n) { a<<<1, 32>>>(p); }
        template <class F, class... Args> void repeat(int times, F f, Args&&... args) {
          for (int i = 0; i < times; i++) f(std::forward<Args>(args)...);
        }
        template <class... T> void send(cudaStream_t s, T... values) { b<<<1, 32, 0, s>>>(values...); }
        """,
    )
    assert set(buffers(result, "a")) == {"x"} and set(buffers(result, "b")) == {"y"}


def test_pointers_filled_through_a_table_and_memory_from_host_helpers() -> None:
    result = run(
        """Parts parts; float* all = place(&parts, x);
        a<<<1, 32>>>(parts.second);
        float* h = random(64); cudaMemcpy(y, h, 256, cudaMemcpyHostToDevice);""",
        before="""struct Parts { float* first; float* second; };
        float* place(Parts* parts, float* memory) {
          float** targets[] = {&parts->first, &parts->second};
          float* next = memory;
          for (int i = 0; i < 2; i++) { *(targets[i]) = next; next += 16; }
          return memory;
        }
        float* random(int n) { float* made = (float*)malloc(n * sizeof(float)); for (int i = 0; i < n; i++) made[i] = i; return made; }
        """,
    )
    (read, _) = result.op("a").accesses
    assert buffers(result, "a")[0] == "x"
    assert read.range.offset is not None and read.range.offset.constant == 64
    assert set(buffers(result, "cudaMemcpy")) == {"y", "h"} and result.op("cudaMemcpy").certain


def test_a_pointer_chosen_by_a_condition_is_one_of_two() -> None:
    result = run("float* chosen = flag() ? x : y; a<<<1, 32>>>(chosen);", before="bool flag();\n")
    runs = [op for op in result.timeline.ops if op.kernel == "a"]
    names = {result.timeline.buffers[a.buffer].name for op in runs for a in op.accesses}
    assert names == {"x", "y"}


def test_w4_polling_until_done_is_a_wait() -> None:
    setup = (
        "cudaStream_t s; cudaEvent_t e; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); cudaEventCreate(&e);\n"
    )
    work = "a<<<1, 32, 0, s>>>(x); cudaEventRecord(e, s);\n"
    for wait, waits in (
        ("while (cudaEventQuery(e) != cudaSuccess) {}", True),
        ("while (cudaEventQuery(e) == cudaErrorNotReady) { usleep(1); }", True),
        ("do { usleep(1); } while (cudaStreamQuery(s) != cudaSuccess);", True),
        ("while (cudaEventQuery(e) != cudaSuccess) { if (tired()) break; }", False),
        ("cudaEventQuery(e);", False),
        ('if (cudaEventQuery(e) == cudaErrorNotReady) puts("busy");', False),
    ):
        result = run(setup + work + wait + "b<<<1, 32>>>(x);", before="bool tired();\n")
        b = next(op for op in result.timeline.ops if op.kernel == "b")
        assert result.before(b, "a") is waits, wait


def test_what_could_not_be_read_may_have_waited() -> None:
    deep = "{" * 200 + "cudaDeviceSynchronize();" + "}" * 200
    result = run(
        "cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); a<<<1, 32, 0, s>>>(x);"
        + deep
        + "b<<<1, 32>>>(x);"
    )
    assert result.timeline.may_wait[result.op("b").id] >> result.op("a").id & 1
    assert [cut.what for cut in result.timeline.cuts] == ["nested too deeply"]


def test_sizes_of_named_types() -> None:
    result = run(
        "real* p; cudaMalloc(&p, 100 * sizeof(real)); Cell* c; cudaMalloc(&c, 10 * sizeof(Cell));",
        before="typedef double real; struct Cell { float v[4]; int n; };\n",
    )
    sizes = [op.bytes.constant for op in result.timeline.ops if op.api == "cudaMalloc" and op.bytes is not None]
    assert sizes[-2:] == [800, 200]


def test_every_element_of_a_small_array_is_visited_in_a_range_loop() -> None:
    for declared in ("std::array<Lane, 3> lanes;", "Lane lanes[3];", "std::vector<Lane> lanes(3);"):
        result = run(
            declared
            + """
            for (auto& l : lanes) init(l);
            for (auto& l : lanes) { a<<<1, 32, 0, l.s>>>(l.d); cudaMemcpyAsync(l.h, l.d, 4, cudaMemcpyDeviceToHost, l.s); }
            float sum = 0;
            for (auto& l : lanes) sum += l.h[0];""",
            before="""struct Lane { cudaStream_t s; float* d; float* h; };
            void init(Lane& l) { cudaStreamCreate(&l.s); cudaMalloc(&l.d, 128); cudaMallocHost(&l.h, 128); }
            """,
        )
        streams = {op.stream for op in result.timeline.ops if op.kernel == "a"}
        read = {a.buffer for op in result.host_reads() for a in op.accesses}
        assert len(streams) == 3 and len(read) == 3, declared


@pytest.mark.parametrize("count", ["3", "n"])
def test_the_elements_of_a_new_array_are_constructed_and_destroyed(count: str) -> None:
    lane = """struct Lane {
      cudaStream_t s;
      Lane() { cudaStreamCreate(&s); }
      ~Lane() { cudaStreamDestroy(s); }
      void go(float* p) { a<<<1, 32, 0, s>>>(p); }
    };\n"""
    body = 'int n = atoi(getenv("n")); Lane* lanes = new Lane[COUNT];\n'
    body += "for (int i = 0; i < COUNT; i++) lanes[i].go(x);\ndelete[] lanes;"
    result = run(body.replace("COUNT", count), before=lane)
    launches = [op for op in result.timeline.ops if op.kernel == "a"]
    kinds = {result.timeline.streams[op.stream].kind for op in launches if op.stream is not None}
    assert len(launches) == len({op.stream for op in launches}) == (3 if count == "3" else 2)
    assert kinds == {StreamKind.CREATED}
    assert any(op.kind is ApiKind.STREAM_DESTROY for op in result.timeline.ops)


@pytest.mark.parametrize(
    "write",
    [
        'scanf("%d", &n);',
        "int* p = &n; *p = argument();",
        "memcpy(&n, argv, 4);",
        "cudaMemcpy(&n, x, 4, cudaMemcpyDeviceToHost);",
        "elsewhere(&n);",
        "counted(&n);",
        "std::fill(&n, &n + 1, 5);",
        "cudaMallocManaged(&m, 4); *m = 0; a<<<1, 1>>>(m); cudaDeviceSynchronize(); n = *m;",
    ],
)
def test_a_number_that_others_may_have_written_is_not_known(write: str) -> None:
    """A loop over it is executed, though it was 0."""
    body = f"int n = 0; float* m;\n{write}\nfor (int i = 0; i < n; i++) b<<<1, 32>>>(y);"
    long_body = " ".join(f"for (int i{k} = 0; i{k} < 9; i{k}++) s += i{k} * 2;" for k in range(20))
    helper = f"void elsewhere(int* n);\nstatic void counted(int* n) {{ int s = 0; {long_body} *n = s; }}\n"
    assert run(body, before=helper).op("b")


def test_a_time_that_a_host_function_takes_ends_behind_the_work_before_it() -> None:
    timer = "StopWatchInterface* timer;\nvoid done(cudaStream_t, cudaError_t, void*) { sdkStopTimer(&timer); }\n"
    body = "cudaStream_t s; cudaStreamCreate(&s); sdkCreateTimer(&timer); sdkStartTimer(&timer); a<<<1, 32, 0, s>>>(x);"
    assert run(body + "cudaStreamAddCallback(s, done, 0, 0);", before=timer).timeline.measurements == ()
    assert len(run(body + "done(s, cudaSuccess, 0);", before=timer).timeline.measurements) == 1


@pytest.mark.parametrize(
    "check",
    [
        "(void)(n >= 2 || (fail(), 0));",
        "n < 2 && (fail(), 0);",
        "n >= 2 ? (void)0 : fail();",
        "n < 2 ? fail() : (void)0;",
    ],
)
def test_an_assertion_that_ends_the_program_lets_those_go_on_for_whom_it_holds(check: str) -> None:
    before = "static void fail() { exit(EXIT_FAILURE); }\n"
    assert run(f"long n = strtol(argument(), 0, 10); {check} a<<<1, 32>>>(x);", before=before).op("a")
    assert not any(op.kernel == "a" for op in run("fail(); a<<<1, 32>>>(x);", before=before).timeline.ops)
