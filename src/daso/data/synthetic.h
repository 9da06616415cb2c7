// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daso/data/dataset.h"

namespace daso {

struct SyntheticOptions {
  std::int64_t train = 4096;  // examples to train with
  std::int64_t test = 1024;   // examples to test with
  std::int64_t classes = 10;
  std::int64_t size = 32;  // height and width
  std::int64_t channels = 3;
  double noise = 0.25;  // standard deviation of what is added to each value; a value is in 0 ... 1
  std::int64_t seed = 1;
};

// "train=1000,noise=0.3"; what is not named keeps its default. Throws ConfigError.
SyntheticOptions parse_synthetic(const std::string& text);

// Images that a linear model cannot tell apart, and a convolutional network can. A class has a few
// smooth patterns; an example is one of them, shifted, weakened and, half of the time, negated,
// with noise. So the mean of every class is the same gray. All arithmetic is in whole numbers: the
// same bits on every machine. An example is made when it is read.
Datasets open_synthetic(const SyntheticOptions& options);

}  // namespace daso
