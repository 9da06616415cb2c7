// SPDX-License-Identifier: Apache-2.0
#include "daso/data/dataset.h"

#include <fmt/format.h>

#include "daso/base/error.h"

namespace daso {

std::string text_of(const InputShape& shape) {
  if (shape.kind == InputKind::kText) return fmt::format("{} tokens", shape.width);
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

void normalise(const Normalisation& normalisation, std::span<float> image) {
  const std::size_t plane = image.size() / normalisation.mean.size();
  for (std::size_t channel = 0; channel < normalisation.mean.size(); ++channel) {
    const float mean = normalisation.mean[channel];
    const float factor = normalisation.factor(channel);
    for (float& value : image.subspan(channel * plane, plane)) value = (value - mean) * factor;
  }
}

int ImageDataset::read_normalised(std::int64_t index, const Normalisation& normalisation,
                                  const std::optional<RandomStream>& random,
                                  std::span<float> input) const {
  DASO_ASSERT(!random.has_value());
  const int label = read(index, input);
  normalise(normalisation, input);
  return label;
}

}  // namespace daso
