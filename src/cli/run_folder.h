// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "daso/record/output_folder.h"

namespace daso::cli {

// A folder to write to, made if it is not there. Throws ConfigError with who asked, like "--out".
void make_folder(const std::string& asked_by, const std::filesystem::path& folder);

// The run that --resume means where no --out says it: the newest in runs/. Throws ConfigError.
std::filesystem::path newest_run();

// The run that a checkpoint's folder, RUN/checkpoints/NAME, belongs to.
std::filesystem::path run_of(const std::filesystem::path& checkpoint);

}  // namespace daso::cli
