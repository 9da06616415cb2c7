// SPDX-License-Identifier: Apache-2.0
#include "daso/data/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/random.h"
#include "daso/data/key_values.h"
#include "daso/data/stored_images.h"

namespace daso {
namespace {

constexpr int kPatterns = 2;    // of each class
constexpr int kGrid = 6;        // random values along each side of a pattern
constexpr int kAmplitude = 96;  // of a pattern, in steps of a byte
constexpr int kShift = 6;       // a pattern is shifted by up to 1 / kShift of its size
constexpr int kUnit = 256;      // what stands for 1 in fractions and contrasts
constexpr std::int64_t kMostValues = std::int64_t{1} << 26;  // of all patterns together
enum Purpose : std::uint64_t { kPattern = 2, kTrain = 3, kTest = 4 };

constexpr std::int64_t kMostExamples = 1'000'000'000;

// f^2 (3 - 2 f), in units.
int smooth(int fraction) {
  return fraction * fraction * (3 * kUnit - 2 * fraction) / (kUnit * kUnit);
}

// One channel of a pattern, -kAmplitude ... kAmplitude: random values on a grid and smooth
// transitions between them; what leaves at one edge comes in at the other.
void draw_channel(int size, RandomStream& random, std::span<std::int16_t> values) {
  std::array<std::array<int, kGrid>, kGrid> grid{};
  for (auto& row : grid) {
    for (int& value : row) value = random.around(kUnit);
  }
  const auto at = [&](int row, int column) {
    return grid[static_cast<std::size_t>(row % kGrid)][static_cast<std::size_t>(column % kGrid)];
  };
  const auto between = [](int from, int to, int part) {
    return (from * (kUnit - part) + to * part) / kUnit;
  };
  std::vector<int> field;
  for (int y = 0; y < size; ++y) {
    const int row = y * kGrid / size;
    const int down = smooth(y * kGrid * kUnit / size - row * kUnit);
    for (int x = 0; x < size; ++x) {
      const int column = x * kGrid / size;
      const int right = smooth(x * kGrid * kUnit / size - column * kUnit);
      field.push_back(between(between(at(row, column), at(row, column + 1), right),
                              between(at(row + 1, column), at(row + 1, column + 1), right), down));
    }
  }
  int largest = 1;
  for (const int value : field) largest = std::max(largest, std::abs(value));
  std::ranges::transform(field, values.begin(), [&](int value) {
    return static_cast<std::int16_t>(value * kAmplitude / largest);
  });
}

// The patterns of all classes.
class Patterns {
 public:
  explicit Patterns(const SyntheticOptions& options)
      : shape_{.channels = static_cast<int>(options.channels),
               .height = static_cast<int>(options.size),
               .width = static_cast<int>(options.size)} {
    const auto plane = static_cast<std::size_t>(options.size * options.size);
    const auto planes = static_cast<std::size_t>(options.classes * kPatterns * options.channels);
    values_.resize(planes * plane);
    for (std::size_t i = 0; i < planes; ++i) {
      RandomStream random{static_cast<std::uint64_t>(options.seed), kPattern, i};
      draw_channel(shape_.height, random, std::span(values_).subspan(i * plane, plane));
    }
  }

  const InputShape& shape() const { return shape_; }
  std::span<const std::int16_t> of(int label, int number) const {
    const auto elements = static_cast<std::size_t>(shape_.elements());
    return std::span(values_).subspan(
        static_cast<std::size_t>(label * kPatterns + number) * elements, elements);
  }

 private:
  InputShape shape_;
  std::vector<std::int16_t> values_;
};

class Synthetic final : public ImageDataset {
 public:
  Synthetic(const SyntheticOptions& options, std::shared_ptr<const Patterns> patterns,
            Purpose purpose)
      : patterns_(std::move(patterns)),
        classes_(static_cast<int>(options.classes)),
        size_(purpose == kTrain ? options.train : options.test),
        seed_(static_cast<std::uint64_t>(options.seed)),
        purpose_(purpose),
        noise_(std::llround(options.noise * kNoiseUnit)) {
    for (int byte = 0; byte < kBytes; ++byte) {
      values_[static_cast<std::size_t>(byte)] = value_of(static_cast<std::uint8_t>(byte));
    }
  }

  std::int64_t size() const override { return size_; }
  InputShape shape() const override { return patterns_->shape(); }
  int classes() const override { return classes_; }

  int read(std::int64_t index, std::span<float> input) const override {
    return draw(index, input, [this](int byte) { return values_[static_cast<std::size_t>(byte)]; });
  }
  bool has_bytes() const override { return true; }
  int read_bytes(std::int64_t index, std::span<std::uint8_t> input) const override {
    return draw(index, input, [](int byte) { return static_cast<std::uint8_t>(byte); });
  }

 private:
  static constexpr int kBytes = 256;
  // Four numbers of 16 bits have a sum of standard deviation 2^16 sqrt(4 / 12) = 37837.
  static constexpr std::int64_t kNoiseDeviation = 37837;
  // A noise of 1 in units of 1 / kUnit of a byte's step, 255 of which are the whole range.
  static constexpr int kNoiseUnit = 255 * kUnit;

  // Writes the image, each byte as what value_of_byte() makes of it, and returns its class.
  template <typename Value, typename ValueOf>
  int draw(std::int64_t index, std::span<Value> input, const ValueOf& value_of_byte) const {
    DASO_ASSERT(index >= 0 && index < size_);
    const InputShape shape = patterns_->shape();
    DASO_ASSERT(std::cmp_equal(input.size(), shape.elements()));
    RandomStream random{seed_, purpose_, static_cast<std::uint64_t>(index)};
    const int label = static_cast<int>(index % classes_);
    const auto pattern = patterns_->of(label, static_cast<int>(random.below(kPatterns)));
    const int contrast = kUnit / 2 + static_cast<int>(random.below(kUnit / 2 + 1));
    const int factor = random.below(2) == 0 ? contrast : -contrast;
    const int down = shape.height + random.around(shape.height / kShift);
    const int right = shape.width + random.around(shape.width / kShift);
    const auto width = static_cast<std::size_t>(shape.width);
    auto out = input.begin();
    for (int row = 0; row < shape.channels * shape.height; ++row) {
      const int channel_top = row - row % shape.height;
      const int from = channel_top + (row + down) % shape.height;
      const auto line = pattern.subspan(static_cast<std::size_t>(from) * width, width);
      for (int x = 0; x < shape.width; ++x) {
        const int column = (x + right) % shape.width;
        const int value = line[static_cast<std::size_t>(column)];
        *out++ = value_of_byte(pixel(value * factor + noise(random.next())));
      }
    }
    return label;
  }

  // Near to normal: the sum of four, from the bits of one random number.
  int noise(std::uint64_t bits) const {
    constexpr std::int64_t kMean = 131070;  // 4 * 65535 / 2
    std::int64_t sum = -kMean;
    for (int i = 0; i < 4; ++i) sum += static_cast<std::int64_t>(bits >> (16 * i) & 0xffff);
    return static_cast<int>(sum * noise_ / kNoiseDeviation);
  }

  // The byte of a difference to gray, in units of 1 / kUnit of a byte's step.
  static int pixel(int difference) {
    return std::clamp((kBytes / 2 * kUnit + difference) / kUnit, 0, kBytes - 1);
  }

  std::shared_ptr<const Patterns> patterns_;
  int classes_;
  std::int64_t size_;
  std::uint64_t seed_;
  Purpose purpose_;
  std::int64_t noise_;
  std::array<float, kBytes> values_{};
};

}  // namespace

SyntheticOptions parse_synthetic(const std::string& text) {
  SyntheticOptions options;
  KeyValues keys("synthetic data");
  keys.fraction("noise", options.noise);
  keys.whole_number("train", options.train, 1, kMostExamples);
  keys.whole_number("test", options.test, 1, kMostExamples);
  keys.whole_number("classes", options.classes, 2, 1000);
  keys.whole_number("size", options.size, 8, 1024);
  keys.whole_number("channels", options.channels, 1, 64);
  keys.whole_number("seed", options.seed, 0, std::numeric_limits<std::int64_t>::max());
  keys.read(text);
  return options;
}

Datasets open_synthetic(const SyntheticOptions& options) {
  const std::int64_t values =
      options.classes * kPatterns * options.channels * options.size * options.size;
  require(values <= kMostValues,
          "synthetic data: {} classes of {}x{}x{} are too large to keep in memory; take fewer or "
          "smaller ones",
          options.classes, options.channels, options.size, options.size);
  const auto patterns = std::make_shared<const Patterns>(options);
  return {.train = std::make_shared<Synthetic>(options, patterns, kTrain),
          .test = std::make_shared<Synthetic>(options, patterns, kTest)};
}

}  // namespace daso
