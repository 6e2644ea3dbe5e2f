"""What a model may propose for the shipped example: fused kernels, other tiles, other blocks; and near misses of these."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stitchcuda.analysis.proof.model import Declared, May, ProofState
from stitchcuda.analysis.proof.prove import prove

from tests.pure.proof.test_vit import Texts, analysed, edit, pooled, proof_of, resident, vit_texts, without_waits

DECLARED = Declared(("model",), waits=May.ANY, copies=May.FEWER, allocations=May.ANY, device=May.ANY)
Change = Callable[[Texts], None]

LINEAR_GELU = """
__global__ void linear_gelu_kernel(const float* input, const float* weight, const float* bias,
                                   float* output, int rows, int inputs, int outputs) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y;
    if (row < rows && column < outputs) {
        float sum = 0.0f;
        for (int k = 0; k < inputs; ++k) {
            sum += input[row * inputs + k] * weight[k * outputs + column];
        }
        float x = sum + bias[column];
        output[row * outputs + column] = 0.5f * x * (1.0f + erff(x * 0.70710678f));
    }
}
"""
LINEAR_GELU_OP = """
void linear_gelu(const float* d_input, const float* d_weight, const float* d_bias, float* d_output,
                 int rows, int inputs, int outputs) {
    dim3 threads(128);
    dim3 blocks(ceil_div(outputs, 128), rows);
    linear_gelu_kernel<<<blocks, threads>>>(d_input, d_weight, d_bias, d_output, rows, inputs, outputs);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}
"""
ADD_NORM = """
__global__ void add_layernorm_kernel(const float* left, const float* right, float* total,
                                     const float* gain, const float* bias, float* output, int width) {
    const int first = blockIdx.x * width;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < width; i += REDUCE_THREADS) {
        float value = left[first + i] + right[first + i];
        total[first + i] = value;
        sum += value;
    }
    float mean = block_sum(sum) / width;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < width; i += REDUCE_THREADS) {
        float centred = left[first + i] + right[first + i] - mean;
        squares += centred * centred;
    }
    float scale = rsqrtf(block_sum(squares) / width + NORM_EPSILON);
    for (int i = threadIdx.x; i < width; i += REDUCE_THREADS) {
        output[first + i] = (left[first + i] + right[first + i] - mean) * scale * gain[i] + bias[i];
    }
}
"""
FLASH = """
__global__ void flash_attention_kernel(const float* query, const float* key, const float* value, float* context) {
    int row = blockIdx.x;
    int head = blockIdx.y;
    __shared__ float scores[TOKENS];
    for (int column = threadIdx.x; column < TOKENS; column += blockDim.x) {
        float sum = 0.0f;
        for (int k = 0; k < HEAD_DIM; ++k) {
            sum += query[row * DIM + head * HEAD_DIM + k] * key[column * DIM + head * HEAD_DIM + k];
        }
        scores[column] = sum * rsqrtf(static_cast<float>(HEAD_DIM));
    }
    __syncthreads();
    float largest = -INFINITY, total = 0.0f;
    for (int column = 0; column < TOKENS; ++column) largest = fmaxf(largest, scores[column]);
    for (int column = 0; column < TOKENS; ++column) total += expf(scores[column] - largest);
    if (threadIdx.x < HEAD_DIM) {
        float sum = 0.0f;
        for (int column = 0; column < TOKENS; ++column) {
            sum += expf(scores[column] - largest) / total * value[column * DIM + head * HEAD_DIM + threadIdx.x];
        }
        context[row * DIM + head * HEAD_DIM + threadIdx.x] = sum;
    }
}
"""
FLASH_LAUNCH = """\
    dim3 grid(TOKENS, HEADS);
    flash_attention_kernel<<<grid, 64>>>(d_query, d_key, d_value, d_context);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
"""
EXPAND = """\
    linear(d_normed, layer.expand_weight, layer.expand_bias, d_expanded, TOKENS, DIM, MLP_DIM);
    gelu(d_expanded, d_activated, wide_count);
"""


def declaration(definition: str) -> str:
    return definition[: definition.index("{")].rstrip() + ";\n"


def with_kernel(t: Texts, definition: str) -> None:
    t["kernels.cu"] += definition
    t["kernels.h"] += declaration(definition)


def fused_gelu(t: Texts) -> None:
    with_kernel(t, LINEAR_GELU)
    t["ops.cu"] += LINEAR_GELU_OP
    t["ops.h"] += declaration(LINEAR_GELU_OP)
    assert EXPAND in t["blocks.cu"]
    call = "    linear_gelu(d_normed, layer.expand_weight, layer.expand_bias, d_activated, TOKENS, DIM, MLP_DIM);\n"
    t["blocks.cu"] = t["blocks.cu"].replace(EXPAND, call)


def without_expanded(t: Texts) -> None:
    """Nothing needs what stood between the two kernels."""
    blocks = t["blocks.cu"].replace("    float* d_expanded = nullptr;\n", "")
    blocks = blocks.replace("    CHECK(cudaMalloc(&d_expanded, wide_count * sizeof(float)));\n", "")
    t["blocks.cu"] = blocks.replace("    CHECK(cudaFree(d_expanded));\n", "")


def fused_attention(t: Texts) -> None:
    """Seven launches become one, and their scratch memory goes."""
    with_kernel(t, FLASH)
    ops = t["ops.cu"]
    start = ops.index("    const int count = TOKENS * DIM;\n    float* d_query_heads")
    end = ops.index("}\n\nvoid gelu(")
    t["ops.cu"] = ops[:start] + FLASH_LAUNCH + ops[end:]


def fused_norm(t: Texts) -> None:
    """`add` and the `layernorm` behind it, where both stand in one function."""
    t["blocks.cu"] = t["blocks.cu"].replace(
        "    add(d_attended, d_reduced, d_tokens, count);\n",
        "    add(d_attended, d_reduced, d_tokens, count);\n"
        "    layernorm(d_tokens, layer.norm1_gain, layer.norm1_bias, d_normed, TOKENS, DIM);\n",
    )


def add_norm(t: Texts) -> None:
    t["kernels.cu"] += ADD_NORM
    t["kernels.h"] += declaration(ADD_NORM)
    blocks = t["blocks.cu"]
    old = blocks[blocks.index("    add(d_attended, d_reduced, d_tokens, count);\n") :]
    old = old[: old.index("d_normed, TOKENS, DIM);\n") + len("d_normed, TOKENS, DIM);\n")]
    t["blocks.cu"] = blocks.replace(
        old,
        "    add_layernorm_kernel<<<TOKENS, REDUCE_THREADS>>>(d_attended, d_reduced, d_tokens, layer.norm1_gain,\n"
        "                                                     layer.norm1_bias, d_normed, DIM);\n"
        "    CHECK(cudaGetLastError());\n    CHECK(cudaDeviceSynchronize());\n",
    ).replace('#include "cuda_check.h"\n', '#include "cuda_check.h"\n#include "kernels.h"\n')


@pytest.mark.parametrize(
    ("changes", "before", "after"),
    [
        ((fused_gelu,), ["linear_kernel", "gelu_kernel"], ["linear_gelu_kernel"]),
        ((fused_gelu, without_expanded), ["linear_kernel", "gelu_kernel"], ["linear_gelu_kernel"]),
        (
            (without_waits, pooled, resident, fused_gelu),
            ["linear_kernel", "gelu_kernel"],
            ["linear_gelu_kernel"],
        ),
        (
            (fused_attention,),
            [
                *["split_heads_kernel"] * 3,
                "attention_scores_kernel",
                "softmax_kernel",
                "attention_context_kernel",
                "merge_heads_kernel",
            ],
            ["flash_attention_kernel"],
        ),
        ((edit("kernels.h", "LINEAR_TILE_ROWS = 32", "LINEAR_TILE_ROWS = 64"),), ["linear_kernel"], ["linear_kernel"]),
        ((edit("kernels.h", "ELEMENT_THREADS = 256", "ELEMENT_THREADS = 512"),), ["gelu_kernel"], ["gelu_kernel"]),
    ],
    ids=["gelu", "gelu without scratch", "gelu over the rules' edits", "attention", "tiles", "threads"],
)
def test_what_a_model_may_propose_keeps_the_order(
    changes: tuple[Change, ...], before: list[str], after: list[str]
) -> None:
    proof = proof_of(*changes, declared=DECLARED)
    assert proof.state is ProofState.KEPT, proof.findings
    groups = proof.evidence["groups"]
    assert isinstance(groups, list)
    assert any((g["before"], g["after"]) == (before, after) for g in groups), groups


def test_an_addition_and_a_norm_become_one() -> None:
    """In a variant of the example in which they stand next to each other."""
    base: Texts = dict(vit_texts())
    fused_norm(base)
    texts = dict(base)
    add_norm(texts)
    proof = prove(analysed(base), analysed(texts), DECLARED)
    assert proof.state is ProofState.KEPT, proof.findings
    wrong = {**texts, "kernels.cu": texts["kernels.cu"].replace("        total[first + i] = value;\n", "")}
    missing = prove(analysed(base), analysed(wrong), DECLARED)
    assert missing.state is ProofState.FAILED and "`d_tokens` unwritten" in missing.reason


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ((fused_gelu, edit("blocks.cu", "d_activated, TOKENS, DIM, MLP_DIM", "d_expanded, TOKENS, DIM, MLP_DIM")), "d_activated"),
        ((fused_gelu, edit("ops.cu", "    CHECK(cudaGetLastError());\n    CHECK(cudaDeviceSynchronize());\n}\n\nvoid split", "}\n\nvoid split")), ""),
        ((fused_attention, edit("ops.cu", "d_value, d_context)", "d_context, d_value)")), "d_value"),
        ((fused_attention, edit("ops.cu", "(d_query, d_key,", "(d_context, d_key,")), "d_context"),
        ((edit("model.h", "LAYERS = 12", "LAYERS = 11"),), "`LAYERS`"),
        ((edit("model.h", "DIM = 384", "DIM = 192"),), ""),
        ((fused_gelu, edit("forward.cu", "i < LAYERS", "i < LAYERS - 1")), "control flow"),
        ((edit("kernels.cu", "output[index] = left[index] + right[index];", "output[index] += left[index];"),), "before it is written"),
        ((edit("kernels.cu", "            context[(head * TOKENS", "            if (false) context[(head * TOKENS"),), "d_context_heads"),
    ],
)  # fmt: skip
def test_near_misses(changes: tuple[Change, ...], what: str) -> None:
    proof = proof_of(*changes, declared=DECLARED)
    assert proof.state in (ProofState.FAILED, ProofState.UNTESTED)
    assert any(what in f.what for f in proof.findings), proof.findings
