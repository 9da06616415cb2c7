// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "daso/tensor/state.h"

// Files of tensors in the safetensors format: 8 bytes length, a JSON header, then the values. They
// hold no code, so loading one executes nothing.
namespace daso {

using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  State tensors;
  Metadata metadata;
};

// A file of this name is whole (base/output_file.h). Throws Error naming file and reason (a full
// disk).
void write_tensors(const std::filesystem::path& path, const State& tensors,
                   const Metadata& metadata = {});

// Throws ConfigError naming the file and what is wrong with it: truncated, header that is no JSON,
// unknown types, offsets that overlap, leave gaps or lie outside, sizes that do not fit.
TensorFile read_tensors(const std::filesystem::path& path);

}  // namespace daso
