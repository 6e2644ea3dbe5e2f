// Digests of what copies bring to the host, taken once the host can rely on them.
//
// A copy that returns when it is done is hashed as it returns. Any other waits in a list until a wait of the host covers it:
// a wait for its stream, for the device, or for an event that was recorded after it. What is never covered, or may have been
// overwritten before, gets no digest. The contents themselves are kept beside it when the reader asks for them.
#pragma once

#include <cstdint>

namespace stitch {

// A stream: its number in the low half; the legacy default streams, all numbered 0, differ by their context in the high half.
using Lane = std::uint64_t;
inline Lane lane_of(std::uint32_t stream, std::uint32_t context) {
    return stream ? stream : static_cast<Lane>(context) << 32;
}

struct HostCopy {
    std::uint64_t call;  // its index
    std::uint64_t target;
    std::uint64_t bytes;
    std::uint64_t width;  // of a row and the distance of rows; 0 when the target is one piece
    std::uint64_t pitch;
};

// The contents are there: hash them now.
void host_copy_done(const HostCopy& copy);

// Something wrote or freed host memory that a copy in flight may write to.
void host_memory_changed(std::uint64_t start, std::uint64_t bytes);
void host_memory_freed(std::uint64_t start);

void host_copy_issued(const HostCopy& copy, Lane lane, std::uint32_t context);

// What the program orders, and what its host waited for.
void event_recorded(std::uint32_t event, Lane lane);
void stream_waits_for_event(Lane lane, std::uint32_t event);
void host_waited_for_stream(Lane lane);
void host_waited_for_event(std::uint32_t event);
void host_waited_for_device(std::uint32_t context);
void host_waited_for_legacy_stream(std::uint32_t context);  // by a blocking copy, which comes after the blocking streams' work

// Captured copies run when their graph is launched.
void captured_copy(const HostCopy& copy);
void capture_ended(void* graph);
void graph_instantiated(void* graph, void* executable);
void graph_launched(void* executable, Lane lane, std::uint32_t context);

}  // namespace stitch
