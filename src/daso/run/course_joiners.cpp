// SPDX-License-Identifier: Apache-2.0
// What a course does for nodes that are to join, before they do (views/copies.h).
#include <ATen/ATen.h>

#include <algorithm>

#include "daso/comm/views.h"
#include "daso/run/course.h"
#include "daso/run/settings_table.h"
#include "daso/run/views/copy_letters.h"

namespace daso {

// After a step. Where nodes are equal there is nothing that a joiner could be given ahead: all of
// it changes with every step.
void Course::look_after_joiners(const StrategyEvents& done) {
  const std::optional<Phase> phase = strategy_->status().phase;
  const bool gives = traits_of(run_.settings().strategy).merges_late && phase &&
                     !is_blocking(*phase) && world_.topology().nodes() > 1;
  world_.views()->gives_copies(gives);
  if (!gives) drop_copies();
  drop_copies_after(done);
  const auto start = std::ranges::find(done, StrategyEvent::Kind::kStart, &StrategyEvent::kind);
  if (start == done.end()) return;
  const std::optional<std::vector<std::string>> joiners = world_.views()->take_joiners();
  if (joiners) copy_for(*joiners, start->exchange);
}

// What nodes agree on is not what answers have made of a copy.
void Course::drop_copies_after(const StrategyEvents& done) {
  const bool agreed = std::ranges::any_of(
      done, [](const StrategyEvent& event) { return event.kind == StrategyEvent::Kind::kAgree; });
  if (agreed) drop_copies();
}

void Course::drop_copies() {
  if (run_.copies().empty()) return;
  run_.copies().drop();
  world_.views()->copies_dropped();
}

// All ranks of the node together, and the first one keeps it.
void Course::copy_for(const std::vector<std::string>& joiners, std::int64_t exchange) {
  const Span span(world_.timeline(), Track::kTraining, "copy for a joiner", exchange);
  const at::Tensor anchor = strategy_->anchor();
  if (joiners.empty()) return;
  world_.wait_for(run_.device(), "the last step");
  const RunState all = run_.state();
  State copy = {{kAnchorOfCopy, anchor}};
  for (const auto& [name, tensor] : all.common) {
    if (name.starts_with("optimizer.")) copy[name] = tensor.cpu();
  }
  for (const auto& [name, tensor] : all.own) {
    if (name.starts_with("model.")) copy[name] = tensor.cpu();  // buffers
  }
  const int nodes = run_.deal().empty() ? world_.topology().nodes() : run_.deal().nodes;
  run_.copies().begin(joiners, exchange, copy,
                      {.key = world_.view()->key,
                       .limit = world_.limit(),
                       .exchange = strategy_options(run_.settings(), plan_, nodes).exchange,
                       .sends = !world_.view()->replayed});
  tell_copies();
}

void Course::tell_copies() {
  strategy_->on_answer([&copies = run_.copies()](std::int64_t exchange, const at::Tensor& answer) {
    copies.add(exchange, answer);
  });
}

}  // namespace daso
