// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "daso/comm/store.h"
#include "daso/comm/world.h"
#include "verify/verify_ranks.h"

namespace daso::verify {

// The ranks of a world that somebody else has started (mpirun, torchrun, `daso run`). Golden cases
// cut it into nodes in their own ways, so each has a world of its own: the same ranks, on a store
// that rank 0 serves for it.
class GivenWorld {
 public:
  // What the ranks agree by where to meet. Not the backend of the cases: MPI can serve one world of
  // a process at a time.
  static constexpr const char* kBackend = "gloo";

  // All is borrowed. All calls are made by all ranks together.
  GivenWorld(World& world, const Place& place, const VerifyFlags& flags);
  ~GivenWorld();

  // The case must have as many ranks as the world.
  Outcome verify(const GoldenCase& golden);

 private:
  // A new store; `hosted` is for rank 0 to keep it alive.
  struct MeetingPlace {
    std::optional<Store> hosted;
    Address address;
  };
  MeetingPlace open_meeting_place();
  std::string listening_address() const;
  void keep_mpi_running();

  World& world_;
  const Place& place_;
  const VerifyFlags& flags_;
  std::shared_ptr<void> running_;  // a group of MPI's that no world owns
};

}  // namespace daso::verify
