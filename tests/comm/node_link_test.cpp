// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/node_link.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "daso/base/error.h"
#include "daso/comm/link/staged_link.h"
#include "late_lane.h"
#include "link_checks.h"
#include "run_ranks.h"

namespace daso::test {
namespace {

enum class Way { kShared, kGroup, kStaged };

std::string name_of(const testing::TestParamInfo<Way>& way) {
  switch (way.param) {
    case Way::kShared:
      return "Shared";
    case Way::kGroup:
      return "Group";
    case Way::kStaged:
      return "Staged";
  }
  return "";
}

// The links of one rank: those of its world, or such as a rank with a device of its own has.
class Links {
 public:
  Links(World& world, Way way) : world_(world), staged_(way == Way::kStaged) {}

  NodeLink& operator[](const std::string& name) {
    NodeLink& host = world_.node_link(name);
    if (!staged_) return host;
    const std::lock_guard lock(mutex_);
    std::unique_ptr<NodeLink>& link = links_[name];
    if (!link) {
      link = std::make_unique<StagedLink>(host, at::kCPU, late_lane(), LinkName{.text = name},
                                          world_.guard());
    }
    return *link;
  }

 private:
  World& world_;
  const bool staged_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<NodeLink>> links_;
};

class NodeLinks : public testing::TestWithParam<Way> {
 protected:
  bool shared() const { return GetParam() != Way::kGroup; }
  std::string kind() const {
    const std::string pinned = GetParam() == Way::kStaged ? "pinned memory and " : "";
    return pinned + (shared() ? "shared memory" : "messages");
  }
  RankOptions options(int ranks, std::vector<std::string> nodes = {}) const {
    return {.ranks = ranks, .nodes = std::move(nodes), .edit = [share = shared()](auto& world) {
              world.share_memory = share;
            }};
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, NodeLinks, testing::Values(Way::kShared, Way::kGroup, Way::kStaged),
                         name_of);

TEST_P(NodeLinks, ReduceGivesEveryOwnerTheMeanOfItsSlice) {
  for (const int ranks : {2, 3, 5}) {
    run_ranks(options(ranks), [&](World& world) {
      Links links(world, GetParam());
      NodeLink& link = links["test"];
      EXPECT_EQ(link.rank(), world.rank());
      EXPECT_EQ(link.size(), ranks);
      EXPECT_EQ(link.shares_memory(), shared());
      EXPECT_EQ(link.kind(), kind());
      for (const std::int64_t elements : {0, 1, 255, 256, 1000, 1'500'001}) {
        expect_mean(link, elements, {.slices = ranks});
        expect_mean(link, elements, {.slices = 1, .first = ranks - 1});
        expect_mean(link, elements, {.slices = ranks - 1, .first = 1});
      }
    });
  }
}

TEST_P(NodeLinks, ReduceCutsAlongTheFirstDimension) {
  run_ranks(options(2), [&](World& world) {
    // Five rows of three: the first three belong to rank 0.
    const at::Tensor tensor = terms(15, world.rank()).view({5, 3});
    Links links(world, GetParam());
    links["test"].reduce(tensor, {.slices = 2}, kLimit);
    const at::Tensor mean = mean_of_terms(15, 2).view({5, 3});
    const Segment own = world.rank() == 0 ? Segment{0, 3} : Segment{3, 5};
    EXPECT_TRUE(at::equal(tensor.slice(0, own.begin, own.end), mean.slice(0, own.begin, own.end)));
  });
}

TEST_P(NodeLinks, GatherBringsEverySliceToEverybody) {
  for (const int ranks : {2, 3, 5}) {
    run_ranks(options(ranks), [&](World& world) {
      Links links(world, GetParam());
      NodeLink& link = links["test"];
      for (const Slices slices : {Slices{ranks, 0}, Slices{1, ranks - 1}, Slices{ranks - 1, 1}}) {
        for (const std::int64_t rows : {0, 1, 255, 256, 1000, 3'000'001}) {
          expect_gathered(link, {rows}, at::kChar, slices);
        }
        expect_gathered(link, {7, 11}, at::kFloat, slices);
        expect_gathered(link, {1000, 3, 701}, at::kFloat, slices);
        expect_gathered(link, {4, 0}, at::kFloat, slices);
        expect_gathered(link, {33, 2}, at::kDouble, slices);
        expect_gathered(link, {33, 2}, at::kByte, slices);
      }
    });
  }
}

TEST_P(NodeLinks, ManyOperationsInARowKeepApart) {
  run_ranks(options(3), [&](World& world) {
    Links links(world, GetParam());
    NodeLink& link = links["test"];
    std::mt19937 random(1711);  // the same on all ranks
    const auto any = [&](int from, int to) {
      return std::uniform_int_distribution<int>(from, to)(random);
    };
    for (int i = 0; i < 400; ++i) {
      const int slices = any(1, 3);
      const Slices cut{.slices = slices, .first = any(0, 3 - slices)};
      const std::int64_t elements = i % 20 == 0 ? any(0, 400'000) : any(0, 3000);
      if (any(0, 1) == 0) {
        expect_mean(link, elements, cut);
      } else {
        expect_gathered(link, {elements}, any(0, 1) == 0 ? at::kChar : at::kFloat, cut, i);
      }
    }
  });
}

TEST_P(NodeLinks, TwoLinksAreUsedByTwoThreadsAtOnce) {
  run_ranks(options(3), [&](World& world) {
    Links links(world, GetParam());
    const auto use = [&](const std::string& name, int salt) {
      NodeLink& link = links[name];
      for (int i = 0; i < 50; ++i) {
        expect_mean(link, 5000 + salt * i, {.slices = 3});
        expect_gathered(link, {100, 30}, at::kFloat, {.slices = 3}, i + salt);
      }
      EXPECT_EQ(&links[name], &link);
    };
    std::jthread other([&] { use("other", 1); });
    use("own", 2);
  });
}

TEST_P(NodeLinks, NodesDoNotDisturbEachOther) {
  // Node a has ranks 0, 2 and 3, node b has 1 and 4, node c has 5 alone.
  run_ranks(options(6, {"a", "b", "a", "a", "b", "c"}), [&](World& world) {
    Links links(world, GetParam());
    NodeLink& link = links["test"];
    EXPECT_EQ(link.size(), std::vector<int>({3, 2, 1}).at(static_cast<std::size_t>(world.node())));
    for (int i = 0; i < 20; ++i) {
      expect_mean(link, 1000 * (world.node() + 1), {.slices = link.size()});
      expect_gathered(link, {500, 2}, at::kInt, {.slices = link.size()}, i);
    }
  });
}

TEST_P(NodeLinks, ANodeOfOneRankKeepsWhatItHas) {
  run_ranks(options(1), [&](World& world) {
    Links links(world, GetParam());
    NodeLink& link = links["test"];
    EXPECT_EQ(link.size(), 1);
    for (const std::int64_t elements : {0, 1, 255, 256, 1000}) {
      expect_mean(link, elements, {});
      expect_gathered(link, {elements}, at::kChar, {});
    }
  });
}

TEST_P(NodeLinks, WhatDoesNotFitIsRefused) {
  run_ranks(options(2), [&](World& world) {
    Links links(world, GetParam());
    NodeLink& link = links["test"];
    EXPECT_THROW(link.reduce(at::ones({4}, at::kDouble), {}, kLimit), ConfigError);
    EXPECT_THROW(link.reduce(at::ones({4, 4}).t(), {}, kLimit), ConfigError);
    EXPECT_THROW(link.reduce(at::ones({4}), {.slices = 0}, kLimit), ConfigError);
    EXPECT_THROW(link.gather(at::ones({4}), {.slices = 2, .first = 1}, kLimit), ConfigError);
    EXPECT_THROW(link.gather(at::ones({4}), {.slices = 1, .first = -1}, kLimit), ConfigError);
    expect_mean(link, 1000, {.slices = 2});
  });
}

TEST_P(NodeLinks, RanksThatCallDifferentThingsAreNamed) {
  const auto differ = [&](const std::function<void(NodeLink&)>& call) {
    const auto errors = run_places(options(3), [&](const WorldOptions& place) {
      World world = World::join(place);
      Links links(world, GetParam());
      expect_mean(links["test"], 100, {.slices = 3});
      call(links["test"]);
    });
    for (const auto& error : errors) {
      EXPECT_EQ(exit_code_of(error), kExitConfig) << text_of(error);
      EXPECT_NE(text_of(error).find("operation #1 in group 'node 0 link test' differs between"),
                std::string::npos)
          << text_of(error);
      EXPECT_NE(text_of(error).find("rank 2 calls"), std::string::npos) << text_of(error);
    }
  };
  differ([](NodeLink& link) {
    link.reduce(at::ones({link.rank() == 2 ? 1'000'000 : 1000}), {.slices = 3}, kLimit);
  });
  differ([](NodeLink& link) {
    if (link.rank() == 2) {
      link.gather(at::ones({9}), {.slices = 3}, kLimit);
    } else {
      link.reduce(at::ones({9}), {.slices = 3}, kLimit);
    }
  });
}

TEST(NodeLink, OneRankThatMayNotShareMakesAllTakeTheGroup) {
  RankOptions options{
      .ranks = 3, .edit = [](WorldOptions& world) { world.share_memory = world.place.rank != 1; }};
  run_ranks(options, [](World& world) {
    NodeLink& link = world.node_link("test");
    EXPECT_FALSE(link.shares_memory());
    expect_mean(link, 1000, {.slices = 3});
  });
}

TEST(NodeLink, TakesTheGroupWhereMemoryIsNotToBeHad) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit little = before;
  little.rlim_cur = 4096;  // bytes of a file, and so of shared memory
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  run_ranks({.ranks = 2}, [](World& world) {
    NodeLink& link = world.node_link("test");
    EXPECT_FALSE(link.shares_memory());
    expect_mean(link, 1000, {.slices = 2});
  });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
}

// The order of the sum is that of the ranks, whoever adds: 2^24 + 1 is 2^24 in fp32, so
// (2^24 + 1) + -2^24 is 0 and not 1.
TEST(NodeLink, AddsInTheOrderOfTheRanks) {
  run_ranks({.ranks = 3}, [](World& world) {
    const float values[] = {16777216.0F, 1.0F, -16777216.0F};
    const at::Tensor tensor = at::full({300}, values[world.rank()]);
    world.node_link("test").reduce(tensor, {.slices = 3}, kLimit);
    const at::Tensor own = tensor.slice(0, world.rank() * 100, world.rank() * 100 + 100);
    EXPECT_TRUE(at::equal(own, at::zeros({100})));
  });
}

TEST(NodeLink, LeavesNoNameBehind) {
  run_ranks({.ranks = 2}, [](World& world) {
    NodeLink& link = world.node_link("test");
    ASSERT_TRUE(link.shares_memory());
    // After an operation both have opened the link, and the first has taken the name away.
    expect_mean(link, 1000, {.slices = 2});
    int mapped = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("/dev/shm/daso-") == std::string::npos) continue;
      ++mapped;
      EXPECT_TRUE(line.ends_with(" (deleted)")) << line;
    }
    EXPECT_EQ(mapped, 2);
    static_cast<void>(world.everyone().barrier().wait(kLimit));  // nobody unmaps before
  });
}

TEST(NodeLink, SaysWhoIsLate) {
  RankOptions options{.ranks = 3};
  const auto errors = run_places(options, [&](const WorldOptions& place) {
    World world = World::join(place);
    NodeLink& link = world.node_link("test");
    expect_mean(link, 100, {.slices = 3});
    if (world.rank() != 1) return link.reduce(at::ones({10}), {.slices = 3}, Seconds(0.3));
    // Waits for something else meanwhile.
    static_cast<void>(world.group({1, 2}, "nobody comes"));
  });
  for (const auto& error : errors) {
    EXPECT_EQ(exit_code_of(error), kExitPeer);
    EXPECT_NE(text_of(error).find("not done within 0.3 s"), std::string::npos) << text_of(error);
  }
  EXPECT_NE(text_of(errors[0]).find("not there yet, though alive: rank 1 (at #1)"),
            std::string::npos)
      << text_of(errors[0]);
}

// A rank that is gone holds no lock any more, though the process lives on: its thread ended.
TEST(NodeLink, NoticesThatARankHasGone) {
  const auto errors = run_places({.ranks = 3}, [&](const WorldOptions& place) {
    World world = World::join(place);
    NodeLink& link = world.node_link("test");
    expect_mean(link, 100, {.slices = 3});
    if (world.rank() == 1) return;
    const auto start = Clock::now();
    EXPECT_THROW(link.reduce(at::ones({10}), {.slices = 3}, kLimit), PeerError);
    EXPECT_LT(since(start).count(), 5.0);
    link.reduce(at::ones({10}), {.slices = 3}, kLimit);  // refused at once
  });
  for (const int rank : {0, 2}) {
    const std::string text = text_of(errors.at(static_cast<std::size_t>(rank)));
    EXPECT_NE(text.find("rank 1 (a on host "), std::string::npos) << text;
    EXPECT_NE(text.find("in group 'node 0 link test'"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace daso::test
