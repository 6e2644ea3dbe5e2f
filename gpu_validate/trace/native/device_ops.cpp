#include "device_ops.h"

#include <cupti.h>
#include <pthread.h>
#include <signal.h>

#include <cstdlib>

#include "arguments.h"
#include "channel.h"

namespace stitch {
namespace {

#if CUPTI_API_VERSION >= 130000
using KernelActivity = CUpti_ActivityKernel10;
using CopyActivity = CUpti_ActivityMemcpy6;
#else
using KernelActivity = CUpti_ActivityKernel9;
using CopyActivity = CUpti_ActivityMemcpy5;
#endif
using PeerCopyActivity = CUpti_ActivityMemcpyPtoP4;
using SetActivity = CUpti_ActivityMemset4;

constexpr std::size_t BUFFER_BYTES = 1 << 20;
constexpr long FLUSH_NANOSECONDS = 100'000'000;  // what a killed program may lose

void check(CUptiResult result, const char* what) {
    if (result != CUPTI_SUCCESS) {
        const char* message = "unknown error";
        cuptiGetResultString(result, &message);
        problem("CUPTI: %s: %s", what, message);
    }
}

template <class A>
OpRecord* tell(const A& activity, OpKind kind) {
    auto* op = add<OpRecord>(Kind::OP);
    if (op) {
        op->kind = kind;
        op->start = activity.start;
        op->end = activity.end;
        op->correlation = activity.correlationId;
        op->cupti_stream = activity.streamId;
        op->graph_node = activity.graphNodeId;
        op->copy_kind = NO_COPY;
    }
    return op;
}

std::uint32_t copy_kind(unsigned kind) {
    switch (kind) {
        case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
        case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA: return H2D;
        case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
        case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH: return D2H;
        case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: return H2H;
        default: return D2D;
    }
}

void take(const CUpti_Activity* record) {
    switch (record->kind) {
        case CUPTI_ACTIVITY_KIND_KERNEL:
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
            const auto& activity = *reinterpret_cast<const KernelActivity*>(record);
            std::uint32_t name = text_id(Table::KERNEL, activity.name ? activity.name : "");
            if (auto* op = tell(activity, OpKind::KERNEL)) {
                op->name = name;
                op->registers = activity.registersPerThread;
            }
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMCPY: {
            const auto& activity = *reinterpret_cast<const CopyActivity*>(record);
            if (auto* op = tell(activity, OpKind::COPY)) {
                op->bytes = activity.bytes;
                op->copy_kind = copy_kind(activity.copyKind);
            }
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMCPY2: {
            const auto& activity = *reinterpret_cast<const PeerCopyActivity*>(record);
            if (auto* op = tell(activity, OpKind::COPY)) {
                op->bytes = activity.bytes;
                op->copy_kind = D2D;
            }
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMSET: {
            const auto& activity = *reinterpret_cast<const SetActivity*>(record);
            if (auto* op = tell(activity, OpKind::SET)) {
                op->bytes = activity.bytes;
            }
            break;
        }
        default: return;
    }
    commit();
}

void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    *size = BUFFER_BYTES;
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, BUFFER_BYTES));
    *records = 0;
}

void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                               std::size_t valid) {
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        take(record);
    }
    std::size_t dropped = 0;
    cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
    header().dropped.fetch_add(dropped);
    std::free(buffer);
}

std::uint64_t CUPTIAPI timestamp() { return now(); }

// CUPTI hands records out when a buffer is full or when it is asked to. Its own timer (cuptiActivityFlushPeriod) gave none in
// 0.4 s (CUDA 13.0), so a thread asks.
void* flush_often(void*) {
    timespec period{0, FLUSH_NANOSECONDS};
    while (recording()) {
        nanosleep(&period, nullptr);
        cuptiActivityFlushAll(0);
    }
    return nullptr;
}

void start_flushing() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's own threads
    pthread_t thread;
    if (pthread_create(&thread, nullptr, flush_often, nullptr) == 0) {
        pthread_detach(thread);
    } else {
        problem("no thread could be started: a killed program loses device operations");
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void record_device_ops() {
    check(cuptiActivityRegisterTimestampCallback(timestamp), "the clock");
    check(cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed), "buffers");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "kernels");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), "copies");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY2), "copies between devices");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET), "memsets");
    start_flushing();
}

void flush_device_ops() {
    check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "the last records");
}

}  // namespace stitch
