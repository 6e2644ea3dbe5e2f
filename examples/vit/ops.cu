#include "ops.h"

#include "cuda_check.h"
#include "kernels.h"

void extract_patches(const float* d_image, float* d_patches) {
    extract_patches_kernel<<<ceil_div(IMAGE_VALUES, ELEMENT_THREADS), ELEMENT_THREADS>>>(
        d_image, d_patches);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

void assemble_tokens(const float* d_embedded, const float* d_class_token,
                     const float* d_position, float* d_tokens) {
    assemble_tokens_kernel<<<ceil_div(TOKENS * DIM, ELEMENT_THREADS), ELEMENT_THREADS>>>(
        d_embedded, d_class_token, d_position, d_tokens);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

void layernorm(const float* d_input, const float* d_gain, const float* d_bias, float* d_output,
               int rows, int width) {
    layernorm_kernel<<<rows, REDUCE_THREADS>>>(d_input, d_gain, d_bias, d_output, width);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

void linear(const float* d_input, const float* d_weight, const float* d_bias, float* d_output,
            int rows, int inputs, int outputs) {
    dim3 threads(LINEAR_THREADS_X, LINEAR_THREADS_Y);
    dim3 blocks(ceil_div(outputs, LINEAR_TILE_COLUMNS), ceil_div(rows, LINEAR_TILE_ROWS));
    linear_kernel<<<blocks, threads>>>(d_input, d_weight, d_bias, d_output, rows, inputs,
                                       outputs);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

void split_heads(const float* d_tokens, float* d_heads) {
    split_heads_kernel<<<ceil_div(TOKENS * DIM, ELEMENT_THREADS), ELEMENT_THREADS>>>(d_tokens,
                                                                                     d_heads);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

void merge_heads(const float* d_heads, float* d_tokens) {
    merge_heads_kernel<<<ceil_div(TOKENS * DIM, ELEMENT_THREADS), ELEMENT_THREADS>>>(d_heads,
                                                                                     d_tokens);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

void attention(const float* d_query, const float* d_key, const float* d_value,
               float* d_context) {
    const int count = TOKENS * DIM;
    float* d_query_heads = nullptr;
    float* d_key_heads = nullptr;
    float* d_value_heads = nullptr;
    float* d_scores = nullptr;
    float* d_context_heads = nullptr;
    CHECK(cudaMalloc(&d_query_heads, count * sizeof(float)));
    CHECK(cudaMalloc(&d_key_heads, count * sizeof(float)));
    CHECK(cudaMalloc(&d_value_heads, count * sizeof(float)));
    CHECK(cudaMalloc(&d_scores, HEADS * TOKENS * TOKENS * sizeof(float)));
    CHECK(cudaMalloc(&d_context_heads, count * sizeof(float)));

    split_heads(d_query, d_query_heads);
    split_heads(d_key, d_key_heads);
    split_heads(d_value, d_value_heads);

    dim3 score_threads(SCORE_THREADS, SCORE_THREADS);
    dim3 score_blocks(ceil_div(TOKENS, SCORE_TILE), ceil_div(TOKENS, SCORE_TILE), HEADS);
    attention_scores_kernel<<<score_blocks, score_threads>>>(d_query_heads, d_key_heads,
                                                             d_scores);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    softmax_kernel<<<HEADS * TOKENS, REDUCE_THREADS>>>(d_scores, TOKENS);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    dim3 context_threads(CONTEXT_THREADS_X, CONTEXT_THREADS_Y);
    dim3 context_blocks(ceil_div(TOKENS, CONTEXT_TILE_ROWS), HEADS);
    attention_context_kernel<<<context_blocks, context_threads>>>(d_scores, d_value_heads,
                                                                  d_context_heads);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    merge_heads(d_context_heads, d_context);

    CHECK(cudaFree(d_query_heads));
    CHECK(cudaFree(d_key_heads));
    CHECK(cudaFree(d_value_heads));
    CHECK(cudaFree(d_scores));
    CHECK(cudaFree(d_context_heads));
}

void gelu(const float* d_input, float* d_output, int count) {
    gelu_kernel<<<ceil_div(count, ELEMENT_THREADS), ELEMENT_THREADS>>>(d_input, d_output, count);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

void add(const float* d_left, const float* d_right, float* d_output, int count) {
    add_kernel<<<ceil_div(count, ELEMENT_THREADS), ELEMENT_THREADS>>>(d_left, d_right, d_output,
                                                                      count);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}
