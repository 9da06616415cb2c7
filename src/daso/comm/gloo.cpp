// SPDX-License-Identifier: Apache-2.0
#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "daso/comm/backend.h"
#include "daso/comm/tcp_store.h"

namespace daso {
namespace {

// Operations of a group that are on their way at a time. With Gloo's own 2 a node with one rank
// leaves its link idle while the slowest peer of one operation is waited for.
constexpr int kThreads = 4;

class Gloo final : public Backend {
 public:
  c10::intrusive_ptr<c10d::Backend> make_group(const GroupPlan& plan) override {
    auto options = c10d::ProcessGroupGloo::Options::create(whole_milliseconds(plan.limit));
    options->threads = kThreads;
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(plan.own_address));
    return c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10d_store(plan.store), plan.rank, static_cast<int>(plan.ranks.size()), std::move(options));
  }
};

}  // namespace

std::unique_ptr<Backend> open_gloo() { return std::make_unique<Gloo>(); }

}  // namespace daso
