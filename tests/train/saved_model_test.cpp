// SPDX-License-Identifier: Apache-2.0
#include "daso/train/saved_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "daso/base/error.h"
#include "daso/model/safetensors.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

ModelInput image_input() {
  return {.shape = {.channels = 3, .height = 4, .width = 5},
          .classes = 7,
          .normalisation = {.mean = {0.25, 0.5, 0.75}, .deviation = {1, 2, 3}}};
}

ModelInput text_input() {
  return {.shape = {.kind = InputKind::kText, .channels = 1, .height = 1, .width = 64},
          .classes = 3,
          .vocabulary = {10, 97, 0x1f600}};
}

// What a file gives back.
ModelInput through_a_file(const ModelInput& input) {
  const ScratchFolder folder;
  write_tensors(folder.path() / "input.safetensors", state_of(input));
  return input_in(read_tensors(folder.path() / "input.safetensors").tensors);
}

void expect_same(const ModelInput& found, const ModelInput& expected) {
  EXPECT_EQ(found.shape, expected.shape);
  EXPECT_EQ(found.classes, expected.classes);
  EXPECT_EQ(found.normalisation.mean, expected.normalisation.mean);
  EXPECT_EQ(found.normalisation.deviation, expected.normalisation.deviation);
  EXPECT_EQ(found.vocabulary, expected.vocabulary);
}

TEST(SavedInput, ComesBackFromAFile) {
  expect_same(through_a_file(image_input()), image_input());
  expect_same(through_a_file(text_input()), text_input());
  ModelInput bytes = text_input();
  bytes.vocabulary.clear();
  bytes.classes = 256;
  expect_same(through_a_file(bytes), bytes);
}

// Files that were written when all inputs were images.
TEST(SavedInput, OfFourNumbersIsAnImage) {
  State state = state_of(image_input());
  state["shape"] = at::tensor({3, 4, 5, 7}, at::kLong);
  expect_same(input_in(state), image_input());
}

TEST(SavedInput, RefusesWhatItDoesNotKnow) {
  State state = state_of(image_input());
  for (const at::Tensor& shape :
       {at::tensor({3, 4, 5}, at::kLong), at::tensor({3, 4, 5, 7, 2}, at::kLong),
        at::tensor({3, 4, 5, 7, 0, 0}, at::kLong)}) {
    state["shape"] = shape;
    EXPECT_THROW(input_in(state), ConfigError);
  }
  state = state_of(text_input());
  state.erase("vocabulary");
  EXPECT_THROW(input_in(state), ConfigError);
}

}  // namespace
}  // namespace daso::test
