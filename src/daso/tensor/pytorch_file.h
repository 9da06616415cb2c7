// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "daso/tensor/state.h"

namespace daso {

// Writes a file that Python reads by torch.load(path, weights_only=True), as a plain dict of
// tensors on the CPU. Each tensor gets memory of its own there, also where some share theirs here.
// Published like the files of safetensors.h, with the same errors.
void write_pytorch(const std::filesystem::path& path, const State& tensors);

}  // namespace daso
