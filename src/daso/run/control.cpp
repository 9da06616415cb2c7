// SPDX-License-Identifier: Apache-2.0
#include "daso/run/control.h"

#include <utility>

namespace daso {
namespace {

// A signal's handler may touch nothing else.
volatile std::sig_atomic_t noted = 0;

void note(int signal) {
  if (noted == 0) noted = signal;
}

}  // namespace

Interrupt::Interrupt() {
  noted = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, &before_term_);
  ::sigaction(SIGINT, &action, &before_int_);
}

Interrupt::~Interrupt() {
  ::sigaction(SIGTERM, &before_term_, nullptr);
  ::sigaction(SIGINT, &before_int_, nullptr);
}

std::optional<int> Interrupt::signal() const {
  return noted == 0 ? std::nullopt : std::optional<int>(noted);
}

Control::Control(World& world) : times_(world, "control") {}

Agreed Control::after_step(std::int64_t step, Request own, double worked) {
  times_.add(step, worked);
  if (!StepTimes::due(step)) return {};
  Agreed agreed;
  if (std::optional<Heard> heard = times_.collect()) {
    agreed = {static_cast<Request>(heard->largest_word), heard->late, std::move(heard->worked)};
  }
  // Who wishes does not know yet that all do it now: its wish would be granted twice.
  times_.tell(step, static_cast<double>(own == agreed.request ? Request::kNothing : own));
  return agreed;
}

}  // namespace daso
