// Writes records into the shared file.
#pragma once

#include <ctime>

#include "wire.h"

namespace stitch {

// Maps the file behind the descriptor named by the environment and takes that variable away. Null when there is none.
Header* open_channel();

// What the reader asked for. Valid after open_channel.
Header& header();

// Room for a record with `extra` bytes after its fixed part; null (and counted) when the file is full. The record
// becomes visible to the reader with `commit`.
void* reserve(Kind kind, std::size_t bytes);
void commit();

template <class R>
R* add(Kind kind, std::size_t extra = 0) {
    static_assert(sizeof(R) % 8 == 0);
    return static_cast<R*>(reserve(kind, sizeof(R) + extra));
}

// In the child of a fork: no record of the parent's may be touched, and CUDA does not work there anyway.
void stop_recording();
bool recording();

// Nanoseconds of the clock that every time of a trace is from.
inline std::uint64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

void write_text(Table table, std::uint32_t id, const char* text);
void problem(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The number of a text in its table; the text is written when it is new.
std::uint32_t text_id(Table table, const char* text);

}  // namespace stitch
