// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/world.h"
#include "daso/launch/ranks.h"
#include "daso/run/settings.h"

namespace CLI {
class App;
}

namespace daso::cli {

// All fill `options` while the app parses. The first adds what runs with different strategies have
// in common, the second all that a run has.
void add_job_flags(CLI::App& app, Settings& options);
void add_train_flags(CLI::App& app, Settings& options);

// The parts of these that say which learning rate a step has, and how many samples.
void add_rate_flags(CLI::App& app, Settings& options);
void add_batch_flags(CLI::App& app, Settings& options);

// What a saved configuration has and no longer counts, since a flag on the command line has taken
// its place: an --lr-end, where the --lr-schedule given has none. To be called after the app, which
// has all flags of a run, has parsed and before anything else fills `options`.
std::vector<std::string> replaced_keys(const CLI::App& app, const Settings& options);

// Everything that decides a result, as flags and their values; what was not given is left out.
Configuration configuration_of(const Settings& options);

// The same as a TOML file that --config takes.
std::string toml_of(const Configuration& configuration);

}  // namespace daso::cli
