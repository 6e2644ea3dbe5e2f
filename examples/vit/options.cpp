#include "options.h"

#include <cstdio>
#include <cstdlib>

static void usage(const char* program) {
    std::fprintf(stderr,
                 "usage: %s FOLDER [--check]\n"
                 "       %s --make-images FOLDER [--count N]\n",
                 program, program);
    std::exit(2);
}

Options parse_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        std::string argument = argv[i];
        if (argument == "--check") {
            options.check = true;
        } else if (argument == "--make-images" && i + 1 < argc) {
            options.make_images = true;
            options.folder = argv[++i];
        } else if (argument == "--count" && i + 1 < argc) {
            options.count = std::atoi(argv[++i]);
        } else if (options.folder.empty() && argument[0] != '-') {
            options.folder = argument;
        } else {
            usage(argv[0]);
        }
    }
    if (options.folder.empty() || options.count < 1) {
        usage(argv[0]);
    }
    return options;
}
