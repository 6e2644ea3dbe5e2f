#include "forward.h"

#include "cuda_check.h"
#include "stream_ops.h"

static void embed_image(const ModelWeights& weights, const Workspace& workspace,
                        const Streams& streams, const float* d_image) {
    extract_patches(d_image, workspace.d_patches, streams.compute);
    linear(workspace.d_patches, weights.patch_weight, weights.patch_bias, workspace.d_embedded,
           PATCHES, PATCH_VALUES, DIM, streams.compute);
    assemble_tokens(workspace.d_embedded, weights.class_token, weights.position,
                    workspace.d_tokens, streams.compute);
}

// From d_tokens to d_context. Query, key and value are computed side by side.
static void attention_block(const LayerWeights& layer, const Workspace& workspace,
                            const Streams& streams) {
    layernorm(workspace.d_tokens, layer.norm1_gain, layer.norm1_bias, workspace.d_normed, TOKENS,
              DIM, streams.compute);
    CHECK(cudaEventRecord(streams.normed_ready, streams.compute));
    CHECK(cudaStreamWaitEvent(streams.key_branch, streams.normed_ready, 0));
    CHECK(cudaStreamWaitEvent(streams.value_branch, streams.normed_ready, 0));

    linear(workspace.d_normed, layer.query_weight, layer.query_bias, workspace.d_query, TOKENS,
           DIM, DIM, streams.compute);
    split_heads(workspace.d_query, workspace.d_query_heads, streams.compute);
    linear(workspace.d_normed, layer.key_weight, layer.key_bias, workspace.d_key, TOKENS, DIM,
           DIM, streams.key_branch);
    split_heads(workspace.d_key, workspace.d_key_heads, streams.key_branch);
    linear(workspace.d_normed, layer.value_weight, layer.value_bias, workspace.d_value, TOKENS,
           DIM, DIM, streams.value_branch);
    split_heads(workspace.d_value, workspace.d_value_heads, streams.value_branch);

    CHECK(cudaEventRecord(streams.key_ready, streams.key_branch));
    CHECK(cudaEventRecord(streams.value_ready, streams.value_branch));
    CHECK(cudaStreamWaitEvent(streams.compute, streams.key_ready, 0));
    CHECK(cudaStreamWaitEvent(streams.compute, streams.value_ready, 0));

    attention(workspace.d_query_heads, workspace.d_key_heads, workspace.d_value_heads,
              workspace.d_scores, workspace.d_context_heads, streams.compute);
    merge_heads(workspace.d_context_heads, workspace.d_context, streams.compute);
}

// From d_context and d_tokens to d_attended.
static void projection_block(const LayerWeights& layer, const Workspace& workspace,
                             const Streams& streams) {
    linear(workspace.d_context, layer.projection_weight, layer.projection_bias,
           workspace.d_projected, TOKENS, DIM, DIM, streams.compute);
    add(workspace.d_tokens, workspace.d_projected, workspace.d_attended, TOKENS * DIM,
        streams.compute);
}

// From d_attended to d_tokens.
static void mlp_block(const LayerWeights& layer, const Workspace& workspace,
                      const Streams& streams) {
    layernorm(workspace.d_attended, layer.norm2_gain, layer.norm2_bias, workspace.d_normed,
              TOKENS, DIM, streams.compute);
    linear(workspace.d_normed, layer.expand_weight, layer.expand_bias, workspace.d_expanded,
           TOKENS, DIM, MLP_DIM, streams.compute);
    gelu(workspace.d_expanded, workspace.d_activated, TOKENS * MLP_DIM, streams.compute);
    linear(workspace.d_activated, layer.reduce_weight, layer.reduce_bias, workspace.d_reduced,
           TOKENS, MLP_DIM, DIM, streams.compute);
    add(workspace.d_attended, workspace.d_reduced, workspace.d_tokens, TOKENS * DIM,
        streams.compute);
}

static void classify(const ModelWeights& weights, const Workspace& workspace,
                     const Streams& streams, float* d_logits) {
    layernorm(workspace.d_tokens, weights.norm_gain, weights.norm_bias, workspace.d_normed, 1,
              DIM, streams.compute);
    linear(workspace.d_normed, weights.head_weight, weights.head_bias, d_logits, 1, DIM, CLASSES,
           streams.compute);
}

cudaGraphExec_t capture_forward(const ModelWeights& weights, const Workspace& workspace,
                                const Streams& streams, const float* d_image, float* d_logits) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(streams.compute, cudaStreamCaptureModeThreadLocal));
    embed_image(weights, workspace, streams, d_image);
    for (int i = 0; i < LAYERS; ++i) {
        attention_block(weights.layers[i], workspace, streams);
        projection_block(weights.layers[i], workspace, streams);
        mlp_block(weights.layers[i], workspace, streams);
    }
    classify(weights, workspace, streams, d_logits);
    CHECK(cudaStreamEndCapture(streams.compute, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphUpload(executable, streams.compute));
    return executable;
}
