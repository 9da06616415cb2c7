// SPDX-License-Identifier: Apache-2.0
#include "daso/data/image_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "daso/base/error.h"
#include "daso/data/loader.h"
#include "data/image_files.h"

namespace daso {
namespace {

namespace fs = std::filesystem;
using test::Bytes;
using test::image_of;
using test::read_file;
using test::refusal;
using test::write_file;
using Floats = std::vector<float>;

constexpr int kSize = 16;

class ImageFolders : public test::DataFolder {
 protected:
  ImageFolders() { test::write_image_folder(folder_); }
  Datasets open(const DataOptions& options = {}) const {
    return open_data("images:" + folder_.string() + ",size=16", options);
  }
  void expect_refusal(const std::string& said) const {
    const std::string message = refusal([&] { open(); });
    EXPECT_NE(message.find(said), std::string::npos) << message;
  }
};

Floats image_in(const Dataset& data, std::int64_t index) {
  Floats image(3 * kSize * kSize);
  as_images(data).read(index, image);
  return image;
}

// All of one colour, as class a and b are.
void expect_colour(const Floats& image, int label) {
  for (std::size_t i = 0; i < image.size(); ++i) {
    const std::size_t channel = i / (kSize * kSize);
    const bool bright = channel == (label == 0 ? 0U : 2U);
    ASSERT_NEAR(image[i], (bright ? 200 : 40) / 255.0, 2 / 255.0) << i;
  }
}

// Values as they are, 0 ... 1.
const Normalisation kAsTheyAre{.mean = {0, 0, 0}, .deviation = {1, 1, 1}};

TEST_F(ImageFolders, AreReadClassByClass) {
  const Datasets data = open();
  EXPECT_EQ(data.train->size(), 8);
  EXPECT_EQ(data.test->size(), 4);
  EXPECT_EQ(data.train->classes(), 2);
  EXPECT_EQ(as_images(*data.train).class_names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.test->shape(), (InputShape{.channels = 3, .height = kSize, .width = kSize}));
  for (std::int64_t i = 0; i < 8; ++i) {
    Floats image(3 * kSize * kSize);
    EXPECT_EQ(as_images(*data.train).read(i, image), i / 4);
    expect_colour(image, static_cast<int>(i / 4));
    EXPECT_EQ(as_images(*data.train).read_normalised(i, kAsTheyAre, RandomStream{1, 2}, image),
              i / 4);
    expect_colour(image, static_cast<int>(i / 4));
  }
  const Normalisation normalisation = normalisation_of(data.train);
  EXPECT_EQ(normalisation.mean, (Floats{0.485F, 0.456F, 0.406F}));
  EXPECT_EQ(normalisation.deviation, (Floats{0.229F, 0.224F, 0.225F}));
  EXPECT_EQ(open_data("images:" + folder_.string()).train->shape().width, 224);
}

TEST_F(ImageFolders, OfTheTestPartMayLieInTestAndLackAClass) {
  fs::rename(folder_ / "val", folder_ / "test");
  fs::remove_all(folder_ / "test" / "a");
  const Datasets data = open();
  ASSERT_EQ(data.test->size(), 2);
  EXPECT_EQ(data.test->classes(), 2);
  EXPECT_EQ(as_images(*data.test).class_names(), (std::vector<std::string>{"a", "b"}));
  Floats image(3 * kSize * kSize);
  EXPECT_EQ(as_images(*data.test).read(0, image), 1);
}

TEST_F(ImageFolders, AreThoseFilesWhoseNamesEndLikeIt) {
  write_file(folder_ / "train" / "a" / "notes.txt", {1});
  write_file(folder_ / "train" / "README", {1});
  fs::create_directory(folder_ / "train" / ".cache");
  write_png(folder_ / "train" / "a" / "UPPER.PNG",
            image_of(9, 9, [](int, int, int) { return 77; }));
  const Datasets data = open();
  EXPECT_EQ(data.train->size(), 9);
  EXPECT_EQ(data.train->classes(), 2);
  EXPECT_NEAR(image_in(*data.train, 0)[5], 77 / 255.0, 1e-6);  // U comes before i
}

TEST_F(ImageFolders, KeepAGradientLinear) {
  const int width = 300;
  const int height = 200;
  const fs::path png = folder_ / "val" / "a" / "0.png";
  write_png(png, test::gradient(width, height));
  const fs::path jpeg = folder_ / "val" / "a" / "1.jpg";
  write_jpeg(jpeg, test::gradient(width, height), {.quality = 98});
  const Datasets data = open();
  const ImageCut cut = centre_cut(width, height, kSize);
  EXPECT_EQ(shrink_for(cut, kSize), 8);  // so the JPEG is decoded at an eighth of its size
  for (const std::int64_t index : {0, 1}) {
    const Floats image = image_in(*data.test, index);
    const double tolerance = (index == 0 ? 2 : 4) / 255.0;  // a JPEG has errors of its own
    for (int y = 0; y < kSize; ++y) {
      for (int x = 0; x < kSize; ++x) {
        const double red = (cut.left + (x + 0.5) * cut.width / kSize - 0.5) / (width - 1);
        const double green = (cut.top + (y + 0.5) * cut.height / kSize - 0.5) / (height - 1);
        const auto at = static_cast<std::size_t>(y * kSize + x);
        ASSERT_NEAR(image[at], red, tolerance) << index;
        ASSERT_NEAR(image[kSize * kSize + at], green, tolerance) << index;
      }
    }
  }
}

TEST_F(ImageFolders, AreCroppedTheSameWayFromTheSameNumbers) {
  const fs::path png = folder_ / "train" / "a" / "0.png";
  write_png(png, test::gradient(120, 90));
  const Datasets data = open();
  const auto crop = [&](std::uint64_t seed) {
    Floats image(3 * kSize * kSize);
    as_images(*data.train).read_normalised(0, kAsTheyAre, RandomStream{seed}, image);
    return image;
  };
  EXPECT_EQ(crop(1), crop(1));
  EXPECT_NE(crop(1), crop(2));
  // The gradient tells where the crop was, and whether it is mirrored: as draw_cut() says.
  int mirrored = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const ImageCut expected = draw_cut(120, 90, RandomStream{seed});
    const Floats image = crop(seed);
    const double left = expected.left + 0.5 * expected.width / kSize - 0.5;
    const double right = expected.left + expected.width - 0.5 * expected.width / kSize - 0.5;
    EXPECT_NEAR(image[expected.mirrored ? kSize - 1 : 0], left / 119, 4 / 255.0);
    EXPECT_NEAR(image[expected.mirrored ? 0 : kSize - 1], right / 119, 4 / 255.0);
    mirrored += expected.mirrored ? 1 : 0;
  }
  EXPECT_TRUE(mirrored > 0 && mirrored < 20);
}

TEST_F(ImageFolders, AreNormalisedAsOtherDataIs) {
  write_png(folder_ / "train" / "a" / "0.png", test::gradient(120, 90));
  const Datasets data = open();
  const Normalisation normalisation = normalisation_of(data.train);
  for (const std::optional<RandomStream>& random :
       {std::optional<RandomStream>(), std::optional<RandomStream>(RandomStream{3})}) {
    Floats expected(3 * kSize * kSize);
    as_images(*data.train).read_normalised(0, kAsTheyAre, random, expected);
    normalise(normalisation, expected);
    Floats image(3 * kSize * kSize);
    as_images(*data.train).read_normalised(0, normalisation, random, image);
    EXPECT_EQ(image, expected);
  }
}

// A file damaged near its end: crops of its upper part do not meet that, before and after one that
// does.
TEST_F(ImageFolders, ShowTheSameFromTheSameNumbersWhateverWasMetBefore) {
  const fs::path file = folder_ / "train" / "a" / "0.jpg";
  write_jpeg(file, image_of(160, 160, [](int x, int y, int) { return (x * 37 + y * y) % 256; }),
             {.quality = 90});
  Bytes bytes = read_file(file);
  bytes[bytes.size() * 9 / 10] = 0xff;  // an end of the image, and there is more behind it
  bytes[bytes.size() * 9 / 10 + 1] = 0xd9;
  write_file(file, bytes);
  const auto seed_of = [](int top, int bottom) {  // whose crop ends between these rows
    for (std::uint64_t seed = 1;; ++seed) {
      const int end = draw_cut(160, 160, RandomStream{seed}).within.bottom();
      if (end >= top && end <= bottom) return seed;
    }
  };
  const Datasets data = open({.skip_bad_images = true});
  const auto crop = [&](std::uint64_t seed) {
    Floats image(3 * kSize * kSize);
    as_images(*data.train).read_normalised(0, kAsTheyAre, RandomStream{seed}, image);
    return image;
  };
  testing::internal::CaptureStderr();
  const Floats upper = crop(seed_of(40, 80));
  EXPECT_EQ(data.train->bad_files(), 0);
  expect_colour(crop(seed_of(158, 160)), 0);  // the next of its class
  EXPECT_EQ(data.train->bad_files(), 1);
  EXPECT_EQ(crop(seed_of(40, 80)), upper);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("0.jpg"), std::string::npos);
}

TEST_F(ImageFolders, GoThroughALoaderWithCropsOfTheirOwn) {
  const auto data = open().train;
  LoaderOptions options{.shard = {.examples = 8, .ranks = 1, .batch_size = 4, .seed = 1},
                        .threads = 2,
                        .augment = Augment::kResizedCropFlip,
                        .limit = Seconds(60)};
  Loader loader(data, options);
  loader.start(0);
  for (int i = 0; i < 2; ++i) {
    const Batch batch = loader.next();
    EXPECT_EQ(batch.inputs.sizes(), (std::vector<std::int64_t>{4, 3, kSize, kSize}));
    for (std::int64_t example = 0; example < 4; ++example) {
      const std::int64_t bright = batch.labels[example].item<std::int64_t>() == 0 ? 0 : 2;
      EXPECT_NEAR(batch.inputs[example][bright].mean().item<float>(), 200 / 255.0, 0.01);
    }
  }
  const auto others = open_data("synthetic:train=8,test=1").train;
  EXPECT_THROW(Loader(others, options), ConfigError);
}

TEST_F(ImageFolders, RefusesFoldersThatCannotBe) {
  EXPECT_NE(refusal([] { open_data("images:"); }).find("write images:DIR"), std::string::npos);
  EXPECT_NE(refusal([&] {
              open_data("images:" + folder_.string() + ",sise=8");
            }).find("did you mean 'size'?"),
            std::string::npos);
  fs::create_directory(folder_ / "train" / "c");
  expect_refusal((folder_ / "train" / "c").string() + ": holds no images (files that end in .jpg");
  fs::remove(folder_ / "train" / "c");
  fs::create_directory(folder_ / "val" / "c");
  expect_refusal((folder_ / "val" / "c").string() + ": a class that the images to train with");
  fs::remove_all(folder_ / "val");
  expect_refusal("holds no val or test; found: train");
  fs::remove_all(folder_ / "train" / "b");
  fs::create_directory(folder_ / "val");
  expect_refusal("holds 1 folders");
}

TEST_F(ImageFolders, ThatAreDamagedAreNamed) {
  const fs::path jpeg = folder_ / "train" / "a" / "image0.JPEG";
  const Bytes good = read_file(jpeg);
  const Datasets data = open();
  const auto said = [&] { return refusal([&] { image_in(*data.train, 0); }); };
  write_file(jpeg, {good.begin(), good.end() - 40});
  const std::string hint = "; --skip-bad-images takes another of its class instead";
  EXPECT_EQ(said().find(jpeg.string() + ": damaged JPEG image: "), 0U);
  EXPECT_TRUE(said().ends_with(hint)) << said();
  const std::string text = "not an image";
  write_file(jpeg, {text.begin(), text.end()});
  EXPECT_EQ(said(), jpeg.string() + ": neither a JPEG nor a PNG image" + hint);
  fs::remove(jpeg);
  EXPECT_EQ(said(), jpeg.string() + ": there is no such file" + hint);
  EXPECT_EQ(data.train->bad_files(), 0);
}

TEST_F(ImageFolders, ThatAreDamagedMayBeSkipped) {
  // b's images are of several grays, so that they can be told apart.
  for (int i = 0; i < 4; ++i) {
    const fs::path file = folder_ / "train" / "b" / ("image" + std::to_string(i));
    fs::remove(file.string() + (i % 2 == 0 ? ".JPEG" : ".png"));
    write_png(file.string() + ".png", image_of(20, 20, [=](int, int, int) { return 50 * i; }));
  }
  const auto gray = [&](const Dataset& data, std::int64_t index) {
    return std::lround(255 * image_in(data, index)[0]);
  };
  for (const int bad : {0, 3}) {
    write_file(folder_ / "train" / "b" / ("image" + std::to_string(bad) + ".png"), {1, 2, 3});
  }
  const Datasets data = open({.skip_bad_images = true});
  testing::internal::CaptureStderr();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(gray(*data.train, 4), 50);
    EXPECT_EQ(gray(*data.train, 5), 50);
    EXPECT_EQ(gray(*data.train, 6), 100);
    EXPECT_EQ(gray(*data.train, 7), 50);  // the next but one after the last is the second
    expect_colour(image_in(*data.train, 0), 0);
  }
  const std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_EQ(data.train->bad_files(), 2);
  EXPECT_EQ(data.test->bad_files(), 0);
  for (const char* name : {"image0.png", "image3.png"}) {  // once each
    const std::size_t first = warnings.find(name);
    ASSERT_NE(first, std::string::npos) << warnings;
    EXPECT_EQ(warnings.find(name, first + 1), std::string::npos) << warnings;
  }
  for (const int i : {1, 2}) {
    write_file(folder_ / "train" / "b" / ("image" + std::to_string(i) + ".png"), {1, 2, 3});
  }
  testing::internal::CaptureStderr();
  EXPECT_EQ(refusal([&] { image_in(*data.train, 5); }),
            (folder_ / "train" / "b").string() + ": none of its 4 images can be read");
  testing::internal::GetCapturedStderr();
}

TEST_F(ImageFolders, AloneCanBeSkipped) {
  const std::string message = refusal([] { open_data("synthetic", {.skip_bad_images = true}); });
  EXPECT_NE(message.find("--skip-bad-images changes nothing here"), std::string::npos);
}

}  // namespace
}  // namespace daso
