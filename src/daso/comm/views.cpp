// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/views.h"

#include <ATen/ATen.h>

#include <utility>

#include "daso/comm/node_link.h"

namespace daso {

Views::Views(std::shared_ptr<Decisions> decisions, NodeLink& node, Seconds limit)
    : decisions_(std::move(decisions)), node_(node), limit_(limit) {}

bool Views::start(std::int64_t exchange) {
  return told_by_first([&] { return decisions_->start(exchange - before_); });
}

bool Views::committed(std::int64_t exchange) {
  return told_by_first([&] { return decisions_->committed(exchange - before_, limit_); });
}

bool Views::ended() {
  return told_by_first([&] { return decisions_->ended(); });
}

bool Views::all(bool own) {
  const at::Tensor words = at::zeros({node_.size()}, at::kLong);
  words[node_.rank()].fill_(own ? 1 : 0);
  node_.gather(words, {.slices = node_.size(), .first = 0}, limit_);
  return words.all().item<bool>();
}

void Views::prepared(std::int64_t exchange) {
  if (node_.rank() == 0) decisions_->prepared(exchange - before_);
}

bool Views::told_by_first(const std::function<bool()>& ask) {
  const at::Tensor answer = at::zeros({1}, at::kLong);
  if (node_.rank() == 0) answer.fill_(ask() ? 1 : 0);
  node_.gather(answer, {.slices = 1, .first = 0}, limit_);
  return *answer.const_data_ptr<std::int64_t>() != 0;
}

}  // namespace daso
