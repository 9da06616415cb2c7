// SPDX-License-Identifier: Apache-2.0
#include "daso/record/duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace daso {
namespace {

// Rounded first, so that 59.6 s are 1:00 min, and never 60 s.
std::int64_t whole(double seconds) {
  constexpr double kMost = 1e15;  // fits into the result; files may hold any number
  return std::isfinite(seconds) ? std::llround(std::clamp(seconds, 0.0, kMost)) : 0;
}

}  // namespace

std::string short_duration(double seconds) {
  const std::int64_t all = whole(seconds);
  if (all < 60) return fmt::format("{} s", all);
  if (all < 3600) return fmt::format("{}:{:02} min", all / 60, all % 60);
  return fmt::format("{}:{:02} h", all / 3600, all / 60 % 60);
}

std::string duration_text(double seconds) {
  const std::int64_t all = whole(seconds);
  if (all < 120) return "";
  if (all < 3600) return fmt::format("{} min {} s", all / 60, all % 60);
  return fmt::format("{} h {} min", all / 3600, all / 60 % 60);
}

}  // namespace daso
