"""The API tables: roles, flags and the rules for names that have no row."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.program import api
from stitchcuda.analysis.program.ir import ApiKind

ROLES = (
    "out dst src bytes kind stream event end_event value ptr flags device src_device dst_device pool mode callback "
    "user_data graph exec handle symbol offset width height dpitch spitch pitch_out params kernel grid block shared "
    "packed config"
)
_NUMBERED = ("arg", "src", "inout")


def test_rows_use_documented_roles_only() -> None:
    known = set(ROLES.split())
    for row in api.ROWS.values():
        for role in row.roles:
            assert role.removeprefix("...") in known or role.startswith(_NUMBERED), (row.name, role)
            assert f"`{role.removeprefix('...')}`" in (api.__doc__ or "") or role.startswith(_NUMBERED), role


@pytest.mark.parametrize(
    ("name", "argc", "kind", "roles", "flags"),
    [
        ("cudaMallocAsync", 3, ApiKind.ALLOC, ("out", "bytes", "stream"), {"pooled", "async"}),
        ("cudaMallocAsync", 4, ApiKind.ALLOC, ("out", "bytes", "pool", "stream"), {"pooled", "async"}),
        ("cudaMemcpyAsync_ptsz", 5, ApiKind.COPY, ("dst", "src", "bytes", "kind", "stream"), {"async"}),
        ("cuMemcpyHtoDAsync_v2", 4, ApiKind.COPY, ("dst", "src", "bytes", "stream"), {"h2d", "async", "driver"}),
        ("cudaGraphInstantiate", 5, ApiKind.GRAPH_INSTANTIATE, ("out", "graph", "out", "arg3", "arg4"), set()),
        ("cuGraphLaunch", 2, ApiKind.GRAPH_LAUNCH, ("exec", "stream"), {"async", "driver"}),
        (
            "cudnnPoolingForward",
            8,
            ApiKind.LIBRARY_CALL,
            ("handle", "arg1", "arg2", "arg3", "src", "arg5", "arg6", "dst"),
            {"async", "library"},
        ),
        ("cublasSgemm", 3, ApiKind.LIBRARY_CALL, ("handle", "arg1", "arg2"), {"async", "library"}),
        ("cublasSetStream_v2", 2, ApiKind.SET_STREAM, ("handle", "stream"), {"library"}),
        ("cudnnConvolutionForward", 2, ApiKind.LIBRARY_CALL, ("handle", "arg1"), {"async", "library"}),
        ("cudnnCreateTensorDescriptor", 1, ApiKind.NEUTRAL, ("out",), {"library"}),
        (
            "ncclAllReduce",
            7,
            ApiKind.LIBRARY_CALL,
            ("src", "dst", "arg2", "arg3", "arg4", "arg5", "stream"),
            {"async", "library"},
        ),
        ("ncclWaitSignal", 4, ApiKind.LIBRARY_CALL, ("arg0", "arg1", "arg2", "stream"), {"async", "library"}),
        ("cudaEventElapsedTime", 3, ApiKind.ELAPSED_TIME, ("out", "event", "end_event"), set()),
    ],
)
def test_lookup(name: str, argc: int, kind: ApiKind, roles: tuple[str, ...], flags: set[str]) -> None:
    row = api.lookup(name, argc)
    assert row is not None
    assert (row.kind, api.assign_roles(row, argc), set(row.flags)) == (kind, roles, flags)


def test_a_name_that_starts_as_those_of_nccl_says_nothing() -> None:
    assert api.lookup("ncclSocketReady", 2) is None


@pytest.mark.parametrize("name", ["cudaFooBar", "cuFooBar"])
def test_unknown_names_of_cuda(name: str) -> None:
    assert api.lookup(name, 1) is None
    assert api.looks_like_cuda(name)


@pytest.mark.parametrize(
    "name", ["cudaError_t", "cuCmulf", "cudaCheckError", "cuda_sort", "custom", "cublas", "curand_init"]
)
def test_names_that_only_look_alike(name: str) -> None:
    assert api.lookup(name, 1) is None
    assert not api.looks_like_cuda(name)
