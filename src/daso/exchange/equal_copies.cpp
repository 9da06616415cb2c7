// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/equal_copies.h"

#include <ATen/ATen.h>

#include <utility>

#include "daso/base/error.h"
#include "daso/exchange/copies.h"
#include "daso/exchange/hierarchical_mean.h"
#include "daso/tensor/flat_values.h"
#include "daso/tensor/large_tensor.h"

namespace daso {

EqualCopies::EqualCopies(World& world, const FlatModel& model, Communicator& ranks)
    : world_(world),
      model_(model),
      ranks_(ranks),
      home_(world.views() == nullptr ? nullptr : &world.node_link("copies")),
      lane_(open_lane(model.parameters().device())),
      digest_(at::zeros({1}, model.parameters().options().dtype(at::kLong))),
      digest_here_(lane_->host_room(digest_)) {}

// A digest comes to the host, and then to the others, each while a step is computed.
void EqualCopies::after_step(const StepInfo& info) {
  if (ranks_.size() == 1) return;
  const bool epoch_ends = info.batch == info.last;
  const bool due = epoch_ends || info.step % kEvery == 0;
  if (here_ != nullptr || telling_ || epoch_ends) {
    wait_for_nodes(home_, world_.limit(), [&] {
      compare();
      tell();
      if (!epoch_ends) return;
      compare();
      begin(info.step);
      tell();
      compare();
    });
  }
  if (due && !epoch_ends) begin(info.step);
}

void EqualCopies::begin(std::int64_t step) {
  step_ = step;
  digest_into(model_.parameters(), digest_);
  lane_->follow(*lane_->mark_of_caller());
  lane_->copy(digest_here_, digest_);
  here_ = lane_->mark();
}

void EqualCopies::tell() {
  if (here_ == nullptr) return;
  const std::shared_ptr<LaneMark> here = std::exchange(here_, nullptr);
  world_.wait_until([&] { return here->reached(); }, "comparing parameters");
  telling_ = ranks_.all_gather(digest_here_.clone(), at::empty({ranks_.size()}, at::kLong));
}

void EqualCopies::compare() {
  if (!telling_) return;
  const at::Tensor digests = (*std::exchange(telling_, std::nullopt)).wait(world_.limit());
  if (at::equal(digests, digests[0].expand_as(digests))) return;
  const at::Tensor parameters = model_.parameters().cpu();
  throw_unequal(world_, ranks_, model_, {.values = host_floats(parameters)},
                fmt::format("after step {} the parameters", step_));
}

}  // namespace daso
