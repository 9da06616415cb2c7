// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/exchange_loops.h"
#include "daso/kernels/kernels.h"
#include "daso/kernels/mean_loops.h"
#include "daso/kernels/place_loops.h"
#include "daso/kernels/rows_loops.h"
#include "daso/kernels/update_loops.h"
#include "daso/kernels/value_loops.h"

// The table of all loops, over a vector type V of simd/.
namespace daso::kernels {

template <typename V, typename F>
constexpr WireKernels wire_kernels() {
  return {encode_blocks<V, F>,       decode_blocks<V, F>,      average_blocks<V, F>,
          merge_blocks<V, F, false>, merge_blocks<V, F, true>, squared_distance<V, F>};
}

template <typename V, typename... F>
constexpr Kernels table_over_formats(FormatList<F...> /*formats*/) {
  static_assert(sizeof...(F) == kWires);
  return {.host = true,
          .wires = {wire_kernels<V, F>()...},
          .mean = mean_loop<V>,
          .digest = digest_loop<V>,
          .finite_check = finite_loop<V>,
          .squares = squares_loop<V>,
          .clip = nullptr,
          .sgd = sgd_loop<V>,
          .lars = lars_loop<V>,
          .adamw = adamw_loop<V>,
          .lamb = lamb_loop<V>,
          .ema = ema_loop<V>,
          .rows = rows_loop<V>,
          .pixels = pixels_loop<V>,
          .place = place_loop<V>};
}

template <typename V>
constexpr Kernels table_over() {
  return table_over_formats<V>(Formats<V>{});
}

}  // namespace daso::kernels
