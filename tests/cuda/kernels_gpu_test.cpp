// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels against the CPU's plain ones, bit by bit. With DASO_GPU_TEST_SMALL set no array
// is large, so that the tools which watch every access to memory end in time.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <random>

#include "daso/base/error.h"
#include "daso/kernels/digest.h"
#include "daso/kernels/merge.h"
#include "daso/kernels/norm.h"
#include "daso/optim/gradients.h"
#include "daso/optim/optimizer.h"
#include "daso/tensor/device.h"
#include "daso/tensor/flat_values.h"
#include "daso/tensor/large_tensor.h"
#include "kernels/numbers.h"
#include "optim/bag.h"

namespace daso {
namespace {

using test::Floats;
using test::kAllWires;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMost = std::numeric_limits<float>::max();

bool only_small() { return std::getenv("DASO_GPU_TEST_SMALL") != nullptr; }

// One block, less than a group's worth, several groups, and more than one for each warp of a GPU.
std::vector<std::int64_t> numbers_of_blocks(Wire wire) {
  std::vector<std::int64_t> all = {1, 3, 37, 1001};
  if (only_small()) return all;
  if (wire == Wire::kInt8) all.push_back(100'001);  // 25.6 million parameters
  if (wire == Wire::kFp32 || wire == Wire::kQsgd7) all.push_back(70'003);
  return all;
}

std::vector<std::int64_t> numbers_of_elements() {
  std::vector<std::int64_t> all = {1, 2, 5, 63, 64, 65, 255, 1003, 4095, 4096, 4097, 50'003};
  if (!only_small()) all.push_back(25'600'001);
  return all;
}

at::Tensor tensor_of(const Floats& values) {
  return at::tensor(at::ArrayRef<float>(values), at::kFloat);
}

// Large arrays repeat what is hard: making random numbers takes longer than testing them.
at::Tensor hard(std::int64_t elements, float largest, unsigned seed) {
  constexpr std::int64_t kSome = 64 * 256 + 64;  // no multiple of a block
  std::mt19937 random(seed);
  const at::Tensor some =
      tensor_of(test::hard_numbers(64 * kBlockElements, largest, random)).slice(0, 0, kSome);
  return some.repeat({elements / some.size(0) + 1}).slice(0, 0, elements).contiguous();
}

at::Tensor normal(std::int64_t elements, unsigned seed) {
  constexpr std::int64_t kSome = 100'003;
  std::mt19937 random(seed);
  const at::Tensor some = tensor_of(test::normal_numbers(kSome, 1, random));
  return some.repeat({elements / kSome + 1}).slice(0, 0, elements).contiguous();
}

at::Tensor encoded_room(Wire wire, std::int64_t elements) {
  const std::size_t size = encoded_bytes(wire, static_cast<std::size_t>(elements));
  return at::zeros({static_cast<std::int64_t>(size)}, at::kByte);
}

// -0 is not 0, and NaN is itself.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a.cpu().contiguous();
  const at::Tensor right = b.cpu().contiguous();
  return left.nbytes() == right.nbytes() &&
         std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

const float* values_in(const at::Tensor& tensor) { return tensor.const_data_ptr<float>(); }

class CudaKernels : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = find_device(parse_device("cuda"), 0).device;
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
    gpu_ = &device_module().kernels();
  }

  at::Tensor there(const at::Tensor& tensor) const { return tensor.to(device_); }

  at::Device device_ = at::kCPU;
  const Kernels* gpu_ = nullptr;
  const Kernels& cpu_ = cpu_kernels(InstructionSet::kScalar);
};

// What a table makes of a difference, and what it makes of that again.
struct Coded {
  at::Tensor encoded;
  at::Tensor values;
  int overflow = 0;
};

Coded coded_by(const Kernels& kernels, Wire wire, const at::Tensor& values,
               const at::Tensor& anchor) {
  const at::Tensor encoded = encoded_room(wire, values.numel()).to(values.device());
  const at::Tensor decoded = at::zeros_like(values);
  const at::Tensor overflow = clear_flag(values);
  const std::size_t blocks = floats(values).size() / kBlockElements;
  kernels.of(wire).encode({.values = values_in(values),
                           .anchor = values_in(anchor),
                           .encoded = bytes(encoded).data(),
                           .blocks = blocks,
                           .draws = {.key = 9, .first_block = 4},
                           .overflow = static_cast<std::uint32_t*>(overflow.mutable_data_ptr())});
  kernels.of(wire).decode({bytes(encoded).data(), floats(decoded).data(), blocks});
  return {encoded, decoded, overflow.item<int>()};
}

TEST_F(CudaKernels, EncodeAndDecodeLikeTheCpu) {
  for (const Wire wire : kAllWires) {
    for (const std::int64_t blocks : numbers_of_blocks(wire)) {
      for (const float largest : {1.0F, 30'000.0F, 0x1p-120F}) {
        const at::Tensor values = hard(256 * blocks, largest, 1);
        const at::Tensor anchor = hard(256 * blocks, largest, 2);
        const Coded expected = coded_by(cpu_, wire, values, anchor);
        const Coded found = coded_by(*gpu_, wire, there(values), there(anchor));
        ASSERT_EQ(found.overflow, expected.overflow);
        ASSERT_EQ(found.overflow, 0);
        ASSERT_TRUE(same_bits(found.encoded, expected.encoded)) << name_of(wire) << " " << blocks;
        ASSERT_TRUE(same_bits(found.values, expected.values)) << name_of(wire) << " " << blocks;
      }
    }
  }
}

// Quotients between two levels, and on them.
TEST_F(CudaKernels, RoundTiesLikeTheCpu) {
  const at::Tensor halves = at::arange(512, at::kFloat).remainder(255).sub(127).div(2);
  for (const Wire wire : kAllWires) {
    for (const float levels : {1.0F, 3.0F, 7.0F, 15.0F, 31.0F, 63.0F, 127.0F}) {
      const at::Tensor values = halves.clamp(-levels, levels);
      values[0] = levels;
      values[256] = -levels;
      const at::Tensor zeros = at::zeros_like(values);
      const Coded expected = coded_by(cpu_, wire, values, zeros);
      const Coded found = coded_by(*gpu_, wire, there(values), there(zeros));
      ASSERT_TRUE(same_bits(found.encoded, expected.encoded)) << name_of(wire) << " " << levels;
    }
  }
}

TEST_F(CudaKernels, RefuseWhatTheCpuRefuses) {
  for (const Wire wire : kAllWires) {
    const float largest = largest_on(wire);
    for (const float value : {kNan, -kNan, kInfinity, -kInfinity, kMost, -kMost, largest, -largest,
                              std::nextafter(largest, 0.0F), std::nextafter(largest, kInfinity)}) {
      for (const std::int64_t place : {0, 255, 256, 700, 1279}) {
        const at::Tensor values = at::ones({1280});
        values[place] = value;
        const at::Tensor zeros = at::zeros({1280});
        const Coded expected = coded_by(cpu_, wire, values, zeros);
        const Coded found = coded_by(*gpu_, wire, there(values), there(zeros));
        ASSERT_EQ(found.overflow, expected.overflow) << name_of(wire) << " " << value;
        if (found.overflow != 0) continue;
        ASSERT_TRUE(same_bits(found.encoded, expected.encoded));
      }
    }
  }
}

struct Averaged {
  at::Tensor back;
  at::Tensor residual;
  int overflow = 0;
};

Averaged averaged_by(const Kernels& kernels, Wire wire, const std::vector<at::Tensor>& sent,
                     const at::Tensor& residual) {
  Averaged result{at::zeros_like(sent[0]), residual.clone()};
  const at::Tensor overflow = clear_flag(residual);
  std::vector<kernels::EncodedTerm> terms;
  float weight = 0.5F;
  for (const at::Tensor& one : sent) terms.push_back({bytes(one).data(), weight *= 0.7F});
  kernels.of(wire).average({.terms = terms.data(),
                            .number_of_terms = terms.size(),
                            .residual = floats(result.residual).data(),
                            .back = bytes(result.back).data(),
                            .blocks = floats(residual).size() / kBlockElements,
                            .draws = {.key = 3, .first_block = 1},
                            .overflow = static_cast<std::uint32_t*>(overflow.mutable_data_ptr())});
  result.overflow = overflow.item<int>();
  return result;
}

TEST_F(CudaKernels, AverageLikeTheCpu) {
  for (const Wire wire : kAllWires) {
    for (const std::int64_t blocks : numbers_of_blocks(wire)) {
      std::vector<at::Tensor> sent;
      std::vector<at::Tensor> sent_there;
      for (unsigned node = 0; node < 3; ++node) {
        const at::Tensor values = hard(256 * blocks, 1000, node);
        sent.push_back(coded_by(cpu_, wire, values, at::zeros_like(values)).encoded);
        sent_there.push_back(there(sent.back()));
      }
      const at::Tensor residual = hard(256 * blocks, 0.1F, 7);
      const Averaged expected = averaged_by(cpu_, wire, sent, residual);
      const Averaged found = averaged_by(*gpu_, wire, sent_there, there(residual));
      ASSERT_EQ(found.overflow, 0);
      ASSERT_TRUE(same_bits(found.back, expected.back)) << name_of(wire) << " " << blocks;
      ASSERT_TRUE(same_bits(found.residual, expected.residual)) << name_of(wire) << " " << blocks;
    }
    const at::Tensor residual = at::zeros({512});
    const std::vector<at::Tensor> sent = {encoded_room(wire, 512)};
    const std::vector<at::Tensor> sent_there = {there(sent[0])};
    residual[300] = kNan;
    EXPECT_EQ(averaged_by(*gpu_, wire, sent_there, there(residual)).overflow, 1);
  }
}

struct MergeCase {
  at::Tensor own;
  at::Tensor back;
  at::Tensor parameters;
  at::Tensor anchor;
  at::Tensor sent;
};

// Parameters and anchor afterwards.
std::vector<at::Tensor> merged_by(const Kernels& kernels, Wire wire, const MergeCase& one,
                                  bool paper, bool keeps_anchor) {
  const at::Tensor parameters = one.parameters.clone();
  const at::Tensor anchor = one.anchor.clone();
  const Merge merge{.wire = wire,
                    .own = bytes(one.own),
                    .back = bytes(one.back),
                    .parameters = floats(parameters),
                    .anchor = keeps_anchor ? floats(anchor) : std::span<float>()};
  if (paper) {
    merge_paper(merge, {.sent = floats(one.sent), .staleness = 3, .peers = 5}, kernels);
  } else {
    merge_corrected(merge, kernels);
  }
  return {parameters, anchor};
}

TEST_F(CudaKernels, MergeLikeTheCpu) {
  for (const Wire wire : kAllWires) {
    for (const std::int64_t blocks : numbers_of_blocks(wire)) {
      const at::Tensor own = hard(256 * blocks, 1, 1);
      const at::Tensor back = hard(256 * blocks, 1, 2);
      const at::Tensor zeros = at::zeros_like(own);
      const MergeCase here{coded_by(cpu_, wire, own, zeros).encoded,
                           coded_by(cpu_, wire, back, zeros).encoded, hard(256 * blocks, 1, 3),
                           hard(256 * blocks, 1, 4), hard(256 * blocks, 1, 5)};
      const MergeCase gpu{there(here.own), there(here.back), there(here.parameters),
                          there(here.anchor), there(here.sent)};
      for (const bool paper : {false, true}) {
        for (const bool keeps_anchor : {false, true}) {
          const auto expected = merged_by(cpu_, wire, here, paper, keeps_anchor);
          const auto found = merged_by(*gpu_, wire, gpu, paper, keeps_anchor);
          ASSERT_TRUE(same_bits(found[0], expected[0])) << name_of(wire) << " " << blocks << paper;
          ASSERT_TRUE(same_bits(found[1], expected[1])) << name_of(wire) << " " << blocks << paper;
        }
      }
      const at::Tensor distance_there = at::zeros({1}, gpu.anchor.options().dtype(at::kDouble));
      distance_into(wire, gpu.own, gpu.back, distance_there);
      const double expected = distance(wire, bytes(here.own), bytes(here.back), cpu_);
      EXPECT_NEAR(distance_there.item<double>(), expected, 1e-12 * expected) << name_of(wire);
    }
  }
}

// The mean, what the residual becomes, and the flag.
std::vector<at::Tensor> mean_by(const Kernels& kernels, const at::Tensor& values,
                                std::int64_t elements, std::int64_t offset, float divisor) {
  const at::Tensor all = values.clone();  // the mean replaces the first term
  const at::Tensor residual = all.slice(0, 3 * elements + offset, 4 * elements + offset);
  const at::Tensor overflow = clear_flag(values);
  std::vector<kernels::MeanTerm> terms;
  for (std::int64_t n = 0; n < 3; ++n) {
    const float weight = divisor == 1 ? 0.3F + 0.1F * static_cast<float>(n) : 1;
    terms.push_back({values_in(all) + n * elements + offset, weight});
  }
  kernels.mean({.terms = terms.data(),
                .number_of_terms = terms.size(),
                .divisor = divisor,
                .residual = divisor == 1 ? residual.mutable_data_ptr<float>() : nullptr,
                .mean = all.mutable_data_ptr<float>() + offset,
                .elements = static_cast<std::size_t>(elements),
                .overflow = static_cast<std::uint32_t*>(overflow.mutable_data_ptr())});
  return {all, overflow};
}

TEST_F(CudaKernels, MeansAreThoseOfTheCpuWhereverTheyLie) {
  for (const std::int64_t elements : numbers_of_elements()) {
    for (const std::int64_t offset : {0, 1}) {
      for (const float divisor : {1.0F, 3.0F}) {
        const at::Tensor values = hard(4 * elements + 2, 1e30F, 3);
        const auto expected = mean_by(cpu_, values, elements, offset, divisor);
        const auto found = mean_by(*gpu_, there(values), elements, offset, divisor);
        ASSERT_TRUE(same_bits(found[0], expected[0])) << elements << " " << offset;
        ASSERT_EQ(found[1].item<int>(), expected[1].item<int>());
      }
    }
  }
  const at::Tensor bad = at::zeros({400});
  bad[130] = kInfinity;
  EXPECT_EQ(mean_by(*gpu_, there(bad), 100, 0, 3)[1].item<int>(), 1);
}

TEST_F(CudaKernels, DigestsAreThoseOfTheCpuWhereverTheyBegin) {
  for (const std::int64_t elements : numbers_of_elements()) {
    const at::Tensor values = hard(elements + 3, 1, 4);
    const at::Tensor values_there = there(values);
    for (const std::int64_t offset : {0, 1, 2}) {
      const at::Tensor part = values.slice(0, offset, offset + elements);
      const at::Tensor part_there = values_there.slice(0, offset, offset + elements);
      ASSERT_EQ(static_cast<std::uint64_t>(digest(part_there)), digest_of(floats(part), cpu_))
          << elements << " " << offset;
    }
  }
  EXPECT_EQ(digest(there(at::empty({0}))), digest(at::empty({0})));
}

TEST_F(CudaKernels, WhatIsNotFiniteIsFound) {
  for (const std::int64_t elements : {1, 5, 1003, 50'003}) {
    const at::Tensor values = there(normal(elements + 1, 5)).slice(0, 1);
    EXPECT_TRUE(all_finite(values));
    for (const std::int64_t place : {std::int64_t{0}, elements / 2, elements - 1}) {
      for (const float bad : {kNan, kInfinity, -kInfinity}) {
        const at::Tensor changed = values.clone();
        changed[place] = bad;
        EXPECT_FALSE(all_finite(changed)) << elements << " " << place;
      }
    }
  }
}

double sum_of_squares(const Kernels& kernels, const at::Tensor& values) {
  const at::Tensor sum = at::zeros({1}, values.options().dtype(at::kDouble));
  kernels.squares({.first = values_in(values),
                   .second = nullptr,
                   .elements = floats(values).size(),
                   .first_sum = sum.mutable_data_ptr<double>(),
                   .second_sum = nullptr});
  return sum.item<double>();
}

TEST_F(CudaKernels, SumsOfSquaresAreNearAndAlwaysTheSame) {
  for (const std::int64_t elements : numbers_of_elements()) {
    const at::Tensor values = normal(elements + 1, 6).slice(0, 1).contiguous();
    const at::Tensor values_there = there(values);
    const double expected = sum_of_squares(cpu_, values);
    const double found = sum_of_squares(*gpu_, values_there);
    EXPECT_NEAR(found, expected, 1e-12 * expected) << elements;
    for (int again = 0; again < 3; ++again) {
      EXPECT_EQ(sum_of_squares(*gpu_, values_there.clone()), found) << elements;
    }
    const at::Tensor odd = there(normal(elements + 1, 6)).slice(0, 1);
    EXPECT_NEAR(sum_of_squares(*gpu_, odd), expected, 1e-12 * expected) << elements;
  }
  EXPECT_EQ(sum_of_squares(*gpu_, there(at::empty({0}))), 0);
}

// Tensors of all kinds of sizes, so that runs begin anywhere; some do not adapt.
const Shapes kShapes = {{"a", {3, 7}}, {"b", {1}},        {"c", {130, 97}}, {"d", {13}},
                        {"e", {2, 2}}, {"f", {257, 256}}, {"g", {11}},      {"h", {5, 3, 3, 3}}};

struct Trained {
  at::Tensor parameters;
  std::vector<at::Tensor> moments;
};

// Three steps on gradients that are drawn on the CPU.
Trained trained_on(const at::Device& device, const OptimizerOptions& options,
                   std::optional<double> clip = std::nullopt) {
  const Bag bag(kShapes);
  for (const auto& [name, tensor] : bag.tensors) tensor.set_data(tensor.detach().to(device));
  FlatModel model(bag.module);
  const std::int64_t elements = model.elements();
  model.parameters().slice(0, 0, elements).copy_(normal(elements, 21));
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(model, options);
  for (unsigned step = 0; step < 3; ++step) {
    model.gradients().slice(0, 0, elements).copy_(normal(elements, 30 + step));
    if (clip) clip_by_norm(model, *clip);
    optimizer->step(0.1);
  }
  return {model.parameters().cpu(), optimizer->moments()};
}

TEST_F(CudaKernels, OptimizersOfOnePassGiveTheBitsOfTheCpu) {
  for (const OptimizerOptions& options : std::vector<OptimizerOptions>{
           {.name = "sgd"},
           {.name = "sgd", .weight_decay = 0.01, .decay_all = false, .momentum = 0.9},
           {.name = "sgd", .weight_decay = 0.01, .momentum = 0.9, .nesterov = true},
           {.name = "sgd", .weight_decay = 0.01, .no_decay = {"c", "g"}, .momentum = 0.5},
           {.name = "adamw", .weight_decay = 0.1},
           {.name = "adamw", .weight_decay = 0.1, .decay_all = false, .ema = 0.99}}) {
    const Trained expected = trained_on(at::kCPU, options);
    const Trained found = trained_on(device_, options);
    EXPECT_TRUE(same_bits(found.parameters, expected.parameters)) << options.name;
    ASSERT_EQ(found.moments.size(), expected.moments.size());
    for (std::size_t i = 0; i < found.moments.size(); ++i) {
      EXPECT_TRUE(same_bits(found.moments[i], expected.moments[i])) << options.name << i;
    }
  }
}

// Norms of the GPU differ from the CPU's in the last digits, and a rate may do so in its last bit.
TEST_F(CudaKernels, OptimizersByNormsAreNearAndAlwaysTheSame) {
  for (const OptimizerOptions& options : std::vector<OptimizerOptions>{
           {.name = "lars", .weight_decay = 0.01, .momentum = 0.9, .trust = 0.1},
           {.name = "lamb", .weight_decay = 0.1}}) {
    const Trained expected = trained_on(at::kCPU, options);
    const Trained found = trained_on(device_, options);
    EXPECT_TRUE(at::allclose(found.parameters, expected.parameters, 1e-6, 1e-6)) << options.name;
    for (int again = 0; again < 3; ++again) {
      EXPECT_TRUE(same_bits(trained_on(device_, options).parameters, found.parameters));
    }
  }
}

TEST_F(CudaKernels, ClipLikeTheCpu) {
  for (const double largest : {1e9, 1.0}) {
    const OptimizerOptions options{.name = "sgd"};
    const Trained expected = trained_on(at::kCPU, options, largest);
    const Trained found = trained_on(device_, options, largest);
    EXPECT_TRUE(at::allclose(found.parameters, expected.parameters, 1e-6, 1e-7)) << largest;
  }
}

}  // namespace
}  // namespace daso
