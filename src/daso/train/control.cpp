// SPDX-License-Identifier: Apache-2.0
#include "daso/train/control.h"

#include <ATen/ATen.h>

#include <numeric>
#include <utility>

namespace daso {
namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

Control::Control(World& world)
    : world_(world), ranks_(world.group(all_ranks(world.size()), "control")) {}

Wish Control::after_step(std::int64_t step, Wish own) {
  if (step % kInterval != 0) return Wish::kNothing;
  Wish agreed = Wish::kNothing;
  if (collecting_) {
    agreed = static_cast<Wish>(
        (*std::exchange(collecting_, std::nullopt)).wait(world_.limit()).item<std::int64_t>());
  }
  collecting_ =
      ranks_.all_reduce(at::full({1}, static_cast<std::int64_t>(own), at::kLong), Reduce::kMax);
  return agreed;
}

}  // namespace daso
