#include "perturb.h"

#include <time.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "channel.h"
#include "driver.h"

namespace stitch {
namespace {

std::atomic<std::uint32_t> issued[MAX_DELAYS];  // by delay: operations of its stream so far

// Runs on a thread of the driver, in the stream's order; what follows in the stream starts when it returns.
void CUDA_CB pause(void* microseconds) {
    auto amount = reinterpret_cast<std::uint64_t>(microseconds);
    timespec rest{static_cast<time_t>(amount / 1000000), static_cast<long>(amount % 1000000 * 1000)};
    while (nanosleep(&rest, &rest) != 0) {
    }
}

// A stream of our own in the current context: filling on a stream of the program would order its work.
CUstream filling_stream() {
    static auto& mutex = *new std::mutex;
    static auto& streams = *new std::unordered_map<CUcontext, CUstream>;
    CUcontext context = nullptr;
    if (driver().current_context(&context) != CUDA_SUCCESS || !context) {
        return nullptr;
    }
    std::lock_guard<std::mutex> lock(mutex);
    CUstream& stream = streams[context];
    if (!stream && driver().create_stream(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
        stream = nullptr;
    }
    return stream;
}

unsigned char pattern() { return static_cast<unsigned char>(header().poison); }

void check(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS) {
        problem("%s failed with CUDA error %d", what, static_cast<int>(result));
    }
}

}  // namespace

void delay_before_op(std::uint32_t stream, CUstream handle) {
    for (std::uint32_t i = 0; i < header().delay_count && i < MAX_DELAYS; ++i) {
        const Delay& delay = header().delays[i];
        if (delay.stream != stream) {
            continue;
        }
        std::uint32_t number = issued[i].fetch_add(1);
        if (number < delay.skip || (delay.count && number - delay.skip >= delay.count) || capturing(handle)) {
            continue;
        }
        OwnCalls own;
        auto amount = reinterpret_cast<void*>(static_cast<std::uint64_t>(delay.microseconds));
        check(driver().launch_host_function(handle, pause, amount), "holding back a stream");
    }
}

void poison(std::uint64_t start, std::uint64_t bytes) {
    OwnCalls own;
    CUstream stream = filling_stream();
    if (!stream) {
        problem("new memory was not filled: no stream could be made");
        return;
    }
    check(driver().set_bytes(start, pattern(), bytes, stream), "filling new memory");
    check(driver().synchronize(stream), "filling new memory");
}

void poison_ordered(std::uint64_t start, std::uint64_t bytes, CUstream handle) {
    if (capturing(handle)) {
        return;
    }
    OwnCalls own;
    check(driver().set_bytes(start, pattern(), bytes, handle), "filling new memory");
}

}  // namespace stitch
