// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "daso/membership/view.h"

// A launcher that is started again has a higher incarnation than before, and so has each life of
// its node: the launcher's is the time when it was started, those of its node follow.
namespace daso {

inline constexpr std::uint64_t kLivesOfNode = 1024;

std::uint64_t incarnation_by_time();

bool same_launcher(const membership::Member& one, const membership::Member& other);

// A name that no other launcher has, for a file: "launcher2-1795036040123".
std::string launcher_of(const membership::Member& member);

}  // namespace daso
