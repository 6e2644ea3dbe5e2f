"""The truth about examples/vit_expert, read from its sources: four non-blocking streams, events, pinned copies, and a
CUDA graph that is captured once for each of two slots and launched for each image."""

from __future__ import annotations

from typing import Any

from tests.graph_truth.notation import DEFAULT, ROOT, Buffer, Node, Program, Stream
from tests.graph_truth.vit import (
    CLASSES,
    DIM,
    ELEMENTS,
    EMBED_WEIGHTS,
    FLOAT,
    HEAD_WEIGHTS,
    HEADS,
    IMAGE_VALUES,
    LAYER_WEIGHTS,
    MLP_DIM,
    PATCH_VALUES,
    PATCHES,
    TOKENS,
)

FILES = {
    "vit_expert/main.cu": "main",
    "vit_expert/weight_arena.cu": "create_weight_arena place_layer place destroy_weight_arena",
    "vit_expert/workspace.cu": "create_workspace allocate destroy_workspace create_streams destroy_streams",
    "vit_expert/slot.cu": "create_slot destroy_slot submit wait_for_logits",
    "vit_expert/forward.cu": "capture_forward embed_image attention_block projection_block mlp_block classify",
    "vit_expert/stream_ops.cu": "extract_patches assemble_tokens layernorm linear split_heads merge_heads attention gelu add",
    "vit/report.h": "print_result",
}
FUNCTIONS = {name: path for path, names in FILES.items() for name in names.split()}

LAYER_VALUES = 4 * (DIM * DIM + DIM) + 2 * DIM * MLP_DIM + MLP_DIM + DIM + 4 * DIM
WEIGHT_VALUES = PATCH_VALUES * DIM + DIM + DIM + TOKENS * DIM + 12 * LAYER_VALUES + 2 * DIM + DIM * CLASSES + CLASSES

WORKSPACE = {  # values of each buffer, in the order of the allocations
    "d_patches": PATCHES * PATCH_VALUES,
    "d_embedded": PATCHES * DIM,
    "d_tokens": TOKENS * DIM,
    "d_normed": TOKENS * DIM,
    "d_query": TOKENS * DIM,
    "d_query_heads": TOKENS * DIM,
    "d_key": TOKENS * DIM,
    "d_key_heads": TOKENS * DIM,
    "d_value": TOKENS * DIM,
    "d_value_heads": TOKENS * DIM,
    "d_scores": HEADS * TOKENS * TOKENS,
    "d_context_heads": TOKENS * DIM,
    "d_context": TOKENS * DIM,
    "d_projected": TOKENS * DIM,
    "d_attended": TOKENS * DIM,
    "d_expanded": TOKENS * MLP_DIM,
    "d_activated": TOKENS * MLP_DIM,
    "d_reduced": TOKENS * DIM,
}
STREAMS = ("compute", "key_branch", "value_branch", "copy")
EVENTS = ("normed_ready", "key_ready", "value_ready")


class Expert(Program):
    """`waited`: what the host last waited for. `tails`: the last operation of each stream; inside a capture, of the captured
    work only."""

    def __init__(self) -> None:
        super().__init__(ROOT / "examples", FUNCTIONS)
        self.waited: Node | None = None
        self.tails: dict[str, Node] = {}
        self.records: dict[str, Node] = {}
        self.captured = False
        self.streams: dict[str, Stream] = {}
        self.memory: dict[str, Buffer] = {}
        self.weights = Buffer("arena.d_values")

    def host(self, kind: str, api: str | None, at: str, **facts: Any) -> Node:
        return self.node(kind, api, at, after=[(self.waited, "host_wait")], **facts)

    def allocate(self, kind: str, api: str, at: str, buffer: Buffer, values: int) -> Buffer:
        buffer.allocation = self.host(kind, api, at, writes=[buffer], bytes=str(values * FLOAT))
        buffer.writers = []
        return buffer

    def release(self, kind: str, api: str, name: str) -> None:
        self.host(kind, api, f"{api}({name})", writes=[Buffer(name)])

    def on(
        self,
        stream: str,
        kind: str,
        api: str,
        at: str,
        recorded: Node | None = None,
        begin: Node | None = None,
        **facts: Any,
    ) -> Node:
        """Work of a stream: after the stream's last operation, after the record that it waits for, and, unless it is only
        captured, after what the host waited for. `begin`: the first captured operation follows the begin of the capture.
        Captured work uses memory when the graph is launched."""
        if self.tails.get(stream):
            after = [(self.tails[stream], "stream"), (recorded, "event")]
        elif recorded is not None:  # ordered after the host's wait through the record
            after = [(recorded, "event")]
        else:
            after = [(begin, "capture")] if begin is not None else [(self.waited, "host_wait")]
        made = self.node(kind, api, at, after=after, stream=self.streams[stream], allocates=not self.captured, **facts)
        self.tails[stream] = made
        return made

    def record(self, event: str, stream: str, owner: str = "streams") -> None:
        name = f"{owner}.{event}"
        self.records[event] = self.on(stream, "event_record", "cudaEventRecord", f"cudaEventRecord({name}", event=name)

    def wait(self, stream: str, event: str, owner: str = "streams") -> None:
        name = f"{owner}.{event}"
        at = f"cudaStreamWaitEvent(streams.{stream}, {name}"
        self.on(stream, "event_wait", "cudaStreamWaitEvent", at, self.records[event], event=name)


# --------------------------------------------------------------------------------------------------------- weight_arena.cu


def place(p: Expert, holder: str, field: str, host: str) -> None:
    with p.call("place", f"{holder}.{field} = place("):
        values = Buffer(f"{host}.{field}")
        before = p.tails.get("default")
        p.tails["default"] = p.node(
            "copy",
            "cudaMemcpy",
            "cudaMemcpy(d_values",
            after=[(before, "stream")],
            stream=DEFAULT,
            reads=[values],
            writes=[p.weights],
            part=True,  # each tensor has its place in the arena
            copy_kind="h2d",
            bytes=f"4*{values.name}.size()",
        )
        p.waited = before  # C1: staged, perhaps not there yet


def create_weight_arena(p: Expert) -> None:
    with p.call("create_weight_arena"):
        p.allocate("alloc", "cudaMalloc", "cudaMalloc(&arena.d_values", p.weights, WEIGHT_VALUES)
        for field in EMBED_WEIGHTS:
            place(p, "arena.weights", field, "host_weights")
        with p.loop("for (int i = 0; i < LAYERS; ++i)", "12"), p.call("place_layer"):
            for field in LAYER_WEIGHTS:
                place(p, "layer", field, "host_weights.layers[i]")
        for field in HEAD_WEIGHTS:
            place(p, "arena.weights", field, "host_weights")
        last = [(p.tails["default"], "host_wait")]
        p.waited = p.node("device_sync", "cudaDeviceSynchronize", "cudaDeviceSynchronize()", after=last)


# ------------------------------------------------------------------------------------------------------------ workspace.cu


def create_workspace(p: Expert) -> None:
    with p.call("create_workspace"):
        for name, values in WORKSPACE.items():
            with p.call("allocate", f"workspace.{name} = allocate("):
                p.memory[name] = Buffer(f"workspace.{name}")
                p.allocate("alloc", "cudaMalloc", "cudaMalloc(&d_values", p.memory[name], values)


def create_streams(p: Expert) -> None:
    with p.call("create_streams"):
        for name in STREAMS:
            at = f"cudaStreamCreateWithFlags(&streams.{name}, cudaStreamNonBlocking)"
            made = p.host("stream_create", "cudaStreamCreateWithFlags", at)
            line = int(made.facts["place"].rsplit(":", 1)[1])
            p.streams[name] = Stream(f"streams.{name}", line, "cudaStreamNonBlocking")
            made.facts |= {"stream": f"streams.{name}", "stream_line": line, "stream_flags": "cudaStreamNonBlocking"}
        for name in EVENTS:
            at = f"cudaEventCreateWithFlags(&streams.{name}"
            p.host("event_create", "cudaEventCreateWithFlags", at, event=f"streams.{name}")


def destroy_streams(p: Expert) -> None:
    with p.call("destroy_streams"):
        for name in EVENTS:
            p.host("event_destroy", "cudaEventDestroy", f"(streams.{name})", event=f"streams.{name}")
        for name in STREAMS:
            p.host("stream_destroy", "cudaStreamDestroy", f"(streams.{name})", stream=p.streams[name])


def destroy_workspace(p: Expert) -> None:
    with p.call("destroy_workspace"):
        for name in WORKSPACE:
            p.release("free", "cudaFree", f"workspace.{name}")


# ----------------------------------------------------------------------------------------------------------- stream_ops.cu


def launch(p: Expert, stream: str, kernel: str, shape: tuple[str, str], **memory: Any) -> None:
    grid, block = shape
    p.on(stream, "launch", "<<<>>>", f"{kernel}<<<", kernel=kernel, grid=grid, block=block, **memory)


def simple(p: Expert, function: str, shape: tuple[str, str], stream: str, reads: list[Buffer], writes: Buffer) -> None:
    """A function of stream_ops.cu that launches the kernel of its name."""
    with p.call(function):
        launch(p, stream, f"{function}_kernel", shape, reads=reads, writes=[writes])


def each_element(count: str) -> tuple[str, str]:
    return f"ceil_div({count}, ELEMENT_THREADS)", "ELEMENT_THREADS"


LINEAR = ("blocks", "threads")
NORM = ("rows", "REDUCE_THREADS")
HEADS_SHAPE = (ELEMENTS, "ELEMENT_THREADS")


def linear(p: Expert, source: str, target: str, stream: str = "compute") -> None:
    simple(p, "linear", LINEAR, stream, [p.memory[source], p.weights], p.memory[target])


def layernorm(p: Expert, source: str, target: str) -> None:
    simple(p, "layernorm", NORM, "compute", [p.memory[source], p.weights], p.memory[target])


def split_heads(p: Expert, source: str, stream: str) -> None:
    simple(p, "split_heads", HEADS_SHAPE, stream, [p.memory[source]], p.memory[f"{source}_heads"])


def add(p: Expert, left: str, right: str, target: str) -> None:
    simple(p, "add", each_element("count"), "compute", [p.memory[left], p.memory[right]], p.memory[target])


def attention(p: Expert) -> None:
    with p.call("attention"):
        query, key, value = (p.memory[f"d_{name}_heads"] for name in ("query", "key", "value"))
        scores, context = p.memory["d_scores"], p.memory["d_context_heads"]
        shape = ("score_blocks", "score_threads")
        launch(p, "compute", "attention_scores_kernel", shape, reads=[query, key], writes=[scores])
        launch(p, "compute", "softmax_kernel", ("HEADS * TOKENS", "REDUCE_THREADS"), updates=[scores])
        shape = ("context_blocks", "context_threads")
        launch(p, "compute", "attention_context_kernel", shape, reads=[scores, value], writes=[context])


# -------------------------------------------------------------------------------------------------------------- forward.cu


def embed_image(p: Expert, begin: Node, d_image: Buffer) -> None:
    with p.call("embed_image"):
        with p.call("extract_patches"):
            shape = each_element("IMAGE_VALUES")
            memory: dict[str, Any] = {"reads": [d_image], "writes": [p.memory["d_patches"]]}
            launch(p, "compute", "extract_patches_kernel", shape, begin=begin, **memory)
        linear(p, "d_patches", "d_embedded")
        reads = [p.memory["d_embedded"], p.weights]
        simple(p, "assemble_tokens", HEADS_SHAPE, "compute", reads, p.memory["d_tokens"])


def attention_block(p: Expert) -> None:
    with p.call("attention_block"):
        layernorm(p, "d_tokens", "d_normed")
        p.record("normed_ready", "compute")
        p.wait("key_branch", "normed_ready")
        p.wait("value_branch", "normed_ready")
        for name, stream in (("d_query", "compute"), ("d_key", "key_branch"), ("d_value", "value_branch")):
            linear(p, "d_normed", name, stream)
            split_heads(p, name, stream)
        p.record("key_ready", "key_branch")
        p.record("value_ready", "value_branch")
        p.wait("compute", "key_ready")
        p.wait("compute", "value_ready")
        attention(p)
        reads = [p.memory["d_context_heads"]]
        simple(p, "merge_heads", HEADS_SHAPE, "compute", reads, p.memory["d_context"])


def projection_block(p: Expert) -> None:
    with p.call("projection_block"):
        linear(p, "d_context", "d_projected")
        add(p, "d_tokens", "d_projected", "d_attended")


def mlp_block(p: Expert) -> None:
    with p.call("mlp_block"):
        layernorm(p, "d_attended", "d_normed")
        linear(p, "d_normed", "d_expanded")
        simple(p, "gelu", each_element("count"), "compute", [p.memory["d_expanded"]], p.memory["d_activated"])
        linear(p, "d_activated", "d_reduced")
        add(p, "d_attended", "d_reduced", "d_tokens")


def classify(p: Expert) -> None:
    with p.call("classify"):
        layernorm(p, "d_tokens", "d_normed")
        linear(p, "d_normed", "d_logits")


def capture_forward(p: Expert, d_image: Buffer) -> None:
    """Inside a capture nothing runs (G1): operations are ordered among themselves, values flow among them."""
    with p.call("capture_forward"):
        weights, p.weights = p.weights, Buffer(p.weights.name)
        compute = p.streams["compute"]
        begin = p.host("capture_begin", "cudaStreamBeginCapture", "cudaStreamBeginCapture(", stream=compute)
        p.tails, p.captured = {}, True
        embed_image(p, begin, d_image)
        with p.loop("for (int i = 0; i < LAYERS; ++i)", "12"):
            attention_block(p)
            projection_block(p)
            mlp_block(p)
        classify(p)
        # The other two streams were joined by the events that compute waited for.
        end = [(p.tails["compute"], "capture")]
        p.node("capture_end", "cudaStreamEndCapture", "cudaStreamEndCapture(", after=end, stream=compute)
        p.host("graph_instantiate", "cudaGraphInstantiate", "cudaGraphInstantiate(")
        p.tails, p.captured, p.weights = {}, False, weights
        for buffer in p.memory.values():
            buffer.writers = []


# ----------------------------------------------------------------------------------------------------- slot.cu and main.cu


def create_slot(p: Expert) -> None:
    with p.call("create_slot"):
        for name, values in (("h_image", IMAGE_VALUES), ("h_logits", CLASSES)):
            p.memory[name] = Buffer(f"slot.{name}")
            p.allocate("host_alloc", "cudaMallocHost", f"cudaMallocHost(&slot.{name}", p.memory[name], values)
        for name, values in (("d_image", IMAGE_VALUES), ("d_logits", CLASSES)):
            p.memory[name] = Buffer(f"slot.{name}")
            p.allocate("alloc", "cudaMalloc", f"cudaMalloc(&slot.{name}", p.memory[name], values)
        for name in ("image_copied", "logits_ready"):
            at = f"cudaEventCreateWithFlags(&slot.{name}"
            p.host("event_create", "cudaEventCreateWithFlags", at, event=f"slot.{name}")
        capture_forward(p, p.memory["d_image"])


def destroy_slot(p: Expert) -> None:
    with p.call("destroy_slot"):
        for name in ("image_copied", "logits_ready"):
            p.host("event_destroy", "cudaEventDestroy", f"(slot.{name})", event=f"slot.{name}")
        p.release("host_free", "cudaFreeHost", "slot.h_image")
        p.release("host_free", "cudaFreeHost", "slot.h_logits")
        p.release("free", "cudaFree", "slot.d_image")
        p.release("free", "cudaFree", "slot.d_logits")


def submit(p: Expert) -> None:
    with p.call("submit"):
        m = p.memory
        size = str(IMAGE_VALUES * FLOAT)
        up: dict[str, Any] = {"reads": [m["h_image"]], "writes": [m["d_image"]], "copy_kind": "h2d", "bytes": size}
        p.on("copy", "copy", "cudaMemcpyAsync", "cudaMemcpyAsync(slot.d_image", **up)
        p.record("image_copied", "copy", "slot")
        p.wait("compute", "image_copied", "slot")
        # The graph reads the image and the weights, and writes the logits; all other memory it writes before it reads it.
        updates = [m[name] for name in WORKSPACE]
        graph: dict[str, Any] = {"reads": [m["d_image"], p.weights], "writes": [m["d_logits"]], "updates": updates}
        p.on("compute", "graph_launch", "cudaGraphLaunch", "cudaGraphLaunch(slot.forward", **graph)
        down: dict[str, Any] = {
            "reads": [m["d_logits"]],
            "writes": [m["h_logits"]],
            "copy_kind": "d2h",
            "bytes": str(CLASSES * FLOAT),
        }
        p.on("compute", "copy", "cudaMemcpyAsync", "cudaMemcpyAsync(slot.h_logits", **down)
        p.record("logits_ready", "compute", "slot")


def vit_expert() -> Program:
    p = Expert()
    with p.inside("main"):
        create_weight_arena(p)
        create_workspace(p)
        create_streams(p)
        with p.loop("for (int s = 0; s < SLOTS; ++s)", "2"):
            create_slot(p)
        with p.loop("for (std::size_t i = 0; i <= paths.size(); ++i)", None):
            with p.branch("i < paths.size()"):
                # load_image does no GPU work: what it writes counts where it is called
                p.host("host_write", None, "load_image(paths[i], next.h_image)", writes=[p.memory["h_image"]])
                submit(p)
            with p.branch("i > 0"):
                with p.call("wait_for_logits"):  # of the round before
                    recorded = [(p.records["logits_ready"], "host_wait")]
                    at = "cudaEventSynchronize(slot.logits_ready)"
                    name = "slot.logits_ready"
                    p.waited = p.node("event_sync", "cudaEventSynchronize", at, after=recorded, event=name)
                with p.call("print_result"):
                    p.host("host_read", None, "std::max_element(", reads=[p.memory["h_logits"]])
        # There is an image, so that the host waited at least once.
        with p.loop("for (int s = 0; s < SLOTS; ++s)", "2"):
            destroy_slot(p)
        destroy_streams(p)
        destroy_workspace(p)
        with p.call("destroy_weight_arena"):
            p.release("free", "cudaFree", "arena.d_values")
    return p
