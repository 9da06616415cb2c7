// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/global/packed_formats.h"
#include "daso/global/wire_formats.h"

namespace daso::kernels {

template <typename... F>
struct FormatList {};

// In the order of the enumeration Wire.
template <typename V>
using Formats =
    FormatList<Fp32Format<V>, Bf16Format<V>, Fp16Format<V>, Int8Format<V>, Int4Format<V>>;

}  // namespace daso::kernels
