// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "daso/tensor/state.h"

namespace daso {

// Writes a file that Python reads by torch.load(path, weights_only=True), as a plain dict of
// tensors on the CPU. Each tensor gets memory of its own there, also where some share theirs here.
// Published like the files of safetensors.h, with the same errors.
void write_pytorch(const std::filesystem::path& path, const State& tensors);

// Whether the file begins as those of torch.save do. Throws ConfigError where it cannot be read.
bool is_pytorch(const std::filesystem::path& path);

// The tensors of a state_dict that torch.save has written, on the CPU, each with memory of its own.
// Nothing of the file is executed (pickle_reader.h). Throws ConfigError naming the file and what is
// wrong with it: truncated, damaged, no state_dict, anything that would be code.
State read_pytorch(const std::filesystem::path& path);

}  // namespace daso
