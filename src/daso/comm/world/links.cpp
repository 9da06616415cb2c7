// SPDX-License-Identifier: Apache-2.0
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <atomic>

#include "daso/comm/world/body.h"

namespace daso {
namespace {

// A device's link is called so in messages, and so is the link of the hosts that it may borrow.
std::string name_on(const std::string& name, at::Device device) {
  if (device.is_cpu()) return name;
  return fmt::format("{} on {}", name, c10::DeviceTypeName(device.type(), /*lower_case=*/true));
}

std::string key_of_link(const std::string& name, at::Device device) {
  return device.is_cpu() ? name : fmt::format("{} itself", name_on(name, device));
}

}  // namespace

LinkPlan World::Body::link_plan(const std::string& name, at::Device device) {
  const int node = topology.node_of(rank);
  const std::string own_name = name_on(name, device);
  LinkPlan plan{.name = {.text = fmt::format("node {} link {}", node, own_name),
                         .ranks = topology.ranks_of(node),
                         .rank = topology.local_rank_of(rank),
                         .begun = std::make_shared<std::atomic<std::int64_t>>(0)},
                .store = std::nullopt,
                .guard = home,
                .making = home,
                .limit = options.limit,
                .share_memory = options.share_memory,
                .device = device,
                .check_all = options.check_collectives};
  plan.group = [this, ranks = plan.name.ranks, text = plan.name.text]() -> Communicator& {
    return make_group(ranks, text);
  };
  plan.host = [this, own_name]() -> NodeLink& { return link(own_name, at::Device(at::kCPU)); };
  if (plan.name.ranks.size() > 1) {
    plan.store = home_store->under(fmt::format("generation{}/{}", generation, plan.name.text));
  }
  return plan;
}

NodeLink& World::Body::make_link(const std::string& name, at::Device device) {
  const LinkPlan plan = link_plan(name, device);
  std::unique_ptr<NodeLink> made = open_link(plan);
  if (!counts->has(plan.name.text)) {  // or else what it borrows counts
    counts->follow(plan.name.text, [begun = plan.name.begun] { return begun->load(); });
  }
  const std::lock_guard lock(mutex);
  return *links.emplace(key_of_link(name, device), std::move(made)).first->second;
}

NodeLink& World::Body::link(const std::string& name, at::Device device) {
  const std::unique_ptr<NodeLink>* known = find(links, key_of_link(name, device));
  return known == nullptr ? make_link(name, device) : **known;
}

NodeLink& World::node_link(const std::string& name, at::Device device) {
  const bool current = !device.is_cpu() && !device.has_index();
  return body_->link(name,
                     current ? c10::impl::VirtualGuardImpl(device.type()).getDevice() : device);
}

}  // namespace daso
