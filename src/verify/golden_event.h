// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "daso/strategy/strategy.h"

namespace daso::verify {

// Something that a step of a golden case does, in the words of its file.
struct GoldenEvent {
  std::int64_t step = 0;
  std::string what;  // blocking, merge, start or exchange; the field is called "do"
  std::optional<std::int64_t> exchange;  // its number
  std::optional<std::vector<int>> leaders;
  std::optional<std::int64_t> staleness;
  bool operator==(const GoldenEvent&) const = default;
};

// What a step has done, in order.
std::vector<GoldenEvent> events_of(std::int64_t step, std::optional<Phase> phase,
                                   const StrategyEvents& done, const std::vector<int>& nodes);

nlohmann::ordered_json json_of(const GoldenEvent& event);

}  // namespace daso::verify
