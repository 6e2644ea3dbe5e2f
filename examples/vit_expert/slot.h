// One of the two places through which images travel: while the device works on the image of
// one slot, the host loads the next image into the other.
#pragma once

#include <cuda_runtime.h>

#include "model.h"
#include "workspace.h"

constexpr int SLOTS = 2;

struct Slot {
    float* h_image;    // pinned
    float* h_logits;   // pinned
    float* d_image;
    float* d_logits;
    cudaEvent_t image_copied;
    cudaEvent_t logits_ready;
    cudaGraphExec_t forward;
};

Slot create_slot(const ModelWeights& weights, const Workspace& workspace,
                 const Streams& streams);
void destroy_slot(Slot& slot);

// Starts the work on h_image. Until wait_for_logits returns, h_image must not be written and
// h_logits must not be read.
void submit(const Slot& slot, const Streams& streams);
void wait_for_logits(const Slot& slot);
