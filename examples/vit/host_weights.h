// The weights in host memory: fixed pseudo-random values, the same bits everywhere.
#pragma once

#include <vector>

#include "model.h"

struct HostLayerWeights {
    std::vector<float> norm1_gain;
    std::vector<float> norm1_bias;
    std::vector<float> query_weight;
    std::vector<float> query_bias;
    std::vector<float> key_weight;
    std::vector<float> key_bias;
    std::vector<float> value_weight;
    std::vector<float> value_bias;
    std::vector<float> projection_weight;
    std::vector<float> projection_bias;
    std::vector<float> norm2_gain;
    std::vector<float> norm2_bias;
    std::vector<float> expand_weight;
    std::vector<float> expand_bias;
    std::vector<float> reduce_weight;
    std::vector<float> reduce_bias;
};

struct HostWeights {
    std::vector<float> patch_weight;
    std::vector<float> patch_bias;
    std::vector<float> class_token;
    std::vector<float> position;
    HostLayerWeights layers[LAYERS];
    std::vector<float> norm_gain;
    std::vector<float> norm_bias;
    std::vector<float> head_weight;
    std::vector<float> head_bias;
};

HostWeights make_weights();
