// What the program prints for one image.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

#include "images.h"
#include "model.h"

inline void print_result(const std::string& path, const float* logits) {
    const float* top = std::max_element(logits, logits + CLASSES);
    std::printf("%s class %d logit %.6f\n", file_name(path).c_str(),
                static_cast<int>(top - logits), *top);
}
