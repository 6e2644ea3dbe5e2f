#include "forward.h"

#include "blocks.h"
#include "cuda_check.h"

static void encoder_layer(const LayerWeights& layer, float* d_tokens) {
    std::vector<float> context = attention_block(layer, d_tokens);
    std::vector<float> attended = projection_block(layer, context, d_tokens);
    mlp_block(layer, attended, d_tokens);
}

std::vector<float> forward(const ModelWeights& weights, const std::vector<float>& image) {
    float* d_tokens = nullptr;
    CHECK(cudaMalloc(&d_tokens, TOKENS * DIM * sizeof(float)));

    embed_image(weights, image, d_tokens);
    for (int i = 0; i < LAYERS; ++i) {
        encoder_layer(weights.layers[i], d_tokens);
    }
    std::vector<float> logits = classify(weights, d_tokens);

    CHECK(cudaFree(d_tokens));
    return logits;
}
