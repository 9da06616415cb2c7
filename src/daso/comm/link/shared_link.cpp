// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/link/shared_link.h"

#include <algorithm>
#include <cstring>

#include "daso/base/error.h"
#include "daso/kernels/mean.h"

namespace daso {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLine = 128;  // two cache lines: processors fetch them in pairs
constexpr std::size_t kBoxBytes = 512 * 1024;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// The barrier's state, an order of each rank and parity, then the boxes.
constexpr std::size_t kOrders = rounded_up(sizeof(BarrierState), kPage);

std::size_t place_of(int rank, std::size_t parity) {
  return 2 * static_cast<std::size_t>(rank) + parity;
}

std::size_t boxes_at(int ranks) { return rounded_up(kOrders + place_of(ranks, 0) * kLine, kPage); }

}  // namespace

// The parts of every slice that go through the boxes together, counted in elements from the start
// of the slice. At least one, be it empty: an operation on nothing is still compared.
class SharedLink::Chunks {
 public:
  Chunks(const Cut& cut, std::int64_t most) : cut_(cut) {
    number_ = std::max<std::int64_t>(1, (cut.longest() + most - 1) / most);
    const std::int64_t even = (cut.longest() + number_ - 1) / number_;
    length_ = std::min(
        most, static_cast<std::int64_t>(rounded_up(static_cast<std::size_t>(even), kLine)));
  }
  std::int64_t number() const { return number_; }
  std::int64_t length() const { return length_; }
  // The part of this slice, in elements of the tensor.
  Segment of(std::int64_t chunk, int slice) const {
    const Segment whole = cut_.of(slice);
    return {std::min(whole.begin + chunk * length_, whole.end),
            std::min(whole.begin + (chunk + 1) * length_, whole.end)};
  }

 private:
  const Cut& cut_;
  std::int64_t number_;
  std::int64_t length_;
};

std::size_t SharedLink::bytes_needed(int ranks) {
  return boxes_at(ranks) + place_of(ranks, 0) * kBoxBytes;
}

SharedLink::SharedLink(SharedMemory memory, LinkName name, Guard guard)
    : memory_(std::move(memory)),
      barrier_(memory_, name.rank, static_cast<int>(name.ranks.size())),
      name_(std::move(name)),
      guard_(std::move(guard)),
      terms_(name_.ranks.size()) {
  DASO_ASSERT(size() >= 2 && memory_.bytes().size() == bytes_needed(size()));
}

void SharedLink::reduce(const at::Tensor& tensor, Slices slices, Seconds limit) {
  const Cut cut("reduce", tensor, slices, size());
  check_reduced(tensor);
  const Now now = begin({.reduces = 1,
                         .slices = slices.slices,
                         .first = slices.first,
                         .rows = cut.rows(),
                         .bytes = static_cast<std::int64_t>(tensor.nbytes())},
                        limit);
  float* data = tensor.mutable_data_ptr<float>();
  const auto box = static_cast<std::int64_t>(kBoxBytes / sizeof(float));
  const Chunks chunks(cut, box / cut.slices());
  const auto fill = [&](std::int64_t chunk, std::size_t parity) {
    float* own = reinterpret_cast<float*>(box_of(rank(), parity));
    for (int slice = 0; slice < cut.slices(); ++slice) {
      const Segment part = chunks.of(chunk, slice);
      if (cut.owner(slice) == rank() || part.length() == 0) continue;
      std::memcpy(own + slice * chunks.length(), data + part.begin,
                  static_cast<std::size_t>(part.length()) * sizeof(float));
    }
  };
  const auto read = [&](std::int64_t chunk, std::size_t parity) {
    if (!cut.owns(rank())) return;
    const int slice = rank() - slices.first;
    const Segment part = chunks.of(chunk, slice);
    for (int peer = 0; peer < size(); ++peer) {
      const float* given = reinterpret_cast<const float*>(box_of(peer, parity));
      terms_[static_cast<std::size_t>(peer)] =
          peer == rank() ? data + part.begin : given + slice * chunks.length();
    }
    plain_mean(terms_, {data + part.begin, static_cast<std::size_t>(part.length())});
  };
  pass(now, chunks, fill, read);
}

void SharedLink::gather(const at::Tensor& tensor, Slices slices, Seconds limit) {
  const Cut cut("gather", tensor, slices, size());
  const Now now = begin({.reduces = 0,
                         .slices = slices.slices,
                         .first = slices.first,
                         .rows = cut.rows(),
                         .bytes = static_cast<std::int64_t>(tensor.nbytes())},
                        limit);
  auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr());
  const auto element = static_cast<std::int64_t>(tensor.element_size());
  const Chunks chunks(cut, static_cast<std::int64_t>(kBoxBytes) / element);
  const auto fill = [&](std::int64_t chunk, std::size_t parity) {
    if (!cut.owns(rank())) return;
    const Segment part = chunks.of(chunk, rank() - slices.first);
    if (part.length() == 0) return;
    std::memcpy(box_of(rank(), parity), data + part.begin * element,
                static_cast<std::size_t>(part.length() * element));
  };
  const auto read = [&](std::int64_t chunk, std::size_t parity) {
    for (int slice = 0; slice < cut.slices(); ++slice) {
      const Segment part = chunks.of(chunk, slice);
      if (cut.owner(slice) == rank() || part.length() == 0) continue;
      std::memcpy(data + part.begin * element, box_of(cut.owner(slice), parity),
                  static_cast<std::size_t>(part.length() * element));
    }
  };
  pass(now, chunks, fill, read);
}

SharedLink::Now SharedLink::begin(const Order& order, Seconds limit) {
  const Now now{.order = order,
                .number = name_.begun->fetch_add(1),
                .limit = limit,
                .deadline = Deadline(limit)};
  if (const auto failure = guard_.alarm->raised()) throw_failure(call_of(now), *failure);
  return now;
}

template <typename Fill, typename Read>
void SharedLink::pass(const Now& now, const Chunks& chunks, const Fill& fill, const Read& read) {
  for (std::int64_t chunk = 0; chunk < chunks.number(); ++chunk) {
    const std::size_t parity = barrier_.next() % 2;
    if (chunk == 0) order_of(rank(), parity) = now.order;
    fill(chunk, parity);
    meet(now);
    if (chunk == 0) compare(now, parity);
    read(chunk, parity);
  }
}

void SharedLink::meet(const Now& now) {
  switch (barrier_.meet(*guard_.alarm, now.deadline)) {
    case SharedBarrier::Outcome::kAll:
      return;
    case SharedBarrier::Outcome::kRaised:
      throw_failure(call_of(now), *guard_.alarm->raised());
    case SharedBarrier::Outcome::kLost: {
      const int lost = name_.ranks[static_cast<std::size_t>(*barrier_.lost())];
      throw_failure(call_of(now), guard_.lookout->ring(fmt::format(
                                      "rank {} has left the node's shared memory", lost)));
    }
    case SharedBarrier::Outcome::kLate:
      throw_failure(call_of(now),
                    guard_.lookout->ring(fmt::format("not done within {} s", now.limit.count())));
  }
}

void SharedLink::compare(const Now& now, std::size_t parity) {
  for (int peer = 0; peer < size(); ++peer) {
    const Order& other = order_of(peer, parity);
    if (other == now.order) continue;
    const Failure mismatch{
        .kind = Failure::Kind::kConfig,
        .text = fmt::format("operation #{} in group '{}' differs between ranks: rank {} calls {}, "
                            "rank {} calls {}; all ranks of a node must call the same operations "
                            "in the same order",
                            now.number, name_.text, name_.ranks[static_cast<std::size_t>(rank())],
                            now.order.text(), name_.ranks[static_cast<std::size_t>(peer)],
                            other.text())};
    throw_failure(call_of(now), guard_.lookout->spread(mismatch));
  }
}

std::string SharedLink::Order::text() const {
  return text_of_cut(reduces != 0 ? "reduce" : "gather", bytes, rows, {slices, first});
}

Call SharedLink::call_of(const Now& now) const {
  return {.what = now.order.text(), .group = name_.text, .number = now.number};
}

SharedLink::Order& SharedLink::order_of(int rank, std::size_t parity) const {
  static_assert(sizeof(Order) <= kLine);
  std::byte* place = memory_.bytes().data() + kOrders + place_of(rank, parity) * kLine;
  return *reinterpret_cast<Order*>(place);
}

std::byte* SharedLink::box_of(int rank, std::size_t parity) const {
  return memory_.bytes().data() + boxes_at(size()) + place_of(rank, parity) * kBoxBytes;
}

}  // namespace daso
