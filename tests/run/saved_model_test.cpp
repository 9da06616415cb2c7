// SPDX-License-Identifier: Apache-2.0
#include "daso/run/saved_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "daso/base/error.h"
#include "daso/tensor/safetensors.h"
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
  EXPECT_EQ(found.class_names, expected.class_names);
}

TEST(SavedInput, ComesBackFromAFile) {
  expect_same(through_a_file(image_input()), image_input());
  expect_same(through_a_file(text_input()), text_input());
  ModelInput bytes = text_input();
  bytes.vocabulary.clear();
  bytes.classes = 256;
  expect_same(through_a_file(bytes), bytes);
  ModelInput named = image_input();
  named.class_names = {"a", "b c", "\xc3\xa4", "d,e", "f", "g", "h"};
  expect_same(through_a_file(named), named);
}

std::string refusal_of_names(const std::vector<std::string>& trained,
                    const std::vector<std::string>& found) {
  ModelInput input = image_input();
  input.class_names = trained;
  try {
    require_same_classes("runs/mine", input, "images:DIR", found);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(SavedInput, RefusesOtherClassesByTheFirstThatDiffers) {
  EXPECT_EQ(refusal_of_names({"ant", "bee", "cat"}, {"ant", "bee", "cat"}), "");
  EXPECT_NE(refusal_of_names({"ant", "bee", "cat"}, {"ant", "cat", "dog"})
                .find("--data images:DIR has class 'cat' where runs/mine was trained with 'bee'"),
            std::string::npos);
  EXPECT_EQ(refusal_of_names({}, {"ant", "bee"}), "");  // older checkpoints have none
  EXPECT_EQ(refusal_of_names({"ant", "bee"}, {}), "");
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
