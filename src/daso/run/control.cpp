// SPDX-License-Identifier: Apache-2.0
#include "daso/run/control.h"

#include <utility>

namespace daso {
Control::Control(World& world) : times_(world, "control") {}

Agreed Control::after_step(std::int64_t step, Request own, StepSeconds seconds) {
  times_.add(step, seconds);
  if (!times_.due(step)) return {};
  Agreed agreed;
  if (std::optional<Heard> heard = times_.collect()) {
    agreed = {static_cast<Request>(heard->largest_word), heard->late, std::move(heard->worked)};
  }
  // Who wishes does not know yet that all do it now: its wish would be granted twice.
  times_.tell(step, static_cast<double>(own == agreed.request ? Request::kNothing : own));
  return agreed;
}

}  // namespace daso
