// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

// Which examples a rank sees in an epoch, in which order. Values in, values out.
namespace daso {

enum class Uneven {
  kDrop,  // what does not fill a batch of every rank is left out, other examples in each epoch
  kWrap   // the epoch is filled up from its own beginning
};

struct ShardOptions {
  std::int64_t examples = 0;
  int ranks = 1;
  int batch_size = 1;  // per rank
  Uneven uneven = Uneven::kDrop;
  std::uint64_t seed = 0;
};

// Throws ConfigError, also where an epoch would have no step.
void validate(const ShardOptions& options);

// Steps of an epoch; the same on all ranks.
std::int64_t batches_of(const ShardOptions& options);

// The examples of one rank in one epoch: batches_of() * batch_size of them, in the order of its
// steps. A permutation drawn from (seed, epoch), the same on every machine, dealt out so that ranks
// share none (kDrop).
std::vector<std::int64_t> shard_of(const ShardOptions& options, int epoch, int rank);

struct Seat {
  std::int64_t batch = 0;
  int rank = 0;
  int example = 0;  // of the batch
};

// Where in the epoch's permutation a seat is. Ranks take turns batch by batch, so the examples of a
// step are those of one process with the whole batch.
std::int64_t place_of(const ShardOptions& options, const Seat& seat);

}  // namespace daso
