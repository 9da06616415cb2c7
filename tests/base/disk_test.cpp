// SPDX-License-Identifier: Apache-2.0
#include "daso/base/disk.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "daso/base/error.h"
#include "data/gate.h"
#include "process.h"

namespace daso {
namespace {

using test::Gate;
using test::holds_within;

constexpr Seconds kLong{60};

// What the Error says that `act` on the disk ends with; "" for none.
template <typename Act>
std::string error_of(Disk& disk, Seconds limit, const std::string& what, const Act& act) {
  try {
    disk.within(limit, what, act);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Disk, GivesWhatIsReturnedOrThrown) {
  Disk disk;
  EXPECT_EQ(disk.within(kLong, "reading", [] { return std::string("bytes"); }), "bytes");
  EXPECT_THROW(disk.within(kLong, "reading", [] { throw ConfigError("damaged"); }), ConfigError);
  const auto done = std::make_shared<bool>(false);
  disk.within(kLong, "writing", [done] { *done = true; });
  EXPECT_TRUE(*done);
}

TEST(Disk, LeavesWhatHangsToItselfAndBeginsNothingMeanwhile) {
  Disk disk;
  const auto gate = std::make_shared<Gate>();
  const std::string late =
      error_of(disk, Seconds(0.05), "writing file f", [gate] { gate->pass(); });
  EXPECT_EQ(late.find("writing file f is not done after"), 0U) << late;
  EXPECT_EQ(error_of(disk, kLong, "writing file g", [] {}),
            "writing file g has not begun: the disk hangs, writing file f is still not done");
  gate->open();
  EXPECT_TRUE(holds_within(Seconds(20), [&] { return error_of(disk, kLong, "h", [] {}).empty(); }));
}

TEST(Disk, ThatIsGivenUpIsNotWaitedFor) {
  Disk disk;
  const auto gate = std::make_shared<Gate>();
  const std::jthread other([&] {
    EXPECT_TRUE(holds_within(Seconds(20), [&] { return gate->waiting() == 1; }));
    disk.give_up();
  });
  const auto begun = Clock::now();
  EXPECT_NE(error_of(disk, kLong, "writing", [gate] { gate->pass(); }), "");
  EXPECT_LT(since(begun), Seconds(15));  // the gate would open after 20 s
  gate->open();
}

TEST(Disk, WithoutTimeLeftBeginsNothing) {
  Disk disk;
  const auto begun = std::make_shared<bool>(false);
  EXPECT_NE(error_of(disk, Seconds(0), "writing", [begun] { *begun = true; }), "");
  EXPECT_FALSE(*begun);
}

}  // namespace
}  // namespace daso
