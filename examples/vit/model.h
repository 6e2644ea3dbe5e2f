// Shape of the network (ViT-Small/16) and its weights on the device.
#pragma once

constexpr int IMAGE_SIZE = 224;
constexpr int CHANNELS = 3;
constexpr int PATCH_SIZE = 16;
constexpr int PATCHES_PER_SIDE = IMAGE_SIZE / PATCH_SIZE;
constexpr int PATCHES = PATCHES_PER_SIDE * PATCHES_PER_SIDE;
constexpr int PATCH_VALUES = CHANNELS * PATCH_SIZE * PATCH_SIZE;
constexpr int IMAGE_VALUES = CHANNELS * IMAGE_SIZE * IMAGE_SIZE;

constexpr int TOKENS = PATCHES + 1;
constexpr int DIM = 384;
constexpr int HEADS = 6;
constexpr int HEAD_DIM = DIM / HEADS;
constexpr int MLP_DIM = 4 * DIM;
constexpr int LAYERS = 12;
constexpr int CLASSES = 1000;
constexpr float NORM_EPSILON = 1e-6f;

// Every weight matrix is stored row-major as [inputs][outputs].
struct LayerWeights {
    float* norm1_gain;
    float* norm1_bias;
    float* query_weight;
    float* query_bias;
    float* key_weight;
    float* key_bias;
    float* value_weight;
    float* value_bias;
    float* projection_weight;
    float* projection_bias;
    float* norm2_gain;
    float* norm2_bias;
    float* expand_weight;
    float* expand_bias;
    float* reduce_weight;
    float* reduce_bias;
};

struct ModelWeights {
    float* patch_weight;
    float* patch_bias;
    float* class_token;
    float* position;
    LayerWeights layers[LAYERS];
    float* norm_gain;
    float* norm_bias;
    float* head_weight;
    float* head_bias;
};
