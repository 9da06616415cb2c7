// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "daso/base/error.h"
#include "daso/data/stored_images.h"
#include "data/data_files.h"

namespace daso {
namespace {

using test::Bytes;
using test::counting;
using test::gzip;
using test::idx;
using test::refusal;
using test::write_file;

class Idx : public test::DataFolder {
 protected:
  Idx() { test::write_idx_folder(folder_); }
  Datasets open() const { return open_data("idx:" + folder_.string()); }
  // What is said when a file has these bytes.
  std::string refused(const std::string& name, const Bytes& bytes) const {
    write_file(folder_ / name, bytes);
    std::string message = refusal([&] { open(); });
    EXPECT_NE(message.find((folder_ / name).string()), std::string::npos) << message;
    return message;
  }
};

bool says(const std::string& message, const std::string& part) {
  const bool there = message.find(part) != std::string::npos;
  if (!there) ADD_FAILURE() << "'" << message << "' does not say '" << part << "'";
  return there;
}

void expect_good_digits(const Datasets& data) {
  EXPECT_EQ(data.train->size(), 6);
  EXPECT_EQ(data.test->size(), 3);
  EXPECT_EQ(data.train->shape(), (InputShape{.channels = 1, .height = 4, .width = 5}));
  EXPECT_EQ(data.train->classes(), 3);
  EXPECT_EQ(data.test->classes(), 3);
  std::vector<float> image(20);
  EXPECT_EQ(as_images(*data.train).read(5, image), 2);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(image[static_cast<std::size_t>(i)], static_cast<float>(100 + i) / 255.0F);
  }
  EXPECT_EQ(as_images(*data.test).read(0, image), 2);
  EXPECT_EQ(image[19], 19 / 255.0F);
}

TEST_F(Idx, IsReadAsItWasWritten) { expect_good_digits(open()); }

TEST_F(Idx, MayBePacked) {
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(folder_);
  test::write_idx_folder(folder_, ".gz");
  expect_good_digits(open());
  // As two streams in a row, which gzip allows.
  const Bytes whole = idx({3}, {2, 1, 0});
  Bytes packed = gzip({whole.begin(), whole.begin() + 5});
  const Bytes rest = gzip({whole.begin() + 5, whole.end()});
  packed.insert(packed.end(), rest.begin(), rest.end());
  write_file(folder_ / "t10k-labels-idx1-ubyte.gz", packed);
  expect_good_digits(open());
}

TEST_F(Idx, MayHaveADotInItsNames) {
  for (const char* name : {"train-images", "t10k-images"}) {
    std::filesystem::rename(folder_ / (name + std::string("-idx3-ubyte")),
                            folder_ / (name + std::string(".idx3-ubyte")));
  }
  expect_good_digits(open());
}

TEST_F(Idx, MayHaveChannels) {
  write_file(folder_ / "train-images-idx3-ubyte", idx({6, 2, 3, 4}, counting(144)));
  write_file(folder_ / "t10k-images-idx3-ubyte", idx({3, 2, 3, 4}, counting(72)));
  EXPECT_EQ(open().test->shape(), (InputShape{.channels = 2, .height = 3, .width = 4}));
}

TEST_F(Idx, MayBeLargerThanOnePieceOfReading) {
  write_file(folder_ / "train-images-idx3-ubyte", idx({6, 1000, 500}, counting(3'000'000)));
  write_file(folder_ / "t10k-images-idx3-ubyte", idx({3, 1000, 500}, counting(1'500'000)));
  std::vector<float> image(500'000);
  as_images(*open().train).read(5, image);
  EXPECT_EQ(image.back(), ((3'000'000 - 1) % 256) / 255.0F);
}

TEST_F(Idx, RefusesAFolderThatIsNone) {
  const std::string here = folder_.string();
  says(refusal([] { open_data("idx"); }), "no folder is named");
  says(refusal([&] { open_data("idx:" + here + "/none"); }),
       here + "/none: there is no such folder");
  says(refusal([&] { open_data("idx:" + here + "/t10k-labels-idx1-ubyte"); }), "not a folder");
  std::filesystem::create_directory(folder_ / "empty");
  says(refusal([&] { open_data("idx:" + here + "/empty"); }), here + "/empty: the folder is empty");
}

TEST_F(Idx, SaysWhichFileIsMissingAndWhatIsThere) {
  std::filesystem::remove(folder_ / "t10k-labels-idx1-ubyte");
  const std::string message = refusal([&] { open(); });
  says(message, "holds no t10k-labels-idx1-ubyte or");
  says(message, "found: t10k-images-idx3-ubyte, train-images-idx3-ubyte");
}

TEST_F(Idx, RefusesAFolderInPlaceOfAFile) {
  std::filesystem::remove(folder_ / "t10k-labels-idx1-ubyte");
  std::filesystem::create_directory(folder_ / "t10k-labels-idx1-ubyte");
  says(refusal([&] { open(); }), "t10k-labels-idx1-ubyte: is a folder, not a file");
}

TEST_F(Idx, RefusesAWrongMagicNumber) {
  Bytes bytes = idx({6, 4, 5}, counting(120));
  bytes[2] = 9;  // signed bytes
  says(refused("train-images-idx3-ubyte", bytes),
       "wrong magic number 0x00000903, expected 0x00000803");
  says(refused("train-images-idx3-ubyte", idx({6}, {0, 1, 2, 0, 1, 2})), "0x00000801");
}

TEST_F(Idx, RefusesTruncatedFiles) {
  const Bytes whole = idx({6, 4, 5}, counting(120));
  says(refused("train-images-idx3-ubyte", {}), "ends after 0 bytes, the magic number");
  says(refused("train-images-idx3-ubyte", {whole.begin(), whole.begin() + 9}), "its header");
  says(refused("train-images-idx3-ubyte", {whole.begin(), whole.end() - 1}),
       "ends after 135 bytes, what its header promises would end at byte 136");
}

TEST_F(Idx, RefusesTrailingBytes) {
  says(refused("train-images-idx3-ubyte", idx({6, 4, 5}, counting(121))),
       "more than the 136 bytes that its header promises");
}

TEST_F(Idx, RefusesDimensionsThatCannotBe) {
  says(refused("train-images-idx3-ubyte", idx({6, 0, 5}, {})), "6 x 0 x 5: the file holds nothing");
  says(refused("train-images-idx3-ubyte", idx({0, 4, 5}, {})), "holds nothing");
  // Their product is 2^64 and more.
  says(refused("train-images-idx3-ubyte", idx({1U << 30, 1U << 30, 1U << 30}, {})), "too large");
  says(refused("train-images-idx3-ubyte", idx({6, 0xffffffff, 1}, {})), "too large");
  // Would need a terabyte if it were believed.
  says(refused("train-images-idx3-ubyte", idx({1U << 20, 1U << 10, 1U << 10}, {1, 2, 3})),
       "ends after 19 bytes");
}

TEST_F(Idx, RefusesPartsThatDoNotFitEachOther) {
  says(refused("train-labels-idx1-ubyte", idx({5}, {0, 1, 2, 0, 1})), "5 labels");
  test::write_idx_folder(folder_);
  says(
      refused("t10k-images-idx3-ubyte", idx({3, 5, 4}, counting(60))),
      "images of 1x5x4, those of " + (folder_ / "train-images-idx3-ubyte").string() + " are 1x4x5");
}

TEST_F(Idx, RefusesLabelsOutOfRange) {
  says(refused("t10k-labels-idx1-ubyte", idx({3}, {2, 3, 0})),
       "label 3 of example 1 is out of range");
  test::write_idx_folder(folder_);
  says(refused("train-labels-idx1-ubyte", idx({6}, {0, 0, 0, 0, 0, 0})), "all labels are 0");
}

TEST_F(Idx, RefusesDamagedGzip) {
  std::filesystem::remove(folder_ / "train-images-idx3-ubyte");
  const std::string name = "train-images-idx3-ubyte.gz";
  const Bytes plain = idx({6, 4, 5}, counting(120));
  const Bytes good = gzip(plain);
  says(refused(name, plain), "damaged gzip file");
  says(refused(name, {}), "truncated gzip file");
  says(refused(name, {good.begin(), good.end() - 1}), "truncated gzip file");
  Bytes damaged = good;
  damaged[damaged.size() - 8] ^= 1;  // of the checksum
  says(refused(name, damaged), "damaged gzip file (incorrect data check)");
  damaged = good;
  damaged.push_back(0);
  says(refused(name, damaged), "something else follows its end");
  says(refused(name, gzip(idx({6, 4, 5}, counting(121)))), "more than the 136 bytes");
  says(refused(name, gzip(idx({6, 4, 5}, counting(119)))), "ends after 135 bytes");
}

}  // namespace
}  // namespace daso
