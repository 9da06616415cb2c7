// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "data/image_files.h"
#include "runs.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;

TrainOptions image_run(const fs::path& images, const fs::path& out) {
  TrainOptions options = small_run(out);
  options.data = "images:" + images.string() + ",size=8";
  options.augment = Augment::kResizedCropFlip;
  options.strategy = "sync";
  options.batch_size = 4;
  options.loader_threads = 2;
  return options;
}

TEST(ImageRun, CountsTheImagesThatWereSkipped) {
  const ScratchFolder images;
  const ScratchFolder out;
  write_image_folder(images.path(), /*train=*/8);
  std::ofstream(images.path() / "val" / "b" / "image2.JPEG") << "damaged";
  TrainOptions options = image_run(images.path(), out.path());
  options.skip_bad_images = true;
  // Of the test part every image is read by one rank.
  for (const Summary& summary : train(options)) {
    EXPECT_EQ(summary.bad_images, 1);
    EXPECT_EQ(summary.epochs, 3);
    EXPECT_NE(text_of(summary).find("\"bad_images\": 1"), std::string::npos);
  }
}

TEST(ImageRun, SaysNothingOfBadImagesWhereNoneMayBe) {
  const ScratchFolder images;
  const ScratchFolder out;
  write_image_folder(images.path(), /*train=*/8);
  for (const Summary& summary : train(image_run(images.path(), out.path()))) {
    EXPECT_FALSE(summary.bad_images.has_value());
    EXPECT_EQ(text_of(summary).find("bad_images"), std::string::npos);
  }
}

}  // namespace
}  // namespace daso::test
