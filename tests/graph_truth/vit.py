"""The truth about examples/vit, read from its sources: one stream (the default stream), and a wait after every launch."""

from __future__ import annotations

from tests.graph_truth.notation import DEFAULT, ROOT, Buffer, Node, Program

FILES = {
    "vit/main.cu": "main",
    "vit/device_weights.cu": "upload_weights upload_layer upload free_weights free_layer",
    "vit/forward.cu": "forward encoder_layer",
    "vit/blocks.cu": "embed_image attention_block projection_block mlp_block classify",
    "vit/ops.cu": "extract_patches assemble_tokens layernorm linear split_heads merge_heads attention gelu add",
    "vit/report.h": "print_result",
}
FUNCTIONS = {name: path for path, names in FILES.items() for name in names.split()}

TOKENS, DIM, MLP_DIM, HEADS, CLASSES = 197, 384, 1536, 6, 1000  # model.h
PATCHES, PATCH_VALUES, IMAGE_VALUES = 196, 768, 150528
FLOAT = 4

LAYER_WEIGHTS = (
    *("norm1_gain", "norm1_bias", "query_weight", "query_bias", "key_weight", "key_bias", "value_weight", "value_bias"),
    *("projection_weight", "projection_bias", "norm2_gain", "norm2_bias"),
    *("expand_weight", "expand_bias", "reduce_weight", "reduce_bias"),
)
EMBED_WEIGHTS = ("patch_weight", "patch_bias", "class_token", "position")
HEAD_WEIGHTS = ("norm_gain", "norm_bias", "head_weight", "head_bias")

Weights = dict[str, Buffer]


class Vit(Program):
    """All GPU work is one chain on the default stream. `tail` is its last link; `waited` is what the host knows to be
    complete: whatever it issues is ordered after that."""

    def __init__(self) -> None:
        super().__init__(ROOT / "examples", FUNCTIONS)
        self.tail: Node | None = None
        self.waited: Node | None = None

    def next_link(self) -> list[tuple[Node | None, str]]:
        """The host waited since the last operation, or the stream orders the two."""
        return [(self.tail, "host_wait" if self.tail and self.tail.facts["kind"] == "device_sync" else "stream")]

    def malloc(self, name: str, size: int | str, variable: str = "") -> Buffer:
        made = Buffer(name)
        made.allocation = self.node(
            "alloc",
            "cudaMalloc",
            f"cudaMalloc(&{variable or name},",
            after=[(self.waited, "host_wait")],
            writes=[made],
            bytes=str(size),
        )
        made.writers = []
        return made

    def free(self, pointer: str, name: str = "") -> None:
        """W8: a release may wait, but nothing is ordered by it."""
        freed = Buffer(name or pointer)
        self.node("free", "cudaFree", f"cudaFree({pointer})", after=[(self.waited, "host_wait")], writes=[freed])

    def copy(self, kind: str, at: str, source: Buffer, target: Buffer, size: int | str) -> None:
        before = self.tail
        self.tail = self.node(
            "copy",
            "cudaMemcpy",
            at,
            after=self.next_link(),
            stream=DEFAULT,
            reads=[source],
            writes=[target],
            copy_kind=kind,
            bytes=str(size),
        )
        # C3: a download is complete on return. C1: an upload from pageable memory waits for what precedes it and returns
        # when its source is staged; the copy itself may still be under way.
        self.waited = self.tail if kind == "d2h" else before

    def launch(
        self,
        kernel: str,
        grid: str,
        block: str,
        reads: list[Buffer],
        writes: list[Buffer],
        updates: list[Buffer] | None = None,
    ) -> None:
        """Every launch is followed by a wait for the device."""
        launched = self.node(
            "launch",
            "<<<>>>",
            f"{kernel}<<<",
            after=self.next_link(),
            stream=DEFAULT,
            kernel=kernel,
            grid=grid,
            block=block,
            reads=reads,
            writes=writes,
            updates=updates or [],
        )
        sync = self.node(
            "device_sync", "cudaDeviceSynchronize", "cudaDeviceSynchronize()", after=[(launched, "host_wait")]
        )
        self.tail = self.waited = sync


# ------------------------------------------------------------------------------------------------------ device_weights.cu


def upload(p: Vit, holder: str, field: str, host: str) -> Buffer:
    with p.call("upload", f"{holder}{field} = upload("):
        values = Buffer(f"{host}.{field}")
        size = f"4*{values.name}.size()"
        d_values = p.malloc(f"{holder}{field}", size, "d_values")
        p.copy("h2d", "cudaMemcpy(d_values", values, d_values, size)
        return d_values


def upload_weights(p: Vit) -> Weights:
    with p.call("upload_weights"):
        weights = {field: upload(p, "weights.", field, "host_weights") for field in EMBED_WEIGHTS}
        with p.loop("for (int i = 0; i < LAYERS; ++i)", "12"), p.call("upload_layer"):
            weights |= {field: upload(p, "layer.", field, "host_weights.layers[i]") for field in LAYER_WEIGHTS}
        return weights | {field: upload(p, "weights.", field, "host_weights") for field in HEAD_WEIGHTS}


def free_weights(p: Vit) -> None:
    with p.call("free_weights"):
        for field in EMBED_WEIGHTS:
            p.free(f"weights.{field}")
        with p.loop("for (int i = 0; i < LAYERS; ++i)", "12"), p.call("free_layer"):
            for field in LAYER_WEIGHTS:
                p.free(f"layer.{field}")
        for field in HEAD_WEIGHTS:
            p.free(f"weights.{field}")


# ------------------------------------------------------------------------------------------------------------------ ops.cu

ELEMENTS = "ceil_div(TOKENS * DIM, ELEMENT_THREADS)"


def extract_patches(p: Vit, d_image: Buffer, d_patches: Buffer) -> None:
    with p.call("extract_patches"):
        grid = "ceil_div(IMAGE_VALUES, ELEMENT_THREADS)"
        p.launch("extract_patches_kernel", grid, "ELEMENT_THREADS", [d_image], [d_patches])


def assemble_tokens(p: Vit, reads: list[Buffer], d_tokens: Buffer) -> None:
    with p.call("assemble_tokens"):
        p.launch("assemble_tokens_kernel", ELEMENTS, "ELEMENT_THREADS", reads, [d_tokens])


def layernorm(p: Vit, d_input: Buffer, d_gain: Buffer, d_bias: Buffer, d_output: Buffer) -> None:
    with p.call("layernorm"):
        p.launch("layernorm_kernel", "rows", "REDUCE_THREADS", [d_input, d_gain, d_bias], [d_output])


def linear(p: Vit, d_input: Buffer, d_weight: Buffer, d_bias: Buffer, d_output: Buffer) -> None:
    with p.call("linear"):
        p.launch("linear_kernel", "blocks", "threads", [d_input, d_weight, d_bias], [d_output])


def split_heads(p: Vit, d_tokens: Buffer, d_heads: Buffer) -> None:
    with p.call("split_heads"):
        p.launch("split_heads_kernel", ELEMENTS, "ELEMENT_THREADS", [d_tokens], [d_heads])


def merge_heads(p: Vit, d_heads: Buffer, d_tokens: Buffer) -> None:
    with p.call("merge_heads"):
        p.launch("merge_heads_kernel", ELEMENTS, "ELEMENT_THREADS", [d_heads], [d_tokens])


def gelu(p: Vit, d_input: Buffer, d_output: Buffer) -> None:
    with p.call("gelu"):
        p.launch("gelu_kernel", "ceil_div(count, ELEMENT_THREADS)", "ELEMENT_THREADS", [d_input], [d_output])


def add(p: Vit, d_left: Buffer, d_right: Buffer, d_output: Buffer) -> None:
    with p.call("add"):
        p.launch("add_kernel", "ceil_div(count, ELEMENT_THREADS)", "ELEMENT_THREADS", [d_left, d_right], [d_output])


def attention(p: Vit, d_query: Buffer, d_key: Buffer, d_value: Buffer, d_context: Buffer) -> None:
    with p.call("attention"):
        count = TOKENS * DIM * FLOAT
        d_query_heads = p.malloc("d_query_heads", count)
        d_key_heads = p.malloc("d_key_heads", count)
        d_value_heads = p.malloc("d_value_heads", count)
        d_scores = p.malloc("d_scores", HEADS * TOKENS * TOKENS * FLOAT)
        d_context_heads = p.malloc("d_context_heads", count)
        split_heads(p, d_query, d_query_heads)
        split_heads(p, d_key, d_key_heads)
        split_heads(p, d_value, d_value_heads)
        scores = "attention_scores_kernel"
        p.launch(scores, "score_blocks", "score_threads", [d_query_heads, d_key_heads], [d_scores])
        p.launch("softmax_kernel", "HEADS * TOKENS", "REDUCE_THREADS", [], [], [d_scores])
        context = "attention_context_kernel"
        p.launch(context, "context_blocks", "context_threads", [d_scores, d_value_heads], [d_context_heads])
        merge_heads(p, d_context_heads, d_context)
        for name in ("d_query_heads", "d_key_heads", "d_value_heads", "d_scores", "d_context_heads"):
            p.free(name)


# --------------------------------------------------------------------------------------------------------------- blocks.cu


def embed_image(p: Vit, weights: Weights, image: Buffer, d_tokens: Buffer) -> None:
    with p.call("embed_image"):
        d_image = p.malloc("d_image", IMAGE_VALUES * FLOAT)
        d_patches = p.malloc("d_patches", PATCHES * PATCH_VALUES * FLOAT)
        d_embedded = p.malloc("d_embedded", PATCHES * DIM * FLOAT)
        p.copy("h2d", "cudaMemcpy(d_image", image, d_image, IMAGE_VALUES * FLOAT)
        extract_patches(p, d_image, d_patches)
        linear(p, d_patches, weights["patch_weight"], weights["patch_bias"], d_embedded)
        assemble_tokens(p, [d_embedded, weights["class_token"], weights["position"]], d_tokens)
        for name in ("d_image", "d_patches", "d_embedded"):
            p.free(name)


def attention_block(p: Vit, layer: Weights, d_tokens: Buffer) -> Buffer:
    with p.call("attention_block"):
        count = TOKENS * DIM * FLOAT
        d_normed = p.malloc("d_normed", count)
        d_query = p.malloc("d_query", count)
        d_key = p.malloc("d_key", count)
        d_value = p.malloc("d_value", count)
        d_context = p.malloc("d_context", count)
        layernorm(p, d_tokens, layer["norm1_gain"], layer["norm1_bias"], d_normed)
        linear(p, d_normed, layer["query_weight"], layer["query_bias"], d_query)
        linear(p, d_normed, layer["key_weight"], layer["key_bias"], d_key)
        linear(p, d_normed, layer["value_weight"], layer["value_bias"], d_value)
        attention(p, d_query, d_key, d_value, d_context)
        context = Buffer("context")
        p.copy("d2h", "cudaMemcpy(context.data()", d_context, context, count)
        for name in ("d_normed", "d_query", "d_key", "d_value", "d_context"):
            p.free(name)
        return context


def projection_block(p: Vit, layer: Weights, context: Buffer, d_tokens: Buffer) -> Buffer:
    with p.call("projection_block"):
        count = TOKENS * DIM * FLOAT
        d_context = p.malloc("d_context", count)
        d_projected = p.malloc("d_projected", count)
        d_attended = p.malloc("d_attended", count)
        p.copy("h2d", "cudaMemcpy(d_context", context, d_context, count)
        linear(p, d_context, layer["projection_weight"], layer["projection_bias"], d_projected)
        add(p, d_tokens, d_projected, d_attended)
        attended = Buffer("attended")
        p.copy("d2h", "cudaMemcpy(attended.data()", d_attended, attended, count)
        for name in ("d_context", "d_projected", "d_attended"):
            p.free(name)
        return attended


def mlp_block(p: Vit, layer: Weights, attended: Buffer, d_tokens: Buffer) -> None:
    with p.call("mlp_block"):
        count, wide_count = TOKENS * DIM * FLOAT, TOKENS * MLP_DIM * FLOAT
        d_attended = p.malloc("d_attended", count)
        d_normed = p.malloc("d_normed", count)
        d_expanded = p.malloc("d_expanded", wide_count)
        d_activated = p.malloc("d_activated", wide_count)
        d_reduced = p.malloc("d_reduced", count)
        p.copy("h2d", "cudaMemcpy(d_attended", attended, d_attended, count)
        layernorm(p, d_attended, layer["norm2_gain"], layer["norm2_bias"], d_normed)
        linear(p, d_normed, layer["expand_weight"], layer["expand_bias"], d_expanded)
        gelu(p, d_expanded, d_activated)
        linear(p, d_activated, layer["reduce_weight"], layer["reduce_bias"], d_reduced)
        add(p, d_attended, d_reduced, d_tokens)
        for name in ("d_attended", "d_normed", "d_expanded", "d_activated", "d_reduced"):
            p.free(name)


def classify(p: Vit, weights: Weights, d_tokens: Buffer) -> Buffer:
    with p.call("classify"):
        d_normed = p.malloc("d_normed", DIM * FLOAT)
        d_logits = p.malloc("d_logits", CLASSES * FLOAT)
        layernorm(p, d_tokens, weights["norm_gain"], weights["norm_bias"], d_normed)
        linear(p, d_normed, weights["head_weight"], weights["head_bias"], d_logits)
        logits = Buffer("logits")
        p.copy("d2h", "cudaMemcpy(logits.data()", d_logits, logits, CLASSES * FLOAT)
        for name in ("d_normed", "d_logits"):
            p.free(name)
        return logits


# ------------------------------------------------------------------------------------------------- forward.cu and main.cu


def encoder_layer(p: Vit, layer: Weights, d_tokens: Buffer) -> None:
    with p.call("encoder_layer"):
        context = attention_block(p, layer, d_tokens)
        attended = projection_block(p, layer, context, d_tokens)
        mlp_block(p, layer, attended, d_tokens)


def forward(p: Vit, weights: Weights, image: Buffer) -> Buffer:
    with p.call("forward"):
        d_tokens = p.malloc("d_tokens", TOKENS * DIM * FLOAT)
        embed_image(p, weights, image, d_tokens)
        with p.loop("for (int i = 0; i < LAYERS; ++i)", "12"):
            encoder_layer(p, weights, d_tokens)
        logits = classify(p, weights, d_tokens)
        p.free("d_tokens")
        return logits


def vit() -> Program:
    p = Vit()
    with p.inside("main"):
        weights = upload_weights(p)
        with p.loop("for (std::size_t i = 0; i < paths.size(); ++i)", None):
            # `image` is filled before the GPU knows of it: no host_write
            logits = forward(p, weights, Buffer("image"))
            with p.call(
                "print_result"
            ):  # the read of `checked.push_back(logits)` follows directly and counts as this one
                p.node("host_read", None, "std::max_element(", after=[(p.waited, "host_wait")], reads=[logits])
        free_weights(p)
    return p
