// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/tensor/device.h"

namespace daso::cuda {

// DeviceModule::row_losses and row_gradients.
RowLosses row_losses_of(const at::Tensor& scores, const at::Tensor& labels);
at::Tensor row_gradients_of(const at::Tensor& scores, const at::Tensor& labels,
                            const at::Tensor& log_sums, const at::Tensor& factor);

}  // namespace daso::cuda
