// SPDX-License-Identifier: Apache-2.0
#include "verify/golden_case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>

#include "daso/base/checked_json.h"
#include "daso/base/error.h"
#include "daso/policy/exchange_options.h"

namespace daso::verify {
namespace {

using Names = std::vector<std::string>;

constexpr std::int64_t kMostRanks = 1 << 20;

// What is wrong with options is said with their place.
template <typename Check>
void checked(const CheckedJson& place, const Check& check) {
  try {
    check();
  } catch (const ConfigError& error) {
    place.refuse(error.what());
  }
}

double number_from(const CheckedJson& value, double at_least) {
  const double number = value.number();
  if (!(number >= at_least) || !std::isfinite(static_cast<float>(number))) {
    value.refuse(fmt::format("takes a number of at least {}, got {}", at_least, number));
  }
  return number;
}

// ["cycling", 4, 1]
EpochPlan plan_of(const CheckedJson& value) {
  const std::vector<CheckedJson> parts = value.list(3);
  EpochPlan plan;
  const Names phases = {name_of(Phase::kWarmup), name_of(Phase::kCycling),
                        name_of(Phase::kCooldown)};
  const std::string name = parts[0].one_of(phases);
  for (const Phase phase : {Phase::kWarmup, Phase::kCycling, Phase::kCooldown}) {
    if (name == name_of(phase)) plan.phase = phase;
  }
  plan.cadence = {.skip = parts[1].count(0), .wait = parts[2].count(0)};
  return plan;
}

ScheduleOptions listed_schedule(const CheckedJson& value) {
  ScheduleOptions options{.kind = ScheduleKind::kListed};
  for (const CheckedJson& epoch : value.list()) {
    const EpochPlan plan = plan_of(epoch);
    if (!is_blocking(plan.phase)) {
      checked(epoch, [&] { validate(plan.cadence); });
    } else if (plan.cadence != Cadence{.skip = 0, .wait = 0}) {
      epoch.refuse(fmt::format("{} exchanges nothing: its skip and wait are 0, got {} and {}",
                               name_of(plan.phase), plan.cadence.skip, plan.cadence.wait));
    }
    options.listed.push_back(plan);
  }
  if (options.listed.empty()) value.refuse("a run has at least 1 epoch");
  return options;
}

GoldenEvent event_of(const CheckedJson& value) {
  if (!value.has("do")) value.expect_fields({"step", "do"}, {"exchange", "speakers", "staleness"});
  GoldenEvent event;
  event.what = value.at("do").one_of({"blocking", "merge", "start", "exchange"});
  Names fields = {"step", "do"};
  if (event.what != "blocking") fields.emplace_back("exchange");
  if (event.what == "start" || event.what == "exchange") fields.emplace_back("speakers");
  if (event.what == "merge" || event.what == "exchange") fields.emplace_back("staleness");
  value.expect_fields(fields);
  event.step = value.at("step").integer(0);
  if (value.has("exchange")) event.exchange = value.at("exchange").integer(0);
  if (value.has("speakers")) event.leaders = value.at("speakers").integers({}, 0);
  if (value.has("staleness")) event.staleness = value.at("staleness").integer(0);
  return event;
}

std::vector<int> nodes_of(const CheckedJson& value) {
  const std::vector<int> nodes = value.integers({}, 1);
  if (nodes.empty()) value.refuse("a world has at least 1 node, got 0");
  const std::int64_t ranks = std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0});
  if (ranks > kMostRanks) value.refuse(fmt::format("{} ranks are too many", ranks));
  return nodes;
}

// One list of `size` numbers for each of `count` ranks or nodes.
std::vector<std::vector<double>> vectors_of(const CheckedJson& value, std::size_t count,
                                            std::size_t size) {
  std::vector<std::vector<double>> vectors;
  for (const CheckedJson& one : value.list(count)) vectors.push_back(one.floats(size));
  return vectors;
}

void read_expectation(TrainingCase& training, const CheckedJson& expect) {
  expect.expect_fields({"events", "parameters"});
  for (const CheckedJson& event : expect.at("events").list()) {
    training.events.push_back(event_of(event));
  }
  const CheckedJson parameters = expect.at("parameters");
  for (const CheckedJson& step : parameters.list(static_cast<std::size_t>(training.steps()))) {
    training.parameters.push_back(vectors_of(step, training.nodes.size(), training.start.size()));
  }
}

const Names kTraining = {"name",  "nodes",   "start",    "curvature", "targets",  "lr",
                         "merge", "batches", "schedule", "expect",    "tolerance"};
const Names kTrainingMaybe = {"momentum", "weight_decay"};

void read_targets(TrainingCase& training, const CheckedJson& targets) {
  const auto ranks = static_cast<std::size_t>(training.ranks());
  const std::size_t given = targets.list().size();
  if (given != ranks) {
    targets.refuse(fmt::format("takes one list for each of the {} ranks, got {}", ranks, given));
  }
  training.targets = vectors_of(targets, ranks, training.start.size());
}

TrainingCase training_of(const CheckedJson& value) {
  value.expect_fields(kTraining, kTrainingMaybe);
  TrainingCase training;
  training.nodes = nodes_of(value.at("nodes"));
  const std::size_t elements = value.at("start").list().size();
  if (elements == 0) value.at("start").refuse("a model has at least 1 parameter");
  training.start = value.at("start").floats(elements);
  training.curvature = value.at("curvature").floats(elements);
  read_targets(training, value.at("targets"));
  training.rate = number_from(value.at("lr"), 0);
  if (value.has("momentum")) training.momentum = number_from(value.at("momentum"), 0);
  if (training.momentum >= 1) value.at("momentum").refuse("must be below 1");
  if (value.has("weight_decay")) training.weight_decay = number_from(value.at("weight_decay"), 0);
  training.merge = *find_merge_rule(value.at("merge").one_of({"paper", "corrected"}));
  training.batches = value.at("batches").count(1);
  training.schedule = listed_schedule(value.at("schedule"));
  training.tolerance = value.at("tolerance").number();
  if (!(training.tolerance > 0)) {
    value.at("tolerance").refuse(fmt::format("must be above 0, got {}", training.tolerance));
  }
  read_expectation(training, value.at("expect"));
  return training;
}

const Names kSchedule = {"name",     "losses", "epochs", "warmup",
                         "cooldown", "skip",   "wait",   "expect"};
const Names kScheduleMaybe = {"patience", "threshold"};

ScheduleCase schedule_of(const CheckedJson& value) {
  value.expect_fields(kSchedule, kScheduleMaybe);
  ScheduleCase one;
  ScheduleOptions& options = one.schedule;
  options.kind = ScheduleKind::kPlateau;
  options.phases = {.epochs = value.at("epochs").count(1),
                    .warmup = value.at("warmup").count(0),
                    .cooldown = value.at("cooldown").count(0)};
  options.cadence = {.skip = value.at("skip").count(1), .wait = value.at("wait").count(1)};
  if (value.has("patience")) options.stall.patience = value.at("patience").count(0);
  if (value.has("threshold")) options.stall.threshold = value.at("threshold").number();
  checked(value, [&] { const Schedule schedule(options); });
  const auto epochs = static_cast<std::size_t>(options.phases.epochs);
  for (const CheckedJson& loss : value.at("losses").list(epochs)) {
    one.losses.push_back(loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.number());
  }
  for (const CheckedJson& plan : value.at("expect").list(epochs)) {
    one.plans.push_back(plan_of(plan));
  }
  return one;
}

const Names kPeriod = {"name", "learning_rates", "batches", "skip", "alpha", "expect"};

PeriodCase period_of(const CheckedJson& value) {
  value.expect_fields(kPeriod);
  PeriodCase one;
  one.batches = value.at("batches").count(1);
  for (const CheckedJson& rate : value.at("learning_rates").list()) {
    one.rates.push_back(rate.number());
  }
  const auto steps = static_cast<std::int64_t>(one.rates.size());
  if (steps == 0 || steps % one.batches != 0) {
    value.at("learning_rates")
        .refuse(fmt::format("takes one for each step of whole epochs of {}, got {}", one.batches,
                            steps));
  }
  one.schedule = {.kind = ScheduleKind::kRate,
                  .phases = {.epochs = static_cast<int>(steps / one.batches)},
                  .cadence = {.skip = value.at("skip").count(1), .wait = 1},
                  .alpha = value.at("alpha").number()};
  checked(value, [&] { const Schedule schedule(one.schedule); });
  for (const CheckedJson& start : value.at("expect").list()) {
    const std::vector<CheckedJson> pair = start.list(2);
    one.starts.push_back({.step = pair[0].integer(0), .skip = pair[1].integer(0)});
  }
  return one;
}

const Names kWire = {"nodes", "elements", "rounds"};

std::vector<float> exact(const CheckedJson& value, std::size_t size) {
  const std::vector<double> numbers = value.floats(size);
  std::vector<float> floats(numbers.size());
  std::transform(numbers.begin(), numbers.end(), floats.begin(),
                 [](double number) { return static_cast<float>(number); });
  return floats;
}

WireCase::Round round_of(const CheckedJson& value, std::size_t nodes, std::size_t elements) {
  value.expect_fields(
      {"differences", "q", "scales", "mean", "back_q", "back_scales", "back", "rest"});
  constexpr int kAnything = std::numeric_limits<int>::min();
  const std::size_t blocks = (elements + kBlockElements - 1) / kBlockElements;
  const std::vector<CheckedJson> differences = value.at("differences").list(nodes);
  const std::vector<CheckedJson> q = value.at("q").list(nodes);
  const std::vector<CheckedJson> scales = value.at("scales").list(nodes);
  WireCase::Round round;
  for (std::size_t node = 0; node < nodes; ++node) {
    round.nodes.push_back({.difference = exact(differences[node], elements),
                           .q = q[node].integers(elements, kAnything),
                           .scales = exact(scales[node], blocks)});
  }
  round.mean = exact(value.at("mean"), elements);
  round.back_q = value.at("back_q").integers(elements, kAnything);
  round.back_scales = exact(value.at("back_scales"), blocks);
  round.back = exact(value.at("back"), elements);
  round.residual = exact(value.at("rest"), elements);
  return round;
}

WireCase wire_of(const CheckedJson& value) {
  value.expect_fields(kWire, {"name"});
  WireCase one;
  one.nodes = nodes_of(value.at("nodes"));
  one.elements = static_cast<std::size_t>(value.at("elements").count(1));
  for (const CheckedJson& round : value.at("rounds").list()) {
    one.rounds.push_back(round_of(round, one.nodes.size(), one.elements));
  }
  if (one.rounds.empty()) value.at("rounds").refuse("there is at least 1 round, got none");
  return one;
}

// The kind of a case is the one that has most of its fields, so that one with a mistake in it is
// told what is wrong with it.
struct Kind {
  const Names& fields;
  std::function<decltype(GoldenCase::what)(const CheckedJson&)> read;
};

const Kind& kind_of(const CheckedJson& value) {
  static const std::vector<Kind> kinds = {
      {kTraining, training_of}, {kSchedule, schedule_of}, {kPeriod, period_of}, {kWire, wire_of}};
  const auto score = [&](const Kind& kind) {
    return std::count_if(kind.fields.begin(), kind.fields.end(),
                         [&](const std::string& name) { return value.has(name); });
  };
  return *std::max_element(kinds.begin(), kinds.end(),
                           [&](const Kind& a, const Kind& b) { return score(a) < score(b); });
}

}  // namespace

int TrainingCase::ranks() const { return std::accumulate(nodes.begin(), nodes.end(), 0); }

std::vector<GoldenCase> read_golden(const std::string& path) {
  const nlohmann::json document = read_json(path);
  const CheckedJson whole(document, path);
  if (!whole.is_list() && !whole.is_object()) {
    whole.refuse("holds neither a golden case nor a list of them");
  }
  const std::vector<CheckedJson> parts = whole.is_list() ? whole.list() : std::vector{whole};
  if (parts.empty()) whole.refuse("holds no golden case");
  std::vector<GoldenCase> cases;
  for (const CheckedJson& part : parts) {
    GoldenCase one{.file = path, .index = cases.size()};
    one.what = kind_of(part).read(part);
    const std::string number =
        fmt::format("{} {}", std::filesystem::path(path).stem().string(), one.index);
    one.name = part.has("name") ? part.at("name").text() : number;
    cases.push_back(std::move(one));
  }
  return cases;
}

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
