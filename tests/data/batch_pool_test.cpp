// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "daso/data/batch.h"

namespace daso {
namespace {

constexpr InputShape kShape = {.channels = 1, .height = 2, .width = 2};

TEST(BatchPool, UsesMemoryAgainThatNobodyHolds) {
  BatchPool pool(kShape);
  const void* first = pool.take(3).inputs.const_data_ptr();  // given back at once
  const Batch again = pool.take(3);
  EXPECT_EQ(again.inputs.const_data_ptr(), first);
  EXPECT_EQ(again.inputs.sizes(), (std::vector<std::int64_t>{3, 1, 2, 2}));
}

TEST(BatchPool, LeavesAloneWhatSomebodyHolds) {
  BatchPool pool(kShape);
  std::optional<Batch> held = pool.take(3);
  const void* first = held->inputs.const_data_ptr();
  EXPECT_NE(pool.take(3).inputs.const_data_ptr(), first);
  const at::Tensor view = held->inputs.narrow(0, 1, 1);
  held.reset();
  EXPECT_NE(pool.take(3).inputs.const_data_ptr(), first) << "a view is still there";
}

TEST(BatchPool, GivesTheNumberOfExamplesThatWasAskedFor) {
  BatchPool pool(kShape);
  pool.take(3);
  EXPECT_EQ(pool.take(2).labels.size(0), 2);
}

// Pinned memory itself is a matter of tests/cuda.
TEST(PinnedBatch, IsAnyOtherBatchWhereThereIsNoDevice) {
  BatchPool pool(kShape, {.pinned = true});
  const Batch batch = pool.take(3);
  EXPECT_FALSE(batch.inputs.is_pinned());
  EXPECT_EQ(pinned(batch).inputs.const_data_ptr(), batch.inputs.const_data_ptr());
}

}  // namespace
}  // namespace daso
