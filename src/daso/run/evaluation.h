// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/world.h"
#include "daso/data/evaluation_loader.h"
#include "daso/record/progress.h"

namespace daso {

class Network;  // in network.h

// The score of a model on all examples, each of the ranks doing its part; the same on all of them.
Score evaluate(Network& network, EvaluationLoader& own_part, Communicator& ranks, World& world);

}  // namespace daso
