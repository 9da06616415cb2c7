// SPDX-License-Identifier: Apache-2.0
#include "daso/record/clock_offset.h"

#include <ATen/ATen.h>

namespace daso {
namespace {

constexpr int kQuestions = 12;

double now() { return Seconds(Clock::now().time_since_epoch()).count(); }

ClockOffset ask(Communicator& ranks, int rank, Seconds limit) {
  ClockOffset best;
  for (int i = 0; i < kQuestions; ++i) {
    const double asked = now();
    ranks.send(at::zeros({1}, at::kDouble), rank).wait(limit);
    const at::Tensor answer = ranks.receive(at::zeros({1}, at::kDouble), rank).wait(limit);
    const double answered = now();
    const double error = (answered - asked) / 2;
    if (i > 0 && error >= best.error) continue;
    best = {.seconds = answer.item<double>() - (asked + answered) / 2, .error = error};
  }
  return best;
}

void answer(Communicator& ranks, Seconds limit) {
  for (int i = 0; i < kQuestions; ++i) {
    ranks.receive(at::zeros({1}, at::kDouble), 0).wait(limit);
    ranks.send(at::full({1}, now(), at::kDouble), 0).wait(limit);
  }
}

}  // namespace

std::vector<ClockOffset> clock_offsets(World& world) {
  Communicator& ranks = world.everyone();
  const at::Tensor all = at::zeros({world.size(), 2}, at::kDouble);
  if (world.rank() != 0) answer(ranks, world.limit());
  for (int rank = 1; rank < world.size() && world.rank() == 0; ++rank) {
    const ClockOffset offset = ask(ranks, rank, world.limit());
    all[rank][0] = offset.seconds;
    all[rank][1] = offset.error;
  }
  ranks.broadcast(all, 0).wait(world.limit());
  std::vector<ClockOffset> offsets;
  offsets.reserve(static_cast<std::size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank) {
    offsets.push_back({all[rank][0].item<double>(), all[rank][1].item<double>()});
  }
  return offsets;
}

}  // namespace daso
