// SPDX-License-Identifier: Apache-2.0
#include "daso/train/summary.h"

#include <nlohmann/json.hpp>

namespace daso {

std::string text_of(const Summary& s) {
  const nlohmann::ordered_json report = {{"strategy", s.strategy},
                                         {"nodes", s.nodes},
                                         {"ranks", s.ranks},
                                         {"epochs", s.epochs},
                                         {"steps", s.steps},
                                         {"seconds", s.seconds},
                                         {"samples_per_second", s.samples_per_second},
                                         {"wait_seconds", s.wait_seconds},
                                         {"exchanges", s.exchanges},
                                         {"staleness_mean", s.staleness_mean},
                                         {"bytes_between_nodes", s.bytes_between_nodes},
                                         {"train_loss", s.train_loss},
                                         {"test_loss", s.test_loss},
                                         {"test_accuracy", s.test_accuracy},
                                         {"exit", s.exit},
                                         {"out", s.out}};
  return report.dump(2) + "\n";
}

}  // namespace daso
