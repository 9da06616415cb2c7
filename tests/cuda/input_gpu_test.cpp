// SPDX-License-Identifier: Apache-2.0
// Batches on a GPU against those on the CPU, bit by bit.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "daso/base/error.h"
#include "daso/data/dataset.h"
#include "daso/data/evaluation_loader.h"
#include "daso/data/loader.h"
#include "daso/data/raw_images.h"
#include "daso/run/device_feed.h"
#include "daso/tensor/device.h"
#include "daso/tensor/large_tensor.h"
#include "data/data_files.h"
#include "data/image_files.h"
#include "run_ranks.h"

namespace daso {
namespace {

using test::run_ranks;

class GpuInput : public test::DataFolder {
 protected:
  void SetUp() override {
    try {
      device_ = find_device({.kind = DeviceChoice::Kind::kCuda}, /*place=*/0).device;
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
  }

  at::Device device_ = at::kCPU;
};

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto bits = [](const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kFloat ? tensor.view(at::kInt) : tensor;
  };
  return a.scalar_type() == b.scalar_type() && at::equal(bits(a), bits(b));
}

LoaderOptions options_for(const std::shared_ptr<const Dataset>& data, Augment augment,
                          int batch_size) {
  return {.shard = {.examples = data->size(), .ranks = 1, .batch_size = batch_size, .seed = 5},
          .threads = 2,
          .augment = augment,
          .normalisation = normalisation_of(data)};
}

// Keeps the device so busy that batches arrive while those before are waited for.
at::Tensor busy(at::Device device) {
  at::Tensor a = at::ones({1024, 1024}, at::TensorOptions(at::kFloat).device(device));
  for (int i = 0; i < 20; ++i) a = at::mm(a, a) * 1e-3;
  return a;
}

// Two epochs, the second from its second batch on. A device that is behind sees each batch as it
// was, and not what came after it.
void expect_same(const std::shared_ptr<const Dataset>& data, Augment augment, at::Device device,
                 int batch_size = 2) {
  LoaderOptions options = options_for(data, augment, batch_size);
  Loader on_cpu(data, options);
  options.pinned = true;
  options.raw = true;
  Loader on_gpu(data, options);
  run_ranks({.ranks = 1}, [&](World& world) {
    find_device({.kind = DeviceChoice::Kind::kCuda}, 0);  // of this thread
    const TrainingStream stream(device);
    DeviceFeed feed(world, device);
    for (const int epoch : {0, 1}) {
      on_cpu.start(epoch, epoch);
      on_gpu.start(epoch, epoch);
      feed.start(on_gpu, on_gpu.batches() - epoch);
      std::vector<Batch> seen;
      for (std::int64_t i = epoch; i < on_gpu.batches(); ++i) {
        const Batch batch = feed.next();
        EXPECT_EQ(batch.inputs.device(), device);
        busy(device);
        seen.push_back({batch.inputs.clone(), batch.labels.clone()});
      }
      for (const Batch& batch : seen) {
        const Batch expected = on_cpu.next();
        EXPECT_TRUE(same_bits(batch.inputs.cpu(), expected.inputs));
        EXPECT_TRUE(same_bits(batch.labels.cpu(), expected.labels));
      }
    }
  });
}

constexpr std::array kMoving = {Augment::kNone, Augment::kCrop, Augment::kCropFlip};

TEST_F(GpuInput, OfIdxFilesHasTheBitsOfTheCpu) {
  test::write_idx_folder(folder_);
  for (const Augment augment : kMoving) {
    expect_same(open_data("idx:" + folder_.string()).train, augment, device_);
  }
}

TEST_F(GpuInput, OfCifarHasTheBitsOfTheCpu) {
  test::write_cifar_folder(folder_, 8);
  for (const Augment augment : kMoving) {
    expect_same(open_data("cifar10:" + folder_.string()).train, augment, device_, 4);
  }
}

TEST_F(GpuInput, ThatIsSyntheticHasTheBitsOfTheCpu) {
  for (const char* const form : {"size=19,channels=5", "size=224", "size=33,channels=1"}) {
    const auto data = open_data(std::string("synthetic:train=160,") + form).train;
    for (const Augment augment : kMoving) expect_same(data, augment, device_, 16);
  }
}

TEST_F(GpuInput, OfImageFilesHasTheBitsOfTheCpu) {
  test::write_image_folder(folder_);
  const auto data = open_data("images:" + folder_.string() + ",size=24").train;
  for (const Augment augment : {Augment::kNone, Augment::kCropFlip, Augment::kResizedCropFlip}) {
    expect_same(data, augment, device_);
  }
}

TEST_F(GpuInput, OfTextHasTheBitsOfTheCpu) {
  test::write_file(folder_ / "text.txt", test::counting(4000));
  const auto data = open_data("text:" + (folder_ / "text.txt").string() + ",length=16").train;
  expect_same(data, Augment::kNone, device_, 8);
}

TEST_F(GpuInput, ComesFromPinnedMemory) {
  const auto data = open_data("synthetic:train=64").train;
  LoaderOptions options = options_for(data, Augment::kNone, 8);
  options.pinned = true;
  for (const bool raw : {false, true}) {
    options.raw = raw;
    Loader loader(data, options);
    loader.start(0);
    const Batch batch = loader.next();
    EXPECT_TRUE(batch.inputs.is_pinned() && batch.labels.is_pinned());
    EXPECT_EQ(batch.is_raw(), raw);
    EXPECT_TRUE(!raw || (batch.placements.is_pinned() && batch.values.is_pinned()));
  }
}

// Of one of many calls.
double milliseconds(at::Device device, const std::function<void()>& act) {
  constexpr int kTimes = 20;
  const auto wait = [&] { at::zeros({1}, at::TensorOptions(at::kFloat).device(device)).item(); };
  act();
  wait();
  const auto begin = Clock::now();
  for (int i = 0; i < kTimes; ++i) act();
  wait();
  return since(begin).count() * 1e3 / kTimes;
}

// Prints what an ImageNet batch takes, raw and as floats.
TEST_F(GpuInput, OfRawImagesIsPlacedQuickly) {
  constexpr int kImages = 256;
  const auto data = open_data("synthetic:train=256,size=224,noise=0").train;
  LoaderOptions options = options_for(data, Augment::kCropFlip, kImages);
  options.pinned = true;
  options.raw = true;
  Loader loader(data, options);
  loader.start(0);
  const Batch host = loader.next();
  const Batch there{.inputs = host.inputs.to(device_),
                    .labels = host.labels.to(device_),
                    .placements = host.placements.to(device_),
                    .values = host.values.to(device_)};
  const at::Tensor inputs = at::empty(host.inputs.sizes(), there.values.options());
  const at::Tensor floats =
      at::empty(host.inputs.sizes(), at::TensorOptions(at::kFloat).pinned_memory(true));
  const double copy =
      milliseconds(device_, [&] { there.inputs.copy_(host.inputs, /*non_blocking=*/true); });
  const double copy_floats =
      milliseconds(device_, [&] { inputs.copy_(floats, /*non_blocking=*/true); });
  const double place =
      milliseconds(device_, [&] { place_images(there, inputs, kernels_of(inputs)); });
  fmt::print(
      "256 images of 224x224: copying bytes {:.3f} ms, floats {:.3f} ms; placing {:.3f} ms\n", copy,
      copy_floats, place);
  EXPECT_LT(copy + place, copy_floats);
}

}  // namespace
}  // namespace daso
