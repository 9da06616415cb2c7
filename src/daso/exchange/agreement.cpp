// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/agreement.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "daso/base/error.h"
#include "daso/comm/link/staged_link.h"
#include "daso/exchange/copies.h"
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
                                      world.home_guard());
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

void take_over(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& means) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(means[i]);
}

}  // namespace

Agreement::Agreement(World& world, FlatModel& model, Optimizer& optimizer, const Leaders& leaders,
                     std::shared_ptr<Lane> lane)
    : world_(world),
      model_(model),
      optimizer_(optimizer),
      views_(world.views()),
      host_(world.node_link(leaders.name())),
      home_(views_ == nullptr ? nullptr : &host_),
      lane_(lane ? std::move(lane) : open_lane(model.parameters().device())),
      staged_(staged_link(world, leaders, model.parameters().device(), lane_)),
      mean_(world, staged_ ? *staged_ : host_, *lane_, leaders,
            /*ahead=*/kMostPieces),
      end_(*lane_),
      worker_("agreement") {}

void Agreement::average(const at::Tensor& tensor, std::int64_t exchange,
                        const std::vector<at::Tensor>& residuals) {
  lane_->follow(*lane_->mark_of_caller());
  lane_->run([&] { mean_.average_of_nodes(tensor, exchange, residuals); });
  lane_->lead_caller();
}

bool Agreement::agree(std::int64_t exchange, const std::vector<at::Tensor>& residuals,
                      const std::function<void()>& also) {
  settle();
  if (views_ != nullptr) return agree_in_view(exchange, residuals, also);
  const std::vector<at::Tensor> moments = optimizer_.moments();
  {
    const TimedSpan span(world_.timeline(), Track::kAgreement, "agreement", exchange);
    std::vector<at::Tensor> parts = moments;
    parts.push_back(model_.parameters());
    optimizer_.set_steps(compare(exchange, parts));
    average(model_.parameters(), exchange, residuals);
    remember_mean(exchange);
  }
  bytes_between_nodes_ = mean_.bytes_between_nodes();
  if (!moments.empty()) {
    unsettled_ = exchange;
    worker_.post([this, moments, exchange, given = lane_->mark_of_caller()] {
      const Span background(world_.timeline(), Track::kExchange, "optimizer state", exchange);
      lane_->follow(*given);
      lane_->run([&] {
        for (const at::Tensor& moment : moments) mean_.average_of_nodes(moment, exchange);
      });
    });
  }
  if (also) also();
  return true;
}

bool Agreement::agree_in_view(std::int64_t exchange, const std::vector<at::Tensor>& residuals,
                              const std::function<void()>& also) {
  std::vector<at::Tensor> parts = optimizer_.moments();
  parts.push_back(model_.parameters());
  std::vector<at::Tensor> means = copies_of(parts);
  const std::vector<at::Tensor> rests = copies_of(residuals);
  std::int64_t steps = 0;
  const bool counts = in_view(exchange, [&] {
    {
      const TimedSpan span(world_.timeline(), Track::kAgreement, "agreement", exchange);
      wait_for_nodes(home_, world_.limit(), [&] { steps = compare(exchange, parts); });
      for (std::size_t i = 0; i + 1 < means.size(); ++i) average(means[i], exchange);
      average(means.back(), exchange, rests);
    }
    if (also) wait_for_nodes(home_, world_.limit(), also);
  });
  if (!counts) return false;
  optimizer_.set_steps(steps);
  take_over(parts, means);
  take_over(residuals, rests);
  remember_mean(exchange);
  return true;
}

bool Agreement::in_view(std::int64_t exchange, const std::function<void()>& task) {
  if (views_->start(exchange) != Start::kGoes) return false;
  bool here = true;
  try {
    const LaneEnd end(*lane_);  // whatever is thrown, the copies go back behind what it does
    task();
    views_->prepared(exchange);
  } catch (const PeerError& error) {
    views_->trouble(error.what());
    here = false;  // the launchers know better whether the view has ended
  }
  bytes_between_nodes_ = mean_.bytes_between_nodes();
  const TimedSpan wait(world_.timeline(), Track::kAgreement, "commit", exchange);
  const bool counts = views_->committed(exchange);
  DASO_ASSERT(here || !counts);
  return counts;
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

bool Agreement::average_parameters(std::int64_t exchange) {
  settle();
  const auto average_as = [&](const at::Tensor& parameters) {
    const TimedSpan span(world_.timeline(), Track::kAverage, "blocking average", exchange);
    wait_for_nodes(home_, world_.limit(), [&] { compare(exchange, {parameters}); });
    average(parameters, exchange);
  };
  if (views_ == nullptr) {
    average_as(model_.parameters());
    remember_mean(exchange);
    bytes_between_nodes_ = mean_.bytes_between_nodes();
    return true;
  }
  const std::vector<at::Tensor> mean = copies_of({model_.parameters()});
  if (!in_view(exchange, [&] { average_as(mean.front()); })) return false;
  take_over({model_.parameters()}, mean);
  remember_mean(exchange);
  return true;
}

void Agreement::remember_mean(std::int64_t exchange) {
  last_mean_ = exchange;
  mean_digest_ = at::empty({1}, model_.parameters().options().dtype(at::kLong));
  digest_into(model_.parameters(), mean_digest_);  // read when ranks compare it
}

std::int64_t Agreement::compare(std::int64_t exchange, const std::vector<at::Tensor>& parts) {
  // One flag for all, so that a GPU is waited for once.
  const at::Tensor overflow = clear_flag(model_.parameters());
  for (const at::Tensor& part : parts) check_finite_into(part, overflow);
  const at::Tensor digest = at::empty({1}, overflow.options().dtype(at::kLong));
  digest_into(model_.parameters(), digest);
  world_.wait_for(overflow.device(), "looking for values that are not finite");
  const std::int64_t finite = overflow.item<int>() == 0 ? 1 : 0;
  const std::int64_t own = digest.item<std::int64_t>();
  const std::int64_t mean = mean_digest_.defined() ? mean_digest_.item<std::int64_t>() : 0;
  const at::Tensor row = at::tensor({optimizer_.steps(), finite, own, mean}, at::kLong);
  const at::Tensor all = at::empty({world_.size(), row.size(0)}, at::kLong);
  world_.everyone().all_gather(row.view({1, -1}), all).wait(world_.limit());
  const auto rows = all.accessor<std::int64_t, 2>();
  const Topology& topology = world_.topology();
  std::int64_t steps = 0;
  bool equal_means = true;
  for (int rank = 0; rank < world_.size(); ++rank) {
    steps = std::max(steps, rows[rank][0]);
    equal_means = equal_means && rows[rank][3] == mean;
    if (rows[rank][1] != 0) continue;
    throw Error(fmt::format(
        "exchange {}: parameters or optimizer state of node {} are not finite: the run has "
        "diverged; a smaller learning rate or a longer warm-up may help",
        exchange, topology.name_of(topology.node_of(rank))));
  }
  if (!equal_means) {
    throw_unequal(world_, world_.everyone(), all.select(1, 3).contiguous(),
                  fmt::format("exchange {}: the parameters after the mean", last_mean_));
  }
  const std::vector<int>& home = topology.ranks_of(world_.node());
  if (std::ranges::any_of(home, [&](int rank) { return rows[rank][2] != own; })) {
    check_equal_in_node(world_, host_, model_, own, model_.parameters().cpu(), exchange);
  }
  return steps;
}

}  // namespace daso
