// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/gloo.h"

#include <c10/util/env.h>

#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace daso {
namespace {

// LibTorch keeps a record of every operation in a table that it changes without a lock, so that two
// threads which use Gloo on two groups can crash the process. The record is of no use to us: off,
// unless the user asked for it. Read once, at the first operation.
void silence_flight_recorder() {
  c10::utils::set_env("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/false);
}

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
        plan.store.c10d(), plan.rank, static_cast<int>(plan.ranks.size()), std::move(options));
  }
};

}  // namespace

std::unique_ptr<Backend> open_gloo() {
  silence_flight_recorder();
  return std::make_unique<Gloo>();
}

}  // namespace daso
