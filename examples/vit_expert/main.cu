// Classifies the images of a folder with a vision transformer.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "host_weights.h"
#include "images.h"
#include "options.h"
#include "reference.h"
#include "report.h"
#include "slot.h"
#include "weight_arena.h"
#include "workspace.h"

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
    WeightArena arena = create_weight_arena(host_weights);
    Workspace workspace = create_workspace();
    Streams streams = create_streams();
    Slot slots[SLOTS];
    for (int s = 0; s < SLOTS; ++s) {
        slots[s] = create_slot(arena.weights, workspace, streams);
    }

    std::vector<std::vector<float>> checked;
    auto start = std::chrono::steady_clock::now();
    // Step i submits image i and then reads the result of image i - 1, so that the device
    // always has the next image when it has finished one.
    for (std::size_t i = 0; i <= paths.size(); ++i) {
        if (i < paths.size()) {
            const Slot& next = slots[i % SLOTS];
            load_image(paths[i], next.h_image);
            submit(next, streams);
        }
        if (i > 0) {
            const Slot& previous = slots[(i - 1) % SLOTS];
            wait_for_logits(previous);
            print_result(paths[i - 1], previous.h_logits);
            if (options.check && i <= CHECKED_IMAGES) {
                checked.emplace_back(previous.h_logits, previous.h_logits + CLASSES);
            }
        }
    }
    auto stop = std::chrono::steady_clock::now();

    for (int s = 0; s < SLOTS; ++s) {
        destroy_slot(slots[s]);
    }
    destroy_streams(streams);
    destroy_workspace(workspace);
    destroy_weight_arena(arena);

    bool correct = true;
    for (std::size_t i = 0; i < checked.size(); ++i) {
        correct = check_logits(host_weights, paths[i], checked[i]) && correct;
    }
    double elapsed = std::chrono::duration<double, std::milli>(stop - start).count();
    std::printf("elapsed %.3f ms per image, %zu images\n", elapsed / paths.size(), paths.size());
    return correct ? 0 : 1;
}
