"""What a request says beside the fields that were read from it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stitchcuda.analysis.contract.intent import parse_intent
from stitchcuda.analysis.contract.intent.leftover import unread


@pytest.mark.parametrize(
    "request_",
    [
        "",
        "faster, please",
        "make this program as fast as possible",
        "latency under 7 ms",
        "image classification inference p99 under 8 ms on an H100",
        "Image classification, p99 latency under 8 ms on H100, relative tolerance 1e-3, no cuda graphs, fp32 only",
        "halve the latency of the forward pass",
        "throughput of at least 1000 images/s with at most 2 GB of GPU memory",
        "加速ViT图像分类推理，延迟低于8ms",
        "优化推理延迟到8毫秒以内",
    ],
)
def test_what_is_read_completely_leaves_nothing(request_: str) -> None:
    assert unread(request_, parse_intent(request_)) == ()


@pytest.mark.parametrize(
    "request_, left",
    [
        ("Please speed this up; our driver cannot record launches for later", ("driver cannot record launches for later",)),
        ("p99 under 8 ms, and mind the small inputs", ("mind the small",)),
        ("Never go beyond 6 gigabytes on the card", ("Never go beyond 6 gigabytes on the card",)),
        ("延迟低于8ms，别碰日志", ("别碰日志",)),
    ],
)  # fmt: skip
def test_words_that_no_field_came_from(request_: str, left: tuple[str, ...]) -> None:
    assert unread(request_, parse_intent(request_)) == left


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80) | st.text("latency under 8 ms, or not.\n延迟别", max_size=60))
def test_what_is_left_stands_in_the_request_beside_the_evidence(request_: str) -> None:
    contract = parse_intent(request_)
    beside = request_
    for evidence in contract.evidence:
        start, end = evidence.span
        beside = beside[:start] + "\0" * (end - start) + beside[end:]
    at = 0
    for words in unread(request_, contract):
        at = beside.index(words, at) + len(words)
        assert words.strip() == words != ""
