"""Reads from a request what the deterministic parser left open: contract fields, each with its words.

The model adds; it never changes. A field counts only when its words stand in the request and its numbers stand in its words; what
the parser set or asked stays as the parser left it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from stitchcuda.agent.model.messages import Ask, Message, Reply, Speaker
from stitchcuda.agent.roles import telling
from stitchcuda.agent.roles.answers import AnchoredFields, Malformed
from stitchcuda.agent.roles.blocks import block, cut
from stitchcuda.agent.roles.reading import read_reply
from stitchcuda.agent.roles.templates import Templates
from stitchcuda.analysis.contract.intent.numbers import find_numbers
from stitchcuda.analysis.contract.intent.quantities import Quantity, find_quantities
from stitchcuda.analysis.contract.intent.reading import Reading, one_spelling
from stitchcuda.analysis.contract.intent.restrictions import IDS
from stitchcuda.analysis.contract.jsonread import Reader, SchemaError, text
from stitchcuda.analysis.contract.types import (
    METRIC_UNITS,
    PRECISIONS,
    RELATIONS,
    STATISTICS,
    TOLERANCE_MODES,
    Contract,
    Evidence,
    Question,
    contract_from_json,
    contract_to_json,
)

ROLE = "anchor"
MOST_ADDED = 20
MOST_QUESTIONS = 5
LISTS = ("scope", "bounds", "precision", "precision_forbidden", "inputs", "outputs", "forbid")
SINGLE = ("task", "tolerance", "hardware", "max_streams")
_CLOSED = ("scope", "precision")  # lists that mean something as a whole: another entry would change what was read
_DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "latency": ("time", "rate", "times"),
    "throughput": ("rate", "times", "time"),
    "speedup": ("times", "percent", "none"),
    "device_memory": ("bytes",),
    "transfer_bytes": ("bytes",),
    "memory_bandwidth_utilization": ("percent", "none"),
    "occupancy": ("percent", "none"),
}
_PRECISION_WORDS: Mapping[str, tuple[str, ...]] = {
    "fp64": ("fp64", "double", "float64", "双精度"),
    "fp32": ("fp32", "single", "float32", "float", "full precision", "单精度"),
    "tf32": ("tf32",),
    "fp16": ("fp16", "half", "float16", "半精度"),
    "bf16": ("bf16", "bfloat"),
    "fp8": ("fp8", "e4m3", "e5m2"),
    "int8": ("int8", "8-bit", "8 bit"),
}
_WORDS = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "added": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "field": {"type": "string", "enum": [*LISTS, *SINGLE]},
                    "value": {"type": "string"},
                    "words": _WORDS,
                },
                "required": ["field", "value", "words"],
                "additionalProperties": False,
            },
        },
        "questions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "field": {"type": "string", "enum": [*LISTS, *SINGLE]},
                    "text": {"type": "string"},
                    "options": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["field", "text", "options"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["added", "questions"],
    "additionalProperties": False,
}
FORM = f"""{{"added": [{{"field": "bounds", "value": "...", "words": "the words of the request"}}],
 "questions": [{{"field": "tolerance", "text": "what is open", "options": ["one reading", "another"]}}]}}
`value` is JSON text for one entry of the field:
- task: "a few of the request's own words"
- scope: "the name of a function"
- bounds: {{"metric": {"|".join(METRIC_UNITS)}, "statistic": {"|".join(STATISTICS)}, "relation": {"|".join(RELATIONS)}, "value": 0.008, "unit": "s"}}
- tolerance: {{"mode": {"|".join(TOLERANCE_MODES)}, "rtol": 1e-3}} (atol, k for their modes)
- hardware: {{"device": "H100", "arch": "sm_90"}}
- precision, precision_forbidden: one of {"|".join(PRECISIONS)}
- inputs, outputs: {{"name": "x", "shape": [8, 3], "dtype": "float32"}}
- forbid: one of {"|".join(IDS)}
- max_streams: a number"""


def ask(request: str, contract: Contract, templates: Templates, functions: Sequence[str] = ()) -> Ask:
    """Asks about `request`, of which the parser made `contract`. `functions` are names that a scope may hold."""
    system, user = templates.fill(
        ROLE,
        {
            "form": FORM,
            "request": block("request", request),
            "contract": telling.contract_block(contract),
            "functions": block("functions", cut("\n".join(functions), 8_000)) if functions else "none are known",
        },
    )
    return Ask(ROLE, templates.label(ROLE), (Message(Speaker.SYSTEM, system), Message(Speaker.USER, user)), SCHEMA)


def read(reply: Reply, request: str, contract: Contract, functions: Sequence[str] = ()) -> AnchoredFields | Malformed:
    """The parser's contract with the fields that the model added: a field that the parser set is never changed."""

    def fields(value: object) -> AnchoredFields:
        reader = Reader(value, "", ("added", "questions"))
        adding = _Adding(request, contract, functions)
        reader.items("added", adding.add)
        if len(adding.added) > MOST_ADDED:
            raise SchemaError("added", len(adding.added), f"at most {MOST_ADDED} fields")
        asked = reader.items("questions", _question, ())
        if len(asked) > MOST_QUESTIONS:
            raise SchemaError("questions", len(asked), f"at most {MOST_QUESTIONS}")
        for k, question in enumerate(asked):
            if any(e.field.partition("[")[0] == question.field for e in adding.added):
                raise SchemaError(f"questions[{k}].field", question.field, "a field that is not also added")
        known = {(q.field, q.text) for q in contract.questions}
        questions = tuple(q for q in asked if (q.field, q.text) not in known)
        return adding.done(questions)

    return read_reply(reply, fields)


def _question(value: object, at: str) -> Question:
    reader = Reader(value, at, ("field", "text", "options"))
    field = reader.choice("field", (*LISTS, *SINGLE))
    words, options = reader.text("text"), reader.items("options", text, ())
    if not words.strip() or len(words) > 400:
        raise SchemaError(reader.path("text"), words, "a question of 1 to 400 characters")
    if len(options) > 8 or any(not o.strip() or len(o) > 100 for o in options):
        raise SchemaError(reader.path("options"), list(options), "at most 8 readings of 1 to 100 characters")
    return Question(field, words, options)


class _Adding:
    """The contract as it grows. What the parser set is in `before`."""

    def __init__(self, request: str, contract: Contract, functions: Sequence[str]) -> None:
        self.request, self.before, self.functions = request, contract, functions
        self.fields = contract_to_json(contract)
        self.set = {e.field.partition("[")[0] for e in contract.evidence} | {
            n for n in (*LISTS, "task") if self.fields[n]
        }
        self.set |= {"tolerance"} if contract.tolerance.mode != "bitwise" else set()
        self.set |= {"hardware"} if self.fields["hardware"] else set()
        self.set |= {"max_streams"} if contract.max_streams is not None else set()
        self.asked = {q.field.partition("[")[0] for q in contract.questions}
        self.added: list[Evidence] = []

    def add(self, value: object, at: str) -> None:
        reader = Reader(value, at, ("field", "value", "words"))
        name = reader.choice("field", (*LISTS, *SINGLE))
        where, entry = reader.path("value"), _entry(reader)
        words = reader.text("words")
        start = self.request.find(words)
        if start < 0 or not words.strip():
            raise SchemaError(reader.path("words"), words, "words that stand in the request exactly so")
        span = (start, start + len(words))
        if name in self.asked:
            raise SchemaError(
                reader.path("field"), name, "a field that the parser did not ask about: its question stays open"
            )
        if name in self.set and (name in SINGLE or name in _CLOSED):
            raise SchemaError(reader.path("field"), name, "a field that is not set already")
        _check_words(name, entry, words, where, self.functions)
        self._check_numbers(name, entry, words, span, where)
        self._check_new(name, entry, where)
        if name in SINGLE:
            if any(e.field == name for e in self.added):
                raise SchemaError(reader.path("field"), name, "each of these fields once")
            self.fields[name] = entry
            field = name
        else:
            field = f"{name}[{len(self.fields[name])}]"
            self.fields[name].append(entry)
        contract_from_json(self.fields)  # names field and value of what is wrong with it
        self.added.append(Evidence(field, words, span))

    def done(self, questions: tuple[Question, ...]) -> AnchoredFields:
        made = contract_from_json(self.fields)
        evidence = tuple(sorted((*self.before.evidence, *self.added), key=lambda e: (e.span, e.field)))
        fields = {name: getattr(made, name) for name in (*LISTS, *SINGLE)}
        contract = Contract(**fields, evidence=evidence, questions=(*self.before.questions, *questions))
        return AnchoredFields(contract, tuple(self.added), questions)

    def _check_numbers(self, name: str, entry: Any, words: str, span: tuple[int, int], where: str) -> None:
        """Every number of the value is one of its words', and these words have not been read as something else."""
        numbers = [n for n in _numbers(entry) if name in ("bounds", "tolerance", "max_streams", "inputs", "outputs")]
        if not numbers:
            return
        for known in self.before.evidence:
            if known.span[0] < span[1] and span[0] < known.span[1] and find_numbers(one_spelling(known.text)):
                raise SchemaError(where, entry, f"other words: {known.text!r} was read as {known.field}")
        spoken = find_quantities(Reading(words, one_spelling(words)))
        metric = entry.get("metric", "") if isinstance(entry, dict) else ""
        for number in numbers:
            if not any(_means(Decimal(repr(number)), quantity, name, metric) for quantity in spoken):
                raise SchemaError(where, number, f"a number with the unit that the words {words!r} say")

    def _check_new(self, name: str, entry: Any, where: str) -> None:
        if name == "bounds" and isinstance(entry, dict):
            default = "max" if entry.get("metric") == "device_memory" else "mean"
            key = (entry.get("metric"), entry.get("statistic", default))
            if key in {(b["metric"], b["statistic"]) for b in self.fields["bounds"] if "statistic" in b}:
                raise SchemaError(where, entry, f"a bound on something else: {key[0]} has one already")
        elif name in ("inputs", "outputs") and isinstance(entry, dict):
            if entry.get("name") in {t["name"] for t in (*self.fields["inputs"], *self.fields["outputs"])}:
                raise SchemaError(where, entry.get("name"), "a tensor that the contract does not have")
        elif name in LISTS and entry in self.fields[name]:
            raise SchemaError(where, entry, "an entry that the contract does not have")
        elif name == "precision" and entry in self.fields["precision_forbidden"]:
            raise SchemaError(where, entry, "a precision that is not forbidden")


def _entry(reader: Reader) -> Any:
    """The value: JSON text, where a word alone may stand without its quotes."""
    value = reader.text("value")
    if len(value) > 2_000:
        raise SchemaError(reader.path("value"), value, "at most 2000 characters")
    try:
        return json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        if value.strip()[:1] in ("{", "[", '"'):
            raise SchemaError(reader.path("value"), value, "JSON text") from None
        return value.strip()


def _refuse(word: str) -> None:
    raise ValueError(word)


def _check_words(name: str, entry: Any, words: str, where: str, functions: Collection[str]) -> None:
    """Values that are words of the request themselves stand in their own words."""
    said = words.casefold()
    if name == "task" and (not isinstance(entry, str) or entry.casefold() not in said):
        raise SchemaError(where, entry, f"some of the words {words!r}")
    if name == "forbid" and entry not in IDS:
        raise SchemaError(where, entry, f"one of {', '.join(IDS)}")
    if name == "scope":
        if entry not in functions:
            raise SchemaError(where, entry, "a function of the program")
        if str(entry).rpartition("::")[2].casefold() not in said:
            raise SchemaError(where, entry, f"a function that the words {words!r} name")
    if name == "hardware" and isinstance(entry, dict):
        for key, value in entry.items():
            if isinstance(value, str) and value.casefold() not in said:
                raise SchemaError(f"{where}.{key}", value, f"hardware that the words {words!r} name")
    if name in ("precision", "precision_forbidden"):
        known = _PRECISION_WORDS.get(entry, ()) if isinstance(entry, str) else ()
        if not any(word in said for word in known):
            raise SchemaError(where, entry, f"a precision that the words {words!r} name")
    if name in ("inputs", "outputs") and isinstance(entry, dict) and str(entry.get("name", "")).casefold() not in said:
        raise SchemaError(where, entry.get("name"), f"a name that stands in the words {words!r}")


def _numbers(entry: Any) -> list[float]:
    if isinstance(entry, bool):
        return []
    if isinstance(entry, int | float):
        return [entry]
    if isinstance(entry, dict):
        return [n for key, value in entry.items() if key not in ("name", "dtype") for n in _numbers(value)]
    return [n for value in entry for n in _numbers(value)] if isinstance(entry, list) else []


def _means(value: Decimal, said: Quantity, name: str, metric: str) -> bool:
    """Whether a value of the contract is what the words say, in SI units; a rate may be told by its time, a gain as a share."""
    if said.doubt:
        return False
    number, dimension = said.value, said.dimension
    candidates = [number]
    if name == "bounds":
        if dimension not in _DIMENSIONS[metric]:
            return False
        if (metric, dimension) in (("latency", "rate"), ("latency", "times"), ("throughput", "time")) and number:
            candidates = [1 / number]
        elif metric == "speedup" and dimension == "percent":
            candidates = [1 + number, *([1 / (1 - number)] if number < 1 else [])]
    elif name == "tolerance" and dimension not in ("none", "percent", "other"):
        return False
    return any(abs(value - c) <= abs(c) * Decimal("1e-3") for c in candidates)
