// The forward pass: one image in, its logits out.
#pragma once

#include <vector>

#include "model.h"

std::vector<float> forward(const ModelWeights& weights, const std::vector<float>& image);
