// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "daso/data/dataset.h"

namespace daso {

// Images of one byte per value, all in memory.
struct Images {
  InputShape shape;
  std::vector<std::uint8_t> values;  // image by image
  std::vector<std::uint8_t> labels;
};

class StoredImages final : public ImageDataset {
 public:
  // As many values as labels and shape say; labels below classes.
  StoredImages(Images images, int classes);

  std::int64_t size() const override;
  InputShape shape() const override;
  int classes() const override;
  int read(std::int64_t index, std::span<float> input) const override;

 private:
  Images images_;
  int classes_;
};

// 0, 1/255 ... 1.
float value_of(std::uint8_t byte);

}  // namespace daso
