// SPDX-License-Identifier: Apache-2.0
#include "daso/run/train.h"

#include <fmt/format.h>

#include <optional>

#include "daso/run/interrupt.h"
#include "daso/run/session.h"
#include "daso/run/train_output.h"

namespace daso {

int train(World& world, Run& run, const TrainOptions& options) {
  prepare_output(world, run);
  Session session(world, run);
  std::optional<TrainOutput> output;  // rank 0's
  if (world.rank() == 0) {
    output.emplace(
        world, session.course(),
        OutputOptions{.lines = !options.json, .note = options.note, .go_on = options.go_on});
  }
  std::optional<Interrupt> own_interrupt;
  if (options.interrupt == nullptr) own_interrupt.emplace();
  Interrupt& interrupt = own_interrupt ? *own_interrupt : *options.interrupt;
  interrupt.begin();
  const Summary summary = session.train([&](const Progress& now) { (*output)(now); },
                                        [&] { return interrupt.signal(); });
  if (output) {
    output->end(summary);
    if (options.json) fmt::print("{}", text_of(summary));
  }
  interrupt.over();
  return summary.exit;
}

}  // namespace daso
