// Operations of the network on device pointers. Each one returns when its result is ready.
#pragma once

void extract_patches(const float* d_image, float* d_patches);
void assemble_tokens(const float* d_embedded, const float* d_class_token,
                     const float* d_position, float* d_tokens);
void layernorm(const float* d_input, const float* d_gain, const float* d_bias, float* d_output,
               int rows, int width);
void linear(const float* d_input, const float* d_weight, const float* d_bias, float* d_output,
            int rows, int inputs, int outputs);
void split_heads(const float* d_tokens, float* d_heads);
void merge_heads(const float* d_heads, float* d_tokens);
void attention(const float* d_query, const float* d_key, const float* d_value,
               float* d_context);
void gelu(const float* d_input, float* d_output, int count);
void add(const float* d_left, const float* d_right, float* d_output, int count);
