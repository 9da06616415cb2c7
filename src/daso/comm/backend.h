// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>
#include <vector>

#include "daso/base/seconds.h"
#include "daso/comm/store.h"
#include "daso/comm/world_options.h"

namespace c10d {
class Backend;
}

namespace daso {

// What a group is made from.
struct GroupPlan {
  Store store;                 // under a prefix that is this group's alone
  std::vector<int> ranks;      // world ranks, ascending
  int rank;                    // ours, in the group
  Seconds limit;               // for making the group and for every operation on it
  std::string own_address;     // numeric; listening sockets bind to it and to nothing else
  int generation = 0;          // of the world
  int door = -1;               // a socket of ours that listens, borrowed; -1: none (reach.h)
  std::vector<Address> doors;  // of all ranks of the group, in their order, where they have one
  std::string job_token;       // empty: none
};

// A way to talk, chosen at run time by name: it turns a list of ranks into a c10d::Backend, which
// is the interface that LibTorch's own backends (Gloo, NCCL) and ours (MPI) have in common.
class Backend {
 public:
  virtual ~Backend() = default;
  // Called by all ranks of the group; blocks until they are connected. The result may outlive this
  // object.
  virtual c10::intrusive_ptr<c10d::Backend> make_group(const GroupPlan& plan) = 0;
  // make_group() waits for peers in the store: it gets a connection of its own.
  virtual bool waits_in_store() const { return true; }
  // For a rank that ends while others may be waiting for it: its end then waits for nobody.
  virtual void leak() {}
  // Then leak() has ended all operations of all groups, and those can be destroyed as always.
  virtual bool can_abort() const { return false; }
  // What it carries arrives as it was sent, or is an error.
  virtual bool checks() const { return false; }
};

// For a world of so many ranks. Throws ConfigError for a name that is unknown or not available
// here, with the reason.
std::unique_ptr<Backend> open_backend(const std::string& name, int ranks);
// Gloo over TCP, as it is inside LibTorch: moves data in the background by itself, several
// operations of a group at a time.
std::unique_ptr<Backend> open_gloo();
// Our own letters over TCP (tcp/mailbox.h).
std::unique_ptr<Backend> open_tcp();
struct BackendModule;
const BackendModule& backend_module(const std::string& name);

// What a backend module (lib/daso/libdaso_NAME.so) exports, with C linkage, as kBackendModuleEntry.
// Backends that need libraries which not every machine has are modules, loaded when asked for.
struct BackendModule {
  const char* version;  // kVersion that it was built with; must be ours
  const char* detail;   // version of the library underneath
  // Both are told how many ranks the launcher has started, and throw ConfigError where the library
  // finds another number: it then belongs to another launcher.
  std::unique_ptr<Backend> (*open)(int ranks);
  // Gives every rank the texts of all ranks, in their order, before there is a store.
  std::vector<std::string> (*gather)(const std::string& text, int ranks);
};
inline constexpr const char* kBackendModuleEntry = "daso_backend_module";

}  // namespace daso
