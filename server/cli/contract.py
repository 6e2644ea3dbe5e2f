"""`stitchcuda contract TEXT`: what a request asks for, as the deterministic reader understands it, with what it must ask back."""

from __future__ import annotations

import argparse
import json
import sys

from stitchcuda.analysis.contract.intent import parse_intent
from stitchcuda.analysis.contract.types import Contract, TensorSpec, Tolerance, contract_to_json
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.report.verdicts import unit_text

LONGEST = 20_000  # characters: a request, not a document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "text", nargs="+", metavar="TEXT", help="the request, in English or Chinese; - reads it from stdin"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    """0, also when there are questions; 2 when there is no text."""
    text = _stdin() if arguments.text == ["-"] else " ".join(arguments.text)
    if not text.strip():
        raise CannotRun('the request is empty; say what is wanted, as in: stitchcuda contract "p99 latency under 8 ms"')
    if len(text) > LONGEST:
        raise CannotRun(f"the request has {len(text)} characters; at most {LONGEST} are read")
    contract = parse_intent(text)
    if arguments.format == "json":
        print(json.dumps(contract_to_json(contract), indent=2, ensure_ascii=not _speaks_unicode()))
    else:
        print("\n".join(_lines(contract)))
    if not contract.evidence and not contract.questions:
        print("nothing in these words was read as a request (docs/command-line.md says what is)", file=sys.stderr)
    return 0


def _stdin() -> str:
    if sys.stdin is None:
        raise CannotRun("there is no standard input to read the request from")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CannotRun("standard input is not UTF-8") from None
    except OSError as error:
        raise CannotRun(f"standard input cannot be read ({error.strerror})") from None


def _speaks_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def _lines(contract: Contract) -> list[str]:
    """A field a line, with the words it was read from; then the questions."""
    rows = [("task", contract.task)] if contract.task else []
    rows += [(f"scope[{k}]", name) for k, name in enumerate(contract.scope)]
    rows += [
        (f"bounds[{k}]", f"{b.metric} {b.statistic} {b.relation} {b.value:.12g}{unit_text(b.unit)}")
        for k, b in enumerate(contract.bounds)
    ]
    words = {evidence.field: evidence.text for evidence in contract.evidence}
    default = "" if "tolerance" in words else "    (unless something else is said)"
    rows.append(("tolerance", _tolerance(contract.tolerance) + default))
    device = " ".join(part for part in (contract.hardware.device, contract.hardware.arch) if part)
    rows += [("hardware", device)] if device else []
    for name in ("precision", "precision_forbidden", "forbid"):
        rows += [(f"{name}[{k}]", value) for k, value in enumerate(getattr(contract, name))]
    for name, tensors in (("inputs", contract.inputs), ("outputs", contract.outputs)):
        rows += [(f"{name}[{k}]", _tensor(tensor)) for k, tensor in enumerate(tensors)]
    rows += [("max_streams", str(contract.max_streams))] if contract.max_streams is not None else []
    width = max(len(name) for name, _ in rows)
    out = [
        f"{name:<{width}}  {value}" + (f'    "{words[name]}"' if name in words and name != "task" else "")
        for name, value in rows
    ]
    for question in contract.questions:
        options = f" ({' | '.join(question.options)})" if question.options else ""
        out.append(f"? {question.field}: {question.text}{options}")
    return out


def _tolerance(tolerance: Tolerance) -> str:
    parameter = next((p for p in (tolerance.rtol, tolerance.atol, tolerance.k) if p is not None), None)
    return tolerance.mode if parameter is None else f"{tolerance.mode} {parameter:g}"


def _tensor(tensor: TensorSpec) -> str:
    shape = "" if tensor.shape is None else f" [{', '.join(map(str, tensor.shape))}]"
    return f"{tensor.name}{shape}" + (f" {tensor.dtype}" if tensor.dtype else "")
