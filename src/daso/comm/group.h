// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daso/comm/operation.h"
#include "daso/comm/pending.h"
#include "daso/comm/store.h"

namespace c10d {
class Backend;
class Work;
}  // namespace c10d

namespace daso {

struct GroupOptions {
  std::string name;
  std::vector<int> ranks;      // world ranks, ascending
  int rank = 0;                // ours, in the group
  std::optional<Store> store;  // this group's part of the table; none in a group of one
  bool check_first = true;     // compare the first operations with the peers'
  bool check_all = false;      // and all that follow
  Seconds limit{60};           // for copies from a device
};

// A message between two ranks.
struct Message {
  int from = 0;
  int to = 0;
  std::string shape;
};

// What a Communicator is made of: numbers the operations of one group, compares them with the
// peers', starts them on the backend and hands out what waits for them. In a group of one every
// operation is done at once.
class Group {
 public:
  // A rank that calls something else than its peers is found out on this many operations.
  static constexpr std::int64_t kChecked = 8;

  using Describe = std::function<std::string()>;
  using Start = std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>;

  Group(GroupOptions options, c10::intrusive_ptr<c10d::Backend> backend, Guard guard);
  ~Group();

  int rank() const { return options_.rank; }
  int size() const { return static_cast<int>(options_.ranks.size()); }
  const std::string& name() const { return options_.name; }
  const std::vector<int>& ranks() const { return options_.ranks; }
  std::int64_t begun() const { return begun_; }  // from any thread
  Seconds limit() const { return options_.limit; }
  const Guard& guard() const { return guard_; }

  Pending start(const Describe& what, at::Tensor result, const Start& call,
                std::function<void()> finish = {});
  Pending pass(const Message& message, at::Tensor tensor);
  Pending done(at::Tensor result);

  // Forgets the backend without ending it; see World::~World.
  void leak();

 private:
  bool is_checked(std::int64_t number) const;
  void refuse_if_broken(const Call& call) const;
  Pending launch(Call call, at::Tensor result, const Start& start, std::function<void()> finish);
  void compare(const Call& call, const std::string& key, int callers);

  const GroupOptions options_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  const Guard guard_;
  std::atomic<std::int64_t> begun_ = 0;
  std::map<std::pair<int, int>, std::int64_t> passed_;  // messages by (from, to)
};

}  // namespace daso
