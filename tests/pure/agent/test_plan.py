"""Blueprints of a change: what they keep, what they drop, and that they survive their JSON form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stitchcuda.agent.blueprint import Lane, Residency, blueprint_from_json, blueprint_to_json
from stitchcuda.agent.plan import calls_of_nodes, make_blueprint
from stitchcuda.agent.pricing import Costs
from stitchcuda.analysis.graph.build import execution_graph
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.gpu_validate.trace import store
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, Trace

ROOT = Path(__file__).parents[3]
BEFORE = """\
__global__ void work(float* p) { p[threadIdx.x] += 1; }
void step(float* p) {
    work<<<1, 256>>>(p);
    cudaDeviceSynchronize();
}
int main() {
    float *p, *q, h[256];
    cudaMalloc(&p, 1024);
    cudaMalloc(&q, 1024);
    cudaMemset(p, 0, 1024);
    step(p);
    cudaMemcpy(h, p, 1024, cudaMemcpyDeviceToHost);
    cudaMemcpy(q, h, 1024, cudaMemcpyHostToDevice);
    step(q);
    cudaMemcpy(h, q, 1024, cudaMemcpyDeviceToHost);
    cudaFree(q);
}
"""
AFTER = BEFORE.replace("    cudaDeviceSynchronize();\n", "").replace("    cudaMemcpy(h, p, 1024, cudaMemcpyDeviceToHost);\n", "").replace(
    "q, h, 1024, cudaMemcpyHostToDevice", "q, p, 1024, cudaMemcpyDeviceToDevice"
)  # fmt: skip


def analysed(text: str) -> Analysis:
    index = Index(strict=True)
    index.put("app/a.cu", text.encode())
    return index.analyse()


def ids(analysis: Analysis) -> dict[str, list[str]]:
    graph = execution_graph(analysis.timelines, analysis.program, analysis.sources)
    found: dict[str, list[str]] = {}
    for node in graph.nodes:
        found.setdefault(node.copy_kind or node.kind, []).append(node.id)
    return found


def test_a_blueprint_names_the_nodes_of_the_original() -> None:
    before, after = analysed(BEFORE), analysed(AFTER)
    old, new = ids(before), ids(after)
    blueprint = make_blueprint(before, after)
    on_device = f"+{new['d2d'][0]}"  # the original has no such copy
    lane = (old["memset"][0], old["launch"][0], on_device, old["launch"][1], old["d2h"][1])
    assert blueprint.lanes == (Lane("default", lane),)
    assert blueprint.critical_path == lane
    assert blueprint.waits.kept == (old["d2h"][1],)
    assert blueprint.waits.removed == (old["device_sync"][0], old["d2h"][0], old["h2d"][0], old["device_sync"][1])
    assert blueprint.residency == (
        Residency("p", "device", old["memset"][0], on_device),
        Residency("q", "device", on_device, old["d2h"][1]),
    )
    assert blueprint.predicted is None
    assert blueprint_from_json(json.loads(json.dumps(blueprint_to_json(blueprint)))) == blueprint


def test_nothing_changed_keeps_every_wait() -> None:
    same = analysed(BEFORE)
    blueprint = make_blueprint(same, same)
    assert blueprint.waits.removed == () and len(blueprint.waits.kept) == 5
    assert not [op for lane in blueprint.lanes for op in lane.ops if op.startswith("+")]


def test_a_full_trace_prices_what_goes_and_finds_the_slow_chain() -> None:
    def call(index: int, line: int, start: int, end: int, caller: int = 0) -> Call:
        sites = (CallSite("/x/app/a.cu", line, "step"), CallSite("/x/app/a.cu", caller, "main"))
        return Call(index, "", start, end, correlation=index + 1, sites=sites if caller else sites[:1])

    calls = (
        call(0, 10, 100, 110),  # memset
        call(1, 3, 110, 120, 11),
        call(2, 4, 120, 300, 11),  # waits till 300 for a kernel that ends at 290
        call(3, 12, 300, 400),
        call(4, 13, 400, 480),
        call(5, 3, 480, 490, 14),
        call(6, 4, 490, 600, 14),
        call(7, 15, 600, 700),
    )
    ops = (
        DeviceOp("memset", 105, 110, correlation=1),
        DeviceOp("kernel", 130, 290, correlation=2),
        DeviceOp("copy", 310, 390, correlation=4),
        DeviceOp("copy", 420, 470, correlation=5),
        DeviceOp("kernel", 500, 590, correlation=6),
        DeviceOp("copy", 610, 690, correlation=8),
    )
    before, after = analysed(BEFORE), analysed(AFTER)
    predicted = make_blueprint(before, after, Trace("full", 0, 90, 700, calls, ops)).predicted
    assert predicted is not None and predicted.metric == "latency"
    assert predicted.before == pytest.approx(600e-9)
    # Copies 80 + 50; the device stands still in 290-310, 390-420, 470-500 and 590-610, between calls that go.
    assert predicted.before - predicted.after == pytest.approx((130 + 100) * 1e-9)
    assert make_blueprint(before, after, Trace("timing", 0, 90, 700, calls, ops)).predicted is None


def test_every_call_of_a_recorded_run_belongs_to_one_node() -> None:
    """The compiler inlined some of the functions on the way, so that their frames are missing."""
    trace = store.from_json(json.loads((ROOT / "tests/fixtures/traces/vit.json").read_bytes()))
    index = Index(strict=True)
    for path in sorted((ROOT / "examples/vit").iterdir()):
        if path.suffix in (".cu", ".cpp", ".h"):
            index.put(f"examples/vit/{path.name}", path.read_bytes())
    calls = calls_of_nodes(index.analyse(), Costs(trace))
    assert sorted(c.index for made in calls.values() for c in made) == [c.index for c in trace.calls]
