// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/gather_text.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

namespace daso {
namespace {

constexpr std::int64_t kAtOnce = std::int64_t{16} << 20;  // bytes that a rank gets in one piece
constexpr std::int64_t kLeastPiece = std::int64_t{64} << 10;

std::vector<std::string> gather(Communicator& ranks, const std::string& own, Seconds limit,
                                bool keep) {
  const auto bytes = static_cast<std::int64_t>(own.size());
  const auto size = static_cast<std::int64_t>(ranks.size());
  const at::Tensor lengths =
      ranks.all_gather(at::full({1}, bytes, at::kLong), at::empty({size}, at::kLong)).wait(limit);
  const auto* length = lengths.const_data_ptr<std::int64_t>();
  const std::int64_t longest = *std::max_element(length, length + size);
  std::vector<std::string> texts(keep ? static_cast<std::size_t>(size) : 0);
  // In pieces, so that each keeps within the limit on a slow link, however long the texts are. All
  // ranks take part in every piece, so that nobody runs ahead and waits for the rest elsewhere.
  const std::int64_t piece = std::max(kLeastPiece, kAtOnce / size);
  for (std::int64_t from = 0; from < longest; from += piece) {
    const at::Tensor part = at::zeros({std::min(piece, longest - from)}, at::kChar);
    if (from < bytes) {
      const std::int64_t left = std::min(part.numel(), bytes - from);
      std::memcpy(part.data_ptr(), own.data() + from, static_cast<std::size_t>(left));
    }
    const at::Tensor all =
        ranks.all_gather(part, at::empty({size * part.numel()}, at::kChar)).wait(limit);
    const auto* begin = static_cast<const char*>(all.const_data_ptr());
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      const std::int64_t left = std::min(part.numel(), length[rank] - from);
      if (left > 0) texts[rank].append(begin, static_cast<std::size_t>(left));
      begin += part.numel();
    }
  }
  return texts;
}

}  // namespace

std::vector<std::string> gather_text(Communicator& ranks, const std::string& own, Seconds limit) {
  return gather(ranks, own, limit, /*keep=*/true);
}

std::vector<std::string> gather_text_on_first(Communicator& ranks, const std::string& own,
                                              Seconds limit) {
  return gather(ranks, own, limit, /*keep=*/ranks.rank() == 0);
}

}  // namespace daso
