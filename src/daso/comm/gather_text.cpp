// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/gather_text.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cstring>

namespace daso {

std::vector<std::string> gather_text(Communicator& ranks, const std::string& own, Seconds limit) {
  const auto bytes = static_cast<std::int64_t>(own.size());
  const auto size = static_cast<std::int64_t>(ranks.size());
  const at::Tensor lengths =
      ranks.all_gather(at::full({1}, bytes, at::kLong), at::empty({size}, at::kLong)).wait(limit);
  const auto longest = lengths.max().item<std::int64_t>();
  at::Tensor padded = at::zeros({longest}, at::kChar);
  std::memcpy(padded.data_ptr(), own.data(), own.size());
  const at::Tensor all =
      ranks.all_gather(std::move(padded), at::empty({size * longest}, at::kChar)).wait(limit);
  std::vector<std::string> texts;
  for (std::int64_t rank = 0; rank < size; ++rank) {
    const auto* begin = static_cast<const char*>(all.const_data_ptr()) + rank * longest;
    texts.emplace_back(begin, static_cast<std::size_t>(lengths[rank].item<std::int64_t>()));
  }
  return texts;
}

}  // namespace daso
