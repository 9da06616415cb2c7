// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/agreement.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "daso/base/error.h"
#include "daso/comm/link/staged_link.h"
#include "daso/tensor/flat_values.h"

namespace daso {

namespace {

// Through the host, not by NCCL: what an agreement leaves in the background travels beside the next
// steps' gradients, and two of NCCL's communicators at work on one GPU, begun by two threads, may
// wait for each other for ever.
std::unique_ptr<NodeLink> staged_link(World& world, const Leaders& leaders, at::Device device,
                                      const std::shared_ptr<Lane>& lane) {
  if (!lane->copies()) return nullptr;
  return std::make_unique<StagedLink>(world.node_link(leaders.name()), device, lane,
                                      LinkName{.text = leaders.name() + " through the host"},
                                      world.guard());
}

}  // namespace

Agreement::Agreement(World& world, FlatModel& model, Optimizer& optimizer, const Leaders& leaders,
                     std::shared_ptr<Lane> lane)
    : world_(world),
      model_(model),
      optimizer_(optimizer),
      lane_(lane ? std::move(lane) : open_lane(model.parameters().device())),
      staged_(staged_link(world, leaders, model.parameters().device(), lane_)),
      mean_(world, staged_ ? *staged_ : world.node_link(leaders.name()), *lane_, leaders,
            /*ahead=*/kMostPieces),
      end_(*lane_),
      worker_("agreement") {}

void Agreement::average(const at::Tensor& tensor, std::int64_t exchange,
                        const std::vector<at::Tensor>& residuals) {
  lane_->follow(*lane_->mark_of_caller());
  lane_->run([&] { mean_.average_of_nodes(tensor, exchange, residuals); });
  lane_->lead_caller();
}

void Agreement::agree(std::int64_t exchange, const std::vector<at::Tensor>& residuals) {
  settle();
  const TimedSpan span(world_.timeline(), Track::kAgreement, "agreement", exchange);
  const std::vector<at::Tensor> moments = optimizer_.moments();
  std::vector<at::Tensor> parts = moments;
  parts.push_back(model_.parameters());
  optimizer_.set_steps(refuse_non_finite(exchange, parts));
  average(model_.parameters(), exchange, residuals);
  bytes_between_nodes_ = mean_.bytes_between_nodes();
  if (moments.empty()) return;
  unsettled_ = exchange;
  worker_.post([this, moments, exchange, given = lane_->mark_of_caller()] {
    const Span background(world_.timeline(), Track::kExchange, "optimizer state", exchange);
    lane_->follow(*given);
    lane_->run([&] {
      for (const at::Tensor& moment : moments) mean_.average_of_nodes(moment, exchange);
    });
  });
}

void Agreement::settle() {
  if (unsettled_ == kNothing) return;
  {
    const TimedSpan wait(world_.timeline(), Track::kSettling, "optimizer state", unsettled_);
    worker_.wait();
  }
  lane_->lead_caller();
  unsettled_ = kNothing;
  busy_seconds_ = worker_.busy_seconds();
  bytes_between_nodes_ = mean_.bytes_between_nodes();
}

Costs Agreement::costs() const {
  return {.background_seconds = busy_seconds_, .bytes_between_nodes = bytes_between_nodes_};
}

void Agreement::average_parameters(std::int64_t exchange) {
  settle();
  const TimedSpan span(world_.timeline(), Track::kAverage, "blocking average", exchange);
  refuse_non_finite(exchange, {model_.parameters()});
  average(model_.parameters(), exchange);
  bytes_between_nodes_ = mean_.bytes_between_nodes();
}

std::int64_t Agreement::refuse_non_finite(std::int64_t exchange,
                                          const std::vector<at::Tensor>& parts) {
  // One flag for all, so that a GPU is waited for once.
  const at::Tensor overflow = clear_flag(model_.parameters());
  for (const at::Tensor& part : parts) check_finite_into(part, overflow);
  world_.wait_for(overflow.device(), "looking for values that are not finite");
  const bool finite = overflow.item<int>() == 0;
  const at::Tensor own = at::tensor({optimizer_.steps(), std::int64_t{finite}}, at::kLong);
  const at::Tensor all = at::empty({world_.size(), 2}, at::kLong);
  world_.everyone().all_gather(own.view({1, 2}), all).wait(world_.limit());
  const auto rows = all.accessor<std::int64_t, 2>();
  std::int64_t steps = 0;
  for (int rank = 0; rank < world_.size(); ++rank) {
    steps = std::max(steps, rows[rank][0]);
    if (rows[rank][1] != 0) continue;
    const Topology& topology = world_.topology();
    throw Error(fmt::format(
        "exchange {}: parameters or optimizer state of node {} are not finite: the run has "
        "diverged; a smaller learning rate or a longer warm-up may help",
        exchange, topology.name_of(topology.node_of(rank))));
  }
  return steps;
}

}  // namespace daso
