// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/job_store.h"

#include <algorithm>

#include "daso/base/error.h"
#include "daso/comm/lookout.h"
#include "daso/comm/own_address.h"
#include "daso/comm/rendezvous.h"
#include "daso/comm/views.h"
#include "daso/launch/launch_plan.h"

namespace daso {
namespace {

constexpr Seconds kAskEvery{0.05};
constexpr Seconds kBeatEvery{0.5};
constexpr Seconds kLongest{60};

std::string done_key(int node) { return fmt::format("launcher/{}/done", node); }
std::string beat_key(int node) { return fmt::format("launcher/{}/beat", node); }

FileDescriptor listen_on_node(const ClusterNode& node) {
  const NetworkVisit visit(node.namespaces.network);
  return listen_on({node.address, 0});
}

// Where the store of this launcher is. In a job that survives each has one, beside the place where
// launchers call it.
Address place_of(const LaunchOptions& options) {
  const std::vector<Address> places = launcher_addresses(options);
  if (!options.survival || !options.node_index) return places.front();
  return {places.at(static_cast<std::size_t>(*options.node_index)).host, 0};
}

FileDescriptor listen_for(const LaunchOptions& options, bool several) {
  Address address{"127.0.0.1", 0};
  if (!options.rendezvous.empty()) address = place_of(options);
  if (!options.interface.empty()) {
    address.host = address_on_device(address.host, options.interface);
  }
  FileDescriptor socket = listen_on(address);
  const std::string bound = bound_address(socket).host;
  // Many systems give a machine's own name the address 127.0.1.1.
  require(
      !several || !is_loopback(bound) || is_loopback(address.host) || address.host == "localhost",
      "rendezvous host '{}' means {} here, where other machines cannot reach it; give its "
      "numeric address, or the interface to use",
      address.host, bound);
  return socket;
}

}  // namespace

JobStore::JobStore(const LaunchOptions& options, const ClusterNode* first)
    : nodes_(static_cast<int>(options.ranks_per_node.size())),
      node_(options.node_index.value_or(0)),
      several_(options.node_index.has_value() && nodes_ > 1 && !options.survival),
      for_members_(options.survival.has_value()),
      first_(first) {
  if (several_ && node_ > 0) {
    address_ = parse_address(options.rendezvous);
    // Later it only reports: whoever cannot be reached then must not hold up the end of the job.
    store_ = Store::connect(address_, options.join_limit.value_or(options.limit),
                            std::max(options.grace, Seconds(1)));
  } else {
    const bool for_others = options.node_index.has_value() && nodes_ > 1;
    listening_ = first_ == nullptr ? listen_for(options, for_others) : listen_on_node(*first_);
    address_ = bound_address(listening_);
  }
}

void JobStore::open(const std::string& job_token) {
  if (store_) return;
  // The host is its own first client, and can reach its address only from there.
  std::optional<NetworkVisit> visit;
  if (first_ != nullptr) visit.emplace(first_->namespaces.network);
  store_ = for_members_ ? Store::host_for_members(std::move(listening_), job_token)
                        : Store::host(std::move(listening_));
  mark_job(*store_, job_token);
}

void JobStore::report(const RankEnd& end) {
  try {
    report_gone(*store_, end.rank, text(end));
  } catch (const PeerError&) {
    // The host of the store is gone, which its clients notice by themselves.
  }
}

void JobStore::begin_view(std::int64_t number) {
  if (number <= view_) return;
  view_ = number;
  store_->erase_range(part_of_view(0), part_of_view(number - 1));
}

Seconds JobStore::beat() {
  if (!several_ || node_ == 0) return kLongest;
  if (!beat_.passed()) return beat_.left();
  try {
    store_->add(beat_key(node_), 1);
  } catch (const PeerError&) {
    // Its host is gone, which the ranks notice by themselves.
  }
  beat_ = Deadline(kBeatEvery);
  return kBeatEvery;
}

std::optional<int> JobStore::leave(Seconds limit, const std::function<bool(Seconds)>& pause) {
  if (!several_) return std::nullopt;
  if (node_ > 0) {
    try {
      store_->set(done_key(node_), "done");
    } catch (const PeerError&) {
      // The first launcher does not wait for us any more.
    }
    return std::nullopt;
  }
  const Deadline first(limit);
  for (int node = 1; node < nodes_; ++node) {
    Deadline deadline = first;
    std::int64_t heard = 0;
    while (!store_->find(done_key(node))) {
      if (const std::int64_t beats = store_->add(beat_key(node), 0); beats != heard) {
        heard = beats;
        deadline = Deadline(limit);
      }
      if (deadline.passed()) return node;
      if (pause(kAskEvery)) return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace daso
