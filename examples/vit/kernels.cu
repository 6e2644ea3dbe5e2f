#include "kernels.h"

__global__ void extract_patches_kernel(const float* image, float* patches) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= IMAGE_VALUES) {
        return;
    }
    int x = index % IMAGE_SIZE;
    int y = index / IMAGE_SIZE % IMAGE_SIZE;
    int channel = index / (IMAGE_SIZE * IMAGE_SIZE);
    int patch = y / PATCH_SIZE * PATCHES_PER_SIDE + x / PATCH_SIZE;
    int offset = (channel * PATCH_SIZE + y % PATCH_SIZE) * PATCH_SIZE + x % PATCH_SIZE;
    patches[patch * PATCH_VALUES + offset] = image[index];
}

__global__ void assemble_tokens_kernel(const float* embedded, const float* class_token,
                                       const float* position, float* tokens) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= TOKENS * DIM) {
        return;
    }
    float value = index < DIM ? class_token[index] : embedded[index - DIM];
    tokens[index] = value + position[index];
}

// Sums or maximises over the block; every thread gets the result.
static __device__ float block_sum(float value) {
    __shared__ float partial[REDUCE_THREADS];
    partial[threadIdx.x] = value;
    __syncthreads();
    for (int half = REDUCE_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            partial[threadIdx.x] += partial[threadIdx.x + half];
        }
        __syncthreads();
    }
    float result = partial[0];
    __syncthreads();
    return result;
}

static __device__ float block_max(float value) {
    __shared__ float partial[REDUCE_THREADS];
    partial[threadIdx.x] = value;
    __syncthreads();
    for (int half = REDUCE_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + half]);
        }
        __syncthreads();
    }
    float result = partial[0];
    __syncthreads();
    return result;
}

__global__ void layernorm_kernel(const float* input, const float* gain, const float* bias,
                                 float* output, int width) {
    const float* row = input + blockIdx.x * width;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < width; i += REDUCE_THREADS) {
        sum += row[i];
    }
    float mean = block_sum(sum) / width;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < width; i += REDUCE_THREADS) {
        float centred = row[i] - mean;
        squares += centred * centred;
    }
    float scale = rsqrtf(block_sum(squares) / width + NORM_EPSILON);
    for (int i = threadIdx.x; i < width; i += REDUCE_THREADS) {
        output[blockIdx.x * width + i] = (row[i] - mean) * scale * gain[i] + bias[i];
    }
}

__global__ void linear_kernel(const float* input, const float* weight, const float* bias,
                              float* output, int rows, int inputs, int outputs) {
    __shared__ float4 input_tile[LINEAR_TILE_ROWS][LINEAR_TILE_DEPTH / 4 + 1];
    __shared__ float4 weight_tile[LINEAR_TILE_DEPTH][LINEAR_TILE_COLUMNS / 4];
    int thread = threadIdx.y * LINEAR_THREADS_X + threadIdx.x;
    int first_row = blockIdx.y * LINEAR_TILE_ROWS;
    int column = blockIdx.x * LINEAR_TILE_COLUMNS + threadIdx.x * 4;
    int load_row = thread / (LINEAR_TILE_DEPTH / 4);
    int load_depth = thread % (LINEAR_TILE_DEPTH / 4);
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 sums[2] = {zero, zero};

    for (int depth = 0; depth < inputs; depth += LINEAR_TILE_DEPTH) {
        const float* source = input + (first_row + load_row) * inputs + depth + load_depth * 4;
        input_tile[load_row][load_depth] =
            first_row + load_row < rows ? *reinterpret_cast<const float4*>(source) : zero;
        for (int k = threadIdx.y; k < LINEAR_TILE_DEPTH; k += LINEAR_THREADS_Y) {
            const float* source = weight + (depth + k) * outputs + column;
            weight_tile[k][threadIdx.x] =
                column < outputs ? *reinterpret_cast<const float4*>(source) : zero;
        }
        __syncthreads();
        for (int k = 0; k < LINEAR_TILE_DEPTH; ++k) {
            float4 right = weight_tile[k][threadIdx.x];
            for (int r = 0; r < 2; ++r) {
                const float* row =
                    reinterpret_cast<const float*>(input_tile[threadIdx.y * 2 + r]);
                sums[r].x += row[k] * right.x;
                sums[r].y += row[k] * right.y;
                sums[r].z += row[k] * right.z;
                sums[r].w += row[k] * right.w;
            }
        }
        __syncthreads();
    }

    for (int r = 0; r < 2; ++r) {
        int row = first_row + threadIdx.y * 2 + r;
        if (row < rows && column < outputs) {
            float* target = output + row * outputs + column;
            target[0] = sums[r].x + bias[column];
            target[1] = sums[r].y + bias[column + 1];
            target[2] = sums[r].z + bias[column + 2];
            target[3] = sums[r].w + bias[column + 3];
        }
    }
}

__global__ void split_heads_kernel(const float* tokens, float* heads) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < TOKENS * DIM) {
        int token = index / DIM;
        int head = index % DIM / HEAD_DIM;
        heads[(head * TOKENS + token) * HEAD_DIM + index % HEAD_DIM] = tokens[index];
    }
}

__global__ void merge_heads_kernel(const float* heads, float* tokens) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < TOKENS * DIM) {
        int token = index / DIM;
        int head = index % DIM / HEAD_DIM;
        tokens[index] = heads[(head * TOKENS + token) * HEAD_DIM + index % HEAD_DIM];
    }
}

__global__ void attention_scores_kernel(const float* query, const float* key, float* scores) {
    __shared__ float query_tile[SCORE_TILE][HEAD_DIM + 1];
    __shared__ float key_tile[SCORE_TILE][HEAD_DIM + 1];
    int head = blockIdx.z;
    int first_row = blockIdx.y * SCORE_TILE;
    int first_column = blockIdx.x * SCORE_TILE;
    int thread = threadIdx.y * SCORE_THREADS + threadIdx.x;
    for (int i = thread; i < SCORE_TILE * HEAD_DIM; i += SCORE_THREADS * SCORE_THREADS) {
        int r = i / HEAD_DIM;
        int k = i % HEAD_DIM;
        int row = first_row + r;
        int column = first_column + r;
        query_tile[r][k] = row < TOKENS ? query[(head * TOKENS + row) * HEAD_DIM + k] : 0.0f;
        key_tile[r][k] = column < TOKENS ? key[(head * TOKENS + column) * HEAD_DIM + k] : 0.0f;
    }
    __syncthreads();

    float sums[2][2] = {};
    for (int k = 0; k < HEAD_DIM; ++k) {
        for (int r = 0; r < 2; ++r) {
            for (int c = 0; c < 2; ++c) {
                sums[r][c] += query_tile[threadIdx.y + r * SCORE_THREADS][k] *
                              key_tile[threadIdx.x + c * SCORE_THREADS][k];
            }
        }
    }

    float scale = rsqrtf(static_cast<float>(HEAD_DIM));
    for (int r = 0; r < 2; ++r) {
        int row = first_row + threadIdx.y + r * SCORE_THREADS;
        for (int c = 0; c < 2; ++c) {
            int column = first_column + threadIdx.x + c * SCORE_THREADS;
            if (row < TOKENS && column < TOKENS) {
                scores[(head * TOKENS + row) * TOKENS + column] = sums[r][c] * scale;
            }
        }
    }
}

__global__ void softmax_kernel(float* rows, int width) {
    float* row = rows + blockIdx.x * width;
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < width; i += REDUCE_THREADS) {
        largest = fmaxf(largest, row[i]);
    }
    largest = block_max(largest);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < width; i += REDUCE_THREADS) {
        row[i] = expf(row[i] - largest);
        sum += row[i];
    }
    sum = block_sum(sum);
    for (int i = threadIdx.x; i < width; i += REDUCE_THREADS) {
        row[i] = row[i] / sum;
    }
}

__global__ void attention_context_kernel(const float* scores, const float* value,
                                         float* context) {
    __shared__ float score_tile[CONTEXT_TILE_ROWS][CONTEXT_TILE_DEPTH];
    __shared__ float value_tile[CONTEXT_TILE_DEPTH][HEAD_DIM];
    constexpr int threads = CONTEXT_THREADS_X * CONTEXT_THREADS_Y;
    constexpr int rows_per_thread = CONTEXT_TILE_ROWS / CONTEXT_THREADS_Y;
    int head = blockIdx.y;
    int first_row = blockIdx.x * CONTEXT_TILE_ROWS;
    int thread = threadIdx.y * CONTEXT_THREADS_X + threadIdx.x;
    float sums[rows_per_thread] = {};

    for (int depth = 0; depth < TOKENS; depth += CONTEXT_TILE_DEPTH) {
        for (int i = thread; i < CONTEXT_TILE_ROWS * CONTEXT_TILE_DEPTH; i += threads) {
            int r = i / CONTEXT_TILE_DEPTH;
            int k = i % CONTEXT_TILE_DEPTH;
            int row = first_row + r;
            int column = depth + k;
            bool inside = row < TOKENS && column < TOKENS;
            score_tile[r][k] = inside ? scores[(head * TOKENS + row) * TOKENS + column] : 0.0f;
        }
        for (int i = thread; i < CONTEXT_TILE_DEPTH * HEAD_DIM; i += threads) {
            int k = i / HEAD_DIM;
            int c = i % HEAD_DIM;
            int row = depth + k;
            value_tile[k][c] = row < TOKENS ? value[(head * TOKENS + row) * HEAD_DIM + c] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < CONTEXT_TILE_DEPTH; ++k) {
            float right = value_tile[k][threadIdx.x];
            for (int r = 0; r < rows_per_thread; ++r) {
                sums[r] += score_tile[threadIdx.y * rows_per_thread + r][k] * right;
            }
        }
        __syncthreads();
    }

    for (int r = 0; r < rows_per_thread; ++r) {
        int row = first_row + threadIdx.y * rows_per_thread + r;
        if (row < TOKENS) {
            context[(head * TOKENS + row) * HEAD_DIM + threadIdx.x] = sums[r];
        }
    }
}

__global__ void gelu_kernel(const float* input, float* output, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) {
        float x = input[index];
        output[index] = 0.5f * x * (1.0f + erff(x * 0.70710678f));
    }
}

__global__ void add_kernel(const float* left, const float* right, float* output, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) {
        output[index] = left[index] + right[index];
    }
}
