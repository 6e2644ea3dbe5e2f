// What stands for kernels that are not written yet: a launch hands its buffers to a function of the host and takes them back.
#ifndef STITCHCUDA_STAND_IN
#define STITCHCUDA_STAND_IN
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

extern "C" cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3* gridDim, dim3* blockDim, size_t* sharedMem, void* stream);

namespace stitchcuda_stand_in {

[[noreturn]] inline void failed(const char* stage, const char* what, cudaError_t status) {
    std::fprintf(stderr, "stitchcuda: the reference cannot stand for `%s`: %s%s%s\n", stage, what,
                 status == cudaSuccess ? "" : ": ", status == cudaSuccess ? "" : cudaGetErrorString(status));
    std::fflush(nullptr);
    std::abort();
}

// Begins where a program launches the kernel, and ends when the device has what the kernel would have left there. Everything that
// was issued before is done by then: that is more order than the launch asks for, and as much as any launch may rely on.
class Launch {
  public:
    Launch(const char* stage, int number) : stage_(stage), number_(number) {
        dim3 grid, block;
        size_t shared = 0;
        cudaStream_t stream = nullptr;
        check("it is not launched by <<<>>>", __cudaPopCallConfiguration(&grid, &block, &shared, &stream));
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        check("its stream cannot be asked", cudaStreamIsCapturing(stream, &capture));
        if (capture != cudaStreamCaptureStatusNone) {
            failed(stage_, "it is launched into a CUDA graph, where no function of the host can stand", cudaSuccess);
        }
        mark(BEGIN);
        check("work before it failed", cudaStreamSynchronize(stream));
        check("work before it failed", cudaDeviceSynchronize());
    }

    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    // The same place in a copy of the allocation that the host can use. What the kernel may not write is not copied back.
    template <class T>
    T* host(T* pointer) {
        auto* address = static_cast<char*>(const_cast<void*>(static_cast<const volatile void*>(pointer)));
        return static_cast<T*>(static_cast<void*>(place(address, !std::is_const<T>::value)));
    }

    // Ends the launch.
    void done() {
        for (const Copy& copy : copies_) {
            if (copy.written) {
                check("a buffer cannot be copied back",
                      cudaMemcpy(copy.device, copy.bytes, copy.size, cudaMemcpyHostToDevice));
            }
            std::free(copy.bytes);
        }
        copies_.clear();
        check("a buffer cannot be copied back", cudaDeviceSynchronize());
        mark(END);
    }

  private:
    struct Copy {
        char* device;
        size_t size;
        char* bytes;
        bool written;
    };

    static constexpr size_t BEGIN = 4099, END = 6151;  // bytes of the copies by which a trace shows what lies between

    char* place(char* address, bool written) {
        if (address == nullptr) {
            return nullptr;
        }
        for (Copy& copy : copies_) {
            if (copy.device <= address && address < copy.device + copy.size) {
                copy.written = copy.written || written;
                return copy.bytes + (address - copy.device);
            }
        }
        cudaPointerAttributes attributes;
        check("a pointer cannot be looked up", cudaPointerGetAttributes(&attributes, address));
        if (attributes.type == cudaMemoryTypeManaged) {
            return address;
        }
        if (attributes.type == cudaMemoryTypeHost) {
            return static_cast<char*>(attributes.hostPointer);
        }
        if (attributes.type != cudaMemoryTypeDevice) {
            failed(stage_, "it is given an address that is no memory of the device", cudaSuccess);
        }
        Copy copy{nullptr, 0, nullptr, written};
        allocation(address, copy);
        copy.bytes = static_cast<char*>(std::malloc(copy.size));
        if (copy.bytes == nullptr) {
            failed(stage_, "the host has no memory for a copy of its buffers", cudaSuccess);
        }
        check("a buffer cannot be copied", cudaMemcpy(copy.bytes, copy.device, copy.size, cudaMemcpyDeviceToHost));
        copies_.push_back(copy);
        return copy.bytes + (address - copy.device);
    }

    // Where the allocation begins and how large it is: only the driver knows, and nobody is asked to link it.
    void allocation(char* address, Copy& copy) {
        using Range = int (*)(unsigned long long*, size_t*, unsigned long long);
        static void* entry = nullptr;
        if (entry == nullptr) {
#if CUDART_VERSION >= 12050
            check("cuMemGetAddressRange cannot be found",
                  cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &entry, 12000, cudaEnableDefault));
#else
            check("cuMemGetAddressRange cannot be found",
                  cudaGetDriverEntryPoint("cuMemGetAddressRange", &entry, cudaEnableDefault));
#endif
        }
        unsigned long long base = 0;
        auto range = reinterpret_cast<Range>(entry);
        int status = range == nullptr ? -1 : range(&base, &copy.size, reinterpret_cast<unsigned long long>(address));
        if (status != 0 || copy.size == 0) {
            failed(stage_, "the driver does not know how large a buffer is", cudaSuccess);
        }
        copy.device = reinterpret_cast<char*>(base);
    }

    void mark(size_t bytes) {
        static char own[8192];
        check("it cannot be marked", cudaMemcpy(own, own, bytes + number_, cudaMemcpyHostToHost));
    }

    void check(const char* what, cudaError_t status) {
        if (status != cudaSuccess) {
            failed(stage_, what, status);
        }
    }

    const char* stage_;
    size_t number_;
    std::vector<Copy> copies_;
};

}  // namespace stitchcuda_stand_in
#endif
