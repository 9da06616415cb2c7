// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "daso/comm/communicator.h"

// The collectives that `daso bench comm` measures, as a table, and the values that they move.
namespace daso::bench {

// Values whose reductions are known in closed form. They are whole numbers of at most 100, so they
// and all their partial sums are exact in every type, down to int8 and bfloat16, for any number of
// ranks. What the element at `index` of a tensor holds:
//   kTotal:  2 + index % 50 + index % 7
//   kPart:   this rank's share of kTotal: 1 + index % 50 on rank index % ranks, and 1 + index % 7
//            on the rank after it, else 0. Every element is a sum of two ranks' values, so neither
//            a missing rank nor a maximum in place of the sum goes unnoticed.
//   kOwn:    (index % 50 + index % 7 + 3 * rank) % 101, different on neighbouring ranks
struct Pattern {
  enum class Kind { kTotal, kPart, kOwn };
  Kind kind = Kind::kTotal;
  int rank = 0;
  int ranks = 1;

  std::int64_t at(std::int64_t index) const;
  std::int64_t period() const { return std::int64_t{50} * 7 * ranks; }
};

// The whole tensor, one-dimensional; its first element has index `offset`.
void fill(const at::Tensor& tensor, const Pattern& pattern, std::int64_t offset);
bool matches(const at::Tensor& tensor, const Pattern& pattern, std::int64_t offset);

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

// The same on a device.
Buffers moved_to(at::Device device, const Buffers& buffers);

const std::vector<BenchOperation>& bench_operations();
std::vector<std::string> bench_operation_names();
const BenchOperation& bench_operation(const std::string& name);

std::vector<std::string> type_names();
at::ScalarType type_of(const std::string& name);

}  // namespace daso::bench
