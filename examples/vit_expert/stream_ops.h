// Operations of the network, enqueued on a stream. None of them waits or allocates.
#pragma once

#include <cuda_runtime.h>

void extract_patches(const float* d_image, float* d_patches, cudaStream_t stream);
void assemble_tokens(const float* d_embedded, const float* d_class_token,
                     const float* d_position, float* d_tokens, cudaStream_t stream);
void layernorm(const float* d_input, const float* d_gain, const float* d_bias, float* d_output,
               int rows, int width, cudaStream_t stream);
void linear(const float* d_input, const float* d_weight, const float* d_bias, float* d_output,
            int rows, int inputs, int outputs, cudaStream_t stream);
void split_heads(const float* d_tokens, float* d_heads, cudaStream_t stream);
void merge_heads(const float* d_heads, float* d_tokens, cudaStream_t stream);
void attention(const float* d_query_heads, const float* d_key_heads, const float* d_value_heads,
               float* d_scores, float* d_context_heads, cudaStream_t stream);
void gelu(const float* d_input, float* d_output, int count, cudaStream_t stream);
void add(const float* d_left, const float* d_right, float* d_output, int count,
         cudaStream_t stream);
