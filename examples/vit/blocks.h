// The stages of the network.
#pragma once

#include <vector>

#include "model.h"

// Fills d_tokens[TOKENS][DIM] from one image.
void embed_image(const ModelWeights& weights, const std::vector<float>& image, float* d_tokens);

// Returns what every token gathers from the others.
std::vector<float> attention_block(const LayerWeights& layer, const float* d_tokens);

// Returns the tokens after the residual connection around the attention.
std::vector<float> projection_block(const LayerWeights& layer, const std::vector<float>& context,
                                    const float* d_tokens);

// Updates d_tokens from the output of the projection block.
void mlp_block(const LayerWeights& layer, const std::vector<float>& attended, float* d_tokens);

// Returns the logits of the class token.
std::vector<float> classify(const ModelWeights& weights, const float* d_tokens);
