#include "blocks.h"

#include "cuda_check.h"
#include "ops.h"

void embed_image(const ModelWeights& weights, const std::vector<float>& image, float* d_tokens) {
    float* d_image = nullptr;
    float* d_patches = nullptr;
    float* d_embedded = nullptr;
    CHECK(cudaMalloc(&d_image, IMAGE_VALUES * sizeof(float)));
    CHECK(cudaMalloc(&d_patches, PATCHES * PATCH_VALUES * sizeof(float)));
    CHECK(cudaMalloc(&d_embedded, PATCHES * DIM * sizeof(float)));

    CHECK(cudaMemcpy(d_image, image.data(), IMAGE_VALUES * sizeof(float),
                     cudaMemcpyHostToDevice));
    extract_patches(d_image, d_patches);
    linear(d_patches, weights.patch_weight, weights.patch_bias, d_embedded, PATCHES,
           PATCH_VALUES, DIM);
    assemble_tokens(d_embedded, weights.class_token, weights.position, d_tokens);

    CHECK(cudaFree(d_image));
    CHECK(cudaFree(d_patches));
    CHECK(cudaFree(d_embedded));
}

std::vector<float> attention_block(const LayerWeights& layer, const float* d_tokens) {
    const int count = TOKENS * DIM;
    float* d_normed = nullptr;
    float* d_query = nullptr;
    float* d_key = nullptr;
    float* d_value = nullptr;
    float* d_context = nullptr;
    CHECK(cudaMalloc(&d_normed, count * sizeof(float)));
    CHECK(cudaMalloc(&d_query, count * sizeof(float)));
    CHECK(cudaMalloc(&d_key, count * sizeof(float)));
    CHECK(cudaMalloc(&d_value, count * sizeof(float)));
    CHECK(cudaMalloc(&d_context, count * sizeof(float)));

    layernorm(d_tokens, layer.norm1_gain, layer.norm1_bias, d_normed, TOKENS, DIM);
    linear(d_normed, layer.query_weight, layer.query_bias, d_query, TOKENS, DIM, DIM);
    linear(d_normed, layer.key_weight, layer.key_bias, d_key, TOKENS, DIM, DIM);
    linear(d_normed, layer.value_weight, layer.value_bias, d_value, TOKENS, DIM, DIM);
    attention(d_query, d_key, d_value, d_context);

    std::vector<float> context(count);
    CHECK(cudaMemcpy(context.data(), d_context, count * sizeof(float), cudaMemcpyDeviceToHost));

    CHECK(cudaFree(d_normed));
    CHECK(cudaFree(d_query));
    CHECK(cudaFree(d_key));
    CHECK(cudaFree(d_value));
    CHECK(cudaFree(d_context));
    return context;
}

std::vector<float> projection_block(const LayerWeights& layer, const std::vector<float>& context,
                                    const float* d_tokens) {
    const int count = TOKENS * DIM;
    float* d_context = nullptr;
    float* d_projected = nullptr;
    float* d_attended = nullptr;
    CHECK(cudaMalloc(&d_context, count * sizeof(float)));
    CHECK(cudaMalloc(&d_projected, count * sizeof(float)));
    CHECK(cudaMalloc(&d_attended, count * sizeof(float)));

    CHECK(cudaMemcpy(d_context, context.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    linear(d_context, layer.projection_weight, layer.projection_bias, d_projected, TOKENS, DIM,
           DIM);
    add(d_tokens, d_projected, d_attended, count);

    std::vector<float> attended(count);
    CHECK(cudaMemcpy(attended.data(), d_attended, count * sizeof(float),
                     cudaMemcpyDeviceToHost));

    CHECK(cudaFree(d_context));
    CHECK(cudaFree(d_projected));
    CHECK(cudaFree(d_attended));
    return attended;
}

void mlp_block(const LayerWeights& layer, const std::vector<float>& attended, float* d_tokens) {
    const int count = TOKENS * DIM;
    const int wide_count = TOKENS * MLP_DIM;
    float* d_attended = nullptr;
    float* d_normed = nullptr;
    float* d_expanded = nullptr;
    float* d_activated = nullptr;
    float* d_reduced = nullptr;
    CHECK(cudaMalloc(&d_attended, count * sizeof(float)));
    CHECK(cudaMalloc(&d_normed, count * sizeof(float)));
    CHECK(cudaMalloc(&d_expanded, wide_count * sizeof(float)));
    CHECK(cudaMalloc(&d_activated, wide_count * sizeof(float)));
    CHECK(cudaMalloc(&d_reduced, count * sizeof(float)));

    CHECK(cudaMemcpy(d_attended, attended.data(), count * sizeof(float),
                     cudaMemcpyHostToDevice));
    layernorm(d_attended, layer.norm2_gain, layer.norm2_bias, d_normed, TOKENS, DIM);
    linear(d_normed, layer.expand_weight, layer.expand_bias, d_expanded, TOKENS, DIM, MLP_DIM);
    gelu(d_expanded, d_activated, wide_count);
    linear(d_activated, layer.reduce_weight, layer.reduce_bias, d_reduced, TOKENS, MLP_DIM, DIM);
    add(d_attended, d_reduced, d_tokens, count);

    CHECK(cudaFree(d_attended));
    CHECK(cudaFree(d_normed));
    CHECK(cudaFree(d_expanded));
    CHECK(cudaFree(d_activated));
    CHECK(cudaFree(d_reduced));
}

std::vector<float> classify(const ModelWeights& weights, const float* d_tokens) {
    float* d_normed = nullptr;
    float* d_logits = nullptr;
    CHECK(cudaMalloc(&d_normed, DIM * sizeof(float)));
    CHECK(cudaMalloc(&d_logits, CLASSES * sizeof(float)));

    layernorm(d_tokens, weights.norm_gain, weights.norm_bias, d_normed, 1, DIM);
    linear(d_normed, weights.head_weight, weights.head_bias, d_logits, 1, DIM, CLASSES);

    std::vector<float> logits(CLASSES);
    CHECK(cudaMemcpy(logits.data(), d_logits, CLASSES * sizeof(float), cudaMemcpyDeviceToHost));

    CHECK(cudaFree(d_normed));
    CHECK(cudaFree(d_logits));
    return logits;
}
