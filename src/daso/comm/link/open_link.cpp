// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/link/open_link.h"

#include <nlohmann/json.hpp>

#include "daso/base/error.h"
#include "daso/comm/link/group_link.h"
#include "daso/comm/link/nccl_module.h"
#include "daso/comm/link/polling.h"
#include "daso/comm/link/staged_link.h"

namespace daso {
namespace {

constexpr std::size_t kForSignatures = 4096;  // bytes of memory that only says who is alive

// How the ranks of a node find out, over the store, by what they can reach each other.
class Handshake {
 public:
  explicit Handshake(const LinkPlan& plan)
      : plan_(plan),
        wait_{.guard = plan.making,
              .call = {.what = "opening the link", .group = plan.name.text},
              .limit = plan.limit} {}

  // What all ranks say of themselves.
  std::vector<NcclSeat> seats(const NcclSeat& own) const {
    using nlohmann::json;
    const auto key = [](int rank) { return fmt::format("seat{}", rank); };
    const json said = {{"gpu", own.gpu}, {"version", own.version}, {"shares gpu", own.shares_gpu}};
    plan_.store->set(key(plan_.name.rank), said.dump());
    std::vector<NcclSeat> all;
    for (int rank = 0; rank < ranks(); ++rank) {
      const json seat = json::parse(value_of(key(rank)));
      all.push_back({.gpu = seat.at("gpu"),
                     .version = seat.at("version"),
                     .shares_gpu = seat.at("shares gpu")});
    }
    return all;
  }

  // Shared memory of this size, signed by all ranks, or on all ranks nothing.
  std::optional<SharedMemory> share(std::size_t bytes) {
    // No memory is made before all are here, so that none is left if they do not come.
    if (!all_say("willing", plan_.share_memory)) return std::nullopt;
    std::optional<SharedMemory> memory = first() ? create(bytes) : attach(bytes);
    const bool shared = all_say("attached", memory && memory->sign(plan_.name.rank));
    if (!shared) return std::nullopt;
    memory->unname();
    return memory;
  }

 private:
  int ranks() const { return static_cast<int>(plan_.name.ranks.size()); }
  bool first() const { return plan_.name.rank == 0; }

  std::optional<SharedMemory> create(std::size_t bytes) const {
    auto memory = SharedMemory::create(bytes);
    plan_.store->set("memory", memory ? memory->name() : "");
    return memory;
  }

  std::optional<SharedMemory> attach(std::size_t bytes) const {
    const std::string name = value_of("memory");
    if (name.empty()) return std::nullopt;
    return SharedMemory::attach(name, bytes);
  }

  // Waits until somebody has set it.
  std::string value_of(const std::string& key) const {
    std::optional<std::string> value;
    poll(wait_, [&] {
      value = plan_.store->find(key);
      return value.has_value();
    });
    return *value;
  }

  // Waits until every rank has answered; true if all said yes. All answers are one count, since the
  // store may be far away.
  bool all_say(const std::string& question, bool yes) const {
    constexpr std::int64_t kNo = std::int64_t{1} << 32;  // far more than there are ranks
    std::int64_t answers = plan_.store->add(question, yes ? 1 : 1 + kNo);
    poll(wait_, [&] {
      const bool all = answers % kNo == ranks();
      if (!all) answers = plan_.store->add(question, 0);
      return all;
    });
    return answers < kNo;
  }

  const LinkPlan& plan_;
  const Wait wait_;
};

std::unique_ptr<NodeLink> open_device_link(const LinkPlan& plan) {
  if (plan.name.ranks.size() > 1) {
    Handshake handshake(plan);
    const NcclModule* nccl = find_nccl().module;
    const NcclSeat own = nccl == nullptr ? NcclSeat{} : nccl->seat(plan.device);
    if (nccl_takes(handshake.seats(own))) {
      return nccl->open({.name = plan.name,
                         .store = *plan.store,
                         .guard = plan.guard,
                         .limit = plan.limit,
                         .device = plan.device,
                         .signatures = handshake.share(kForSignatures),
                         .check_all = plan.check_all});
    }
  }
  return std::make_unique<StagedLink>(plan.host(), plan.device, open_lane(plan.device), plan.name,
                                      plan.guard);
}

}  // namespace

std::unique_ptr<NodeLink> open_link(const LinkPlan& plan) {
  if (!plan.device.is_cpu()) return open_device_link(plan);
  if (plan.name.ranks.size() > 1) {
    const std::size_t bytes = SharedLink::bytes_needed(static_cast<int>(plan.name.ranks.size()));
    if (auto memory = Handshake(plan).share(bytes)) {
      return std::make_unique<SharedLink>(std::move(*memory), plan.name, plan.guard);
    }
  }
  return std::make_unique<GroupLink>(plan.group());
}

}  // namespace daso
