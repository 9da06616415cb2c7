// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/packed_formats.h"
#include "daso/kernels/wire_formats.h"

namespace daso::kernels {

template <typename... F>
struct FormatList {};

// In the order of the enumeration Wire.
template <typename V>
using Formats =
    FormatList<Fp32Format<V>, Bf16Format<V>, Fp16Format<V>, Int8Format<V>, Int4Format<V>,
               QsgdFormat<V, 1>, QsgdFormat<V, 2>, QsgdFormat<V, 3>, QsgdFormat<V, 4>,
               QsgdFormat<V, 5>, QsgdFormat<V, 6>, QsgdFormat<V, 7>, QsgdFormat<V, 8>>;

}  // namespace daso::kernels
