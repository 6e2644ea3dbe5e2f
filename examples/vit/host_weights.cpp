#include "host_weights.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace {

// A 64-bit linear congruential generator; its upper bits become the values.
struct Generator {
    std::uint64_t state;

    // Uniform in [-1, 1), exact in float.
    float next() {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        int bits = static_cast<int>(state >> 40) - (1 << 23);
        return static_cast<float>(bits) * (1.0f / (1 << 23));
    }
};

std::vector<float> uniform(Generator& generator, std::size_t count, float bound) {
    std::vector<float> values(count);
    for (float& value : values) {
        value = generator.next() * bound;
    }
    return values;
}

// Bounded so that the output variance matches the input variance.
std::vector<float> matrix(Generator& generator, int inputs, int outputs) {
    float bound = std::sqrt(3.0f / static_cast<float>(inputs));
    return uniform(generator, static_cast<std::size_t>(inputs) * outputs, bound);
}

std::vector<float> bias(Generator& generator, int outputs) {
    return uniform(generator, outputs, 0.03125f);
}

std::vector<float> gain(Generator& generator, int width) {
    std::vector<float> values = uniform(generator, width, 0.125f);
    for (float& value : values) {
        value += 1.0f;
    }
    return values;
}

void fill_layer(Generator& generator, HostLayerWeights& layer) {
    layer.norm1_gain = gain(generator, DIM);
    layer.norm1_bias = bias(generator, DIM);
    layer.query_weight = matrix(generator, DIM, DIM);
    layer.query_bias = bias(generator, DIM);
    layer.key_weight = matrix(generator, DIM, DIM);
    layer.key_bias = bias(generator, DIM);
    layer.value_weight = matrix(generator, DIM, DIM);
    layer.value_bias = bias(generator, DIM);
    layer.projection_weight = matrix(generator, DIM, DIM);
    layer.projection_bias = bias(generator, DIM);
    layer.norm2_gain = gain(generator, DIM);
    layer.norm2_bias = bias(generator, DIM);
    layer.expand_weight = matrix(generator, DIM, MLP_DIM);
    layer.expand_bias = bias(generator, MLP_DIM);
    layer.reduce_weight = matrix(generator, MLP_DIM, DIM);
    layer.reduce_bias = bias(generator, DIM);
}

}  // namespace

HostWeights make_weights() {
    Generator generator{20240229};
    HostWeights weights;
    weights.patch_weight = matrix(generator, PATCH_VALUES, DIM);
    weights.patch_bias = bias(generator, DIM);
    weights.class_token = uniform(generator, DIM, 0.5f);
    weights.position = uniform(generator, static_cast<std::size_t>(TOKENS) * DIM, 0.5f);
    for (HostLayerWeights& layer : weights.layers) {
        fill_layer(generator, layer);
    }
    weights.norm_gain = gain(generator, DIM);
    weights.norm_bias = bias(generator, DIM);
    weights.head_weight = matrix(generator, DIM, CLASSES);
    weights.head_bias = bias(generator, CLASSES);
    return weights;
}
