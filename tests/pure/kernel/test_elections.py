"""Threads that choose one of them through shared memory, and updates that only look like it."""

from __future__ import annotations

import pytest

from tests.pure.kernel.findings import found, shown

HEAD = """struct Wide {{ long a; long b; __device__ bool operator==(const Wide& o) const {{ return a == o.a && b == o.b; }} }};
__device__ int rank_of(int i) {{ return i * 3; }}
__device__ int ticket(int* at) {{ return atomicAdd(at, 1); }}
__device__ void take(int* at, int empty, int id) {{ if (*at == empty) *at = id; }}
__global__ void k(const float* v, int* out, const int* list, int none, int n) {{
  __shared__ int owner;
  __shared__ int other;
  __shared__ Wide wide;
  __shared__ int place[64];
  const int i = threadIdx.x;
  const int empty = -1;
  const float mine = v[i];
  const int slot = list[i] & 63;
  if (i < 64) place[i] = none;
  if (i == 0) {{ owner = {initial}; other = 0; }}
  __syncthreads();
  {election}
  __syncthreads();
  out[i] = owner + other + place[i & 63];
}}
void run(const float* v, int* out, const int* list, int none, int n) {{ k<<<8, 128>>>(v, out, list, none, n); }}
"""


def kernel(election: str, initial: str = "none") -> str:
    return HEAD.format(election=election, initial=initial)


@pytest.mark.parametrize(
    "election",
    [
        "if (owner == none && mine == v[n]) owner = i;",
        "if (mine == v[n] && none == owner) { owner = i; }",
        "if (owner == none) { if (mine > 0.0f) owner = list[i]; }",
        "if (mine > 0.0f) if (owner == empty) owner = i;",
        "if (owner < 0 && fabsf(mine) < 1.0f) owner = i;",
        "if (0 > owner && mine > 0.0f) owner = i;",
        "if (!owner && mine > 0.0f) owner = i + 1;",
        "if (owner == std::numeric_limits<int>::max() && mine > 0.0f) owner = i;",
        "if (owner == INT_MAX && mine > 0.0f) owner = i;",
        "if (place[slot] == none) place[slot] = i;",
        "for (int j = i; j < n; j += blockDim.x) if (owner == none && v[j] > 0.0f) owner = j;",
    ],
)
def test_any_thread_may_win(election: str) -> None:
    assert shown(kernel(election)) == []


def test_who_asks_for_all_hears_that_it_differs_from_run_to_run() -> None:
    text = kernel("if (owner == none && mine == v[n]) owner = i;")
    assert [f for f in found(text) if f[0] != "missing-syncthreads"] == [("missing-atomic", "possible", 17)]


@pytest.mark.parametrize(
    "update",
    [
        "if (mine > owner) owner = mine;",
        "if (owner < mine) owner = mine;",
        "if (owner < n) owner = list[i];",  # no empty place: what is there is compared
        "if (owner > 0 && mine > 0.0f) owner = i;",
        "owner = owner + 1;",
        "if (mine > 0.0f) owner++;",
        "if (owner == none) owner = owner + i;",
        "if (mine > 0.0f && owner == none) owner += i;",
        "const int next = owner + i; if (owner == none) owner = next;",  # the old value, by another name
        "const int next = owner + i; __syncthreads(); if (owner == none) owner = next;",
        "if (~owner && mine > 0.0f) owner = i;",
        "if (wide == Wide{}) wide = Wide{i, i};",  # what stays may be half of one value and half of another
        "if (owner == none) owner = atomicAdd(out, 1);",
        "if (owner == none) owner = ticket(out);",
        "if (owner == none && ticket(out) == 0) owner = i;",
        "take(&owner, list[i], i);",
        "if (owner == i) owner = list[i];",  # the empty value is each thread's own
        "if (owner == list[i]) owner = i;",
        "if (owner == rank_of(i)) owner = i;",
        "const int drawn = ticket(out); if (owner == drawn) owner = i;",
        "if (owner == other) owner = i;",
        "int mark = -1; if (mine > 0.0f) mark = -2; if (owner == mark) owner = i;",
        "if (mine > 0.0f) none = 3; if (owner == none) owner = i;",
        "owner = owner == none && mine > 0.0f ? i : owner;",  # who loses puts the old value back
        "if (owner == none) { owner = i; other += 1; }",  # several threads do what one was to do
        "if (owner == none) { owner = i; out[n] = i; }",
        "if (owner == none) owner = i; else out[n] = i;",
        "if (owner == none || mine > 0.0f) owner = i;",
        "if (!(owner == none)) owner = i;",
        "if (owner == none && atomicAdd(out, 1) == 0) owner = i;",
        "if (owner == none && place[slot]++ == 0) owner = i;",
    ],
)
def test_what_is_no_election_is_told(update: str) -> None:
    assert {"missing-atomic", "missing-syncthreads"} & set(shown(kernel(update)))


@pytest.mark.parametrize(
    "text",
    [
        kernel("if (owner == none && mine > 0.0f) owner = i;").replace(
            "other = 0; }\n  __syncthreads();", "other = 0; }"
        ),
        kernel("if (owner == none && mine > 0.0f) owner = i;\n  if (i == owner) out[n] = 1;"),
        kernel("if (owner == none && mine > 0.0f) owner = i;\n  out[i + n] = owner;"),
        kernel("if (owner == none && mine > 0.0f) owner = i;\n  if (owner == none) owner = n + i;"),
    ],
)
def test_other_readers_wait_for_the_election(text: str) -> None:
    assert "missing-syncthreads" in shown(text)


def test_who_takes_a_place_by_what_another_place_holds_waits() -> None:
    text = kernel("if (place[i & 63] == none && place[(i + 32) & 63] == none) place[i & 63] = i;")
    assert "missing-syncthreads" in shown(text)
