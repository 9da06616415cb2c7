// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/run_folder.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/random.h"
#include "daso/data/image_file.h"
#include "daso/data/resample.h"
#include "daso/data/synthetic.h"

namespace daso::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32;            // of the synthetic images
constexpr int kLargest = 2048;       // as of the size of images:DIR
constexpr int kGrain = 10;           // noise of the files' pixels, in steps of a byte
constexpr int kPngs = 4;             // every fourth file is a PNG
constexpr std::uint64_t kNoise = 6;  // tells this use of the seed from others

struct MakeImagesOptions {
  std::string folder;
  int classes = 10;
  int train = 200;  // of each class
  int val = 50;
  int size = 256;  // the shorter side
  int seed = 1;
};

// An example of the synthetic data, as a picture.
Picture picture_of(const ImageDataset& data, std::int64_t index) {
  constexpr std::size_t kPlane = std::size_t{kSide} * kSide;
  std::array<float, kPlane * kColours> planes{};
  data.read(index, planes);
  Picture picture{.part = {.width = kSide, .height = kSide}};
  for (std::size_t pixel = 0; pixel < kPlane; ++pixel) {
    for (std::size_t colour = 0; colour < kColours; ++colour) {
      const float value = planes[colour * kPlane + pixel];
      picture.values.push_back(static_cast<std::uint8_t>(std::lround(255 * value)));
    }
  }
  return picture;
}

// The picture enlarged to a square, and of that a square, wide or upright part, with grain.
RawImage enlarged(const Picture& picture, int size, std::int64_t index, RandomStream random) {
  const int longer = size * 4 / 3;
  const auto plane = static_cast<std::size_t>(longer) * static_cast<std::size_t>(longer);
  std::vector<float> square(plane * kColours);
  resample(picture, cut_of(picture.part), longer, square);
  RawImage image{.width = index % 3 == 1 ? longer : size, .height = index % 3 == 2 ? longer : size};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (std::size_t colour = 0; colour < kColours; ++colour) {
        const auto at = static_cast<std::size_t>(y) * static_cast<std::size_t>(longer) +
                        static_cast<std::size_t>(x);
        const long value = std::lround(255 * square[colour * plane + at]) + random.around(kGrain);
        image.values.push_back(static_cast<std::uint8_t>(std::clamp(value, 0L, 255L)));
      }
    }
  }
  return image;
}

void write_part(const fs::path& folder, const ImageDataset& data, std::uint64_t part,
                const MakeImagesOptions& options) {
  for (std::int64_t index = 0; index < data.size(); ++index) {
    const std::int64_t label = index % options.classes;  // as the synthetic data has it
    const std::int64_t number = index / options.classes;
    const fs::path place = folder / fmt::format("class{:03}", label);
    daso::make_folder(place);
    const RandomStream random{static_cast<std::uint64_t>(options.seed), kNoise, part,
                              static_cast<std::uint64_t>(index)};
    const RawImage image = enlarged(picture_of(data, index), options.size, number, random);
    const std::string name = fmt::format("{:05}", number);
    if (number % kPngs == kPngs - 1) {
      write_png(place / (name + ".png"), image);
    } else {
      write_jpeg(place / (name + ".jpg"), image);
    }
  }
}

int act(const MakeImagesOptions& options) {
  const fs::path folder = options.folder;
  require(!is_there(folder) || (is_folder(folder) && names_in(folder).empty()),
          "{}: is there already; name a folder that is not, or an empty one", folder.string());
  make_folder("make images", folder);
  const Datasets data = open_synthetic({.train = std::int64_t{options.classes} * options.train,
                                        .test = std::int64_t{options.classes} * options.val,
                                        .classes = options.classes,
                                        .size = kSide,
                                        .noise = 0.05,
                                        .seed = options.seed});
  write_part(folder / "train", as_images(*data.train), 0, options);
  write_part(folder / "val", as_images(*data.test), 1, options);
  fmt::print("{} and {} images of {} classes; daso train --data images:{}\n", data.train->size(),
             data.test->size(), options.classes, folder.string());
  return kExitOk;
}

}  // namespace

Command add_make_images(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("images", "Write a folder of images to try --data images:DIR");
  const auto options = std::make_shared<MakeImagesOptions>();
  Flags flags(*app);
  app->add_option("folder", options->folder, "The folder to write")->required();
  const auto count = [&](const char* name, const char* meaning, int& value, int at_least,
                         int at_most = std::numeric_limits<int>::max()) {
    flags.count(name, meaning, value, at_least, at_most)->default_str(std::to_string(value));
  };
  count("--classes", "Classes", options->classes, 2);
  count("--train", "Images of a class to train with", options->train, 1);
  count("--val", "Images of a class to test with", options->val, 1);
  count("--size", "Pixels of the shorter side, up to 2048", options->size, 8, kLargest);
  count("--seed", "Of all of them", options->seed, 0);
  return {app, [options](const Invocation&) { return act(*options); }};
}

}  // namespace daso::cli
