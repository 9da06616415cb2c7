// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>

#include "daso/data/image_file.h"
#include "data/data_files.h"

// Images that are known in closed form.
namespace daso::test {

using Value = std::function<int(int x, int y, int channel)>;

RawImage image_of(int width, int height, const Value& value, int channels = 3);

// 0 at the left, rising to the right in red; from top to bottom in green; blue is 100.
RawImage gradient(int width, int height);

// Random, so that every pixel depends on its place, and smoothing of colours shows.
RawImage rough(int width, int height);

// The whole image of a file.
Picture decoded(const std::filesystem::path& path, int shrink = 1);

// Writes folder/train and folder/val with the classes a and b: `train` images of each and half as
// many, a being red (200, 40, 40) and b blue (40, 40, 200); every second one is a PNG, the others
// are JPEGs.
void write_image_folder(const std::filesystem::path& folder, int train = 4);

}  // namespace daso::test
