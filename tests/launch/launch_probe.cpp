// SPDX-License-Identifier: Apache-2.0
// Calls launch() as its arguments say, in a process that a test can signal and kill:
//   launch_probe [--ranks 2,1] [--node 1] [--rendezvous H:P] [--grace S] [--limit S] [--backend B]
//                [--keep 1] [--survive 1] -- PROGRAM ARGUMENTS
#include <cstdio>
#include <map>
#include <string>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/no_reverse_lookup.h"
#include "daso/comm/rank_main.h"
#include "daso/launch/launch.h"

namespace daso {
namespace {

LaunchOptions parse(int count, char** words) {
  std::map<std::string, std::string> flags;
  int next = 1;
  for (; next + 1 < count && std::string(words[next]) != "--"; next += 2) {
    flags[words[next]] = words[next + 1];
  }
  LaunchOptions options;
  options.command.assign(words + next + 1, words + count);
  if (flags.contains("--ranks")) {
    options.ranks_per_node.clear();
    for (const std::string& ranks : split(flags["--ranks"], ',')) {
      options.ranks_per_node.push_back(std::stoi(ranks));
    }
  }
  if (flags.contains("--node")) options.node_index = std::stoi(flags["--node"]);
  if (flags.contains("--grace")) options.grace = Seconds(std::stod(flags["--grace"]));
  if (flags.contains("--limit")) options.limit = Seconds(std::stod(flags["--limit"]));
  if (flags.contains("--backend")) options.backend = flags["--backend"];
  options.rendezvous = flags["--rendezvous"];
  options.keep_survivors = flags.contains("--keep");
  if (flags.contains("--survive")) options.survival.emplace();
  return options;
}

}  // namespace
}  // namespace daso

int main(int count, char** words) {
  daso::quiet_libtorch();
  try {
    return daso::launch(daso::parse(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "daso: %s\n", error.what());
    return daso::exit_code_of(error);
  }
}
