// Numbers streams and events in the order in which the program makes them, so that two runs of one program agree on them.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace stitch {

// The legacy default stream is 0. The default stream of a thread, and a stream whose creation was not seen, get a number when
// they are first used. `per_thread`: in this call the null stream means the thread's own.
std::uint32_t stream_number(CUstream stream, bool per_thread);

// The handle that means the same stream in the driver functions that the tracer calls.
CUstream stream_handle(CUstream stream, bool per_thread);

std::uint32_t stream_created(CUstream stream, std::uint32_t flags);
void stream_destroyed(CUstream stream);

// Whether the stream is known to wait for the legacy default stream, and that one for it.
bool stream_blocks(std::uint32_t number);

std::uint32_t event_number(CUevent event);
std::uint32_t event_created(CUevent event);
void event_destroyed(CUevent event);

}  // namespace stitch
