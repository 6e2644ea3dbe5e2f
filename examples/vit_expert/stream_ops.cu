#include "stream_ops.h"

#include "cuda_check.h"
#include "kernels.h"

void extract_patches(const float* d_image, float* d_patches, cudaStream_t stream) {
    extract_patches_kernel<<<ceil_div(IMAGE_VALUES, ELEMENT_THREADS), ELEMENT_THREADS, 0,
                             stream>>>(d_image, d_patches);
    CHECK(cudaGetLastError());
}

void assemble_tokens(const float* d_embedded, const float* d_class_token,
                     const float* d_position, float* d_tokens, cudaStream_t stream) {
    assemble_tokens_kernel<<<ceil_div(TOKENS * DIM, ELEMENT_THREADS), ELEMENT_THREADS, 0,
                             stream>>>(d_embedded, d_class_token, d_position, d_tokens);
    CHECK(cudaGetLastError());
}

void layernorm(const float* d_input, const float* d_gain, const float* d_bias, float* d_output,
               int rows, int width, cudaStream_t stream) {
    layernorm_kernel<<<rows, REDUCE_THREADS, 0, stream>>>(d_input, d_gain, d_bias, d_output,
                                                          width);
    CHECK(cudaGetLastError());
}

void linear(const float* d_input, const float* d_weight, const float* d_bias, float* d_output,
            int rows, int inputs, int outputs, cudaStream_t stream) {
    dim3 threads(LINEAR_THREADS_X, LINEAR_THREADS_Y);
    dim3 blocks(ceil_div(outputs, LINEAR_TILE_COLUMNS), ceil_div(rows, LINEAR_TILE_ROWS));
    linear_kernel<<<blocks, threads, 0, stream>>>(d_input, d_weight, d_bias, d_output, rows,
                                                  inputs, outputs);
    CHECK(cudaGetLastError());
}

void split_heads(const float* d_tokens, float* d_heads, cudaStream_t stream) {
    split_heads_kernel<<<ceil_div(TOKENS * DIM, ELEMENT_THREADS), ELEMENT_THREADS, 0, stream>>>(
        d_tokens, d_heads);
    CHECK(cudaGetLastError());
}

void merge_heads(const float* d_heads, float* d_tokens, cudaStream_t stream) {
    merge_heads_kernel<<<ceil_div(TOKENS * DIM, ELEMENT_THREADS), ELEMENT_THREADS, 0, stream>>>(
        d_heads, d_tokens);
    CHECK(cudaGetLastError());
}

void attention(const float* d_query_heads, const float* d_key_heads, const float* d_value_heads,
               float* d_scores, float* d_context_heads, cudaStream_t stream) {
    dim3 score_threads(SCORE_THREADS, SCORE_THREADS);
    dim3 score_blocks(ceil_div(TOKENS, SCORE_TILE), ceil_div(TOKENS, SCORE_TILE), HEADS);
    attention_scores_kernel<<<score_blocks, score_threads, 0, stream>>>(d_query_heads,
                                                                        d_key_heads, d_scores);
    CHECK(cudaGetLastError());

    softmax_kernel<<<HEADS * TOKENS, REDUCE_THREADS, 0, stream>>>(d_scores, TOKENS);
    CHECK(cudaGetLastError());

    dim3 context_threads(CONTEXT_THREADS_X, CONTEXT_THREADS_Y);
    dim3 context_blocks(ceil_div(TOKENS, CONTEXT_TILE_ROWS), HEADS);
    attention_context_kernel<<<context_blocks, context_threads, 0, stream>>>(
        d_scores, d_value_heads, d_context_heads);
    CHECK(cudaGetLastError());
}

void gelu(const float* d_input, float* d_output, int count, cudaStream_t stream) {
    gelu_kernel<<<ceil_div(count, ELEMENT_THREADS), ELEMENT_THREADS, 0, stream>>>(
        d_input, d_output, count);
    CHECK(cudaGetLastError());
}

void add(const float* d_left, const float* d_right, float* d_output, int count,
         cudaStream_t stream) {
    add_kernel<<<ceil_div(count, ELEMENT_THREADS), ELEMENT_THREADS, 0, stream>>>(
        d_left, d_right, d_output, count);
    CHECK(cudaGetLastError());
}
