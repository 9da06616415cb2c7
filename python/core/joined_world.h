// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <memory>
#include <string>

#include "core/tensors.h"
#include "daso/base/while_waiting.h"
#include "daso/comm/with_abandon.h"
#include "daso/comm/world.h"

namespace daso::python {

// A World as a Python program holds it. A process that was forked, such as a worker of a data
// loader, has copies of its memory and none of its threads: there nothing is waited for.
class JoinedWorld {
 public:
  JoinedWorld(World world, at::Device device, std::string note)
      : world_(std::make_unique<World>(std::move(world))), device_(device), note_(std::move(note)) {}
  JoinedWorld(const JoinedWorld&) = delete;
  JoinedWorld& operator=(const JoinedWorld&) = delete;
  ~JoinedWorld() {
    if (is_foreign()) static_cast<void>(world_.release());
  }

  World& operator*() { return *world_; }
  World* operator->() { return world_.get(); }
  at::Device device() const { return device_; }
  const std::string& note() const { return note_; }  // why it is the CPU; empty: nothing to say
  bool is_foreign() const { return ::getpid() != owner_; }

  // What `act` returns, without Python's lock: it may wait for others, and Ctrl-C ends that. An
  // error is told to the other ranks.
  template <typename Act>
  auto without_lock(const Act& act) {
    const nanobind::gil_scoped_release release;
    const WhileWaiting interruptible([] {
      const nanobind::gil_scoped_acquire acquire;
      if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
    });
    return with_abandon(*world_, act);
  }

 private:
  const pid_t owner_ = ::getpid();
  std::unique_ptr<World> world_;
  const at::Device device_;
  const std::string note_;
};

void bind_world(nanobind::module_& module);
void bind_run(nanobind::module_& module);

}  // namespace daso::python
