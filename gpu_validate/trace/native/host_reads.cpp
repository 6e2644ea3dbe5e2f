#include "host_reads.h"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "channel.h"
#include "driver.h"
#include "handles.h"

namespace stitch {
namespace {

// ----------------------------------------------------------------------------------------------------------- the digest
//
// Eight chains of 64 x 64 -> 128 bit products, 128 bytes a round: it keeps up with the memory, and any changed byte changes
// the product it goes into. It tells runs of programs apart; it is no defence against made-up collisions.

struct Digest {
    std::uint64_t lanes[8];
    std::uint64_t length = 0;

    Digest() {
        for (int i = 0; i < 8; ++i) {
            lanes[i] = 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(i + 1);
        }
    }

    static std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
        unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
        return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    }

    void add(const unsigned char* data, std::uint64_t bytes) {
        std::uint64_t chains[8];
        std::memcpy(chains, lanes, sizeof lanes);
        length += bytes;
        for (; bytes >= 128; bytes -= 128, data += 128) {
            round(chains, data);
        }
        if (bytes) {
            unsigned char rest[128] = {};
            std::memcpy(rest, data, bytes);
            rest[127] = static_cast<unsigned char>(bytes);
            round(chains, rest);
        }
        std::memcpy(lanes, chains, sizeof lanes);
    }

    static void round(std::uint64_t* chains, const unsigned char* data) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            std::uint64_t words[2];
            std::memcpy(words, data + 16 * i, 16);
            chains[i] = fold(chains[i] ^ words[0], words[1] ^ 0xd6e8feb86659fd93u) + words[0];
        }
    }

    void finish(std::uint64_t out[2]) const {
        std::uint64_t a = length ^ 0xa0761d6478bd642fu;
        std::uint64_t b = ~length;
        for (int i = 0; i < 8; ++i) {
            a = fold(a ^ lanes[i], 0xe7037ed1a0b428dbu + static_cast<std::uint64_t>(i)) + b;
            b = fold(b ^ lanes[i], 0x8ebc6af09c88c6e3u) ^ (a >> 29);
        }
        out[0] = a;
        out[1] = b;
    }
};

// --------------------------------------------------------------------------------------------------------- the contents
//
// When the reader asks for them, they are copied into the file. The same contents are kept once.

struct Rows {
    const unsigned char* start;
    std::uint64_t width;
    std::uint64_t pitch;
    std::uint64_t count;
};

Rows rows_of(const HostCopy& copy) {
    const auto* data = reinterpret_cast<const unsigned char*>(copy.target);
    if (copy.width && copy.width < copy.bytes) {
        return {data, copy.width, copy.pitch, copy.bytes / copy.width};
    }
    return {data, copy.bytes, copy.bytes, 1};
}

constexpr std::uint64_t ALIGNMENT = 64;

std::uint64_t rounded(std::uint64_t bytes) { return (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1); }

// Where in the file contents can go; 0 when they are not asked for or there is no room left.
std::uint64_t take_room(std::uint64_t bytes) {
    std::uint64_t at = header().contents.load(std::memory_order_relaxed);
    do {
        if (!at || at > header().contents_end || bytes > header().contents_end - at) {
            return 0;
        }
    } while (!header().contents.compare_exchange_weak(at, at + rounded(bytes), std::memory_order_relaxed));
    return at;
}

Rows keep(const Rows& rows, std::uint64_t at) {
    auto* target = reinterpret_cast<unsigned char*>(&header()) + at;
    for (std::uint64_t row = 0; row < rows.count; ++row) {
        std::memcpy(target + row * rows.width, rows.start + row * rows.pitch, rows.width);
    }
    return {target, rows.width, rows.width, rows.count};
}

// Where contents with that digest are kept: `at`, or an earlier place, and then the room at `at` is given back if it can be.
std::uint64_t kept_once(std::uint64_t at, std::uint64_t bytes, const std::uint64_t digest[2]) {
    static auto& mutex = *new std::mutex;
    static auto& places = *new std::map<std::array<std::uint64_t, 3>, std::uint64_t>;
    std::lock_guard<std::mutex> lock(mutex);
    auto [entry, is_new] = places.try_emplace({digest[0], digest[1], bytes}, at);
    if (!is_new) {
        std::uint64_t end = at + rounded(bytes);
        header().contents.compare_exchange_strong(end, at, std::memory_order_relaxed);
    }
    return entry->second;
}

// ---------------------------------------------------------------------------------------------------- copies in flight

using Reached = std::map<Lane, std::uint64_t>;  // by stream: copies with at most this order are done

struct Pending {
    HostCopy copy;
    Lane lane;
    std::uint32_t context;
    std::uint64_t order;
};

struct Flight {
    std::mutex mutex;
    std::uint64_t order = 0;  // of the last copy; 0: no copy was ever in flight, nothing needs following
    std::vector<Pending> pending;
    std::unordered_map<Lane, Reached> streams;  // what is done before later work of the stream
    std::unordered_map<std::uint32_t, Reached> events;
    std::vector<HostCopy> captured;  // of the capture in progress
    std::unordered_map<void*, std::vector<HostCopy>> graphs;
    std::unordered_map<void*, std::vector<HostCopy>> executables;
};

Flight& flight() {
    static auto& instance = *new Flight;
    return instance;
}

std::uint64_t extent(const HostCopy& c) {
    return c.width && c.width < c.bytes ? c.bytes / c.width * c.pitch : c.bytes;
}

bool overlap(const HostCopy& c, std::uint64_t start, std::uint64_t bytes) {
    return start < c.target + extent(c) && c.target < start + bytes;
}

bool still_pinned(std::uint64_t address) {
    OwnCalls own;
    CUmemorytype type{};
    return driver().pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

template <class Covered>
void finish(Flight& f, Covered covered) {
    auto done = [&](const Pending& p) {
        if (!covered(p)) {
            return false;
        }
        if (still_pinned(p.copy.target) && still_pinned(p.copy.target + extent(p.copy) - 1)) {
            host_copy_done(p.copy);
        }
        return true;
    };
    f.pending.erase(std::remove_if(f.pending.begin(), f.pending.end(), done), f.pending.end());
}

void join(Reached& into, const Reached& other) {
    for (const auto& [lane, order] : other) {
        std::uint64_t& known = into[lane];
        known = std::max(known, order);
    }
}

void finish_reached(Flight& f, const Reached& reached) {
    finish(f, [&](const Pending& p) {
        auto entry = reached.find(p.lane);
        return entry != reached.end() && p.order <= entry->second;
    });
}

void forget_overlapping(Flight& f, std::uint64_t start, std::uint64_t bytes) {
    auto hit = [&](const Pending& p) { return overlap(p.copy, start, bytes); };
    f.pending.erase(std::remove_if(f.pending.begin(), f.pending.end(), hit), f.pending.end());
}

void issue(Flight& f, const HostCopy& copy, Lane lane, std::uint32_t context) {
    forget_overlapping(f, copy.target, extent(copy));
    f.pending.push_back({copy, lane, context, ++f.order});
}

}  // namespace

void host_copy_done(const HostCopy& copy) {
    std::uint64_t before = now();
    Rows rows = rows_of(copy);
    std::uint64_t kept = take_room(copy.bytes);
    if (kept) {
        rows = keep(rows, kept);  // what is hashed is what was kept, even when the program writes there meanwhile
    }
    Digest digest;
    for (std::uint64_t row = 0; row < rows.count; ++row) {
        digest.add(rows.start + row * rows.pitch, rows.width);
    }
    std::uint64_t result[2];
    digest.finish(result);
    if (kept) {
        kept = kept_once(kept, copy.bytes, result);
    }
    if (auto* record = add<ReadRecord>(Kind::READ)) {
        record->index = copy.call;
        record->bytes = copy.bytes;
        record->digest[0] = result[0];
        record->digest[1] = result[1];
        record->contents = kept;
        record->nanoseconds = static_cast<std::uint32_t>(std::min<std::uint64_t>(now() - before, UINT32_MAX));
        commit();
    }
}

void host_memory_changed(std::uint64_t start, std::uint64_t bytes) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    if (!f.pending.empty()) {
        forget_overlapping(f, start, bytes);
    }
}

void host_memory_freed(std::uint64_t start) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    if (!f.pending.empty()) {
        // The size of the allocation is not known here; what starts at or after it may be in it.
        auto hit = [&](const Pending& p) { return p.copy.target >= start; };
        f.pending.erase(std::remove_if(f.pending.begin(), f.pending.end(), hit), f.pending.end());
    }
}

void host_copy_issued(const HostCopy& copy, Lane lane, std::uint32_t context) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    issue(f, copy, lane, context);
}

void event_recorded(std::uint32_t event, Lane lane) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    if (f.order) {
        Reached reached = f.streams[lane];
        reached[lane] = f.order;
        f.events[event] = std::move(reached);
    }
}

void stream_waits_for_event(Lane lane, std::uint32_t event) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    if (f.order) {
        join(f.streams[lane], f.events[event]);
    }
}

void host_waited_for_stream(Lane lane) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    if (!f.pending.empty()) {
        Reached reached = f.streams[lane];
        reached[lane] = f.order;
        finish_reached(f, reached);
    }
}

void host_waited_for_event(std::uint32_t event) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    if (!f.pending.empty()) {
        finish_reached(f, f.events[event]);
    }
}

void host_waited_for_device(std::uint32_t context) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    if (!f.pending.empty()) {
        finish(f, [&](const Pending& p) { return p.context == context; });
    }
}

void host_waited_for_legacy_stream(std::uint32_t context) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    if (!f.pending.empty()) {
        finish(f, [&](const Pending& p) {
            return p.context == context && stream_blocks(static_cast<std::uint32_t>(p.lane));
        });
    }
}

void captured_copy(const HostCopy& copy) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    f.captured.push_back(copy);
}

void capture_ended(void* graph) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    if (!f.captured.empty()) {
        f.graphs[graph] = std::move(f.captured);
        f.captured.clear();
    }
}

void graph_instantiated(void* graph, void* executable) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    auto entry = f.graphs.find(graph);
    if (entry != f.graphs.end()) {
        f.executables[executable] = entry->second;
    }
}

void graph_launched(void* executable, Lane lane, std::uint32_t context) {
    Flight& f = flight();
    std::lock_guard<std::mutex> lock(f.mutex);
    auto entry = f.executables.find(executable);
    if (entry != f.executables.end()) {
        for (const HostCopy& copy : entry->second) {
            issue(f, copy, lane, context);
        }
    }
}

}  // namespace stitch
