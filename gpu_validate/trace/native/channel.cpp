#include "channel.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

namespace stitch {
namespace {

constexpr const char* VARIABLE = "STITCHCUDA_TRACE_FD";

Header* shared = nullptr;
std::atomic<bool> active{false};

struct Writer {
    Chunk* chunk;
    std::uint64_t used;  // reserved, not yet committed
};
thread_local Writer writer{nullptr, 0};

char* place(Chunk* chunk, std::uint64_t offset) { return reinterpret_cast<char*>(chunk + 1) + offset; }

bool take_chunk() {
    std::uint64_t at = shared->cursor.fetch_add(CHUNK_BYTES, std::memory_order_relaxed);
    if (at + CHUNK_BYTES > shared->capacity) {
        return false;
    }
    auto* chunk = reinterpret_cast<Chunk*>(reinterpret_cast<char*>(shared) + at);
    chunk->bytes = CHUNK_BYTES;
    chunk->process = static_cast<std::uint32_t>(getpid());
    chunk->thread = static_cast<std::uint32_t>(syscall(SYS_gettid));
    chunk->used.store(0, std::memory_order_relaxed);
    chunk->magic = CHUNK_MAGIC;
    writer = {chunk, 0};
    return true;
}

}  // namespace

Header* open_channel() {
    const char* text = std::getenv(VARIABLE);
    if (!text) {
        return nullptr;
    }
    int descriptor = std::atoi(text);
    unsetenv(VARIABLE);
    unsetenv("CUDA_INJECTION64_PATH");
    struct stat file;
    if (fstat(descriptor, &file) != 0 || file.st_size < static_cast<off_t>(DATA)) {
        return nullptr;
    }
    void* memory = mmap(nullptr, static_cast<std::size_t>(file.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // programs that this one starts are not part of the run's conversation
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    auto* found = static_cast<Header*>(memory);
    if (std::memcmp(found->magic, MAGIC, sizeof MAGIC) != 0) {
        return nullptr;
    }
    shared = found;
    active = true;
    return found;
}

Header& header() { return *shared; }

bool recording() { return active.load(std::memory_order_relaxed); }

void stop_recording() { active = false; }

void* reserve(Kind kind, std::size_t bytes) {
    bytes = (bytes + 7) & ~std::size_t{7};
    if (!recording()) {
        return nullptr;
    }
    if (!writer.chunk || sizeof(Chunk) + writer.used + bytes > CHUNK_BYTES) {
        if (sizeof(Chunk) + bytes > CHUNK_BYTES || !take_chunk()) {
            shared->dropped.fetch_add(1, std::memory_order_relaxed);
            return nullptr;
        }
    }
    auto* record = reinterpret_cast<Record*>(place(writer.chunk, writer.used));
    writer.used += bytes;
    record->kind = kind;
    record->bytes = static_cast<std::uint16_t>(bytes);
    return record;
}

void commit() {
    if (writer.chunk) {
        writer.chunk->used.store(writer.used, std::memory_order_release);
    }
}

void write_text(Table table, std::uint32_t id, const char* text) {
    std::size_t length = strnlen(text, 32 << 10);
    auto* record = static_cast<TextRecord*>(reserve(Kind::TEXT, sizeof(TextRecord) + length));
    if (record) {
        record->table = table;
        record->id = id;
        record->length = static_cast<std::uint32_t>(length);
        std::memcpy(record + 1, text, length);
        commit();
    }
}

void problem(const char* format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    write_text(Table::PROBLEM, 0, text);
}

namespace {

bool demangled(const char* symbol, std::string& text) {
    int status = 0;
    char* name = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
    bool known = status == 0 && name;
    if (known) text = name;
    std::free(name);
    return known;
}

std::string readable(const char* symbol) {
    std::string text = symbol;
    if (demangled(symbol, text)) return text;
    // A static kernel of relocatable device code: __nv_static_25__eb90229b_8_clock_cu_main__Z5sweepPf.
    if (std::strncmp(symbol, "__nv_static_", 12) == 0) {
        for (const char* at = std::strstr(symbol, "__Z"); at; at = std::strstr(at + 1, "__Z")) {
            if (demangled(at + 1, text)) break;
        }
    }
    return text;
}

}  // namespace

std::uint32_t text_id(Table table, const char* text) {
    // Never destroyed: activities still arrive while the program ends.
    static auto& mutex = *new std::mutex;
    static auto& known = *new std::unordered_map<std::string, std::uint32_t>;
    std::string key = std::to_string(static_cast<unsigned>(table)) + text;
    std::lock_guard<std::mutex> lock(mutex);
    auto [entry, is_new] = known.try_emplace(std::move(key), static_cast<std::uint32_t>(known.size() + 1));
    if (is_new) {
        write_text(table, entry->second, table == Table::KERNEL ? readable(text).c_str() : text);
    }
    return entry->second;
}

}  // namespace stitch
