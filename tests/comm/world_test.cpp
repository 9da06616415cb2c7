// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/world.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <thread>

#include "daso/base/error.h"
#include "daso/comm/alarm.h"
#include "daso/comm/lookout.h"
#include "daso/comm/operation.h"
#include "daso/comm/rendezvous.h"
#include "daso/comm/views.h"
#include "run_ranks.h"
#include "scripted_view.h"

namespace daso::test {
namespace {

using testing::Test;

// Every rank must refuse, with this exit code, and say all of these words.
void expect_all(const std::vector<std::exception_ptr>& errors, int code,
                const std::vector<std::string>& words) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    EXPECT_EQ(exit_code_of(errors[rank]), code) << "rank " << rank << ": " << text_of(errors[rank]);
    for (const std::string& word : words) {
      EXPECT_NE(text_of(errors[rank]).find(word), std::string::npos)
          << "rank " << rank << " does not say '" << word << "': " << text_of(errors[rank]);
    }
  }
}

void join_only(const WorldOptions& options) {
  World world = World::join(options);
  world.leave();
}

TEST(World, OfOneNeedsNoStore) {
  World world = World::alone();
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.topology().nodes(), 1);
  const at::Tensor same =
      world.everyone().all_reduce(at::full({3}, 7), Reduce::kSum).wait(Seconds(1));
  EXPECT_TRUE(at::equal(same, at::full({3}, 7)));
}

// A view that ends when a test says so.
class EndingView final : public Decisions {
 public:
  Start start(std::int64_t /*exchange*/) override { return Start::kGoes; }
  void prepared(std::int64_t /*exchange*/) override {}
  bool committed(std::int64_t /*exchange*/, Seconds /*limit*/) override { return false; }
  bool ended() override { return false; }
  void when_ended(std::function<void()> action) override {
    const std::lock_guard lock(mutex_);
    actions_.push_back(std::move(action));
  }
  void end() {
    const std::lock_guard lock(mutex_);
    for (const auto& action : actions_) action();
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> actions_;
};

// Ranks of one node, whose worlds may end without a farewell.
void run_node(int ranks, const std::shared_ptr<EndingView>& view,
              const std::function<void(World&)>& body) {
  const std::vector<std::string> nodes(static_cast<std::size_t>(ranks), "a");
  const auto errors =
      run_places(in_view(nodes, {{"a", 0}}, view), [&](const WorldOptions& options) {
        World world = World::join(options);
        body(world);
      });
  for (const std::exception_ptr& error : errors) EXPECT_EQ(text_of(error), "");
}

// A device is about to end what it has been given, whoever else is lost.
TEST(World, WaitsForItsDeviceAfterTheEndOfItsView) {
  const auto view = std::make_shared<EndingView>();
  run_node(1, view, [&](World& world) {
    world.enter();
    view->end();
    ASSERT_TRUE(world.guard().alarm->raised());
    int asked = 0;
    world.wait_until([&] { return ++asked == 100; }, "computing a step");
    EXPECT_EQ(asked, 100);
  });
}

TEST(World, LetsTheRanksOfANodeEndWhatTheyDoAfterTheEndOfTheirView) {
  const auto view = std::make_shared<EndingView>();
  run_node(2, view, [&](World& world) {
    NodeLink& link = world.node_link("steps");
    world.enter();
    if (world.rank() == 1) view->end();
    const at::Tensor values = at::full({2}, world.rank(), at::kFloat);
    link.gather(values, {.slices = 2}, world.limit());
    EXPECT_EQ(values[1].item<float>(), 1);
  });
}

// The other rank has given up, and does not come.
TEST(World, EndsWhatRanksOfANodeDoWithItsViewUntilTheyHaveEntered) {
  const auto view = std::make_shared<EndingView>();
  std::promise<void> joined;
  run_node(2, view, [&](World& world) {
    if (world.rank() == 0) {
      joined.set_value();
      EXPECT_THROW(world.node_link("steps"), PeerError);
      return;
    }
    joined.get_future().wait();
    view->end();
  });
}

TEST(World, IsEnteredByAllRanksOfANodeOrByNone) {
  const auto view = std::make_shared<EndingView>();
  std::promise<void> joined;
  run_node(2, view, [&](World& world) {
    if (world.rank() == 0) {
      joined.set_value();
      const Clock::time_point start = Clock::now();
      EXPECT_THROW(world.enter(), PeerError);
      EXPECT_LT(since(start), world.limit() / 2);
      return;
    }
    joined.get_future().wait();
    view->end();
  });
}

TEST(World, NumbersNodesByTheirLowestRank) {
  run_ranks({.ranks = 4, .nodes = {"x", "y", "x", "y"}}, [](World& world) {
    EXPECT_EQ(world.topology().nodes(), 2);
    EXPECT_EQ(world.node(), world.rank() % 2);
    EXPECT_EQ(world.local_rank(), world.rank() / 2);
    EXPECT_EQ(world.topology().name_of(1), "y");
  });
}

TEST(World, TakesTheNodesItIsGiven) {
  run_ranks({.ranks = 3,
             .edit =
                 [](WorldOptions& options) {
                   options.node_of_rank = {0, 1, 1};
                 }},
            [](World& world) {
              EXPECT_EQ(world.topology().ranks_of(1), (std::vector<int>{1, 2}));
              EXPECT_EQ(world.node_group().size(), world.rank() == 0 ? 1 : 2);
            });
}

TEST(World, RefusesRanksWithAnotherConfiguration) {
  const auto errors = run_places({.ranks = 3,
                                  .edit =
                                      [](WorldOptions& options) {
                                        options.configuration = "seed = 1\nskip = 4";
                                        if (options.place.rank == 2) {
                                          options.configuration = "seed = 1\nskip = 8";
                                        }
                                      }},
                                 join_only);
  expect_all(errors, kExitConfig, {"rank 2", "skip = 8", "skip = 4"});
}

TEST(World, TellsAllRanksWhyThoughTheStoreGoesWithRankZero) {
  Address address;
  {
    const FileDescriptor free_port = listen_on({"127.0.0.1", 0});
    address = bound_address(free_port);
  }
  const auto errors = run_places({.ranks = 3,
                                  .edit =
                                      [&](WorldOptions& options) {
                                        options.place.store_at = StoreAt::kRankZero;
                                        options.place.rendezvous = address;
                                        const bool other = options.place.rank == 2;
                                        options.configuration = other ? "skip = 8" : "skip = 4";
                                      }},
                                 join_only);
  expect_all(errors, kExitConfig, {"rank 2", "skip = 8", "skip = 4"});
}

TEST(World, RefusesRanksWithAnotherWorldSize) {
  const auto errors = run_places(
      {.ranks = 2,
       .edit = [](WorldOptions& options) { options.place.size = options.place.rank == 0 ? 2 : 3; }},
      join_only);
  expect_all(errors, kExitConfig, {"rank 1", "size"});
}

TEST(World, RefusesTwoProcessesWithOneRank) {
  const auto errors = run_places({.ranks = 2,
                                  .limit = Seconds(1),
                                  .edit = [](WorldOptions& options) { options.place.rank = 0; }},
                                 join_only);
  int refused = 0;
  for (const auto& error : errors) {
    if (text_of(error).find("rank 0 is taken") != std::string::npos) ++refused;
  }
  EXPECT_EQ(refused, 1);
}

TEST(World, RefusesAStrayOfAnotherJob) {
  const auto errors = run_places({.ranks = 3,
                                  .edit =
                                      [](WorldOptions& options) {
                                        // Rank 2 is a stray; the other two are a job of two.
                                        if (options.place.rank == 2) {
                                          options.place.job_token = "another";
                                          options.place.rank = 1;
                                        }
                                        options.place.size = 2;
                                      }},
                                 join_only);
  EXPECT_EQ(text_of(errors[0]), "");
  EXPECT_EQ(text_of(errors[1]), "");
  EXPECT_EQ(exit_code_of(errors[2]), kExitConfig);
  EXPECT_NE(text_of(errors[2]).find("job token"), std::string::npos) << text_of(errors[2]);
}

TEST(World, WaitsForTheFirstMeetingAsLongAsItIsTold) {
  // Less than the limit here; a program would rather give more.
  const auto errors =
      run_places({.ranks = 2,
                  .limit = Seconds(60),
                  .edit = [](WorldOptions& options) { options.join_limit = Seconds(0.5); }},
                 [](const WorldOptions& options) {
                   if (options.place.rank == 1) throw PeerError("rank 1 stays away");
                   join_only(options);
                 });
  expect_all(errors, kExitPeer, {"rank 1"});
  EXPECT_NE(text_of(errors[0]).find("within 0.5 s"), std::string::npos) << text_of(errors[0]);
}

TEST(World, OfOneRefusesADeviceThatIsNotThere) {
  WorldOptions options;
  options.interface = "nosuch0";
  EXPECT_THROW(World::join(options), ConfigError);
}

TEST(World, MeetsAtRankZeroOnTheDeviceThatIsAskedFor) {
  // The name's own address would be 127.0.0.2, where nobody listens then.
  Address address;
  {
    const FileDescriptor free_port = listen_on({"127.0.0.1", 0});
    address = {"127.0.0.2", bound_address(free_port).port};
  }
  const auto errors = run_places(
      {.ranks = 2,
       .edit =
           [&](WorldOptions& options) {
             options.place.store_at = StoreAt::kRankZero;
             options.place.rendezvous = address;
             options.interface = "lo";
           }},
      [](const WorldOptions& options) {
        World world = World::join(options);
        if (world.rank() == 0) {
          EXPECT_THROW(listen_on({"127.0.0.1", options.place.rendezvous->port}), ConfigError);
        }
        world.leave();
      });
  expect_all(errors, kExitOk, {});
}

TEST(World, NamesTheVariableWhereThePlaceToMeetIsUnknown) {
  for (const int rank : {0, 1}) {
    WorldOptions options;
    options.place = {.rank = rank, .size = 2, .launcher = Launcher::kSrun};
    options.place.store_at = StoreAt::kRankZero;
    options.place.rendezvous = Address{"no-such-host.invalid", 20000};
    const auto start = Clock::now();
    try {
      World::join(options);
      FAIL() << "met nowhere";
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("no-such-host.invalid"), std::string::npos) << text;
      EXPECT_NE(text.find("DASO_RENDEZVOUS=HOST:PORT"), std::string::npos) << text;
    }
    EXPECT_LT(since(start).count(), 30) << "waits for the limit";
  }
}

TEST(World, NamesTheRankThatDoesNotJoin) {
  const auto errors =
      run_places({.ranks = 3, .limit = Seconds(0.5)}, [](const WorldOptions& options) {
        if (options.place.rank == 1) throw PeerError("rank 1 stays away");
        join_only(options);
      });
  expect_all(errors, kExitPeer, {"rank 1"});
}

TEST(World, GivesUpOnARendezvousWhereNobodyIs) {
  WorldOptions options;
  options.place = {.rank = 1, .size = 2};
  {
    const FileDescriptor free_port = listen_on({"127.0.0.1", 0});
    options.place.rendezvous = bound_address(free_port);
  }
  options.limit = Seconds(0.5);
  const auto start = Clock::now();
  try {
    World::join(options);
    FAIL() << "joined nobody";
  } catch (const PeerError& error) {
    EXPECT_NE(std::string(error.what()).find(options.place.rendezvous->text()), std::string::npos);
  }
  EXPECT_LT(since(start).count(), 5);
}

TEST(World, RefusesSelfForSeveralRanksAndUnknownBackends) {
  WorldOptions options;
  options.place = {.rank = 0, .size = 2};
  options.backend = "self";
  EXPECT_THROW(World::join(options), ConfigError);
  options.backend = "glo";
  try {
    World::join(options);
    FAIL() << "opened backend glo";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'gloo'"), std::string::npos);
  }
}

TEST(World, FindsAPeerThatCallsAnotherOperation) {
  const auto errors = run_places({.ranks = 3}, [](const WorldOptions& options) {
    World world = World::join(options);
    Communicator& all = world.everyone();
    Pending pending = world.rank() == 1 ? all.broadcast(at::zeros({8}), 0)
                                        : all.all_reduce(at::zeros({8}), Reduce::kSum);
    static_cast<void>(std::move(pending).wait(world.limit()));
  });
  expect_all(errors, kExitConfig, {"broadcast", "all_reduce", "rank 1"});
}

TEST(World, FindsAPeerThatCallsWithAnotherTypeOrSize) {
  for (const bool other_type : {true, false}) {
    const auto errors = run_places({.ranks = 2}, [&](const WorldOptions& options) {
      World world = World::join(options);
      at::Tensor tensor = at::zeros({8});
      if (world.rank() == 1) tensor = other_type ? at::zeros({8}, at::kInt) : at::zeros({9});
      static_cast<void>(world.everyone().all_reduce(tensor, Reduce::kSum).wait(world.limit()));
    });
    expect_all(errors, kExitConfig, {"float32[8]", other_type ? "int32[8]" : "float32[9]"});
  }
}

TEST(World, FindsALateMismatchWhenAskedToCheckAll) {
  const auto errors =
      run_places({.ranks = 2, .check_collectives = true}, [](const WorldOptions& options) {
        World world = World::join(options);
        for (int i = 0; i < 100; ++i) {
          const int elements = world.rank() == 1 && i == 50 ? 5 : 4;
          static_cast<void>(
              world.everyone().all_reduce(at::zeros({elements}), Reduce::kSum).wait(world.limit()));
        }
      });
  expect_all(errors, kExitConfig, {"#50", "float32[5]", "float32[4]"});
}

TEST(World, NamesTheRankThatIsLateThoughAlive) {
  const auto errors =
      run_places({.ranks = 3, .limit = Seconds(3)}, [](const WorldOptions& options) {
        World world = World::join(options);
        Communicator& all = world.everyone();
        static_cast<void>(all.barrier().wait(world.limit()));
        if (world.rank() == 2) {
          // Alive, but busy with something else until the others have given up.
          for (const Deadline deadline(world.limit()); !deadline.passed();)
            std::this_thread::yield();
        }
        static_cast<void>(all.all_reduce(at::zeros({4}), Reduce::kSum).wait(Seconds(0.5)));
      });
  expect_all(errors, kExitPeer, {"all_reduce", "everyone"});
  EXPECT_NE(text_of(errors[0]).find("rank 2 (at #1)"), std::string::npos) << text_of(errors[0]);
}

TEST(World, ARankThatEndsWithAnErrorTellsTheOthersWhy) {
  const auto errors = run_places({.ranks = 3}, [](const WorldOptions& options) {
    World world = World::join(options);
    Communicator& all = world.everyone();
    if (world.rank() == 1) {
      world.abandon("disk full");
      return;
    }
    static_cast<void>(all.all_reduce(at::zeros({4}), Reduce::kSum).wait(world.limit()));
  });
  EXPECT_EQ(exit_code_of(errors[0]), kExitPeer);
  EXPECT_NE(text_of(errors[0]).find("rank 1 (a on host"), std::string::npos) << text_of(errors[0]);
  EXPECT_NE(text_of(errors[2]).find("disk full"), std::string::npos) << text_of(errors[2]);
}

TEST(World, SurvivorsBuildTheNextGenerationWithinASecond) {
  const auto errors =
      run_places({.ranks = 4, .nodes = {"a", "a", "b", "b"}}, [](const WorldOptions& options) {
        std::optional<World> world = World::join(options);
        static_cast<void>(world->everyone().barrier().wait(world->limit()));
        if (world->rank() == 1) return;  // gone without a word
        const auto start = Clock::now();
        EXPECT_THROW(
            static_cast<void>(
                world->everyone().all_reduce(at::ones({1000}), Reduce::kSum).wait(world->limit())),
            PeerError);
        World next = std::move(*world).next_generation(Seconds(1));
        EXPECT_EQ(next.generation(), 1);
        EXPECT_EQ(next.size(), 3);
        EXPECT_EQ(next.rank(), options.place.rank == 0 ? 0 : options.place.rank - 1);
        EXPECT_EQ(next.topology().ranks_of(1), (std::vector<int>{1, 2}));
        const at::Tensor sum =
            next.everyone().all_reduce(at::ones({1000}), Reduce::kSum).wait(next.limit());
        EXPECT_TRUE(at::equal(sum, at::full({1000}, 3.0)));
        EXPECT_LT(since(start).count(), 1.0);
        next.leave();
      });
  for (const auto& error : errors) EXPECT_EQ(text_of(error), "");
}

// The one that would decide ends before it has, and its launcher has seen it.
TEST(World, SurvivorsDoNotWaitForOneThatHasEndedMeanwhile) {
  for (const int ended : {0, 3}) {
    const auto errors = run_places({.ranks = 4}, [ended](const WorldOptions& options) {
      World world = World::join(options);
      static_cast<void>(world.everyone().barrier().wait(world.limit()));
      if (world.rank() == 1) return;  // gone without a word
      EXPECT_THROW(static_cast<void>(world.everyone().barrier().wait(world.limit())), PeerError);
      if (world.rank() == ended) {
        report_gone(Store::connect(*options.place.rendezvous, world.limit()), ended,
                    "was ended by signal 9 (Killed)");
        return;
      }
      const auto start = Clock::now();
      World next = std::move(world).next_generation(world.limit());
      EXPECT_EQ(next.size(), 2);
      EXPECT_LT(since(start).count(), 5);
      static_cast<void>(next.everyone().barrier().wait(next.limit()));
      next.leave();
    });
    for (const auto& error : errors) EXPECT_EQ(text_of(error), "");
  }
}

TEST(World, CanBeAskedAgainWhereTheRanksDidNotFindEachOther) {
  std::promise<void> asked;
  const auto errors = run_places({.ranks = 3}, [&](const WorldOptions& options) {
    World world = World::join(options);
    static_cast<void>(world.everyone().barrier().wait(world.limit()));
    if (world.rank() == 0) return;  // gone without a word
    EXPECT_THROW(static_cast<void>(world.everyone().barrier().wait(world.limit())), PeerError);
    if (world.rank() == 2) {  // alone: rank 1 is late
      EXPECT_THROW(static_cast<void>(std::move(world).next_generation(Seconds(0.1))), PeerError);
      asked.set_value();
    } else {
      asked.get_future().wait();
    }
    World next = std::move(world).next_generation(world.limit());
    EXPECT_EQ(next.size(), 2);
    next.leave();
  });
  for (const auto& error : errors) EXPECT_EQ(text_of(error), "");
}

// What `daso run` tells programs that know nothing of its flags.
TEST(World, RanksAreCalledAtThePortsOfTheirPlace) {
  // That one is taken, so that it can be seen that it counts.
  const FileDescriptor taken = listen_on({"127.0.0.1", 0});
  const std::uint16_t port = bound_address(taken).port;
  const auto errors =
      run_places({.ranks = 2,
                  .edit =
                      [&](WorldOptions& options) {
                        options.backend = "tcp";
                        options.place.ports = {port, port};
                      }},
                 [](const WorldOptions& options) { static_cast<void>(World::join(options)); });
  for (const auto& error : errors) {
    EXPECT_NE(text_of(error).find(std::to_string(port)), std::string::npos) << text_of(error);
  }
}

TEST(World, LeavesThoughTheStoreIsGone) {
  std::optional<Store> store = Store::host(listen_on({"127.0.0.1", 0}));
  mark_job(*store, "test");
  WorldOptions options;
  options.place = {
      .rank = 0, .size = 2, .node = "a", .rendezvous = store->address(), .job_token = "test"};
  std::jthread other([options]() mutable {
    options.place.rank = 1;
    World world = World::join(options);
  });
  World world = World::join(options);
  other.join();
  store.reset();
  world.leave();
}

}  // namespace
}  // namespace daso::test
