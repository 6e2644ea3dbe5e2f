"""The contract: what a stitched version must keep and what it must reach (docs/json.md).

Plain frozen values. `contract_from_json` checks every field and raises `SchemaError` naming the field and the value;
`contract_to_json` gives back exactly what it would read. Units are SI base units: s, B, 1, items/s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stitchcuda.analysis.contract.jsonread import Reader, SchemaError, integer, one_of, text

SCHEMA = 1
METRIC_UNITS = {
    "latency": "s",
    "throughput": "items/s",
    "speedup": "1",
    "device_memory": "B",
    "transfer_bytes": "B",
    "memory_bandwidth_utilization": "1",
    "occupancy": "1",
}
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")
RELATIONS = ("<", "<=", ">", ">=")
PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
TOLERANCE_MODES = ("bitwise", "relative", "absolute", "top_k")
FRACTIONS = frozenset({"memory_bandwidth_utilization", "occupancy"})  # of the peak: never above 1


@dataclass(frozen=True, slots=True)
class Bound:
    """`statistic(metric) relation value`, in `unit`."""

    metric: str
    statistic: str
    relation: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How equal results must be. Exactly the parameter of the mode is set: `rtol`, `atol` or `k`."""

    mode: str = "bitwise"
    rtol: float | None = None
    atol: float | None = None
    k: int | None = None


@dataclass(frozen=True, slots=True)
class Hardware:
    device: str | None = None  # "H100"
    arch: str | None = None  # "sm_90"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output. A dimension is a number or the name of a size that varies."""

    name: str
    shape: tuple[int | str, ...] | None = None
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The words a field was read from: `span` is [start, end) in characters of the request."""

    field: str
    text: str
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Question:
    """What the words leave open; the contract is sure of everything else."""

    field: str
    text: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contract:
    """With no tolerance stated, results must be bitwise equal."""

    task: str = ""
    scope: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    tolerance: Tolerance = Tolerance()
    hardware: Hardware = Hardware()
    precision: tuple[str, ...] = ()
    precision_forbidden: tuple[str, ...] = ()
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    forbid: tuple[str, ...] = ()  # transform ids
    max_streams: int | None = None
    evidence: tuple[Evidence, ...] = ()
    questions: tuple[Question, ...] = ()


FIELDS = [
    "schema",
    "task",
    "scope",
    "bounds",
    "tolerance",
    "hardware",
    "precision",
    "precision_forbidden",
    "inputs",
    "outputs",
    "forbid",
    "max_streams",
    "evidence",
    "questions",
]


# ------------------------------------------------------------------------------------------------------------- reading


def contract_from_json(value: object) -> Contract:
    """Reads a decoded JSON value. Raises `SchemaError`."""
    reader = Reader(value, "", FIELDS)
    reader.schema(SCHEMA)
    contract = Contract(
        task=reader.text("task", ""),
        scope=reader.items("scope", text, ()),
        bounds=reader.items("bounds", _bound, ()),
        tolerance=reader.record("tolerance", _tolerance) if reader.has("tolerance") else Tolerance(),
        hardware=reader.record("hardware", _hardware) if reader.has("hardware") else Hardware(),
        precision=reader.items("precision", one_of(PRECISIONS), ()),
        precision_forbidden=reader.items("precision_forbidden", one_of(PRECISIONS), ()),
        inputs=reader.items("inputs", _tensor, ()),
        outputs=reader.items("outputs", _tensor, ()),
        forbid=reader.items("forbid", text, ()),
        max_streams=reader.optional_integer("max_streams", least=1),
        evidence=reader.items("evidence", _evidence, ()),
        questions=reader.items("questions", _question, ()),
    )
    for k, name in enumerate(contract.precision):
        if name in contract.precision_forbidden:
            raise SchemaError(f"precision[{k}]", name, "a precision that precision_forbidden does not name")
    return contract


def _bound(value: object, at: str) -> Bound:
    reader = Reader(value, at, ("metric", "statistic", "relation", "value", "unit"))
    metric = reader.choice("metric", METRIC_UNITS)
    default = "max" if metric == "device_memory" else "mean"
    bound = Bound(
        metric=metric,
        statistic=reader.choice("statistic", STATISTICS, default),
        relation=reader.choice("relation", RELATIONS),
        value=reader.number("value", least=0),
        unit=reader.choice("unit", (METRIC_UNITS[metric],)),
    )
    if metric in FRACTIONS and bound.value > 1:
        raise SchemaError(reader.path("value"), bound.value, "a share of the peak, at most 1")
    return bound


def _tolerance(value: object, at: str) -> Tolerance:
    reader = Reader(value, at, ("mode", "rtol", "atol", "k"))
    mode = reader.choice("mode", TOLERANCE_MODES)
    parameter = {"relative": "rtol", "absolute": "atol", "top_k": "k"}.get(mode)
    for name in ("rtol", "atol", "k"):
        if reader.has(name) and name != parameter:
            raise SchemaError(
                reader.path(name), value[name] if isinstance(value, dict) else None, f"no {name} in mode {mode}"
            )
    if mode == "relative":
        return Tolerance(mode, rtol=reader.number("rtol", above=0))
    if mode == "absolute":
        return Tolerance(mode, atol=reader.number("atol", above=0))
    if mode == "top_k":
        return Tolerance(mode, k=reader.integer("k", least=1))
    return Tolerance(mode)


def _hardware(value: object, at: str) -> Hardware:
    reader = Reader(value, at, ("device", "arch"))
    hardware = Hardware(reader.optional_text("device"), reader.optional_text("arch"))
    if hardware.arch is not None and not _is_arch(hardware.arch):
        raise SchemaError(reader.path("arch"), hardware.arch, 'an architecture such as "sm_90"')
    return hardware


def _is_arch(name: str) -> bool:
    digits = name.removeprefix("sm_").rstrip("af")
    return name.startswith("sm_") and digits.isascii() and digits.isdigit()


def _tensor(value: object, at: str) -> TensorSpec:
    reader = Reader(value, at, ("name", "shape", "dtype"))

    def dimension(item: object, where: str) -> int | str:
        return item if isinstance(item, str) and item else integer(item, where, 0)

    shape = reader.items("shape", dimension) if reader.has("shape") else None
    return TensorSpec(reader.text("name"), shape, reader.optional_text("dtype"))


def _evidence(value: object, at: str) -> Evidence:
    reader = Reader(value, at, ("field", "text", "span"))
    span = reader.items("span", lambda item, where: integer(item, where, 0))
    if len(span) != 2 or span[0] > span[1]:
        raise SchemaError(reader.path("span"), list(span), "[start, end] with start <= end")
    return Evidence(reader.text("field"), reader.text("text"), (span[0], span[1]))


def _question(value: object, at: str) -> Question:
    reader = Reader(value, at, ("field", "text", "options"))
    return Question(reader.text("field"), reader.text("text"), reader.items("options", text, ()))


# ------------------------------------------------------------------------------------------------------------- writing


def contract_to_json(contract: Contract) -> dict[str, Any]:
    """A value for `json.dumps`. `max_streams` and `questions` stand in it only when there are any."""
    out: dict[str, Any] = {
        "schema": SCHEMA,
        "task": contract.task,
        "scope": list(contract.scope),
        "bounds": [
            {"metric": b.metric, "statistic": b.statistic, "relation": b.relation, "value": b.value, "unit": b.unit}
            for b in contract.bounds
        ],
        "tolerance": _present(
            mode=contract.tolerance.mode,
            rtol=contract.tolerance.rtol,
            atol=contract.tolerance.atol,
            k=contract.tolerance.k,
        ),
        "hardware": _present(device=contract.hardware.device, arch=contract.hardware.arch),
        "precision": list(contract.precision),
        "precision_forbidden": list(contract.precision_forbidden),
        "inputs": [_tensor_json(t) for t in contract.inputs],
        "outputs": [_tensor_json(t) for t in contract.outputs],
        "forbid": list(contract.forbid),
        "evidence": [{"field": e.field, "text": e.text, "span": list(e.span)} for e in contract.evidence],
    }
    if contract.max_streams is not None:
        out["max_streams"] = contract.max_streams
    if contract.questions:
        out["questions"] = [{"field": q.field, "text": q.text, "options": list(q.options)} for q in contract.questions]
    return out


def _tensor_json(tensor: TensorSpec) -> dict[str, Any]:
    shape = None if tensor.shape is None else list(tensor.shape)
    return _present(name=tensor.name, shape=shape, dtype=tensor.dtype)


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
