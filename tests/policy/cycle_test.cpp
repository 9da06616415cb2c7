// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/cycle.h"

#include <gtest/gtest.h>

#include "daso/base/error.h"
#include "daso/policy/exchange_options.h"
#include "golden_file.h"

namespace daso {
namespace {

using nlohmann::json;
using Then = Plan::Then;

Phase phase_named(const std::string& name) {
  for (const Phase phase : {Phase::kWarmup, Phase::kCycling, Phase::kCooldown}) {
    if (name == name_of(phase)) return phase;
  }
  throw std::invalid_argument("no phase is called " + name);
}

Schedule listed(const json& epochs) {
  ScheduleOptions options{.kind = ScheduleKind::kListed};
  for (const json& epoch : epochs) {
    options.listed.push_back({phase_named(epoch.at(0)), {epoch.at(1), epoch.at(2)}});
  }
  return Schedule(options);
}

// One cycling epoch of this cadence.
Schedule cycling(const Cadence& cadence) {
  return Schedule({.kind = ScheduleKind::kFixed, .cadence = cadence});
}

// With a learning rate that falls, so that the rate schedule has unequal rounds.
StepInfo when_of(std::int64_t step, std::int64_t batches) {
  return {.epoch = static_cast<int>(step / batches),
          .step = step,
          .batch = step % batches,
          .last = batches - 1,
          .rate = 1.0 / static_cast<double>(step + 1),
          .next_rate = 1.0 / static_cast<double>(step + 2)};
}

// All steps of a run.
std::vector<Plan> plans_of(const Schedule& schedule, Cycle cycle, std::int64_t batches) {
  std::vector<Plan> plans;
  for (std::int64_t step = 0; step < schedule.epochs() * batches; ++step) {
    plans.push_back(cycle.after_step(schedule, when_of(step, batches)));
  }
  return plans;
}

// The plan of a step in the words of golden events.
void add_events(json& events, std::int64_t step, const Plan& plan, const std::vector<int>& nodes) {
  if (is_blocking(plan.phase)) events.push_back({{"step", step}, {"do", "blocking"}});
  if (plan.merge) {
    events.push_back({{"step", step},
                      {"do", "merge"},
                      {"exchange", plan.merge->exchange},
                      {"staleness", plan.merge->staleness}});
  }
  if (plan.then == Then::kNothing) return;
  const bool agreement = plan.then == Then::kAgree;
  events.push_back({{"step", step},
                    {"do", agreement ? "exchange" : "start"},
                    {"exchange", plan.exchange},
                    {"speakers", leaders_of(plan.exchange, nodes)}});
  if (agreement) events.back()["staleness"] = 0;
}

TEST(Cycle, DoesWhatTheGoldenEventsSay) {
  const std::vector<std::string> names = test::training_cases();
  ASSERT_GE(names.size(), 12U);
  for (const std::string& name : names) {
    const json one = test::golden(name);
    const auto nodes = one.at("nodes").get<std::vector<int>>();
    const Cycle cycle({.nodes = static_cast<int>(nodes.size())});
    json events = json::array();
    std::int64_t step = 0;
    for (const Plan& plan : plans_of(listed(one.at("schedule")), cycle, one.at("batches"))) {
      add_events(events, step++, plan, nodes);
    }
    EXPECT_EQ(events, one.at("expect").at("events")) << name;
  }
}

// Saves before every step of the run in turn, and goes on with a new cycle.
void expect_saved_goes_on(const CycleOptions& options, const Schedule& schedule,
                          std::int64_t batches) {
  const std::vector<Plan> whole = plans_of(schedule, Cycle(options), batches);
  const auto steps = static_cast<std::int64_t>(whole.size());
  Cycle before(options);
  for (std::int64_t saved = 0; saved < steps; ++saved) {
    Cycle after(options);
    after.load_state(before.state());
    for (std::int64_t step = saved; step < steps; ++step) {
      EXPECT_EQ(after.after_step(schedule, when_of(step, batches)),
                whole[static_cast<std::size_t>(step)])
          << "saved before " << saved << ", at " << step;
    }
    before.after_step(schedule, when_of(saved, batches));
  }
}

TEST(Cycle, SavedStateGoesOnAlikeFromEveryStep) {
  const Schedule by_list = listed({{"warmup", 0, 0},
                                   {"cycling", 5, 3},
                                   {"cycling", 3, 3},
                                   {"cooldown", 0, 0},
                                   {"cycling", 1, 1}});
  // (alpha / rate)^2 is 1, 4, 9, ... / 100.
  const Schedule by_rate({.kind = ScheduleKind::kRate,
                          .phases = {.epochs = 5, .warmup = 1},
                          .cadence = {.skip = 2, .wait = 2},
                          .alpha = 0.1});
  for (const bool in_background : {true, false}) {
    const CycleOptions options{.nodes = 3, .in_background = in_background};
    expect_saved_goes_on(options, by_list, /*batches=*/12);
    expect_saved_goes_on(options, by_rate, /*batches=*/12);
  }
}

// The steps from..end of an epoch of 20 steps whose steps before had another schedule.
std::vector<Plan> plans_after(const Schedule& before, Schedule after, std::int64_t from,
                              std::int64_t end) {
  Cycle stopped({.nodes = 2});
  for (std::int64_t step = 0; step < from; ++step) stopped.after_step(before, when_of(step, 20));
  Cycle cycle({.nodes = 2});
  cycle.load_state(stopped.state());
  after.load_state(before.state());
  std::vector<Plan> plans;
  for (std::int64_t step = from; step < end; ++step) {
    plans.push_back(cycle.after_step(after, when_of(step, 20)));
  }
  return plans;
}

Plan merge_of(std::int64_t exchange, std::int64_t staleness) {
  return {.merge = Plan::DueMerge{.exchange = exchange, .staleness = staleness}};
}

Plan start_of(std::int64_t exchange, const Cadence& cadence) {
  return {.then = Then::kStart, .exchange = exchange, .skip = cadence.skip, .wait = cadence.wait};
}

TEST(Cycle, ExchangeInFlightKeepsItsWaitAndTheNextOneHasTheNewCadence) {
  const Cadence slow{.skip = 4, .wait = 4};
  const Cadence fast{.skip = 2, .wait = 1};
  Plan merge_and_start = start_of(1, fast);
  merge_and_start.merge = Plan::DueMerge{.exchange = 0, .staleness = 4};
  // The round of step 0 ends in step 4, as does the wait of its exchange. (alpha / rate)^2 is below
  // 1 in these steps.
  for (const ScheduleKind kind : {ScheduleKind::kFixed, ScheduleKind::kRate}) {
    const auto by = [kind](const Cadence& cadence) {
      return Schedule({.kind = kind, .cadence = cadence, .alpha = 0.1});
    };
    EXPECT_EQ(plans_after(by(slow), by(fast), 2, 8),
              (std::vector<Plan>{
                  {}, {}, merge_and_start, merge_of(1, 1), start_of(2, fast), merge_of(2, 1)}))
        << name_of(kind);
  }
  // From rounds of 2 to rounds of 8 with a wait of 5; exchange 1 began in step 2.
  const Cadence rare{.skip = 8, .wait = 5};
  EXPECT_EQ(plans_after(cycling(fast), cycling(rare), 3, 13),
            (std::vector<Plan>{merge_of(1, 1),
                               start_of(2, rare),
                               {},
                               {},
                               {},
                               {},
                               merge_of(2, 5),
                               {},
                               {},
                               start_of(3, rare)}));
}

TEST(Cycle, RefusesToBlockInTheMiddleOfACyclingEpochAndToCycleInABlockingOne) {
  const Schedule cycles = cycling({.skip = 4, .wait = 2});
  const Schedule warmup({.kind = ScheduleKind::kFixed, .phases = {.epochs = 1, .warmup = 1}});
  const Schedule cooldown({.kind = ScheduleKind::kFixed, .phases = {.epochs = 1, .cooldown = 1}});
  EXPECT_THROW(plans_after(cycles, warmup, 1, 2), ConfigError);  // an exchange is in flight
  EXPECT_THROW(plans_after(cycles, warmup, 3, 4), ConfigError);  // merged, but the nodes differ
  EXPECT_THROW(plans_after(warmup, cycles, 3, 4), ConfigError);  // there is no anchor
  EXPECT_NO_THROW(plans_after(cycles, warmup, 0, 20));
  EXPECT_NO_THROW(plans_after(warmup, cooldown, 3, 4));  // both block
}

// One that does not say how its epoch began: an exchange in flight does.
TEST(Cycle, GoesOnFromOlderCheckpoints) {
  const Schedule cycles = cycling({.skip = 4, .wait = 2});
  const Schedule warmup({.kind = ScheduleKind::kFixed, .phases = {.epochs = 1, .warmup = 1}});
  Cycle cycle({.nodes = 2});
  cycle.after_step(cycles, when_of(0, 20));
  CycleState state = cycle.state();
  state.cycling.reset();
  cycle.load_state(state);
  EXPECT_NO_THROW(cycle.after_step(cycles, when_of(1, 20)));
  cycle.load_state(state);
  EXPECT_THROW(cycle.after_step(warmup, when_of(1, 20)), ConfigError);
}

// Every pair of skip and wait, every length of an epoch: against the rule written with `mod`.
TEST(Cycle, FixedSkipStartsAtItsMultiples) {
  for (int skip = 1; skip <= 6; ++skip) {
    for (int wait = 1; wait <= skip; ++wait) {
      for (std::int64_t batches = 1; batches <= 14; ++batches) {
        const auto plans =
            plans_of(cycling({.skip = skip, .wait = wait}), Cycle({.nodes = 2}), batches);
        std::int64_t exchange = 0;
        for (std::int64_t b = 0; b < batches; ++b) {
          const Plan& plan = plans[static_cast<std::size_t>(b)];
          const bool last = b == batches - 1;
          const Then then = last ? Then::kAgree : b % skip == 0 ? Then::kStart : Then::kNothing;
          EXPECT_EQ(plan.then, then);
          if (then != Then::kNothing) {
            EXPECT_EQ(plan.exchange, exchange++);
          }
          // The start that is in flight before this step: the latest multiple of skip below b.
          const std::int64_t age = b == 0 ? 0 : (b - 1) % skip + 1;
          const bool merges = age == wait || (last && age > 0 && age < wait);
          EXPECT_EQ(plan.merge.has_value(), merges) << skip << " " << wait << " " << b;
          if (plan.merge && merges) {
            EXPECT_EQ(plan.merge->staleness, age);
          }
        }
      }
    }
  }
}

TEST(Cycle, EpochOfOneStepOnlyAgrees) {
  const Schedule schedule = listed({{"cycling", 4, 2}, {"cycling", 1, 1}, {"cycling", 4, 4}});
  const std::vector<Plan> plans = plans_of(schedule, Cycle({.nodes = 2}), /*batches=*/1);
  for (std::size_t step = 0; step < 3; ++step) {
    EXPECT_EQ(plans[step],
              (Plan{.then = Then::kAgree, .exchange = static_cast<std::int64_t>(step)}));
  }
}

TEST(Cycle, MergesBeforeItStartsWhereWaitIsSkip) {
  const auto plans = plans_of(cycling({.skip = 3, .wait = 3}), Cycle({.nodes = 2}), 9);
  EXPECT_EQ(plans[3], (Plan{.merge = Plan::DueMerge{.exchange = 0, .staleness = 3},
                            .then = Then::kStart,
                            .exchange = 1,
                            .skip = 3,
                            .wait = 3}));
}

TEST(Cycle, OneNodeHasNothingToExchange) {
  Cycle cycle({.nodes = 1});
  const Schedule schedule = listed({{"warmup", 0, 0}, {"cycling", 2, 1}});
  for (std::int64_t step = 0; step < 12; ++step) {
    const Phase phase = step < 6 ? Phase::kWarmup : Phase::kCycling;
    EXPECT_EQ(cycle.after_step(schedule, when_of(step, 6)), Plan{.phase = phase});
  }
  EXPECT_EQ(cycle.state(), CycleState{});
}

// The cycle after `steps` of them, and its last plan.
struct Stopped {
  Stopped(const Schedule& schedule, const CycleOptions& options, std::int64_t steps)
      : cycle(options) {
    for (std::int64_t step = 0; step < steps; ++step) {
      plan = cycle.after_step(schedule, when_of(step, 20));
    }
  }
  Cycle cycle;
  Plan plan;
};

TEST(Cycle, StartThatWasPutOffBeginsInTheNextViewAndIsMergedWhenItWouldHaveBeen) {
  const Cadence cadence{.skip = 4, .wait = 2};
  const Schedule schedule = cycling(cadence);
  Stopped stopped(schedule, {.nodes = 3}, /*steps=*/5);
  ASSERT_EQ(stopped.plan, start_of(1, cadence));
  stopped.cycle.put_off(stopped.plan);
  Cycle next({.nodes = 2, .in_views = true});
  next.load_state(stopped.cycle.state());
  EXPECT_EQ(next.enter_view(1), (Plan{.then = Then::kStart, .exchange = 1}));
  EXPECT_EQ(next.after_step(schedule, when_of(5, 20)), Plan{});
  EXPECT_EQ(next.after_step(schedule, when_of(6, 20)), merge_of(1, 2));
  EXPECT_EQ(next.enter_view(2), Plan{});  // once
}

TEST(Cycle, StartOfALowerNumberThanTheViewsIsSkippedButCounts) {
  const Cadence cadence{.skip = 4, .wait = 2};
  const Schedule schedule = cycling(cadence);
  for (const bool reached : {true, false}) {
    const std::int64_t steps = reached ? 5 : 4;
    Stopped stopped(schedule, {.nodes = 3}, steps);
    if (reached) stopped.cycle.put_off(stopped.plan);
    EXPECT_EQ(stopped.cycle.enter_view(2), Plan{});
    for (std::int64_t step = steps; step < 8; ++step) {
      EXPECT_EQ(stopped.cycle.after_step(schedule, when_of(step, 20)), Plan{}) << step;
    }
    EXPECT_EQ(stopped.cycle.after_step(schedule, when_of(8, 20)), start_of(2, cadence));
  }
}

TEST(Cycle, AbandonedExchangeIsNotMerged) {
  const Cadence cadence{.skip = 4, .wait = 2};
  const Schedule schedule = cycling(cadence);
  Stopped stopped(schedule, {.nodes = 3}, /*steps=*/6);  // exchange 1 is in flight
  stopped.cycle.abandon();
  EXPECT_EQ(stopped.cycle.enter_view(2), Plan{});
  EXPECT_EQ(stopped.cycle.after_step(schedule, when_of(6, 20)), Plan{});
  EXPECT_EQ(stopped.cycle.after_step(schedule, when_of(7, 20)), Plan{});
  EXPECT_EQ(stopped.cycle.after_step(schedule, when_of(8, 20)), start_of(2, cadence));
}

// Whoever had begun it and whoever had not do it again with the same number.
TEST(Cycle, WhatBlocksIsDoneAgainWithANumberOfTheView) {
  const Schedule schedule = cycling({.skip = 4, .wait = 2});
  const CycleOptions local{.nodes = 3, .in_background = false};
  Stopped begun(schedule, local, /*steps=*/5);
  ASSERT_EQ(begun.plan, (Plan{.then = Then::kAverage, .exchange = 1, .skip = 4}));
  for (const std::int64_t first : {1, 2}) {  // nobody had, this one had
    Cycle again = begun.cycle;
    again.put_off(begun.plan);
    EXPECT_EQ(again.enter_view(first), (Plan{.then = Then::kAverage, .exchange = first}));
    Stopped behind(schedule, local, /*steps=*/4);
    EXPECT_EQ(behind.cycle.enter_view(first), Plan{});
    EXPECT_EQ(behind.cycle.after_step(schedule, when_of(4, 20)),
              (Plan{.then = Then::kAverage, .exchange = first, .skip = 4}));
    EXPECT_EQ(again.state().exchanges, first + 1);
    EXPECT_EQ(behind.cycle.state().exchanges, first + 1);
  }
}

TEST(Cycle, NodeThatIsLeftAloneGoesOnCounting) {
  const Schedule schedule = listed({{"cycling", 4, 2}, {"cycling", 3, 1}});
  EXPECT_EQ(plans_of(schedule, Cycle({.nodes = 1, .in_views = true}), 10),
            plans_of(schedule, Cycle({.nodes = 2}), 10));
}

TEST(Cycle, LocalAveragesWhereDasoStartsAndMergesNothing) {
  const Schedule schedule = listed({{"warmup", 0, 0}, {"cycling", 4, 2}, {"cycling", 3, 1}});
  const auto daso = plans_of(schedule, Cycle({.nodes = 2}), 10);
  auto local = plans_of(schedule, Cycle({.nodes = 2, .in_background = false}), 10);
  int averages = 0;
  for (std::size_t step = 0; step < local.size(); ++step) {
    EXPECT_FALSE(local[step].merge);
    Plan expected = daso[step];
    expected.merge.reset();
    if (expected.then == Then::kStart) {
      expected.then = Then::kAverage;
      expected.wait = 0;
      ++averages;
    }
    EXPECT_EQ(local[step], expected) << step;
  }
  EXPECT_EQ(averages, 3 + 3);  // at 0, 4, 8 and at 0, 3, 6; step 9 ends the epoch
}

TEST(Cycle, EpochWithoutEndKeepsItsRounds) {
  Cycle cycle({.nodes = 2});
  const Schedule schedule({.kind = ScheduleKind::kRate, .cadence = {.skip = 4}, .alpha = 0.1});
  for (std::int64_t step = 0; step < 100; ++step) {
    const Plan plan = cycle.after_step(
        schedule, {.step = step, .batch = step, .last = kEndless, .rate = 0.1, .next_rate = 0.1});
    EXPECT_EQ(plan.then == Then::kStart, step % 4 == 0);
    EXPECT_EQ(plan.merge.has_value(), step % 4 == 1);
  }
}

TEST(Cycle, PeriodBeyondTheEpochIsItsLastStart) {
  const Schedule schedule(
      {.kind = ScheduleKind::kRate, .phases = {.epochs = 2}, .cadence = {.skip = 2}, .alpha = 1});
  // 0 in the first epoch; (1 / 0.5)^2 = 4 from step 6 on.
  const RunPlan run_plan{
      .epochs = 2, .batches = 6, .rate = [](std::int64_t step) { return step < 6 ? 0.0 : 0.5; }};
  const auto epochs =
      trajectory_of(schedule, Cycle({.nodes = 2}), run_plan, [](int) { return 0.0; });
  using Start = EpochTrajectory::Start;
  EXPECT_EQ(epochs[0].starts, (std::vector<Start>{{.step = 0, .skip = 6}}));
  EXPECT_EQ(epochs[1].starts,
            (std::vector<Start>{{.step = 6, .skip = 4}, {.step = 10, .skip = 4}}));
  EXPECT_EQ(epochs[1].exchanges, 3);
  EXPECT_EQ(epochs[1].agreements, 1);
}

TEST(Rotation, EveryRankOfTheLargestNodeGetsItsTurn) {
  const std::vector<int> nodes = {3, 1, 2};
  const std::vector<std::vector<int>> expected = {{0, 0, 0}, {1, 0, 1}, {2, 0, 0}};
  for (std::int64_t exchange = 0; exchange < 9; ++exchange) {
    EXPECT_EQ(leaders_of(exchange, nodes), expected[static_cast<std::size_t>(exchange % 3)]);
  }
  EXPECT_EQ(leaders_of((std::int64_t{1} << 40) + 1, {2, 2}), (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace daso
