// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "daso/base/error.h"
#include "daso/data/batch_maker.h"
#include "daso/data/loader.h"

// What looks at a dataset in its own order.
namespace daso {

Normalisation normalisation_of(const Dataset& dataset) {
  constexpr std::int64_t kExamples = 10000;
  constexpr double kNoVariation = 1e-12;  // what rounding leaves of a variance of 0
  const ImageShape shape = dataset.shape();
  const auto plane = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
  const std::int64_t examples = std::min(dataset.size(), kExamples);
  require(examples >= 1, "the dataset must hold at least 1 example, it holds {}", examples);
  const auto channels = static_cast<std::size_t>(shape.channels);
  std::vector<double> sums(channels);
  std::vector<double> squares(channels);
  std::vector<float> image(channels * plane);
  for (std::int64_t index = 0; index < examples; ++index) {
    dataset.read(index, image);
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

std::vector<Batch> evaluation_batches(const Dataset& dataset, int batch_size, int rank, int ranks,
                                      const Normalisation& normalisation) {
  require(batch_size >= 1, "the batch size must be at least 1, got {}", batch_size);
  DASO_ASSERT(rank >= 0 && rank < ranks);
  const Normalisation complete = completed(normalisation, dataset.shape().channels);
  BatchFiller filler(dataset, complete);
  const std::int64_t end = dataset.size() * (rank + 1) / ranks;
  std::vector<Batch> batches;
  for (std::int64_t first = dataset.size() * rank / ranks; first < end; first += batch_size) {
    const std::int64_t examples = std::min<std::int64_t>(batch_size, end - first);
    Batch& batch = batches.emplace_back(empty_batch(dataset.shape(), examples));
    for (std::int64_t i = 0; i < examples; ++i) filler.fill(batch, i, first + i, Placement{});
  }
  return batches;
}

}  // namespace daso
