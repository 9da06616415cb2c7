// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daso/comm/network.h"
#include "daso/policy/exchange_options.h"
#include "daso/tensor/state.h"

namespace daso {

// Where a node that is to join waits for a copy of the run, as launchers pass it on: HOST:PORT/N.
struct CopyPlace {
  Address address;
  std::uint64_t number = 0;  // drawn for one copy alone

  std::string text() const;
};
// The inverse; throws ConfigError.
CopyPlace parse_copy_place(const std::string& text);

// What a copy consists of, as letters between the two mailboxes, in this order:
//
//   an index                what answers are made of, and the tensors
//   the tensors' bytes      in pieces, each tensor by itself
//   one of no bytes         that was all: what follows keeps it up to date
//   answers of exchanges    in pieces likewise
inline constexpr int kCopyReceiver = 0;  // the ranks of the two
inline constexpr int kCopySender = 1;
inline constexpr std::uint32_t kCopyLetters = 0;  // the group of their tags
inline constexpr std::size_t kCopyPiece = std::size_t{1} << 20;
inline constexpr const char* kAnchorOfCopy = "strategy.exchange.anchor";  // that answers move

// As JSON.
std::string index_of(const State& state, const ExchangeOptions& exchange);
// Room for the tensors of an index, in their order, and what exchanges do to the anchor. Throws for
// a text that is none.
struct CopyRoom {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  ExchangeOptions exchange;
};
CopyRoom room_for(const std::string& index);

}  // namespace daso
