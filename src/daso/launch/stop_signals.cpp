// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/stop_signals.h"

#include <fmt/format.h>

#include "daso/launch/exit_rule.h"

namespace daso {

std::string saving_notice(int signal) {
  return fmt::format(
      "told to stop by signal {}: what was trained is saved, within two steps or 10 s; a second "
      "signal ends at once, and nothing is saved",
      signal_text(signal));
}

std::string leaving_notice(int signal, int node) {
  return fmt::format(
      "told to stop by signal {}: node{} leaves after its next exchange, within 10 s, and the "
      "others go on; a second signal ends it at once",
      signal_text(signal), node);
}

std::string ending_notice(int signal) {
  return fmt::format(
      "told to stop by signal {}: the ranks are told as well; a second one kills them",
      signal_text(signal));
}

}  // namespace daso
