// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/agreement.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "daso/base/error.h"
#include "daso/kernels/digest.h"
#include "daso/tensor/large_tensor.h"

namespace daso {

Agreement::Agreement(World& world, FlatModel& model, Optimizer& optimizer, const Leaders& leaders)
    : world_(world),
      model_(model),
      optimizer_(optimizer),
      mean_(world, world.node_link(leaders.name()), leaders, /*ahead=*/kMostPieces),
      worker_("agreement") {}

void Agreement::agree(std::int64_t exchange, const std::vector<at::Tensor>& residuals) {
  settle();
  const TimedSpan span(world_.timeline(), Track::kAgreement, "agreement", exchange);
  const std::vector<at::Tensor> moments = optimizer_.moments();
  std::vector<at::Tensor> parts = moments;
  parts.push_back(model_.parameters());
  optimizer_.set_steps(refuse_non_finite(exchange, parts));
  mean_.average_of_nodes(model_.parameters(), exchange, residuals);
  bytes_between_nodes_ = mean_.bytes_between_nodes();
  if (moments.empty()) return;
  unsettled_ = exchange;
  worker_.post([this, moments, exchange] {
    const Span background(world_.timeline(), Track::kExchange, "optimizer state", exchange);
    for (const at::Tensor& moment : moments) mean_.average_of_nodes(moment, exchange);
  });
}

void Agreement::settle() {
  if (unsettled_ == kNothing) return;
  {
    const TimedSpan wait(world_.timeline(), Track::kSettling, "optimizer state", unsettled_);
    worker_.wait();
  }
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
  mean_.average_of_nodes(model_.parameters(), exchange);
  bytes_between_nodes_ = mean_.bytes_between_nodes();
}

std::int64_t Agreement::refuse_non_finite(std::int64_t exchange,
                                          const std::vector<at::Tensor>& parts) {
  const bool finite = std::all_of(parts.begin(), parts.end(), [](const at::Tensor& part) {
    return all_finite(floats(part), kernels_of(part));
  });
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
