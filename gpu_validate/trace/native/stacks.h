// Who called: the return addresses of the thread, told once for each different stack.
#pragma once

#include <cstdint>

namespace stitch {

// The number of the current stack, from the CUDA call outwards; 0 when it cannot be told.
std::uint32_t current_stack();

}  // namespace stitch
