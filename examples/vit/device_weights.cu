#include "device_weights.h"

#include "cuda_check.h"

static float* upload(const std::vector<float>& values) {
    float* d_values = nullptr;
    CHECK(cudaMalloc(&d_values, values.size() * sizeof(float)));
    CHECK(cudaMemcpy(d_values, values.data(), values.size() * sizeof(float),
                     cudaMemcpyHostToDevice));
    return d_values;
}

static LayerWeights upload_layer(const HostLayerWeights& host) {
    LayerWeights layer;
    layer.norm1_gain = upload(host.norm1_gain);
    layer.norm1_bias = upload(host.norm1_bias);
    layer.query_weight = upload(host.query_weight);
    layer.query_bias = upload(host.query_bias);
    layer.key_weight = upload(host.key_weight);
    layer.key_bias = upload(host.key_bias);
    layer.value_weight = upload(host.value_weight);
    layer.value_bias = upload(host.value_bias);
    layer.projection_weight = upload(host.projection_weight);
    layer.projection_bias = upload(host.projection_bias);
    layer.norm2_gain = upload(host.norm2_gain);
    layer.norm2_bias = upload(host.norm2_bias);
    layer.expand_weight = upload(host.expand_weight);
    layer.expand_bias = upload(host.expand_bias);
    layer.reduce_weight = upload(host.reduce_weight);
    layer.reduce_bias = upload(host.reduce_bias);
    return layer;
}

static void free_layer(LayerWeights& layer) {
    CHECK(cudaFree(layer.norm1_gain));
    CHECK(cudaFree(layer.norm1_bias));
    CHECK(cudaFree(layer.query_weight));
    CHECK(cudaFree(layer.query_bias));
    CHECK(cudaFree(layer.key_weight));
    CHECK(cudaFree(layer.key_bias));
    CHECK(cudaFree(layer.value_weight));
    CHECK(cudaFree(layer.value_bias));
    CHECK(cudaFree(layer.projection_weight));
    CHECK(cudaFree(layer.projection_bias));
    CHECK(cudaFree(layer.norm2_gain));
    CHECK(cudaFree(layer.norm2_bias));
    CHECK(cudaFree(layer.expand_weight));
    CHECK(cudaFree(layer.expand_bias));
    CHECK(cudaFree(layer.reduce_weight));
    CHECK(cudaFree(layer.reduce_bias));
}

ModelWeights upload_weights(const HostWeights& host) {
    ModelWeights weights;
    weights.patch_weight = upload(host.patch_weight);
    weights.patch_bias = upload(host.patch_bias);
    weights.class_token = upload(host.class_token);
    weights.position = upload(host.position);
    for (int i = 0; i < LAYERS; ++i) {
        weights.layers[i] = upload_layer(host.layers[i]);
    }
    weights.norm_gain = upload(host.norm_gain);
    weights.norm_bias = upload(host.norm_bias);
    weights.head_weight = upload(host.head_weight);
    weights.head_bias = upload(host.head_bias);
    return weights;
}

void free_weights(ModelWeights& weights) {
    CHECK(cudaFree(weights.patch_weight));
    CHECK(cudaFree(weights.patch_bias));
    CHECK(cudaFree(weights.class_token));
    CHECK(cudaFree(weights.position));
    for (int i = 0; i < LAYERS; ++i) {
        free_layer(weights.layers[i]);
    }
    CHECK(cudaFree(weights.norm_gain));
    CHECK(cudaFree(weights.norm_bias));
    CHECK(cudaFree(weights.head_weight));
    CHECK(cudaFree(weights.head_bias));
}
