// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>

#include "core/joined_world.h"
#include "daso/base/environment.h"
#include "daso/comm/gather_text.h"
#include "daso/run/rank_device.h"

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
World join_unless_interrupted(const WorldOptions& options) {
  if (options.place.size == 1) return World::join(options);
  struct Joining {
    std::promise<World> world;
    std::atomic<bool> settled = false;  // by whoever comes first: the world is there, or left alone
  };
  const auto joining = std::make_shared<Joining>();
  std::future<World> joined = joining->world.get_future();
  std::thread thread([joining, options] {
    try {
      World world = World::join(options);
      if (joining->settled.exchange(true)) {
        world.abandon("KeyboardInterrupt while it joined");
      } else {
        joining->world.set_value(std::move(world));
      }
    } catch (...) {
      joining->world.set_exception(std::current_exception());
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
    joined.get().abandon("KeyboardInterrupt while it joined");
    throw raised;
  }
  thread.join();
  return joined.get();
}

// Python owns what it returns.
JoinedWorld* join(const std::string& backend, const std::string& interface, double limit,
                  std::optional<double> join_limit, const std::string& device,
                  const std::string& ports) {
  const nb::gil_scoped_release release;
  WorldOptions options;
  options.place = place_from(this_environment()).value_or(Place{});
  options.backend = options.place.size == 1 ? "self" : backend;
  options.interface = interface;
  if (!ports.empty() && options.place.size > 1) options.ports = parse_ports(ports);
  options.limit = Seconds(limit);
  if (join_limit) options.join_limit = Seconds(*join_limit);
  const DeviceChoice choice = parse_device(device);
  leave_flight_recorder_off();
  World world = join_unless_interrupted(options);
  const DeviceFound found = with_abandon(world, [&] { return rank_device(world, choice); });
  return new JoinedWorld(std::move(world), found.device, found.note);
}

Reduce reduce_of(const std::string& how) {
  if (how == "sum") return Reduce::kSum;
  if (how == "mean") return Reduce::kMean;
  if (how == "max") return Reduce::kMax;
  if (how == "min") return Reduce::kMin;
  throw ConfigError(fmt::format("there is no way '{}' to reduce; there are sum, mean, max, min", how));
}

}  // namespace

void bind_world(nb::module_& module) {
  nb::class_<JoinedWorld>(module, "World")
      .def_prop_ro("rank", [](JoinedWorld& world) { return world->rank(); })
      .def_prop_ro("size", [](JoinedWorld& world) { return world->size(); })
      .def_prop_ro("node", [](JoinedWorld& world) { return world->node(); })
      .def_prop_ro("nodes", [](JoinedWorld& world) { return world->topology().nodes(); })
      .def_prop_ro("local_rank", [](JoinedWorld& world) { return world->local_rank(); })
      .def_prop_ro("host", [](JoinedWorld& world) { return world->host_of(world->rank()); })
      .def_prop_ro("limit", [](JoinedWorld& world) { return world->limit().count(); })
      .def_prop_ro("device_name", [](JoinedWorld& world) { return world.device().str(); })
      .def_prop_ro("note", &JoinedWorld::note)
      .def("barrier",
           [](JoinedWorld& world) {
             world.without_lock([&] { world->everyone().barrier().wait(world->limit()); });
           })
      .def("all_reduce",
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
             if (!world.is_foreign()) world->leave();
           })
      .def("abandon", [](JoinedWorld& world, const std::string& reason) {
        const nb::gil_scoped_release release;
        if (!world.is_foreign()) world->abandon(reason);
      });
  module.def("started_by_daso", [] {
    const std::optional<Place> place = place_from(this_environment());
    return place && place->launcher == Launcher::kDaso;
  });
  module.def("join", &join, "backend"_a, "interface"_a, "limit"_a, "join_limit"_a.none(), "device"_a,
             "ports"_a, nb::rv_policy::take_ownership);
}

}  // namespace daso::python
