// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "daso/base/error.h"
#include "daso/base/random.h"
#include "daso/data/dataset.h"
#include "data/data_files.h"

// Good files with random damage: each is either refused by a ConfigError that names the file, or
// read into examples that are what the interface promises.
namespace daso {
namespace {

namespace fs = std::filesystem;
using test::Bytes;

// Flips, cuts, doubles or overwrites a few bytes.
Bytes damaged(Bytes bytes, RandomStream& random) {
  for (std::uint64_t left = 1 + random.below(3); left > 0; --left) {
    const std::size_t at = random.below(bytes.size() + 1);
    // Half of the damage goes to the first bytes, where headers are.
    const std::size_t place =
        bytes.empty() ? 0 : (random.below(2) == 0 ? at : at % 16) % bytes.size();
    switch (bytes.empty() ? 0 : random.below(5)) {
      case 0:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(place), 1 + random.below(9),
                     static_cast<std::uint8_t>(random.next()));
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes[place] = static_cast<std::uint8_t>(random.next());
        break;
      case 3:
        bytes[place] = random.below(2) == 0 ? 0x00 : 0xff;
        break;
      default:
        bytes[place] ^= static_cast<std::uint8_t>(1U << random.below(8));
    }
  }
  return bytes;
}

void expect_sound(const Dataset& dataset) {
  ASSERT_GE(dataset.size(), 1);
  ASSERT_GE(dataset.shape().elements(), 1);
  std::vector<float> image(static_cast<std::size_t>(dataset.shape().elements()));
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const int label = as_images(dataset).read(i, image);
    ASSERT_TRUE(label >= 0 && label < dataset.classes());
    for (const float value : image) ASSERT_TRUE(value >= 0 && value <= 1);
  }
}

class Hostile : public test::DataFolder {
 protected:
  // How many of the variants were refused.
  int refused(const std::string& kind, int variants) {
    std::map<fs::path, Bytes> good;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      good[entry.path()] = test::read_file(entry.path());
    }
    RandomStream random{7, static_cast<std::uint64_t>(variants)};
    int count = 0;
    for (int variant = 0; variant < variants && !HasFailure(); ++variant) {
      const auto victim = std::next(good.begin(), static_cast<int>(random.below(good.size())));
      test::write_file(victim->first, damaged(victim->second, random));
      SCOPED_TRACE(testing::Message() << "variant " << variant << " of " << victim->first);
      try {
        const Datasets data = open_data(kind + ":" + folder_.string());
        expect_sound(*data.train);
        expect_sound(*data.test);
      } catch (const ConfigError& error) {
        ++count;
        EXPECT_NE(std::string(error.what()).find(folder_.string()), std::string::npos);
      }
      test::write_file(victim->first, victim->second);
    }
    return count;
  }
};

TEST_F(Hostile, IdxFilesAreRefusedOrSound) {
  test::write_idx_folder(folder_);
  const int count = refused("idx", 4000);
  EXPECT_TRUE(count > 2000 && count < 4000) << count;  // damage in values alone is no error
}

TEST_F(Hostile, PackedIdxFilesAreRefusedOrSound) {
  test::write_idx_folder(folder_, ".gz");
  EXPECT_GT(refused("idx", 4000), 3000);  // the checksum sees what the format does not
}

TEST_F(Hostile, CifarFilesAreRefusedOrSound) {
  test::write_cifar_folder(folder_);
  const int count = refused("cifar10", 2000);
  EXPECT_TRUE(count > 500 && count < 2000) << count;
}

TEST_F(Hostile, Cifar100FilesAreRefusedOrSound) {
  test::write_cifar100_folder(folder_);
  const int count = refused("cifar100", 2000);
  EXPECT_TRUE(count > 500 && count < 2000) << count;
}

TEST(HostileText, OfDataIsRefusedOrUnderstood) {
  RandomStream random{11};
  int count = 0;
  for (int variant = 0; variant < 3000; ++variant) {
    const std::string good = "synthetic:train=64,test=8,classes=3,size=8,noise=0.5,seed=3";
    const Bytes bytes = damaged({good.begin(), good.end()}, random);
    try {
      const Datasets data = open_data({bytes.begin(), bytes.end()});
      EXPECT_GE(data.train->size(), 1);
    } catch (const ConfigError&) {
      ++count;
    }
  }
  EXPECT_TRUE(count > 1500 && count < 3000) << count;
}

}  // namespace
}  // namespace daso
