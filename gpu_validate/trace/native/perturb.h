// What a run can be asked to change for the sake of checking: work held back on a stream, new memory filled with a pattern.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace stitch {

// Puts a pause into the stream before its next operation, when the reader asked for one there. Streams that are being
// captured are left alone: a pause would become part of the program's graph.
void delay_before_op(std::uint32_t stream, CUstream handle);

// Fills new device memory, before the program can use it. `ordered`: memory that belongs to the stream.
void poison(std::uint64_t start, std::uint64_t bytes);
void poison_ordered(std::uint64_t start, std::uint64_t bytes, CUstream handle);

}  // namespace stitch
