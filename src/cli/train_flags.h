// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/base/toml.h"
#include "daso/comm/world.h"
#include "daso/launch/ranks.h"
#include "daso/run/settings_table.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

// Flags of a run, made from the table of settings. All fill `settings` while the app parses, and
// show the value that stands there as the default.
namespace daso::cli {

CLI::Option* add_setting(CLI::App& app, Settings& settings, const Setting& setting);
// By name; or all of a part. They come in the given order.
void add_settings(CLI::App& app, Settings& settings, const std::vector<std::string>& names);
std::vector<CLI::Option*> add_settings(CLI::App& app, Settings& settings, SettingPart part);

// All that a run has; and what runs with different strategies have in common.
void add_train_flags(CLI::App& app, Settings& settings);
void add_job_flags(CLI::App& app, Settings& settings);

// What of a saved configuration flags on the command line have replaced. To be called after the
// app, which has all flags of a run, has parsed and before anything else fills `settings`.
std::vector<std::string> replaced_keys(const CLI::App& app, const Settings& settings);

// The threads of a rank that OMP_NUM_THREADS asks for, where no flag says it; a configuration file,
// which is read later, says it better, too. Throws ConfigError if that is no number of threads.
void take_threads(const CLI::App& app, Settings& settings, const Environment& environment);

}  // namespace daso::cli
