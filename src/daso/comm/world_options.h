// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/seconds.h"
#include "daso/comm/place.h"

// How a rank joins its world, and the backends that there are for it. Knows nothing of LibTorch, so
// that launchers can name a world without it.
namespace daso {

class Decisions;  // in views.h

// In a replay: where this node leaves its view, and what it goes on with in its next.
struct ViewEnd {
  int epoch = 0;           // these two: the step that it goes on with then, or a later one that it
  std::int64_t batch = 0;  // has come to already
  bool stops = false;      // there the run ended, though it was not finished
  struct Place {
    int epoch = 0;
    std::int64_t batch = 0;
  };
  std::optional<Place> left;  // where it was when it left; none: it was lost, with all that it had
};

// What launchers have decided when a view began.
struct DecidedView {
  std::int64_t number = 0;
  std::int64_t first_exchange = 0;      // that belongs to it
  std::vector<std::int64_t> abandoned;  // of the view before
  bool operator==(const DecidedView&) const = default;
};

inline constexpr std::int64_t kFirstView = 1;  // of a job

// The view that a world is made for. The numbers of nodes and ranks in a world change from view to
// view; those by which they were started do not.
struct WorldView {
  std::int64_t number = 0;
  std::int64_t first_exchange = 0;   // that begins in it
  bool since_first = true;           // this process has been there since the first view
  std::vector<int> node_ids;         // of each node of the world
  std::vector<int> rank_ids;         // of each rank
  std::vector<int> joined;           // nodes that the view before had not, by their ids
  std::vector<int> left;             // nodes that are not in it since they have left on purpose
  std::vector<DecidedView> decided;  // up to this one, as far as its launcher knows them
  std::vector<int> copied;           // in a replay: nodes that were given a copy ahead of it
  std::optional<Address> home;       // the store of this node's launcher
  std::string key;                   // of the job, for those who are not in the view
  bool replayed = false;             // by script, as is the next
  std::optional<ViewEnd> end = {};
  std::shared_ptr<Decisions> decisions;
};

// Of gloo, tcp, mpi and self: our own transport.
inline constexpr const char* kUsualBackend = "tcp";

struct WorldOptions {
  Place place;
  std::string backend = kUsualBackend;
  std::string interface;           // device to talk through; empty: the one that leads to the store
  Ports ports;                     // that ranks are called at, with tcp; any: those of the place
  Seconds limit{60};               // for joining, for making a group and for every operation
  bool check_collectives = false;  // compare every operation with the peers', not only the first
  std::string configuration;       // must be equal on all ranks; any text
  bool share_memory = true;        // inside a node, where it can be had
  std::vector<int> node_of_rank;   // empty: from the places' node names, or else by machines
  // Instead of the limit, for joining.
  std::optional<Seconds> join_limit;
  std::optional<WorldView> view;  // none: a world for good
};

struct BackendStatus {
  std::string name;
  bool available = false;
  std::string detail;  // version, or the reason why it is not available
};

std::vector<BackendStatus> backends();

// Throws ConfigError with the reason where a backend that not every build has is not available.
void require_backend(const std::string& name);

}  // namespace daso
