// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "daso/base/error.h"
#include "daso/data/stored_images.h"
#include "data/data_files.h"

namespace daso {
namespace {

using test::Bytes;
using test::read_file;
using test::refusal;
using test::write_file;

class Cifar : public test::DataFolder {
 protected:
  Cifar() { test::write_cifar_folder(folder_); }
  Datasets open() const { return open_data("cifar10:" + folder_.string()); }
};

void expect_good(const Datasets& data) {
  EXPECT_EQ(data.train->size(), 10);
  EXPECT_EQ(data.test->size(), 2);
  EXPECT_EQ(data.train->classes(), 10);
  EXPECT_EQ(data.train->shape(), (InputShape{.channels = 3, .height = 32, .width = 32}));
  std::vector<float> image(3072);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(as_images(*data.train).read(i, image), i);
    EXPECT_EQ(image[1030], static_cast<float>(1030 % 256) / 255.0F);
    EXPECT_EQ(image.back(), static_cast<float>(i) / 255.0F);
  }
  EXPECT_EQ(as_images(*data.test).read(1, image), 1);
  EXPECT_EQ(image.back(), 11 / 255.0F);
}

TEST_F(Cifar, IsReadAsItWasWritten) { expect_good(open()); }

TEST_F(Cifar, MayLieInTheFolderOfItsArchive) {
  const auto inner = folder_ / "cifar-10-batches-bin";
  std::filesystem::create_directory(inner);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.is_regular_file()) {
      std::filesystem::rename(entry.path(), inner / entry.path().filename());
    }
  }
  expect_good(open());
}

TEST_F(Cifar, HasTheNamesOfItsClassesWhereTheyAreListed) {
  EXPECT_TRUE(as_images(*open().train).class_names().empty());
  const auto list = [&](const std::string& text) {
    write_file(folder_ / "batches.meta.txt", Bytes(text.begin(), text.end()));
  };
  list("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(as_images(*open().test).class_names().back(), "j");
  list("a\nb\n");
  EXPECT_EQ(refusal([&] { open(); }),
            (folder_ / "batches.meta.txt").string() +
                ": has 2 names, and CIFAR-10 has 10 classes; correct the file or move it away");
}

TEST_F(Cifar, RefusesFilesThatAreCutOrEmpty) {
  const auto path = folder_ / "data_batch_3.bin";
  Bytes bytes = read_file(path);
  bytes.pop_back();
  write_file(path, bytes);
  EXPECT_EQ(refusal([&] { open(); }),
            path.string() +
                ": 6145 bytes, expected a multiple of 3073 (a label and 3x32x32 values); the file "
                "is truncated or not of CIFAR-10");
  write_file(path, {});
  EXPECT_NE(refusal([&] { open(); }).find(path.string() + ": 0 bytes"), std::string::npos);
}

TEST_F(Cifar, RefusesLabelsOutOfRange) {
  const auto path = folder_ / "test_batch.bin";
  Bytes bytes = read_file(path);
  bytes[3073] = 10;
  write_file(path, bytes);
  EXPECT_EQ(refusal([&] { open(); }),
            path.string() + ": label 10 of record 1 is out of range: CIFAR-10 has 0 ... 9");
}

TEST_F(Cifar, SaysWhatIsMissing) {
  std::filesystem::remove(folder_ / "data_batch_5.bin");
  EXPECT_NE(refusal([&] { open(); }).find("holds no data_batch_5.bin; found: data_batch_1.bin"),
            std::string::npos);
  write_file(folder_ / "data_batch_1", {1});
  EXPECT_NE(refusal([&] { open(); }).find("Python version"), std::string::npos);
  EXPECT_NE(refusal([] { open_data("cifar10:"); }).find("write cifar10:DIR"), std::string::npos);
}

class Cifar100 : public test::DataFolder {
 protected:
  Cifar100() { test::write_cifar100_folder(folder_); }
  Datasets open() const { return open_data("cifar100:" + folder_.string()); }
};

void expect_good_hundred(const Datasets& data) {
  EXPECT_EQ(data.train->size(), 6);
  EXPECT_EQ(data.test->size(), 2);
  EXPECT_EQ(data.train->classes(), 100);
  EXPECT_EQ(data.train->shape(), (InputShape{.channels = 3, .height = 32, .width = 32}));
  std::vector<float> image(3072);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(as_images(*data.train).read(i, image), 99 - i);  // the fine label
    EXPECT_EQ(image[0], 0.0F);
    EXPECT_EQ(image[1030], static_cast<float>(1030 % 256) / 255.0F);
    EXPECT_EQ(image.back(), static_cast<float>(i) / 255.0F);
  }
  EXPECT_EQ(as_images(*data.test).read(0, image), 0);
  EXPECT_EQ(as_images(*data.test).read(1, image), 99);
}

TEST_F(Cifar100, IsReadAsItWasWritten) { expect_good_hundred(open()); }

TEST_F(Cifar100, MayLieInTheFolderOfItsArchive) {
  const auto inner = folder_ / "cifar-100-binary";
  std::filesystem::create_directory(inner);
  for (const char* name : {"train.bin", "test.bin"}) {
    std::filesystem::rename(folder_ / name, inner / name);
  }
  expect_good_hundred(open());
}

TEST_F(Cifar100, RefusesWhatCannotBe) {
  const auto path = folder_ / "train.bin";
  const Bytes good = read_file(path);
  write_file(path, {good.begin(), good.end() - 1});
  EXPECT_EQ(refusal([&] { open(); }),
            path.string() +
                ": 18443 bytes, expected a multiple of 3074 (two labels and 3x32x32 values); the "
                "file is truncated or not of CIFAR-100");
  Bytes bytes = good;
  bytes[3075] = 100;  // the fine label of record 1
  write_file(path, bytes);
  EXPECT_EQ(refusal([&] { open(); }),
            path.string() + ": label 100 of record 1 is out of range: CIFAR-100 has 0 ... 99");
  write_file(path, good);
  write_file(folder_ / "train", {1});
  EXPECT_NE(refusal([&] { open(); }).find("Python version of CIFAR-100"), std::string::npos);
  std::filesystem::remove(folder_ / "train");
  std::filesystem::remove(folder_ / "test.bin");
  EXPECT_NE(refusal([&] { open(); }).find("holds no test.bin; found: train.bin"),
            std::string::npos);
}

}  // namespace
}  // namespace daso
