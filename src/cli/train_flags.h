// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/ranks.h"
#include "daso/train/options.h"

namespace CLI {
class App;
}

namespace daso {

// Fills `options` while the app parses.
void add_train_flags(CLI::App& app, TrainOptions& options);

// Everything that decides a result, as flags and their values; what was not given is left out.
Configuration configuration_of(const TrainOptions& options);

// The same as a TOML file that --config takes.
std::string toml_of(const Configuration& configuration);

}  // namespace daso
