// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "daso/comm/world.h"

namespace daso {

inline constexpr const char* kRuns = "runs";

// runs/2026-11-15-101530, and for further runs of the same second runs/2026-11-15-101530-2, -3 ...
std::filesystem::path make_default_folder();

// The folder for a run's output: what was asked for, else a new one, runs/<time>, which rank 0
// makes and which no other run has. All ranks call it together.
std::filesystem::path agreed_folder(World& world, const std::filesystem::path& asked);

}  // namespace daso
