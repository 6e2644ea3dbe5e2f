#include "arguments.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

namespace stitch {
namespace {

constexpr int RUNTIME_CALLS = CUPTI_RUNTIME_TRACE_CBID_SIZE;
constexpr int DRIVER_CALLS = CUPTI_DRIVER_TRACE_CBID_SIZE;
Entry runtime_entries[RUNTIME_CALLS];
Entry driver_entries[DRIVER_CALLS];
const Entry NOTHING;

// ------------------------------------------------------------------------------------------------ parameter structures
//
// The structures of the variants of a call (versions, per-thread stream) have the same members, and related calls use the
// same names. So one function reads them all: it takes what members the structure has.

#define MEMBER(name)                                                             \
    template <class P, class = void>                                             \
    struct has_##name : std::false_type {};                                      \
    template <class P>                                                           \
    struct has_##name<P, std::void_t<decltype(std::declval<P>().name)>> : std::true_type {};

MEMBER(stream)
MEMBER(hStream)
MEMBER(event)
MEMBER(hEvent)
MEMBER(phEvent)
MEMBER(pStream)
MEMBER(phStream)
MEMBER(size)
MEMBER(count)
MEMBER(bytesize)
MEMBER(ByteCount)
MEMBER(N)
MEMBER(width)
MEMBER(height)
MEMBER(dpitch)
MEMBER(dst)
MEMBER(dstHost)
MEMBER(dstDevice)
MEMBER(src)
MEMBER(srcHost)
MEMBER(srcDevice)
MEMBER(devPtr)
MEMBER(dptr)
MEMBER(ptr)
MEMBER(pp)
MEMBER(p)
MEMBER(pHost)
MEMBER(kind)
MEMBER(flags)
MEMBER(Flags)
MEMBER(config)
MEMBER(graph)
MEMBER(hGraph)
MEMBER(graphExec)
MEMBER(pGraphExec)
MEMBER(phGraphExec)
MEMBER(pGraph)
MEMBER(phGraph)
#undef MEMBER

template <class T>
std::uint64_t address(T value) {
    if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<std::uint64_t>(value);
    } else {
        return static_cast<std::uint64_t>(value);
    }
}

// A pointer argument: to where the call puts its result, or a plain address.
template <class T>
void pointer(T value, Arguments& a) {
    using Pointee = std::remove_pointer_t<T>;
    if constexpr (std::is_pointer_v<T> && (std::is_pointer_v<Pointee> || std::is_same_v<Pointee, CUdeviceptr>)) {
        a.result = reinterpret_cast<void**>(value);
    } else {
        a.target = address(value);
    }
}

template <class P>
void fill(const void* parameters, Arguments& a) {
    const P& p = *static_cast<const P*>(parameters);
    (void)p;
    if constexpr (has_stream<P>::value) a.has_stream = true, a.stream = reinterpret_cast<CUstream>(p.stream);
    if constexpr (has_hStream<P>::value) a.has_stream = true, a.stream = reinterpret_cast<CUstream>(p.hStream);
    if constexpr (has_pStream<P>::value) a.result = reinterpret_cast<void**>(p.pStream);
    if constexpr (has_phStream<P>::value) a.result = reinterpret_cast<void**>(p.phStream);
    if constexpr (has_event<P>::value) {
        if constexpr (std::is_same_v<decltype(p.event), cudaEvent_t*>) {
            a.result = reinterpret_cast<void**>(p.event);
        } else {
            a.event = reinterpret_cast<CUevent>(p.event);
        }
    }
    if constexpr (has_hEvent<P>::value) a.event = p.hEvent;
    if constexpr (has_phEvent<P>::value) a.result = reinterpret_cast<void**>(p.phEvent);
    if constexpr (has_size<P>::value) a.bytes = p.size;
    if constexpr (has_count<P>::value) a.bytes = p.count;
    if constexpr (has_bytesize<P>::value) a.bytes = p.bytesize;
    if constexpr (has_ByteCount<P>::value) a.bytes = p.ByteCount;
    if constexpr (has_N<P>::value) a.bytes = p.N;
    if constexpr (has_width<P>::value && has_height<P>::value) {
        a.width = p.width;
        a.height = p.height;
        a.bytes = p.width * p.height;
    }
    if constexpr (has_dpitch<P>::value) a.pitch = p.dpitch;
    if constexpr (has_dst<P>::value) a.target = address(p.dst);
    if constexpr (has_dstHost<P>::value) a.target = address(p.dstHost);
    if constexpr (has_dstDevice<P>::value) a.target = address(p.dstDevice);
    if constexpr (has_src<P>::value) a.source = address(p.src);
    if constexpr (has_srcHost<P>::value) a.source = address(p.srcHost);
    if constexpr (has_srcDevice<P>::value) a.source = address(p.srcDevice);
    if constexpr (has_devPtr<P>::value) pointer(p.devPtr, a);
    if constexpr (has_dptr<P>::value) pointer(p.dptr, a);
    if constexpr (has_ptr<P>::value) pointer(p.ptr, a);
    if constexpr (has_pp<P>::value) pointer(p.pp, a);
    if constexpr (has_p<P>::value) pointer(p.p, a);
    if constexpr (has_pHost<P>::value) pointer(p.pHost, a);
    if constexpr (has_kind<P>::value) a.copy_kind = static_cast<std::uint8_t>(p.kind);
    if constexpr (has_flags<P>::value) a.flags = static_cast<std::uint32_t>(p.flags);
    if constexpr (has_Flags<P>::value) a.flags = static_cast<std::uint32_t>(p.Flags);
    if constexpr (has_config<P>::value) {
        a.has_stream = true;
        using Config = std::remove_cv_t<std::remove_pointer_t<decltype(p.config)>>;
        if constexpr (std::is_same_v<Config, CUlaunchConfig>) {
            a.stream = p.config ? p.config->hStream : nullptr;
        } else {
            a.stream = p.config ? reinterpret_cast<CUstream>(p.config->stream) : nullptr;
        }
    }
    if constexpr (has_graph<P>::value) a.graph = reinterpret_cast<void*>(p.graph);
    if constexpr (has_hGraph<P>::value) a.graph = reinterpret_cast<void*>(p.hGraph);
    if constexpr (has_graphExec<P>::value) a.graph = reinterpret_cast<void*>(p.graphExec);
    if constexpr (has_pGraphExec<P>::value) a.result = reinterpret_cast<void**>(p.pGraphExec);
    if constexpr (has_phGraphExec<P>::value) a.result = reinterpret_cast<void**>(p.phGraphExec);
    if constexpr (has_pGraph<P>::value) a.result = reinterpret_cast<void**>(p.pGraph);
    if constexpr (has_phGraph<P>::value) a.result = reinterpret_cast<void**>(p.phGraph);
}

template <class P>
void fill_3d(const void* parameters, Arguments& a) {
    const P& p = *static_cast<const P*>(parameters);
    if constexpr (has_stream<P>::value) a.has_stream = true, a.stream = reinterpret_cast<CUstream>(p.stream);
    if (p.p) {
        a.copy_kind = static_cast<std::uint8_t>(p.p->kind);
        a.source = address(p.p->srcPtr.ptr);
        a.target = address(p.p->dstPtr.ptr);
        a.bytes = p.p->extent.width * p.p->extent.height * p.p->extent.depth;
        a.scattered = true;
    }
}

template <class P>
void fill_stream(const void* parameters, Arguments& a) {
    const P& p = *static_cast<const P*>(parameters);
    if constexpr (has_stream<P>::value) a.has_stream = true, a.stream = reinterpret_cast<CUstream>(p.stream);
    if constexpr (has_hStream<P>::value) a.has_stream = true, a.stream = p.hStream;
}

std::uint8_t kind_of_sides(CUmemorytype source, CUmemorytype target) {
    if (source == CU_MEMORYTYPE_UNIFIED || target == CU_MEMORYTYPE_UNIFIED) return NO_COPY;
    return static_cast<std::uint8_t>((source == CU_MEMORYTYPE_HOST ? 0 : 2) + (target == CU_MEMORYTYPE_HOST ? 0 : 1));
}

template <class P>
void fill_rows(const void* parameters, Arguments& a) {
    fill_stream<P>(parameters, a);
    if (const CUDA_MEMCPY2D* copy = static_cast<const P*>(parameters)->pCopy) {
        a.copy_kind = kind_of_sides(copy->srcMemoryType, copy->dstMemoryType);
        a.width = copy->WidthInBytes;
        a.height = copy->Height;
        a.bytes = a.width * a.height;
        a.pitch = copy->dstPitch ? copy->dstPitch : a.width;
        std::uint64_t inside = copy->dstY * a.pitch + copy->dstXInBytes;
        if (copy->dstMemoryType == CU_MEMORYTYPE_HOST) a.target = address(copy->dstHost) + inside;
        if (copy->dstMemoryType == CU_MEMORYTYPE_DEVICE) a.target = copy->dstDevice + inside;
        if (copy->srcMemoryType == CU_MEMORYTYPE_HOST) a.source = address(copy->srcHost);
        if (copy->srcMemoryType == CU_MEMORYTYPE_DEVICE) a.source = copy->srcDevice;
    }
}

template <class P>
void fill_box(const void* parameters, Arguments& a) {
    fill_stream<P>(parameters, a);
    if (const CUDA_MEMCPY3D* copy = static_cast<const P*>(parameters)->pCopy) {
        a.copy_kind = kind_of_sides(copy->srcMemoryType, copy->dstMemoryType);
        a.bytes = copy->WidthInBytes * copy->Height * copy->Depth;
        if (copy->dstMemoryType == CU_MEMORYTYPE_HOST) a.target = address(copy->dstHost);
        a.scattered = true;
    }
}

struct Reader {
    int id;
    void (*read)(const void*, Arguments&);
};

#define RUNTIME(name) {CUPTI_RUNTIME_TRACE_CBID_##name, fill<name##_params>},
#define RUNTIME_STREAM(name) {CUPTI_RUNTIME_TRACE_CBID_##name, fill_stream<name##_params>},
#define RUNTIME_3D(name) {CUPTI_RUNTIME_TRACE_CBID_##name, fill_3d<name##_params>},
const Reader RUNTIME_READERS[] = {
    RUNTIME(cudaMalloc_v3020) RUNTIME(cudaMallocHost_v3020) RUNTIME(cudaHostAlloc_v3020)
    RUNTIME(cudaMallocPitch_v3020) RUNTIME(cudaMallocManaged_v6000)
    RUNTIME(cudaMallocAsync_v11020) RUNTIME(cudaMallocAsync_ptsz_v11020)
    RUNTIME(cudaMallocFromPoolAsync_v11020) RUNTIME(cudaMallocFromPoolAsync_ptsz_v11020)
    RUNTIME(cudaFree_v3020) RUNTIME(cudaFreeHost_v3020)
    RUNTIME(cudaFreeAsync_v11020) RUNTIME(cudaFreeAsync_ptsz_v11020)
    RUNTIME(cudaHostRegister_v4000) RUNTIME(cudaHostUnregister_v4000)
    RUNTIME(cudaMemcpy_v3020) RUNTIME(cudaMemcpy_ptds_v7000)
    RUNTIME(cudaMemcpyAsync_v3020) RUNTIME(cudaMemcpyAsync_ptsz_v7000)
    RUNTIME(cudaMemcpy2D_v3020) RUNTIME(cudaMemcpy2D_ptds_v7000)
    RUNTIME(cudaMemcpy2DAsync_v3020) RUNTIME(cudaMemcpy2DAsync_ptsz_v7000)
    RUNTIME(cudaMemcpyFromArray_v3020) RUNTIME(cudaMemcpyFromArray_ptds_v7000)
    RUNTIME(cudaMemcpyFromArrayAsync_v3020) RUNTIME(cudaMemcpyFromArrayAsync_ptsz_v7000)
    RUNTIME(cudaMemcpy2DFromArray_v3020) RUNTIME(cudaMemcpy2DFromArray_ptds_v7000)
    RUNTIME(cudaMemcpy2DFromArrayAsync_v3020) RUNTIME(cudaMemcpy2DFromArrayAsync_ptsz_v7000)
    RUNTIME_3D(cudaMemcpy3D_v3020) RUNTIME_3D(cudaMemcpy3D_ptds_v7000)
    RUNTIME_3D(cudaMemcpy3DAsync_v3020) RUNTIME_3D(cudaMemcpy3DAsync_ptsz_v7000)
    RUNTIME(cudaMemcpyToSymbol_v3020) RUNTIME(cudaMemcpyToSymbol_ptds_v7000)
    RUNTIME(cudaMemcpyToSymbolAsync_v3020) RUNTIME(cudaMemcpyToSymbolAsync_ptsz_v7000)
    RUNTIME(cudaMemcpyFromSymbol_v3020) RUNTIME(cudaMemcpyFromSymbol_ptds_v7000)
    RUNTIME(cudaMemcpyFromSymbolAsync_v3020) RUNTIME(cudaMemcpyFromSymbolAsync_ptsz_v7000)
    RUNTIME(cudaMemcpyPeer_v4000) RUNTIME(cudaMemcpyPeerAsync_v4000)
    RUNTIME(cudaMemset_v3020) RUNTIME(cudaMemset_ptds_v7000)
    RUNTIME(cudaMemsetAsync_v3020) RUNTIME(cudaMemsetAsync_ptsz_v7000)
    RUNTIME(cudaMemset2D_v3020) RUNTIME(cudaMemset2D_ptds_v7000)
    RUNTIME(cudaMemset2DAsync_v3020) RUNTIME(cudaMemset2DAsync_ptsz_v7000)
    RUNTIME(cudaMemPrefetchAsync_v12020) RUNTIME(cudaMemPrefetchAsync_ptsz_v12020)
    RUNTIME_STREAM(cudaMemset3DAsync_v3020) RUNTIME_STREAM(cudaMemset3DAsync_ptsz_v7000)
    RUNTIME_STREAM(cudaMemcpyToArrayAsync_v3020) RUNTIME_STREAM(cudaMemcpyToArrayAsync_ptsz_v7000)
    RUNTIME_STREAM(cudaMemcpy2DToArrayAsync_v3020) RUNTIME_STREAM(cudaMemcpy2DToArrayAsync_ptsz_v7000)
    RUNTIME_STREAM(cudaMemcpy3DPeerAsync_v4000) RUNTIME_STREAM(cudaMemcpy3DPeerAsync_ptsz_v7000)
    RUNTIME_STREAM(cudaStreamAttachMemAsync_v6000) RUNTIME_STREAM(cudaStreamAttachMemAsync_ptsz_v7000)
#if CUPTI_API_VERSION >= 130000
    RUNTIME_STREAM(cudaMemcpyBatchAsync_v13000) RUNTIME_STREAM(cudaMemcpyBatchAsync_ptsz_v13000)
    RUNTIME_STREAM(cudaMemcpy3DBatchAsync_v13000) RUNTIME_STREAM(cudaMemcpy3DBatchAsync_ptsz_v13000)
    RUNTIME_STREAM(cudaStreamBeginCaptureToGraph_v12030) RUNTIME_STREAM(cudaStreamBeginCaptureToGraph_ptsz_v12030)
#endif
    RUNTIME(cudaLaunchKernel_v7000) RUNTIME(cudaLaunchKernel_ptsz_v7000)
    RUNTIME(cudaLaunchKernelExC_v11060) RUNTIME(cudaLaunchKernelExC_ptsz_v11060)
    RUNTIME(cudaLaunchCooperativeKernel_v9000) RUNTIME(cudaLaunchCooperativeKernel_ptsz_v9000)
    RUNTIME(cudaLaunchHostFunc_v10000) RUNTIME(cudaLaunchHostFunc_ptsz_v10000)
    RUNTIME(cudaStreamAddCallback_v5000) RUNTIME(cudaStreamAddCallback_ptsz_v7000)
    RUNTIME(cudaStreamCreate_v3020) RUNTIME(cudaStreamCreateWithFlags_v5000)
    RUNTIME(cudaStreamCreateWithPriority_v5050) RUNTIME(cudaStreamDestroy_v5050)
    RUNTIME(cudaStreamSynchronize_v3020) RUNTIME(cudaStreamSynchronize_ptsz_v7000)
    RUNTIME(cudaStreamQuery_v3020) RUNTIME(cudaStreamQuery_ptsz_v7000)
    RUNTIME(cudaStreamWaitEvent_v3020) RUNTIME(cudaStreamWaitEvent_ptsz_v7000)
    RUNTIME(cudaEventCreate_v3020) RUNTIME(cudaEventCreateWithFlags_v3020) RUNTIME(cudaEventDestroy_v3020)
    RUNTIME(cudaEventRecord_v3020) RUNTIME(cudaEventRecord_ptsz_v7000)
    RUNTIME(cudaEventRecordWithFlags_v11010) RUNTIME(cudaEventRecordWithFlags_ptsz_v11010)
    RUNTIME(cudaEventSynchronize_v3020) RUNTIME(cudaEventQuery_v3020)
    RUNTIME(cudaStreamBeginCapture_v10000) RUNTIME(cudaStreamBeginCapture_ptsz_v10000)
    RUNTIME(cudaStreamEndCapture_v10000) RUNTIME(cudaStreamEndCapture_ptsz_v10000)
    RUNTIME(cudaGraphInstantiate_v12000) RUNTIME(cudaGraphInstantiateWithFlags_v11040)
    RUNTIME(cudaGraphInstantiateWithParams_v12000)
    RUNTIME(cudaGraphLaunch_v10000) RUNTIME(cudaGraphLaunch_ptsz_v10000)
};
#undef RUNTIME
#undef RUNTIME_STREAM
#undef RUNTIME_3D

#define DRIVER(name) {CUPTI_DRIVER_TRACE_CBID_##name, fill<name##_params>},
#define DRIVER_STREAM(name) \
    {CUPTI_DRIVER_TRACE_CBID_##name, fill_stream<name##_params>}, \
    {CUPTI_DRIVER_TRACE_CBID_##name##_ptsz, fill_stream<name##_params>},
#define DRIVER_BY(fill_as, name, same) {CUPTI_DRIVER_TRACE_CBID_##name, fill_as<same##_params>},
#define DRIVER_ALSO(name, same) {CUPTI_DRIVER_TRACE_CBID_##name, fill<same##_params>},
const Reader DRIVER_READERS[] = {
    DRIVER(cuMemAlloc_v2) DRIVER(cuMemAllocManaged) DRIVER(cuMemHostAlloc) DRIVER(cuMemAllocHost_v2)
    DRIVER(cuMemAllocAsync) DRIVER_ALSO(cuMemAllocAsync_ptsz, cuMemAllocAsync)
    DRIVER(cuMemAllocFromPoolAsync) DRIVER_ALSO(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync)
    DRIVER(cuMemFree_v2) DRIVER(cuMemFreeHost)
    DRIVER(cuMemFreeAsync) DRIVER_ALSO(cuMemFreeAsync_ptsz, cuMemFreeAsync)
    DRIVER(cuMemHostRegister_v2) DRIVER(cuMemHostUnregister)
    DRIVER(cuMemcpy) DRIVER_ALSO(cuMemcpy_ptds, cuMemcpy)
    DRIVER(cuMemcpyAsync) DRIVER_ALSO(cuMemcpyAsync_ptsz, cuMemcpyAsync)
    DRIVER(cuMemcpyHtoD_v2) DRIVER_ALSO(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2)
    DRIVER(cuMemcpyDtoH_v2) DRIVER_ALSO(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH_v2)
    DRIVER(cuMemcpyDtoD_v2) DRIVER_ALSO(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD_v2)
    DRIVER(cuMemcpyHtoDAsync_v2) DRIVER_ALSO(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2)
    DRIVER(cuMemcpyDtoHAsync_v2) DRIVER_ALSO(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2)
    DRIVER(cuMemcpyDtoDAsync_v2) DRIVER_ALSO(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2)
    DRIVER(cuMemcpyAtoH_v2) DRIVER_ALSO(cuMemcpyAtoH_v2_ptds, cuMemcpyAtoH_v2)
    DRIVER(cuMemcpyAtoHAsync_v2) DRIVER_ALSO(cuMemcpyAtoHAsync_v2_ptsz, cuMemcpyAtoHAsync_v2)
    DRIVER_BY(fill_rows, cuMemcpy2D_v2, cuMemcpy2D_v2) DRIVER_BY(fill_rows, cuMemcpy2D_v2_ptds, cuMemcpy2D_v2)
    DRIVER_BY(fill_rows, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2)
    DRIVER_BY(fill_rows, cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DUnaligned_v2)
    DRIVER_BY(fill_rows, cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2)
    DRIVER_BY(fill_rows, cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync_v2)
    DRIVER_BY(fill_box, cuMemcpy3D_v2, cuMemcpy3D_v2) DRIVER_BY(fill_box, cuMemcpy3D_v2_ptds, cuMemcpy3D_v2)
    DRIVER_BY(fill_box, cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2)
    DRIVER_BY(fill_box, cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync_v2)
    DRIVER_STREAM(cuMemcpyHtoAAsync_v2) DRIVER_STREAM(cuMemcpy3DPeerAsync)
    DRIVER_STREAM(cuMemsetD2D8Async) DRIVER_STREAM(cuMemsetD2D16Async) DRIVER_STREAM(cuMemsetD2D32Async)
    DRIVER(cuMemcpyPeerAsync) DRIVER_ALSO(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync)
    DRIVER_STREAM(cuStreamAttachMemAsync) DRIVER_STREAM(cuStreamAddCallback)
#if CUPTI_API_VERSION >= 130000
    DRIVER_STREAM(cuMemcpyBatchAsync_v2) DRIVER_STREAM(cuMemcpy3DBatchAsync_v2)
    DRIVER_STREAM(cuStreamBeginCaptureToGraph)
#endif
    DRIVER(cuMemsetD8_v2) DRIVER(cuMemsetD16_v2) DRIVER(cuMemsetD32_v2)
    DRIVER_ALSO(cuMemsetD8_v2_ptds, cuMemsetD8_v2) DRIVER_ALSO(cuMemsetD16_v2_ptds, cuMemsetD16_v2)
    DRIVER_ALSO(cuMemsetD32_v2_ptds, cuMemsetD32_v2)
    DRIVER(cuMemsetD8Async) DRIVER(cuMemsetD16Async) DRIVER(cuMemsetD32Async)
    DRIVER_ALSO(cuMemsetD8Async_ptsz, cuMemsetD8Async) DRIVER_ALSO(cuMemsetD16Async_ptsz, cuMemsetD16Async)
    DRIVER_ALSO(cuMemsetD32Async_ptsz, cuMemsetD32Async)
    DRIVER(cuLaunchKernel) DRIVER_ALSO(cuLaunchKernel_ptsz, cuLaunchKernel)
    DRIVER(cuLaunchKernelEx) DRIVER_ALSO(cuLaunchKernelEx_ptsz, cuLaunchKernelEx)
    DRIVER(cuLaunchCooperativeKernel) DRIVER_ALSO(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel)
    DRIVER(cuLaunchHostFunc) DRIVER_ALSO(cuLaunchHostFunc_ptsz, cuLaunchHostFunc)
    DRIVER(cuStreamCreate) DRIVER(cuStreamCreateWithPriority) DRIVER(cuStreamDestroy_v2)
    DRIVER(cuStreamSynchronize) DRIVER_ALSO(cuStreamSynchronize_ptsz, cuStreamSynchronize)
    DRIVER(cuStreamQuery) DRIVER_ALSO(cuStreamQuery_ptsz, cuStreamQuery)
    DRIVER(cuStreamWaitEvent) DRIVER_ALSO(cuStreamWaitEvent_ptsz, cuStreamWaitEvent)
    DRIVER(cuEventCreate) DRIVER(cuEventDestroy_v2)
    DRIVER(cuEventRecord) DRIVER_ALSO(cuEventRecord_ptsz, cuEventRecord)
    DRIVER(cuEventRecordWithFlags) DRIVER_ALSO(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags)
    DRIVER(cuEventSynchronize) DRIVER(cuEventQuery)
    DRIVER(cuStreamBeginCapture_v2) DRIVER_ALSO(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2)
    DRIVER(cuStreamEndCapture) DRIVER_ALSO(cuStreamEndCapture_ptsz, cuStreamEndCapture)
    DRIVER(cuGraphInstantiateWithFlags) DRIVER(cuGraphInstantiateWithParams)
    DRIVER(cuGraphLaunch) DRIVER_ALSO(cuGraphLaunch_ptsz, cuGraphLaunch)
};
#undef DRIVER
#undef DRIVER_STREAM
#undef DRIVER_BY
#undef DRIVER_ALSO

// --------------------------------------------------------------------------------------------------------------- names

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }
bool starts(const std::string& text, const char* part) { return text.rfind(part, 0) == 0; }

std::uint32_t copy_or_set(const std::string& rest, Category category) {
    bool blocking = !contains(rest, "Async");
    return blocking ? category | BLOCKING : std::uint32_t{category};
}

// What a call is, by its name without "cuda" or "cu". Queries that are made all the time and say nothing are left out.
std::uint32_t categories_of(const std::string& rest) {
    if (contains(rest, "Get") || contains(rest, "IsCapturing") || contains(rest, "Attribute")) return 0;
    if (starts(rest, "LaunchHostFunc") || starts(rest, "StreamAddCallback")) return OTHER;
    if (starts(rest, "Launch")) return LAUNCH;
    if (starts(rest, "GraphLaunch")) return GRAPH_LAUNCH;
    if (starts(rest, "GraphInstantiate")) return INSTANTIATE;
    if (starts(rest, "Memcpy")) return copy_or_set(rest, COPY);
    if (starts(rest, "Memset")) return copy_or_set(rest, SET);
    if (starts(rest, "MallocHost") || starts(rest, "HostAlloc") || starts(rest, "MallocManaged")) return OTHER;
    for (const char* name : {"MemAllocHost", "MemHostAlloc", "MemHostRegister", "MemAllocManaged"}) {
        if (starts(rest, name)) return OTHER;
    }
    if (starts(rest, "MallocArray") || starts(rest, "Malloc3DArray") || starts(rest, "FreeArray")) return OTHER;
    if (starts(rest, "Malloc") || starts(rest, "MemAlloc")) {
        return contains(rest, "Async") ? ALLOCATION | POOLED : unsigned{ALLOCATION};
    }
    for (const char* name : {"FreeHost", "MemFreeHost", "HostUnregister", "MemHostUnregister"}) {
        if (starts(rest, name)) return HOST_FREE;
    }
    if (starts(rest, "Free") || starts(rest, "MemFree")) return contains(rest, "Async") ? OTHER | POOLED : unsigned{OTHER};
    if (starts(rest, "StreamCreate")) return STREAM_CREATE;
    if (starts(rest, "StreamDestroy")) return STREAM_DESTROY;
    if (starts(rest, "StreamSynchronize") || starts(rest, "StreamQuery")) return STREAM_WAIT;
    if (starts(rest, "StreamWaitEvent")) return STREAM_EVENT;
    if (starts(rest, "StreamBeginCapture")) return CAPTURE_BEGIN;
    if (starts(rest, "StreamEndCapture")) return CAPTURE_END;
    if (starts(rest, "EventCreate")) return EVENT_CREATE;
    if (starts(rest, "EventDestroy")) return EVENT_DESTROY;
    if (starts(rest, "EventRecord")) return EVENT_RECORD;
    if (starts(rest, "EventSynchronize") || starts(rest, "EventQuery")) return EVENT_WAIT;
    if (starts(rest, "DeviceSynchronize") || starts(rest, "CtxSynchronize") || starts(rest, "ThreadSynchronize")) {
        return DEVICE_WAIT;
    }
    for (const char* other : {"HostRegister", "EventElapsedTime", "StreamAttach", "StreamWaitValue",
                              "StreamWriteValue", "StreamBatchMemOp", "MemPrefetch", "DeviceReset", "SetDevice",
                              "GraphAdd", "GraphExec", "GraphCreate", "GraphClone", "GraphDestroy", "MemDiscard"}) {
        if (starts(rest, other)) return OTHER;
    }
    return 0;
}

std::uint8_t copy_kind_of(const std::string& name) {
    if (contains(name, "HtoD")) return H2D;
    if (contains(name, "DtoH") || contains(name, "AtoH")) return D2H;
    if (contains(name, "DtoD") || contains(name, "Peer")) return D2D;
    return starts(name, "cuMemcpy_") || starts(name, "cuMemcpyAsync") || name == "cuMemcpy" ? BY_ADDRESS : NO_COPY;
}

void prepare(CUpti_CallbackDomain domain, Entry* entries, int size,
             void (*wanted)(CUpti_CallbackDomain, CUpti_CallbackId, const char*)) {
    bool driver = domain == CUPTI_CB_DOMAIN_DRIVER_API;
    for (int id = 1; id < size; ++id) {
        const char* text = nullptr;
        if (cuptiGetCallbackName(domain, static_cast<CUpti_CallbackId>(id), &text) != CUPTI_SUCCESS || !text) {
            continue;
        }
        std::string name = text;
        const char* prefix = driver ? "cu" : "cuda";
        if (!starts(name, prefix)) {
            continue;
        }
        Entry& entry = entries[id];
        entry.categories = categories_of(name.substr(std::strlen(prefix)));
        if (!entry.categories) {
            continue;
        }
        entry.per_thread = contains(name, "_ptsz") || contains(name, "_ptds");
        entry.copy_kind = copy_kind_of(name);
        entry.element = contains(name, "D32") ? 4 : contains(name, "D16") ? 2 : 1;
        wanted(domain, static_cast<CUpti_CallbackId>(id), text);
    }
}

}  // namespace

const Entry& entry_of(CUpti_CallbackDomain domain, CUpti_CallbackId id) {
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
        return id < static_cast<unsigned>(RUNTIME_CALLS) ? runtime_entries[id] : NOTHING;
    }
    return id < static_cast<unsigned>(DRIVER_CALLS) ? driver_entries[id] : NOTHING;
}

void prepare_entries(void (*wanted)(CUpti_CallbackDomain, CUpti_CallbackId, const char*)) {
    for (const Reader& reader : RUNTIME_READERS) runtime_entries[reader.id].read = reader.read;
    for (const Reader& reader : DRIVER_READERS) driver_entries[reader.id].read = reader.read;
    prepare(CUPTI_CB_DOMAIN_RUNTIME_API, runtime_entries, RUNTIME_CALLS, wanted);
    prepare(CUPTI_CB_DOMAIN_DRIVER_API, driver_entries, DRIVER_CALLS, wanted);
}

bool read_launch(CUpti_CallbackId id, const void* parameters, Launch& launch) {
    switch (id) {
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz: {
            const auto& p = *static_cast<const cuLaunchKernel_params*>(parameters);
            launch = {p.f, {p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ},
                      p.sharedMemBytes, p.kernelParams, p.extra};
            return true;
        }
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz: {
            const auto& p = *static_cast<const cuLaunchKernelEx_params*>(parameters);
            if (!p.config) return false;
            const CUlaunchConfig& c = *p.config;
            launch = {p.f, {c.gridDimX, c.gridDimY, c.gridDimZ}, {c.blockDimX, c.blockDimY, c.blockDimZ},
                      c.sharedMemBytes, p.kernelParams, p.extra};
            return true;
        }
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz: {
            const auto& p = *static_cast<const cuLaunchCooperativeKernel_params*>(parameters);
            launch = {p.f, {p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ},
                      p.sharedMemBytes, p.kernelParams, nullptr};
            return true;
        }
        default: return false;
    }
}

}  // namespace stitch
