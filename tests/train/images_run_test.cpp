// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "daso/data/image_writer.h"
#include "runs.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;

// Two classes: 8 gray images of each to train with, 4 to test with.
void write_images(const fs::path& folder) {
  for (const char* part : {"train", "val"}) {
    for (const char* name : {"dark", "light"}) {
      fs::create_directories(folder / part / name);
      const RawImage image{.width = 12,
                           .height = 12,
                           .channels = 1,
                           .values = std::vector<std::uint8_t>(144, name[0] == 'd' ? 40 : 200)};
      for (int i = 0; i < (part[0] == 't' ? 8 : 4); ++i) {
        write_png(folder / part / name / fmt::format("{}.png", i), image);
      }
    }
  }
}

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
  write_images(images.path());
  std::ofstream(images.path() / "val" / "light" / "2.png") << "damaged";
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
  write_images(images.path());
  for (const Summary& summary : train(image_run(images.path(), out.path()))) {
    EXPECT_FALSE(summary.bad_images.has_value());
    EXPECT_EQ(text_of(summary).find("bad_images"), std::string::npos);
  }
}

}  // namespace
}  // namespace daso::test
