// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

#include "core/joined_world.h"
#include "daso/base/environment.h"
#include "daso/base/error.h"
#include "daso/comm/gather_text.h"
#include "daso/comm/launcher_line.h"
#include "daso/comm/operation.h"
#include "daso/run/rank_device.h"
#include "daso/run/views/replay.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace daso::python {
namespace {

// LibTorch's record of operations is not safe with several threads that use Gloo
// (docs/decisions/0007); whoever sets its variable has decided by himself.
void leave_flight_recorder_off() {
  if (std::getenv("TORCH_FR_BUFFER_SIZE") != nullptr) return;
  c10d::FlightRecorder<c10::Event>::get()->enabled_ = false;
}

constexpr std::chrono::milliseconds kBetweenLooks{50};  // for signals

// Joins on a thread of its own, while this one looks for signals: Ctrl-C raises KeyboardInterrupt
// here, and the others are told if they come later. Called without Python's lock.
std::unique_ptr<Worlds> join_unless_interrupted(std::unique_ptr<Worlds> worlds) {
  struct Joining {
    std::unique_ptr<Worlds> worlds;
    std::promise<void> done;
    std::atomic<bool> settled = false;  // by whoever comes first: the world is there, or left alone
  };
  const auto joining = std::make_shared<Joining>();
  joining->worlds = std::move(worlds);
  std::future<void> joined = joining->done.get_future();
  std::thread thread([joining] {
    try {
      World& world = joining->worlds->next();
      if (joining->settled.exchange(true)) {
        world.abandon("KeyboardInterrupt while it joined");
      } else {
        joining->done.set_value();
      }
    } catch (...) {
      joining->done.set_exception(std::current_exception());
    }
  });
  while (joined.wait_for(kBetweenLooks) != std::future_status::ready) {
    const nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() == 0) continue;
    nb::python_error raised;
    if (!joining->settled.exchange(true)) {
      thread.detach();  // what it waits for inside LibTorch cannot be called off
      throw raised;
    }
    const nb::gil_scoped_release release;
    thread.join();
    joining->worlds->current().abandon("KeyboardInterrupt while it joined");
    throw raised;
  }
  thread.join();
  joined.get();
  return std::move(joining->worlds);
}

// Python owns what it returns.
JoinedWorld* join(const std::optional<std::string>& backend, const std::string& interface,
                  double limit, std::optional<double> join_limit, const std::string& device,
                  const std::string& ports) {
  const nb::gil_scoped_release release;
  const Environment environment = this_environment();
  const bool survives = find(environment, kLineVariable) || find(environment, kReplayVariable);
  WorldOptions options;
  options.place = place_from(environment).value_or(Place{});
  options.backend = backend.value_or(find(environment, kBackendVariable).value_or(kUsualBackend));
  require(!survives || options.backend == "tcp",
          "backend {} cannot make connections anew when a node is lost, as --on-failure continue "
          "asks for: leave it out of daso.init()",
          options.backend);
  if (options.place.size == 1 && !survives) options.backend = "self";
  options.interface = interface;
  if (!ports.empty() && options.place.size > 1) options.ports = parse_ports(ports);
  options.limit = Seconds(limit);
  if (join_limit) options.join_limit = Seconds(*join_limit);
  const DeviceChoice choice = parse_device(device);
  leave_flight_recorder_off();
  auto worlds = std::make_unique<Worlds>(options);
  const std::optional<std::string> after = find(environment, kReplayAfterVariable);
  if (const auto run = find(environment, kReplayVariable)) {
    const auto replay = std::make_shared<Replay>(*run, options.place.rank,
                                                 options.place.rendezvous.value_or(Address{}));
    if (after) replay->skip(std::stoll(*after));
    worlds->follow(replay);
  }
  if ((find(environment, kJoinsVariable) || after) && worlds->survives()) {
    const DeviceFound found = find_device(choice, options.place.local_rank.value_or(0));
    Apart apart{.node = find_integer(environment, "GROUP_RANK").value_or(0),
                .nodes = find_integer(environment, "GROUP_WORLD_SIZE").value_or(1)};
    return new JoinedWorld(std::move(worlds), std::move(apart), found.device, found.note);
  }
  if (options.place.size == 1 && !survives) {
    worlds->next();
  } else {
    worlds = join_unless_interrupted(std::move(worlds));
  }
  World& world = worlds->current();
  const DeviceFound found = with_abandon(world, [&] { return rank_device(world, choice); });
  return new JoinedWorld(std::move(worlds), std::nullopt, found.device, found.note);
}

}  // namespace

Reduce reduce_of(const std::string& how) {
  if (how == "sum") return Reduce::kSum;
  if (how == "mean") return Reduce::kMean;
  if (how == "max") return Reduce::kMax;
  if (how == "min") return Reduce::kMin;
  throw ConfigError(
      fmt::format("there is no way '{}' to reduce; there are sum, mean, max, min", how));
}

void bind_world(nb::module_& module) {
  nb::class_<JoinedWorld>(module, "World")
      .def_prop_ro(
          "rank",
          [](JoinedWorld& world) { return world.apart() ? world.place().rank : world->rank(); })
      .def_prop_ro(
          "size",
          [](JoinedWorld& world) { return world.apart() ? world.place().size : world->size(); })
      .def_prop_ro(
          "node",
          [](JoinedWorld& world) { return world.apart() ? world.apart()->node : world->node(); })
      .def_prop_ro("nodes",
                   [](JoinedWorld& world) {
                     return world.apart() ? world.apart()->nodes : world->topology().nodes();
                   })
      .def_prop_ro("local_rank",
                   [](JoinedWorld& world) {
                     return world.apart() ? world.place().local_rank.value_or(0)
                                          : world->local_rank();
                   })
      .def_prop_ro("host", [](JoinedWorld& world) { return world->host_of(world->rank()); })
      .def_prop_ro("rank_id", [](JoinedWorld& world) { return world->rank_id(); })
      .def_prop_ro("survives", &JoinedWorld::survives)
      .def_prop_ro("limit", [](JoinedWorld& world) { return world->limit().count(); })
      .def_prop_ro("device_name", [](JoinedWorld& world) { return world.device().str(); })
      .def_prop_ro("note", &JoinedWorld::note)
      .def("barrier",
           [](JoinedWorld& world) {
             world.without_lock([&] { world->everyone().barrier().wait(world->limit()); });
           })
      .def(
          "all_reduce",
          [](JoinedWorld& world, const at::Tensor& tensor, const std::string& how) {
            const Reduce reduce = reduce_of(how);
            return world.without_lock([&] {
              return world->everyone().all_reduce(tensor.clone(), reduce).wait(world->limit());
            });
          },
          "tensor"_a, "how"_a = "sum")
      .def("gather",
           [](JoinedWorld& world, const std::string& text) {
             return world.without_lock(
                 [&] { return gather_text(world->everyone(), text, world->limit()); });
           })
      .def("leave",
           [](JoinedWorld& world) {
             const nb::gil_scoped_release release;
             if (!world.is_foreign() && world.is_there()) world->leave();
           })
      .def("abandon", [](JoinedWorld& world, const std::string& reason) {
        const nb::gil_scoped_release release;
        if (!world.is_foreign() && world.is_there()) world->abandon(reason);
      });
  module.def("started_by_daso", [] {
    const std::optional<Place> place = place_from(this_environment());
    return place && place->launcher == Launcher::kDaso;
  });
  module.def("join", &join, "backend"_a.none(), "interface"_a, "limit"_a, "join_limit"_a.none(),
             "device"_a, "ports"_a, nb::rv_policy::take_ownership);
}

}  // namespace daso::python
