// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daso/base/seconds.h"
#include "daso/base/timeline.h"
#include "daso/comm/communicator.h"
#include "daso/comm/node_link.h"
#include "daso/comm/rank_main.h"
#include "daso/comm/topology.h"
#include "daso/comm/world_options.h"

// Ranks that talk to each other. From below:
//
//   place       where a process stands in its job, by its launcher's variables
//   store       a small table that all ranks see, kept by the launcher or rank 0 (tcp_store)
//   open_store  finds it, and own_address which address of a machine others connect to
//   rendezvous  the ranks meet there and compare who they are; reach tells who cannot reach whom
//   lookout     a thread of each rank that watches the store for bad news and raises the alarm,
//               on which everything waits that waits in this process
//   backend     turns a list of ranks into a c10d::Backend: Gloo, our own letters over TCP (tcp/),
//   or
//               MPI as a module
//   group       one such list; counts its operations and compares them with the peers'
//   communicator, node_link   what the rest of the library talks through: between any ranks, and
//               inside a node through the fastest way that there is (link/)
//   link        these ways: shared memory, the backend's messages, NCCL between GPUs, which is in
//               the CUDA module, and pinned memory where NCCL cannot be used
//   world       all of it together, for one rank
//
// A failure anywhere reaches every rank in about a second, as the same PeerError, through the
// lookout; docs/errors.md has the user's view.
namespace daso {

struct Guard;  // in operation.h
class Views;   // in views.h

// All ranks of a job, as one of them sees them: who they are, on which nodes, and how to talk to
// them. Owned by the rank's main function and passed down; nothing about it is global.
//
// A world has a generation. When a rank is lost, every operation of every group throws PeerError,
// and next_generation() builds a smaller world of the ranks that are left, in the same process.
class World {
 public:
  // Meets the other ranks and compares version, configuration and topology with theirs. Throws
  // PeerError if they do not come within the limit, ConfigError if one differs.
  static World join(const WorldOptions& options);
  // A world of one; needs no store and no port.
  static World alone();

  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  // Lets go of the groups. A broken world's groups are left behind unfinished: Gloo cannot abort an
  // operation, and waiting for it would last until its limit.
  ~World();

  int rank() const;
  int size() const;
  int generation() const;
  Seconds limit() const;
  const std::string& backend() const;
  // The backend makes sure that what it carries arrives as it was sent.
  bool carries_checked() const;
  const Topology& topology() const;
  int node() const;        // of this rank
  int local_rank() const;  // of this rank
  // The numbers that this node and rank were started with, in whatever view they are now.
  int node_id() const;
  int rank_id() const;
  // The view that it was made for; none: a world for good.
  const std::optional<WorldView>& view() const;
  const std::string& host_of(int rank) const;

  Communicator& everyone();
  Communicator& node_group();
  // The group of these ranks (ascending), made on first use: all of them must then ask for it. The
  // name tells groups of the same ranks apart and stands in error messages.
  Communicator& group(const std::vector<int>& ranks, const std::string& name);

  // The ranks of this node, under a name, for tensors of this device; made on first use: all ranks
  // of the node must then ask for it, each with its own device of the same type. Different names
  // may be asked for and used by different threads at once.
  NodeLink& node_link(const std::string& name, at::Device device = at::Device(at::kCPU));

  // For those who wait for something that is no operation, such as the work of a device.
  const Guard& guard() const;
  // The same for what the ranks of this node do together: in a world that ends with its view the
  // loss of another node does not end that.
  const Guard& home_guard() const;

  // In a world for a view: all ranks of this node have what they need for it, and go on together.
  // Until then all bad news ends what they do together, too: none of them has anything to finish,
  // and one that has given up is waited for by nobody. Throws PeerError on all of them where one has
  // not come so far.
  void enter();

  // Waits until reached() holds, asking it again and again: for what a device does, which takes no
  // other node. Throws as what ranks of one node do together does; `what` stands in the message.
  void wait_until(const std::function<bool()>& reached, const std::string& what);

  // Waits until the device has done all that the calling thread's current stream has been given:
  // who reads a tensor of it then need not wait, for which there is no limit. On the CPU it has.
  void wait_for(at::Device device, const std::string& what);

  // Of a world that was made for a view; else null. For the training thread, and views.h.
  Views* views();

  // What this rank does when. All that has the world adds to it.
  Timeline& timeline();

  // The world of those that are left. Every survivor calls it, after a PeerError; `limit` is for
  // finding each other. Ranks are numbered anew, in the old order.
  World next_generation(Seconds limit) &&;

  // The orderly end: waits until all ranks are done with the store, so that its host may go. To be
  // called by every rank.
  void leave();
  // The disorderly end: tells the others why this rank ends, so that they need not find out. False
  // if another rank has told them something before: that is then the reason which all have heard.
  bool abandon(const std::string& reason);

 private:
  struct Body;
  explicit World(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace daso
