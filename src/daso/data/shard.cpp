// SPDX-License-Identifier: Apache-2.0
#include "daso/data/shard.h"

#include <numeric>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/random.h"

namespace daso {
namespace {

constexpr std::uint64_t kOrder = 1;  // tells this use of the seed from others

std::int64_t examples_per_step(const ShardOptions& options) {
  return std::int64_t{options.ranks} * options.batch_size;
}

// Fisher-Yates.
std::vector<std::int64_t> permutation(std::int64_t examples, RandomStream random) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(examples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

}  // namespace

void validate(const ShardOptions& options) {
  require(options.ranks >= 1, "data is shared by at least 1 rank, got {}", options.ranks);
  require(options.batch_size >= 1, "the batch size must be at least 1, got {}", options.batch_size);
  require(options.examples >= 1, "the dataset must hold at least 1 example, it holds {}",
          options.examples);
  require(options.uneven == Uneven::kWrap || options.examples >= examples_per_step(options),
          "{} examples do not fill one batch of {} on each of {} ranks, so an epoch would have no "
          "step; use a smaller batch size, or --uneven wrap",
          options.examples, options.batch_size, options.ranks);
}

std::int64_t batches_of(const ShardOptions& options) {
  validate(options);
  const std::int64_t together = examples_per_step(options);
  const std::int64_t whole = options.examples / together;
  const bool fill_up = options.uneven == Uneven::kWrap && options.examples % together != 0;
  return fill_up ? whole + 1 : whole;
}

std::vector<std::int64_t> shard_of(const ShardOptions& options, int epoch, int rank) {
  const std::int64_t batches = batches_of(options);
  DASO_ASSERT(epoch >= 0);
  DASO_ASSERT(rank >= 0 && rank < options.ranks);
  const std::vector<std::int64_t> order = permutation(
      options.examples, RandomStream{options.seed, kOrder, static_cast<std::uint64_t>(epoch)});
  std::vector<std::int64_t> shard;
  shard.reserve(static_cast<std::size_t>(batches * options.batch_size));
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    for (int i = 0; i < options.batch_size; ++i) {
      const std::int64_t place = place_of(options, {.batch = batch, .rank = rank, .example = i});
      shard.push_back(order[static_cast<std::size_t>(place % options.examples)]);
    }
  }
  return shard;
}

std::int64_t place_of(const ShardOptions& options, const Seat& seat) {
  return (seat.batch * options.ranks + seat.rank) * options.batch_size + seat.example;
}

}  // namespace daso
