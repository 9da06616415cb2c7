// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "daso/comm/communicator.h"

// The collectives that `daso bench comm` measures, as a table.
namespace daso::bench {

// What one rank brings and gets. In operations that work in place both are the same tensor.
struct Buffers {
  at::Tensor input;
  at::Tensor output;
};

// Sizes and bus bandwidth are those of nccl-tests (doc/PERFORMANCE.md there, docs/measuring.md
// here): `elements` is the full tensor, of which all_gather's input and reduce_scatter's output are
// a rank's segment, and
//   bus bandwidth = bus_factor(ranks) * bytes / seconds
// is what a link carries in the best algorithm, whatever the number of ranks.
struct BenchOperation {
  const char* name;
  double (*bus_factor)(int ranks);
  Buffers (*allocate)(const Communicator& ranks, std::int64_t elements, at::ScalarType type);
  void (*fill)(const Communicator& ranks, std::int64_t elements, const Buffers& buffers);
  void (*perform)(Communicator& ranks, const Buffers& buffers, Seconds limit);  // blocks
  bool (*right)(const Communicator& ranks, std::int64_t elements, const Buffers& buffers);
};

const std::vector<BenchOperation>& bench_operations();
std::vector<std::string> bench_operation_names();
const BenchOperation& bench_operation(const std::string& name);

std::vector<std::string> type_names();
at::ScalarType type_of(const std::string& name);

}  // namespace daso::bench
