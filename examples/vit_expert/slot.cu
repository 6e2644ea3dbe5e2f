#include "slot.h"

#include "cuda_check.h"
#include "forward.h"

Slot create_slot(const ModelWeights& weights, const Workspace& workspace,
                 const Streams& streams) {
    Slot slot;
    CHECK(cudaMallocHost(&slot.h_image, IMAGE_VALUES * sizeof(float)));
    CHECK(cudaMallocHost(&slot.h_logits, CLASSES * sizeof(float)));
    CHECK(cudaMalloc(&slot.d_image, IMAGE_VALUES * sizeof(float)));
    CHECK(cudaMalloc(&slot.d_logits, CLASSES * sizeof(float)));
    CHECK(cudaEventCreateWithFlags(&slot.image_copied, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&slot.logits_ready, cudaEventDisableTiming));
    slot.forward = capture_forward(weights, workspace, streams, slot.d_image, slot.d_logits);
    return slot;
}

void destroy_slot(Slot& slot) {
    CHECK(cudaGraphExecDestroy(slot.forward));
    CHECK(cudaEventDestroy(slot.image_copied));
    CHECK(cudaEventDestroy(slot.logits_ready));
    CHECK(cudaFreeHost(slot.h_image));
    CHECK(cudaFreeHost(slot.h_logits));
    CHECK(cudaFree(slot.d_image));
    CHECK(cudaFree(slot.d_logits));
}

void submit(const Slot& slot, const Streams& streams) {
    CHECK(cudaMemcpyAsync(slot.d_image, slot.h_image, IMAGE_VALUES * sizeof(float),
                          cudaMemcpyHostToDevice, streams.copy));
    CHECK(cudaEventRecord(slot.image_copied, streams.copy));
    CHECK(cudaStreamWaitEvent(streams.compute, slot.image_copied, 0));
    CHECK(cudaGraphLaunch(slot.forward, streams.compute));
    CHECK(cudaMemcpyAsync(slot.h_logits, slot.d_logits, CLASSES * sizeof(float),
                          cudaMemcpyDeviceToHost, streams.compute));
    CHECK(cudaEventRecord(slot.logits_ready, streams.compute));
}

void wait_for_logits(const Slot& slot) {
    CHECK(cudaEventSynchronize(slot.logits_ready));
}
