// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "daso/base/environment.h"
#include "daso/comm/network.h"

// Where one process stands in its job, as whoever started it says by environment variables. What
// differs between launchers is a fact of the Place (who hosts the store, under which prefix, whose
// the output is); the kind of launcher is for people to read.
namespace daso {

enum class Launcher {
  kNone,
  kDaso,      // our own
  kTorchrun,  // its agent has started this rank
  kPyTorch,   // somebody who sets the variables that PyTorch reads, as Kubernetes' PyTorchJob does
  kMpirun,
  kSrun,
};

std::string name_of(Launcher launcher);

// By which our launcher tells ranks the backend that its user wants, for programs that do not have
// one from elsewhere.
inline constexpr const char* kBackendVariable = "DASO_BACKEND";

// How the ranks of a job find their store.
enum class StoreAt {
  kLauncher,  // our launcher hosts it at `rendezvous`, for this job alone
  kAgent,     // torchrun's agent hosts one at `rendezvous` that knows nothing of us
  kRankZero,  // rank 0 hosts it at `rendezvous`
  kOverMpi,   // rank 0 hosts it anywhere and tells the others by MPI
};

struct Place {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;  // where the launcher says it; a World counts by itself
  std::string node;               // the node's name; empty: the host's name
  Launcher launcher = Launcher::kNone;
  StoreAt store_at = StoreAt::kLauncher;
  std::string store_prefix;  // of all keys in a store for several views
  std::optional<Address> rendezvous;
  bool fixed_rendezvous = false;  // the ranks were told where to meet, nothing else will do
  bool one_machine = false;       // the launcher says that all ranks are on this machine
  std::string other_host;         // a machine of the job besides rank 0's; empty: not known
  bool one_output = false;        // the output of all ranks goes to one stream
  Ports ports;                    // that this rank may be called at, where the launcher says it
  std::string job_token;          // empty: none; of srun's ranks their step, unless one is given
};

// Reads the variables of our own launcher, torchrun, mpirun (Open MPI, MPICH) and srun, in this
// order. None of them: no value. Throws ConfigError where they contradict each other.
//
// Our launcher speaks torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT,
// TORCHELASTIC_USE_AGENT_STORE) and adds DASO_NODE, DASO_JOB_TOKEN, DASO_LAUNCHER=daso, and
// DASO_PORTS where it knows them. Under mpirun it leaves rank and size to mpirun and sets
// DASO_RENDEZVOUS. Without torchrun's agent RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are
// enough.
std::optional<Place> place_from(const Environment& environment);

}  // namespace daso
