// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <vector>

namespace daso::cuda {

// DeviceModule::copy_reordered.
void copy_reordered(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                    bool to_last);

}  // namespace daso::cuda
