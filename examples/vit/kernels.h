// The kernels of the network and the launch shapes they expect.
#pragma once

#include <cuda_runtime.h>

#include "model.h"

constexpr int ELEMENT_THREADS = 256;

constexpr int REDUCE_THREADS = 128;

constexpr int LINEAR_TILE_ROWS = 32;
constexpr int LINEAR_TILE_COLUMNS = 64;
constexpr int LINEAR_TILE_DEPTH = 32;
constexpr int LINEAR_THREADS_X = LINEAR_TILE_COLUMNS / 4;
constexpr int LINEAR_THREADS_Y = LINEAR_TILE_ROWS / 2;

constexpr int SCORE_TILE = 32;
constexpr int SCORE_THREADS = 16;

constexpr int CONTEXT_TILE_ROWS = 16;
constexpr int CONTEXT_TILE_DEPTH = 32;
constexpr int CONTEXT_THREADS_X = 64;
constexpr int CONTEXT_THREADS_Y = 4;

inline int ceil_div(int value, int divisor) {
    return (value + divisor - 1) / divisor;
}

// One thread per value of the image.
__global__ void extract_patches_kernel(const float* image, float* patches);

// One thread per value of the tokens: class token in row 0, then the patches.
__global__ void assemble_tokens_kernel(const float* embedded, const float* class_token,
                                       const float* position, float* tokens);

// One block of REDUCE_THREADS per row.
__global__ void layernorm_kernel(const float* input, const float* gain, const float* bias,
                                 float* output, int width);

// output[rows][outputs] = input[rows][inputs] * weight[inputs][outputs] + bias.
// One block of LINEAR_THREADS_X x LINEAR_THREADS_Y per tile of the output;
// inputs must be a multiple of LINEAR_TILE_DEPTH and outputs a multiple of 4.
__global__ void linear_kernel(const float* input, const float* weight, const float* bias,
                              float* output, int rows, int inputs, int outputs);

// From [TOKENS][DIM] to [HEADS][TOKENS][HEAD_DIM] and back. One thread per value.
__global__ void split_heads_kernel(const float* tokens, float* heads);
__global__ void merge_heads_kernel(const float* heads, float* tokens);

// scores[head][row][column] = query[head][row] . key[head][column] / sqrt(HEAD_DIM).
// One block of SCORE_THREADS x SCORE_THREADS per tile and head (grid z).
__global__ void attention_scores_kernel(const float* query, const float* key, float* scores);

// Softmax of every row, in place. One block of REDUCE_THREADS per row.
__global__ void softmax_kernel(float* rows, int width);

// context[head][row] = sum over columns of scores[head][row][column] * value[head][column].
// One block of CONTEXT_THREADS_X x CONTEXT_THREADS_Y per tile of rows and head (grid y).
__global__ void attention_context_kernel(const float* scores, const float* value,
                                         float* context);

__global__ void gelu_kernel(const float* input, float* output, int count);

__global__ void add_kernel(const float* left, const float* right, float* output, int count);
