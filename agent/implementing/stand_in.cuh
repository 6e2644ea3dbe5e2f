// What stands for kernels and host stages that are not written yet: a launch or a call hands its buffers to a function of the host and
// takes them back. A host stage that is written runs between the same marks.
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

inline void check(const char* stage, const char* what, cudaError_t status) {
    if (status != cudaSuccess) {
        failed(stage, what, status);
    }
}

constexpr size_t BEGIN = 4099, END = 6151;  // bytes of the copies by which a trace shows what lies between

// Host memory copied onto itself. `aside`: on a stream that orders nothing else, and waits for nothing.
inline void mark(const char* stage, size_t bytes, cudaStream_t* aside = nullptr) {
    static char own[8192];
    check(stage, "it cannot be marked", aside == nullptr
                                            ? cudaMemcpy(own, own, bytes, cudaMemcpyHostToHost)
                                            : cudaMemcpyAsync(own, own, bytes, cudaMemcpyHostToHost, *aside));
}

// Neither the marks of what is written nor what is shown may wait for work that the program has not waited for.
inline cudaStream_t* aside(const char* stage) {
    static cudaStream_t stream = nullptr;
    if (stream == nullptr) {
        check(stage, "a stream cannot be made", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    return &stream;
}

// Begins where a program launches the kernel or calls the host stage, and ends when the device has what would have been left there.
// Everything that was issued before is done by then: that is more order than is asked for, and as much as any caller may rely on.
class Launch {
  public:
    Launch(const char* stage, int number) : stage_(stage), number_(number) {
        dim3 grid, block;
        size_t shared = 0;
        cudaStream_t stream = nullptr;
        check("it is not launched by <<<>>>", __cudaPopCallConfiguration(&grid, &block, &shared, &stream));
        begin(stream);
    }

    Launch(const char* stage, int number, cudaStream_t stream) : stage_(stage), number_(number) { begin(stream); }

    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    // The same place in a copy of the allocation that the host can use. What the kernel may not write is not copied back.
    template <class T>
    T* host(T* pointer) {
        auto* address = static_cast<char*>(const_cast<void*>(static_cast<const volatile void*>(pointer)));
        return static_cast<T*>(static_cast<void*>(place(address, !std::is_const<T>::value)));
    }

    // A pointer to memory of the host, which the host stage is given as it is.
    template <class T>
    T* own(T* pointer) {
        cudaPointerAttributes attributes;
        const cudaError_t status = cudaPointerGetAttributes(&attributes, pointer);
        if (status == cudaSuccess && attributes.type == cudaMemoryTypeDevice) {
            failed(stage_, "host= names a pointer that leads to memory of the device", cudaSuccess);
        }
        if (status != cudaSuccess) {
            cudaGetLastError();
        }
        return pointer;
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
        stitchcuda_stand_in::mark(stage_, END + number_);
    }

  private:
    struct Copy {
        char* device;
        size_t size;
        char* bytes;
        bool written;
    };

    void begin(cudaStream_t stream) {
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        check("its stream cannot be asked", cudaStreamIsCapturing(stream, &capture));
        if (capture != cudaStreamCaptureStatusNone) {
            failed(stage_, "it is launched into a CUDA graph, where no function of the host can stand", cudaSuccess);
        }
        stitchcuda_stand_in::mark(stage_, BEGIN + number_);
        check("work before it failed", cudaStreamSynchronize(stream));
        check("work before it failed", cudaDeviceSynchronize());
    }

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
            failed(stage_, "it is given an address that is no memory of the device (host= names those of a host stage)",
                   cudaSuccess);
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

    void check(const char* what, cudaError_t status) { stitchcuda_stand_in::check(stage_, what, status); }

    const char* stage_;
    size_t number_;
    std::vector<Copy> copies_;
};

// What a host stage that is written does lies between two marks. Nothing waits here.
class Span {
  public:
    Span(const char* stage, int number) : stage_(stage), number_(number) { mark(stage_, BEGIN + number_, aside(stage_)); }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
    ~Span() { mark(stage_, END + number_, aside(stage_)); }

  private:
    const char* stage_;
    size_t number_;
};

// Has a trace see what the host finds in a buffer when a host stage has returned. It is looked at before anything could wait.
template <class T>
void shown(const char* stage, const T* data, size_t count) {
    static char *device = nullptr, *host = nullptr;
    static size_t room = 0;
    const size_t bytes = data == nullptr ? 0 : count * sizeof(T);
    if (bytes == 0) {
        return;
    }
    if (room < bytes) {
        std::free(host);
        host = static_cast<char*>(std::malloc(bytes));
        if (host == nullptr) {
            failed(stage, "the host has no memory for a copy of its buffers", cudaSuccess);
        }
    }
    std::memcpy(host, data, bytes);
    if (room < bytes) {
        check(stage, "what it left on the host cannot be shown", cudaMalloc(reinterpret_cast<void**>(&device), bytes));
        room = bytes;
    }
    check(stage, "what it left on the host cannot be shown",
          cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, *aside(stage)));
    check(stage, "what it left on the host cannot be shown",
          cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, *aside(stage)));
    check(stage, "what it left on the host cannot be shown", cudaStreamSynchronize(*aside(stage)));
}

}  // namespace stitchcuda_stand_in
#endif
