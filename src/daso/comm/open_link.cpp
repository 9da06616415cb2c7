// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/open_link.h"

#include <thread>

#include "daso/base/error.h"
#include "daso/comm/group_link.h"

namespace daso {
namespace {

constexpr Seconds kBetweenTries{0.001};

// How the ranks of a node find out, over the store, whether they can share memory.
class Handshake {
 public:
  explicit Handshake(const LinkPlan& plan) : plan_(plan), deadline_(plan.limit) {}

  // The shared memory, or on all ranks nothing.
  std::optional<SharedMemory> reach() {
    // No memory is made before all are here, so that none is left if they do not come.
    if (!all_say("willing", plan_.share_memory)) return std::nullopt;
    std::optional<SharedMemory> memory = first() ? create() : attach();
    const bool shared = all_say("attached", memory && memory->sign(plan_.name.rank));
    if (!shared) return std::nullopt;
    memory->unname();
    return memory;
  }

 private:
  int ranks() const { return static_cast<int>(plan_.name.ranks.size()); }
  bool first() const { return plan_.name.rank == 0; }
  std::size_t bytes() const { return SharedLink::bytes_needed(ranks()); }

  std::optional<SharedMemory> create() const {
    auto memory = SharedMemory::create(bytes());
    plan_.store->set("memory", memory ? memory->name() : "");
    return memory;
  }

  std::optional<SharedMemory> attach() const {
    std::optional<std::string> name;
    wait([&] {
      name = plan_.store->find("memory");
      return name.has_value();
    });
    if (name->empty()) return std::nullopt;
    return SharedMemory::attach(*name, bytes());
  }

  // Waits until every rank has answered; true if all said yes.
  bool all_say(const std::string& question, bool yes) const {
    const Store& store = *plan_.store;
    const std::string no = "not " + question;
    store.add(yes ? question : no, 1);
    wait([&] { return store.add(question, 0) + store.add(no, 0) == ranks(); });
    return store.add(no, 0) == 0;
  }

  template <typename Done>
  void wait(const Done& done) const {
    const Call call{.what = "opening the link", .group = plan_.name.text};
    while (!done()) {
      if (const auto failure = plan_.guard.alarm->raised()) throw_failure(call, *failure);
      if (deadline_.passed()) {
        throw_failure(call, plan_.guard.lookout->ring(
                                fmt::format("not done within {} s", plan_.limit.count())));
      }
      std::this_thread::sleep_for(kBetweenTries);
    }
  }

  const LinkPlan& plan_;
  const Deadline deadline_;
};

}  // namespace

std::unique_ptr<NodeLink> open_link(const LinkPlan& plan) {
  if (plan.name.ranks.size() > 1) {
    if (auto memory = Handshake(plan).reach()) {
      return std::make_unique<SharedLink>(std::move(*memory), plan.name, plan.guard);
    }
  }
  return std::make_unique<GroupLink>(plan.group());
}

}  // namespace daso
