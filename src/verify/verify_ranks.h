// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "daso/comm/store.h"
#include "daso/comm/world.h"
#include "daso/launch/launch_flags.h"
#include "daso/tensor/device.h"
#include "verify/golden_case.h"
#include "verify/verdict.h"

// Where the ranks of a golden training case come from.
namespace daso::verify {

struct VerifyFlags {
  LaunchFlags launch;
  std::vector<std::string> files;
  std::string only;                      // the case of this name; empty: all
  std::string ranks;                     // processes, threads; empty: processes
  std::optional<ExchangeKind> exchange;  // none: what suits the wire
  Wire wire = Wire::kFp32;
  DeviceChoice device{.kind = DeviceChoice::Kind::kCpu};  // of training cases
  bool json = false;
  std::optional<int> job_case;  // this process is a rank of a job for this case of the one file

  ExchangeKind exchange_kind() const;
};

// What became of a case.
struct Outcome {
  int code = 0;  // of a job that ended without a verdict, else 0
  Verdict verdict;
};

// A job of processes, started for this case. What its ranks print to standard error passes by.
Outcome on_processes(const VerifyFlags& flags, const GoldenCase& golden);
// Threads of this process.
Outcome on_threads(const VerifyFlags& flags, const GoldenCase& golden);
// One rank of the job that on_processes() has started. Returns its exit code.
int verify_job_rank(const VerifyFlags& flags, const Place& place, const GoldenCase& golden);

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
