// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "daso/data/dataset.h"

// The binary version of CIFAR-10: records of a label and 3 x 32 x 32 bytes, nothing else.
namespace daso {

// Throws ConfigError naming the file.
Datasets open_cifar10(const std::filesystem::path& folder);

}  // namespace daso
