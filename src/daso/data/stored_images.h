// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "daso/data/dataset.h"

// Small images of one size, all of which fit into memory.
namespace daso {

// Images of one byte per value, all in memory.
struct Images {
  InputShape shape;
  std::vector<std::uint8_t> values;  // image by image
  std::vector<std::uint8_t> labels;
};

class StoredImages final : public ImageDataset {
 public:
  // As many values as labels and shape say; labels below classes. Of the names all or none.
  StoredImages(Images images, int classes, std::vector<std::string> class_names = {});

  std::int64_t size() const override;
  InputShape shape() const override;
  int classes() const override;
  int read(std::int64_t index, std::span<float> input) const override;
  bool has_bytes() const override { return true; }
  int read_bytes(std::int64_t index, std::span<std::uint8_t> input) const override;
  std::vector<std::string> class_names() const override { return class_names_; }

 private:
  std::span<const std::uint8_t> bytes_of(std::int64_t index) const;
  int label_of(std::int64_t index) const;

  Images images_;
  int classes_;
  std::vector<std::string> class_names_;
};

// 0, 1/255 ... 1.
float value_of(std::uint8_t byte);

// The files of MNIST and its relatives: a number that tells type and dimensions, the dimensions,
// the values; all numbers 4 bytes, the highest first. Throws ConfigError naming the file.
Datasets open_idx(const std::filesystem::path& folder);

// The binary versions of CIFAR-10 and CIFAR-100: records of labels and 3 x 32 x 32 bytes, nothing
// else. A record of CIFAR-100 has a coarse and a fine label; the fine ones are the classes. The
// names of the classes are known where the file lies there that the archives have for them. Throw
// ConfigError naming the file.
Datasets open_cifar10(const std::filesystem::path& folder);
Datasets open_cifar100(const std::filesystem::path& folder);

}  // namespace daso
