// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/merge.h"

#include <cmath>
#include <vector>

#include "daso/base/error.h"
#include "daso/kernels/kernels.h"

namespace daso {
namespace {

// average_in_fp32 of what is left after the last whole block.
bool average_elements(std::span<const Part> parts, std::size_t begin, std::span<float> residual,
                      std::span<float> mean) {
  bool finite = true;
  for (std::size_t i = begin; i < mean.size(); ++i) {
    float sum = parts.front().weight * parts.front().values[i];
    for (const Part& part : parts.subspan(1)) sum += part.weight * part.values[i];
    if (!residual.empty()) {
      sum += residual[i];
      residual[i] = 0;
    }
    mean[i] = sum;
    finite = finite && std::isfinite(sum);
  }
  return finite;
}

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

bool average(Wire wire, std::span<const Difference> differences, std::span<float> residual,
             std::span<std::byte> back, const Draws& draws, InstructionSet set) {
  DASO_ASSERT(!differences.empty());
  DASO_ASSERT(back.size() == encoded_bytes(wire, residual.size()));
  std::vector<kernels::Term> terms;
  terms.reserve(differences.size());
  for (const Difference& one : differences) {
    DASO_ASSERT(one.encoded.size() == back.size());
    terms.push_back({one.encoded.data(), one.weight});
  }
  return kernels::kernels_of(wire, set).average({terms.data(), terms.size(), residual.data(),
                                                 back.data(), residual.size() / kBlockElements,
                                                 draws});
}

bool average_in_fp32(std::span<const Part> parts, std::span<float> residual, std::span<float> mean,
                     InstructionSet set) {
  DASO_ASSERT(!parts.empty());
  DASO_ASSERT(residual.empty() || residual.size() == mean.size());
  std::vector<kernels::Term> terms;
  terms.reserve(parts.size());
  for (const Part& part : parts) {
    DASO_ASSERT(part.values.size() == mean.size());
    terms.push_back({std::as_bytes(part.values).data(), part.weight});
  }
  // The fp32 wire carries every value as it is, so the residual that it leaves is 0.
  const std::size_t blocks = mean.size() / kBlockElements;
  const bool finite =
      kernels::kernels_of(Wire::kFp32, set)
          .average({terms.data(), terms.size(), residual.empty() ? nullptr : residual.data(),
                    std::as_writable_bytes(mean).data(), blocks});
  return average_elements(parts, blocks * kBlockElements, residual, mean) && finite;
}

void merge_corrected(const Merge& merge, InstructionSet set) {
  kernels::kernels_of(merge.wire, set).merge_corrected(merging_of(merge));
}

void merge_paper(const Merge& merge, const PaperRule& rule, InstructionSet set) {
  kernels::Merging merging = merging_of(merge);
  DASO_ASSERT(rule.sent.size() == merge.parameters.size());
  DASO_ASSERT(rule.staleness >= 1 && rule.peers >= 1);
  merging.sent = rule.sent.data();
  merging.local_weight = static_cast<float>(2 * rule.staleness);
  merging.peers = static_cast<float>(rule.peers);
  kernels::kernels_of(merge.wire, set).merge_paper(merging);
}

}  // namespace daso
