// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <optional>

namespace daso {

// While it lives, SIGTERM and SIGINT are noted instead of ending the process. One at a time.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  std::optional<int> signal() const;  // the first that came

 private:
  struct sigaction before_term_ {};
  struct sigaction before_int_ {};
};

}  // namespace daso
