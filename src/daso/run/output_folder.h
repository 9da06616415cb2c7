// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "daso/comm/world.h"

namespace daso {

inline constexpr const char* kRuns = "runs";

// The folder for a run's output: what was asked for, else a new one, runs/<time>, which rank 0
// makes and which no other run has. All ranks call it together.
std::filesystem::path agreed_folder(World& world, const std::filesystem::path& asked);

}  // namespace daso
