// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/data/folder.h"
#include "daso/data/image_folder.h"
#include "daso/data/key_values.h"

// Which images a folder holds.
namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage = "images:DIR";
constexpr std::array kEndings = {".jpg", ".jpeg", ".png"};

bool is_image(const std::string& name) {
  std::string ending = fs::path(name).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return std::ranges::any_of(kEndings, [&](const char* one) { return ending == one; });
}

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
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !is_image(name); });
  require(!names.empty(), "{}: holds no images (files that end in {})", folder.string(),
          join(std::vector<std::string>(kEndings.begin(), kEndings.end()), ", "));
  std::ranges::move(names, std::back_inserter(list.names));
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

}  // namespace daso
