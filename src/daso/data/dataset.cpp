// SPDX-License-Identifier: Apache-2.0
#include "daso/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "daso/base/disk.h"
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

int ImageDataset::read_bytes(std::int64_t /*index*/, std::span<std::uint8_t> /*input*/) const {
  throw ConfigError("this data is not stored as bytes");
}

namespace {

// Of each channel.
struct Sums {
  std::vector<double> values;
  std::vector<double> squares;
};

std::size_t plane_of(const InputShape& shape) {
  return static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
}

// The sums with the images from `first` to before `end` added.
Sums added(Sums sums, const Dataset& dataset, std::int64_t first, std::int64_t end) {
  const ImageDataset& images = as_images(dataset);
  const std::size_t plane = plane_of(dataset.shape());
  std::vector<float> image(sums.values.size() * plane);
  for (std::int64_t index = first; index < end; ++index) {
    images.read(index, image);
    for (std::size_t i = 0; i < image.size(); ++i) {
      const double value = image[i];
      sums.values[i / plane] += value;
      sums.squares[i / plane] += value * value;
    }
  }
  return sums;
}

}  // namespace

Normalisation normalisation_of(const std::shared_ptr<const Dataset>& dataset, Seconds limit) {
  constexpr std::int64_t kExamples = 10000;
  constexpr std::int64_t kBatch = 256;    // has the limit, so that slow data is not refused
  constexpr double kNoVariation = 1e-12;  // what rounding leaves of a variance of 0
  if (const auto known = dataset->normalisation()) return *known;
  const InputShape shape = dataset->shape();
  if (shape.kind == InputKind::kText) return {};
  const std::int64_t examples = std::min(dataset->size(), kExamples);
  require(examples >= 1, "the dataset must hold at least 1 example, it holds {}", examples);
  const auto channels = static_cast<std::size_t>(shape.channels);
  Sums sums{std::vector<double>(channels), std::vector<double>(channels)};
  Disk disk;
  for (std::int64_t first = 0; first < examples; first += kBatch) {
    const std::int64_t end = std::min(examples, first + kBatch);
    sums = disk.within(limit,
                       fmt::format("reading examples {} ... {} to normalise by", first, end - 1),
                       [sums, dataset, first, end] { return added(sums, *dataset, first, end); });
  }
  Normalisation normalisation;
  const double count = static_cast<double>(plane_of(shape)) * static_cast<double>(examples);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const double mean = sums.values[channel] / count;
    const double variance = sums.squares[channel] / count - mean * mean;
    normalisation.mean.push_back(static_cast<float>(mean));
    normalisation.deviation.push_back(
        variance > kNoVariation ? static_cast<float>(std::sqrt(variance)) : 1.0F);
  }
  return normalisation;
}

}  // namespace daso
