// The same network on the CPU, in plain loops, to check the results of the device.
#pragma once

#include <string>
#include <vector>

#include "host_weights.h"

std::vector<float> reference_forward(const HostWeights& weights, const std::vector<float>& image);

// Compares the logits of one image with the reference and prints the largest difference.
bool check_logits(const HostWeights& weights, const std::string& path,
                  const std::vector<float>& logits);
