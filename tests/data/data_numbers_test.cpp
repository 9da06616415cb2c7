// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daso/base/random.h"
#include "daso/base/text.h"
#include "daso/data/dataset.h"
#include "daso/data/resample.h"
#include "daso/data/shard.h"

// Against the second program, data_numbers.py: the same bits on every machine.
namespace daso {
namespace {

using nlohmann::json;

json numbers() {
  std::ifstream file(DASO_DATA_NUMBERS);
  return json::parse(file);
}

TEST(DataNumbers, OrdersAreThoseOfTheSecondProgram) {
  const json orders = numbers().at("orders");
  ASSERT_GE(orders.size(), 4U);
  for (const json& one : orders) {
    const int examples = one.at("examples");
    const ShardOptions options{.examples = examples,
                               .ranks = 1,
                               .batch_size = examples,
                               .seed = one.at("seed").get<std::uint64_t>()};
    EXPECT_EQ(shard_of(options, one.at("epoch").get<int>(), 0),
              one.at("order").get<std::vector<std::int64_t>>());
  }
}

TEST(DataNumbers, ImagesAreThoseOfTheSecondProgram) {
  const json images = numbers().at("images");
  ASSERT_GE(images.size(), 4U);
  for (const json& one : images) {
    const Datasets data = open_data(one.at("data"));
    const Dataset& part = one.at("part") == "train" ? *data.train : *data.test;
    std::vector<float> image(static_cast<std::size_t>(part.shape().elements()));
    EXPECT_EQ(as_images(part).read(one.at("index"), image), one.at("label").get<int>());
    std::string bytes;
    for (const float value : image) {
      const auto byte = static_cast<unsigned char>(std::lround(value * 255));
      EXPECT_EQ(value, static_cast<float>(byte) / 255.0F);
      bytes.push_back(static_cast<char>(byte));
    }
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(static_cast<unsigned char>(bytes[i]), one.at("first")[i].get<int>());
    }
    EXPECT_EQ(digest(bytes), one.at("digest").get<std::string>());
  }
}

TEST(DataNumbers, CropsAreThoseOfTheSecondProgram) {
  const json drawn = numbers().at("crops");
  ASSERT_GE(drawn.size(), 4U);
  for (const json& one : drawn) {
    const auto seed = one.at("seed").get<std::uint64_t>();
    const json& crops = one.at("crops");
    ASSERT_GE(crops.size(), 6U);
    for (std::uint64_t number = 0; number < crops.size(); ++number) {
      const Rectangle crop =
          draw_crop(one.at("width"), one.at("height"), RandomStream{seed, number});
      const std::vector<int> found = {crop.left, crop.top, crop.width, crop.height};
      EXPECT_EQ(found, crops[number].get<std::vector<int>>()) << seed << " " << number;
    }
  }
}

}  // namespace
}  // namespace daso
