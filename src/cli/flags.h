// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <limits>
#include <string>
#include <vector>

#include "daso/base/text.h"
#include "daso/base/values.h"
#include "daso/comm/world.h"
#include "daso/launch/launch_flags.h"

namespace daso::cli {

// One function to add a flag of each kind; `value` gets what it parses to.
class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {}

  template <typename Value>
  CLI::Option* count(const std::string& name, const char* meaning, Value& value, int at_least,
                     int at_most = std::numeric_limits<int>::max()) {
    return add(name, "N", meaning, value,
               [=](const std::string& text) { return parse_count(name, text, at_least, at_most); });
  }
  // `find` makes a value of a choice.
  template <typename Value, typename Find>
  CLI::Option* choice(const std::string& name, Value& value,
                      const std::vector<std::string>& choices, Find find) {
    return add(name, "NAME", join(choices, ", "), value,
               [=](const std::string& text) { return find(parse_choice(name, text, choices)); });
  }
  template <typename Value, typename Parse>
  CLI::Option* parsed(const std::string& name, const char* meaning, Value& value, Parse parse) {
    return add(name, "NUMBER", meaning, value,
               [=](const std::string& text) { return parse(name, text); });
  }

 private:
  template <typename Value, typename Parse>
  CLI::Option* add(const std::string& name, const char* type, const std::string& meaning,
                   Value& value, Parse parse) {
    return app_
        .add_option_function<std::string>(
            name, [&value, parse](const std::string& text) { value = parse(text); }, meaning)
        ->type_name(type);
  }

  CLI::App& app_;
};

// How many ranks a command starts where no flag tells: those of a small cluster, or one.
inline constexpr Shape kSmallCluster{.nodes = 2, .ranks_per_node = 2};
inline constexpr Shape kOneRank{.nodes = 1, .ranks_per_node = 1};

// After a signal, for ranks that train: two steps or ten seconds, until all ranks stop at the same
// one, and a checkpoint; or an exchange, for a node that leaves. A second signal kills.
inline constexpr Seconds kTimeToSave{600};

// Both fill `flags` while the app parses. The second kind concerns only a world that daso itself
// joins; a program that is merely started has its own.
void add_launch_flags(CLI::App& app, LaunchFlags& flags, Shape shape);
void add_world_flags(CLI::App& app, LaunchFlags& flags);
// The token by which the processes of a job know each other.
void add_token_flags(CLI::App& app, std::string& token);

// What happens when a node is lost.
struct SurvivalFlags {
  std::optional<bool> go_on;  // none: nobody has said
  Survival survival;

  // Whatever concerns a job that goes on asks for one.
  bool asked() const { return go_on.value_or(survival != Survival{}); }
};
// `usual`: what happens where nobody says.
void add_survival_flags(CLI::App& app, SurvivalFlags& flags, LaunchFlags& launch,
                        const std::string& usual = "stop");
// None: the job stops. Throws ConfigError where it is asked to go on and cannot.
std::optional<Survival> survival_of(const SurvivalFlags& flags, const LaunchFlags& launch);
// Under srun a job that is to go on has a launcher on each machine, and this process is one; else
// nothing changes.
void take_slurm_nodes(const SurvivalFlags& flags, LaunchFlags& launch);
// Whether a job could go on without a node that is lost, as far as its flags tell. `known_folder`:
// it has one that all its launchers know.
bool can_go_on(const LaunchFlags& launch, Shape shape, bool known_folder);

}  // namespace daso::cli
