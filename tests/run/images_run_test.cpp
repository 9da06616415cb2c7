// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "daso/base/error.h"
#include "data/image_files.h"
#include "runs.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;

Settings image_run(const fs::path& images, const fs::path& out) {
  Settings options = small_run(out);
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
  Settings options = image_run(images.path(), out.path());
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

// By the order of the names, what was class 0 would be class 1.
TEST(ImageRun, GoesOnWithTheClassesThatItHadOnly) {
  const ScratchFolder images;
  const ScratchFolder out;
  write_image_folder(images.path(), /*train=*/8);
  Settings options = image_run(images.path(), out.path());
  options.epochs = 1;
  train(options);
  options.epochs = 2;
  options.resume = true;
  for (const char* part : {"train", "val"}) {
    fs::rename(images.path() / part / "a", images.path() / part / "c");
  }
  try {
    train(options);
    ADD_FAILURE() << "nobody has noticed that the classes have other names";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("--data " + options.data + " has class 'b' where"));
    EXPECT_THAT(error.what(), testing::HasSubstr("was trained with 'a'"));
  }
  for (const char* part : {"train", "val"}) {
    fs::rename(images.path() / part / "c", images.path() / part / "a");
  }
  EXPECT_EQ(train(options)[0].epochs, 2);
}

}  // namespace
}  // namespace daso::test
