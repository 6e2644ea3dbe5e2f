// The driver's functions that the tracer calls itself. They are taken from the driver that loaded the tracer, so that the
// tracer can be built, and loaded, where there is no driver.
#pragma once

#include <cuda.h>

namespace stitch {

struct Driver {
    CUresult (*pointer_attribute)(void*, CUpointer_attribute, CUdeviceptr) = nullptr;
    CUresult (*kernel_parameter)(CUkernel, std::size_t, std::size_t*, std::size_t*) = nullptr;
    CUresult (*function_parameter)(CUfunction, std::size_t, std::size_t*, std::size_t*) = nullptr;
    CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus*) = nullptr;
    CUresult (*launch_host_function)(CUstream, CUhostFn, void*) = nullptr;
    CUresult (*set_bytes)(CUdeviceptr, unsigned char, std::size_t, CUstream) = nullptr;
    CUresult (*create_stream)(CUstream*, unsigned) = nullptr;
    CUresult (*synchronize)(CUstream) = nullptr;
    CUresult (*current_context)(CUcontext*) = nullptr;
    CUresult (*device_name)(char*, int, CUdevice) = nullptr;
};

// False, with what is missing told as a problem, when the driver lacks one of them.
bool load_driver();
const Driver& driver();

// While one lives on a thread, API calls of this thread are the tracer's own and are not told.
class OwnCalls {
public:
    OwnCalls();
    ~OwnCalls();
    OwnCalls(const OwnCalls&) = delete;
    OwnCalls& operator=(const OwnCalls&) = delete;
    static bool running();

private:
    bool outer_;
};

// Whether what is issued to the stream now goes into a graph.
bool capturing(CUstream stream);

}  // namespace stitch
