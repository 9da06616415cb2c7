// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <numeric>

#include "daso/base/error.h"
#include "daso/kernels/mean.h"
#include "daso/kernels/merge.h"
#include "daso/policy/cycle.h"
#include "verify/verdict.h"

namespace daso::verify {
namespace {

using nlohmann::ordered_json;
using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

ordered_json json_of(const EpochPlan& plan) {
  return {name_of(plan.phase), plan.cadence.skip, plan.cadence.wait};
}

ordered_json json_of(const PeriodCase::Start* start) {
  return start == nullptr ? ordered_json() : ordered_json({start->step, start->skip});
}

std::string shown(const ordered_json& value) { return value.is_null() ? "nothing" : value.dump(); }

Finding finding_of(const char* kind, std::size_t number, const ordered_json& got,
                   const ordered_json& expected) {
  return {
      .step = static_cast<std::int64_t>(number),
      .text = fmt::format("{} {}: got {}, expected {}", kind, number, shown(got), shown(expected)),
      .detail = {{kind, number}, {"got", got}, {"expected", expected}}};
}

// One int8 exchange after the other on one instruction set.
class WireCheck {
 public:
  WireCheck(const WireCase& golden, InstructionSet set, Verdict& verdict)
      : golden_(golden),
        set_(set),
        kernels_(cpu_kernels(set)),
        verdict_(verdict),
        padded_((golden.elements + kBlockElements - 1) / kBlockElements * kBlockElements),
        residual_(padded_) {
    const int ranks = std::accumulate(golden.nodes.begin(), golden.nodes.end(), 0);
    for (const int node : golden.nodes) {
      weights_.push_back(static_cast<float>(node) / static_cast<float>(ranks));
    }
  }

  void run() {
    for (const WireCase::Round& round : golden_.rounds) {
      check(round);
      ++round_;
    }
  }

 private:
  void check(const WireCase::Round& round) {
    std::vector<Bytes> sent;
    for (std::size_t node = 0; node < weights_.size(); ++node) {
      const WireCase::Sent& one = round.nodes[node];
      Floats values = one.difference;
      values.resize(padded_);
      Bytes& bytes = sent.emplace_back(encoded_bytes(Wire::kInt8, padded_));
      if (!encode(Wire::kInt8, values, Floats(padded_), bytes, {}, kernels_)) {
        add("differences", node, 0, "refused", "encoded");
      }
      compare_encoded(bytes, one.q, one.scales, "q", "scales", node);
    }
    compare("mean", {}, mean_of(sent), round.mean);
    std::vector<Difference> differences;
    for (std::size_t node = 0; node < sent.size(); ++node) {
      differences.push_back({sent[node], weights_[node]});
    }
    Bytes back(encoded_bytes(Wire::kInt8, padded_));
    if (!average(Wire::kInt8, differences, residual_, back, {}, kernels_)) {
      add("mean", {}, 0, "refused", "encoded");
    }
    compare_encoded(back, round.back_q, round.back_scales, "back_q", "back_scales", {});
    compare("back", {}, decoded(back), round.back);
    compare("rest", {}, residual_, round.residual);
  }

  Floats decoded(const Bytes& bytes) const {
    Floats values(padded_);
    decode(Wire::kInt8, bytes, values, kernels_);
    return values;
  }

  // Before the residual is added: what the decoded differences give in fp32.
  Floats mean_of(const std::vector<Bytes>& sent) const {
    std::vector<Floats> values;
    values.reserve(sent.size());
    for (const Bytes& one : sent) values.push_back(decoded(one));
    std::vector<Part> parts;
    for (std::size_t node = 0; node < sent.size(); ++node) {
      parts.push_back({values[node], weights_[node]});
    }
    Floats mean(padded_);
    weighted_mean(parts, {}, mean, kernels_);
    return mean;
  }

  void compare_encoded(const Bytes& bytes, const std::vector<int>& q, const Floats& scales,
                       const char* q_name, const char* scales_name,
                       std::optional<std::size_t> node) {
    constexpr std::size_t kScaleBytes = sizeof(float);
    constexpr std::size_t kBlockBytes = kScaleBytes + kBlockElements;
    Floats found(scales.size());
    for (std::size_t block = 0; block < found.size(); ++block) {
      std::memcpy(&found[block], bytes.data() + block * kBlockBytes, kScaleBytes);
    }
    compare(scales_name, node, found, scales);
    std::vector<int> numbers(q.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t place = i / kBlockElements * kBlockBytes + kScaleBytes + i % kBlockElements;
      numbers[i] = static_cast<std::int8_t>(bytes[place]);
    }
    compare(q_name, node, numbers, q);
  }

  // `got` may be padded.
  template <typename T>
  void compare(const char* name, std::optional<std::size_t> node, const std::vector<T>& got,
               const std::vector<T>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (got[i] != expected[i]) return add(name, node, i, got[i], expected[i]);
    }
  }

  void add(const char* name, std::optional<std::size_t> node, std::size_t element,
           const ordered_json& got, const ordered_json& expected) {
    const std::string who = node ? fmt::format(", node {}", *node) : "";
    ordered_json detail = {{"round", round_}, {"field", name}, {"element", element}};
    if (node) detail["node"] = *node;
    detail["instruction_set"] = name_of(set_);
    detail["got"] = got;
    detail["expected"] = expected;
    verdict_.add({.step = round_,
                  .text = fmt::format("round {}{}, {}[{}]: got {}, expected {} ({})", round_, who,
                                      name, element, got.dump(), expected.dump(), name_of(set_)),
                  .detail = std::move(detail)});
  }

  const WireCase& golden_;
  const InstructionSet set_;
  const Kernels& kernels_;
  Verdict& verdict_;
  const std::size_t padded_;
  std::vector<float> weights_;
  Floats residual_;
  std::int64_t round_ = 0;
};

}  // namespace

Verdict verify_case(const ScheduleCase& golden) {
  Schedule schedule(golden.schedule);
  Verdict verdict;
  for (int epoch = 0; epoch < schedule.epochs(); ++epoch) {
    const auto number = static_cast<std::size_t>(epoch);
    const EpochPlan plan = schedule.epoch(epoch);
    if (plan != golden.plans[number]) {
      verdict.add(finding_of("epoch", number, json_of(plan), json_of(golden.plans[number])));
    }
    schedule.end_epoch(epoch, golden.losses[number]);
  }
  return verdict;
}

Verdict verify_case(const PeriodCase& golden) {
  const RunPlan run_plan{
      .epochs = golden.schedule.phases.epochs,
      .batches = golden.batches,
      .rate = [&](std::int64_t step) { return golden.rates[static_cast<std::size_t>(step)]; }};
  std::vector<PeriodCase::Start> starts;
  // With two nodes, the fewest that exchange anything.
  for (const EpochTrajectory& epoch : trajectory_of(Schedule(golden.schedule), Cycle({.nodes = 2}),
                                                    run_plan, [](int) { return 0.0; })) {
    for (const auto& [step, skip] : epoch.starts) starts.push_back({.step = step, .skip = skip});
  }
  Verdict verdict;
  for (std::size_t i = 0; i < std::max(starts.size(), golden.starts.size()); ++i) {
    const auto* got = i < starts.size() ? &starts[i] : nullptr;
    const auto* expected = i < golden.starts.size() ? &golden.starts[i] : nullptr;
    const bool equal = got != nullptr && expected != nullptr && *got == *expected;
    if (!equal) verdict.add(finding_of("start", i, json_of(got), json_of(expected)));
  }
  return verdict;
}

Verdict verify_case(const WireCase& golden) {
  Verdict verdict;
  for (const InstructionSet set : supported_instruction_sets()) {
    WireCheck(golden, set, verdict).run();
  }
  return verdict;
}

}  // namespace daso::verify
