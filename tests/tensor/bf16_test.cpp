// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/bf16.h"

#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

#include "daso/base/cpu.h"

namespace daso {
namespace {

// A processor on which bf16 lives or dies, and how often it was asked.
struct Machine {
  bool with_amx = true;
  bool without_amx = true;
  int trials = 0;

  Amx decide(Environment& variables, bool advertised = true) {
    return decide_bf16(advertised, variables, [this](const Environment& tried) {
      ++trials;
      return find(tried, kCap) == kCappedTo ? without_amx : with_amx;
    });
  }
};

TEST(Bf16, IsNotTriedWhereNoAmxIsAdvertised) {
  Machine machine;
  Environment variables;
  EXPECT_EQ(machine.decide(variables, /*advertised=*/false), Amx::kAbsent);
  EXPECT_EQ(machine.trials, 0);
  EXPECT_TRUE(variables.empty());
}

TEST(Bf16, IsLeftAloneWhereItWorks) {
  Machine machine;
  Environment variables;
  EXPECT_EQ(machine.decide(variables), Amx::kUsable);
  EXPECT_FALSE(find(variables, kCap));
}

TEST(Bf16, IsKeptAwayFromAmxWhereThatTraps) {
  Machine machine{.with_amx = false};
  Environment variables;
  EXPECT_EQ(machine.decide(variables), Amx::kCapped);
  EXPECT_EQ(find(variables, kCap), kCappedTo);
}

TEST(Bf16, IsSaidToTrapWhereNoCapHelps) {
  Machine machine{.with_amx = false, .without_amx = false};
  Environment variables;
  EXPECT_EQ(machine.decide(variables), Amx::kTrapped);
  EXPECT_FALSE(find(variables, kCap));
  Environment own = {{kCap, "AVX512_CORE_AMX"}};
  EXPECT_EQ(machine.decide(own), Amx::kTrapped);
  EXPECT_EQ(find(own, kCap), "AVX512_CORE_AMX");  // a user's own stands
}

TEST(Bf16, IsTriedOnceForAJob) {
  for (const bool works : {true, false}) {
    Machine machine{.with_amx = works};
    Environment variables;
    const Amx first = machine.decide(variables);
    const int trials = machine.trials;
    EXPECT_EQ(machine.decide(variables), first);
    EXPECT_EQ(find_amx(/*amx_advertised=*/true, variables), first);
    EXPECT_EQ(machine.trials, trials);
  }
  EXPECT_EQ(find_amx(/*amx_advertised=*/true, {}), Amx::kUntried);
}

TEST(ATrial, TellsALifeFromADeath) {
  EXPECT_TRUE(survives([] {}));
  EXPECT_FALSE(survives([] { ::raise(SIGILL); }));
  EXPECT_FALSE(survives([] { throw std::runtime_error("no"); }));
}

TEST(Bf16, OfThisProcessIsDecidedForGood) {
  const Amx amx = cap_instruction_sets();
  EXPECT_EQ(amx == Amx::kAbsent, !amx_advertised());
  EXPECT_NE(amx, Amx::kUntried);
  EXPECT_EQ(find_amx(), amx);
  EXPECT_EQ(bf16_traps(), amx == Amx::kTrapped);
}

}  // namespace
}  // namespace daso
