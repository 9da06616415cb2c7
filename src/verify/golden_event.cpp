// SPDX-License-Identifier: Apache-2.0
#include "daso/base/error.h"
#include "daso/policy/exchange_options.h"
#include "verify/golden_case.h"

namespace daso::verify {

std::vector<GoldenEvent> events_of(std::int64_t step, std::optional<Phase> phase,
                                   const StrategyEvents& done, const std::vector<int>& nodes) {
  using Kind = StrategyEvent::Kind;
  std::vector<GoldenEvent> events;
  if (phase && is_blocking(*phase)) events.push_back({.step = step, .what = "blocking"});
  for (const StrategyEvent& event : done) {
    DASO_ASSERT(event.kind != Kind::kAverage);  // only `local` does that
    GoldenEvent& golden = events.emplace_back();
    golden.step = step;
    golden.exchange = event.exchange;
    if (event.kind == Kind::kMerge) {
      golden.what = "merge";
      golden.staleness = event.staleness;
      continue;
    }
    golden.what = event.kind == Kind::kAgree ? "exchange" : "start";
    golden.leaders = leaders_of(event.exchange, nodes);
    if (event.kind == Kind::kAgree) golden.staleness = 0;
  }
  return events;
}

nlohmann::ordered_json json_of(const GoldenEvent& event) {
  nlohmann::ordered_json fields = {{"step", event.step}, {"do", event.what}};
  if (event.exchange) fields["exchange"] = *event.exchange;
  if (event.leaders) fields["speakers"] = *event.leaders;
  if (event.staleness) fields["staleness"] = *event.staleness;
  return fields;
}

}  // namespace daso::verify
