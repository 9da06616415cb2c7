// SPDX-License-Identifier: Apache-2.0
#include "daso/run/control.h"

#include <utility>

#include "daso/base/error.h"
#include "daso/comm/views.h"

namespace daso {

Control::Control(World& world, std::int64_t first)
    : views_(world.views()),
      first_(first),
      times_(world, "control"),
      broken_(world.view() && world.view()->replayed) {}

Agreed Control::after_step(std::int64_t step, Request own, StepSeconds seconds) {
  if (step < first_) return {};
  times_.add(step, seconds);
  if (broken_ || !times_.due(step)) return {};
  if (views_ == nullptr) return agree(step, own);
  Agreed agreed;
  bool heard = true;
  try {
    agreed = agree(step, own);
  } catch (const PeerError& error) {
    views_->trouble(error.what());
    heard = false;
  }
  // Nodes are lost, and this one trains on until its next exchange. What only some of its ranks have
  // heard does not count.
  broken_ = !views_->all(heard);
  return broken_ ? Agreed{} : agreed;
}

Agreed Control::agree(std::int64_t step, Request own) {
  Agreed agreed;
  if (std::optional<Heard> heard = times_.collect()) {
    agreed = {static_cast<Request>(heard->largest_word), heard->late, std::move(heard->worked)};
  }
  // Who wishes does not know yet that all do it now: its wish would be granted twice.
  times_.tell(step, static_cast<double>(own == agreed.request ? Request::kNothing : own));
  return agreed;
}

}  // namespace daso
