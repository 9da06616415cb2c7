// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "daso/kernels/kernels.h"
#include "daso/kernels/wire.h"

// The arithmetic of an exchange (algorithm.md 3, 4 and 6): what a node sends, what the owner of a
// segment does with what the nodes sent, and what everybody does with the answer. Each is one pass
// over memory, and each product, sum and quotient is rounded to fp32 by itself, in the order
// written here, so all ranks and all tables get the same bits. Segments are whole blocks (wire.h).
// Functions that return a value are for the CPU's tables; tensor/flat_values.h has others.
namespace daso {

// Encodes the difference values - anchor, rounded to fp32, in one pass. False if an element of it
// is not finite, or would not be on this wire (fp16: above 65504; others: where rounding leaves
// fp32's range); `encoded` then holds nothing of use.
[[nodiscard]] bool encode(Wire wire, std::span<const float> values, std::span<const float> anchor,
                          std::span<std::byte> encoded, const Draws& draws = {},
                          const Kernels& kernels = cpu_kernels());

// The first element of values - anchor on account of which encode() says false. Read by the host.
std::optional<std::size_t> first_non_finite(Wire wire, std::span<const float> values,
                                            std::span<const float> anchor);

void decode(Wire wire, std::span<const std::byte> encoded, std::span<float> values,
            const Kernels& kernels = cpu_kernels());

// What one node sent: its difference, encoded, and its weight.
struct Difference {
  std::span<const std::byte> encoded;
  float weight = 0;
};

// The owner's part. With `differences` in node order:
//   mean = weight_0 * decoded_0 + weight_1 * decoded_1 + ...    from left to right
//   sum  = mean + residual
//   back = encoded sum
//   residual = sum - decoded back
// What everybody uses as the mean is what `back` decodes to; what rounding left out of it waits in
// `residual` for the next exchange. On the fp32 wire the residual stays 0. False if an element of
// the sum is not finite on this wire; `back` and `residual` then hold nothing of use.
[[nodiscard]] bool average(Wire wire, std::span<const Difference> differences,
                           std::span<float> residual, std::span<std::byte> back,
                           const Draws& draws = {}, const Kernels& kernels = cpu_kernels());

// What both rules of a merge need: the encoded difference that this node sent (own), the answer
// that all got (back), and what they change. With q_own and q_mean their decoded values, both end
// by
//   anchor = anchor + q_mean        unless it is empty: another rank of the node keeps it
struct Merge {
  Wire wire = Wire::kInt8;
  std::span<const std::byte> own;
  std::span<const std::byte> back;
  std::span<float> parameters;
  std::span<float> anchor;
};

// Applies what the others learned and keeps all local progress since the start:
//   parameters = parameters + (q_mean - q_own)
void merge_corrected(const Merge& merge, const Kernels& kernels = cpu_kernels());

// The published rule. `sent` are the parameters as they were at the start:
//   parameters = ((2 * staleness) * parameters + peers * ((sent + q_mean) - q_own))
//                / (2 * staleness + peers)
struct PaperRule {
  std::span<const float> sent;
  int staleness = 1;  // steps from start to merge
  int peers = 1;      // nodes that took part
};
void merge_paper(const Merge& merge, const PaperRule& rule, const Kernels& kernels = cpu_kernels());

// How far this node is from the mean of all, as both were sent: the root of the mean square of
// q_mean - q_own. 0 of nothing.
double distance(Wire wire, std::span<const std::byte> own, std::span<const std::byte> back,
                const Kernels& kernels = cpu_kernels());

}  // namespace daso
