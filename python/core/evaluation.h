// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/communicator.h"
#include "daso/tensor/flat_model.h"

namespace daso::python {

// One of the times that an optimizer evaluates the loss in a step.
struct Evaluation {
  std::int64_t step = 0;
  std::int64_t number = 0;  // in the step, from 1; 0: the optimizer is done
  double loss = 0;          // of this rank
};

// The mean loss of ranks that train with the same gradients: the same bits on all of them, since an
// optimizer with a line search goes on by what it finds. Throws Error on all of them where one is
// at another evaluation, or has other parameters: from there on they would wait for each other, or
// take each other's gradients for those of another evaluation.
double common_loss(Communicator& ranks, const FlatModel& model, const Evaluation& own,
                   Seconds limit);

}  // namespace daso::python
