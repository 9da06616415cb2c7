// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace CLI {
class App;
}

// What to tell somebody whose command line was not understood.
namespace daso::cli {

// The command that was reached: the app itself or its innermost sub-command that was named.
const CLI::App& reached(const CLI::App& app);

// "daso bench comm"
std::string full_name(const CLI::App& app);

// The first word that nobody understood, and what may have been meant; empty if there is none. To
// be called after the app has parsed, or has failed to.
std::string misunderstood(const CLI::App& app);

// For an app that is called without any of its sub-commands.
std::string missing_command(const CLI::App& app);

}  // namespace daso::cli
