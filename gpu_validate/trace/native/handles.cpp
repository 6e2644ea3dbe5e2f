#include "handles.h"

#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "channel.h"

namespace stitch {
namespace {

struct Handles {
    std::mutex mutex;
    std::unordered_map<CUstream, std::uint32_t> streams;
    std::unordered_map<CUevent, std::uint32_t> events;
    std::unordered_set<std::uint32_t> blocking{0};
    std::uint32_t next_stream = 1;
    std::uint32_t next_event = 1;
};

Handles& handles() {
    static auto& instance = *new Handles;  // never destroyed: the program may still issue work while it ends
    return instance;
}

thread_local std::uint32_t own_stream = 0;  // the number of this thread's default stream

void tell(std::uint32_t number, StreamOrigin origin, std::uint32_t flags) {
    if (auto* record = add<StreamRecord>(Kind::STREAM)) {
        record->number = number;
        record->origin = origin;
        record->flags = flags;
        commit();
    }
}

bool is_per_thread(CUstream stream, bool per_thread) {
    return stream == CU_STREAM_PER_THREAD || (stream == nullptr && per_thread);
}

}  // namespace

std::uint32_t stream_number(CUstream stream, bool per_thread) {
    if (is_per_thread(stream, per_thread)) {
        if (own_stream == 0) {
            Handles& h = handles();
            std::lock_guard<std::mutex> lock(h.mutex);
            own_stream = h.next_stream++;
            h.blocking.insert(own_stream);
            tell(own_stream, StreamOrigin::PER_THREAD, 0);
        }
        return own_stream;
    }
    if (stream == nullptr || stream == CU_STREAM_LEGACY) {
        return 0;
    }
    Handles& h = handles();
    std::lock_guard<std::mutex> lock(h.mutex);
    auto [entry, is_new] = h.streams.try_emplace(stream, h.next_stream);
    if (is_new) {
        ++h.next_stream;
        tell(entry->second, StreamOrigin::UNKNOWN, 0);
    }
    return entry->second;
}

CUstream stream_handle(CUstream stream, bool per_thread) {
    return is_per_thread(stream, per_thread) ? CU_STREAM_PER_THREAD : stream;
}

std::uint32_t stream_created(CUstream stream, std::uint32_t flags) {
    Handles& h = handles();
    std::lock_guard<std::mutex> lock(h.mutex);
    std::uint32_t number = h.next_stream++;
    h.streams[stream] = number;
    if (!(flags & CU_STREAM_NON_BLOCKING)) {
        h.blocking.insert(number);
    }
    tell(number, StreamOrigin::CREATED, flags);
    return number;
}

void stream_destroyed(CUstream stream) {
    Handles& h = handles();
    std::lock_guard<std::mutex> lock(h.mutex);
    h.streams.erase(stream);
}

bool stream_blocks(std::uint32_t number) {
    Handles& h = handles();
    std::lock_guard<std::mutex> lock(h.mutex);
    return h.blocking.count(number) != 0;
}

std::uint32_t event_number(CUevent event) {
    Handles& h = handles();
    std::lock_guard<std::mutex> lock(h.mutex);
    auto [entry, is_new] = h.events.try_emplace(event, h.next_event);
    h.next_event += is_new;
    return entry->second;
}

std::uint32_t event_created(CUevent event) {
    Handles& h = handles();
    std::lock_guard<std::mutex> lock(h.mutex);
    return h.events[event] = h.next_event++;
}

void event_destroyed(CUevent event) {
    Handles& h = handles();
    std::lock_guard<std::mutex> lock(h.mutex);
    h.events.erase(event);
}

}  // namespace stitch
