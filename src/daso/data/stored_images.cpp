// SPDX-License-Identifier: Apache-2.0
#include "daso/data/stored_images.h"

#include <algorithm>
#include <utility>

#include "daso/base/error.h"

namespace daso {

float value_of(std::uint8_t byte) { return static_cast<float>(byte) / 255.0F; }

StoredImages::StoredImages(Images images, int classes, std::vector<std::string> class_names)
    : images_(std::move(images)), classes_(classes), class_names_(std::move(class_names)) {
  DASO_ASSERT(class_names_.empty() || std::cmp_equal(class_names_.size(), classes));
  DASO_ASSERT(std::cmp_equal(images_.values.size(), size() * images_.shape.elements()));
  DASO_ASSERT(std::ranges::all_of(images_.labels, [&](int label) { return label < classes; }));
}

std::int64_t StoredImages::size() const { return static_cast<std::int64_t>(images_.labels.size()); }

InputShape StoredImages::shape() const { return images_.shape; }

int StoredImages::classes() const { return classes_; }

int StoredImages::read(std::int64_t index, std::span<float> input) const {
  DASO_ASSERT(index >= 0 && index < size());
  DASO_ASSERT(std::cmp_equal(input.size(), images_.shape.elements()));
  const auto first = images_.values.begin() + index * images_.shape.elements();
  std::transform(first, first + images_.shape.elements(), input.begin(), value_of);
  return images_.labels[static_cast<std::size_t>(index)];
}

}  // namespace daso
