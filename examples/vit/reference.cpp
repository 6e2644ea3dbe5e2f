#include "reference.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "images.h"

using Values = std::vector<float>;

static const float TOLERANCE = 1e-3f;

static Values linear(const Values& input, const Values& weight, const Values& bias, int rows,
                     int inputs, int outputs) {
    Values output(static_cast<std::size_t>(rows) * outputs);
    for (int row = 0; row < rows; ++row) {
        float* out = output.data() + static_cast<std::size_t>(row) * outputs;
        std::copy(bias.begin(), bias.end(), out);
        for (int k = 0; k < inputs; ++k) {
            float left = input[static_cast<std::size_t>(row) * inputs + k];
            const float* right = weight.data() + static_cast<std::size_t>(k) * outputs;
            for (int column = 0; column < outputs; ++column) {
                out[column] += left * right[column];
            }
        }
    }
    return output;
}

static Values layernorm(const Values& input, const Values& gain, const Values& bias, int rows) {
    Values output(static_cast<std::size_t>(rows) * DIM);
    for (int row = 0; row < rows; ++row) {
        const float* in = input.data() + static_cast<std::size_t>(row) * DIM;
        float* out = output.data() + static_cast<std::size_t>(row) * DIM;
        double mean = 0.0;
        for (int i = 0; i < DIM; ++i) {
            mean += in[i];
        }
        mean /= DIM;
        double variance = 0.0;
        for (int i = 0; i < DIM; ++i) {
            variance += (in[i] - mean) * (in[i] - mean);
        }
        double scale = 1.0 / std::sqrt(variance / DIM + NORM_EPSILON);
        for (int i = 0; i < DIM; ++i) {
            out[i] = static_cast<float>((in[i] - mean) * scale * gain[i] + bias[i]);
        }
    }
    return output;
}

static void attend(const Values& query, const Values& key, const Values& value, int head,
                   Values& context) {
    std::vector<double> scores(TOKENS);
    for (int row = 0; row < TOKENS; ++row) {
        for (int column = 0; column < TOKENS; ++column) {
            double sum = 0.0;
            for (int k = head * HEAD_DIM; k < (head + 1) * HEAD_DIM; ++k) {
                sum += query[row * DIM + k] * key[column * DIM + k];
            }
            scores[column] = sum / std::sqrt(static_cast<double>(HEAD_DIM));
        }
        double largest = *std::max_element(scores.begin(), scores.end());
        double total = 0.0;
        for (double& score : scores) {
            score = std::exp(score - largest);
            total += score;
        }
        for (int k = head * HEAD_DIM; k < (head + 1) * HEAD_DIM; ++k) {
            double sum = 0.0;
            for (int column = 0; column < TOKENS; ++column) {
                sum += scores[column] * value[column * DIM + k];
            }
            context[row * DIM + k] = static_cast<float>(sum / total);
        }
    }
}

static Values add(const Values& left, const Values& right) {
    Values output(left.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
        output[i] = left[i] + right[i];
    }
    return output;
}

static Values embed(const HostWeights& weights, const Values& image) {
    Values patches(static_cast<std::size_t>(PATCHES) * PATCH_VALUES);
    std::size_t next = 0;
    for (int patch = 0; patch < PATCHES; ++patch) {
        int top = patch / PATCHES_PER_SIDE * PATCH_SIZE;
        int left = patch % PATCHES_PER_SIDE * PATCH_SIZE;
        for (int channel = 0; channel < CHANNELS; ++channel) {
            for (int y = top; y < top + PATCH_SIZE; ++y) {
                for (int x = left; x < left + PATCH_SIZE; ++x) {
                    patches[next++] = image[(channel * IMAGE_SIZE + y) * IMAGE_SIZE + x];
                }
            }
        }
    }
    Values embedded = linear(patches, weights.patch_weight, weights.patch_bias, PATCHES,
                             PATCH_VALUES, DIM);
    Values tokens = weights.class_token;
    tokens.insert(tokens.end(), embedded.begin(), embedded.end());
    return add(tokens, weights.position);
}

static Values encoder_layer(const HostLayerWeights& layer, const Values& tokens) {
    Values normed = layernorm(tokens, layer.norm1_gain, layer.norm1_bias, TOKENS);
    Values query = linear(normed, layer.query_weight, layer.query_bias, TOKENS, DIM, DIM);
    Values key = linear(normed, layer.key_weight, layer.key_bias, TOKENS, DIM, DIM);
    Values value = linear(normed, layer.value_weight, layer.value_bias, TOKENS, DIM, DIM);
    Values context(static_cast<std::size_t>(TOKENS) * DIM);
    for (int head = 0; head < HEADS; ++head) {
        attend(query, key, value, head, context);
    }
    Values attended = add(tokens, linear(context, layer.projection_weight,
                                         layer.projection_bias, TOKENS, DIM, DIM));

    normed = layernorm(attended, layer.norm2_gain, layer.norm2_bias, TOKENS);
    Values wide = linear(normed, layer.expand_weight, layer.expand_bias, TOKENS, DIM, MLP_DIM);
    for (float& x : wide) {
        x = static_cast<float>(0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0))));
    }
    return add(attended,
               linear(wide, layer.reduce_weight, layer.reduce_bias, TOKENS, MLP_DIM, DIM));
}

std::vector<float> reference_forward(const HostWeights& weights,
                                     const std::vector<float>& image) {
    Values tokens = embed(weights, image);
    for (const HostLayerWeights& layer : weights.layers) {
        tokens = encoder_layer(layer, tokens);
    }
    Values normed = layernorm(tokens, weights.norm_gain, weights.norm_bias, 1);
    return linear(normed, weights.head_weight, weights.head_bias, 1, DIM, CLASSES);
}

bool check_logits(const HostWeights& weights, const std::string& path,
                  const std::vector<float>& logits) {
    std::vector<float> image(IMAGE_VALUES);
    load_image(path, image.data());
    std::vector<float> expected = reference_forward(weights, image);
    float largest = 0.0f;
    bool close = true;
    for (int i = 0; i < CLASSES; ++i) {
        float difference = std::fabs(logits[i] - expected[i]);
        if (!(difference <= TOLERANCE)) {  // a NaN is a mismatch too
            close = false;
        }
        largest = std::max(largest, difference);
    }
    std::printf("check %s: %s, largest difference %.2e\n", file_name(path).c_str(),
                close ? "ok" : "MISMATCH", largest);
    return close;
}
