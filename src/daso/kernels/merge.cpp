// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/merge.h"

#include <cmath>
#include <vector>

#include "daso/base/error.h"
#include "daso/kernels/kernels.h"

namespace daso {
namespace {

kernels::Merging merging_of(const Merge& merge) {
  const std::size_t elements = merge.parameters.size();
  DASO_ASSERT(merge.anchor.empty() || merge.anchor.size() == elements);
  DASO_ASSERT(merge.own.size() == encoded_bytes(merge.wire, elements));
  DASO_ASSERT(merge.back.size() == merge.own.size());
  return {.own = merge.own.data(),
          .back = merge.back.data(),
          .parameters = merge.parameters.data(),
          .anchor = merge.anchor.data(),
          .blocks = elements / kBlockElements,
          .sent = nullptr,
          .local_weight = 0,
          .peers = 0};
}

}  // namespace

bool encode(Wire wire, std::span<const float> values, std::span<const float> anchor,
            std::span<std::byte> encoded, const Draws& draws, const Kernels& kernels) {
  DASO_ASSERT(kernels.host && anchor.size() == values.size());
  DASO_ASSERT(encoded.size() == encoded_bytes(wire, values.size()));
  std::uint32_t overflow = 0;
  kernels.of(wire).encode({.values = values.data(),
                           .anchor = anchor.data(),
                           .encoded = encoded.data(),
                           .blocks = values.size() / kBlockElements,
                           .draws = draws,
                           .overflow = &overflow});
  return overflow == 0;
}

std::optional<std::size_t> first_non_finite(Wire wire, std::span<const float> values,
                                            std::span<const float> anchor) {
  DASO_ASSERT(anchor.size() == values.size());
  const float largest = largest_on(wire);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool carried = std::abs(values[i] - anchor[i]) <= largest;  // no: NaN, too
    if (!carried) return i;
  }
  return std::nullopt;
}

void decode(Wire wire, std::span<const std::byte> encoded, std::span<float> values,
            const Kernels& kernels) {
  DASO_ASSERT(encoded.size() == encoded_bytes(wire, values.size()));
  kernels.of(wire).decode({encoded.data(), values.data(), values.size() / kBlockElements});
}

bool average(Wire wire, std::span<const Difference> differences, std::span<float> residual,
             std::span<std::byte> back, const Draws& draws, const Kernels& kernels) {
  DASO_ASSERT(kernels.host && !differences.empty());
  DASO_ASSERT(back.size() == encoded_bytes(wire, residual.size()));
  std::vector<kernels::EncodedTerm> terms;
  terms.reserve(differences.size());
  for (const Difference& one : differences) {
    DASO_ASSERT(one.encoded.size() == back.size());
    terms.push_back({one.encoded.data(), one.weight});
  }
  std::uint32_t overflow = 0;
  kernels.of(wire).average({.terms = terms.data(),
                            .number_of_terms = terms.size(),
                            .residual = residual.data(),
                            .back = back.data(),
                            .blocks = residual.size() / kBlockElements,
                            .draws = draws,
                            .overflow = &overflow});
  return overflow == 0;
}

void merge_corrected(const Merge& merge, const Kernels& kernels) {
  kernels.of(merge.wire).merge_corrected(merging_of(merge));
}

void merge_paper(const Merge& merge, const PaperRule& rule, const Kernels& kernels) {
  kernels::Merging merging = merging_of(merge);
  DASO_ASSERT(rule.sent.size() == merge.parameters.size());
  DASO_ASSERT(rule.staleness >= 1 && rule.peers >= 1);
  merging.sent = rule.sent.data();
  merging.local_weight = static_cast<float>(2 * rule.staleness);
  merging.peers = static_cast<float>(rule.peers);
  kernels.of(merge.wire).merge_paper(merging);
}

double distance(Wire wire, std::span<const std::byte> own, std::span<const std::byte> back,
                const Kernels& kernels) {
  const std::size_t blocks = own.size() / encoded_bytes(wire, kBlockElements);
  DASO_ASSERT(kernels.host && back.size() == own.size());
  DASO_ASSERT(own.size() == encoded_bytes(wire, blocks * kBlockElements));
  if (blocks == 0) return 0;
  double squares = 0;
  kernels.of(wire).squared_distance({own.data(), back.data(), blocks, &squares});
  return std::sqrt(squares / static_cast<double>(blocks * kBlockElements));
}

}  // namespace daso
