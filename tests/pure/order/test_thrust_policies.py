"""Algorithms of thrust under policies that variables keep, in loops and in lambdas."""

from __future__ import annotations

from tests.pure.order.programs import run

HEAD = (
    "  cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);\n  thrust::device_vector<float> v(64);\n"
)


def test_a_policy_that_a_variable_keeps_names_the_stream_and_waits() -> None:
    policy = "auto policy = thrust::cuda::par.on(s); thrust::sequence(policy, v.begin(), v.end()); b<<<1, 32>>>(x);"
    result = run(HEAD + policy)
    call = result.op("thrust::sequence")
    assert call.stream is not None and result.timeline.streams[call.stream].name == "s"
    assert result.timeline.ordered(call.id, result.op("b").id)


def test_a_kept_policy_without_a_wait_leaves_the_host_going_on() -> None:
    policy = (
        "auto policy = thrust::cuda::par_nosync.on(s); thrust::sequence(policy, v.begin(), v.end()); b<<<1, 32>>>(x);"
    )
    result = run(HEAD + policy)
    call = result.op("thrust::sequence")
    assert not result.timeline.ordered(call.id, result.op("b").id)


def test_a_loop_with_nothing_but_algorithms_is_device_work_of_many_rounds() -> None:
    loop = 'int n = atoi(getenv("n")); for (int i = 0; i < n; i++) thrust::sequence(v.begin(), v.end());'
    assert sum(op.api == "thrust::sequence" for op in run(HEAD + loop).timeline.ops) == 2


def test_an_algorithm_in_a_thread_is_not_lost() -> None:
    thread = (
        "auto told = std::async(std::launch::async, [=] { return thrust::reduce(v.begin(), v.end()); }); told.get();"
    )
    assert any(op.api == "thrust::reduce" for op in run(HEAD + thread).timeline.ops)
