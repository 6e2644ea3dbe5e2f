// The stages of the network.
#pragma once

#include <vector>

#include "model.h"

// Fills d_tokens[TOKENS][DIM] from one image.
void embed_image(const ModelWeights& weights, const std::vector<float>& image, float* d_tokens);

// Returns the tokens after self-attention and its residual connection.
std::vector<float> attention_block(const LayerWeights& layer, const float* d_tokens);

// Updates d_tokens from the output of the attention block.
void mlp_block(const LayerWeights& layer, const std::vector<float>& attended, float* d_tokens);

// Returns the logits of the class token.
std::vector<float> classify(const ModelWeights& weights, const float* d_tokens);
