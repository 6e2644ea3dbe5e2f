"""What the names of a Python file hold that PyTorch made."""

from __future__ import annotations

from collections.abc import Callable

from stitchcuda.analysis.program.cupy import torch_table
from stitchcuda.analysis.program.cupy.kinds import PLAIN, UNKNOWN, Kind
from stitchcuda.analysis.syntax.python import text_of
from tree_sitter import Node

CUDA = Kind("device", "cuda")
Ask = Callable[[Node], Kind]


def result(name: str, positional: list[Node], named: dict[str, Node], kind: Ask) -> Kind:
    """What a function of PyTorch gives back; `kind` tells of an expression."""
    last = name.rsplit(".", 1)[-1]
    match name:
        case (
            "torch.cuda.Stream"
            | "torch.cuda.current_stream"
            | "torch.cuda.default_stream"
            | "torch.cuda.ExternalStream"
        ):
            return Kind("stream")
        case "torch.cuda.stream":
            return Kind("stream")
        case "torch.cuda.Event":
            return Kind("event")
        case "torch.cuda.graph":
            return Kind("capture")
        case "torch.cuda.CUDAGraph":
            return Kind("graph")
        case "torch.device":
            return CUDA if positional and on_cuda(positional[0], kind) else PLAIN
    if name in torch_table.NEUTRAL:
        return PLAIN
    if name.startswith("torch.cuda."):
        return UNKNOWN
    if torch_table.is_module(name):
        return Kind("snippet")
    if name.startswith(("torch.utils.", "torch.distributed.", "torch.optim.", "torch.jit.", "torch.multiprocessing.")):
        return UNKNOWN
    if last in torch_table.OF_HOST:
        return kind(positional[0]) if positional else UNKNOWN
    if last in torch_table.FACTORIES:
        return _made(named, kind)
    if last in torch_table.LIKE and "device" in named:
        return _made(named, kind)
    given = [kind(a) for a in (*positional, *named.values())]
    if any(g.what == "array" or g == Kind("list", "array") for g in given):
        return Kind("array")
    if any(g.what in ("pinned", "host") for g in given):
        return Kind("host")
    return PLAIN if last[:1].islower() and _is_type(last) else UNKNOWN


def _made(named: dict[str, Node], kind: Ask) -> Kind:
    device = named.get("device")
    if device is not None and on_cuda(device, kind):
        return Kind("array")
    if device is not None and not on_host(device):
        return UNKNOWN
    pinned = named.get("pin_memory")
    return Kind("pinned") if pinned is not None and pinned.type == "true" else Kind("host")


def _is_type(last: str) -> bool:
    return last.rstrip("0123456789") in ("float", "int", "uint", "bfloat", "bool", "long", "half", "double", "complex")


def of_method(base: Kind, name: str, positional: list[Node], named: dict[str, Node], kind: Ask) -> Kind | None:
    """What a method of a tensor gives back; None: it is not one of those that only PyTorch has."""
    args = [*positional, *named.values()]
    if base.what == "":
        return Kind("array") if uploads(name, positional, named, kind) else None
    if base.what == "snippet":
        return base if name in torch_table.MODULE_ITSELF else UNKNOWN
    if name in torch_table.FACTS:
        return PLAIN
    if name in torch_table.VIEWS:
        return base
    if name == "cuda":
        return Kind("array")
    if name == "to":
        if any(on_cuda(a, kind) for a in args):
            return Kind("array")
        if any(on_host(a) for a in args):
            return Kind("host")
        devices = any(kind(a).what == "" and a.type in ("identifier", "attribute") for a in args)
        return UNKNOWN if devices and base.what != "array" else Kind(base.what)
    if name == "pin_memory":
        return Kind("pinned")
    if base.what == "array":
        if name in ("item", "tolist", "record_stream", "backward"):
            return PLAIN
        return Kind("host") if name in ("cpu", "numpy") else base if in_place(name) else None
    if name in ("cpu", "numpy") or in_place(name):
        return base
    return PLAIN if name in ("item", "tolist") else None


def uploads(name: str, positional: list[Node], named: dict[str, Node], kind: Ask) -> bool:
    """`x.to(device, non_blocking=True)` of something that comes from elsewhere, as a loader's batches do: a tensor."""
    later = named.get("non_blocking")
    if later is None or later.type != "true":
        return False
    return name == "cuda" or name == "to" and any(on_cuda(a, kind) for a in (*positional, *named.values()))


def in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def on_cuda(node: Node, kind: Ask) -> bool:
    """`"cuda"`, `torch.device("cuda:1")`, `x.device` of a tensor there, or a name for one of those."""
    if node.type == "string":
        return text_of(node).strip("rbfu\"'").startswith("cuda")
    if node.type == "conditional_expression":
        return any(on_cuda(c, kind) for c in (node.named_children[0], node.named_children[-1]))
    if node.type == "attribute":
        base = node.child_by_field_name("object")
        if text_of(node.child_by_field_name("attribute") or node) == "device" and base is not None:
            return kind(base).what == "array" or kind(node) == CUDA
    return kind(node) == CUDA


def on_host(node: Node) -> bool:
    return node.type == "string" and text_of(node).strip("rbfu\"'") == "cpu"
