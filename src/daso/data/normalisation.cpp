// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "daso/base/error.h"
#include "daso/data/loader.h"

namespace daso {

Normalisation normalisation_of(const Dataset& dataset) {
  constexpr std::int64_t kExamples = 10000;
  constexpr double kNoVariation = 1e-12;  // what rounding leaves of a variance of 0
  if (const auto known = dataset.normalisation()) return *known;
  const InputShape shape = dataset.shape();
  if (shape.kind == InputKind::kText) return {};
  const ImageDataset& images = as_images(dataset);
  const auto plane = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
  const std::int64_t examples = std::min(dataset.size(), kExamples);
  require(examples >= 1, "the dataset must hold at least 1 example, it holds {}", examples);
  const auto channels = static_cast<std::size_t>(shape.channels);
  std::vector<double> sums(channels);
  std::vector<double> squares(channels);
  std::vector<float> image(channels * plane);
  for (std::int64_t index = 0; index < examples; ++index) {
    images.read(index, image);
    for (std::size_t i = 0; i < image.size(); ++i) {
      const double value = image[i];
      sums[i / plane] += value;
      squares[i / plane] += value * value;
    }
  }
  Normalisation normalisation;
  const double count = static_cast<double>(plane) * static_cast<double>(examples);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const double mean = sums[channel] / count;
    const double variance = squares[channel] / count - mean * mean;
    normalisation.mean.push_back(static_cast<float>(mean));
    normalisation.deviation.push_back(
        variance > kNoVariation ? static_cast<float>(std::sqrt(variance)) : 1.0F);
  }
  return normalisation;
}

}  // namespace daso
