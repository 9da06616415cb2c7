// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace daso {

// Of --model transformer.
struct TransformerSizes {
  int layers = 2;
  int embedding = 128;  // numbers that stand for a token
  int heads = 4;        // divides the embedding
  bool operator==(const TransformerSizes&) const = default;
};

}  // namespace daso
