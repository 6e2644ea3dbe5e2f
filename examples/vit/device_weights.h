// Copies the weights to the device once, at the start of the program.
#pragma once

#include "host_weights.h"
#include "model.h"

ModelWeights upload_weights(const HostWeights& host);
void free_weights(ModelWeights& weights);
