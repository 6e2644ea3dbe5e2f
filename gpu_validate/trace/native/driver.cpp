#include "driver.h"

#include <dlfcn.h>

#include "channel.h"

namespace stitch {
namespace {

Driver functions;
thread_local bool own_calls = false;

template <class F>
bool find(void* library, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (!function) {
        problem("the driver has no %s", name);
    }
    return function != nullptr;
}

}  // namespace

bool load_driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!library) {
        problem("the driver's library is not loaded: %s", dlerror());
        return false;
    }
    Driver& d = functions;
    return find(library, d.pointer_attribute, "cuPointerGetAttribute") &&
           find(library, d.kernel_parameter, "cuKernelGetParamInfo") &&
           find(library, d.function_parameter, "cuFuncGetParamInfo") &&
           find(library, d.is_capturing, "cuStreamIsCapturing") &&
           find(library, d.launch_host_function, "cuLaunchHostFunc") &&
           find(library, d.set_bytes, "cuMemsetD8Async") && find(library, d.create_stream, "cuStreamCreate") &&
           find(library, d.synchronize, "cuStreamSynchronize") &&
           find(library, d.current_context, "cuCtxGetCurrent") && find(library, d.device_name, "cuDeviceGetName");
}

const Driver& driver() { return functions; }

OwnCalls::OwnCalls() : outer_(own_calls) { own_calls = true; }
OwnCalls::~OwnCalls() { own_calls = outer_; }
bool OwnCalls::running() { return own_calls; }

bool capturing(CUstream stream) {
    OwnCalls own;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return functions.is_capturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace stitch
