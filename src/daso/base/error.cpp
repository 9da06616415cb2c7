// SPDX-License-Identifier: Apache-2.0
#include "daso/base/error.h"

#include "daso/base/damaged.h"

namespace daso {

int exit_code_of(const std::exception& error) {
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) return kExitConfig;
  if (dynamic_cast<const PeerError*>(&error) != nullptr) return kExitPeer;
  if (dynamic_cast<const DamagedError*>(&error) != nullptr) return kExitPeer;
  return kExitBug;
}

void assert_that(bool holds, const char* condition, std::source_location where) {
  if (holds) return;
  throw std::logic_error(fmt::format("bug at {}:{} in {}: {} does not hold", where.file_name(),
                                     where.line(), where.function_name(), condition));
}

}  // namespace daso
