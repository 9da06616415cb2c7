// SPDX-License-Identifier: Apache-2.0
#include "daso/data/examples.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "daso/base/error.h"
#include "daso/data/evaluation_loader.h"
#include "daso/data/loader.h"

namespace daso {
namespace {

using testing::HasSubstr;

// Whose inputs are their numbers, and whose labels the numbers that their streams give first.
class Drawn final : public Examples {
 public:
  std::int64_t size() const override { return 24; }
  Batch read(std::span<const ExampleDraw> draws) const override {
    std::vector<std::int64_t> indices;
    std::vector<std::int64_t> drawn;
    for (ExampleDraw draw : draws) {
      indices.push_back(draw.index);
      drawn.push_back(static_cast<std::int64_t>(draw.random.next()));
    }
    return {at::tensor(indices, at::kLong), at::tensor(drawn, at::kLong)};
  }
};

std::vector<std::int64_t> numbers_in(const at::Tensor& tensor) {
  const auto* first = tensor.const_data_ptr<std::int64_t>();
  return {first, first + tensor.numel()};
}

LoaderOptions shared_by(int ranks, int rank) {
  return {.shard = {.examples = 24, .ranks = ranks, .batch_size = 12 / ranks, .seed = 1},
          .rank = rank,
          .threads = 2};
}

// What each example was drawn with in an epoch, by its number.
std::map<std::int64_t, std::int64_t> drawn_by(int ranks, int epoch) {
  std::map<std::int64_t, std::int64_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    Loader loader(std::make_shared<Drawn>(), shared_by(ranks, rank));
    loader.start(epoch);
    for (std::int64_t i = 0; i < loader.batches(); ++i) {
      const Batch batch = loader.next();
      const auto indices = numbers_in(batch.inputs);
      const auto drawn = numbers_in(batch.labels);
      for (std::size_t j = 0; j < indices.size(); ++j) all[indices[j]] = drawn[j];
    }
  }
  return all;
}

TEST(Examples, AreSharedOutAndShuffledAsADatasetIs) {
  Loader loader(std::make_shared<Drawn>(), shared_by(2, 1));
  loader.start(3);
  std::vector<std::int64_t> seen;
  for (std::int64_t i = 0; i < loader.batches(); ++i) {
    for (const std::int64_t index : numbers_in(loader.next().inputs)) seen.push_back(index);
  }
  EXPECT_EQ(seen, shard_of(shared_by(2, 1).shard, 3, 1));
}

TEST(Examples, AreDrawnAnewInEachEpochButNotByTheNumberOfRanks) {
  const auto first = drawn_by(1, 0);
  EXPECT_EQ(first.size(), 24U);
  EXPECT_EQ(first, drawn_by(3, 0));
  EXPECT_NE(first, drawn_by(1, 1));
}

TEST(Examples, AreEachInOneRanksPartOfAnEvaluation) {
  std::vector<std::int64_t> seen;
  for (int rank = 0; rank < 5; ++rank) {
    EvaluationLoader part(std::make_shared<Drawn>(), {.batch_size = 3, .rank = rank, .ranks = 5});
    part.start();
    for (std::int64_t i = 0; i < part.batches(); ++i) {
      for (const std::int64_t index : numbers_in(part.next().inputs)) seen.push_back(index);
    }
  }
  EXPECT_EQ(seen, numbers_in(at::arange(24, at::kLong)));
}

TEST(TensorExamples, AreTheRowsOfBoth) {
  const at::Tensor inputs = at::arange(12, at::kFloat).reshape({4, 3});
  const at::Tensor labels = at::arange(4, at::kDouble).reshape({4, 1, 1});
  const std::vector<ExampleDraw> draws = {{.index = 3}, {.index = 0}, {.index = 3}};
  const Batch batch = tensors(inputs, labels)->read(draws);
  EXPECT_TRUE(at::equal(batch.inputs, at::stack({inputs[3], inputs[0], inputs[3]})));
  EXPECT_TRUE(at::equal(batch.labels, at::stack({labels[3], labels[0], labels[3]})));
  EXPECT_EQ(batch.labels.scalar_type(), at::kDouble);
  batch.inputs.zero_();
  EXPECT_EQ(inputs[3][0].item<float>(), 9);
}

TEST(TensorExamples, AreDescribedByTypesShapesAndValues) {
  const at::Tensor rows = at::zeros({8, 2});
  const std::string described = tensors(rows, rows)->description();
  EXPECT_THAT(described, HasSubstr("inputs Float [2]"));
  const at::Tensor others = rows.clone();
  others[7][1] = 1;
  EXPECT_NE(tensors(others, rows)->description(), described);
  EXPECT_NE(tensors(rows, others)->description(), described);
  EXPECT_EQ(tensors(rows.clone(), rows)->description(), described);
}

TEST(TensorExamples, MustBeAsManyInputsAsLabels) {
  try {
    tensors(at::zeros({3, 2}), at::zeros({4}));
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("there are 3 inputs and 4 labels"));
  }
  EXPECT_THROW(tensors(at::zeros({}), at::zeros({4})), ConfigError);
  EXPECT_THROW(tensors(at::Tensor(), at::zeros({4})), ConfigError);
}

class OneTooFew final : public Examples {
 public:
  std::int64_t size() const override { return 24; }
  Batch read(std::span<const ExampleDraw> draws) const override {
    const at::Tensor rows = at::zeros({std::ssize(draws) - 1});
    return {rows, rows};
  }
};

TEST(Examples, ThatWereNotAllReadAreAnError) {
  Loader loader(std::make_shared<OneTooFew>(), shared_by(1, 0));
  loader.start(0);
  try {
    loader.next();
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("asked for 12 of them and made 11 inputs and 11 labels"));
  }
}

}  // namespace
}  // namespace daso
