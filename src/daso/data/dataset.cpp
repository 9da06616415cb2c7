// SPDX-License-Identifier: Apache-2.0
#include "daso/data/dataset.h"

#include <fmt/format.h>

namespace daso {

std::string text_of(const InputShape& shape) {
  if (shape.kind == InputKind::kText) return fmt::format("{} tokens", shape.width);
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

}  // namespace daso
