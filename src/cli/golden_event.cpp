// SPDX-License-Identifier: Apache-2.0
#include "cli/golden_event.h"

#include "daso/base/error.h"
#include "daso/global/rotation.h"

namespace daso {

std::vector<GoldenEvent> events_of(std::int64_t step, const Plan& plan,
                                   const std::vector<int>& nodes) {
  std::vector<GoldenEvent> events;
  if (is_blocking(plan.phase)) events.push_back({.step = step, .what = "blocking"});
  if (plan.merge) {
    events.push_back({.step = step,
                      .what = "merge",
                      .exchange = plan.merge->exchange,
                      .staleness = plan.merge->staleness});
  }
  if (plan.then == Plan::Then::kNothing) return events;
  DASO_ASSERT(plan.then != Plan::Then::kAverage);  // only `local` does that
  const bool agreement = plan.then == Plan::Then::kAgree;
  events.push_back({.step = step,
                    .what = agreement ? "exchange" : "start",
                    .exchange = plan.exchange,
                    .speakers = speakers_of(plan.exchange, nodes)});
  if (agreement) events.back().staleness = 0;
  return events;
}

nlohmann::ordered_json json_of(const GoldenEvent& event) {
  nlohmann::ordered_json fields = {{"step", event.step}, {"do", event.what}};
  if (event.exchange) fields["exchange"] = *event.exchange;
  if (event.speakers) fields["speakers"] = *event.speakers;
  if (event.staleness) fields["staleness"] = *event.staleness;
  return fields;
}

}  // namespace daso
