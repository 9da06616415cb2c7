// SPDX-License-Identifier: Apache-2.0
#include "daso/data/raw_images.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daso/base/random.h"
#include "daso/data/evaluation_loader.h"
#include "daso/data/loader.h"
#include "daso/data/stored_images.h"
#include "data/data_files.h"
#include "data/image_files.h"

namespace daso {
namespace {

// What a device would make of it.
at::Tensor placed(const Batch& raw, const Kernels& kernels = cpu_kernels()) {
  const at::Tensor inputs = at::full(raw.inputs.sizes(), -99.0, at::kFloat);
  place_images(raw, inputs, kernels);
  return inputs;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat &&
         at::equal(a.view(at::kInt), b.view(at::kInt));
}

LoaderOptions options_for(const std::shared_ptr<const Dataset>& data, Augment augment, bool raw) {
  return {.shard = {.examples = data->size(), .ranks = 1, .batch_size = 2, .seed = 5},
          .threads = 2,
          .augment = augment,
          .normalisation = normalisation_of(data),
          .raw = raw,
          .limit = Seconds(60)};
}

// Two epochs of raw batches, placed, are those of a loader that makes inputs.
void expect_inputs_of(const std::shared_ptr<const Dataset>& data, Augment augment) {
  Loader made(data, options_for(data, augment, false));
  Loader raw(data, options_for(data, augment, true));
  for (int epoch = 0; epoch < 2; ++epoch) {
    made.start(epoch);
    raw.start(epoch);
    for (std::int64_t i = 0; i < made.batches(); ++i) {
      const Batch expected = made.next();
      const Batch bytes = raw.next();
      ASSERT_TRUE(bytes.is_raw());
      EXPECT_EQ(bytes.inputs.scalar_type(), at::kByte);
      EXPECT_TRUE(at::equal(bytes.labels, expected.labels));
      EXPECT_TRUE(same_bits(placed(bytes), expected.inputs)) << "batch " << i;
    }
  }
}

void expect_inputs_of(const Datasets& data) {
  for (const Augment augment : {Augment::kNone, Augment::kCrop, Augment::kCropFlip}) {
    expect_inputs_of(data.train, augment);
  }
  EvaluationOptions options{.batch_size = 2, .normalisation = normalisation_of(data.train)};
  EvaluationLoader made(data.test, options);
  options.raw = true;
  EvaluationLoader raw(data.test, options);
  made.start();
  raw.start();
  for (std::int64_t i = 0; i < made.batches(); ++i) {
    EXPECT_TRUE(same_bits(placed(raw.next()), made.next().inputs)) << "test batch " << i;
  }
}

class RawImages : public test::DataFolder {};

TEST_F(RawImages, OfIdxFilesBecomeTheSameInputs) {
  test::write_idx_folder(folder_);
  expect_inputs_of(open_data("idx:" + folder_.string()));
}

TEST_F(RawImages, OfCifarBecomeTheSameInputs) {
  test::write_cifar_folder(folder_);
  expect_inputs_of(open_data("cifar10:" + folder_.string()));
}

TEST_F(RawImages, OfCifar100BecomeTheSameInputs) {
  test::write_cifar100_folder(folder_);
  expect_inputs_of(open_data("cifar100:" + folder_.string()));
}

TEST_F(RawImages, ThatAreSyntheticBecomeTheSameInputs) {
  expect_inputs_of(open_data("synthetic:train=7,test=5,size=19,channels=5"));
}

// Resized images are no bytes any more, so their loader makes inputs as ever.
TEST_F(RawImages, AreNotThereForImageFiles) {
  test::write_image_folder(folder_);
  const auto data = open_data("images:" + folder_.string() + ",size=24").train;
  for (const Augment augment : {Augment::kNone, Augment::kCropFlip, Augment::kResizedCropFlip}) {
    Loader made(data, options_for(data, augment, false));
    Loader asked(data, options_for(data, augment, true));
    made.start(1);
    asked.start(1);
    for (std::int64_t i = 0; i < made.batches(); ++i) {
      const Batch batch = asked.next();
      EXPECT_FALSE(batch.is_raw());
      EXPECT_TRUE(same_bits(batch.inputs, made.next().inputs));
    }
  }
}

TEST_F(RawImages, AreTheBytesOfTheFile) {
  test::write_idx_folder(folder_);
  const auto data = open_data("idx:" + folder_.string()).train;
  LoaderOptions options = options_for(data, Augment::kCropFlip, true);
  options.normalisation = {.mean = {0.5F}, .deviation = {0.25F}};
  Loader loader(data, options);
  loader.start(0);
  const Batch batch = loader.next();
  const std::vector<std::int64_t> shard = shard_of(options.shard, 0, 0);
  for (std::int64_t i = 0; i < 2; ++i) {
    const std::int64_t first = 20 * shard[static_cast<std::size_t>(i)];  // bytes of 4 x 5 count on
    EXPECT_TRUE(at::equal(batch.inputs[i].flatten(), at::arange(first, first + 20).to(at::kByte)));
  }
  EXPECT_EQ(batch.placements.sizes(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(batch.values.sizes(), (std::vector<std::int64_t>{1, 256}));
  EXPECT_EQ(batch.values[0][255].item<float>(), 2.0F);  // (1 - 0.5) / 0.25
  EXPECT_EQ(batch.values[0][0].item<float>(), -2.0F);
}

// Further than draws go, on all instruction sets: what place_image() does with the same values.
TEST(PlacedImages, AreMovedAndMirroredAsOnTheHostFromAnyPlace) {
  const InputShape shape{.channels = 2, .height = 3, .width = 5};
  const Normalisation normalisation{.mean = {0.3F, 0.7F}, .deviation = {0.11F, 0.23F}};
  Images images{.shape = shape, .values = test::counting(30), .labels = {0}};
  for (std::uint8_t& value : images.values) value = static_cast<std::uint8_t>(value * 83 + 7);
  const StoredImages data(images, 2);
  const BatchForm form{.values = raw_values(data, normalisation)};
  std::vector<float> image(30);
  data.read(0, image);
  for (int down = -4; down <= 4; ++down) {
    for (int right = -6; right <= 6; ++right) {
      for (const bool mirrored : {false, true}) {
        Batch raw = empty_batch(shape, 1, form);
        data.read_bytes(0, {raw.inputs.mutable_data_ptr<std::uint8_t>(), 30});
        raw.placements.copy_(at::tensor({down, right, mirrored ? 1 : 0}, at::kInt).view({1, 3}));
        const at::Tensor expected = at::empty({1, 2, 3, 5}, at::kFloat);
        place_image(image, shape, normalisation,
                    {.down = down, .right = right, .mirrored = mirrored},
                    {expected.mutable_data_ptr<float>(), 30});
        for (const InstructionSet set : supported_instruction_sets()) {
          EXPECT_TRUE(same_bits(placed(raw, cpu_kernels(set)), expected))
              << down << " " << right << " " << mirrored << " " << name_of(set);
        }
      }
    }
  }
}

}  // namespace
}  // namespace daso
