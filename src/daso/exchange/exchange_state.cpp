// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include "daso/exchange/exchange.h"
#include "daso/tensor/large_tensor.h"

// What an exchange leaves to the next process, to the next view or to a node that joins.
namespace daso {

at::Tensor Exchange::anchor_over(NodeLink& node) {
  const at::Tensor whole = large_zeros({rows_, kFlatBlock}, at::TensorOptions(at::kFloat));
  if (kept_) whole.narrow(0, rows_of(*kept_).begin, kept_rows()).copy_(anchor_);
  const bool all_have_it = options_.kind == ExchangeKind::kRotating || node.size() == 1;
  if (!all_have_it) node.gather(whole, leaders_.role(0).slices, world_.limit());
  return whole;
}

// The exchange thread may be using the other link.
at::Tensor Exchange::anchor() { return anchor_over(world_.node_link(leaders_.name() + " copy")); }

void Exchange::tell_answer() const {
  if (on_answer_) on_answer_(exchange_, rows_in(back_here_));
}

at::Tensor Exchange::rows_in(const at::Tensor& all) const {
  std::vector<at::Tensor> slices;
  for (int slice = 0; slice < leaders_.slices(); ++slice) {
    slices.push_back(all.narrow(0, slice * width_, rows_of(slice).length()));
  }
  return at::cat(slices);
}

void Exchange::restore_rows(const State& state, const std::string& name,
                            const at::Tensor& all) const {
  const at::Tensor& saved = tensor_in(state, name);
  // Without rows behind the slices both layouts are the same.
  if (saved.dim() != 2 || saved.size(0) != rows_) return restore(state, name, all);
  for (int slice = 0; slice < leaders_.slices(); ++slice) {
    const Segment rows = rows_of(slice);
    const State part = {{name, saved.narrow(0, rows.begin, rows.length())}};
    restore(part, name, all.narrow(0, slice * width_, rows.length()));
  }
}

State Exchange::state() {
  State state;
  if (settle()) {
    state["exchange.own"] = views_ == nullptr ? kept(own_here_) : rows_in(own_here_);
    state["exchange.back"] = views_ == nullptr ? kept(back_here_) : rows_in(back_here_);
    if (rule_->needs_sent()) state["exchange.sent"] = kept(snapshot_);
    if (views_ != nullptr) {
      state["exchange.number"] = integer(exchange_);
      state["exchange.nodes"] = integer(nodes_in_flight_);
    }
  }
  // Who keeps which slice depends on the smallest node of a world, and so on the view.
  state["exchange.anchor"] = views_ == nullptr ? kept(anchor_) : anchor_over(node_);
  state["exchange.rest"] = kept(in_flight_ ? next_residual_ : residual_);
  return state;
}

State Exchange::state_for_joiner() {
  const bool merges = settle() && nodes_in_flight_ > 1;
  const at::Tensor anchor = anchor_over(node_);
  if (merges) {
    tell_answer();
    follow(options_, anchor, rows_in(back_here_));
  }
  return {{"exchange.anchor", anchor}};
}

void Exchange::clear_residuals() {
  residual_.zero_();
  next_residual_.zero_();
}

void Exchange::load_state(const State& state) {
  if (!state.contains("exchange.anchor")) return;
  const at::Tensor& anchor = tensor_in(state, "exchange.anchor");
  if (anchor.dim() == 2 && anchor.size(0) == rows_) {  // all of it
    const Segment own = kept_ ? rows_of(*kept_) : Segment{};
    restore({{"exchange.anchor", anchor.narrow(0, own.begin, own.length())}}, "exchange.anchor",
            anchor_);
  } else {
    restore(state, "exchange.anchor", anchor_);
  }
  clear_residuals();
  const auto rest = state.find("exchange.rest");
  // In another view others own what rounding has left out: it does not count there.
  if (rest != state.end() && (views_ == nullptr || rest->second.sizes() == residual_.sizes())) {
    restore(state, "exchange.rest", residual_);
    restore(state, "exchange.rest", next_residual_);
  }
  in_flight_ = state.contains("exchange.own");
  if (!in_flight_) return;
  settled_ = true;
  started_ = Clock::now();  // for people to see: it began in another process
  nodes_in_flight_ = state.contains("exchange.nodes")
                         ? static_cast<int>(integer_in(state, "exchange.nodes"))
                         : world_.topology().nodes();
  if (state.contains("exchange.number")) exchange_ = integer_in(state, "exchange.number");
  restore_rows(state, "exchange.own", own_here_);
  restore_rows(state, "exchange.back", back_here_);
  own_.copy_(own_here_);
  back_.copy_(back_here_);
  if (rule_->needs_sent()) restore(state, "exchange.sent", snapshot_);
}

}  // namespace daso
