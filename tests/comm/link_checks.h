// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "daso/comm/communicator.h"
#include "daso/comm/node_link.h"

// What the operations of a NodeLink must come to, on every kind of link.
namespace daso::test {

inline constexpr Seconds kLimit{20};

// Element i of rank r's tensor. Small whole numbers, so that every sum is exact; the mean over n
// ranks is then (i % 97) + (n - 1) / 2 * (i % 5), rounded once by the division.
inline at::Tensor terms(std::int64_t elements, int rank) {
  const at::Tensor i = at::arange(elements);
  return (i.remainder(97) + rank * i.remainder(5)).to(at::kFloat);
}

inline at::Tensor mean_of_terms(std::int64_t elements, int ranks) {
  const at::Tensor i = at::arange(elements);
  const at::Tensor sum = ranks * i.remainder(97) + ranks * (ranks - 1) / 2 * i.remainder(5);
  return sum.to(at::kFloat) / static_cast<float>(ranks);
}

inline void expect_mean(NodeLink& link, std::int64_t elements, Slices slices,
                        at::Device device = at::Device(at::kCPU)) {
  const at::Tensor tensor = terms(elements, link.rank()).to(device);
  link.reduce(tensor, slices, kLimit);
  const int slice = link.rank() - slices.first;
  if (slice < 0 || slice >= slices.slices) return;
  const Segment own = segment_of(elements, slices.slices, slice);
  const at::Tensor mean = mean_of_terms(elements, link.size());
  const at::Tensor found = tensor.slice(0, own.begin, own.end).cpu();
  EXPECT_TRUE(at::equal(found, mean.slice(0, own.begin, own.end)))
      << elements << " elements, " << slices.slices << " slices from " << slices.first << ", rank "
      << link.rank() << " of " << link.size();
}

// What rank `owner` gathers from: bytes and floats alike hold these exactly.
inline std::int64_t mark_of(int owner, std::int64_t salt) { return 1 + (owner * 7 + salt) % 100; }

inline void expect_gathered(NodeLink& link, at::IntArrayRef shape, at::ScalarType type,
                            Slices slices, std::int64_t salt = 0,
                            at::Device device = at::Device(at::kCPU)) {
  const at::Tensor tensor = at::full(shape, mark_of(link.rank(), salt), type).to(device);
  const at::Tensor expected = at::empty(shape, type);
  const std::int64_t rows = expected.size(0);
  for (int slice = 0; slice < slices.slices; ++slice) {
    const Segment piece = segment_of(rows, slices.slices, slice);
    expected.slice(0, piece.begin, piece.end).fill_(mark_of(slices.first + slice, salt));
  }
  link.gather(tensor, slices, kLimit);
  EXPECT_TRUE(at::equal(tensor.cpu(), expected))
      << shape << " of " << c10::toString(type) << ", " << slices.slices << " slices from "
      << slices.first << ", rank " << link.rank() << " of " << link.size();
}

}  // namespace daso::test
