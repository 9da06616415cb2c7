// SPDX-License-Identifier: Apache-2.0
#include "core/evaluation.h"

#include <ATen/ATen.h>

#include <bit>

#include "daso/base/error.h"
#include "daso/tensor/flat_values.h"

namespace daso::python {
namespace {

enum Column { kNumber, kDigest, kLoss, kColumns };

std::string text_of(std::int64_t number) {
  return number == 0 ? "is done with it" : fmt::format("is at evaluation {} of the loss", number);
}

}  // namespace

double common_loss(Communicator& ranks, const FlatModel& model, const Evaluation& own,
                   Seconds limit) {
  if (ranks.size() == 1) return own.loss;
  const at::Tensor row = at::tensor(
      {own.number, digest(model.parameters()), std::bit_cast<std::int64_t>(own.loss)}, at::kLong);
  const at::Tensor all = at::empty({ranks.size(), kColumns}, at::kLong);
  ranks.all_gather(row.view({1, kColumns}), all).wait(limit);
  const auto rows = all.accessor<std::int64_t, 2>();
  constexpr const char* kWhy =
      "though they got the same gradients and losses: the optimizer computes something else there; "
      "give all ranks processors of one kind and equal numbers of threads";
  double sum = 0;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const int first = ranks.world_ranks()[0];
    const int other = ranks.world_ranks()[static_cast<std::size_t>(rank)];
    if (rows[rank][kNumber] != rows[0][kNumber]) {
      throw Error(fmt::format("step {}: rank {} {}, and rank {} {}, {}", own.step, first,
                              text_of(rows[0][kNumber]), other, text_of(rows[rank][kNumber]),
                              kWhy));
    }
    if (rows[rank][kDigest] != rows[0][kDigest]) {
      throw Error(fmt::format("step {}: rank {} {}, with other parameters than rank {}, {}",
                              own.step, other, text_of(own.number), first, kWhy));
    }
    sum += std::bit_cast<double>(rows[rank][kLoss]);
  }
  return sum / ranks.size();
}

}  // namespace daso::python
