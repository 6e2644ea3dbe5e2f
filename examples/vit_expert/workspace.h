// Device buffers of the forward pass and the streams it runs on, created once.
#pragma once

#include <cuda_runtime.h>

struct Workspace {
    float* d_patches;
    float* d_embedded;
    float* d_tokens;
    float* d_normed;
    float* d_query;
    float* d_query_heads;
    float* d_key;
    float* d_key_heads;
    float* d_value;
    float* d_value_heads;
    float* d_scores;
    float* d_context_heads;
    float* d_context;
    float* d_projected;
    float* d_attended;
    float* d_expanded;
    float* d_activated;
    float* d_reduced;
};

struct Streams {
    cudaStream_t compute;
    cudaStream_t key_branch;    // query, key and value run side by side
    cudaStream_t value_branch;
    cudaStream_t copy;          // images to the device
    cudaEvent_t normed_ready;
    cudaEvent_t key_ready;
    cudaEvent_t value_ready;
};

Workspace create_workspace();
void destroy_workspace(Workspace& workspace);

Streams create_streams();
void destroy_streams(Streams& streams);
