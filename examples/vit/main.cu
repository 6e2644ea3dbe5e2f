// Classifies the images of a folder with a vision transformer.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "device_weights.h"
#include "forward.h"
#include "host_weights.h"
#include "images.h"
#include "options.h"
#include "reference.h"
#include "report.h"

static const std::size_t CHECKED_IMAGES = 2;

int main(int argc, char** argv) {
    Options options = parse_options(argc, argv);
    if (options.make_images) {
        make_images(options.folder, options.count);
        return 0;
    }
    std::vector<std::string> paths = list_images(options.folder);
    if (paths.empty()) {
        std::fprintf(stderr, "no images in %s\n", options.folder.c_str());
        return 1;
    }
    HostWeights host_weights = make_weights();
    ModelWeights weights = upload_weights(host_weights);

    std::vector<std::vector<float>> checked;
    auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < paths.size(); ++i) {
        std::vector<float> image(IMAGE_VALUES);
        load_image(paths[i], image.data());
        std::vector<float> logits = forward(weights, image);
        print_result(paths[i], logits.data());
        if (options.check && i < CHECKED_IMAGES) {
            checked.push_back(logits);
        }
    }
    auto stop = std::chrono::steady_clock::now();
    free_weights(weights);

    bool correct = true;
    for (std::size_t i = 0; i < checked.size(); ++i) {
        correct = check_logits(host_weights, paths[i], checked[i]) && correct;
    }
    double elapsed = std::chrono::duration<double, std::milli>(stop - start).count();
    std::printf("elapsed %.3f ms per image, %zu images\n", elapsed / paths.size(), paths.size());
    return correct ? 0 : 1;
}
