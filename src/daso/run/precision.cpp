// SPDX-License-Identifier: Apache-2.0
#include "daso/run/precision.h"

#include <ATen/autocast_mode.h>

#include <array>
#include <utility>

#include "daso/base/error.h"

namespace daso {
namespace {

constexpr std::array kNames = {std::pair{"fp32", Precision::kFp32},
                               std::pair{"bf16", Precision::kBf16},
                               std::pair{"fp16", Precision::kFp16}};

}  // namespace

std::string_view name_of(Precision precision) {
  for (const auto& [name, value] : kNames) {
    if (value == precision) return name;
  }
  return "";
}

std::optional<Precision> find_precision(std::string_view name) {
  for (const auto& [known, value] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

Autocast::Autocast(Precision precision) : active_(precision != Precision::kFp32) {
  if (!active_) return;
  DASO_ASSERT(!at::autocast::is_autocast_enabled(at::kCPU));  // one at a time
  at::autocast::set_autocast_dtype(at::kCPU,
                                   precision == Precision::kBf16 ? at::kBFloat16 : at::kHalf);
  at::autocast::set_autocast_enabled(at::kCPU, true);
}

Autocast::~Autocast() {
  if (!active_) return;
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();  // of parameters, which the next step changes
}

}  // namespace daso
