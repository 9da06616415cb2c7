// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/preset.h"

#include <algorithm>

#include "daso/base/error.h"

namespace daso {
namespace {

constexpr int kLongestDefaultSkip = 4;
// Nodes times skip up to which training keeps up with synchronous training at the same rate.
constexpr int kNodesTimesSkip = 32;
// Nodes up to which a wait above 1 does.
constexpr int kNodesForLongWait = 4;
// Bits from which on rounding at random leaves out less than the largest of what it got: a third.
constexpr int kLeastRandomBits = 3;

}  // namespace

Preset default_preset(int nodes) {
  require(nodes >= 1, "a world has at least 1 node, got {}", nodes);
  return {
      .exchange = {ExchangeKind::kSharded, Wire::kInt8, MergeRule::kCorrected},
      .schedule = ScheduleKind::kRate,
      .cadence = {.skip = std::clamp(kNodesTimesSkip / nodes, 1, kLongestDefaultSkip), .wait = 1},
      .warmup_epochs = std::nullopt,
      .cooldown_epochs = 0};
}

Preset paper_preset() {
  return {.exchange = {ExchangeKind::kRotating, Wire::kFp32, MergeRule::kPaper},
          .schedule = ScheduleKind::kPlateau,
          .cadence = {.skip = 4, .wait = 1},
          .warmup_epochs = 4,
          .cooldown_epochs = 4};
}

int warmup_epochs_until(std::int64_t peak_step, std::int64_t batches) {
  DASO_ASSERT(peak_step >= 0 && batches >= 1);
  return static_cast<int>(peak_step / batches) + 1;
}

std::vector<std::string> warnings_for(const Risks& risks) {
  if (risks.nodes == 1) return {};
  std::vector<std::string> warnings;
  if (risks.cadence.wait > 1 && risks.nodes > kNodesForLongWait) {
    warnings.push_back(
        fmt::format("a wait of {} on {} nodes may cost accuracy; a wait of 1 is safe",
                    risks.cadence.wait, risks.nodes));
  }
  if (risks.schedule == ScheduleKind::kFixed &&
      std::int64_t{risks.cadence.skip} * risks.nodes > kNodesTimesSkip) {
    warnings.push_back(fmt::format(
        "a fixed skip of {} on {} nodes may cost accuracy; up to {} is safe, or schedule rate",
        risks.cadence.skip, risks.nodes, std::max(1, kNodesTimesSkip / risks.nodes)));
  }
  if (risks.adamw) {
    warnings.emplace_back(
        "AdamW with exchanges wants 2 to 4 times the learning rate that suits it without");
  }
  const int bits = qsgd_bits(risks.wire);
  if (bits != 0 && bits < kLeastRandomBits) {
    warnings.push_back(fmt::format(
        "what the wire {} leaves out of a change may be larger than the change, and add up over "
        "exchanges; from qsgd{} on it shrinks",
        name_of(risks.wire), kLeastRandomBits));
  }
  return warnings;
}

}  // namespace daso
