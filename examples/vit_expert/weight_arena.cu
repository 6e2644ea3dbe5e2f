#include "weight_arena.h"

#include <cstddef>

#include "cuda_check.h"

// Every tensor but the last is a multiple of 64 values, so each one starts aligned to 256 bytes.
static_assert(DIM % 64 == 0 && MLP_DIM % 64 == 0, "tensors must stay aligned");

constexpr std::size_t LAYER_WEIGHT_VALUES =
    4 * (DIM * DIM + DIM) + 2 * DIM * MLP_DIM + MLP_DIM + DIM + 4 * DIM;
constexpr std::size_t WEIGHT_VALUES = (PATCH_VALUES * DIM + DIM) + DIM + TOKENS * DIM +
                                      LAYERS * LAYER_WEIGHT_VALUES + 2 * DIM +
                                      (DIM * CLASSES + CLASSES);

// Copies one tensor to the next free place and moves on.
static float* place(float*& d_next, const std::vector<float>& values) {
    float* d_values = d_next;
    CHECK(cudaMemcpy(d_values, values.data(), values.size() * sizeof(float),
                     cudaMemcpyHostToDevice));
    d_next += values.size();
    return d_values;
}

static LayerWeights place_layer(float*& d_next, const HostLayerWeights& host) {
    LayerWeights layer;
    layer.norm1_gain = place(d_next, host.norm1_gain);
    layer.norm1_bias = place(d_next, host.norm1_bias);
    layer.query_weight = place(d_next, host.query_weight);
    layer.query_bias = place(d_next, host.query_bias);
    layer.key_weight = place(d_next, host.key_weight);
    layer.key_bias = place(d_next, host.key_bias);
    layer.value_weight = place(d_next, host.value_weight);
    layer.value_bias = place(d_next, host.value_bias);
    layer.projection_weight = place(d_next, host.projection_weight);
    layer.projection_bias = place(d_next, host.projection_bias);
    layer.norm2_gain = place(d_next, host.norm2_gain);
    layer.norm2_bias = place(d_next, host.norm2_bias);
    layer.expand_weight = place(d_next, host.expand_weight);
    layer.expand_bias = place(d_next, host.expand_bias);
    layer.reduce_weight = place(d_next, host.reduce_weight);
    layer.reduce_bias = place(d_next, host.reduce_bias);
    return layer;
}

WeightArena create_weight_arena(const HostWeights& host) {
    WeightArena arena;
    CHECK(cudaMalloc(&arena.d_values, WEIGHT_VALUES * sizeof(float)));
    float* d_next = arena.d_values;
    arena.weights.patch_weight = place(d_next, host.patch_weight);
    arena.weights.patch_bias = place(d_next, host.patch_bias);
    arena.weights.class_token = place(d_next, host.class_token);
    arena.weights.position = place(d_next, host.position);
    for (int i = 0; i < LAYERS; ++i) {
        arena.weights.layers[i] = place_layer(d_next, host.layers[i]);
    }
    arena.weights.norm_gain = place(d_next, host.norm_gain);
    arena.weights.norm_bias = place(d_next, host.norm_bias);
    arena.weights.head_weight = place(d_next, host.head_weight);
    arena.weights.head_bias = place(d_next, host.head_bias);
    // A copy from pageable memory may return before its last bytes have reached the device,
    // and the streams that read the weights do not wait for the default stream.
    CHECK(cudaDeviceSynchronize());
    return arena;
}

void destroy_weight_arena(WeightArena& arena) {
    CHECK(cudaFree(arena.d_values));
}
