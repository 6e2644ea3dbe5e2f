// The forward pass as a CUDA graph: one image in, its logits out, all on the device.
#pragma once

#include <cuda_runtime.h>

#include "model.h"
#include "workspace.h"

// The graph reads d_image and writes d_logits. Graphs that share a workspace must not overlap.
cudaGraphExec_t capture_forward(const ModelWeights& weights, const Workspace& workspace,
                                const Streams& streams, const float* d_image, float* d_logits);
