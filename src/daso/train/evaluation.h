// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/world.h"
#include "daso/data/evaluation_loader.h"

namespace daso {

class Network;  // in network.h

struct Score {
  double loss = 0;          // mean over the labels, in nats; a text has one at each place
  double accuracy = 0;      // 0 ... 1
  double wait_seconds = 0;  // this rank's, for the others
};

// The score of a model on all examples, each rank doing its part; the same on all ranks
// but for the time they waited.
Score evaluate(Network& network, EvaluationLoader& own_part, Communicator& ranks, Seconds limit);

}  // namespace daso
