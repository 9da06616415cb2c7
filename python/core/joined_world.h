// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/tensors.h"
#include "daso/base/while_waiting.h"
#include "daso/comm/communicator.h"
#include "daso/comm/operation.h"
#include "daso/comm/with_abandon.h"
#include "daso/comm/world.h"
#include "daso/comm/worlds.h"
#include "daso/run/views/copy_receiver.h"

namespace daso::python {

// Where nodes may be lost, a process that its launcher has started again has no world before its
// run enters one, so that nobody waits while it gets ready. Until then it stands where it was
// started, and is alone with what ranks do together.
struct Apart {
  World world = World::alone();
  int node = 0;
  int nodes = 1;
};

// The world of a Python program: one for good, or where nodes may be lost that of the present view.
// A process that was forked, such as a worker of a data loader, has copies of its memory and none
// of its threads: there nothing is waited for.
class JoinedWorld {
 public:
  JoinedWorld(std::unique_ptr<Worlds> worlds, std::optional<Apart> apart, at::Device device,
              std::string note)
      : worlds_(std::move(worlds)),
        apart_(std::move(apart)),
        device_(device),
        note_(std::move(note)) {}
  JoinedWorld(const JoinedWorld&) = delete;
  JoinedWorld& operator=(const JoinedWorld&) = delete;
  ~JoinedWorld() {
    if (is_foreign()) static_cast<void>(worlds_.release());
  }

  // Throws PeerError where there is none any more: its node has left the run.
  World& operator*() {
    if (apart_) return apart_->world;
    if (!is_there()) throw PeerError("this rank is in no world any more");
    return worlds_->current();
  }
  World* operator->() { return &**this; }
  const std::optional<Apart>& apart() const { return apart_; }
  const Place& place() const { return worlds_->options().place; }  // where it was started
  at::Device device() const { return device_; }
  const std::string& note() const { return note_; }  // why it is the CPU; empty: nothing to say
  bool is_foreign() const { return ::getpid() != owner_; }

  bool is_there() const { return apart_ || (worlds_ && worlds_->joined()); }
  bool survives() const { return worlds_->survives(); }
  // In a replay: this process has no part in the views that come.
  bool over() const { return worlds_->over(); }
  // What a process that joins is given ahead (run/views/copy_receiver.h).
  std::unique_ptr<CopyReceiver> receive_copy(const Settings& settings) const {
    return CopyReceiver::open(*worlds_, settings);
  }
  // The orderly end of all of it in this process.
  void close() { worlds_.reset(); }
  // A world that has not ended yet.
  bool holds() { return worlds_->joined() && !worlds_->current().guard().alarm->raised(); }
  // That of the next view (comm/worlds.h); without Python's lock. References to the last one end.
  World& next() {
    apart_.reset();
    World& world = worlds_->next();
    if (!worlds_->view().last) return world;
    // What it has is in its own hands: a program knows where it keeps its files.
    throw PeerError(
        fmt::format("node {} has lost the majority of the others", world.view()->node_ids.front()));
  }

  // What `act` returns, without Python's lock: it may wait for others, and Ctrl-C ends that. An
  // error is told to the other ranks.
  template <typename Act>
  auto without_lock(const Act& act) {
    return interruptible([&] { return with_abandon(**this, act); });
  }
  // The same for what ends a world: its errors are told by itself.
  template <typename Act>
  static auto interruptible(const Act& act) {
    const nanobind::gil_scoped_release release;
    const WhileWaiting look([] {
      const nanobind::gil_scoped_acquire acquire;
      if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
    });
    return act();
  }

 private:
  const pid_t owner_ = ::getpid();
  std::unique_ptr<Worlds> worlds_;
  std::optional<Apart> apart_;
  const at::Device device_;
  const std::string note_;
};

Reduce reduce_of(const std::string& how);  // Throws ConfigError.

void bind_world(nanobind::module_& module);
void bind_run(nanobind::module_& module);

}  // namespace daso::python
