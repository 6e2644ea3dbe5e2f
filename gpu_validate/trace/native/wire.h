// What the tracer and its reader (reader.py) agree on: one shared file, mapped by both.
//
// The file starts with `Header`, filled in by the reader before the program starts; from `DATA` on it holds chunks, and behind
// them, from `capacity` on, the contents of reads. A chunk belongs to one thread of one process, so records are written without
// locks, and because the memory is shared, whatever was written survives however the program ends. All numbers are
// little-endian; every record is a multiple of 8 bytes.
#pragma once

#include <atomic>
#include <cstdint>

namespace stitch {

constexpr char MAGIC[8] = {'s', 't', 'i', 't', 'c', 'h', 'T', '1'};
constexpr std::uint64_t DATA = 4096;
constexpr std::uint32_t CHUNK_MAGIC = 0x6b6e6863;
constexpr std::uint32_t CHUNK_BYTES = 64 << 10;
constexpr int MAX_DELAYS = 64;

enum Mode : std::uint32_t { TIMING = 0, FULL = 1 };

// Holds device work back: before operations number `skip`, `skip + 1`, ... of `stream`, `count` of them (0: all).
struct Delay {
    std::uint32_t stream;
    std::uint32_t microseconds;
    std::uint32_t skip;
    std::uint32_t count;
};

struct Header {
    char magic[8];
    std::uint64_t capacity;  // where the room for chunks ends
    std::atomic<std::uint64_t> cursor;  // the first byte that no chunk has taken
    std::atomic<std::uint64_t> dropped;  // records that found no room
    std::atomic<std::uint64_t> contents;  // the first free byte for contents; 0: they are not kept
    std::uint64_t contents_end;
    std::uint32_t mode;
    std::uint32_t poison;  // 0, or 0x100 | the byte that new device memory is filled with
    std::uint32_t operations;  // 1: device operations are recorded in timing mode, too
    std::uint32_t delay_count;
    Delay delays[MAX_DELAYS];
};
static_assert(sizeof(Header) <= DATA);

struct Chunk {
    std::uint32_t magic;
    std::uint32_t bytes;
    std::uint32_t process;
    std::uint32_t thread;
    std::atomic<std::uint64_t> used;  // bytes of complete records after this header
};

enum class Kind : std::uint16_t {
    PROCESS = 1,
    CONTEXT,
    TEXT,
    CALL,
    LAUNCH,
    STACK,
    OP,
    READ,
    STREAM,
    FORK,
};

struct Record {
    Kind kind;
    std::uint16_t bytes;  // with this header and what follows the fixed part
};

struct ProcessRecord {
    Record head;
    std::uint32_t cupti;  // CUPTI's version
    std::uint64_t time;
};

struct ContextRecord {
    Record head;
    std::uint32_t device;
    std::uint64_t time;
};

// What a text stands for.
enum class Table : std::uint32_t { RUNTIME = 1, DRIVER, KERNEL, MODULE, DEVICE, PROBLEM };

struct TextRecord {  // followed by the text, ended by zeros
    Record head;
    Table table;
    std::uint32_t id;
    std::uint32_t length;
};

constexpr std::uint8_t CAPTURED = 1;
constexpr std::uint8_t RETURNED = 2;

struct CallRecord {
    Record head;
    std::uint32_t api;  // the callback's number; bit 31: driver API
    std::uint64_t index;  // issue order in the process
    std::uint64_t start;
    std::uint64_t end;
    std::uint32_t correlation;
    std::int32_t status;
    std::uint32_t stream;
    std::uint32_t event;
    std::uint64_t bytes;
    std::uint64_t source;
    std::uint64_t target;
    std::uint32_t flags;
    std::uint32_t stack;
    std::uint8_t copy_kind;
    std::uint8_t state;  // CAPTURED, RETURNED
    std::uint8_t reserved[6];
};

struct LaunchRecord {  // followed by `words` 8-byte words of arguments
    Record head;
    std::uint32_t name;
    std::uint64_t index;  // of the call
    std::uint32_t grid[3];
    std::uint32_t block[3];
    std::uint32_t shared;
    std::uint32_t words;
};

struct Frame {
    std::uint32_t module;
    std::uint32_t reserved;
    std::uint64_t offset;  // from where the module is loaded
};

struct StackRecord {  // followed by `frames` frames, innermost first
    Record head;
    std::uint32_t id;
    std::uint64_t frames;
};

enum class OpKind : std::uint32_t { KERNEL = 1, COPY, SET };

struct OpRecord {
    Record head;
    OpKind kind;
    std::uint64_t start;
    std::uint64_t end;
    std::uint32_t correlation;
    std::uint32_t cupti_stream;  // CUPTI's number; the reader takes the stream from the call
    std::uint32_t name;
    std::uint32_t registers;
    std::uint64_t bytes;
    std::uint64_t graph_node;
    std::uint32_t copy_kind;
    std::uint32_t reserved;
};

struct ReadRecord {
    Record head;
    std::uint32_t nanoseconds;  // what hashing and keeping took
    std::uint64_t index;  // of the copy's call
    std::uint64_t bytes;
    std::uint64_t digest[2];
    std::uint64_t contents;  // where they are in the file, rows without gaps; 0: they were not kept
};

enum class StreamOrigin : std::uint32_t { CREATED = 1, PER_THREAD, UNKNOWN };

struct StreamRecord {
    Record head;
    std::uint32_t number;
    StreamOrigin origin;
    std::uint32_t flags;
};

}  // namespace stitch
