// SPDX-License-Identifier: Apache-2.0
#include "daso/base/worker.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace daso::test {
namespace {

// A rank that drops a task leaves the others, who do theirs, waiting for it.
TEST(Worker, DoesAllThatWasGivenBeforeItEnds) {
  constexpr int kTasks = 1000;  // more than a thread does while it is told to stop
  int done = 0;
  {
    Worker worker("test");
    for (int i = 0; i < kTasks; ++i) worker.post([&] { ++done; });
  }
  EXPECT_EQ(done, kTasks);
}

TEST(Worker, DropsWhatComesAfterAFailure) {
  bool reached = false;
  {
    Worker worker("test");
    worker.post([] { throw std::runtime_error("no"); });
    worker.post([&] { reached = true; });
    EXPECT_THROW(worker.wait(), std::runtime_error);
    worker.post([&] { reached = true; });
  }
  EXPECT_FALSE(reached);
}

}  // namespace
}  // namespace daso::test
