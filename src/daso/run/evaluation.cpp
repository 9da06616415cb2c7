// SPDX-License-Identifier: Apache-2.0
#include "daso/run/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "daso/nets/network.h"

namespace daso {

Score evaluate(Network& network, EvaluationLoader& own_part, Communicator& ranks, World& world) {
  const at::NoGradGuard no_grad;
  const bool was_training = network.is_training();
  network.eval();
  at::Tensor totals = at::zeros({3}, at::kDouble);  // loss, right labels, all labels
  own_part.start();
  for (std::int64_t i = 0; i < own_part.batches(); ++i) {
    const Batch batch = own_part.next();
    const at::Tensor scores = network.forward(batch.inputs).flatten(0, -2);
    const at::Tensor labels = batch.labels.flatten();
    const at::Tensor loss =
        at::cross_entropy_loss(scores, labels, /*weight=*/{}, at::Reduction::Sum);
    totals[0] += loss.to(at::kDouble);
    totals[1] += scores.argmax(1).eq(labels).sum().to(at::kDouble);
    totals[2] += static_cast<double>(labels.numel());
  }
  network.train(was_training);
  {
    const TimedSpan span(world.timeline(), Track::kCommunicating, "scores", 0);
    totals = ranks.all_reduce(totals, Reduce::kSum).wait(world.limit());
  }
  const double labels = std::max(1.0, totals[2].item<double>());
  return {.loss = totals[0].item<double>() / labels, .accuracy = totals[1].item<double>() / labels};
}

}  // namespace daso
