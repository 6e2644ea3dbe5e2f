// Measures how long the GPU is busy during a CUDA program, without changing the program.
//
// Built as a shared library and loaded by the CUDA driver:
//
//   CUDA_INJECTION64_PATH=./libgpu_busy.so GPU_BUSY_JSON=out.json ./program
//
// Writes one JSON object when the program ends:
//   span_ms     from the end of the context's creation to the end of the last operation
//   busy_ms     length of the union of all kernel, copy and memset intervals in that span
//   kernel_ms   the same for the kernels alone
//   copy_ms     the same for the copies alone
//   operations  how many there were of each kind, with the bytes copied
//   kernels     number and summed time of each kernel
//   calls       with GPU_BUSY_CALLS=1: number and summed host time of each runtime call
//               (recording them makes the program slower, so do not time such a run)
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
using MemcpyRecord = CUpti_ActivityMemcpy6;
#else
using KernelRecord = CUpti_ActivityKernel9;
using MemcpyRecord = CUpti_ActivityMemcpy5;
#endif
using MemsetRecord = CUpti_ActivityMemset4;

struct Interval {
    std::uint64_t start;
    std::uint64_t end;
};

struct Total {
    std::uint64_t count = 0;
    std::uint64_t amount = 0;  // nanoseconds, or bytes for copies
};

struct State {
    std::mutex mutex;
    std::uint64_t context_created = 0;
    std::vector<Interval> kernels;
    std::vector<Interval> copies;
    std::vector<Interval> memsets;
    std::map<std::string, Total> copy_kinds;
    std::map<std::string, Total> kernel_names;
    std::map<std::string, Total> calls;
    std::uint64_t dropped = 0;
};

// Never destroyed: CUPTI may still deliver buffers while the program ends.
State& state() {
    static State* instance = new State;
    return *instance;
}

void check(CUptiResult result, const char* what) {
    if (result != CUPTI_SUCCESS) {
        const char* message = "unknown error";
        cuptiGetResultString(result, &message);
        std::fprintf(stderr, "gpu_busy: %s: %s\n", what, message);
    }
}

const char* copy_kind_name(unsigned kind) {
    switch (kind) {
        case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "host_to_device";
        case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "device_to_host";
        case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "device_to_device";
        default: return "other";
    }
}

void add(std::map<std::string, Total>& totals, const std::string& name, std::uint64_t amount) {
    Total& total = totals[name];
    total.count += 1;
    total.amount += amount;
}

void take_record(const CUpti_Activity* record) {
    State& s = state();
    switch (record->kind) {
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        case CUPTI_ACTIVITY_KIND_KERNEL: {
            const auto* kernel = reinterpret_cast<const KernelRecord*>(record);
            s.kernels.push_back({kernel->start, kernel->end});
            add(s.kernel_names, kernel->name ? kernel->name : "?", kernel->end - kernel->start);
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMCPY: {
            const auto* copy = reinterpret_cast<const MemcpyRecord*>(record);
            s.copies.push_back({copy->start, copy->end});
            add(s.copy_kinds, copy_kind_name(copy->copyKind), copy->bytes);
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMSET: {
            const auto* memset = reinterpret_cast<const MemsetRecord*>(record);
            s.memsets.push_back({memset->start, memset->end});
            break;
        }
        case CUPTI_ACTIVITY_KIND_RUNTIME: {
            const auto* call = reinterpret_cast<const CUpti_ActivityAPI*>(record);
            const char* name = nullptr;
            cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, call->cbid, &name);
            std::string text = name ? name : "?";
            add(s.calls, text.substr(0, text.find("_v")), call->end - call->start);
            break;
        }
        default: break;
    }
}

void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    *size = 8 << 20;
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *size));
    *records = 0;
}

void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                               std::size_t, std::size_t valid) {
    std::lock_guard<std::mutex> lock(state().mutex);
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        take_record(record);
    }
    std::size_t dropped = 0;
    cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
    state().dropped += dropped;
    std::free(buffer);
}

void CUPTIAPI on_resource(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void*) {
    if (domain == CUPTI_CB_DOMAIN_RESOURCE && id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED &&
        state().context_created == 0) {
        cuptiGetTimestamp(&state().context_created);
    }
}

double union_ms(std::vector<Interval> intervals) {
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.start < b.start; });
    std::uint64_t total = 0;
    std::uint64_t covered = 0;  // everything before this time is counted
    for (const Interval& interval : intervals) {
        std::uint64_t from = std::max(interval.start, covered);
        if (interval.end > from) {
            total += interval.end - from;
            covered = interval.end;
        }
    }
    return total / 1e6;
}

std::string readable(const std::string& symbol) {
    int status = 0;
    char* name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
    std::string text = status == 0 ? name : symbol;
    std::free(name);
    return text.substr(0, text.find('('));
}

void write_totals(std::FILE* file, const char* name, const std::map<std::string, Total>& totals,
                  const char* unit, double scale) {
    std::fprintf(file, "  \"%s\": {", name);
    const char* separator = "\n";
    for (const auto& entry : totals) {
        std::fprintf(file, "%s    \"%s\": {\"count\": %llu, \"%s\": %.6g}", separator,
                     readable(entry.first).c_str(),
                     static_cast<unsigned long long>(entry.second.count), unit,
                     entry.second.amount * scale);
        separator = ",\n";
    }
    std::fprintf(file, "\n  }");
}

void write_report() {
    check(cuptiActivityFlushAll(1), "flush");
    State& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    std::vector<Interval> all = s.kernels;
    all.insert(all.end(), s.copies.begin(), s.copies.end());
    all.insert(all.end(), s.memsets.begin(), s.memsets.end());
    std::uint64_t last = s.context_created;
    for (const Interval& interval : all) {
        last = std::max(last, interval.end);
    }
    const char* path = std::getenv("GPU_BUSY_JSON");
    std::FILE* file = path ? std::fopen(path, "w") : stderr;
    if (!file) {
        std::fprintf(stderr, "gpu_busy: cannot write %s\n", path);
        return;
    }
    std::fprintf(file, "{\n  \"span_ms\": %.6f,\n", (last - s.context_created) / 1e6);
    std::fprintf(file, "  \"busy_ms\": %.6f,\n", union_ms(all));
    std::fprintf(file, "  \"kernel_ms\": %.6f,\n", union_ms(s.kernels));
    std::fprintf(file, "  \"copy_ms\": %.6f,\n", union_ms(s.copies));
    std::fprintf(file, "  \"dropped\": %llu,\n", static_cast<unsigned long long>(s.dropped));
    std::fprintf(file, "  \"operations\": {\"kernels\": %zu, \"copies\": %zu, \"memsets\": %zu},\n",
                 s.kernels.size(), s.copies.size(), s.memsets.size());
    write_totals(file, "copies", s.copy_kinds, "bytes", 1.0);
    std::fprintf(file, ",\n");
    write_totals(file, "kernels", s.kernel_names, "ms", 1e-6);
    std::fprintf(file, ",\n");
    write_totals(file, "calls", s.calls, "ms", 1e-6);
    std::fprintf(file, "\n}\n");
    if (path) {
        std::fclose(file);
    }
}

}  // namespace

extern "C" int InitializeInjection(void) {
    static CUpti_SubscriberHandle subscriber;
    state();
    check(cuptiSubscribe(&subscriber, on_resource, nullptr), "subscribe");
    check(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
                              CUPTI_CBID_RESOURCE_CONTEXT_CREATED),
          "enable callback");
    check(cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed), "buffers");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "enable kernels");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), "enable copies");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET), "enable memsets");
    if (std::getenv("GPU_BUSY_CALLS")) {
        check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME), "enable calls");
    }
    std::atexit(write_report);
    return 1;
}
