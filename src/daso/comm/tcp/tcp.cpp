// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/random.h>

#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "daso/base/error.h"
#include "daso/comm/tcp/group.h"

namespace daso {
namespace {

// What ranks prove to each other: the job's token, and a number that the job has drawn, which is
// all where there is no token.
std::string key_of(const GroupPlan& plan) {
  std::array<std::uint8_t, 16> drawn{};
  DASO_ASSERT(::getrandom(drawn.data(), drawn.size(), 0) == std::ssize(drawn));
  const Store root(plan.store.table());
  const std::string number = root.set_once("mail/key", fmt::format("{:02x}", fmt::join(drawn, "")));
  return fmt::format("{}/{}", plan.job_token, number);
}

FileDescriptor another(int descriptor) {
  FileDescriptor copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  DASO_ASSERT(copy.open());
  return copy;
}

// One mailbox for all groups of a world.
class Tcp final : public Backend {
 public:
  c10::intrusive_ptr<c10d::Backend> make_group(const GroupPlan& plan) override {
    DASO_ASSERT(plan.doors.size() == plan.ranks.size());
    const std::shared_ptr<tcp::Engine> engine = engine_for(plan);
    std::map<int, Address> peers;
    for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
      if (static_cast<int>(i) != plan.rank) peers[plan.ranks[i]] = plan.doors[i];
    }
    engine->mailbox.connect(peers, plan.limit);
    return tcp::make_group(engine, plan);
  }

  void leak() override {
    const std::lock_guard lock(mutex_);
    if (engine_) engine_->mailbox.abort();
  }
  bool waits_in_store() const override { return false; }
  bool can_abort() const override { return true; }
  bool checks() const override { return true; }  // frame.h

 private:
  std::shared_ptr<tcp::Engine> engine_for(const GroupPlan& plan) {
    const std::lock_guard lock(mutex_);
    if (!engine_) {
      tcp::MailboxOptions options{.rank = plan.ranks.at(static_cast<std::size_t>(plan.rank)),
                                  .view = static_cast<std::uint64_t>(plan.generation),
                                  .key = key_of(plan),
                                  .listening = another(plan.door),
                                  .limits = {}};
      options.limits.silence = plan.limit;
      engine_ = std::make_shared<tcp::Engine>(std::move(options));
    }
    return engine_;
  }

  std::mutex mutex_;  // groups may be made by several threads
  std::shared_ptr<tcp::Engine> engine_;
};

}  // namespace

std::unique_ptr<Backend> open_tcp() { return std::make_unique<Tcp>(); }

}  // namespace daso
