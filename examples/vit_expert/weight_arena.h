// All weights in one device allocation, copied once at the start of the program.
#pragma once

#include "host_weights.h"
#include "model.h"

struct WeightArena {
    float* d_values;
    ModelWeights weights;  // pointers into d_values
};

WeightArena create_weight_arena(const HostWeights& host);
void destroy_weight_arena(WeightArena& arena);
