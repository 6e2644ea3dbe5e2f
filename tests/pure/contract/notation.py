"""A contract in short lines, every field that it sets, so that a table of sentences can say all that is expected."""

from __future__ import annotations

from stitchcuda.analysis.contract.types import Contract, TensorSpec


def lines(contract: Contract) -> list[str]:
    """Sorted. "bitwise" only where the request says so; "ask FIELD" for each field that a question is about."""
    out = [f"task {contract.task}"] if contract.task else []
    out += [f"{b.metric} {b.statistic} {b.relation} {b.value:.12g} {b.unit}" for b in contract.bounds]
    stated = any(e.field == "tolerance" for e in contract.evidence)
    tolerance = contract.tolerance
    parameter = next((f" {p:g}" for p in (tolerance.rtol, tolerance.atol, tolerance.k) if p is not None), "")
    out += [tolerance.mode + parameter] if stated else []
    if contract.hardware.device or contract.hardware.arch:
        out.append(f"gpu {contract.hardware.device} {contract.hardware.arch}")
    out += [f"allow {name}" for name in contract.precision] + [f"no {name}" for name in contract.precision_forbidden]
    out += [_tensor("input", t) for t in contract.inputs] + [_tensor("output", t) for t in contract.outputs]
    out += [f"scope {name}" for name in contract.scope] + [f"forbid {name}" for name in contract.forbid]
    out += [f"streams {contract.max_streams}"] if contract.max_streams is not None else []
    return sorted([*out, *{f"ask {q.field}" for q in contract.questions}])


def _tensor(side: str, tensor: TensorSpec) -> str:
    shape = "" if tensor.shape is None else " [" + ",".join(map(str, tensor.shape)) + "]"
    return f"{side} {tensor.name}{shape}" + (f" {tensor.dtype}" if tensor.dtype else "")
