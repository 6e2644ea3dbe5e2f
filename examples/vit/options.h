// Command line of the program.
#pragma once

#include <string>

struct Options {
    std::string folder;      // images to classify, or to generate
    bool make_images = false;
    int count = 64;          // images to generate
    bool check = false;      // compare with the reference on the CPU
};

// Prints the usage and ends the program if the arguments are wrong.
Options parse_options(int argc, char** argv);
