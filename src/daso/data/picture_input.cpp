// SPDX-License-Identifier: Apache-2.0
#include "daso/data/picture_input.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/data/files.h"
#include "daso/data/image_file.h"
#include "daso/data/stored_images.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr std::array kEndings = {".jpg", ".jpeg", ".png"};

bool is_image(const std::string& name) {
  std::string ending = fs::path(name).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return std::ranges::any_of(kEndings, [&](const char* one) { return ending == one; });
}

// The largest square in the centre.
ImageCut centre_square(int width, int height) {
  const int side = std::min(width, height);
  return cut_of(
      {.left = (width - side) / 2, .top = (height - side) / 2, .width = side, .height = side});
}

// Three planes of the image as it is stored; empty: it has another size.
std::vector<float> at_own_size(const fs::path& path, const InputShape& shape) {
  const std::vector<std::uint8_t> bytes = ByteReader(path).take_rest();
  const std::unique_ptr<ImageFile> image = open_image(bytes, path.string());
  if (image->width() != shape.width || image->height() != shape.height) return {};
  const Picture picture =
      image->decode({.width = shape.width, .height = shape.height}, /*shrink=*/1);
  std::vector<float> planes;
  for (int colour = 0; colour < kColours; ++colour) {
    for (int y = 0; y < shape.height; ++y) {
      const std::uint8_t* const row = picture.row(y);
      for (int x = 0; x < shape.width; ++x) planes.push_back(value_of(row[x * kColours + colour]));
    }
  }
  return planes;
}

std::vector<float> resampled(const fs::path& path, const InputShape& shape, const MakeCut& cut) {
  const int side = shape.height;
  const LoadedPicture loaded = load_picture(path, cut, side);
  std::vector<float> planes(std::size_t{kColours} * static_cast<std::size_t>(side) *
                            static_cast<std::size_t>(side));
  resample(loaded.picture, loaded.cut, side, planes);
  return planes;
}

// As of television (ITU-R BT.601), which is what PIL's "L" is.
std::vector<float> gray_of(const std::vector<float>& planes) {
  const std::size_t plane = planes.size() / kColours;
  std::vector<float> gray(plane);
  for (std::size_t i = 0; i < plane; ++i) {
    gray[i] = 0.299F * planes[i] + 0.587F * planes[plane + i] + 0.114F * planes[2 * plane + i];
  }
  return gray;
}

}  // namespace

LoadedPicture load_picture(const fs::path& path, const MakeCut& make_cut, int side) {
  const std::vector<std::uint8_t> bytes = ByteReader(path).take_rest();
  const std::unique_ptr<ImageFile> image = open_image(bytes, path.string());
  const ImageCut cut = make_cut(image->width(), image->height());
  return {.cut = cut,
          .picture = image->decode(reach_of(cut, side), shrink_for(cut, side)),
          .bytes = static_cast<std::int64_t>(bytes.size())};
}

std::vector<std::string> image_names(const fs::path& folder) {
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !is_image(name); });
  require(!names.empty(), "{}: holds no images (files that end in {})", folder.string(),
          join(std::vector<std::string>(kEndings.begin(), kEndings.end()), ", "));
  return names;
}

std::vector<fs::path> image_files(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const fs::path path : paths) {
    require(is_there(path), "there is no image '{}'", path.string());
    if (!is_folder(path)) {
      files.push_back(path);
      continue;
    }
    for (const std::string& name : image_names(path)) files.push_back(path / name);
  }
  return files;
}

std::vector<float> picture_input(const fs::path& path, const InputShape& shape, bool photographs,
                                 const Normalisation& normalisation) {
  DASO_ASSERT(shape.kind == InputKind::kImage);
  require(shape.channels == 1 || shape.channels == kColours,
          "the model takes images of {} channels, which no image file has", shape.channels);
  std::vector<float> planes;
  if (!photographs) planes = at_own_size(path, shape);
  if (planes.empty()) {
    require(shape.height == shape.width, "{}: the model takes images of exactly {}x{} pixels",
            path.string(), shape.width, shape.height);
    planes = resampled(path, shape, [&](int width, int height) {
      return photographs ? centre_cut(width, height, shape.height) : centre_square(width, height);
    });
  }
  std::vector<float> input = shape.channels == 1 ? gray_of(planes) : std::move(planes);
  normalise(normalisation, input);
  return input;
}

}  // namespace daso
