// What the tracer wants to know of an API call, read from the parameter structures that CUPTI hands out.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstdint>

namespace stitch {

enum Category : std::uint32_t {
    LAUNCH = 1 << 0,
    COPY = 1 << 1,
    SET = 1 << 2,  // memset
    GRAPH_LAUNCH = 1 << 3,
    DEVICE_WORK = LAUNCH | COPY | SET | GRAPH_LAUNCH,
    BLOCKING = 1 << 4,  // a copy or memset that is not an ...Async one
    ALLOCATION = 1 << 5,  // device memory that only the device reaches
    POOLED = 1 << 6,  // ordered by a stream
    HOST_FREE = 1 << 7,  // pinned memory, or memory that stops being pinned
    STREAM_CREATE = 1 << 8,
    STREAM_DESTROY = 1 << 9,
    STREAM_WAIT = 1 << 10,  // the host waits for a stream, or asks whether it is done
    EVENT_CREATE = 1 << 11,
    EVENT_DESTROY = 1 << 12,
    EVENT_RECORD = 1 << 13,
    EVENT_WAIT = 1 << 14,  // the host waits for an event, or asks whether it is done
    STREAM_EVENT = 1 << 15,  // a stream waits for an event
    DEVICE_WAIT = 1 << 16,
    CAPTURE_BEGIN = 1 << 17,
    CAPTURE_END = 1 << 18,
    INSTANTIATE = 1 << 19,
    OTHER = 1 << 20,  // told, but nothing is done about it
};

enum CopyKind : std::uint8_t { H2H = 0, H2D = 1, D2H = 2, D2D = 3, BY_ADDRESS = 4, NO_COPY = 255 };

struct Arguments {
    bool has_stream = false;
    CUstream stream = nullptr;
    CUevent event = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t source = 0;
    std::uint64_t target = 0;
    std::uint32_t flags = 0;
    std::uint8_t copy_kind = NO_COPY;
    void** result = nullptr;  // where the call puts a pointer or a handle
    std::uint64_t width = 0;  // of a row, when the copy goes row by row
    std::uint64_t height = 0;
    std::uint64_t pitch = 0;  // of the target
    bool scattered = false;  // the target is neither one piece nor rows of one distance
    void* graph = nullptr;  // the graph that is instantiated, or the executable one that is launched
};

struct Entry {
    std::uint32_t categories = 0;  // 0: the call is not told
    bool per_thread = false;  // the variant whose default stream is the thread's own
    std::uint8_t copy_kind = NO_COPY;  // where the name says it
    std::uint8_t element = 1;  // bytes of one element, for driver memsets
    void (*read)(const void* parameters, Arguments& arguments) = nullptr;
};

// The entry of a callback; `table` as CUPTI numbers the callbacks of that domain.
const Entry& entry_of(CUpti_CallbackDomain domain, CUpti_CallbackId id);

// Fills the tables and calls `wanted` with each callback that is to be enabled.
void prepare_entries(void (*wanted)(CUpti_CallbackDomain domain, CUpti_CallbackId id, const char* name));

// A kernel launch of the driver API: what is launched, how, and with what.
struct Launch {
    CUfunction function;
    unsigned grid[3];
    unsigned block[3];
    unsigned shared;
    void** parameters;
    void** extra;
};
bool read_launch(CUpti_CallbackId id, const void* parameters, Launch& launch);

}  // namespace stitch
