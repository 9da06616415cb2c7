// SPDX-License-Identifier: Apache-2.0
#include "verify/training_check.h"

#include <algorithm>
#include <cmath>

#include "daso/base/error.h"

namespace daso::verify {
namespace {

using json = nlohmann::ordered_json;

// What rounding to fp32 in every step may leave in a large parameter, as a part of it.
constexpr double kRounding = 0x1p-20;

int node_of(const TrainingCase& training, int rank) {
  int node = 0;
  for (int first = training.nodes[0]; rank >= first;) {
    first += training.nodes[static_cast<std::size_t>(++node)];
  }
  return node;
}

std::string text_of(const GoldenEvent* event) {
  return event == nullptr ? "nothing" : json_of(*event).dump();
}

}  // namespace

TrainingCheck::TrainingCheck(const TrainingCase& training, Wire wire, int rank)
    : training_(training), bound_(training, wire), rank_(rank), node_(node_of(training, rank)) {
  verdict_.bound = bound_.largest();
}

void TrainingCheck::step(std::int64_t step, std::optional<Phase> phase, const StrategyEvents& done,
                         std::span<const float> parameters) {
  // Events first: where they are wrong, the parameters are as well.
  for (const GoldenEvent& event : events_of(step, phase, done, training_.nodes)) compare(event);
  compare(step, parameters);
}

void TrainingCheck::compare(const GoldenEvent& event) {
  const bool any = events_ < training_.events.size();
  const GoldenEvent* expected = any ? &training_.events[events_] : nullptr;
  if (expected == nullptr || *expected != event) add_event(&event, expected);
  ++events_;
}

void TrainingCheck::finish() {
  if (events_ < training_.events.size()) add_event(nullptr, &training_.events[events_]);
}

void TrainingCheck::add_event(const GoldenEvent* got, const GoldenEvent* expected) {
  const std::int64_t step = got == nullptr        ? expected->step
                            : expected == nullptr ? got->step
                                                  : std::min(got->step, expected->step);
  verdict_.add({.step = step,
                .rank = rank_,
                .text = fmt::format("step {}, rank {}, event {}: got {}, expected {}", step, rank_,
                                    events_, text_of(got), text_of(expected)),
                .detail = {{"step", step},
                           {"node", node_},
                           {"rank", rank_},
                           {"event", events_},
                           {"got", got == nullptr ? json() : json_of(*got)},
                           {"expected", expected == nullptr ? json() : json_of(*expected)}}});
}

double TrainingCheck::allowed(std::int64_t step, std::size_t element, double expected) const {
  return training_.tolerance + kRounding * std::abs(expected) + bound_.at(step, element);
}

void TrainingCheck::compare(std::int64_t step, std::span<const float> parameters) {
  const std::vector<double>& expected =
      training_.parameters[static_cast<std::size_t>(step)][static_cast<std::size_t>(node_)];
  DASO_ASSERT(parameters.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double got = parameters[i];
    const double difference = std::abs(got - expected[i]);
    verdict_.largest = std::max(verdict_.largest, difference);
    const double most = allowed(step, i, expected[i]);
    if (difference <= most) continue;  // false for NaN as well
    const double bound = bound_.at(step, i);
    const std::string why =
        bound == 0 ? fmt::format("tolerance {:g}", training_.tolerance)
                   : fmt::format("bound {:.3g} and tolerance {:g}", bound, training_.tolerance);
    verdict_.add({.step = step,
                  .rank = rank_,
                  .text = fmt::format("step {}, node {}, rank {}, element {}: got {:.9g}, expected "
                                      "{:.10g} ({})",
                                      step, node_, rank_, i, got, expected[i], why),
                  .detail = {{"step", step},
                             {"node", node_},
                             {"rank", rank_},
                             {"element", i},
                             {"got", got},
                             {"expected", expected[i]},
                             {"allowed", most}}});
    return;
  }
}

void TrainingCheck::epoch(int epoch, std::int64_t step, std::span<const std::uint64_t> digests) {
  const auto other = std::find_if(digests.begin(), digests.end(),
                                  [&](std::uint64_t one) { return one != digests.front(); });
  if (other == digests.end()) return;
  const auto rank = static_cast<int>(other - digests.begin());
  verdict_.add({.step = step,
                .rank = rank,
                .text = fmt::format("step {}, node {}, rank {}: at the end of epoch {} its "
                                    "parameters are not those of rank 0, bit for bit",
                                    step, node_of(training_, rank), rank, epoch),
                .detail = {{"step", step},
                           {"node", node_of(training_, rank)},
                           {"rank", rank},
                           {"epoch", epoch},
                           {"differs_from_rank", 0}}});
}

}  // namespace daso::verify
