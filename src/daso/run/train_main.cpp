// SPDX-License-Identifier: Apache-2.0
// The command line of a program that trains what is its own.
#include <ATen/Context.h>

#include <algorithm>
#include <cstdio>

#include "daso/base/environment.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/place.h"
#include "daso/comm/rank_main.h"
#include "daso/comm/worlds.h"
#include "daso/run/interrupt.h"
#include "daso/run/rank_device.h"
#include "daso/run/settings_table.h"
#include "daso/run/train.h"
#include "daso/tensor/bf16.h"

namespace daso {
namespace {

const Setting& setting_of(const std::string& flag) {
  std::vector<std::string> flags;
  for (const Setting& one : settings_table()) {
    if (one.flag() == flag) return one;
    flags.push_back(one.flag());
  }
  const std::optional<std::string> meant = nearest(flag, flags);
  throw ConfigError(fmt::format("there is no flag '{}'{}; --help lists all", flag,
                                meant ? fmt::format("; did you mean {}?", *meant) : ""));
}

// Takes the word where it is there.
bool take(std::vector<std::string>& words, std::string_view word) {
  return std::erase(words, word) > 0;
}

void print_help(const std::string& program, const Settings& settings) {
  fmt::print(
      "Trains by the flags of daso train that concern a run (docs/settings.md):\n\n"
      "  {} [FLAGS]\n\n",
      program);
  for (const Setting& one : settings_table()) {
    const std::string value = one.print ? one.print(settings).value_or("") : "";
    fmt::print("  {:34} {}{}\n", one.flag() + (one.type.empty() ? "" : " " + one.type), one.help,
               value.empty() || one.type.empty() ? "" : fmt::format(" [{}]", value));
  }
  fmt::print("  {:34} {}\n", "--json", "Print the summary alone, as JSON");
}

}  // namespace

Settings parse_flags(const std::vector<std::string>& words, Settings settings) {
  std::vector<std::string> given;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string flag = words[i].substr(0, equals);
    const Setting& one = setting_of(flag);
    require(std::find(given.begin(), given.end(), flag) == given.end(), "{} is given twice", flag);
    given.push_back(flag);
    const bool optional = one.type.starts_with('[');
    const bool follows = i + 1 < words.size() && !words[i + 1].starts_with("--");
    if (one.type.empty()) {
      require(equals == std::string::npos, "{} takes no value, got '{}'", flag, words[i]);
      one.parse(settings, "true");
    } else if (equals != std::string::npos) {
      one.parse(settings, words[i].substr(equals + 1));
    } else {
      require(follows || optional, "{} takes {}, and nothing follows it", flag, one.type);
      one.parse(settings, follows ? words[++i] : "");
    }
  }
  return settings;
}

int train_main(int argc, const char* const* argv, const Settings& settings,
               const MakeTask& make_task) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  Settings asked;
  TrainOptions options;
  try {
    if (take(words, "--help")) {
      const std::optional<Place> place = place_from(this_environment());
      if (!place || place->rank == 0) print_help(argv[0], settings);
      return kExitOk;
    }
    options.json = take(words, "--json");
    asked = parse_flags(words, settings);
  } catch (const Error& error) {
    fmt::print(stderr, "daso: {}\n", error.what());
    return exit_code_of(error);
  }
  if (asked.precision == Precision::kBf16) cap_instruction_sets();
  Interrupt interrupt(rank_interrupt(asked.stopped_exit));
  options.interrupt = &interrupt;
  return rank_main([&](Worlds& worlds) {
    require(
        !worlds.survives() || !asked.out.empty(),
        "--on-failure continue needs --out here: ranks that come later have to find the folder");
    return train(worlds, options, [&](World& world) {
      const DeviceFound found = rank_device(world, asked.device);
      options.note = found.note;
      at::manual_seed(asked.seed);
      return std::make_unique<Run>(asked, make_task(asked), found.device);
    });
  });
}

}  // namespace daso
