// Image files: binary PPM, IMAGE_SIZE x IMAGE_SIZE.
#pragma once

#include <string>
#include <vector>

// The PPM files of a folder, sorted by name. Empty if there are none.
std::vector<std::string> list_images(const std::string& folder);

// The part of a path after the last separator.
std::string file_name(const std::string& path);

// Reads one file and writes the normalised values [CHANNELS][IMAGE_SIZE][IMAGE_SIZE].
// Ends the program if the file cannot be read or has another size.
void load_image(const std::string& path, float* values);

// Writes image_0000.ppm, image_0001.ppm, ... with generated content.
void make_images(const std::string& folder, int count);
