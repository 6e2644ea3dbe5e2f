#include "images.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "model.h"

static const float CHANNEL_MEAN[CHANNELS] = {0.485f, 0.456f, 0.406f};
static const float CHANNEL_DEVIATION[CHANNELS] = {0.229f, 0.224f, 0.225f};

std::vector<std::string> list_images(const std::string& folder) {
    std::vector<std::string> paths;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        if (entry.path().extension() == ".ppm") {
            paths.push_back(entry.path().string());
        }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

std::string file_name(const std::string& path) {
    return std::filesystem::path(path).filename().string();
}

static void fail(const std::string& path, const char* reason) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), reason);
    std::exit(1);
}

void load_image(const std::string& path, float* values) {
    std::ifstream file(path, std::ios::binary);
    std::string magic;
    int width = 0;
    int height = 0;
    int largest = 0;
    file >> magic >> width >> height >> largest;
    file.get();
    if (!file || magic != "P6" || largest != 255) {
        fail(path, "not a binary PPM file with 8 bits per channel");
    }
    if (width != IMAGE_SIZE || height != IMAGE_SIZE) {
        fail(path, "unexpected image size");
    }
    std::vector<unsigned char> bytes(IMAGE_VALUES);
    file.read(reinterpret_cast<char*>(bytes.data()), IMAGE_VALUES);
    if (!file) {
        fail(path, "file is too short");
    }
    for (int channel = 0; channel < CHANNELS; ++channel) {
        float* plane = values + channel * IMAGE_SIZE * IMAGE_SIZE;
        for (int i = 0; i < IMAGE_SIZE * IMAGE_SIZE; ++i) {
            float value = bytes[i * CHANNELS + channel] / 255.0f;
            plane[i] = (value - CHANNEL_MEAN[channel]) / CHANNEL_DEVIATION[channel];
        }
    }
}

// Uniform in [0, limit).
static int random_below(std::uint64_t& state, int limit) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int>((state >> 33) % static_cast<std::uint64_t>(limit));
}

// A colour gradient with rectangles and a little noise.
static std::vector<unsigned char> draw_image(int index) {
    std::uint64_t state = 977 + 7919ull * static_cast<std::uint64_t>(index);
    for (int i = 0; i < 8; ++i) {
        random_below(state, 2);
    }
    std::vector<unsigned char> pixels(IMAGE_VALUES);
    for (int channel = 0; channel < CHANNELS; ++channel) {
        int start = random_below(state, 256);
        int across = random_below(state, 256);
        int down = random_below(state, 256);
        for (int y = 0; y < IMAGE_SIZE; ++y) {
            for (int x = 0; x < IMAGE_SIZE; ++x) {
                int level = (start * IMAGE_SIZE + across * x + down * y) / IMAGE_SIZE;
                int noisy = level / 3 + random_below(state, 16);
                pixels[(y * IMAGE_SIZE + x) * CHANNELS + channel] =
                    static_cast<unsigned char>(std::min(noisy, 255));
            }
        }
    }
    int rectangles = 2 + random_below(state, 7);
    for (int i = 0; i < rectangles; ++i) {
        int left = random_below(state, IMAGE_SIZE);
        int top = random_below(state, IMAGE_SIZE);
        int right = std::min(IMAGE_SIZE, left + 16 + random_below(state, 100));
        int bottom = std::min(IMAGE_SIZE, top + 16 + random_below(state, 100));
        for (int channel = 0; channel < CHANNELS; ++channel) {
            unsigned char level = static_cast<unsigned char>(random_below(state, 256));
            for (int y = top; y < bottom; ++y) {
                for (int x = left; x < right; ++x) {
                    pixels[(y * IMAGE_SIZE + x) * CHANNELS + channel] = level;
                }
            }
        }
    }
    return pixels;
}

void make_images(const std::string& folder, int count) {
    std::filesystem::create_directories(folder);
    for (int index = 0; index < count; ++index) {
        char name[32];
        std::snprintf(name, sizeof(name), "image_%04d.ppm", index);
        std::string path = folder + "/" + name;
        std::vector<unsigned char> pixels = draw_image(index);
        std::ofstream file(path, std::ios::binary);
        file << "P6\n" << IMAGE_SIZE << " " << IMAGE_SIZE << "\n255\n";
        file.write(reinterpret_cast<const char*>(pixels.data()), IMAGE_VALUES);
        if (!file) {
            fail(path, "cannot write");
        }
    }
}
