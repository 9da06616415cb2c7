// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/data/files.h"
#include "daso/data/stored_images.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr InputShape kShape = {.channels = 3, .height = 32, .width = 32};
constexpr std::size_t kValues = 3 * 32 * 32;

// How one of the two lies on disk.
struct Layout {
  std::string name;
  std::string usage;
  std::string archive;      // the folder that its archive has
  std::string python_file;  // that only the Python version has
  std::size_t labels;       // bytes before the values, the last of which is the class
  std::string record;       // the same in words
  int classes;
  std::vector<std::string> train;
  std::string test;
  std::string class_names;  // a line for each; may be missing

  std::size_t record_bytes() const { return labels + kValues; }
};

Layout cifar10() {
  return {.name = "CIFAR-10",
          .usage = "cifar10:DIR",
          .archive = "cifar-10-batches-bin",
          .python_file = "data_batch_1",
          .labels = 1,
          .record = "a label and 3x32x32 values",
          .classes = 10,
          .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                    "data_batch_5.bin"},
          .test = "test_batch.bin",
          .class_names = "batches.meta.txt"};
}

Layout cifar100() {
  return {.name = "CIFAR-100",
          .usage = "cifar100:DIR",
          .archive = "cifar-100-binary",
          .python_file = "train",
          .labels = 2,
          .record = "two labels and 3x32x32 values",
          .classes = 100,
          .train = {"train.bin"},
          .test = "test.bin",
          .class_names = "fine_label_names.txt"};
}

void append_file(Images& images, const fs::path& path, const Layout& layout) {
  const std::vector<std::uint8_t> bytes = ByteReader(path).take_rest();
  const std::size_t record_bytes = layout.record_bytes();
  require(!bytes.empty() && bytes.size() % record_bytes == 0,
          "{}: {} bytes, expected a multiple of {} ({}); the file is truncated or not of {}",
          path.string(), bytes.size(), record_bytes, layout.record, layout.name);
  for (std::size_t at = 0; at < bytes.size(); at += record_bytes) {
    const std::uint8_t label = bytes[at + layout.labels - 1];
    require(label < layout.classes, "{}: label {} of record {} is out of range: {} has 0 ... {}",
            path.string(), label, at / record_bytes, layout.name, layout.classes - 1);
    images.labels.push_back(label);
    const auto values = bytes.begin() + static_cast<std::ptrdiff_t>(at + layout.labels);
    images.values.insert(images.values.end(), values, values + kValues);
  }
}

// Empty where there is no file of them.
std::vector<std::string> read_class_names(const fs::path& folder, const Layout& layout) {
  const fs::path file = folder / layout.class_names;
  std::vector<std::string> names;
  if (!is_there(file)) return names;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (!trim(line).empty()) names.emplace_back(trim(line));
  }
  require(std::cmp_equal(names.size(), layout.classes),
          "{}: has {} names, and {} has {} classes; correct the file or move it away",
          file.string(), names.size(), layout.name, layout.classes);
  return names;
}

std::shared_ptr<const Dataset> read_files(const fs::path& folder,
                                          const std::vector<std::string>& names,
                                          const Layout& layout) {
  Images images{.shape = kShape};
  for (const std::string& name : names) append_file(images, first_there(folder, {name}), layout);
  return std::make_shared<StoredImages>(std::move(images), layout.classes,
                                        read_class_names(folder, layout));
}

Datasets open_cifar(const fs::path& asked, const Layout& layout) {
  require_folder(asked, layout.usage);
  std::error_code problem;
  const fs::path inside = asked / layout.archive;
  const fs::path folder = fs::is_directory(inside, problem) ? inside : asked;
  require(!fs::exists(folder / layout.python_file, problem),
          "{}: holds the Python version of {}; the binary version is needed ({}, {})",
          folder.string(), layout.name, join(layout.train, ", "), layout.test);
  return {.train = read_files(folder, layout.train, layout),
          .test = read_files(folder, {layout.test}, layout)};
}

}  // namespace

Datasets open_cifar10(const fs::path& folder) { return open_cifar(folder, cifar10()); }

Datasets open_cifar100(const fs::path& folder) { return open_cifar(folder, cifar100()); }

}  // namespace daso
