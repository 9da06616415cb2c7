// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "daso/data/dataset.h"

// The binary versions of CIFAR-10 and CIFAR-100: records of labels and 3 x 32 x 32 bytes, nothing
// else. A record of CIFAR-100 has a coarse and a fine label; the fine ones are the classes.
namespace daso {

// Throw ConfigError naming the file.
Datasets open_cifar10(const std::filesystem::path& folder);
Datasets open_cifar100(const std::filesystem::path& folder);

}  // namespace daso
