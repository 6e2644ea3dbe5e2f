#include "workspace.h"

#include "cuda_check.h"
#include "model.h"

static float* allocate(int count) {
    float* d_values = nullptr;
    CHECK(cudaMalloc(&d_values, count * sizeof(float)));
    return d_values;
}

Workspace create_workspace() {
    Workspace workspace;
    workspace.d_patches = allocate(PATCHES * PATCH_VALUES);
    workspace.d_embedded = allocate(PATCHES * DIM);
    workspace.d_tokens = allocate(TOKENS * DIM);
    workspace.d_normed = allocate(TOKENS * DIM);
    workspace.d_query = allocate(TOKENS * DIM);
    workspace.d_query_heads = allocate(TOKENS * DIM);
    workspace.d_key = allocate(TOKENS * DIM);
    workspace.d_key_heads = allocate(TOKENS * DIM);
    workspace.d_value = allocate(TOKENS * DIM);
    workspace.d_value_heads = allocate(TOKENS * DIM);
    workspace.d_scores = allocate(HEADS * TOKENS * TOKENS);
    workspace.d_context_heads = allocate(TOKENS * DIM);
    workspace.d_context = allocate(TOKENS * DIM);
    workspace.d_projected = allocate(TOKENS * DIM);
    workspace.d_attended = allocate(TOKENS * DIM);
    workspace.d_expanded = allocate(TOKENS * MLP_DIM);
    workspace.d_activated = allocate(TOKENS * MLP_DIM);
    workspace.d_reduced = allocate(TOKENS * DIM);
    return workspace;
}

void destroy_workspace(Workspace& workspace) {
    CHECK(cudaFree(workspace.d_patches));
    CHECK(cudaFree(workspace.d_embedded));
    CHECK(cudaFree(workspace.d_tokens));
    CHECK(cudaFree(workspace.d_normed));
    CHECK(cudaFree(workspace.d_query));
    CHECK(cudaFree(workspace.d_query_heads));
    CHECK(cudaFree(workspace.d_key));
    CHECK(cudaFree(workspace.d_key_heads));
    CHECK(cudaFree(workspace.d_value));
    CHECK(cudaFree(workspace.d_value_heads));
    CHECK(cudaFree(workspace.d_scores));
    CHECK(cudaFree(workspace.d_context_heads));
    CHECK(cudaFree(workspace.d_context));
    CHECK(cudaFree(workspace.d_projected));
    CHECK(cudaFree(workspace.d_attended));
    CHECK(cudaFree(workspace.d_expanded));
    CHECK(cudaFree(workspace.d_activated));
    CHECK(cudaFree(workspace.d_reduced));
}

Streams create_streams() {
    Streams streams;
    CHECK(cudaStreamCreateWithFlags(&streams.compute, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&streams.key_branch, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&streams.value_branch, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&streams.copy, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&streams.normed_ready, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&streams.key_ready, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&streams.value_ready, cudaEventDisableTiming));
    return streams;
}

void destroy_streams(Streams& streams) {
    CHECK(cudaEventDestroy(streams.normed_ready));
    CHECK(cudaEventDestroy(streams.key_ready));
    CHECK(cudaEventDestroy(streams.value_ready));
    CHECK(cudaStreamDestroy(streams.compute));
    CHECK(cudaStreamDestroy(streams.key_branch));
    CHECK(cudaStreamDestroy(streams.value_branch));
    CHECK(cudaStreamDestroy(streams.copy));
}
