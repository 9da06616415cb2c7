// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daso/base/file_descriptor.h"
#include "daso/comm/backend.h"
#include "daso/comm/group.h"
#include "daso/comm/link/open_link.h"
#include "daso/comm/rendezvous.h"
#include "daso/comm/views.h"
#include "daso/comm/world.h"

// What a World has, for its own sources alone:
//
//   join      how it comes to be: the ranks meet, and a lookout is posted
//   groups    communicators, made when they are first asked for
//   links     the same inside the node
//   entrance  how a node enters a view: with all of its ranks, or none
//   ../world  what else there is to know about it, and how it ends
namespace daso {

// How many operations each group has begun, read by the lookout's thread.
class GroupCounts {
 public:
  using Count = std::function<std::int64_t()>;

  void follow(const std::string& name, Count count) {
    const std::lock_guard lock(mutex_);
    groups_[name] = std::move(count);
  }
  bool has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return groups_.contains(name);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    groups_.clear();
  }
  std::map<std::string, std::int64_t> all() const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::int64_t> counts;
    for (const auto& [name, count] : groups_) counts[name] = count();
    return counts;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Count> groups_;
};

struct World::Body {
  WorldOptions options;
  int rank = 0;
  int generation = 0;
  std::vector<Member> members;
  Topology topology;
  std::optional<Store> store;       // none in a world of one
  std::optional<Store> home_store;  // for the ranks of this node; likewise
  std::string own_address;
  FileDescriptor door;  // see reach.h; only where the backend connects to addresses of ours
  std::shared_ptr<Backend> backend;
  std::shared_ptr<GroupCounts> counts = std::make_shared<GroupCounts>();
  Guard guard{.alarm = std::make_shared<Alarm>(), .lookout = nullptr};
  Guard home = guard;  // of what stays inside the node
  // Whether the node's ranks train on when the view ends.
  struct Threshold {
    std::mutex mutex;
    bool passed = false;
  };
  std::shared_ptr<Threshold> threshold = std::make_shared<Threshold>();
  struct Entry {
    Group* group;
    std::unique_ptr<Communicator> communicator;
  };
  Timeline timeline;
  std::map<std::string, Entry> groups;
  std::map<std::string, std::unique_ptr<NodeLink>> links;  // some borrow a group or another link
  std::mutex mutex;  // guards both tables, for links that several threads ask for
  std::optional<Views> views;
  // In a world for a view, where ranks of the node find out whether all have come so far; null
  // where nobody need be asked, or all have been.
  std::unique_ptr<NodeLink> entrance;

  ~Body();
  std::vector<int> launch_ranks() const;  // of all members

  // join.cpp
  void listen_to_launcher();
  void join_alone();
  void join_others();
  void post_lookout();

  // groups.cpp; a group is watched over by the guard of its ranks, or by this one.
  Communicator& make_group(const std::vector<int>& ranks, const std::string& name,
                           const std::optional<Guard>& own_guard = {});
  c10::intrusive_ptr<c10d::Backend> connect_group(const GroupOptions& group);
  GroupPlan plan_of(const GroupOptions& group) const;
  std::string with_broken_pair(const std::string& reason, const std::vector<int>& ranks);

  // links.cpp
  LinkPlan link_plan(const std::string& name, at::Device device);
  NodeLink& make_link(const std::string& name, at::Device device);
  NodeLink& link(const std::string& name, at::Device device);

  // entrance.cpp
  void keep_home();
  void open_entrance();
  bool pass_entrance(bool ready, Seconds limit);

  template <typename Value>
  Value* find(std::map<std::string, Value>& table_of, const std::string& name) {
    const std::lock_guard lock(mutex);
    const auto known = table_of.find(name);
    return known == table_of.end() ? nullptr : &known->second;
  }
};

}  // namespace daso
