// SPDX-License-Identifier: Apache-2.0
#include "daso/run/interrupt.h"

namespace daso {
namespace {

// A handler may touch nothing else.
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

}  // namespace daso
