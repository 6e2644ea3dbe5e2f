// The tracer: a library that the CUDA driver loads into a program (CUDA_INJECTION64_PATH) and that tells, through a shared
// file, what the program asks of CUDA. The program is not changed, and the same library serves every kind of run.
#include <cuda.h>
#include <cupti.h>
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "arguments.h"
#include "channel.h"
#include "device_ops.h"
#include "driver.h"
#include "handles.h"
#include "host_reads.h"
#include "perturb.h"
#include "stacks.h"

namespace stitch {
namespace {

constexpr std::uint32_t DRIVER_BIT = 1u << 31;
constexpr std::size_t MAX_WORDS = 512;

CUpti_SubscriberHandle subscriber;
bool full = false;
bool ops_recorded = false;
std::atomic<std::uint64_t> next_index{0};
std::atomic<int> captures{0};  // streams being captured

// The call of this thread that is being told. The runtime calls the driver for its work: of what lies below a call, only the
// kernel launch is looked at, for it has the kernel's name and arguments.
struct Current {
    int depth;
    CallRecord* record;
    Arguments arguments;
};
thread_local Current current;

// ------------------------------------------------------------------------------------------------------------- launches

struct Parameter {
    std::size_t offset;
    std::size_t size;
};

// The sizes of a kernel's parameters. Kernels that the runtime launches come as library kernels, others as functions.
const std::vector<Parameter>& parameters_of(CUfunction function) {
    static auto& mutex = *new std::mutex;
    static auto& known = *new std::unordered_map<CUfunction, std::vector<Parameter>>;
    std::lock_guard<std::mutex> lock(mutex);
    auto [entry, is_new] = known.try_emplace(function);
    if (is_new) {
        OwnCalls own;
        auto kernel = reinterpret_cast<CUkernel>(function);
        Parameter p{};
        while (driver().kernel_parameter(kernel, entry->second.size(), &p.offset, &p.size) == CUDA_SUCCESS) {
            entry->second.push_back(p);
        }
        if (entry->second.empty()) {
            while (driver().function_parameter(function, entry->second.size(), &p.offset, &p.size) == CUDA_SUCCESS) {
                entry->second.push_back(p);
            }
        }
    }
    return entry->second;
}

// Every aligned word of the arguments: which of them are addresses, the reader tells by the live allocations.
std::size_t argument_words(const Launch& launch, std::uint64_t* words) {
    std::size_t count = 0;
    auto take = [&](const char* data, std::size_t bytes) {
        for (std::size_t at = 0; at + 8 <= bytes && count < MAX_WORDS; at += 8) {
            std::memcpy(&words[count++], data + at, 8);
        }
    };
    if (launch.parameters) {
        const std::vector<Parameter>& parameters = parameters_of(launch.function);
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            take(static_cast<const char*>(launch.parameters[i]), parameters[i].size);
        }
    } else if (launch.extra) {
        const char* data = nullptr;
        std::size_t bytes = 0;
        for (void** at = launch.extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
            if (at[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) data = static_cast<const char*>(at[1]);
            if (at[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<std::size_t*>(at[1]);
        }
        if (data) take(data, bytes);
    }
    return count;
}

void tell_launch(const CUpti_CallbackData& data, CUpti_CallbackId id) {
    Launch launch;
    if (!current.record || !read_launch(id, data.functionParams, launch)) {
        return;
    }
    std::uint64_t words[MAX_WORDS];
    std::size_t count = argument_words(launch, words);
    std::uint32_t name = text_id(Table::KERNEL, data.symbolName ? data.symbolName : "");
    if (auto* record = add<LaunchRecord>(Kind::LAUNCH, count * 8)) {
        record->name = name;
        record->index = current.record->index;
        std::memcpy(record->grid, launch.grid, sizeof launch.grid);
        std::memcpy(record->block, launch.block, sizeof launch.block);
        record->shared = launch.shared;
        record->words = static_cast<std::uint32_t>(count);
        std::memcpy(record + 1, words, count * 8);
        commit();
    }
}

// ---------------------------------------------------------------------------------------------------------------- calls

bool on_host(std::uint64_t address) {
    OwnCalls own;
    CUmemorytype type{};
    return driver().pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS ||
           type == CU_MEMORYTYPE_HOST;
}

bool pageable(std::uint64_t address) {
    OwnCalls own;
    CUmemorytype type{};
    return driver().pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS;
}

std::uint8_t kind_by_address(const Arguments& a) {
    if (!a.source || !a.target) {
        return BY_ADDRESS;
    }
    return static_cast<std::uint8_t>((on_host(a.source) ? 0 : 2) + (on_host(a.target) ? 0 : 1));
}
static_assert(H2H == 0 && H2D == 1 && D2H == 2 && D2D == 3);

// Whether a call goes into a graph. The driver is asked only while the program captures at all.
bool is_captured(const Entry& entry, CUstream handle) {
    constexpr std::uint32_t IN_STREAM = DEVICE_WORK | EVENT_RECORD | STREAM_EVENT | POOLED;
    bool stream_call = current.arguments.has_stream || (entry.categories & DEVICE_WORK);
    bool enqueues = (entry.categories & (IN_STREAM | OTHER)) != 0;
    return captures.load(std::memory_order_relaxed) > 0 && stream_call && enqueues && capturing(handle);
}

void enter(const Entry& entry, std::uint32_t api, const CUpti_CallbackData& data) {
    current.arguments = Arguments();
    Arguments& a = current.arguments;
    if (entry.read) {
        entry.read(data.functionParams, a);
    }
    bool device_work = entry.categories & DEVICE_WORK;
    if (device_work && !entry.read && !(entry.categories & BLOCKING)) {
        problem("%s is not followed: its stream is not known", data.functionName);
    }
    std::uint32_t stream = a.has_stream || device_work ? stream_number(a.stream, entry.per_thread) : 0;
    CUstream handle = stream_handle(a.stream, entry.per_thread);
    if (entry.categories & SET) {
        a.bytes *= entry.element;
    }
    if (entry.categories & COPY) {
        if (entry.copy_kind != NO_COPY && a.copy_kind == NO_COPY) a.copy_kind = entry.copy_kind;
        if (a.copy_kind == BY_ADDRESS) a.copy_kind = kind_by_address(a);
    }
    std::uint32_t event = a.event ? event_number(a.event) : 0;
    std::uint32_t stack = full ? current_stack() : 0;
    bool captured = is_captured(entry, handle);
    if (device_work && header().delay_count) {
        delay_before_op(stream, handle);
    }
    if (entry.categories & HOST_FREE) {
        host_memory_freed(a.target);
    }
    auto* record = current.record = add<CallRecord>(Kind::CALL);  // after everything that may write records itself
    if (!record) {
        return;
    }
    record->api = api;
    record->index = next_index.fetch_add(1, std::memory_order_relaxed);
    record->correlation = data.correlationId;
    record->stream = stream;
    record->event = event;
    record->bytes = a.bytes;
    record->source = a.source;
    record->target = a.target;
    record->flags = a.flags;
    record->copy_kind = a.copy_kind;
    record->state = captured ? CAPTURED : 0;
    record->stack = stack;
    record->start = now();
    commit();
}

void finish_copy(const Entry& entry, const CallRecord& record, std::uint32_t context) {
    const Arguments& a = current.arguments;
    if (a.copy_kind == H2H) {
        host_memory_changed(a.target, a.bytes);
    }
    if (a.copy_kind != D2H || a.bytes == 0 || a.target == 0) {
        return;
    }
    if (a.scattered || !on_host(a.target)) {  // managed memory: reading it here would move it
        host_memory_changed(a.target, UINT64_MAX - a.target);
        return;
    }
    HostCopy copy{record.index, a.target, a.bytes, a.width, a.pitch};
    Lane lane = lane_of(record.stream, context);
    if (record.state & CAPTURED) {
        captured_copy(copy);
    } else if (entry.categories & BLOCKING) {
        host_memory_changed(a.target, a.bytes);
        host_copy_done(copy);
        if (record.stream == 0) host_waited_for_legacy_stream(context);
        else host_waited_for_stream(lane);
    } else if (pageable(a.target)) {
        host_copy_done(copy);
    } else {
        host_copy_issued(copy, lane, context);
    }
}

void finish_allocation(const Entry& entry, CallRecord& record) {
    const Arguments& a = current.arguments;
    if (header().poison && record.bytes && captures.load() == 0) {
        if (entry.categories & POOLED) {
            poison_ordered(record.target, record.bytes, stream_handle(a.stream, entry.per_thread));
        } else {
            poison(record.target, record.bytes);
        }
    }
}

// What a call that succeeded did to the streams, the events and the host.
void follow(const Entry& entry, CallRecord& record, std::uint32_t context) {
    const Arguments& a = current.arguments;
    std::uint32_t c = entry.categories;
    Lane lane = lane_of(record.stream, context);
    void* result = a.result ? *a.result : nullptr;
    if ((c & STREAM_EVENT) && is_captured(entry, stream_handle(a.stream, entry.per_thread))) {
        record.state |= CAPTURED;  // the stream joined the capture by this wait
    }
    if (c & COPY) finish_copy(entry, record, context);
    if (c & STREAM_CREATE) record.stream = stream_created(static_cast<CUstream>(result), a.flags);
    if (c & STREAM_DESTROY) stream_destroyed(a.stream);
    if (c & EVENT_CREATE) record.event = event_created(static_cast<CUevent>(result));
    if (c & EVENT_DESTROY) event_destroyed(a.event);
    if ((c & EVENT_RECORD) && !(record.state & CAPTURED)) event_recorded(record.event, lane);
    if ((c & STREAM_EVENT) && !(record.state & CAPTURED)) stream_waits_for_event(lane, record.event);
    if (c & STREAM_WAIT) host_waited_for_stream(lane);
    if (c & EVENT_WAIT) host_waited_for_event(record.event);
    if (c & DEVICE_WAIT) host_waited_for_device(context);
    if (c & CAPTURE_BEGIN) ++captures;
    if (c & CAPTURE_END) capture_ended(result);
    if (c & INSTANTIATE) graph_instantiated(a.graph, result);
    if ((c & GRAPH_LAUNCH) && !(record.state & CAPTURED)) graph_launched(a.graph, lane, context);
    if (a.result && (c & (ALLOCATION | OTHER))) record.target = reinterpret_cast<std::uint64_t>(result);
    if (c & ALLOCATION) finish_allocation(entry, record);
}

void leave(const Entry& entry, const CUpti_CallbackData& data) {
    std::uint64_t end = now();
    CallRecord* record = current.record;
    current.record = nullptr;
    if (!record) {
        return;
    }
    std::int32_t status = data.functionReturnValue ? *static_cast<const std::int32_t*>(data.functionReturnValue) : 0;
    record->status = status;
    if ((entry.categories & CAPTURE_END) && captures.load() > 0) {
        --captures;  // also when the capture turned out to be invalid
    }
    if (status == 0) {
        follow(entry, *record, data.contextUid);
    }
    record->end = end;
    record->state |= RETURNED;
}

void on_api(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& data) {
    if (OwnCalls::running() || !recording()) {
        return;
    }
    bool driver_call = domain == CUPTI_CB_DOMAIN_DRIVER_API;
    const Entry& entry = entry_of(domain, id);
    if (data.callbackSite == CUPTI_API_ENTER) {
        if (current.depth++ == 0) {
            enter(entry, id | (driver_call ? DRIVER_BIT : 0), data);
        }
        if (full && driver_call && (entry.categories & LAUNCH)) {
            tell_launch(data, id);
        }
    } else if (current.depth > 0 && --current.depth == 0) {
        leave(entry, data);
    }
}

void on_context(const CUpti_ResourceData& data) {
    std::uint64_t time = now();
    std::uint32_t device = 0;
    cuptiGetDeviceId(data.context, &device);
    OwnCalls own;
    char name[256] = "";
    if (driver().device_name(name, sizeof name, static_cast<CUdevice>(device)) == CUDA_SUCCESS) {
        write_text(Table::DEVICE, device, name);
    }
    if (auto* record = add<ContextRecord>(Kind::CONTEXT)) {
        record->device = device;
        record->time = time;
        commit();
    }
}

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
        if (id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED) {
            on_context(*static_cast<const CUpti_ResourceData*>(data));
        }
    } else {
        on_api(domain, id, *static_cast<const CUpti_CallbackData*>(data));
    }
}

// ---------------------------------------------------------------------------------------------------------------- start

void enable(CUpti_CallbackDomain domain, CUpti_CallbackId id, const char* name) {
    if (cuptiEnableCallback(1, subscriber, domain, id) == CUPTI_SUCCESS) {
        write_text(domain == CUPTI_CB_DOMAIN_DRIVER_API ? Table::DRIVER : Table::RUNTIME, id, name);
    }
}

void at_end() {
    if (recording() && ops_recorded) {
        flush_device_ops();
    }
}

void start() {
    if (auto* record = add<ProcessRecord>(Kind::PROCESS)) {
        cuptiGetVersion(&record->cupti);
        record->time = now();
        commit();
    }
    if (!load_driver()) {
        stop_recording();
        return;
    }
    CUptiResult result = cuptiSubscribe(&subscriber, on_callback, nullptr);
    if (result != CUPTI_SUCCESS) {
        const char* message = "unknown error";
        cuptiGetResultString(result, &message);
        problem("CUPTI cannot be used: %s", message);
        stop_recording();
        return;
    }
    full = header().mode == FULL;
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
    prepare_entries(enable);
    ops_recorded = full || header().operations;
    if (ops_recorded) {
        record_device_ops();
    }
    pthread_atfork(nullptr, nullptr, stop_recording);
    std::atexit(at_end);
}

}  // namespace
}  // namespace stitch

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
    if (stitch::open_channel()) {
        stitch::start();
    }
    return 1;
}
