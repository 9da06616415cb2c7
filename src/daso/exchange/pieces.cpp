// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/pieces.h"

#include <algorithm>

namespace daso {
namespace {

constexpr std::int64_t kLeastRows = 64;  // of a node's segment: 16 KB on the int8 wire

}  // namespace

std::vector<Segment> pieces_of(std::int64_t rows, int nodes) {
  const std::int64_t shares = (rows + nodes - 1) / nodes;  // rows of a node, in all pieces together
  const std::int64_t pieces =
      std::clamp<std::int64_t>(shares / kLeastRows, 1, std::int64_t{kMostPieces});
  const std::int64_t length = (shares + pieces - 1) / pieces * nodes;
  std::vector<Segment> all;
  for (std::int64_t begin = 0; begin < rows; begin += length) {
    all.push_back({begin, std::min(begin + length, rows)});
  }
  if (all.empty()) all.emplace_back();
  return all;
}

}  // namespace daso
