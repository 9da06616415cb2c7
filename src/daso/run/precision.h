// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace daso {

// Of the forward and backward arithmetic. Parameters, gradients, the optimizer and all that travels
// stay fp32.
enum class Precision { kFp32, kBf16, kFp16 };

// What --precision takes; none if nothing has this name.
std::string_view name_of(Precision precision);
std::optional<Precision> find_precision(std::string_view name);

// While it lives, LibTorch casts the inputs of convolutions and matrix products of this thread, and
// leaves what needs the range to fp32 (autocast).
class Autocast {
 public:
  explicit Autocast(Precision precision);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  const bool active_;
};

}  // namespace daso
