// SPDX-License-Identifier: Apache-2.0
#include "daso/data/image_folder.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/data/files.h"
#include "daso/data/key_values.h"
#include "daso/data/resample.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage = "images:DIR";

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [&](const std::string& name) {
    std::error_code problem;
    return name.starts_with('.') || !fs::is_directory(folder / name, problem);
  });
  return names;
}

// Appends the images of a class.
void append_class(ImageList& list, const fs::path& folder) {
  std::ranges::move(image_names(folder), std::back_inserter(list.names));
}

// The images of one part. It may lack some of the classes.
ImageList list_of(const fs::path& folder, const std::vector<std::string>& classes) {
  require_folder(folder, kUsage);
  const std::vector<std::string> there = folders_in(folder);
  for (const std::string& name : there) {
    require(std::ranges::binary_search(classes, name),
            "{}: a class that the images to train with do not have", (folder / name).string());
  }
  ImageList list{.folder = folder, .classes = classes, .begins = {0}};
  for (const std::string& name : classes) {
    if (std::ranges::binary_search(there, name)) append_class(list, folder / name);
    list.begins.push_back(static_cast<std::int64_t>(list.names.size()));
  }
  require(!list.names.empty(), "{}: holds no folder of any class", folder.string());
  return list;
}

}  // namespace

ImageFolderOptions parse_images(const std::string& text) {
  ImageFolderOptions options;
  KeyValues keys("a folder of images");
  keys.whole_number("size", options.size, 8, 2048);
  options.folder = keys.read_behind(text);
  return options;
}

Datasets open_images(const ImageFolderOptions& options) {
  require_folder(options.folder, kUsage);
  const fs::path train = first_there(options.folder, {"train"});
  const fs::path test = first_there(options.folder, {"val", "test"});
  const std::vector<std::string> classes = folders_in(train);
  require(classes.size() >= 2,
          "{}: holds {} folders, and each class needs one: there must be 2 at least",
          train.string(), classes.size());
  return {.train = std::make_shared<ImageFolder>(list_of(train, classes), options),
          .test = std::make_shared<ImageFolder>(list_of(test, classes), options)};
}

namespace {

ColourScale scale_of(const Normalisation& normalisation) {
  DASO_ASSERT(normalisation.mean.size() == kColours && normalisation.deviation.size() == kColours);
  ColourScale scale;
  for (std::size_t colour = 0; colour < kColours; ++colour) {
    scale.mean[colour] = normalisation.mean[colour];
    scale.factor[colour] = normalisation.factor(colour);
  }
  return scale;
}

}  // namespace

int ImageList::label_of(std::int64_t index) const {
  return static_cast<int>(std::ranges::upper_bound(begins, index) - begins.begin()) - 1;
}

std::filesystem::path ImageList::path_of(std::int64_t index) const {
  return folder / classes[static_cast<std::size_t>(label_of(index))] /
         names[static_cast<std::size_t>(index)];
}

ImageFolder::ImageFolder(ImageList list, const ImageFolderOptions& options)
    : list_(std::move(list)), side_(static_cast<int>(options.size)), skip_bad_(options.skip_bad) {
  DASO_ASSERT(list_.begins.size() == list_.classes.size() + 1);
}

std::int64_t ImageFolder::size() const { return static_cast<std::int64_t>(list_.names.size()); }

InputShape ImageFolder::shape() const {
  return {.channels = kColours, .height = side_, .width = side_};
}

int ImageFolder::classes() const { return static_cast<int>(list_.classes.size()); }

std::optional<Normalisation> ImageFolder::normalisation() const {
  return Normalisation{.mean = {0.485F, 0.456F, 0.406F}, .deviation = {0.229F, 0.224F, 0.225F}};
}

std::int64_t ImageFolder::bad_files() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(bad_.size());
}

int ImageFolder::read(std::int64_t index, std::span<float> input) const {
  return load(index, centre(), {}, input);
}

int ImageFolder::read_normalised(std::int64_t index, const Normalisation& normalisation,
                                 const std::optional<RandomStream>& random,
                                 std::span<float> input) const {
  const ColourScale scale = scale_of(normalisation);
  return load(index, random ? drawn(*random) : centre(), scale, input);
}

std::int64_t ImageFolder::decode_only(std::int64_t index, RandomStream random) const {
  return load_picture(list_.path_of(index), drawn(random), side_).bytes;
}

MakeCut ImageFolder::centre() const {
  return [this](int width, int height) { return centre_cut(width, height, side_); };
}

MakeCut ImageFolder::drawn(RandomStream random) {
  return [random](int width, int height) { return draw_cut(width, height, random); };
}

int ImageFolder::load(std::int64_t index, const MakeCut& make_cut, const ColourScale& scale,
                      std::span<float> input) const {
  DASO_ASSERT(index >= 0 && index < size());
  const int label = list_.label_of(index);
  if (!skip_bad_) {
    load_or_end(index, make_cut, scale, input);
    return label;
  }
  const std::int64_t begin = list_.begins[static_cast<std::size_t>(label)];
  const std::int64_t count = list_.begins[static_cast<std::size_t>(label) + 1] - begin;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t candidate = begin + (index - begin + i) % count;
    try {
      load_file(candidate, make_cut, scale, input);
      return label;
    } catch (const ConfigError& error) {
      note_as_bad(candidate, error.what());
    }
  }
  throw ConfigError(fmt::format("{}: none of its {} images can be read",
                                list_.path_of(index).parent_path().string(), count));
}

void ImageFolder::load_file(std::int64_t index, const MakeCut& make_cut, const ColourScale& scale,
                            std::span<float> input) const {
  const LoadedPicture loaded = load_picture(list_.path_of(index), make_cut, side_);
  resample(loaded.picture, loaded.cut, side_, input, scale);
}

// A file that ends the run: it need not.
void ImageFolder::load_or_end(std::int64_t index, const MakeCut& make_cut, const ColourScale& scale,
                              std::span<float> input) const {
  try {
    load_file(index, make_cut, scale, input);
  } catch (const ConfigError& error) {
    throw ConfigError(
        fmt::format("{}; --skip-bad-images takes another of its class instead", error.what()));
  }
}

void ImageFolder::note_as_bad(std::int64_t index, const std::string& reason) const {
  const std::lock_guard lock(mutex_);
  if (!bad_.insert(index).second) return;
  fmt::print(stderr, "daso: warning: {}; the next image of its class takes its place\n", reason);
}

}  // namespace daso
