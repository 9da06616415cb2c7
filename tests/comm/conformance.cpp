// SPDX-License-Identifier: Apache-2.0
#include "conformance.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "daso/base/error.h"
#include "daso/comm/ordered_mean.h"

namespace daso::test {
namespace {

const std::vector<at::ScalarType> kTypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf,
                                            at::kChar,   at::kInt,   at::kLong};
const std::vector<std::int64_t> kSizes = {0, 1, 2, 3, 5, 255, 1000, 65537};

// Small whole numbers, so that every type holds them and their sums exactly: element i of rank r is
// (i mod 5) + r.
at::Tensor pattern(std::int64_t elements, int rank, at::ScalarType type) {
  return (at::arange(elements, at::kLong).remainder(5) + rank).to(type);
}

// The same summed over ranks 0 ... n-1.
at::Tensor pattern_sum(std::int64_t elements, int ranks, at::ScalarType type) {
  const at::Tensor base = at::arange(elements, at::kLong).remainder(5);
  return (base * ranks + ranks * (ranks - 1) / 2).to(type);
}

at::Tensor cut(const at::Tensor& whole, int ranks, int rank) {
  const Segment part = segment_of(whole.size(0), ranks, rank);
  return whole.narrow(0, part.begin, part.length()).clone();
}

void for_types_and_sizes(const std::function<void(at::ScalarType, std::int64_t)>& body) {
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t elements : kSizes) {
      SCOPED_TRACE(fmt::format("{} elements of {}", elements, c10::toString(type)));
      body(type, elements);
    }
  }
}

void all_reduce_sums(World& world) {
  Communicator& all = world.everyone();
  for_types_and_sizes([&](at::ScalarType type, std::int64_t elements) {
    const at::Tensor sum =
        all.all_reduce(pattern(elements, all.rank(), type), Reduce::kSum).wait(world.limit());
    EXPECT_TRUE(at::equal(sum, pattern_sum(elements, all.size(), type)));
  });
}

void all_reduce_finds_extremes(World& world) {
  Communicator& all = world.everyone();
  for_types_and_sizes([&](at::ScalarType type, std::int64_t elements) {
    Pending least = all.all_reduce(pattern(elements, all.rank(), type), Reduce::kMin);
    Pending most = all.all_reduce(pattern(elements, all.rank(), type), Reduce::kMax);
    EXPECT_TRUE(
        at::equal(std::move(most).wait(world.limit()), pattern(elements, all.size() - 1, type)));
    EXPECT_TRUE(at::equal(std::move(least).wait(world.limit()), pattern(elements, 0, type)));
  });
}

void all_reduce_takes_the_mean_of_floats_only(World& world) {
  Communicator& all = world.everyone();
  const float mean = static_cast<float>(all.size() - 1) / 2;
  for (const at::ScalarType type : kTypes) {
    at::Tensor own = at::full({1777}, all.rank(), type);
    if (!at::isFloatingType(type)) {
      EXPECT_THROW(static_cast<void>(all.all_reduce(own, Reduce::kMean)), ConfigError);
      continue;
    }
    const at::Tensor got = all.all_reduce(own, Reduce::kMean).wait(world.limit());
    EXPECT_TRUE(at::equal(got, at::full({1777}, mean, type))) << c10::toString(type);
  }
}

void reduce_scatter_leaves_each_rank_its_segment(World& world) {
  Communicator& all = world.everyone();
  for_types_and_sizes([&](at::ScalarType type, std::int64_t elements) {
    const at::Tensor expected =
        cut(pattern_sum(elements, all.size(), type), all.size(), all.rank());
    const at::Tensor got = all.reduce_scatter(pattern(elements, all.rank(), type),
                                              at::empty_like(expected), Reduce::kSum)
                               .wait(world.limit());
    EXPECT_TRUE(at::equal(got, expected));
  });
}

void all_gather_puts_segments_together(World& world) {
  Communicator& all = world.everyone();
  for_types_and_sizes([&](at::ScalarType type, std::int64_t elements) {
    const at::Tensor whole = pattern(elements, 1, type);
    const at::Tensor got = all.all_gather(cut(whole, all.size(), all.rank()), at::zeros_like(whole))
                               .wait(world.limit());
    EXPECT_TRUE(at::equal(got, whole));
  });
}

void broadcast_spreads_roots_tensor(World& world) {
  Communicator& all = world.everyone();
  for_types_and_sizes([&](at::ScalarType type, std::int64_t elements) {
    const int root = static_cast<int>(elements) % all.size();
    const at::Tensor got =
        all.broadcast(pattern(elements, all.rank(), type), root).wait(world.limit());
    EXPECT_TRUE(at::equal(got, pattern(elements, root, type)));
  });
}

void all_to_all_sends_segment_r_to_rank_r(World& world) {
  Communicator& all = world.everyone();
  for_types_and_sizes([&](at::ScalarType type, std::int64_t elements) {
    std::vector<at::Tensor> expected;
    for (int rank = 0; rank < all.size(); ++rank) {
      expected.push_back(cut(pattern(elements, rank, type), all.size(), all.rank()));
    }
    const at::Tensor whole = at::cat(expected);
    const at::Tensor got =
        all.all_to_all(pattern(elements, all.rank(), type), at::zeros_like(whole))
            .wait(world.limit());
    EXPECT_TRUE(at::equal(got, whole));
  });
}

void tensors_are_cut_along_their_first_dimension(World& world) {
  Communicator& all = world.everyone();
  const at::Tensor whole = at::arange(7 * 4, at::kFloat).view({7, 4});
  const at::Tensor part = cut(whole, all.size(), all.rank());
  const at::Tensor got = all.all_gather(part, at::zeros_like(whole)).wait(world.limit());
  EXPECT_TRUE(at::equal(got, whole));
  const at::Tensor sum =
      all.reduce_scatter(whole.clone(), at::empty_like(part), Reduce::kSum).wait(world.limit());
  EXPECT_TRUE(at::equal(sum, part * all.size()));
}

void messages_go_round_the_ring(World& world) {
  Communicator& all = world.everyone();
  if (all.size() == 1) return;
  const int next = (all.rank() + 1) % all.size();
  const int before = (all.rank() + all.size() - 1) % all.size();
  for_types_and_sizes([&](at::ScalarType type, std::int64_t elements) {
    Pending sent = all.send(pattern(elements, all.rank(), type), next);
    Pending got = all.receive(at::zeros({elements}, type), before);
    EXPECT_TRUE(at::equal(std::move(got).wait(world.limit()), pattern(elements, before, type)));
    static_cast<void>(std::move(sent).wait(world.limit()));
  });
}

void several_operations_are_in_flight(World& world) {
  Communicator& all = world.everyone();
  std::vector<Pending> pending;
  for (int i = 0; i < 8; ++i) {
    pending.push_back(all.all_reduce(at::full({1000 + i}, i, at::kFloat), Reduce::kSum));
    pending.push_back(all.broadcast(at::full({10}, all.rank() + i, at::kInt), i % all.size()));
  }
  pending.push_back(all.barrier());
  for (int i = 7; i >= 0; --i) {  // waited for in another order than started
    const auto place = static_cast<std::size_t>(2 * i);
    EXPECT_TRUE(at::equal(std::move(pending[place]).wait(world.limit()),
                          at::full({1000 + i}, i * all.size(), at::kFloat)));
    EXPECT_TRUE(at::equal(std::move(pending[place + 1]).wait(world.limit()),
                          at::full({10}, i % all.size() + i, at::kInt)));
  }
  static_cast<void>(std::move(pending.back()).wait(world.limit()));
}

void an_operation_nobody_waits_for_disturbs_nobody(World& world) {
  Communicator& all = world.everyone();
  { const Pending dropped = all.all_reduce(at::ones({100000}), Reduce::kSum); }
  const at::Tensor sum = all.all_reduce(at::ones({3}), Reduce::kSum).wait(world.limit());
  EXPECT_TRUE(at::equal(sum, at::full({3}, all.size(), at::kFloat)));
}

void an_operation_is_done_once_all_take_part(World& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  Communicator& all = world.everyone();
  Communicator& others_may_begin = world.group(ranks, "others may begin");
  const auto let_begin = [&] { others_may_begin.barrier().wait(world.limit()); };
  if (world.rank() != 0) let_begin();
  Pending sum = all.all_reduce(at::ones({3}), Reduce::kSum);
  if (world.rank() == 0) {
    EXPECT_EQ(sum.done(), world.size() == 1);
    let_begin();
  }
  const Deadline deadline(world.limit());
  while (!sum.done() && !deadline.passed()) std::this_thread::yield();
  EXPECT_TRUE(sum.done());
  EXPECT_EQ(std::move(sum).wait(world.limit())[2].item<int>(), world.size());
}

void groups_of_some_ranks_work_side_by_side(World& world) {
  if (world.size() < 2) return;
  // Even and odd ranks each among themselves, then the node, then everyone.
  std::vector<int> alike;
  for (int rank = world.rank() % 2; rank < world.size(); rank += 2) alike.push_back(rank);
  Communicator& half = world.group(alike, world.rank() % 2 == 0 ? "even" : "odd");
  const at::Tensor sum =
      half.all_reduce(at::full({5}, world.rank(), at::kLong), Reduce::kSum).wait(world.limit());
  std::int64_t expected = 0;
  for (const int rank : alike) expected += rank;
  EXPECT_TRUE(at::equal(sum, at::full({5}, expected, at::kLong)));
  const auto& neighbours = world.topology().ranks_of(world.node());
  const at::Tensor count =
      world.node_group().all_reduce(at::ones({1}), Reduce::kSum).wait(world.limit());
  EXPECT_EQ(count.item<float>(), static_cast<float>(neighbours.size()));
}

void tensors_that_cannot_travel_are_refused(World& world) {
  Communicator& all = world.everyone();
  const at::Tensor square = at::zeros({4, 4});
  EXPECT_THROW(static_cast<void>(all.all_reduce(square.t(), Reduce::kSum)), ConfigError);
  EXPECT_THROW(static_cast<void>(all.all_reduce(at::zeros({2}, at::kBool), Reduce::kSum)),
               ConfigError);
  EXPECT_THROW(static_cast<void>(all.all_reduce(at::Tensor(), Reduce::kSum)), ConfigError);
  EXPECT_THROW(static_cast<void>(all.broadcast(square, all.size())), ConfigError);
  EXPECT_THROW(static_cast<void>(all.all_gather(at::zeros({3}), at::zeros({100 * all.size()}))),
               ConfigError);
  EXPECT_THROW(static_cast<void>(all.send(square, all.rank())), ConfigError);
}

// Numbers whose sum depends on the order of adding: the expected value is added up here, one
// rounded step after the other, from the last rank to the first.
void ordered_mean_adds_in_the_order_given(World& world) {
  Communicator& all = world.everyone();
  std::vector<Share> shares;
  for (int rank = all.size() - 1; rank >= 0; --rank) {
    shares.push_back({rank, static_cast<float>(rank + 1) / static_cast<float>(all.size() + 3)});
  }
  OrderedMean mean(all, shares);
  const auto values = [](int rank, std::int64_t elements) {
    const at::Tensor index = at::arange(elements, at::kDouble);
    return (at::sin(index * (rank + 1)) * at::pow(10.0, (index + rank).remainder(6) - 3))
        .to(at::kFloat);
  };
  for (const std::int64_t elements : kSizes) {
    std::vector<float> expected(static_cast<std::size_t>(elements));
    for (std::size_t n = 0; n < shares.size(); ++n) {
      const at::Tensor term = values(shares[n].rank, elements);
      for (std::int64_t i = 0; i < elements; ++i) {
        volatile float product =  // rounded, whatever the compiler would like
            shares[n].weight * term.const_data_ptr<float>()[i];
        auto& total = expected[static_cast<std::size_t>(i)];
        total = n == 0 ? product : total + product;
      }
    }
    const at::Tensor tensor = values(all.rank(), elements);
    mean(tensor, world.limit());
    const at::Tensor wanted = at::from_blob(expected.data(), {elements}, at::kFloat);
    EXPECT_TRUE(at::equal(tensor, wanted)) << elements;
  }
}

// Every rank gives 1, so the mean is 1; the owner of row r has r left over.
void ordered_mean_takes_the_owners_rest(World& world) {
  Communicator& all = world.everyone();
  std::vector<Share> shares;
  for (int rank = 0; rank < all.size(); ++rank) {
    shares.push_back({rank, 1.0F / static_cast<float>(all.size())});
  }
  OrderedMean mean(all, shares);
  const std::int64_t rows = 2 * all.size() + 1;
  const Segment own = segment_of(rows, all.size(), all.rank());
  const at::Tensor rest =
      at::arange(own.begin, own.end, at::kFloat).view({-1, 1}).repeat({1, 3}).contiguous();
  const at::Tensor tensor = at::ones({rows, 3});
  mean(tensor, world.limit(), rest);
  const at::Tensor wanted = 1 + at::arange(rows, at::kFloat).view({-1, 1}).repeat({1, 3});
  EXPECT_TRUE(at::allclose(tensor, wanted, 0, 1e-6));
  EXPECT_EQ(rest.abs().sum().item<float>(), 0);
}

}  // namespace

const std::vector<Conformance>& conformance_checks() {
  static const std::vector<Conformance> checks = {
      {"AllReduceSums", all_reduce_sums},
      {"AllReduceFindsExtremes", all_reduce_finds_extremes},
      {"AllReduceTakesTheMeanOfFloatsOnly", all_reduce_takes_the_mean_of_floats_only},
      {"ReduceScatterLeavesEachRankItsSegment", reduce_scatter_leaves_each_rank_its_segment},
      {"AllGatherPutsSegmentsTogether", all_gather_puts_segments_together},
      {"BroadcastSpreadsRootsTensor", broadcast_spreads_roots_tensor},
      {"AllToAllSendsSegmentRToRankR", all_to_all_sends_segment_r_to_rank_r},
      {"TensorsAreCutAlongTheirFirstDimension", tensors_are_cut_along_their_first_dimension},
      {"MessagesGoRoundTheRing", messages_go_round_the_ring},
      {"SeveralOperationsAreInFlight", several_operations_are_in_flight},
      {"AnOperationNobodyWaitsForDisturbsNobody", an_operation_nobody_waits_for_disturbs_nobody},
      {"AnOperationIsDoneOnceAllTakePart", an_operation_is_done_once_all_take_part},
      {"GroupsOfSomeRanksWorkSideBySide", groups_of_some_ranks_work_side_by_side},
      {"TensorsThatCannotTravelAreRefused", tensors_that_cannot_travel_are_refused},
      {"OrderedMeanAddsInTheOrderGiven", ordered_mean_adds_in_the_order_given},
      {"OrderedMeanTakesTheOwnersRest", ordered_mean_takes_the_owners_rest},
  };
  return checks;
}

}  // namespace daso::test
