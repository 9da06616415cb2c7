// SPDX-License-Identifier: Apache-2.0
#include "verify/training_check.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "daso/base/error.h"
#include "daso/policy/run_plan.h"

namespace daso::verify {
namespace {

using Vector = std::vector<double>;

Vector weighted_mean(const TrainingCase& training, const std::vector<Vector>& nodes) {
  Vector mean(training.start.size());
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const double weight = double(training.nodes[node]) / training.ranks();
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += weight * nodes[node][i];
  }
  return mean;
}

// The largest |a - b| of each block, or what was there if that is more.
void raise_to_difference(Vector& blocks, const Vector& a, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    double& largest = blocks[i / kBlockElements];
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
}

// Follows the anchor of a run that goes as expected, and adds up quanta.
class Exchanges {
 public:
  Exchanges(const TrainingCase& training, Wire wire)
      : training_(training),
        wire_(wire),
        stretch_(largest_response(training)),
        total_((training.start.size() + kBlockElements - 1) / kBlockElements) {}

  void begin_epoch(std::int64_t step) {
    anchor_ = step == 0 ? training_.start : parameters(step - 1).front();
  }

  void start(std::int64_t step) {
    Vector sent(total_.size());
    for (const Vector& node : parameters(step)) raise_to_difference(sent, node, anchor_);
    next_anchor_ = weighted_mean(training_, parameters(step));
    Vector mean(total_.size());
    raise_to_difference(mean, next_anchor_, anchor_);
    in_flight_.clear();
    for (std::size_t block = 0; block < total_.size(); ++block) {
      // Parameters and anchor are themselves off by up to the sum so far.
      const double more = 2 * total_[block];
      const double quantum = quantum_of(wire_, sent[block] + more);
      in_flight_.push_back(quantum + quantum_of(wire_, mean[block] + more + quantum));
    }
  }

  void merge() {
    for (std::size_t block = 0; block < total_.size(); ++block) {
      total_[block] += stretch_ * in_flight_[block];
    }
    anchor_ = next_anchor_;
  }

  const Vector& total() const { return total_; }

 private:
  const std::vector<Vector>& parameters(std::int64_t step) const {
    return training_.parameters[static_cast<std::size_t>(step)];
  }

  const TrainingCase& training_;
  const Wire wire_;
  const double stretch_;
  Vector anchor_;
  Vector next_anchor_;  // once the exchange in flight is merged: the mean of what was sent
  Vector in_flight_;    // its quanta, by block
  Vector total_;        // by block
};

}  // namespace

double quantum_of(Wire wire, double largest) {
  if (const int bits = qsgd_bits(wire); bits != 0) {
    // Rounded by less than the distance of two levels, of which one bit has only the outer ones.
    return bits == 1 ? 4 * largest : 2 * largest / ((1 << (bits - 1)) - 1);
  }
  switch (wire) {
    case Wire::kFp32:
      return 0;
    case Wire::kBf16:
      return largest * 0x1p-7;  // 8 bits, the first of them not stored
    case Wire::kFp16:
      return largest * 0x1p-10 + 0x1p-24;  // 11 bits; small ones are subnormal
    case Wire::kInt8:
      return largest / 127;
    case Wire::kInt4:
      return largest / 7;
    default:
      break;
  }
  return 0;
}

double largest_response(const TrainingCase& training) {
  double most = 1;
  // Parameters with the same curvature respond alike.
  for (const double curvature :
       std::set<double>(training.curvature.begin(), training.curvature.end())) {
    double error = 1;
    double velocity = 0;
    for (std::int64_t step = 0; step < training.steps(); ++step) {
      velocity = training.momentum * velocity + (curvature + training.weight_decay) * error;
      error -= training.rate * velocity;
      most = std::max(most, std::abs(error));
    }
  }
  return most;
}

WireBound::WireBound(const TrainingCase& training, Wire wire) {
  const Schedule schedule(training.schedule);
  Cycle cycle({.nodes = static_cast<int>(training.nodes.size())});
  const RunPlan run_plan{.epochs = training.epochs(),
                         .batches = training.batches,
                         .rate = [&](std::int64_t) { return training.rate; }};
  Exchanges exchanges(training, wire);
  for (int epoch = 0; epoch < run_plan.epochs; ++epoch) {
    for (std::int64_t batch = 0; batch < run_plan.batches; ++batch) {
      const StepInfo info = run_plan.at(epoch, batch);
      const Plan plan = cycle.after_step(schedule, info);
      if (batch == 0) exchanges.begin_epoch(info.step);
      if (plan.merge) exchanges.merge();
      if (plan.then == Plan::Then::kStart) exchanges.start(info.step);
      by_step_.push_back(exchanges.total());
    }
  }
}

double WireBound::largest() const {
  return *std::max_element(by_step_.back().begin(), by_step_.back().end());
}

namespace {

using nlohmann::ordered_json;

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
  verdict_.add(
      {.step = step,
       .rank = rank_,
       .text = fmt::format("step {}, rank {}, event {}: got {}, expected {}", step, rank_, events_,
                           text_of(got), text_of(expected)),
       .detail = {{"step", step},
                  {"node", node_},
                  {"rank", rank_},
                  {"event", events_},
                  {"got", got == nullptr ? ordered_json() : json_of(*got)},
                  {"expected", expected == nullptr ? ordered_json() : json_of(*expected)}}});
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
