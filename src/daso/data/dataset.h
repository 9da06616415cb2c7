// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace daso {

// Of one input.
struct ImageShape {
  int channels = 3;
  int height = 32;
  int width = 32;
  std::int64_t elements() const { return std::int64_t{channels} * height * width; }
  bool operator==(const ImageShape&) const = default;
};

// Examples that are counted from 0: an input and the number of its class. Implement it for data of
// your own. All functions may be called by several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual ImageShape shape() const = 0;
  virtual int classes() const = 0;

  // Writes the input, channel by channel and row by row, and returns its class. Values lie in
  // 0 ... 1 for images; the loader normalises them.
  virtual int read(std::int64_t index, std::span<float> input) const = 0;
};

struct Datasets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

// What --data takes: synthetic[:key=value,...], idx:DIR or cifar10:DIR (docs/data.md). Throws
// ConfigError naming the key, or the file and what is wrong with it.
Datasets open_data(const std::string& text);

}  // namespace daso
