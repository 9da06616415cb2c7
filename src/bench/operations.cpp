// SPDX-License-Identifier: Apache-2.0
#include "bench/operations.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "daso/base/error.h"

namespace daso::bench {
namespace {

// Whole periods of the pattern, so that a long tensor is some thousand copies at most.
at::Tensor stretch(const Pattern& pattern, std::int64_t offset, const at::Tensor& like) {
  constexpr std::int64_t kElements = 1 << 18;
  const std::int64_t periods = std::max<std::int64_t>(1, kElements / pattern.period());
  const std::int64_t elements = std::min(periods * pattern.period(), like.numel());
  std::vector<std::int64_t> values;
  values.reserve(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) values.push_back(pattern.at(offset + i));
  return at::tensor(values, at::kLong).to(like.scalar_type());
}

// Calls `each` for the pieces of the tensor with what they should hold, while it returns true.
bool walk(const at::Tensor& tensor, const Pattern& pattern, std::int64_t offset,
          const std::function<bool(const at::Tensor&, const at::Tensor&)>& each) {
  const at::Tensor values = stretch(pattern, offset, tensor);
  for (std::int64_t begin = 0; begin < tensor.numel(); begin += values.numel()) {
    const std::int64_t length = std::min(values.numel(), tensor.numel() - begin);
    if (!each(tensor.narrow(0, begin, length), values.narrow(0, 0, length))) return false;
  }
  return true;
}

}  // namespace

std::int64_t Pattern::at(std::int64_t index) const {
  switch (kind) {
    case Kind::kTotal:
      return 2 + index % 50 + index % 7;
    case Kind::kPart:
      return (index % ranks == rank ? 1 + index % 50 : 0) +
             ((index + 1) % ranks == rank ? 1 + index % 7 : 0);
    case Kind::kOwn:
      return (index % 50 + index % 7 + std::int64_t{3} * rank) % 101;
  }
  return 0;
}

void fill(const at::Tensor& tensor, const Pattern& pattern, std::int64_t offset) {
  walk(tensor, pattern, offset, [](const at::Tensor& piece, const at::Tensor& values) {
    piece.copy_(values);
    return true;
  });
}

bool matches(const at::Tensor& tensor, const Pattern& pattern, std::int64_t offset) {
  return walk(tensor.cpu(), pattern, offset, [](const at::Tensor& piece, const at::Tensor& values) {
    return piece.equal(values);
  });
}

namespace {

using Kind = Pattern::Kind;

constexpr int kRoot = 0;

Pattern pattern(const Communicator& ranks, Kind kind) {
  return {.kind = kind, .rank = ranks.rank(), .ranks = ranks.size()};
}

}  // namespace

Buffers moved_to(at::Device device, const Buffers& buffers) {
  const at::Tensor input = buffers.input.to(device);
  return {input, buffers.output.is_same(buffers.input) ? input : buffers.output.to(device)};
}

namespace {

Segment own_segment(const Communicator& ranks, std::int64_t elements) {
  return segment_of(elements, ranks.size(), ranks.rank());
}

int neighbour(const Communicator& ranks, int distance) {
  return (ranks.rank() + distance + ranks.size()) % ranks.size();
}

double twice_all_but_one(int ranks) { return 2.0 * (ranks - 1) / ranks; }
double all_but_one(int ranks) { return 1.0 * (ranks - 1) / ranks; }
double one(int) { return 1; }

Buffers in_place(const Communicator&, std::int64_t elements, at::ScalarType type) {
  const at::Tensor tensor = at::zeros({elements}, type);
  return {tensor, tensor};
}

Buffers two_whole(const Communicator&, std::int64_t elements, at::ScalarType type) {
  return {at::zeros({elements}, type), at::zeros({elements}, type)};
}

Buffers segment_out(const Communicator& ranks, std::int64_t elements, at::ScalarType type) {
  return {at::zeros({elements}, type), at::zeros({own_segment(ranks, elements).length()}, type)};
}

Buffers segment_in(const Communicator& ranks, std::int64_t elements, at::ScalarType type) {
  return {at::zeros({own_segment(ranks, elements).length()}, type), at::zeros({elements}, type)};
}

Buffers segment_from_each(const Communicator& ranks, std::int64_t elements, at::ScalarType type) {
  const std::int64_t received = own_segment(ranks, elements).length() * ranks.size();
  return {at::zeros({elements}, type), at::zeros({received}, type)};
}

void fill_part(const Communicator& ranks, std::int64_t, const Buffers& buffers) {
  fill(buffers.input, pattern(ranks, Kind::kPart), 0);
}

void fill_segment(const Communicator& ranks, std::int64_t elements, const Buffers& buffers) {
  fill(buffers.input, pattern(ranks, Kind::kTotal), own_segment(ranks, elements).begin);
}

void fill_own(const Communicator& ranks, std::int64_t, const Buffers& buffers) {
  fill(buffers.input, pattern(ranks, Kind::kOwn), 0);
}

void fill_root(const Communicator& ranks, std::int64_t, const Buffers& buffers) {
  buffers.input.zero_();
  if (ranks.rank() == kRoot) fill(buffers.input, pattern(ranks, Kind::kTotal), 0);
}

void perform_all_reduce(Communicator& ranks, const Buffers& buffers, Seconds limit) {
  ranks.all_reduce(buffers.input, Reduce::kSum).wait(limit);
}

void perform_reduce_scatter(Communicator& ranks, const Buffers& buffers, Seconds limit) {
  ranks.reduce_scatter(buffers.input, buffers.output, Reduce::kSum).wait(limit);
}

void perform_all_gather(Communicator& ranks, const Buffers& buffers, Seconds limit) {
  ranks.all_gather(buffers.input, buffers.output).wait(limit);
}

void perform_broadcast(Communicator& ranks, const Buffers& buffers, Seconds limit) {
  ranks.broadcast(buffers.input, kRoot).wait(limit);
}

void perform_all_to_all(Communicator& ranks, const Buffers& buffers, Seconds limit) {
  ranks.all_to_all(buffers.input, buffers.output).wait(limit);
}

// Around the ring: to the next rank, from the one before.
void perform_send_receive(Communicator& ranks, const Buffers& buffers, Seconds limit) {
  if (ranks.size() == 1) {  // nobody to send to: what would arrive is our own
    buffers.output.copy_(buffers.input);
    return;
  }
  Pending receiving = ranks.receive(buffers.output, neighbour(ranks, -1));
  Pending sending = ranks.send(buffers.input, neighbour(ranks, 1));
  std::move(sending).wait(limit);
  std::move(receiving).wait(limit);
}

bool total_everywhere(const Communicator& ranks, std::int64_t, const Buffers& buffers) {
  return matches(buffers.output, pattern(ranks, Kind::kTotal), 0);
}

bool total_in_segment(const Communicator& ranks, std::int64_t elements, const Buffers& buffers) {
  return matches(buffers.output, pattern(ranks, Kind::kTotal), own_segment(ranks, elements).begin);
}

bool segment_of_each(const Communicator& ranks, std::int64_t elements, const Buffers& buffers) {
  const Segment own = own_segment(ranks, elements);
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const Pattern theirs{.kind = Kind::kOwn, .rank = peer, .ranks = ranks.size()};
    const at::Tensor piece = buffers.output.narrow(0, peer * own.length(), own.length());
    if (!matches(piece, theirs, own.begin)) return false;
  }
  return true;
}

bool from_the_one_before(const Communicator& ranks, std::int64_t, const Buffers& buffers) {
  const Pattern theirs{.kind = Kind::kOwn, .rank = neighbour(ranks, -1), .ranks = ranks.size()};
  return matches(buffers.output, theirs, 0);
}

struct TypeName {
  const char* name;
  at::ScalarType type;
};
constexpr std::array<TypeName, 7> kTypes = {{{"float64", at::kDouble},
                                             {"float32", at::kFloat},
                                             {"bfloat16", at::kBFloat16},
                                             {"float16", at::kHalf},
                                             {"int8", at::kChar},
                                             {"int32", at::kInt},
                                             {"int64", at::kLong}}};

}  // namespace

const std::vector<BenchOperation>& bench_operations() {
  static const std::vector<BenchOperation> operations = {
      {"all_reduce", twice_all_but_one, in_place, fill_part, perform_all_reduce, total_everywhere},
      {"reduce_scatter", all_but_one, segment_out, fill_part, perform_reduce_scatter,
       total_in_segment},
      {"all_gather", all_but_one, segment_in, fill_segment, perform_all_gather, total_everywhere},
      {"broadcast", one, in_place, fill_root, perform_broadcast, total_everywhere},
      {"all_to_all", all_but_one, segment_from_each, fill_own, perform_all_to_all, segment_of_each},
      {"send_receive", one, two_whole, fill_own, perform_send_receive, from_the_one_before},
  };
  return operations;
}

std::vector<std::string> bench_operation_names() {
  std::vector<std::string> names;
  for (const BenchOperation& operation : bench_operations()) names.emplace_back(operation.name);
  return names;
}

const BenchOperation& bench_operation(const std::string& name) {
  const auto& all = bench_operations();
  const auto found = std::find_if(all.begin(), all.end(), [&](const BenchOperation& operation) {
    return operation.name == name;
  });
  DASO_ASSERT(found != all.end());
  return *found;
}

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  names.reserve(kTypes.size());
  for (const TypeName& type : kTypes) names.emplace_back(type.name);
  return names;
}

at::ScalarType type_of(const std::string& name) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const TypeName& type) { return type.name == name; });
  DASO_ASSERT(found != kTypes.end());
  return found->type;
}

}  // namespace daso::bench
