// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "daso/base/environment.h"
#include "daso/comm/network.h"

// Where one process stands in its job, as its launcher says.
namespace daso {

// How the ranks of a job find their store.
enum class StoreAt {
  kGiven,     // somebody else hosts it at `rendezvous`: our launcher, or torchrun's agent
  kRankZero,  // rank 0 hosts it at `rendezvous`
  kOverMpi,   // rank 0 hosts it anywhere and tells the others by MPI
};

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string node;  // the node's name; empty: the host's name
  StoreAt store_at = StoreAt::kGiven;
  std::optional<Address> rendezvous;
  bool one_machine = false;       // the launcher says that all ranks are on this machine
  std::string job_token;          // empty: none
  std::string launcher = "none";  // daso, torchrun, mpirun, srun
  std::string attempt = "0";      // how often torchrun has started the ranks again
};

// Reads the variables of our own launcher, torchrun, mpirun (Open MPI, MPICH) and srun, in this
// order. None of them: no value. Throws ConfigError where they contradict each other.
//
// Our launcher speaks torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT,
// TORCHELASTIC_USE_AGENT_STORE) and adds DASO_NODE, DASO_JOB_TOKEN and DASO_LAUNCHER=daso. Under
// mpirun it leaves rank and size to mpirun and sets DASO_RENDEZVOUS.
std::optional<Place> place_from(const Environment& environment);

}  // namespace daso
