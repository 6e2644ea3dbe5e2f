"""Words that the forms of the execution graph share."""

from __future__ import annotations

from collections.abc import Iterable

from stitchcuda.analysis.graph.model import LEGACY_LABEL, GraphNode

COPY_WORDS = {
    "h2d": "host to device",
    "d2h": "device to host",
    "d2d": "device to device",
    "h2h": "host to host",
    "peer": "device to device",
}
WORK = {  # what a stream carries: singular and plural
    "launch": ("launch", "launches"),
    "copy": ("copy", "copies"),
    "memset": ("memset", "memsets"),
    "library_call": ("library call", "library calls"),
    "graph_launch": ("CUDA graph launch", "CUDA graph launches"),
}
LISTED = {  # kinds of which neighbours are told together
    "alloc": "allocates {} in device memory",
    "host_alloc": "allocates {} in pinned host memory",
    "free": "frees {}",
    "host_free": "frees {}",
    "register": "pins {}",
    "unregister": "unpins {}",
    "stream_create": "creates {}",
    "stream_destroy": "destroys {}",
    "event_create": "creates {}",
    "event_destroy": "destroys {}",
}
MOST_NAMES = 6


def stream_words(label: str | None) -> str:
    return "the default stream" if label == LEGACY_LABEL else f"stream `{label}`" if label else "the host"


def names(listed: Iterable[str]) -> str:
    """Up to six names, or that they are not known."""
    told = few([f"`{name}`" for name in dict.fromkeys(listed)])
    return join(told) if told else "memory that is not known"


def few(listed: list[str]) -> list[str]:
    return [*listed[: MOST_NAMES - 1], f"{len(listed) - MOST_NAMES + 1} others"] if len(listed) > MOST_NAMES else listed


def join(words: Iterable[str]) -> str:
    listed = list(words)
    return listed[0] if len(listed) == 1 else ", ".join(listed[:-1]) + " and " + listed[-1] if listed else ""


def head(node: GraphNode) -> str:
    """What a box says first: the kernel with its shape, or the call."""
    if node.kernel:
        return f"{node.kernel}<<<{node.grid or '?'}, {node.block or '?'}>>>"
    text = node.api or node.kind.replace("_", " ")
    return f"{text} {node.event}" if node.event else text
