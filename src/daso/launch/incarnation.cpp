// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/incarnation.h"

#include <fmt/format.h>

#include <chrono>

namespace daso {

std::uint64_t incarnation_by_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return static_cast<std::uint64_t>(count) * kLivesOfNode;
}

bool same_launcher(const membership::Member& one, const membership::Member& other) {
  return one.node == other.node &&
         one.incarnation / kLivesOfNode == other.incarnation / kLivesOfNode;
}

std::string launcher_of(const membership::Member& member) {
  return fmt::format("launcher{}-{}", member.node, member.incarnation / kLivesOfNode);
}

}  // namespace daso
