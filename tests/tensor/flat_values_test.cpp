// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/flat_values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <stdexcept>

#include "daso/kernels/digest.h"
#include "daso/kernels/merge.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

at::Tensor some_values(std::int64_t elements) {
  return at::arange(elements, at::kFloat).remainder(17).sub(8).div(3);
}

TEST(FlatValues, EncodedAreWhatMergeEncodes) {
  const at::Tensor values = some_values(1024);
  const at::Tensor anchor = some_values(1024).flip(0).contiguous();
  const Draws draws{.key = 5, .first_block = 3};
  for (const Wire wire : {Wire::kFp32, Wire::kInt8, Wire::kQsgd3}) {
    const auto size = static_cast<std::int64_t>(encoded_bytes(wire, 1024));
    const at::Tensor encoded = at::zeros({size}, at::kByte);
    const at::Tensor expected = at::zeros({size}, at::kByte);
    const at::Tensor overflow = clear_flag(values);
    encode_into(wire, values, anchor, encoded, draws, overflow);
    ASSERT_TRUE(encode(wire, floats(values), floats(anchor), bytes(expected), draws));
    EXPECT_TRUE(at::equal(encoded, expected));
    EXPECT_EQ(overflow.item<int>(), 0);
  }
}

TEST(FlatValues, AFlagStaysSet) {
  const at::Tensor good = some_values(512);
  const at::Tensor bad = good.clone();
  bad[300] = kInfinity;
  const at::Tensor zeros = at::zeros({512});
  const at::Tensor encoded = at::zeros({520}, at::kByte);
  const at::Tensor overflow = clear_flag(good);
  encode_into(Wire::kInt8, bad, zeros, encoded, {}, overflow);
  encode_into(Wire::kInt8, good, zeros, encoded, {}, overflow);
  check_finite_into(good, overflow);
  EXPECT_EQ(overflow.item<int>(), 1);
  EXPECT_TRUE(all_finite(good));
  EXPECT_FALSE(all_finite(bad));
}

TEST(FlatValues, DigestIsThatOfTheValues) {
  const at::Tensor values = some_values(5000);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(digest(values)), digest_of(floats(values)));
  const at::Tensor two = at::zeros({2}, at::kLong);
  digest_into(values, two[1]);
  EXPECT_EQ(two[0].item<std::int64_t>(), 0);
  EXPECT_EQ(two[1].item<std::int64_t>(), digest(values));
}

TEST(FlatValues, DistanceIsThatOfTheEncoded) {
  const at::Tensor own = some_values(768);
  const at::Tensor back = own + 2;
  const at::Tensor into = at::zeros({1}, at::kDouble);
  distance_into(Wire::kFp32, own, back, into);
  EXPECT_EQ(into.item<double>(), distance(Wire::kFp32, bytes(own), bytes(back)));
  EXPECT_NEAR(into.item<double>(), 2, 1e-6);
  const at::Tensor none = at::empty({0});
  distance_into(Wire::kFp32, none, none, into);
  EXPECT_EQ(into.item<double>(), 0);
}

TEST(FlatValues, ResultsOfAnotherTypeAreABug) {
  const at::Tensor values = some_values(256);
  EXPECT_THROW(digest_into(values, at::zeros({1}, at::kDouble)), std::logic_error);
  EXPECT_THROW(digest_into(values, at::zeros({2}, at::kLong)), std::logic_error);
  EXPECT_THROW(check_finite_into(values, at::zeros({1}, at::kLong)), std::logic_error);
}

}  // namespace
}  // namespace daso
