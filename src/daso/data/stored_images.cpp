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
  DASO_ASSERT(std::cmp_equal(input.size(), images_.shape.elements()));
  std::ranges::transform(bytes_of(index), input.begin(), value_of);
  return label_of(index);
}

int StoredImages::read_bytes(std::int64_t index, std::span<std::uint8_t> input) const {
  DASO_ASSERT(std::cmp_equal(input.size(), images_.shape.elements()));
  std::ranges::copy(bytes_of(index), input.begin());
  return label_of(index);
}

std::span<const std::uint8_t> StoredImages::bytes_of(std::int64_t index) const {
  DASO_ASSERT(index >= 0 && index < size());
  const auto elements = static_cast<std::size_t>(images_.shape.elements());
  return std::span(images_.values).subspan(static_cast<std::size_t>(index) * elements, elements);
}

int StoredImages::label_of(std::int64_t index) const {
  return images_.labels[static_cast<std::size_t>(index)];
}

}  // namespace daso
