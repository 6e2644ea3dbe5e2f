#include "stacks.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "channel.h"

namespace stitch {
namespace {

constexpr int DEPTH = 32;
constexpr int CACHED = 256;

struct Known {
    std::uint64_t hash;
    std::uint32_t id;
};
thread_local Known cache[CACHED];

std::uint64_t hash_of(void* const* frames, int count) {
    std::uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < count; ++i) {
        hash = (hash ^ reinterpret_cast<std::uint64_t>(frames[i])) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash | 1;  // 0 marks an empty place of the cache
}

const void* base_of(const void* address) {
    Dl_info info;
    return dladdr(address, &info) ? info.dli_fbase : nullptr;
}

// The file that an address is in. What dladdr says of the program itself is how it was called, perhaps from elsewhere.
std::string module_path(const Dl_info& info) {
    std::string path = info.dli_fname ? info.dli_fname : "";
    if (path.empty() || path[0] != '/') {
        char program[4096];
        ssize_t length = readlink("/proc/self/exe", program, sizeof program);
        if (length > 0) {
            path.assign(program, static_cast<std::size_t>(length));
        }
    }
    return path;
}

void tell(std::uint32_t id, void* const* frames, int count) {
    std::vector<Frame> told;
    const void* own = base_of(reinterpret_cast<void*>(&current_stack));
    for (int i = 0; i < count; ++i) {
        Dl_info info;
        if (!dladdr(frames[i], &info) || info.dli_fbase == own) {
            continue;
        }
        std::uint64_t offset = reinterpret_cast<std::uint64_t>(frames[i]) - reinterpret_cast<std::uint64_t>(info.dli_fbase);
        told.push_back({text_id(Table::MODULE, module_path(info).c_str()), 0, offset});
    }
    std::size_t bytes = told.size() * sizeof(Frame);
    if (auto* record = add<StackRecord>(Kind::STACK, bytes)) {
        record->id = id;
        record->frames = told.size();
        std::memcpy(record + 1, told.data(), bytes);
        commit();
    }
}

}  // namespace

std::uint32_t current_stack() {
    void* frames[DEPTH];
    int count = backtrace(frames, DEPTH);
    if (count <= 0) {
        return 0;
    }
    std::uint64_t hash = hash_of(frames, count);
    Known& place = cache[hash % CACHED];
    if (place.hash == hash) {
        return place.id;
    }
    static auto& mutex = *new std::mutex;
    static auto& known = *new std::map<std::uint64_t, std::uint32_t>;
    std::uint32_t id;
    bool is_new;
    {
        std::lock_guard<std::mutex> lock(mutex);
        auto [entry, inserted] = known.try_emplace(hash, static_cast<std::uint32_t>(known.size() + 1));
        id = entry->second;
        is_new = inserted;
    }
    if (is_new) {
        tell(id, frames, count);
    }
    place = {hash, id};
    return id;
}

}  // namespace stitch
