// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "daso/data/dataset.h"
#include "daso/data/resample.h"

// Single image files as what a network takes.
namespace daso {

// A part of an image file, decoded.
struct LoadedPicture {
  ImageCut cut;
  Picture picture;
  std::int64_t bytes = 0;  // of the file
};

// Decodes what a square of side x side needs of the cut that is made for the image's sizes. Throws
// ConfigError naming the file.
using MakeCut = std::function<ImageCut(int width, int height)>;
LoadedPicture load_picture(const std::filesystem::path& path, const MakeCut& make_cut, int side);

// The images in a folder, by their endings, in the order of their names. Throws ConfigError where
// there are none.
std::vector<std::string> image_names(const std::filesystem::path& folder);

// The files that are meant: a file is itself, a folder the images in it. Throws ConfigError for
// what is not there and for a folder without images.
std::vector<std::filesystem::path> image_files(const std::vector<std::string>& paths);

// What an image file is to a network that was trained with images of this shape. Photographs: the
// centre, as in evaluation (resample.h). Else an image of exactly the shape's size is taken as it
// is, and of another the largest square in its centre. Colours become gray by their brightness
// where there is one channel. Values are normalised. Throws ConfigError naming the file.
std::vector<float> picture_input(const std::filesystem::path& path, const InputShape& shape,
                                 bool photographs, const Normalisation& normalisation);

}  // namespace daso
