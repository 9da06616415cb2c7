// SPDX-License-Identifier: Apache-2.0
#include "membership/simulation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace daso::membership {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

bool fails(const Script& script) { return Simulation(script).run().has_value(); }

std::string shortest_failure(std::uint64_t seed) {
  const Script script = shrink(draw_script(seed), fails);
  return text(script) + "  " + Simulation(script).run().value_or("no longer");
}

// What happens in a run, without the faults that do not matter if it fails.
void tell_run(std::uint64_t seed) {
  Script script = draw_script(seed);
  if (fails(script)) script = shrink(script, fails);
  fmt::print("{}", text(script));
  EXPECT_EQ(std::nullopt, Simulation(script, /*tell=*/true).run());
}

// DASO_MEMBERSHIP_RUNS=1000000 for a longer search, DASO_MEMBERSHIP_FIRST to begin at another seed;
// DASO_MEMBERSHIP_SEED=N tells one run.
TEST(Simulation, KeepsItsPromisesWhateverGoesWrong) {
  if (std::getenv("DASO_MEMBERSHIP_SEED") != nullptr) {
    return tell_run(number_from("DASO_MEMBERSHIP_SEED", 0));
  }
  const std::uint64_t first = number_from("DASO_MEMBERSHIP_FIRST", 0);
  const std::uint64_t runs = number_from("DASO_MEMBERSHIP_RUNS", 100000);
  std::uint64_t views = 0;
  std::uint64_t commits = 0;
  std::uint64_t events = 0;
  std::uint64_t demanding = 0;
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    Simulation simulation(draw_script(seed));
    ASSERT_FALSE(simulation.run()) << shortest_failure(seed);
    views += simulation.views();
    commits += simulation.commits();
    events += simulation.events();
    demanding += simulation.demanded_progress() ? 1 : 0;
  }
  fmt::print("{} runs: {} views, {} commits, {} events; progress was due in {}\n", runs, views,
             commits, events, demanding);
  // The runs are worth something.
  EXPECT_GT(views, 2 * runs);
  EXPECT_GT(commits, 10 * runs);
  EXPECT_GT(2 * demanding, runs);
}

// Runs beyond the first that have failed: a view that one joiner alone knew, and two members that
// held each other for dead and outbid each other until both gave up.
TEST(Simulation, KeepsThemWhereItOnceDidNot) {
  for (const std::uint64_t seed : {155328, 610001}) {
    EXPECT_FALSE(fails(draw_script(seed))) << shortest_failure(seed);
  }
}

}  // namespace
}  // namespace daso::membership
