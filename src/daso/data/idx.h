// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "daso/data/dataset.h"

// The files of MNIST and its relatives: a number that tells type and dimensions, the dimensions,
// the values; all numbers 4 bytes, the highest first.
namespace daso {

// Throws ConfigError naming the file.
Datasets open_idx(const std::filesystem::path& folder);

}  // namespace daso
