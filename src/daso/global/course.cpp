// SPDX-License-Identifier: Apache-2.0
#include "daso/global/course.h"

namespace daso {

When Course::at(int epoch, std::int64_t batch) const {
  When when{.epoch = epoch, .step = epoch * batches + batch, .batch = batch, .last = batches - 1};
  when.rate = rate(when.step);
  if (when.step + 1 < steps()) when.next_rate = rate(when.step + 1);
  return when;
}

}  // namespace daso
