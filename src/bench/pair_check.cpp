// SPDX-License-Identifier: Apache-2.0
#include "bench/pair_check.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdio>

#include "bench/operations.h"
#include "bench/statistics.h"
#include "daso/base/error.h"

namespace daso::bench {
namespace {

constexpr std::int64_t kSmallBytes = 8;
constexpr int kSmallWarmup = 10;  // also covers the messages that are compared over the store
constexpr int kSmallRounds = 100;
constexpr std::int64_t kLargeBytes = 16 << 20;
constexpr int kMostLargeRounds = 5;
constexpr double kLargeSeconds = 1;  // a slow network gets fewer rounds

// Two nodes as one of their first ranks sees them.
class Pair {
 public:
  Pair(World& world, int first, int second)
      : world_(world),
        first_rank_(world.topology().ranks_of(first).front()),
        second_rank_(world.topology().ranks_of(second).front()),
        name_(fmt::format("{} (rank {} on {}) and {} (rank {} on {})",
                          world.topology().name_of(first), first_rank_, world.host_of(first_rank_),
                          world.topology().name_of(second), second_rank_,
                          world.host_of(second_rank_))),
        group_name_(fmt::format("nodes {} and {}", first, second)) {}

  bool takes_part() const { return leads() || world_.rank() == second_rank_; }
  bool leads() const { return world_.rank() == first_rank_; }

  // One message there and back: do they reach each other at all?
  void connect() {
    named([this] { round_trip(at::zeros({1}, at::kLong)); });
  }

  PairResult measure() {
    PairResult result;
    named([&] {
      const at::Tensor small = at::zeros({kSmallBytes}, at::kChar);
      round_trips(small, kSmallWarmup);
      result.latency_seconds = round_trips(small, kSmallRounds) / 2;
      const at::Tensor large = at::zeros({kLargeBytes}, at::kChar);
      const int rounds = agreed_rounds(round_trips(large, 1));
      result.bytes_per_second = kLargeBytes / (round_trips(large, rounds) / 2);
    });
    return result;
  }

 private:
  // The world's failures name ranks; here the question is which pair of nodes it was. Printed at
  // once: what leaves the process as a PeerError may be taken for the echo of another rank's.
  template <typename Body>
  void named(const Body& body) {
    try {
      body();
    } catch (const PeerError& error) {
      fmt::print(stderr, "daso: the check between {} failed: {}\n", name_, error.what());
      throw;
    }
  }

  Communicator& group() { return world_.group({first_rank_, second_rank_}, group_name_); }

  void round_trip(const at::Tensor& message) {
    const Seconds limit = world_.limit();
    const int other = leads() ? 1 : 0;
    if (leads()) group().send(message, other).wait(limit);
    group().receive(message, other).wait(limit);
    if (!leads()) group().send(message, other).wait(limit);
  }

  // The median time of one, in seconds. What comes back must be what was sent.
  double round_trips(const at::Tensor& message, int rounds) {
    const Pattern sent{.kind = Pattern::Kind::kTotal};
    if (leads()) fill(message, sent, 0);
    std::vector<double> seconds;
    for (int i = 0; i < rounds; ++i) {
      const auto start = Clock::now();
      round_trip(message);
      seconds.push_back(since(start).count());
    }
    if (!matches(message, sent, 0)) {
      throw Error(fmt::format("a message between {} was changed on its way", name_));
    }
    return median(seconds);
  }

  // The leader's clock decides for both.
  int agreed_rounds(double seconds) {
    const double fit = std::clamp(kLargeSeconds / seconds, 1.0, 1.0 * kMostLargeRounds);
    const at::Tensor rounds = at::full({1}, static_cast<std::int64_t>(fit), at::kLong);
    round_trip(rounds);
    return rounds.item<int>();
  }

  World& world_;
  int first_rank_;
  int second_rank_;
  std::string name_;
  std::string group_name_;
};

// Before there is a group of everyone, whose making would fail without naming a pair.
void connect_all(World& world, std::vector<Pair>& pairs) {
  for (Pair& pair : pairs) {
    if (pair.takes_part()) pair.connect();
  }
  try {
    world.everyone().barrier().wait(world.limit());
  } catch (const PeerError& error) {
    throw PeerError(
        fmt::format("not all ranks have come past the first messages between nodes; a pair that "
                    "failed is named "
                    "by its own ranks: {}",
                    error.what()));
  }
}

}  // namespace

std::vector<PairResult> check_pairs(World& world) {
  std::vector<Pair> pairs;
  std::vector<PairResult> results;
  for (int second = 1; second < world.topology().nodes(); ++second) {
    for (int first = 0; first < second; ++first) {
      pairs.emplace_back(world, first, second);
      results.push_back({.first_node = first, .second_node = second});
    }
  }
  connect_all(world, pairs);
  const auto rows = static_cast<std::int64_t>(pairs.size());
  const at::Tensor measured = at::zeros({rows, 2}, at::kDouble);
  for (std::int64_t row = 0; row < rows; ++row) {
    world.everyone().barrier().wait(world.limit());  // one pair at a time has the network
    Pair& pair = pairs[static_cast<std::size_t>(row)];
    if (!pair.takes_part()) continue;
    const PairResult own = pair.measure();
    if (!pair.leads()) continue;
    measured[row][0] = own.latency_seconds;
    measured[row][1] = own.bytes_per_second;
  }
  const at::Tensor all = world.everyone().all_reduce(measured, Reduce::kSum).wait(world.limit());
  for (std::int64_t row = 0; row < rows; ++row) {
    PairResult& result = results[static_cast<std::size_t>(row)];
    result.latency_seconds = all[row][0].item<double>();
    result.bytes_per_second = all[row][1].item<double>();
  }
  return results;
}

}  // namespace daso::bench
